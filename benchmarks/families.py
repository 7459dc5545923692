"""Stock models of other families under test-time wait-3, live, against their own `generate`.

Random weights, as in `jobs`. Their encoders are bidirectional, so every prefix is encoded anew,
which `generate`, given the whole source, does once."""

from typing import Any

import torch
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

from benchmarks.jobs import Job, live, make_source
from benchmarks.paths import wait_k_path
from hf_simultaneous import SimultaneousConfig
from hf_simultaneous.schedule import FULL


TOKENS = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}


def family_jobs(size: str, length: int = 28, vocab: int = 16000) -> dict[str, Job]:
    """By family: `generate` of the stock model, and ours."""
    jobs = {}
    for name, model in (("m2m_100", _m2m_100(size, vocab)), ("t5", _t5(size, vocab))):
        jobs[f"{name}_generate"] = _generate(name, model, length)
        jobs[f"{name}_wait3"] = live(
            f"{name}, {size}, wait-3, live",
            {FULL: model},
            "single",
            wait_k_path(3, length),
            always=False,
            k=3,
        )
    return jobs


def _m2m_100(size: str, vocab: int) -> Any:
    like = SimultaneousConfig.preset(size, vocab_size=vocab)
    names = ("d_model", "encoder_layers", "decoder_layers", "encoder_ffn_dim", "decoder_ffn_dim")
    heads = ("encoder_attention_heads", "decoder_attention_heads")
    sizes = {one: getattr(like, one) for one in (*names, *heads)}
    torch.manual_seed(0)
    return M2M100ForConditionalGeneration(M2M100Config(vocab_size=vocab, **sizes, **TOKENS)).eval()


def _t5(size: str, vocab: int) -> Any:
    like = SimultaneousConfig.preset(size, vocab_size=vocab)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=vocab,
        d_model=like.d_model,
        d_kv=like.d_model // like.decoder_attention_heads,
        d_ff=like.decoder_ffn_dim,
        num_layers=like.encoder_layers,
        num_decoder_layers=like.decoder_layers,
        num_heads=like.decoder_attention_heads,
        **TOKENS,
    )
    return T5ForConditionalGeneration(config).eval()


def _generate(name: str, model: Any, length: int) -> Job:
    """The source known, greedy, until the length is reached."""
    source = torch.tensor([[*make_source(length - 1), 2]])
    options = {"max_new_tokens": length, "min_new_tokens": length, "do_sample": False}

    def run() -> None:
        model.generate(source, attention_mask=torch.ones_like(source), num_beams=1, **options)

    return Job(f"{name}, greedy generate", run, length, length)
