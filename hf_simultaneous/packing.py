"""A twin of a model for inference on the CPU, its linear layers laid out for a few rows at a time.

Decoding one sentence multiplies matrices by one to ten vectors, where the ordinary layout wastes most of the time: it
is laid out anew in every call. oneDNN does it once. Everything that is not a linear layer is shared with the model.
Knows modules, nothing of translation.
"""

import copy
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn


# The layout is made for this many rows. From MANY on the ordinary product does as well, and oneDNN would compile a
# kernel for every new number of rows.
ROWS, MANY = 8, 17

_twins: "WeakKeyDictionary[nn.Module, tuple[Any, nn.Module]]" = WeakKeyDictionary()


def packed(model: Any) -> Any:
    """The model's twin, made anew when its weights have changed since; the model itself where there is no gain."""
    if not _gains(model):
        return model
    stamp = [(weight.data_ptr(), weight._version) for weight in model.parameters()]
    known, twin = _twins.get(model, (None, None))
    if known != stamp or twin is None:
        twin = _twin(model)
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


def _twin(module: nn.Module) -> nn.Module:
    """The same tree with the same tensors, linear layers exchanged."""
    if type(module) is nn.Linear:
        return _PackedLinear(module)
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
