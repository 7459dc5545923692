"""What a model's `forward` was given, checked: k, the source and its mask; an error here, not three
frames down.

Knows what is allowed, not what is done with it. Ships inside checkpoints, so it imports its
siblings only."""

from typing import Any, Literal, TypeAlias

import torch

from .configuration_simultaneous import SimultaneousConfig
from .masks import packed_source_len
from .schedule import FULL, is_at_least_one


WaitKArgument: TypeAlias = int | torch.Tensor | Literal["full"] | None


def resolve_wait_k(
    wait_k: WaitKArgument, config: SimultaneousConfig, batch: int, steps: int | None = None
) -> int | torch.Tensor | None:
    """What a caller gave, or the config's default, as a checked k; None from here on is the full
    sentence. A k for each of the target's `steps` is a path, which the encoder need not count."""
    k: Any = config.wait_k if wait_k is None else wait_k
    if k is None or (isinstance(k, str) and k == FULL):
        return None
    if isinstance(k, torch.Tensor) and k.ndim == 0:
        k = k.item()
    if not isinstance(k, torch.Tensor):
        if not is_at_least_one(k):
            raise ValueError(
                f"wait_k must be an integer of 1 or more, a tensor with one for each sentence, or "
                f"'full'; got {k!r}"
            )
        return k
    if k.shape != (batch,) and (k.ndim != 2 or k.shape != (batch, steps or k.shape[1])):
        raise ValueError(
            f"wait_k as a tensor has one k for each of the {batch} sentences, or for each of their "
            f"steps{f', {steps}' if steps else ''}; got {tuple(k.shape)}"
        )
    if (
        k.is_floating_point()
        or k.dtype == torch.bool
        or (not torch.compiler.is_compiling() and (k < 1).any())
    ):
        raise ValueError(f"every k in wait_k must be an integer of 1 or more; got {k.tolist()}")
    return k


def check_source(
    batch: int, source_len: int, attention_mask: torch.Tensor | None, limit: int
) -> None:
    """Refuse a source that cannot be encoded, here rather than three frames down."""
    if source_len == 0:
        raise ValueError("the source is empty; give at least one token (</s> alone will do)")
    if source_len > limit:
        raise ValueError(
            f"the source has {source_len} tokens, but this model has positions for {limit} "
            f"(max_position_embeddings). "
            "Split it into sentences"
        )
    if attention_mask is None or attention_mask.ndim == 4:
        return
    if attention_mask.shape != (batch, source_len):
        raise ValueError(
            f"attention_mask must have the source's shape, {(batch, source_len)}; got "
            f"{tuple(attention_mask.shape)}"
        )
    read = attention_mask.bool()
    if not read.any(-1).all():
        empty = (~read.any(-1)).nonzero().flatten().tolist()
        raise ValueError(
            f"attention_mask hides every source token of sentence {empty}; each needs at least one"
        )
    if (read[:, 1:] & ~read[:, :-1]).any():
        raise ValueError(
            "pad sources on the right: attention_mask has a 0 before a 1. Set "
            "tokenizer.padding_side='right'"
        )


def source_lengths(
    attention_mask: torch.Tensor | None, batch: int, source_len: int, device: torch.device
) -> torch.Tensor:
    """How many real tokens each source has: padding never counts as read."""
    if attention_mask is None:
        return torch.full((batch,), source_len, device=device)
    return attention_mask.to(device).long().sum(-1)


def source_len_of(states: int, packed: bool, source_mask: torch.Tensor | None) -> int:
    """The source length behind `states` encoder states, which must have been made for the same
    layout."""
    found = packed_source_len(states) if packed else states
    if found is None or (source_mask is not None and source_mask.shape[1] != found):
        need = "one for each token of every prefix" if packed else "one for each source token"
        given = (
            ""
            if source_mask is None
            else f", and attention_mask covers {source_mask.shape[1]} tokens"
        )
        raise ValueError(
            f"encoder_outputs must hold the states that this wait_k needs, {need}; got {states} "
            f"states{given}. "
            "Give the encoder the same attention_mask and wait_k, or leave encoder_outputs out"
        )
    return found
