"""Which adapter serves a model, by its family; and which models there is none for.

Knows `model_type` and adapters; what an adapter does is `adapters`'."""

from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from .adapters import Adapter, BartLike, Ours
from .adapters_t5 import T5Like
from .lean import BART_PRODUCTS, LeanBart, LeanOurs
from .lean_t5 import T5_PRODUCTS, LeanT5
from .packing import hooked, packed, remembered
from .quantization import Int8Linear


OURS = "simultaneous-mt"
_FAMILIES: dict[str, type[Adapter]] = {
    OURS: Ours,
    "marian": BartLike,
    "m2m_100": BartLike,
    "mbart": BartLike,
    "bart": BartLike,
    "pegasus": BartLike,
    "plbart": BartLike,
    "t5": T5Like,
    "mt5": T5Like,
    "umt5": T5Like,
}
_KNOWN = frozenset(_FAMILIES)  # of those that are registered later, layers may be anything
_LEAN: dict[type[Adapter], type[Adapter]] = {BartLike: LeanBart, Ours: LeanOurs, T5Like: LeanT5}
PRODUCTS = BART_PRODUCTS | T5_PRODUCTS
_ATTENTIONS = ("sdpa", "eager")


def register_family(model_type: str, adapter: type[Adapter]) -> None:
    """From now on serve models of this `config.model_type` with this adapter: a subclass of
    `Adapter`, or of one that nearly fits (`BartLike`, `T5Like`)."""
    if not (isinstance(adapter, type) and issubclass(adapter, Adapter)):
        raise ValueError(f"an adapter is a subclass of Adapter; got {adapter!r}")
    _FAMILIES[model_type] = adapter


def adapter_for(model: Any) -> Adapter:
    """The model as the engine uses it: lean where that is known, else its own layers, laid out for
    this machine."""
    return remembered(model, _made)


def _made(model: Any) -> Adapter:
    family = _family(model)
    return _LEAN[family](model) if _runs_lean(family, model) else family(packed(model))


def _runs_lean(family: type[Adapter], model: Any) -> bool:
    """Is there a lean step for this model, and does nobody listen?"""
    known = family in _LEAN and model.config.model_type in _KNOWN and not model.training
    # In half precision their own layers clamp what does not fit, and what is rounded in between
    # would depend on how many rows are asked together.
    if not known or model.dtype not in (torch.float32, torch.float64) or _has_any_global_hook():
        return False
    for module in model.modules():
        children = [one for name, one in module._modules.items() if name in PRODUCTS]
        if hooked(module) or not all(_plain(one, model.dtype) for one in children):
            return False
    return True


def _plain(child: Any, dtype: torch.dtype) -> bool:
    kinds = {nn.Linear: dtype, Int8Linear: torch.int8}
    return type(child) in kinds and child.weight.dtype == kinds[type(child)]


def position_limit(model: Any) -> int:
    """How many positions a source or a target may have."""
    return _family(model)(model).limit


def check_family(model: Any) -> None:
    """Refuse a model that the engine cannot run."""
    _family(model)
    if model.get_output_embeddings() is None:
        raise ValueError(
            f"{type(model).__name__} has no head that says what comes next; load it with "
            "AutoModelForSeq2SeqLM"
        )
    attention = model.config._attn_implementation
    if attention not in _ATTENTIONS:
        raise ValueError(
            f"attn_implementation must be one of {', '.join(_ATTENTIONS)}, which take any mask; "
            f"this model has {attention!r}"
        )


def _family(model: Any) -> type[Adapter]:
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", None)
    if kind in _FAMILIES:
        return _FAMILIES[kind]
    if config is not None and not getattr(config, "is_encoder_decoder", False):
        raise ValueError(
            "a model needs an encoder, and a decoder that looks at it by cross-attention; "
            f"{kind!r} models are not so: what they have written would change as their source "
            f"grows. {_known()}"
        )
    if config is not None:
        raise ValueError(
            f"there is no adapter for the family {kind!r}. {_known()} To add one, register_family()"
        )
    raise ValueError(
        f"models must be models of transformers; got {type(model).__name__}. Folders and "
        f"repositories are loaded with from_pretrained(). {_known()}"
    )


def known_families() -> list[str]:
    """By their `model_type`."""
    return sorted(_FAMILIES)


def _known() -> str:
    return f"Families that work: {', '.join(known_families())}."
