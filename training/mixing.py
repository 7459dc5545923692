"""Makes the training pairs of a corpus more or fewer: repeated, drawn, or again as plain text.

Knows pairs of sentences; nothing of files or tokens.
"""

import random
import re
from collections.abc import Sequence


Pair = tuple[str, str]

# All but letters, digits and spaces; of apostrophes and hyphens, those that are not inside a word.
PUNCTUATION = re.compile(r"[^\w\s'\u2019-]|(?<!\w)['\u2019-]|['\u2019-](?!\w)")


def plain(text: str) -> str:
    """A sentence as recognisers of speech send it: lower case, no punctuation."""
    return " ".join(PUNCTUATION.sub(" ", text.lower()).split())


def weighted(pairs: Sequence[Pair], weight: float, rng: random.Random) -> list[Pair]:
    """The pairs as often as the weight says, in their order: all of them so many whole times, and
    a sample for the rest."""
    whole = int(weight)
    rest = round((weight - whole) * len(pairs))
    drawn = sorted(rng.sample(range(len(pairs)), rest))
    return [*pairs] * whole + [pairs[index] for index in drawn]


def plain_copies(pairs: Sequence[Pair], share: float, rng: random.Random) -> list[Pair]:
    """A share of the pairs, drawn, with their source as plain text; none that would be the same or
    empty."""
    drawn = sorted(rng.sample(range(len(pairs)), round(share * len(pairs))))
    copies = [(plain(pairs[index][0]), pairs[index]) for index in drawn]
    return [(source, pair[1]) for source, pair in copies if source and source != pair[0]]
