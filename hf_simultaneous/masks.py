"""g(t) as attention masks: which source positions each target step may look at.

Knows tensors and `schedule`, not models. Ships inside checkpoints, so it imports its siblings only.

Two layouts of the source exist. *Plain*: one state per source token, for the causal encoder and for
full sentences. *Packed*: the states of every prefix one after another (prefix 1, then the two of
prefix 2, ...), for a bidirectional encoder under wait-k, where a token's state changes with every
token that follows it."""

from math import isqrt
from typing import Any

import torch

from .schedule import reach


def visible_counts(
    steps: torch.Tensor, k: int | torch.Tensor, lengths: torch.Tensor, catchup: int | None = None
) -> torch.Tensor:
    """g(t) for a batch: `steps` (T,) or (B, T) from 1, k a number, one per sentence (B,) or one per
    step (B, T), `lengths` (B,) -> (B, T)."""
    if isinstance(k, torch.Tensor):
        k = k.to(lengths.device).reshape(len(k), -1)
    return torch.minimum(reach(steps, k, catchup), lengths[:, None])


def plain_cross_mask(visible: torch.Tensor, width: int) -> torch.Tensor:
    """True where source position s <= g(t): (B, T) -> (B, 1, T, width)."""
    return (torch.arange(width, device=visible.device) < visible[..., None])[:, None]


def packed_cross_mask(visible: torch.Tensor, width: int) -> torch.Tensor:
    """True on the states of the one prefix that has g(t) tokens: (B, T) -> (B, 1, T, width)."""
    return (packed_prefixes(width, visible.device) == visible[..., None])[:, None]


def packed_width(source_len: int) -> int:
    """How many states the packed layout holds for a source of this many positions."""
    return source_len * (source_len + 1) // 2


def packed_source_len(width: int) -> int | None:
    """The inverse of `packed_width`; None where no source has that many."""
    source_len = (isqrt(8 * width + 1) - 1) // 2
    return source_len if packed_width(source_len) == width else None


def packed_prefixes(width: int, device: torch.device) -> torch.Tensor:
    """For each state of the packed layout, the length of the prefix it belongs to: 1, 2 2, 3 3 3,
    ..."""
    source_len = packed_source_len(width)
    if source_len is None:
        raise ValueError(
            f"the prefixes of a source have 1, 3, 6, 10, ... states together; got {width}"
        )
    lengths = torch.arange(1, source_len + 1, device=device)
    return lengths.repeat_interleave(lengths, output_size=width)


def up_to(counts: torch.Tensor, width: int) -> torch.Tensor:
    """True on the first `counts` of `width` places: (N, 1) -> (N, 1, 1, width)."""
    return (torch.arange(width, device=counts.device) < counts)[:, None, None]


def for_attention(allowed: torch.Tensor, config: Any, dtype: torch.dtype) -> torch.Tensor:
    """A boolean mask in the form the attention in use wants: eager adds it, sdpa takes it as it
    is."""
    if config._attn_implementation != "eager":
        return allowed
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(
        ~allowed, torch.finfo(dtype).min
    )
