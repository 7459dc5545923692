"""Gives a trained model the characters of another language, so that it can learn to read it.

    python -m training.alphabet --model runs/multi --text train.zh --output runs/with-chinese

A model that writes English already, from German say, need not learn English again for Chinese: with
little text this is most of what there is to learn (transfer between pairs: Zoph et al., 2016). Only
scripts that are written without spaces are added, where every character is a token of its own; what
the tokeniser knew stays as it was. Knows vocabularies and embeddings; nothing of training."""

import json
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from hf_simultaneous import SimultaneousMTModel
from hf_simultaneous.words import UNSPACED

from .aligned import read_lines
from .checked import InputError
from .command import command_line, exit_code
from .disk import require_empty
from .starting import load_trained, save_trained
from .tokenizer import wrap


def characters(texts: Iterable[str], at_least: int) -> list[str]:
    """The characters of scripts without spaces that occur so often, the most frequent first."""
    counts = Counter(character for text in texts for character in UNSPACED.findall(text))
    return [character for character, count in counts.most_common() if count >= at_least]


def learn(
    model: SimultaneousMTModel, tokenizer: PreTrainedTokenizerFast, new: Sequence[str]
) -> PreTrainedTokenizerFast:
    """Make room for the new characters in the model, and return the tokeniser that knows them."""
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = backend["model"]["vocab"]
    for character in new:
        vocabulary.setdefault(character, len(vocabulary))
    wider = wrap(Tokenizer.from_str(json.dumps(backend)))
    before = model.config.vocab_size
    # Each new row like those there are: transformers' own mean of them would make all alike.
    model.resize_token_embeddings(len(wider), mean_resizing=False)
    model.config.decoder_vocab_size = len(wider)
    table = model.get_input_embeddings().weight
    with torch.no_grad():
        table[before:].normal_(std=table[:before].std().item())
    return wider


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("alphabet", __doc__)
    parser.add_argument("--model", required=True, help="a folder or hub name of one of our models")
    parser.add_argument("--text", required=True, type=Path, nargs="+", help="text it shall read")
    parser.add_argument("--at-least", type=int, default=2, help="how often a character occurs (2)")
    parser.add_argument("--seed", type=int, default=1, help="of the new embeddings (default 1)")
    parser.add_argument("--output", required=True, type=Path, help="an empty folder")
    given = parser.parse_args(arguments)
    return exit_code(lambda: print(_learned(given)))


def _learned(given: Namespace) -> str:
    require_empty(given.output)
    new = characters((line for file in given.text for line in read_lines(file)), given.at_least)
    if not new:
        raise InputError(
            f"no character of a script without spaces occurs {given.at_least} times in "
            f"{', '.join(map(str, given.text))}; other scripts need a tokeniser of their own"
        )
    model, tokenizer = load_trained(given.model)
    torch.manual_seed(given.seed)
    wider = learn(model, tokenizer, new)
    save_trained(model, wider, given.output)
    return f"{given.output}: {len(wider)} tokens, {model.num_parameters():,} weights"


if __name__ == "__main__":
    sys.exit(main())
