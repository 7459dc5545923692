"""Makes a wider or deeper model that translates as a trained one does, so that training goes on
from there.

    python -m training.grow --model runs/small --factor 2 --output runs/wide
    python -m training.grow --model runs/small --encoder-layers 6 --output runs/deep

A wide model that starts from random weights first has to learn what the narrow one knows. Here
every number of the narrow model's states stands in the wide one `factor` times, and every weight
that reads it is cut into as many parts (growth that preserves the function: Chen et al., Net2Net,
2016). The parts are drawn unequal, so that the copies go different ways when they are trained.

Only the positions differ: sines of a wider model have frequencies between those of the narrow one,
within 8 % of them for a factor of 2, so the first steps of training have something to mend.

A new encoder layer on top of the others adds nothing to what passes through it, and its norms are
set to undo themselves for states of the usual size: nearly the same function. Depth is cheap in
the encoder, which reads a token once whatever the policy. Knows Marian's weights by their names;
nothing of training."""

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


def deepen(model: SimultaneousMTModel, layers: int) -> SimultaneousMTModel:
    """The model with so many encoder layers, the new ones on top."""
    before = model.config.encoder_layers
    if layers <= before:
        raise InputError(f"--encoder-layers must be above {before}, which it has; got {layers}")
    config = SimultaneousConfig.from_dict({**model.config.to_dict(), "encoder_layers": layers})
    deep = SimultaneousMTModel(config).to(model.dtype)
    deep.load_state_dict(deep.state_dict() | model.state_dict())
    deep.tie_weights()
    deep.generation_config = model.generation_config
    with torch.no_grad():
        for layer in deep.model.encoder.layers[before:]:
            _pass_through(layer, deep.model.encoder.layers[before - 1].final_layer_norm)
    return deep.train(model.training)


def _pass_through(layer: torch.nn.Module, below: torch.nn.LayerNorm) -> None:
    """Let a layer give back what comes out of the norm below it."""
    for last in (layer.self_attn.out_proj, layer.fc2):
        last.weight.zero_()
        last.bias.zero_()
    # Of states that were centred and scaled below, their mean and their spread over the width.
    mean = below.bias.mean()
    spread = (below.weight.square() + below.bias.square()).mean() - mean.square()
    for norm in (layer.self_attn_layer_norm, layer.final_layer_norm):
        norm.weight.fill_(spread.sqrt())
        norm.bias.fill_(mean)


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
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--factor", type=int, help="how many times as wide")
    how.add_argument("--encoder-layers", type=int, help="how many it shall have")
    parser.add_argument("--seed", type=int, default=1, help="of the unequal parts (default 1)")
    parser.add_argument("--output", required=True, type=Path, help="an empty folder")
    given = parser.parse_args(arguments)
    return exit_code(lambda: print(_grown(given)))


def _grown(given: Namespace) -> str:
    require_empty(given.output)
    model, tokenizer = load_trained(given.model)
    if given.factor is not None:
        model = grow(model, given.factor, given.seed)
    else:
        model = deepen(model, given.encoder_layers)
    save_trained(model, tokenizer, given.output)
    return (
        f"{given.output}: width {model.config.d_model}, {model.config.encoder_layers} encoder "
        f"layers, {model.num_parameters():,} weights"
    )


if __name__ == "__main__":
    sys.exit(main())
