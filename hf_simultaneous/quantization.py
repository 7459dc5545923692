"""A model in 8 bits: linear layers and word embeddings as whole numbers, a quarter of the memory.

Weights are scaled once per output channel, what goes in once per row and call, and the product is
exact in whole numbers: a row's result does not depend on its neighbours. Knows modules, nothing of
translation; ships inside checkpoints."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


LARGEST = 127
_LARGEST = torch.tensor(float(LARGEST))  # a number would take two operations

Multiply = Callable[[torch.Tensor], torch.Tensor]
"""8-bit (rows, in) -> whole numbers (rows, out)"""


def quantize_model(model: Any) -> Any:
    """Exchange the model's linear layers and word embeddings, in place; it can then be used but not
    be trained. A model that is in 8 bits already stays as it is."""
    check_device(model.device)
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
    return (weight / scale[:, None]).round_().to(torch.int8), scale


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
        output = int8_linear(rows, whole_product(self.weight), self.scale / LARGEST, self.bias)
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


def int8_linear(
    rows: torch.Tensor, multiply: Multiply, step: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """(rows, in) by a matrix of 8-bit numbers, `step` their scales over 127, (out,): (rows,
    out)."""
    largest = rows.abs().amax(-1, True)
    # A row of zeros becomes anything, and is multiplied by zero.
    whole = rows.mul(torch.div(_LARGEST, largest)).round_().char()
    exact = multiply(whole).mul(step)
    return exact.mul_(largest) if bias is None else torch.addcmul(bias, exact, largest)


def whole_product(weight: torch.Tensor) -> Multiply:
    """The product with 8-bit rows (out, in), exact."""
    columns = weight.t()
    return lambda whole: torch._int_mm(whole, columns)
