"""Gives the Tom and the Mary of Tatoeba other names, the same on both sides.

    python -m training.rename --source train.de --reference train.en --output runs/renamed

One sentence in four there is about Tom: a model learns that most names are his, and that Thomas is
Tom in English. Knows words only."""

import random
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

from .aligned import add_files, add_output, add_seed, read_pairs, write_aligned
from .checked import InputError
from .command import command_line, exit_code
from .everyday_words import MEN, WOMEN
from .mixing import Pair


# In German, in English, and what may stand there instead.
KNOWN = (
    ("Tom", "Tom", MEN.split()),
    ("Maria", "Mary", WOMEN.split()),
    ("Mary", "Mary", WOMEN.split()),
)


def renamed(pairs: Sequence[Pair], share: float, seed: int = 1) -> Iterator[Pair]:
    """The pairs in their order, with this share of the names in them drawn anew; the same for the
    same seed. A name that is not equally often on both sides stays. Who is Thomas in German is
    Thomas in English."""
    rng = random.Random(seed)
    for pair in pairs:
        if not re.search(r"\bToms?\b", pair[0]):
            pair = _replaced(pair, "Thomas", "Tom", "Thomas")
        for german, english, names in KNOWN:
            if rng.random() < share:
                pair = _replaced(pair, german, english, rng.choice(names))
        yield pair


def _replaced(pair: Pair, german: str, english: str, new: str) -> Pair:
    genitive = "'" if new[-1] in "sxzß" else "s"
    source, first = re.subn(rf"\b{german}\b", new, pair[0])
    source, second = re.subn(rf"\b{german}s\b", new + genitive, source)
    target, third = re.subn(rf"\b{english}\b", new, pair[1])
    return (source, target) if first + second == third else pair


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("rename", __doc__)
    add_files(parser)
    parser.add_argument("--share", type=float, default=0.6, help="of the names; by default 0.6")
    add_seed(parser)
    add_output(parser)
    given = parser.parse_args(arguments)
    return exit_code(lambda: _rename(given))


def _rename(given: Namespace) -> None:
    if not 0 < given.share <= 1:
        raise InputError(f"--share must lie above 0 and not above 1; got {given.share}")
    pairs = renamed(read_pairs(given), given.share, given.seed)
    write_aligned(given.output, pairs, force=given.force)


if __name__ == "__main__":
    sys.exit(main())
