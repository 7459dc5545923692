"""Makes pairs of everyday situations, German and English: travel, home, work, health, talks.

    python -m training.situations --output runs/situations --count 40000

The templates (`templates/`, German|English) have places with alternatives, `<1 Zug/Bus>` on one
side and `<1 train/bus>` on the other: the same number is the same choice. `{city}` and the like are
the slots of `everyday`. The pairs are this project's own. Knows words; nothing of tokens or
training."""

import random
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from .aligned import make_pairs
from .command import command_line
from .everyday import filled, slots
from .mixing import Pair


TEMPLATES = {
    path.stem: path for path in sorted(Path(__file__).with_name("templates").glob("*.txt"))
}
PLACE = re.compile(r"<(\d) ([^<>]+)>")


def templates(only: Collection[str] = ()) -> list[str]:
    """The lines of the files of that name, or of all."""
    files = [path for name, path in TEMPLATES.items() if not only or name in only]
    return [line for file in files for line in file.read_text("utf-8").splitlines()]


def pairs(count: int, seed: int = 1, only: Collection[str] = ()) -> Iterator[Pair]:
    """`count` pairs, the same for the same seed: every template in turn, its places drawn anew."""
    rng = random.Random(seed)
    lines = [line.split("|") for line in templates(only)]
    for index in range(count):
        if index % len(lines) == 0:
            rng.shuffle(lines)
        german, english = lines[index % len(lines)]
        german, english = filled(chosen(german, english, rng), slots(rng))
        yield german[0].upper() + german[1:], english[0].upper() + english[1:]


def chosen(german: str, english: str, rng: random.Random) -> Pair:
    """A template with an alternative taken at each place, the same one on both sides."""
    taken = {number: rng.randrange(text.count("/") + 1) for number, text in PLACE.findall(german)}
    first, second = (
        PLACE.sub(lambda place: place[2].split("/")[taken[place[1]]], side)
        for side in (german, english)
    )
    return first, second


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("situations", __doc__)
    parser.add_argument(
        "--only", nargs="+", choices=list(TEMPLATES), default=[], help="templates of these files"
    )
    return make_pairs(
        parser, lambda given: pairs(given.count, given.seed, given.only), 40000, arguments
    )


if __name__ == "__main__":
    sys.exit(main())
