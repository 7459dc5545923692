"""Keeps the German-English pairs from which a seldom word can be learned.

    python -m training.rare --source train.de --reference train.en --at-most 80 --output runs/rare

Given beside the whole corpus, each with half its weight, they make half of what everybody says give
way to words a small model has not met often enough. A word that one sentence alone has is a name
or a slip more often than a word. Knows words only."""

import re
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence

from .aligned import keep_pairs
from .checked import InputError
from .command import command_line
from .mixing import Pair


WORD = re.compile(r"[^\W\d_]+")


def rare(pairs: Sequence[Pair], at_most: int) -> Iterator[Pair]:
    """The pairs, in their order, whose source has a word that 2 to `at_most` different sources
    have."""
    words = {source: set(WORD.findall(source.lower())) for source, _ in pairs}
    counts = Counter(word for found in words.values() for word in found)
    for pair in pairs:
        if any(2 <= counts[word] <= at_most for word in words[pair[0]]):
            yield pair


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("rare", __doc__)
    parser.add_argument(
        "--at-most", type=int, default=80, help="sentences that have the word; by default 80"
    )
    return keep_pairs(parser, _kept, "has a word that is rare and not alone", arguments)


def _kept(given: Namespace, pairs: Sequence[Pair]) -> Iterator[Pair]:
    if given.at_most < 2:
        raise InputError(f"--at-most must be at least 2; got {given.at_most}")
    return rare(pairs, given.at_most)


if __name__ == "__main__":
    sys.exit(main())
