"""The step of a BART-like model with nothing around it, and what T5's shares with it (`lean_t5`):
the same weights and the same numbers, to rounding.

A live step runs a position or two through every layer, and what transformers does around the
products (modules in modules, caches of any kind, masks) takes longer than they do in small models.
Here q, k and v are one product, and so are the keys and values of a source token for all layers.
Serves the decoder, a causal encoder and one source at a time; padded sources go through the model's
own encoder.
Where somebody listens to a module, or asks where it looks, the model's own layers are run."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import nn

from .adapters import BartLike, Ours, embedded
from .caches import Window, Windows
from .packing import Product, hooked, product


BART_PRODUCTS = {"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2", "lm_head"}
"""What its linear layers are called; another kind of layer in such a place is not known here."""
Norms = tuple[Product, Product]
"""What is done before and after."""


class Attention:
    """Self-attention, or what attends to the source: then keys and values are not its own."""

    def __init__(self, projections: Sequence[Any], out: Any, norms: Norms, scale: float):
        self.queries = product(*projections)
        self.out = product(out)
        self.before, self.after = norms
        self.scale = scale
        self.source = len(projections) == 1

    def __call__(
        self, hidden: torch.Tensor, layer: int, window: Any, mask: torch.Tensor | None
    ) -> torch.Tensor:
        query = self.queries(self.before(hidden))
        if not self.source:
            width = query.size(1) // 3
            window.append(layer, query.narrow(1, width, 2 * width))
            query = query.narrow(1, 0, width)
        attend = _each_its_own if window.one is None else _one_sequence
        looked = attend(query, layer, window, mask, self.scale)
        return self.after(self.out(looked).add_(hidden))


def _one_sequence(
    query: torch.Tensor, layer: int, window: Any, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    """Rows that look at the same sequence are positions of one attention: (rows, width)."""
    keys, values = window.sequences[layer]
    query = query.view(query.size(0), keys.size(0), -1).transpose(0, 1)  # (heads, rows, dim)
    added, share = (query[:, :, :1], 0) if mask is None else (mask, 1)
    scores = torch.baddbmm(added, query, keys.transpose(1, 2), beta=share, alpha=scale)
    looked = torch.bmm(scores.softmax(-1), values)
    return looked.transpose(0, 1).reshape(looked.size(1), -1)


def _each_its_own(
    query: torch.Tensor, layer: int, window: Window, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    keys, values = window[layer]
    query = query.view(query.size(0), keys.size(1), 1, -1)
    looked = nn.functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, scale=scale
    )
    return looked.reshape(query.size(0), -1)


class FeedForward:
    def __init__(self, widen: Product, activation: Product, narrow: Any, norms: Norms):
        self.widen = widen
        self.activation = activation
        self.narrow = product(narrow)
        self.before, self.after = norms

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        wide = self.activation(self.widen(self.before(hidden)))
        return self.after(self.narrow(wide).add_(hidden))


class Whole:
    """What a window is to a step, for a sequence that one call sees as a whole."""

    one = 0

    def __init__(self, heads: int):
        self._heads = heads
        self.sequences: dict[int, Sequence[torch.Tensor]] = {}

    def append(self, layer: int, new: torch.Tensor) -> None:
        stored = new.view(len(new), 2, self._heads, -1)
        self.sequences[layer] = stored.transpose(0, 2).unbind(1)  # (heads, places, dim) each


def as_it_is(hidden: torch.Tensor) -> torch.Tensor:
    return hidden


def _attention(module: Any, norm: Any, *, source: bool = False, first: bool) -> Attention:
    projections = [module.q_proj] if source else [module.q_proj, module.k_proj, module.v_proj]
    return Attention(projections, module.out_proj, _norms(norm, first), module.scaling)


def _feed_forward(layer: Any, first: bool) -> FeedForward:
    norms = _norms(layer.final_layer_norm, first)
    return FeedForward(product(layer.fc1), layer.activation_fn.forward, layer.fc2, norms)


def _norms(norm: Any, first: bool) -> Norms:
    """What is done before and after: some families' layers begin with their norm, some end."""
    return (_norm(norm), as_it_is) if first else (as_it_is, _norm(norm))


def _ends(stack: Any) -> tuple[bool, Product]:
    """Do its layers begin with their norms, and what is done after the last layer?"""
    last = getattr(stack, "layer_norm", None)
    return last is not None, as_it_is if last is None else _norm(last)


def _norm(norm: Any) -> Product:
    arguments = (norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    return lambda hidden: torch.layer_norm(hidden, *arguments)


class LeanDecoder:
    """What the decoders of all families have in common."""

    layers: int
    _layers: Sequence[tuple[Attention, Attention, FeedForward]]
    _last: Product
    _project: Product

    def projected(self, states: torch.Tensor) -> torch.Tensor:
        return self._project(states).view(len(states), self.layers, 2, -1)

    def _run(
        self, hidden: torch.Tensor, windows: Windows, masks: Sequence[torch.Tensor | None]
    ) -> torch.Tensor:
        """All layers; the masks of the target are one for all of them, or one for each."""
        own, source = windows.own, windows.source
        source_mask = source.added_mask()
        for index, (attend, look, forward) in enumerate(self._layers):
            hidden = attend(hidden, index, own, masks[index % len(masks)])
            hidden = forward(look(hidden, index, source, source_mask))
        return self._last(hidden)


class LeanBart(LeanDecoder, BartLike):
    """The decoder, and the encoder for one source."""

    def __init__(self, model: Any):
        super().__init__(model)
        decoder = self._decoder
        first, self._last = _ends(decoder)
        self._layers = [
            (
                _attention(layer.self_attn, layer.self_attn_layer_norm, first=first),
                _attention(
                    layer.encoder_attn, layer.encoder_attn_layer_norm, source=True, first=first
                ),
                _feed_forward(layer, first),
            )
            for layer in decoder.layers
        ]
        looks = [layer.encoder_attn for layer in decoder.layers]
        self._project = product(*(one for look in looks for one in (look.k_proj, look.v_proj)))
        self._listened: Sequence[nn.Module] = looks
        self._say = product(self._head)

    @cached_property
    def _source_layers(self) -> list[tuple[Attention, FeedForward]]:
        """Laid out when first used: of members that share an encoder, one runs it."""
        first, _ = _ends(self._encoder)
        return [
            (
                _attention(layer.self_attn, layer.self_attn_layer_norm, first=first),
                _feed_forward(layer, first),
            )
            for layer in self._encoder.layers
        ]

    def encode(self, sources: Sequence[Sequence[int]]) -> torch.Tensor:
        if len(sources) > 1:  # they are padded, and masked
            return super().encode(sources)
        tokens = torch.tensor(sources[0], device=self.device)
        past = Whole(self.config.encoder_attention_heads)
        states = self._encoded(tokens, torch.arange(len(tokens), device=self.device), past, None)
        _, last = _ends(self._encoder)
        return last(states)[None]

    def _encoded(
        self, tokens: torch.Tensor, positions: torch.Tensor, past: Any, mask: torch.Tensor | None
    ) -> torch.Tensor:
        hidden = embedded(self._encoder, tokens, positions)
        for index, (attend, forward) in enumerate(self._source_layers):
            hidden = forward(attend(hidden, index, past, mask))
        return hidden

    def decode(
        self, tokens: torch.Tensor, positions: torch.Tensor, windows: Windows
    ) -> torch.Tensor:
        if any(map(hooked, self._listened)):
            return super().decode(tokens, positions, windows)
        hidden = embedded(self._decoder, tokens[:, 0], positions[:, 0])
        return self._run(hidden, windows, [windows.own.added_mask()])

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = self._say(hidden)
        return logits if self._bias is None else logits.add_(self._bias)


class LeanOurs(Ours, LeanBart):
    """`SimultaneousMTModel`: its causal encoder too."""

    def extend(self, tokens: torch.Tensor, positions: torch.Tensor, past: Window) -> torch.Tensor:
        return self._encoded(tokens[:, 0], positions[:, 0], past, past.added_mask())
