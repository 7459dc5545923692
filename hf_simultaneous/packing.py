"""A twin of a model for inference on the CPU, its linear layers laid out for a few rows at a time.

Decoding one sentence multiplies matrices by one to ten vectors, where the ordinary layout wastes most of the time: it
is laid out anew in every call. oneDNN does it once. Everything that is not a linear layer is shared with the model.
Knows modules, nothing of translation.
"""

import copy
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn


# The layout is made for this many rows. From MANY on the ordinary product does as well, and oneDNN would compile a
# kernel for every new number of rows.
ROWS, MANY = 8, 17

_twins: "WeakKeyDictionary[nn.Module, tuple[Any, Any]]" = WeakKeyDictionary()


def packed(model: Any) -> Any:
    """What decoding uses of the model, its weights laid out; the model itself where there is no gain.

    Made anew when the weights have changed since. It holds no reference to the model, which may go at any time.
    """
    if not _gains(model):
        return model
    stamp = [_stamp(module) for module in model.modules() if isinstance(module, nn.Linear)]
    known, twin = _twins.get(model, (None, None))
    if known != stamp:
        parts = SimpleNamespace(encoder=_twin(model.model.encoder), decoder=_twin(model.model.decoder))
        twin = SimpleNamespace(
            config=model.config,
            device=model.device,
            dtype=model.dtype,
            model=parts,
            lm_head=_twin(model.lm_head),
            final_logits_bias=model.final_logits_bias,
        )
        _twins[model] = stamp, twin
    return twin


def _gains(model: Any) -> bool:
    return (
        not model.training
        and model.device.type == "cpu"
        and model.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def _stamp(linear: nn.Linear) -> tuple[Any, ...]:
    """Changes with the weights. torch does not count every change (`weight.data`), so a few values are looked at."""
    weight = linear.weight.detach()
    version = 0 if weight.is_inference() else weight._version
    probes = weight.view(-1)[:: max(1, weight.numel() // 4)].tolist()
    return weight.data_ptr(), version, _hooked(linear), *probes


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _twin(module: nn.Module) -> nn.Module:
    """The same tree with the same tensors, linear layers exchanged; one that somebody listens to stays."""
    if type(module) is nn.Linear:
        return module if _hooked(module) else _PackedLinear(module)
    twin = copy.copy(module)
    twin._modules = {name: child and _twin(child) for name, child in module._modules.items()}
    return twin


class _PackedLinear(nn.Module):
    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        with torch.inference_mode():
            self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if hidden.numel() >= MANY * hidden.shape[-1]:
            return nn.functional.linear(hidden, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(hidden, self.packed, self.bias, "none", [], "")
