"""Makes longer German-English pairs of two short ones, joined by a word between main clauses.

    python -m training.join --source train.de --reference train.en --output runs/joined

A small model that has seen short sentences ends after the first clause of a long one. Both clauses
of a joined pair must be said, and neither can be guessed from the other. Knows words only."""

import random
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

from .aligned import add_files, make_pairs, read_aligned
from .checked import InputError
from .command import command_line


MAX_WORDS = 9
"""Of each of the two."""

JOINTS = ((" und", " and"), (", und", ", and"), (", aber", ", but"))

# Openings that are written small inside a sentence. A pair with any other is not put second: the
# word may be a noun in German, and a name in both.
GERMAN = """
ich du er es wir ihr man das der die dieser diese dieses mein meine dein deine sein seine ihre
unser unsere alle jeder niemand jemand heute gestern morgen jetzt hier dort sie
"""
ENGLISH = """
you he she it we they one this that these those the a an my your his her its our their there
everyone everybody nobody somebody someone today yesterday tomorrow now here all
"""
OPENINGS = frozenset(GERMAN.split()), frozenset(ENGLISH.split())
KEPT = frozenset(("I", "I'm", "I've", "I'll", "I'd", "Tom", "Mary", "Maria"))


def joined(
    given: Sequence[tuple[str, str]], count: int, seed: int = 1
) -> Iterator[tuple[str, str]]:
    """`count` pairs, the same for the same seed."""
    rng = random.Random(seed)
    firsts = [pair for pair in given if all(map(_is_clause, pair))]
    seconds = [found for pair in firsts if (found := _inside(*pair))]
    if not seconds:
        raise InputError(f"none of {len(given)} pairs can be joined to another: {_WANTED}")
    for _ in range(count):
        joint, first, second = rng.choice(JOINTS), rng.choice(firsts), rng.choice(seconds)
        german, english = (f"{first[side][:-1]}{joint[side]} {second[side]}" for side in (0, 1))
        yield german, english


_WANTED = f"statements of at most {MAX_WORDS} words, with a full stop, are wanted"


def _is_clause(text: str) -> bool:
    """A short statement of one sentence, with nothing in it that a second clause would blur."""
    return (
        text.endswith(".")
        and len(text.split()) <= MAX_WORDS
        and not set(text[:-1]) & set('.!?:;"„“,')
    )


def _inside(german: str, english: str) -> tuple[str, str] | None:
    """The pair as it stands after a joint; None where it is not known how that is written."""
    source, target = (_small(*side) for side in zip((german, english), OPENINGS, strict=True))
    if german.startswith("Sie ") and target and target.startswith("you"):
        source = german
    return (source, target) if source and target else None


def _small(text: str, openings: frozenset[str]) -> str | None:
    word = text.split()[0]
    if word in KEPT:
        return text
    return word.lower() + text[len(word) :] if word.lower() in openings else None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("join", __doc__)
    add_files(parser)
    return make_pairs(parser, _from_files, 30000, arguments)


def _from_files(given: Namespace) -> Iterator[tuple[str, str]]:
    pairs = list(zip(*read_aligned(given.source, given.reference), strict=True))
    return joined(pairs, given.count, given.seed)


if __name__ == "__main__":
    sys.exit(main())
