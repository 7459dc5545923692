"""The step of T5 and its relatives with nothing around it, as `lean` has it for BART's.

What a position adds for how far away another is, is looked up in a table that is made once. Knows
T5's layers; attention and feed-forward themselves are `lean`'s."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import nn

from .adapters_t5 import T5Like
from .caches import Windows
from .lean import Attention, FeedForward, LeanDecoder, Norms, Whole, as_it_is
from .packing import Product, hooked, product


T5_PRODUCTS = {"q", "k", "v", "o", "wi", "wi_0", "wi_1", "wo", "lm_head"}
"""As `BART_PRODUCTS`."""


class LeanT5(LeanDecoder, T5Like):
    """The decoder, and the encoder for one source."""

    def __init__(self, model: Any):
        super().__init__(model)
        self._layers = [
            (_attention(own.SelfAttention, own), _looking(look), _feed_forward(forward))
            for own, look, forward in (block.layer for block in self._decoder.block)
        ]
        self._listened: Sequence[nn.Module] = [self.cross_attention(n) for n in range(self.layers)]
        looks: list[Any] = list(self._listened)
        self._project = product(*(one for look in looks for one in (look.k, look.v)))
        self._far = _Distances(self._decoder)
        self._last = _norm(self._decoder.final_layer_norm)
        self._say = product(self._head)

    @cached_property
    def _source_layers(self) -> list[tuple[Attention, FeedForward]]:
        blocks = (block.layer for block in self._encoder.block)
        return [(_attention(own.SelfAttention, own), _feed_forward(last)) for own, last in blocks]

    @cached_property
    def _source_far(self) -> "_Distances":
        return _Distances(self._encoder)

    def encode(self, sources: Sequence[Sequence[int]]) -> torch.Tensor:
        if len(sources) > 1:  # they are padded, and masked
            return super().encode(sources)
        hidden = self._encoder.embed_tokens(torch.tensor(sources[0], device=self.device))
        places = torch.arange(len(hidden), device=self.device)
        biases = self._source_far.biases(places[:, None], len(hidden))
        past = Whole(self.heads)
        for index, (attend, forward) in enumerate(self._source_layers):
            hidden = forward(attend(hidden, index, past, biases[index % len(biases)]))
        states: torch.Tensor = self._encoder.final_layer_norm(hidden)
        return states[None]

    def decode(
        self, tokens: torch.Tensor, positions: torch.Tensor, windows: Windows
    ) -> torch.Tensor:
        if any(map(hooked, self._listened)):
            return super().decode(tokens, positions, windows)
        biases, mask = self._far.biases(positions, windows.own.width), windows.own.added_mask()
        if windows.own.one is None:
            biases = [bias.transpose(0, 1)[:, :, None] for bias in biases]
        if mask is not None:
            biases = [bias + mask for bias in biases]
        return self._run(self._decoder.embed_tokens(tokens[:, 0]), windows, biases)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._say(hidden if self._scale == 1.0 else hidden * self._scale)


class _Distances:
    """What a stack's layers add to scores, by distance: one table for all, or one for each."""

    def __init__(self, stack: Any):
        attentions = [block.layer[0].SelfAttention for block in stack.block]
        first = attentions[0]
        # Beyond this, all distances are one.
        self._most = max(
            first.relative_attention_max_distance, first.relative_attention_num_buckets
        )
        self._tables: list[torch.Tensor] = [  # (heads, distances)
            one.compute_bias(1, 2 * self._most + 1, past_seen_tokens=self._most)[0, :, 0].detach()
            for one in attentions
            if one.has_relative_attention_bias
        ]

    def biases(self, positions: torch.Tensor, width: int) -> list[torch.Tensor]:
        """By table, of positions (queries, 1) that look at `width` places: (heads, queries,
        places)."""
        distance = torch.arange(width, device=positions.device) - positions
        rows = distance.clamp_(-self._most, self._most).add_(self._most)
        return [table[:, rows] for table in self._tables]


def _attention(module: Any, layer: Any) -> Attention:
    projections = [module.q, module.k, module.v]
    return Attention(projections, module.o, _norms(layer), module.scaling)


def _looking(layer: Any) -> Attention:
    module = layer.EncDecAttention
    return Attention([module.q], module.o, _norms(layer), module.scaling)


def _feed_forward(layer: Any) -> FeedForward:
    dense = layer.DenseReluDense
    if hasattr(dense, "wi"):
        return FeedForward(product(dense.wi), dense.act.forward, dense.wo, _norms(layer))
    gate = dense.act.forward

    def gated(wide: torch.Tensor) -> torch.Tensor:
        opened, through = wide.chunk(2, 1)
        return gate(opened).mul_(through)

    return FeedForward(product(dense.wi_0, dense.wi_1), gated, dense.wo, _norms(layer))


def _norms(layer: Any) -> Norms:
    return _norm(layer.layer_norm), as_it_is


def _norm(norm: Any) -> Product:
    if norm.weight.dtype != torch.float32:  # theirs rounds in between
        own: Product = norm.forward
        return own
    arguments = (norm.weight.shape, norm.weight, norm.variance_epsilon)
    return lambda hidden: torch.rms_norm(hidden, *arguments)
