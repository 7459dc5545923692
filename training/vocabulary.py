"""Gives a trained model another vocabulary, so that training goes on with words it can hold.

    python -m training.vocabulary --model runs/large --text train.de train.en --size 12000 \
        --output runs/respelled
    python -m training.vocabulary --model runs/small --like runs/respelled --output runs/member

A vocabulary that was small, or grew words together with the comma after them, spells one word in
many ways. Every new token begins as the mean of the old tokens that spelled it; what both
vocabularies have stays as it is (transfer of vocabularies: Gee et al., 2022). The model has to be
trained on from there. Knows vocabularies and embeddings; nothing of training."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast

from hf_simultaneous import SimultaneousMTModel

from .aligned import read_lines
from .checked import InputError
from .command import command_line, exit_code
from .disk import require_empty
from .starting import load_trained, save_trained
from .tokenizer import TokenizerOptions, train_tokenizer


def respell(
    model: SimultaneousMTModel, old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast
) -> None:
    """Give the model, which was trained with `old`, the vocabulary of `new`."""
    before = model.get_input_embeddings().weight.detach().clone()
    known = old.get_vocab()
    tokens = sorted(new.get_vocab(), key=new.get_vocab().__getitem__)
    pieces = [_spelled(token, old, known) for token in tokens]
    model.resize_token_embeddings(len(tokens), mean_resizing=False)
    model.config.decoder_vocab_size = len(tokens)
    rows = torch.stack([_mean(before[ids]) for ids in pieces])
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(rows)


def _spelled(token: str, old: PreTrainedTokenizerFast, known: dict[str, int]) -> list[int]:
    if token in known:
        return [known[token]]
    return [piece.id for piece in old.backend_tokenizer.model.tokenize(token)]


def _mean(rows: torch.Tensor) -> torch.Tensor:
    """The mean, as long as the rows are: a mean of several is shorter, and would drown among the
    positions."""
    mean = rows.mean(0)
    return mean * rows.norm(dim=-1).mean() / mean.norm().clamp_min(1e-6)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("vocabulary", __doc__)
    parser.add_argument("--model", required=True, help="a folder or hub name of one of our models")
    vocabulary = parser.add_mutually_exclusive_group(required=True)
    vocabulary.add_argument(
        "--text", type=Path, nargs="+", help="of both languages, a sentence a line"
    )
    vocabulary.add_argument(
        "--like", help="a model whose vocabulary it is: members of a set share one"
    )
    parser.add_argument("--size", type=int, default=12000, help="of that of --text (12000)")
    parser.add_argument("--output", required=True, type=Path, help="an empty folder")
    given = parser.parse_args(arguments)
    return exit_code(lambda: print(_respelled(given)))


def _respelled(given: Namespace) -> str:
    require_empty(given.output)
    model, old = load_trained(given.model)
    new = _learned(given.text, given.size) if given.like is None else load_trained(given.like)[1]
    respell(model, old, new)
    save_trained(model, new, given.output)
    return f"{given.output}: {len(new)} tokens, {model.num_parameters():,} weights"


def _learned(files: Sequence[Path], size: int) -> PreTrainedTokenizerFast:
    try:
        options = TokenizerOptions(vocab_size=size, split_punctuation=True)
        return train_tokenizer((line for file in files for line in read_lines(file)), options)
    except ValueError as error:
        raise InputError(f"--text, --size: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
