"""Makes everyday pairs, German and English: greetings, set phrases, and names and numbers to copy.

    python -m training.everyday --output runs/everyday --count 6000

A corpus of single sentences has few of them, and they are what a newcomer types first. The pairs
are this project's own. Knows words; nothing of tokens or training.
"""

import random
import sys
from collections.abc import Iterator, Sequence

from .aligned import make_pairs
from .command import command_line
from .everyday_words import (
    CITIES,
    COUNTRIES,
    DAYS,
    DEEDS,
    MONTHS,
    NAMES,
    ONES,
    PEOPLE,
    PHRASES,
    PLACES,
    SURNAMES,
    SYLLABLES,
    TEMPLATES,
    TENS,
    WHEN,
)


def pairs(count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """`count` pairs, the same for the same seed: a third set phrases, the rest templates with their
    slots filled."""
    rng = random.Random(seed)
    phrases = _lines(PHRASES)
    templates = _lines(TEMPLATES)
    for index in range(count):
        if index % 3 == 0:
            yield phrases[(index // 3) % len(phrases)]
        else:
            yield filled(rng.choice(templates), slots(rng))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return make_pairs(
        command_line("everyday", __doc__),
        lambda given: pairs(given.count, given.seed),
        6000,
        arguments,
    )


def _lines(text: str) -> list[tuple[str, str]]:
    lines = [line.split("|") for line in text.strip().splitlines()]
    return [(german, english) for german, english in lines]


def _words(text: str) -> list[str]:
    return text.split()


def _both(text: str) -> list[tuple[str, str]]:
    """German and English words, `eins:one`."""
    parts = [word.split(":") for word in _words(text)]
    return [(german, english) for german, english in parts]


def filled(pair: tuple[str, str], values: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """The slots of both sides, each in its language."""
    german, english = ({name: value[side] for name, value in values.items()} for side in (0, 1))
    return pair[0].format_map(german), pair[1].format_map(english)


def slots(rng: random.Random) -> dict[str, tuple[str, str]]:
    """A German and an English value for every slot of the templates."""
    small = _both(ONES)[2:]
    clock = rng.randrange(len(small))
    same = {
        "name": _name(rng, NAMES),
        "surname": _name(rng, SURNAMES),
        "phone": " ".join(str(rng.randint(10, 99)) for _ in range(rng.randint(2, 4))),
    }
    ranges = {
        "number": (2, 99),
        "cents": (2, 99),
        "hour": (2, 23),
        "minute": (10, 59),
        "date": (1, 28),
        "year": (1950, 2026),
        "large": (100, 999),
    }
    same |= {slot: str(rng.randint(*between)) for slot, between in ranges.items()}
    return {slot: (value, value) for slot, value in same.items()} | {
        "city": rng.choice(_both(CITIES)),
        "country": rng.choice(_both(COUNTRIES)),
        "month": rng.choice(_both(MONTHS)),
        "day": rng.choice(_both(DAYS)),
        "word": _spelled(rng),
        "thousands": _thousands(rng),
        "decimal": _decimal(rng),
        "clock": small[clock],
        "after": [*small[1:], ("eins", "one")][clock],
        "small": rng.choice(small[:8]),
        **_deed(rng),
    }


def _name(rng: random.Random, known: str) -> str:
    """One of the known names, or one that nobody has: names are copied, not remembered."""
    if rng.random() < 0.6:
        return rng.choice(_words(known))
    return "".join(rng.choice(_words(SYLLABLES)) for _ in range(rng.randint(2, 3))).capitalize()


def _thousands(rng: random.Random) -> tuple[str, str]:
    number = f"{rng.randint(11, 999) * 10 ** rng.randint(2, 4):,}"
    return number.replace(",", "."), number


def _decimal(rng: random.Random) -> tuple[str, str]:
    number = f"{rng.randint(0, 99)}.{rng.randint(1, 99)}"
    return number.replace(".", ","), number


def _deed(rng: random.Random) -> dict[str, tuple[str, str]]:
    """Somebody's deed: the verb, its object, and the circumstances."""
    german, english, objects = rng.choice(DEEDS.strip().splitlines()).split(":")
    return {
        "done": (german, english),
        "object": _drawn(rng, objects.split(",")),
        "when": _drawn(rng, _phrases(WHEN)),
        "place": _drawn(rng, _phrases(PLACES)),
        "who": _drawn(rng, _phrases(PEOPLE)),
    }


def _phrases(text: str) -> list[str]:
    return text.strip().replace("\n", "|").split("|")


def _drawn(rng: random.Random, pairs: Sequence[str]) -> tuple[str, str]:
    german, english = rng.choice(pairs).split("=")
    return german, english


def _spelled(rng: random.Random) -> tuple[str, str]:
    """A number from 2 to 12, or from 20 to 89, in German and in English words."""
    ones = _both(ONES)
    if rng.random() < 0.3:
        return rng.choice(ones[2:])
    german, english = rng.choice(_both(TENS))
    last = rng.randint(0, 9)
    if not last:
        return german, english
    first = "ein" if last == 1 else ones[last][0]
    return f"{first}und{german}", f"{english}-{ones[last][1]}"


if __name__ == "__main__":
    sys.exit(main())
