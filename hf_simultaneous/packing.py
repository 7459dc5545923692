"""Linear layers laid out for this machine: of the ways to multiply some rows by a matrix, the one
that was fastest when tried here, in this process, for that size and about so many rows.

Decoding one sentence multiplies matrices by one to ten rows, where layouts differ by a factor of
two, and which is best differs between machines. Knows modules, nothing of translation."""

import copy
import os
import time
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

from .quantization import (
    FBGEMM,
    Int8Linear,
    fbgemm_product,
    int8_linear,
    scaled,
    whole_product,
)


T = TypeVar("T")
Product = Callable[[torch.Tensor], torch.Tensor]
"""(rows, in) -> (rows, out)"""

TRIED_ROWS = (1, 4, 10, 32)
UP_TO = (1, 5, 16)
"""The rows for which each trial holds; the last holds for all beyond."""
WEIGHTS = (2, 1, 1, 1)
"""One row counts twice: it is what a live stream asks for most often."""
TRIED_BYTES = 1 << 24  # of weights, tried in turn: when decoding, none is in the core's own cache
TRIED_SECONDS = 0.8  # a machine that is busy is not waited for
REPEATS = 2
LAYOUT_VARIABLE = "HF_SIMULTANEOUS_LAYOUT"
"""Names the layout in the environment, and nothing is tried: layouts round differently, so this is
for processes that must agree to the last digit."""
WORTH = 0.95  # of the time of what needs no copy, or a second copy of the weights does not pay

_made: "WeakKeyDictionary[nn.Module, tuple[Any, Any]]" = WeakKeyDictionary()


def remembered(model: Any, make: Callable[[Any], T]) -> T:
    """What `make` makes of the model; anew when weights, listeners or threads have changed since.

    It must not hold the model itself, which may go at any time."""
    known, made = _made.get(model, (None, None))
    if known != _stamp(model):
        made = make(model)
        _made[model] = _stamp(model), made  # what is made may move the weights it joins
    return made


def _stamp(model: Any) -> list[Any]:
    modules = (_module_stamp(module) for module in model.modules())
    return [torch.get_num_threads(), model.training, model.dtype, *modules]


def _module_stamp(module: nn.Module) -> tuple[Any, ...]:
    """Changes with weights, which are buffers in 8 bits, with biases and with listeners."""
    stamps = [
        _tensor_stamp(tensor)
        for name in ("weight", "bias")
        if (tensor := module._parameters.get(name, module._buffers.get(name))) is not None
    ]
    return (hooked(module), *stamps)


def _tensor_stamp(tensor: torch.Tensor) -> tuple[Any, ...]:
    """torch does not count every change (`weight.data`), so a few values are looked at."""
    tensor = tensor.detach()
    version = 0 if tensor.is_inference() else tensor._version
    probes = tensor.reshape(-1)[:: max(1, tensor.numel() // 4)].tolist()
    return (tensor.data_ptr(), version, *probes)


def hooked(module: nn.Module) -> bool:
    """Does anybody listen to this module?"""
    return bool(module._forward_hooks or module._forward_pre_hooks)


def packed(model: Any) -> Any:
    """A twin of the model for inference, its linear layers laid out and all else shared; the model
    itself where there is nothing to choose."""
    if not _chooses(model):
        return model
    return SimpleNamespace(
        config=model.config,
        device=model.device,
        dtype=model.dtype,
        **{name: child and _twin(child) for name, child in model._modules.items()},
        **model._buffers,
    )


def _chooses(model: Any) -> bool:
    return not model.training and model.device.type == "cpu" and model.dtype == torch.float32


def _twin(module: nn.Module) -> nn.Module:
    """The same tree with the same tensors, linear layers exchanged; one that somebody listens to
    stays."""
    if type(module) in (nn.Linear, Int8Linear):
        return module if hooked(module) else _Laid(module)
    twin = copy.copy(module)
    twin._modules = {name: child and _twin(child) for name, child in module._modules.items()}
    return twin


class _Laid(nn.Module):
    def __init__(self, linear: Any):
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        self.product = product(linear)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        rows = hidden.reshape(-1, hidden.shape[-1])
        return self.product(rows).view(*hidden.shape[:-1], -1)


@torch.no_grad()
def product(*linears: Any) -> Product:
    """One product for all of these linear layers, which take the same input: their outputs, one
    after the other."""
    weights = [linear.weight.detach() for linear in linears]
    biases = [linear.bias for linear in linears]
    weight = weights[0] if len(weights) == 1 else torch.cat(weights)
    bias = biases[0] if len(biases) == 1 or biases[0] is None else torch.cat(biases)
    if isinstance(linears[0], Int8Linear):
        return _int8(weight, linears, bias)
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return _own(weight, bias)
    return _by_rows(weight, lambda name: LAYOUTS[name](weight, bias))


def _by_rows(weight: torch.Tensor, make: Callable[[str], Product]) -> Product:
    """For every number of rows the layout that is best for it."""
    choice = fastest(weight.shape[1], weight.shape[0], torch.get_num_threads(), weight.dtype)
    made = {name: make(name) for name in set(choice)}
    if len(made) == 1:
        return made[choice[0]]
    one, few, some, many = (made[name] for name in choice)

    def multiply(rows: torch.Tensor) -> torch.Tensor:
        count = rows.size(0)
        if count == UP_TO[0]:
            return one(rows)
        return few(rows) if count <= UP_TO[1] else some(rows) if count <= UP_TO[2] else many(rows)

    return multiply


def _int8(weight: torch.Tensor, linears: Any, bias: torch.Tensor | None) -> Product:
    scale = torch.cat([linear.scale for linear in linears])
    start = 0
    for linear in linears:  # joined, they need not be kept one by one
        linear.weight = weight[start : start + len(linear.weight)]
        start += len(linear.weight)
    if FBGEMM and scale.dtype == torch.float32:
        multiply = fbgemm_product(weight, scale)
    else:
        whole = _by_rows(weight, lambda name: WHOLE_LAYOUTS[name](weight))
        multiply = scaled(whole, scale)
    return lambda rows: int8_linear(rows, multiply, bias)


def _whole_turned(weight: torch.Tensor) -> Product:
    return lambda rows: torch._int_mm(weight, rows.t()).t().contiguous()


def _own(weight: torch.Tensor, bias: torch.Tensor | None) -> Product:
    return _by_columns(weight.t(), bias)


def _columns(weight: torch.Tensor, bias: torch.Tensor | None) -> Product:
    return _by_columns(weight.t().contiguous(), bias)


def _by_columns(columns: torch.Tensor, bias: torch.Tensor | None) -> Product:
    if bias is None:
        return lambda rows: torch.mm(rows, columns)
    return lambda rows: torch.addmm(bias, rows, columns)


def _turned(weight: torch.Tensor, bias: torch.Tensor | None) -> Product:
    """torch's own product with the sides exchanged."""
    if bias is None:
        return lambda rows: torch.mm(weight, rows.t()).t().contiguous()
    added = bias[:, None]
    return lambda rows: torch.addmm(added, weight, rows.t()).t().contiguous()


def _blocked(weight: torch.Tensor, bias: torch.Tensor | None) -> Product:
    """The sides exchanged, a block of the matrix after the other: each is small enough to be read
    from memory once, whatever is done to it."""
    size_out, size_in = weight.shape
    height = next((size for size in BLOCKS if size_out % size == 0), None)
    if height is None:
        return _turned(weight, bias)
    blocks = weight.reshape(-1, height, size_in)
    added = None if bias is None else bias.reshape(-1, height, 1)

    def multiply(rows: torch.Tensor) -> torch.Tensor:
        columns = rows.t().expand(len(blocks), -1, -1)
        if added is None:
            turned = torch.bmm(blocks, columns)
        else:
            turned = torch.baddbmm(added, blocks, columns)
        return turned.view(size_out, -1).t().contiguous()

    return multiply


def _onednn(weight: torch.Tensor, bias: torch.Tensor | None) -> Product:
    multiply = torch.ops.mkldnn._linear_pointwise.default
    laid = torch.ops.mkldnn._reorder_linear_weight(weight, 8)
    return lambda rows: multiply(rows, laid, bias, "none", [], "")


BLOCKS = range(128, 31, -1)
"""How high a block may be: the first that divides the matrix is taken."""
LAYOUTS: dict[str, Callable[[torch.Tensor, torch.Tensor | None], Product]] = {
    "own": _own,  # torch's
    "turned": _turned,
    "blocked": _blocked,
    "columns": _columns,
}
if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
    LAYOUTS["onednn"] = _onednn
WHOLE_LAYOUTS: dict[str, Callable[[torch.Tensor], Product]] = {
    "own": whole_product,
    "turned": _whole_turned,  # where AMX multiplies, torch's own way lays the weights out each time
}
"""For products of whole numbers, which are exact: all say the same."""
FREE = ("own", "turned", "blocked")
"""Those that need no copy of the weights."""

Choice = tuple[str, str, str, str]
"""The layout for each of `TRIED_ROWS`."""


@cache
def fastest(size_in: int, size_out: int, threads: int, dtype: torch.dtype) -> Choice:
    """Tried here, once per process and size; or the one that the environment names."""
    given = os.environ.get(LAYOUT_VARIABLE)
    if given and dtype != torch.int8:
        return (_named(given),) * 4
    return _chosen(_tried(size_in, size_out, dtype))


def _named(layout: str) -> str:
    if layout not in LAYOUTS:
        raise ValueError(
            f"{LAYOUT_VARIABLE} must be one of {', '.join(LAYOUTS)}; got {layout!r}. Without it "
            "the fastest is found by trying"
        )
    return layout


def _chosen(times: dict[str, dict[int, float]]) -> Choice:
    """The best of those that need no copy and of one that does, for every number of rows."""
    free = tuple(name for name in times if name in FREE)

    def of(names: tuple[str, ...]) -> Choice:
        one, few, some, many = (
            min(names, key=lambda name: times[name][rows]) for rows in TRIED_ROWS
        )
        return one, few, some, many

    def cost(choice: Choice) -> float:
        parts = zip(WEIGHTS, choice, of(free), TRIED_ROWS, strict=True)
        return sum(
            weight * times[name][rows] / times[other][rows] for weight, name, other, rows in parts
        )

    if any(found == float("inf") for one in times.values() for found in one.values()):
        return ("own",) * 4  # time ran out
    copied = [of((*free, name)) for name in times if name not in free]
    best = min(copied, key=cost, default=of(free))
    return best if cost(best) < WORTH * sum(WEIGHTS) else of(free)


@torch.inference_mode()
def _tried(size_in: int, size_out: int, dtype: torch.dtype) -> dict[str, dict[int, float]]:
    """Seconds per product, by layout and number of rows: the least of some repeats, in turn;
    infinite where time ran out."""
    weight = torch.ones(size_out, size_in, dtype=dtype)
    count = max(1, min(16, TRIED_BYTES // weight.nbytes))
    layouts: dict[str, Any] = WHOLE_LAYOUTS if dtype == torch.int8 else LAYOUTS
    rest = () if dtype == torch.int8 else (torch.zeros(size_out),)
    made = {
        name: [layout(weight.clone(), *rest) for _ in range(count)]
        for name, layout in layouts.items()
    }
    inputs = {rows: torch.ones(rows, size_in, dtype=dtype) for rows in TRIED_ROWS}
    times = {name: dict.fromkeys(TRIED_ROWS, float("inf")) for name in made}
    # Alone, a thread's own time counts: another load takes nothing from it.
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    end = clock() + TRIED_SECONDS
    for repeat in range(REPEATS + 1):
        for rows, hidden in inputs.items():
            # Many rows compute more than they read: where the weights lie matters less.
            enough = max(2, count * 4 // (rows + 3))
            for name, products in made.items():
                start = clock()
                if start > end:
                    return times
                for one in products[:enough]:
                    one(hidden)
                taken = (clock() - start) / min(enough, count)
                if repeat:  # the first round compiles kernels
                    times[name][rows] = min(times[name][rows], taken)
    return times
