"""Makes longer German-English pairs of two short ones, joined by a word between main clauses.

    python -m training.join --source train.de --reference train.en --output runs/joined

A small model that has seen short sentences ends after the first clause of a long one. Both clauses
of a joined pair must be said, and neither can be guessed from the other. Knows words only."""

import random
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

from .aligned import add_files, make_pairs, read_pairs
from .checked import InputError
from .command import command_line
from .mixing import Pair


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
OTHERS = frozenset(("she", "they", "her", "their", "it", "its"))
KEPT = frozenset(("I", "I'm", "I've", "I'll", "I'd", "Tom", "Mary", "Maria"))


def joined(given: Sequence[Pair], count: int, seed: int = 1) -> Iterator[Pair]:
    """`count` pairs, the same for the same seed."""
    rng = random.Random(seed)
    firsts = [pair for pair in given if all(map(_is_clause, pair))]
    seconds = [found for pair in firsts if (found := _inside(*pair))]
    if len({english.lower() for _, english in firsts}) < 2 or not seconds:
        raise InputError(
            f"none of {len(given)} pairs can be joined to another; wanted are statements of 2 to "
            f"{MAX_WORDS} words with a full stop, among them some that begin with ich, der, heute "
            f"or the like"
        )
    for _ in range(count):
        joint, second = rng.choice(JOINTS), rng.choice(seconds)
        first = rng.choice(firsts)
        while first[1].lower() == second[1].lower():
            first = rng.choice(firsts)
        german, english = (f"{first[side][:-1]}{joint[side]} {second[side]}" for side in (0, 1))
        yield german, english


def _is_clause(text: str) -> bool:
    """A short statement of one sentence, with nothing in it that a second clause would blur."""
    return (
        1 < len(text.split()) <= MAX_WORDS
        and text == text.strip()
        and text.endswith(".")
        and not text[-2].isdigit()  # 3. is the third
        and not set(text[:-1]) & set('.!?:;"„“,')
    )


def _inside(german: str, english: str) -> Pair | None:
    """The pair as it stands after a joint; None where it is not known how that is written."""
    source, target = (_small(*side) for side in zip((german, english), OPENINGS, strict=True))
    if german.split()[0] in ("Sie", "Ihr", "Ihre"):  # who is meant, English tells
        source = _meant(german, english.split()[0].lower())
    return (source, target) if source and target else None


def _meant(german: str, opening: str) -> str | None:
    if opening.startswith("you"):
        return german
    return german[0].lower() + german[1:] if opening in OTHERS else None


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


def _from_files(given: Namespace) -> Iterator[Pair]:
    return joined(read_pairs(given), given.count, given.seed)


if __name__ == "__main__":
    sys.exit(main())
