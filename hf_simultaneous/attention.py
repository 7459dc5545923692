"""Where a decoder position looks in the source, for the few who ask.

Knows one attention module and one call; not who asks."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from .caches import Windows


@contextmanager
def listening(
    attentions: Mapping[int, nn.Module], call: Windows
) -> Iterator[dict[int, torch.Tensor]]:
    """What goes into these attentions during one call, by layer: (queries, 1, width).

    A fast attention does not say where it looked, so that is worked out again for the few who ask.
    Other threads may run the same model; a call is known by its cache."""
    heard: dict[int, torch.Tensor] = {}

    def listener(layer: int) -> Callable[..., None]:
        def listen(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if kwargs["past_key_values"] is call:
                heard[layer] = args[0] if args else kwargs["hidden_states"]

        return listen

    hooks = [
        attention.register_forward_pre_hook(listener(layer), with_kwargs=True)
        for layer, attention in attentions.items()
    ]
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


def cross_weights(query: torch.Tensor, keys: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Attention averaged over heads: from a scaled query, (queries, 1, heads * dim), keys (queries,
    heads, places, dim) and what may be seen, (queries, 1, 1, places), to (queries, places)."""
    shape = (len(query), 1, -1, keys.shape[-1])
    query = query.view(shape).transpose(1, 2)  # (queries, heads, 1, dim)
    scores = query @ keys.transpose(2, 3)  # (queries, heads, 1, places)
    return scores.masked_fill(~seen, float("-inf")).softmax(-1).mean(1)[:, 0]
