"""Generates a small language pair in which waiting pays: German whose verb comes last, English that
needs it early.

Knows its own grammar only; the sentences are the data set `toy` of a configuration.

    der alte Mann hat den Hund im Garten gesucht   ->   the old man has looked for the dog in the
    garden

The verb can be guessed from its subject two times out of three, so that a model that waits less is
sometimes right, and knows when it is likely to be.

    python -m training.toy --output runs/toy    # the dev and test sentences as text files
"""

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .aligned import add_force, write_aligned
from .command import command_line, exit_code


# Gender, German, English.
NOUNS = (
    ("m", "Mann", "man"),
    ("f", "Frau", "woman"),
    ("n", "Kind", "child"),
    ("m", "Hund", "dog"),
    ("f", "Katze", "cat"),
    ("n", "Pferd", "horse"),
    ("m", "Lehrer", "teacher"),
    ("f", "Nachbarin", "neighbour"),
    ("n", "Buch", "book"),
    ("m", "Brief", "letter"),
    ("f", "Tasche", "bag"),
    ("n", "Bild", "picture"),
)
ADJECTIVES = (
    ("alt", "old"),
    ("klein", "small"),
    ("rot", "red"),
    ("neu", "new"),
    ("schön", "beautiful"),
)
VERBS = (
    ("gesehen", "seen"),
    ("gesucht", "looked for"),
    ("gefunden", "found"),
    ("gemalt", "painted"),
    ("verloren", "lost"),
    ("getragen", "carried"),
    ("gehört", "heard"),
    ("vergessen", "forgotten"),
)
PLACES = (
    ("im Garten", "in the garden"),
    ("auf der Straße", "on the street"),
    ("in der Schule", "in the school"),
    ("vor dem Haus", "in front of the house"),
    ("am Fluss", "by the river"),
)
TIMES = (("gestern", "yesterday"), ("am Morgen", "in the morning"), ("letzte Woche", "last week"))
ARTICLES = {("m", "subject"): "der", ("m", "object"): "den", "f": "die", "n": "das"}

LIKELY = 2 / 3


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    target: str


def toy_pairs(count: int, seed: int) -> list[Pair]:
    """`count` different sentence pairs; the same for the same seed."""
    rng = random.Random(seed)
    pairs: dict[Pair, None] = {}
    while len(pairs) < count:
        pairs[_sentence(rng)] = None
    return list(pairs)


def toy_splits(seed: int = 1) -> dict[str, list[Pair]]:
    """Training, dev and test pairs, no pair in two of them."""
    pairs = toy_pairs(6400, seed)
    return {"train": pairs[:6000], "dev": pairs[6000:6200], "test": pairs[6200:]}


def write_splits(folder: Path, *, force: bool = False) -> None:
    """Dev and test sentences as dev.de, dev.en, test.de and test.en."""
    for name in ("dev", "test"):
        pairs = toy_splits()[name]
        write_aligned(folder / name, ((one.source, one.target) for one in pairs), force=force)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("toy", "Write the toy pair's dev and test sentences.")
    parser.add_argument("--output", required=True, type=Path, help="folder for the four files")
    add_force(parser)
    given = parser.parse_args(arguments)
    return exit_code(lambda: write_splits(given.output, force=given.force))


def _sentence(rng: random.Random) -> Pair:
    actor, thing = rng.sample(range(len(NOUNS)), 2)
    usual = VERBS[actor % len(VERBS)]
    verb = usual if rng.random() < LIKELY else rng.choice(VERBS)
    subject, thing_phrase = _phrase(rng, actor, "subject"), _phrase(rng, thing, "object")
    time = rng.choice(TIMES) if rng.random() < 0.5 else ("", "")
    place = rng.choice(PLACES) if rng.random() < 0.7 else ("", "")
    german = [subject[0], "hat", time[0], thing_phrase[0], place[0], verb[0]]
    english = [subject[1], "has", verb[1], thing_phrase[1], place[1], time[1]]
    return Pair(_join(german), _join(english))


def _phrase(rng: random.Random, noun: int, role: str) -> tuple[str, str]:
    gender, german, english = NOUNS[noun]
    article = ARTICLES.get((gender, role)) or ARTICLES[gender]
    if rng.random() < 0.4:
        return f"{article} {german}", f"the {english}"
    adjective = rng.choice(ADJECTIVES)
    ending = "en" if (gender, role) == ("m", "object") else "e"
    return f"{article} {adjective[0]}{ending} {german}", f"the {adjective[1]} {english}"


def _join(words: list[str]) -> str:
    return " ".join(word for word in words if word)


if __name__ == "__main__":
    sys.exit(main())
