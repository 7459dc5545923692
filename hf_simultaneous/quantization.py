"""A model in 8 bits: linear layers and word embeddings as whole numbers, a quarter of the memory.

Weights are scaled once per output channel, what goes in once per row and call, and the product is
exact in whole numbers: a row's result does not depend on its neighbours. Knows modules, nothing of
translation; ships inside checkpoints."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch import nn


LARGEST = 127
"""Of weights."""
FBGEMM = (
    "fbgemm" in torch.backends.quantized.supported_engines
    and hasattr(torch.ops.quantized, "linear_with_input_q_dq_qweight_dq_output_fp32")
    and not torch.cpu.get_capabilities().get("avx512_vnni")
)
"""Is FBGEMM to multiply? Without VNNI, nothing else in torch is fast in 8 bits."""
LARGEST_IN = 64 if FBGEMM else 127
"""Of what goes in. Without VNNI products are added in pairs in 16 bits, and FBGEMM takes numbers
from 0 on: 0 to 128 times 127, twice, fits. One for all that a process multiplies, or the same model
would say one thing for few rows and another for many."""
_LARGEST_IN = torch.tensor(float(LARGEST_IN))  # a number would take two operations
_one_at_a_time = Lock()

Multiply = Callable[[torch.Tensor], torch.Tensor]
"""Whole numbers in floating point, (rows, in) -> their product (rows, out), scaled by weights'
steps"""


def quantize_model(model: Any) -> Any:
    """Exchange the model's linear layers and word embeddings, in place; it can then be used but not
    be trained. A model that is in 8 bits already stays as it is."""
    check_device(model.device)
    if model.dtype == torch.float16:
        raise ValueError(
            "quantize='int8' needs a model in float32, bfloat16 or float64: its sums do not fit "
            "into float16. Leave dtype out, or give dtype=torch.float32"
        )
    words = {model.config.vocab_size, getattr(model.config, "decoder_vocab_size", None)}
    made: dict[nn.Parameter, tuple[torch.Tensor, torch.Tensor]] = {}  # tied weights stay tied
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if isinstance(module, nn.Embedding):
            kind: Any = Int8Embedding if module.num_embeddings in words else None
        else:
            kind = Int8Linear if type(module) is nn.Linear else None
        if kind is not None:
            if module.weight not in made:
                made[module.weight] = rounded(module.weight.detach())
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, kind(module, *made[module.weight]))
    return model.eval()


def check_device(device: Any) -> None:
    """Refuse a device that cannot multiply in 8 bits."""
    kind = torch.device(device).type
    if kind != "cpu":
        raise ValueError(
            f"quantize='int8' runs on the CPU only; got {kind}. Use quantize='none' there, with "
            "dtype=torch.bfloat16 if memory is short"
        )


def quantized(model: Any) -> bool:
    """Is the model in 8 bits?"""
    return any(isinstance(module, _Int8) for module in model.modules())


def float_weights(model: Any) -> dict[str, torch.Tensor]:
    """The model's state as it is saved: plain weights, which any loader reads, and which become the
    same 8 bits again."""
    state: dict[str, torch.Tensor] = model.state_dict()
    made: dict[int, torch.Tensor] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, _Int8):
            start = module.weight.data_ptr()
            if start not in made:
                made[start] = module.weight * module.scale[:, None]
            state[f"{name}.weight"] = made[start]
            del state[f"{name}.scale"]
    return state


def rounded(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix as 8-bit rows and the scale of each: (rows, columns) int8, (rows,)."""
    scale = weight.abs().amax(1).clamp_min(torch.finfo(weight.dtype).tiny * 1024) / LARGEST
    wide = weight.to(torch.promote_types(weight.dtype, torch.float32))
    # A scale in half precision may be too small, and the largest number would become the smallest.
    whole = (wide / scale[:, None]).round_().clamp_(-LARGEST, LARGEST)
    return whole.to(torch.int8), scale


class _Int8(nn.Module):
    def __init__(self, weight: torch.Tensor, scale: torch.Tensor):
        super().__init__()
        self.weight = nn.Buffer(weight)
        self.scale = nn.Buffer(scale)


class Int8Linear(_Int8):
    """A linear layer in 8 bits."""

    def __init__(self, linear: nn.Linear, weight: torch.Tensor, scale: torch.Tensor):
        super().__init__(weight, scale)
        self.bias = linear.bias

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        rows = hidden.reshape(-1, hidden.shape[-1])
        output = int8_linear(rows, scaled(whole_product(self.weight), self.scale), self.bias)
        return output.view(*hidden.shape[:-1], -1)


class Int8Embedding(_Int8):
    """Word embeddings in 8 bits; families that scale theirs keep the factor."""

    def __init__(self, embedding: nn.Embedding, weight: torch.Tensor, scale: torch.Tensor):
        super().__init__(weight, scale)
        self.num_embeddings, self.embedding_dim = weight.shape
        self.padding_idx = embedding.padding_idx
        self.factor = getattr(embedding, "embed_scale", None)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        vectors = self.weight[ids] * self.scale[ids].unsqueeze(-1)
        return vectors if self.factor is None else vectors * self.factor


def int8_linear(rows: torch.Tensor, multiply: Multiply, bias: torch.Tensor | None) -> torch.Tensor:
    """(rows, in) by a matrix of 8-bit numbers: (rows, out)."""
    largest = rows.abs().amax(-1, True)
    # A row of zeros becomes anything, and is multiplied by zero.
    whole = rows.mul(torch.div(_LARGEST_IN, largest)).round_()
    exact = multiply(whole)
    return exact.mul_(largest) if bias is None else torch.addcmul(bias, exact, largest)


def scaled(multiply: Multiply, scale: torch.Tensor) -> Multiply:
    """A product of 8-bit rows, its whole numbers scaled."""
    step = scale / LARGEST_IN
    return lambda whole: multiply(whole.char()).mul(step)


def whole_product(weight: torch.Tensor) -> Multiply:
    """The product of 8-bit rows with 8-bit rows (out, in), exact."""
    columns = weight.t()
    if FBGEMM:  # sums that a float can hold are exact there too, and much faster
        fits = len(columns) * LARGEST * LARGEST_IN <= 2**24
        real = torch.float32 if fits else torch.float64
        return lambda whole: torch.mm(whole.to(real), columns.to(real)).int()
    return lambda whole: torch._int_mm(whole, columns)


def fbgemm_product(weight: torch.Tensor, scale: torch.Tensor) -> Multiply:
    """The same numbers, scaled, in single precision."""
    # What wraps it looks at every argument in Python.
    multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default._op
    step = scale.double() / LARGEST_IN
    with _one_at_a_time, _engine("fbgemm"), warnings.catch_warnings():
        # It warns that such tensors will go, and this product with them.
        warnings.filterwarnings("ignore", category=UserWarning)
        whole = torch._make_per_channel_quantized_tensor(
            weight, step, torch.zeros_like(step, dtype=torch.long), 0
        )
        laid = torch.ops.quantized.linear_prepack(whole, None)
    return lambda rows: multiply(rows, 1.0, LARGEST_IN, laid)


@contextmanager
def _engine(name: str) -> Iterator[None]:
    """torch's choice of who multiplies is one for the whole process."""
    engines = torch.backends.quantized
    before = engines.engine
    engines.engine = name
    try:
        yield
    finally:
        engines.engine = before
