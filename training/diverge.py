"""Gives a trained model other weights in part, so that members trained from it go their own ways.

    for i in 1 2 3; do
      python -m training.diverge --model runs/base --seed 50$i --output runs/start-$i
    done

Runs that start from the same weights end near each other, however different their order of the
text: the mean of two is a model, and averaging what they say brings little. Models trained from
nothing differ, and cost hours. Between the two: the decoder begins anew, and the encoder keeps a
share of what it knows below noise of the same size, from which it is back in a few hundred steps
(shrink and perturb: Ash and Adams, 2020). Embeddings and norms stay. Knows weights by their names;
nothing of training."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import torch

from hf_simultaneous import SimultaneousMTModel

from .checked import InputError
from .command import command_line, exit_code
from .disk import require_empty
from .starting import load_trained, save_trained


def diverge(model: SimultaneousMTModel, seed: int, encoder: float, decoder: float) -> None:
    """Keep these shares, 0 to 1, of the matrices of encoder and decoder; the rest is noise of the
    spread each matrix has, so that what passes through keeps its size."""
    for name, share in (("--encoder", encoder), ("--decoder", decoder)):
        if not 0 <= share <= 1:
            raise InputError(f"{name} is the share that is kept, 0 to 1; got {share}")
    generator = torch.Generator().manual_seed(seed)
    layers = [(model.model.encoder.layers, encoder), (model.model.decoder.layers, decoder)]
    with torch.no_grad():
        for stack, share in layers:
            for weight in stack.parameters():
                if weight.ndim == 2:
                    noise = torch.randn(weight.shape, generator=generator) * weight.std()
                    weight.copy_(share * weight + (1 - share**2) ** 0.5 * noise)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("diverge", __doc__)
    parser.add_argument("--model", required=True, help="a folder or hub name of one of our models")
    parser.add_argument("--seed", required=True, type=int, help="another one for each member")
    parser.add_argument(
        "--encoder", type=float, default=0.5, help="share of it that is kept (0.5); 1 is all"
    )
    parser.add_argument("--decoder", type=float, default=0.0, help="the same (0: it begins anew)")
    parser.add_argument("--output", required=True, type=Path, help="an empty folder")
    given = parser.parse_args(arguments)
    return exit_code(lambda: print(_diverged(given)))


def _diverged(given: Namespace) -> str:
    require_empty(given.output)
    model, tokenizer = load_trained(given.model)
    diverge(model, given.seed, given.encoder, given.decoder)
    save_trained(model, tokenizer, given.output)
    return (
        f"{given.output}: {given.encoder:g} of the encoder kept, {given.decoder:g} of the decoder"
    )


if __name__ == "__main__":
    sys.exit(main())
