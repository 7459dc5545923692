"""Marian's step with nothing around it: the same weights and the same numbers, to rounding.

A live step runs a position or two through every layer, and what transformers does around the
products (modules in modules, caches of any kind, masks) takes longer than they do in small models.
Here q, k and v are one product, and so are the keys and values of a source token for all layers.
Serves the decoder's step and a causal encoder's; whole sources go through the model's own encoder.
Where somebody listens to a module, or asks where it looks, the model's own layers are run."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from .adapters import BartLike, Ours
from .caches import Window, Windows
from .packing import hooked, product
from .quantization import Int8Linear


class _Attention:
    """Self-attention, or what attends to the source: then keys and values are not its own."""

    def __init__(self, module: Any, norm: Any, *, source: bool = False):
        projections = [module.q_proj] if source else [module.q_proj, module.k_proj, module.v_proj]
        self.queries = product(*projections)
        self.out = product(module.out_proj)
        self.norm = _Norm(norm)
        self.scale = module.scaling
        self.source = source

    def __call__(
        self, hidden: torch.Tensor, layer: int, window: Window, mask: torch.Tensor | None
    ) -> torch.Tensor:
        query = self.queries(hidden)
        if not self.source:
            width = hidden.size(1)
            window.append(layer, query.narrow(1, width, 2 * width))
            query = query.narrow(1, 0, width)
        attend = _each_its_own if window.one is None else _one_sequence
        looked = attend(query, layer, window, mask, self.scale)
        return self.norm(self.out(looked).add_(hidden))


def _one_sequence(
    query: torch.Tensor, layer: int, window: Window, mask: torch.Tensor | None, scale: float
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


class _FeedForward:
    def __init__(self, layer: Any):
        self.widen = product(layer.fc1)
        self.activation = layer.activation_fn.forward
        self.narrow = product(layer.fc2)
        self.norm = _Norm(layer.final_layer_norm)

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.norm(self.narrow(self.activation(self.widen(hidden))).add_(hidden))


class _Norm:
    def __init__(self, norm: nn.LayerNorm):
        self.arguments = (norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.layer_norm(hidden, *self.arguments)


class _Words:
    """Embeddings of tokens at positions."""

    def __init__(self, module: Any, places: torch.Tensor):
        self.words = module.embed_tokens.forward
        self.scale = module.embed_scale
        self.places = places

    def __call__(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        places = self.places.index_select(0, positions)
        return torch.add(places, self.words(tokens), alpha=self.scale)


class LeanMarian(BartLike):
    """Marian's decoder."""

    def __init__(self, model: Any):
        super().__init__(model)
        decoder = self._decoder
        self._words = _Words(decoder, self._places)
        self._layers = [
            (
                _Attention(layer.self_attn, layer.self_attn_layer_norm),
                _Attention(layer.encoder_attn, layer.encoder_attn_layer_norm, source=True),
                _FeedForward(layer),
            )
            for layer in decoder.layers
        ]
        looks = [layer.encoder_attn for layer in decoder.layers]
        self._project = product(*(one for look in looks for one in (look.k_proj, look.v_proj)))
        self._listened: Sequence[nn.Module] = looks
        self._say = product(self._head)

    def projected(self, states: torch.Tensor) -> torch.Tensor:
        return self._project(states).view(len(states), self.layers, 2, -1)

    def decode(
        self, tokens: torch.Tensor, positions: torch.Tensor, windows: Windows
    ) -> torch.Tensor:
        if any(map(hooked, self._listened)):
            return super().decode(tokens, positions, windows)
        own, source = windows.own, windows.source
        own_mask, source_mask = own.added_mask(), source.added_mask()
        hidden = self._words(tokens[:, 0], positions[:, 0])
        for index, (attend, look, forward) in enumerate(self._layers):
            hidden = attend(hidden, index, own, own_mask)
            hidden = forward(look(hidden, index, source, source_mask))
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = self._say(hidden)
        return logits if self._bias is None else logits.add_(self._bias)


class LeanOurs(Ours, LeanMarian):
    """`SimultaneousMTModel`: its causal encoder too."""

    @cached_property
    def _source_steps(self) -> tuple[_Words, list[tuple[_Attention, _FeedForward]]]:
        """Laid out when first used: of members that share an encoder, one runs it."""
        encoder = self._encoder
        return _Words(encoder, encoder.embed_positions.weight), [
            (_Attention(layer.self_attn, layer.self_attn_layer_norm), _FeedForward(layer))
            for layer in encoder.layers
        ]

    def extend(self, tokens: torch.Tensor, positions: torch.Tensor, past: Window) -> torch.Tensor:
        mask = past.added_mask()
        words, layers = self._source_steps
        hidden = words(tokens[:, 0], positions[:, 0])
        for index, (attend, forward) in enumerate(layers):
            hidden = forward(attend(hidden, index, past, mask))
        return hidden


_LEAN: dict[type[Any], type[BartLike]] = {BartLike: LeanMarian, Ours: LeanOurs}
_PRODUCTS = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2", "lm_head")


def lean(family: type[Any], model: Any) -> type[BartLike] | None:
    """The adapter that runs this model lean, if there is one and nobody listens."""
    known = model.config.model_type in ("marian", "simultaneous-mt") and not model.training
    # Marian clamps what does not fit into half precision.
    if not known or model.dtype == torch.float16 or _has_any_global_hook():
        return None
    for module in model.modules():
        children = [one for name, one in module._modules.items() if name in _PRODUCTS]
        if hooked(module) or not all(type(one) in (nn.Linear, Int8Linear) for one in children):
            return None
    return _LEAN.get(family)
