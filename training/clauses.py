"""Makes pairs of longer clauses, German and English, by a small grammar.

    python -m training.clauses --output runs/clauses --count 30000

Everyday corpora are short, and a model that saw nothing else loses a clause where somebody says
more. Here verbs that come last, the circumstances before them, negation, questions, inversion and
subordinate clauses meet freely. The pairs are this project's own. Knows grammar and `clause_words`;
nothing of tokens or training.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from .aligned import make_pairs
from .clause_words import (
    ASKING,
    FIRST,
    HABEN,
    LINKS,
    MODALS,
    NOT,
    OPENINGS,
    REASONS,
    SEIN,
    SUBJECTS,
    VERBS,
    WHEN,
    WHERE,
    WITH,
)
from .command import command_line
from .everyday import filled, slots
from .mixing import Pair


PERSONS = ("1s", "2s", "3s", "1p", "2p", "3p")
# Of the present tense, where they are the same for all verbs on -en.
ENDINGS = {"1s": "e", "1p": "en", "3p": "en"}
NOTHING = ("", "")


@dataclass(frozen=True)
class Clause:
    """What every order of its words is made of; pairs are German and English."""

    subject: Pair
    when: Pair
    finite: str
    """The German verb that changes its place."""
    middle: str
    last: str
    closing: str
    """Both German verbs, as they end a subordinate clause."""
    said: str
    """English, all that follows the subject; then the same as a question."""
    asked: str

    def plain(self) -> Pair:
        """Finite verb second."""
        german = (self.subject[0], self.finite, self.when[0], self.middle, self.last)
        return _joined(*german), self._english()

    def inverted(self) -> Pair:
        """The time first, so that the subject comes after the verb."""
        german = (self.when[0], self.finite, self.subject[0], self.middle, self.last)
        return _joined(*german), _joined(self.when[1], self.subject[1], self.said)

    def question(self) -> Pair:
        """Finite verb first."""
        german = (self.finite, self.subject[0], self.when[0], self.middle, self.last)
        return _joined(*german), _joined(self.asked, self.when[1])

    def subordinate(self) -> Pair:
        """Finite verb last."""
        german = (self.subject[0], self.when[0], self.middle, self.closing)
        return _joined(*german), self._english()

    def _english(self) -> str:
        return _joined(self.subject[1], self.said, self.when[1])


@dataclass(frozen=True)
class Tense:
    """A German finite verb; and in English what stands before the verb, and what negates and
    asks."""

    finite: str
    said: str
    auxiliary: str
    rest: str
    time: str


def pairs(count: int, seed: int = 1) -> Iterator[Pair]:
    """`count` pairs, the same for the same seed."""
    rng = random.Random(seed)
    shapes: tuple[Callable[[random.Random], Pair], ...] = (
        *(_statement, _statement, _statement, _with_reason, _with_reason),
        *(_opened, _opened, _linked, _question, _purpose),
        *(_asked_why, _reason_first),
    )
    for _ in range(count):
        german, english = filled(rng.choice(shapes)(rng), slots(rng))
        yield german[0].upper() + german[1:], english[0].upper() + english[1:]


def clause(rng: random.Random) -> Clause:
    """Somebody did something, or does not want to, with somebody, somewhere, some time."""
    german, english, person = rng.choice(_rows(SUBJECTS))
    verb, meaning, objects = rng.choice(_rows(VERBS))
    infinitive, with_zu, participle, auxiliary = (word.replace("_", " ") for word in verb.split())
    base, past = (word.replace("_", " ") for word in meaning.split())
    drawn = rng.random()
    perfect = drawn < 0.45
    present = drawn > 0.85 and person in ENDINGS and infinitive.endswith("en")
    if perfect:
        tense, last = _perfect(auxiliary, past, person), participle
    elif present:
        tense, last = _present(infinitive, with_zu, person)
    else:
        tense, last = _modal(rng, person), infinitive
    around = [_maybe(rng, WITH, 0.35), _maybe(rng, WHERE, 0.35 if auxiliary == "haben" else 0.0)]
    thing = _thing(rng, objects)
    without = _without(thing[0], goes=auxiliary == "sein")
    negation = rng.random() < 0.2 and without is not None
    middle = _joined(*(part[0] for part in around), (without if negation else thing[0]) or "")
    tail = _joined(thing[1], *(part[1] for part in reversed(around)))
    helper = NOT[tense.auxiliary] if negation else tense.auxiliary
    said = tense.said if perfect else _joined(tense.said, base)
    return Clause(
        subject=(german, english),
        when=_when(rng, tense.time, always=present),
        finite=tense.finite,
        middle=middle,
        last=last,
        closing=f"{last}{tense.finite}" if present else f"{last} {tense.finite}",
        said=_joined(helper, tense.rest, base, tail) if negation else _joined(said, tail),
        asked=_joined(helper, english, tense.rest, base, tail),
    )


def _perfect(auxiliary: str, past: str, person: str) -> Tense:
    forms = HABEN if auxiliary == "haben" else SEIN
    return Tense(forms.split()[PERSONS.index(person)], past, "did", "", "past")


def _present(infinitive: str, with_zu: str, person: str) -> tuple[Tense, str]:
    """What German says of tomorrow; and the part of the verb that stays behind, as in "rufe ...
    an"."""
    parted = [infinitive[:n] for n in range(len(infinitive)) if _with_zu(infinitive, n) == with_zu]
    prefix = parted[0] if parted else ""
    finite = infinitive.removeprefix(prefix).removesuffix("en") + ENDINGS[person]
    return Tense(finite, "will", "will", "", "future"), prefix


def _with_zu(infinitive: str, place: int) -> str:
    return f"{infinitive[:place]}zu{infinitive[place:]}"


def _modal(rng: random.Random, person: str) -> Tense:
    forms, third, others, helper_of_third, helper, rest, time = rng.choice(_rows(MODALS))
    finite = forms.split()[PERSONS.index(person)]
    if person == "3s":
        return Tense(finite, third, helper_of_third, rest, time)
    return Tense(finite, others, helper, rest, time)


def _statement(rng: random.Random) -> Pair:
    found = clause(rng)
    return _ended(found.inverted() if found.when[0] and rng.random() < 0.35 else found.plain(), ".")


def _with_reason(rng: random.Random) -> Pair:
    german, english = clause(rng).plain()
    reason = rng.choice(_rows(REASONS))
    return f"{german}, {reason[0]}.", f"{english} {reason[1]}."


def _opened(rng: random.Random) -> Pair:
    opening = rng.choice(_rows(OPENINGS))
    german, english = clause(rng).subordinate()
    end = "?" if opening[0].split()[0] in ("Weißt", "Können") else "."
    return f"{opening[0]} {german}{end}", f"{opening[1]} {english}{end}"


def _linked(rng: random.Random) -> Pair:
    link = rng.choice(_rows(LINKS))
    first, second = clause(rng).plain(), clause(rng).subordinate()
    return f"{first[0]}, {link[0]} {second[0]}.", f"{first[1]} {link[1]} {second[1]}."


def _question(rng: random.Random) -> Pair:
    return _ended(clause(rng).question(), "?")


def _asked_why(rng: random.Random) -> Pair:
    asking = rng.choice(_rows(ASKING))
    german, english = replace(clause(rng), when=NOTHING).question()
    return f"{asking[0]} {german}?", f"{asking[1]} {english}?"


def _reason_first(rng: random.Random) -> Pair:
    """A subordinate clause is first, so that the verb comes before its subject."""
    reason = rng.choice([row for row in _rows(REASONS) if row[0].split()[0] in FIRST])
    found = clause(rng)
    german, english = found.question()[0], found.plain()[1]
    return f"{reason[0]}, {german}.", f"{reason[1]}, {english}."


def _purpose(rng: random.Random) -> Pair:
    """Somebody went somewhere to do something."""
    verb, meaning, objects = rng.choice(_rows(VERBS))
    german, english = clause(rng).plain()
    infinitive = verb.split()[1].replace("_", " ")
    thing = _thing(rng, objects)
    purpose = _joined("um", thing[0], infinitive)
    base = meaning.split()[0].replace("_", " ")
    return f"{german}, {purpose}.", f"{english} to {_joined(base, thing[1])}."


def _when(rng: random.Random, time: str, *, always: bool = False) -> Pair:
    if rng.random() < 0.35 and not always:
        return NOTHING
    # Only the time tells that a present tense is meant of the future.
    fitting = [row for row in _rows(WHEN) if row[2] in ((time,) if always else (time, "any"))]
    german, english, _ = rng.choice(fitting)
    return german, english


def _maybe(rng: random.Random, text: str, share: float) -> Pair:
    if rng.random() >= share:
        return NOTHING
    german, english = rng.choice(_rows(text))
    return german, english


def _thing(rng: random.Random, objects: str) -> Pair:
    if not objects:
        return NOTHING
    german, english = rng.choice(objects.split(";")).split("=")
    return german, english


def _without(thing: str, *, goes: bool) -> str | None:
    """The German object, negated; None where that would sound odd."""
    first = thing.partition(" ")[0]
    if first in ("ein", "eine", "einen"):
        return f"k{thing}"
    if goes or not thing:
        return _joined("nicht", thing)
    return f"{thing} nicht" if first in ("der", "die", "das", "den") else None


def _rows(text: str) -> list[list[str]]:
    return [line.split("|") for line in text.strip().replace("\n    ", "").splitlines()]


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _ended(pair: Pair, end: str) -> Pair:
    return f"{pair[0]}{end}", f"{pair[1]}{end}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return make_pairs(
        command_line("clauses", __doc__),
        lambda given: pairs(given.count, given.seed),
        30000,
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
