"""Tiny models with random weights, and what to feed them.

The weights are large: at the library's own `init_std` a leak of the future is smaller than any
ordinary tolerance."""

from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache

from hf_simultaneous import SimultaneousConfig, SimultaneousMTModel
from hf_simultaneous.schedule import K, visible


PAD, BOS, EOS, VOCABULARY = 0, 1, 2, 40
SIZES = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 64,  # the position table is slow to make
}
TOKENS = {
    "vocab_size": VOCABULARY,
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": PAD,
}
# Every greedy translation of a tied model is one word again and again; these say more.
TALKATIVE = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}


def tiny_config(**overrides: Any) -> SimultaneousConfig:
    return SimultaneousConfig(
        **{**SIZES, **TOKENS, "init_std": 0.5, "scale_embedding": True, **overrides}
    )


def tiny_model(
    seed: int = 0, dtype: torch.dtype = torch.float32, **overrides: Any
) -> SimultaneousMTModel:
    """In eval mode; the same seed and overrides give the same weights."""
    torch.manual_seed(seed)
    model = SimultaneousMTModel(tiny_config(**overrides))
    torch.nn.init.normal_(model.final_logits_bias)
    model.final_logits_bias[:, PAD] = -100.0  # padding is never written
    return model.to(dtype).eval()


def words(*shape: int, seed: int = 0) -> torch.Tensor:
    """Random tokens, none of them special."""
    return torch.randint(EOS + 1, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def batch(*lengths: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources that end in `</s>`, padded on the right, and their attention mask."""
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    source = words(len(lengths), max(lengths), seed=seed) * mask
    source[torch.arange(len(lengths)), torch.tensor(lengths) - 1] = EOS
    return source, mask


@torch.no_grad()
def from_first_principles(
    model: SimultaneousMTModel, source: torch.Tensor, target: torch.Tensor, k: K | list[int]
) -> torch.Tensor:
    """Logits without a single mask: before each step, what has been read is encoded as if it were
    the whole source. A list has a k for every step.

    A `prefix` model does this with transformers' own `MarianMTModel`, so none of our forward passes
    is trusted."""
    causal = model.config.encoder_attention == "causal"
    plain, options = (model, {"wait_k": "full"}) if causal else (model.to_marian(), {})
    written, logits = DynamicCache(config=plain.config), []
    for step in range(1, target.shape[1] + 1):
        now = k[step - 1] if isinstance(k, list) else k
        read = visible(step, now, source.shape[1], model.config.catchup)
        cache = EncoderDecoderCache(written, DynamicCache(config=plain.config))
        outputs = plain(
            source[:, :read],
            decoder_input_ids=target[:, step - 1 : step],
            past_key_values=cache,
            **options,
        )
        logits.append(outputs.logits)
    return torch.cat(logits, dim=1)
