"""What is timed: one function per row of the table, each decoding one sentence and returning tokens
written.

Random weights and forced tokens: the cost does not depend on what the words mean.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache

from benchmarks.paths import PATHS, Paced, Replay, wait_k_path
from hf_simultaneous import AdaptiveWaitKGenerator, SimultaneousConfig, SimultaneousMTModel
from hf_simultaneous.ensembles import nearest
from hf_simultaneous.evaluation.descriptions import describe
from hf_simultaneous.policies import AlignAtt, HoldN, LocalAgreement, PsFuture
from hf_simultaneous.quantization import quantize_model
from hf_simultaneous.schedule import FULL


KS = range(1, 11)


@dataclass(frozen=True)
class Job:
    """A row: `run()` does the work once; `predictions` and `tokens` are how much that is. What is
    asked for at the same step counts as one prediction."""

    name: str
    run: Callable[[], Any]
    tokens: int
    predictions: int


def make_models(size: str, vocab: int = 16000) -> dict[int | None, Any]:
    """Ten wait-k models and none trained, each with memory of its own: what it holds does not
    change the cost."""
    torch.manual_seed(0)
    config = SimultaneousConfig.preset(size, vocab_size=vocab)
    return copies(SimultaneousMTModel(config).eval())


def copies(model: Any) -> dict[int | None, Any]:
    return {k: model if k == KS[0] else copy.deepcopy(model) for k in KS}


def sharing(models: dict[int | None, Any]) -> dict[int | None, Any]:
    """The same models, all holding the encoder of the first."""
    made = {}
    for k, model in models.items():
        made[k], inner = copy.copy(model), copy.copy(model.model)
        inner._modules = {**inner._modules, "encoder": models[KS[0]].model.encoder}
        made[k]._modules = {**model._modules, "model": inner}
    return made


def make_source(length: int, vocab: int = 16000) -> list[int]:
    generator = torch.Generator().manual_seed(length)
    return torch.randint(4, vocab, (length,), generator=generator).tolist()


def plain_marian(model: Any) -> Any:
    """transformers' own Marian, of the same size."""
    config = SimultaneousConfig(
        **{**model.config.to_dict(), "encoder_attention": "prefix", "wait_k": None}
    )
    return SimultaneousMTModel(config).to_marian().eval()


def stock_marian(models: dict[int | None, Any], length: int) -> Job:
    """transformers' own `generate`, greedy, source known."""
    marian = plain_marian(models[1])
    marian.generation_config.eos_token_id = None
    source = torch.tensor([make_source(length)])
    mask = torch.ones_like(source)

    def run() -> None:
        marian.generate(
            source, attention_mask=mask, max_new_tokens=length, do_sample=False, num_beams=1
        )

    return Job("stock Marian, greedy generate", run, length, length)


def live(
    name: str,
    models: Any,
    ensembles: Any,
    path: str,
    *,
    history: str = "forced",
    tail_beams: int = 1,
    **replay: Any,
) -> Job:
    """The source arrives token by token."""
    generator, policy, source = prepared(models, ensembles, path, history, replay)
    options = {"policy": policy, "max_new_tokens": len(policy.tokens), "tail_beams": tail_beams}
    return Job(
        name,
        lambda: arriving(generator, source, options),
        path.count("W"),
        _predictions(path, policy),
    )


def offline(name: str, model: Any, policy: Any, path: str) -> Job:
    """A policy over a full-sentence model, live, at the pace of a path."""
    generator = AdaptiveWaitKGenerator({FULL: model}, early_stop=False)
    source, written = make_source(path.count("R") - 1), path.count("W")
    options = {"policy": Paced(path, policy), "max_new_tokens": written}
    return Job(name, lambda: arriving(generator, source, options), written, len(path) - 1)


def arriving(generator: AdaptiveWaitKGenerator, source: list[int], options: Any) -> None:
    """One live session, from the first token to the end."""
    with generator.session(**options) as session:
        for token in source:
            for _ in session.push(token):
                pass
        for _ in session.flush():
            pass


def known(name: str, models: Any, ensembles: Any, path: str, **replay: Any) -> Job:
    """The source is there at the start."""
    generator, policy, source = prepared(models, ensembles, path, "forced", replay)
    return Job(
        name,
        lambda: generator.generate(
            [[*source, 2]], policy=policy, max_new_tokens=len(policy.tokens)
        ),
        path.count("W"),
        _predictions(path, policy),
    )


def prepared(
    models: Any, ensembles: Any, path: str, history: str, replay: Any
) -> tuple[Any, Replay, list[int]]:
    """A generator, the policy that replays the path, and the source it reads, less the `</s>` that
    ends it."""
    tokens = tuple(make_source(path.count("W")))
    generator = AdaptiveWaitKGenerator(models, ensembles=ensembles, history=history)
    return generator, Replay(path, tokens, **replay), make_source(path.count("R") - 1)


def _predictions(path: str, policy: Replay) -> int:
    if not policy.always:
        return path.count("W")
    lag = asked = 0
    for step in path:
        asked += lag >= 1
        lag += 1 if step == "R" else -1
    return asked


def scratch_pass(models: Any, path: str) -> Job:
    """Every prediction: encode what was read and force the whole target, in one parallel pass; no
    state is kept."""

    def predict(model: Any, source: list[int], target: list[int], k: int) -> None:
        states = model.model(
            torch.tensor([source]),
            decoder_input_ids=torch.tensor([[0, *target]]),
            wait_k=k,
            use_cache=False,
        ).last_hidden_state
        (model.lm_head(states[:, -1]) + model.final_logits_bias).softmax(-1).max(-1)

    return _scratch("from scratch, one pass per prediction", predict, models, path)


def scratch_steps(models: Any, path: str) -> Job:
    """Every prediction: encode what was read and force the target token by token; no state is
    kept."""

    def predict(model: Any, source: list[int], target: list[int], k: int) -> None:
        states = model.model.encoder(torch.tensor([source]), wait_k=k).last_hidden_state
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        for token in [0, *target]:
            hidden = model.model.decoder(
                torch.tensor([[token]]),
                encoder_hidden_states=states,
                past_key_values=cache,
                wait_k=k,
                use_cache=True,
            ).last_hidden_state
        (model.lm_head(hidden[:, -1]) + model.final_logits_bias).softmax(-1).max(-1)

    return _scratch("from scratch, token by token", predict, models, path)


def _scratch(
    name: str, predict: Callable[[Any, list[int], list[int], int], None], models: Any, path: str
) -> Job:
    source, tokens = [*make_source(path.count("R") - 1), 2], make_source(path.count("W"))

    @torch.inference_mode()
    def run() -> None:
        read = written = 0
        for step in path:
            if read > written or read == len(source):
                k = 10 if read == len(source) else read - written
                predict(models[nearest(k, list(models))[0]], source[:read], tokens[:written], k)
            read, written = (read + 1, written) if step == "R" else (read, written + 1)

    policy = Replay(path, tuple(tokens))
    return Job(name, run, path.count("W"), _predictions(path, policy))


def int8_jobs(models: Any, path: str, three: str) -> dict[str, Job]:
    """The same models in 8 bits."""
    small = copies(quantize_model(copy.deepcopy(models[KS[0]])))
    known_three = known("wait-3, int8, known", small, "single", three, always=False, k=3)
    return {
        "int8_wait3_known": known_three,
        "int8_wait3": live("wait-3, int8, live", small, "single", three, always=False, k=3),
        "int8_single": live("single, int8, live", small, "single", path),
        "int8_top3": live("top-3, int8, live", small, "top-3", path),
    }


def standard_jobs(models: Any, length: int) -> dict[str, Job]:
    """The rows of the table at one sentence length."""
    path, three = PATHS[length], wait_k_path(3, length)
    one_encoder = sharing(models)
    full = "R" * length + "W" * length
    return {
        "marian_greedy": stock_marian(models, length),
        "full_known": known("full sentence", models, "single", full, always=False, k=10),
        "wait3_known": known("wait-3, source known", models, "single", three, always=False, k=3),
        "wait3": live("wait-3, live", models, "single", three, always=False, k=3),
        "single_known": known("single, source known", models, "single", path),
        "single": live("single, live", models, "single", path),
        "top3": live("top-3, live", models, "top-3", path),
        "single_shared": live("single, one encoder, live", one_encoder, "single", path),
        "top3_shared": live("top-3, one encoder, live", one_encoder, "top-3", path),
        "all": live("all ten, live", models, "all", path),
        "path": live(
            "one model, history='path', live", {1: models[1]}, "single", path, history="path"
        ),
        "tail": live(
            "full sentence searched with 5 beams, live",
            models,
            "single",
            full,
            tail_beams=5,
            always=False,
            k=10,
        ),
        **{
            f"offline_{type(policy).__name__}": offline(
                f"{describe(policy)}, live", models[10], policy, three
            )
            for policy in (LocalAgreement(2), HoldN(2), AlignAtt(2), PsFuture(0.08))
        },
        **int8_jobs(models, path, three),
        "scratch_pass": scratch_pass(models, path),
        "scratch_steps": scratch_steps(models, path),
    }
