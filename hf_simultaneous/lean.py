"""The step of a BART-like model with nothing around it: the same weights and the same numbers, to
rounding.

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
from torch.nn.modules.module import _has_any_global_hook

from .adapters import BartLike, Ours, embedded
from .caches import Window, Windows
from .packing import Product, hooked, product
from .quantization import Int8Linear


class _Attention:
    """Self-attention, or what attends to the source: then keys and values are not its own."""

    def __init__(self, module: Any, norm: Any, *, source: bool = False, first: bool = False):
        projections = [module.q_proj] if source else [module.q_proj, module.k_proj, module.v_proj]
        self.queries = product(*projections)
        self.out = product(module.out_proj)
        self.before, self.after = _norms(norm, first)
        self.scale = module.scaling
        self.source = source

    def __call__(
        self, hidden: torch.Tensor, layer: int, window: Any, mask: torch.Tensor | None
    ) -> torch.Tensor:
        query = self.queries(self.before(hidden))
        if not self.source:
            width = hidden.size(1)
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


class _FeedForward:
    def __init__(self, layer: Any, *, first: bool = False):
        self.widen = product(layer.fc1)
        self.activation = layer.activation_fn.forward
        self.narrow = product(layer.fc2)
        self.before, self.after = _norms(layer.final_layer_norm, first)

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        wide = self.activation(self.widen(self.before(hidden)))
        return self.after(self.narrow(wide).add_(hidden))


def _norms(norm: Any, first: bool) -> tuple[Product, Product]:
    """What is done before and after: some families' layers begin with their norm, some end."""
    return (_norm(norm), _as_it_is) if first else (_as_it_is, _norm(norm))


def _ends(stack: Any) -> tuple[bool, Product]:
    """Do its layers begin with their norms, and what is done after the last layer?"""
    last = getattr(stack, "layer_norm", None)
    return last is not None, _as_it_is if last is None else _norm(last)


def _norm(norm: Any) -> Product:
    arguments = (norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    return lambda hidden: torch.layer_norm(hidden, *arguments)


def _as_it_is(hidden: torch.Tensor) -> torch.Tensor:
    return hidden


class _Whole:
    """What a window is to a step, for a sequence that one call sees as a whole."""

    one = 0

    def __init__(self, heads: int):
        self._heads = heads
        self.sequences: dict[int, Sequence[torch.Tensor]] = {}

    def append(self, layer: int, new: torch.Tensor) -> None:
        stored = new.view(len(new), 2, self._heads, -1)
        self.sequences[layer] = stored.transpose(0, 2).unbind(1)  # (heads, places, dim) each


class LeanBart(BartLike):
    """The decoder, and the encoder for one source."""

    def __init__(self, model: Any):
        super().__init__(model)
        decoder = self._decoder
        first, self._last = _ends(decoder)
        self._layers = [
            (
                _Attention(layer.self_attn, layer.self_attn_layer_norm, first=first),
                _Attention(
                    layer.encoder_attn, layer.encoder_attn_layer_norm, source=True, first=first
                ),
                _FeedForward(layer, first=first),
            )
            for layer in decoder.layers
        ]
        looks = [layer.encoder_attn for layer in decoder.layers]
        self._project = product(*(one for look in looks for one in (look.k_proj, look.v_proj)))
        self._listened: Sequence[nn.Module] = looks
        self._say = product(self._head)

    @cached_property
    def _source_layers(self) -> list[tuple[_Attention, _FeedForward]]:
        """Laid out when first used: of members that share an encoder, one runs it."""
        first, _ = _ends(self._encoder)
        return [
            (
                _Attention(layer.self_attn, layer.self_attn_layer_norm, first=first),
                _FeedForward(layer, first=first),
            )
            for layer in self._encoder.layers
        ]

    def encode(self, sources: Sequence[Sequence[int]]) -> torch.Tensor:
        if len(sources) > 1:  # they are padded, and masked
            return super().encode(sources)
        tokens = torch.tensor(sources[0], device=self.device)
        past = _Whole(self.config.encoder_attention_heads)
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

    def projected(self, states: torch.Tensor) -> torch.Tensor:
        return self._project(states).view(len(states), self.layers, 2, -1)

    def decode(
        self, tokens: torch.Tensor, positions: torch.Tensor, windows: Windows
    ) -> torch.Tensor:
        if any(map(hooked, self._listened)):
            return super().decode(tokens, positions, windows)
        own, source = windows.own, windows.source
        own_mask, source_mask = own.added_mask(), source.added_mask()
        hidden = embedded(self._decoder, tokens[:, 0], positions[:, 0])
        for index, (attend, look, forward) in enumerate(self._layers):
            hidden = attend(hidden, index, own, own_mask)
            hidden = forward(look(hidden, index, source, source_mask))
        return self._last(hidden)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = self._say(hidden)
        return logits if self._bias is None else logits.add_(self._bias)


class LeanOurs(Ours, LeanBart):
    """`SimultaneousMTModel`: its causal encoder too."""

    def extend(self, tokens: torch.Tensor, positions: torch.Tensor, past: Window) -> torch.Tensor:
        return self._encoded(tokens[:, 0], positions[:, 0], past, past.added_mask())


_LEAN: dict[type[Any], type[BartLike]] = {BartLike: LeanBart, Ours: LeanOurs}
_KNOWN = ("simultaneous-mt", "marian", "m2m_100", "mbart", "bart", "pegasus", "plbart")
_PRODUCTS = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2", "lm_head")


def lean(family: type[Any], model: Any) -> type[BartLike] | None:
    """The adapter that runs this model lean, if there is one and nobody listens."""
    known = model.config.model_type in _KNOWN and not model.training
    # They clamp what does not fit into half precision.
    if not known or model.dtype == torch.float16 or _has_any_global_hook():
        return None
    for module in model.modules():
        children = [one for name, one in module._modules.items() if name in _PRODUCTS]
        if hooked(module) or not all(type(one) in (nn.Linear, Int8Linear) for one in children):
            return None
    return _LEAN.get(family)
