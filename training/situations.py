"""Makes pairs of everyday situations, German and English: travel, home, work, health, talks.

    python -m training.situations --output runs/situations --count 40000

The templates (`situations.txt`, German|English) have places with alternatives, `<1 Zug/Bus>` on one
side and `<1 train/bus>` on the other: the same number is the same choice. `{city}` and the like are
the slots of `everyday`. The pairs are this project's own. Knows words; nothing of tokens or
training."""

import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from .aligned import add_output, write_aligned
from .command import command_line, exit_code
from .everyday import slots


TEMPLATES = Path(__file__).with_suffix(".txt")
PLACE = re.compile(r"<(\d) ([^<>]+)>")


def pairs(count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """`count` pairs, the same for the same seed: every template in turn, its places drawn anew."""
    if count < 1:
        raise ValueError(f"--count must be at least 1; got {count}")
    rng = random.Random(seed)
    templates = [line.split("|") for line in TEMPLATES.read_text("utf-8").splitlines()]
    for index in range(count):
        if index % len(templates) == 0:
            rng.shuffle(templates)
        german, english = templates[index % len(templates)]
        yield filled(german, english, rng)


def filled(german: str, english: str, rng: random.Random) -> tuple[str, str]:
    """A template with an alternative chosen at each place, the same one on both sides."""
    chosen = {
        number: rng.randrange(alternatives.count("/") + 1)
        for number, alternatives in PLACE.findall(german)
    }
    values = slots(rng)
    sides = [
        PLACE.sub(lambda place: place[2].split("/")[chosen[place[1]]], side)
        for side in (german, english)
    ]
    first, second = (
        side.format_map({slot: pair[language] for slot, pair in values.items()})
        for language, side in enumerate(sides)
    )
    return first[0].upper() + first[1:], second[0].upper() + second[1:]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("situations", __doc__)
    add_output(parser)
    parser.add_argument("--count", type=int, default=40000)
    given = parser.parse_args(arguments)
    return exit_code(lambda: write_aligned(given.output, pairs(given.count), force=given.force))


if __name__ == "__main__":
    sys.exit(main())
