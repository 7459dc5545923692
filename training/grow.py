"""Makes a wider model that translates as a trained one does, so that training goes on from there.

    python -m training.grow --model runs/small --factor 2 --output runs/wide

A wide model that starts from random weights first has to learn what the narrow one knows. Here
every number of the narrow model's states stands in the wide one `factor` times, and every weight
that reads it is cut into as many parts (growth that preserves the function: Chen et al., Net2Net,
2016). The parts are drawn unequal, so that the copies go different ways when they are trained.

Only the positions differ: sines of a wider model have frequencies between those of the narrow one,
within 8 % of them for a factor of 2, so the first steps of training have something to mend. Knows
Marian's weights by their names; nothing of training."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import torch

from hf_simultaneous import SimultaneousConfig, SimultaneousMTModel

from .checked import InputError
from .command import command_line, exit_code
from .disk import require_empty
from .starting import load_trained, save_trained


UNEVEN = 0.25
"""Of `factor` parts of a weight each may be smaller or larger by this share."""
WIDTHS = ("d_model", "encoder_ffn_dim", "decoder_ffn_dim")


def grow(model: SimultaneousMTModel, factor: int, seed: int = 1) -> SimultaneousMTModel:
    """The model `factor` times as wide; heads become wider, not more."""
    if factor < 2:
        raise InputError(f"--factor must be at least 2; got {factor}")
    config = SimultaneousConfig.from_dict(model.config.to_dict())
    for width in WIDTHS:
        setattr(config, width, factor * getattr(config, width))
    wide = SimultaneousMTModel(config).to(model.dtype)
    generator = torch.Generator().manual_seed(seed)
    wide.load_state_dict(wide.state_dict() | _widened(model, factor, generator))
    wide.tie_weights()
    wide.generation_config = model.generation_config
    return wide.train(model.training)


def _widened(
    model: SimultaneousMTModel, factor: int, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    tables = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    last = f"decoder.layers.{model.config.decoder_layers - 1}.final_layer_norm."
    found = {}
    for name, weight in model.state_dict(keep_vars=True).items():
        if name == "final_logits_bias":
            found[name] = weight
        elif id(weight) in tables or "embed_tokens" in name:
            # Marian multiplies by the root of the width where it reads a table.
            found[name] = _copies(weight, factor) * factor**-0.5
        elif "embed_positions" not in name:
            found[name] = _layer(name, weight, factor, generator)
            if last in name:
                # The output layer sums over `factor` copies of states and table.
                found[name] = found[name] * factor**-0.5
    return {name: weight.detach() for name, weight in found.items()}


def _layer(
    name: str, weight: torch.Tensor, factor: int, generator: torch.Generator
) -> torch.Tensor:
    copies = _copies(weight, factor)
    if weight.ndim == 2:
        copies = copies.repeat_interleave(factor, dim=0)
        copies = copies * _shares(copies.shape, factor, generator).to(copies)
    # A product of wider heads is `factor` times as large, and divided by the root of the width.
    return copies * factor**-0.5 if "q_proj" in name else copies


def _copies(weight: torch.Tensor, factor: int) -> torch.Tensor:
    """Each number of the last dimension `factor` times, beside itself: sines stay among sines."""
    return weight.repeat_interleave(factor, dim=-1)


def _shares(shape: Sequence[int], factor: int, generator: torch.Generator) -> torch.Tensor:
    """For every weight of the wide model its part of the narrow one's; those of the copies of one
    input sum to 1."""
    drawn = torch.rand(shape[0], shape[1] // factor, factor, generator=generator)
    drawn = 1 + UNEVEN * (2 * drawn - 1)
    return (drawn / drawn.sum(-1, keepdim=True)).flatten(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("grow", __doc__)
    parser.add_argument("--model", required=True, help="a folder or hub name of one of our models")
    parser.add_argument("--factor", type=int, default=2, help="how many times as wide (default 2)")
    parser.add_argument("--seed", type=int, default=1, help="of the unequal parts (default 1)")
    parser.add_argument("--output", required=True, type=Path, help="an empty folder")
    given = parser.parse_args(arguments)
    return exit_code(lambda: print(_grown(given)))


def _grown(given: Namespace) -> str:
    require_empty(given.output)
    model, tokenizer = load_trained(given.model)
    wide = grow(model, given.factor, given.seed)
    save_trained(wide, tokenizer, given.output)
    return f"{given.output}: width {wide.config.d_model}, {wide.num_parameters():,} weights"


if __name__ == "__main__":
    sys.exit(main())
