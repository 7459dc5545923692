"""The tail: beam search over the rest of a sentence whose source has ended, what was written being
forced.

Knows lanes and rules; neither policies nor who asks. It ends no later than transformers' own beam
search (`early_stopping=False`), which goes on until a full set of hypotheses is finished: beams
that can hardly become the best are given up before, which halves the work and finds the same."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from .actions import State
from .decoding_rules import DecodingRules
from .lanes import Lanes, Question
from .sources import Row


AHEAD = 4
"""A beam is given up once a finished one would still be better if the next so many of its tokens
were certain."""


@dataclass(frozen=True, slots=True)
class Found:
    """A hypothesis: its new tokens, the probability of each, and the score it is ranked by."""

    tokens: tuple[int, ...]
    probabilities: tuple[float, ...]
    score: float


@dataclass(slots=True)
class _Beam:
    row: Row
    found: Found


class _Choice(NamedTuple):
    """A token that might continue a beam: the score with it, the beam's place, and itself."""

    score: float
    place: int
    token: int
    probability: float


class _Step(NamedTuple):
    """Where a search stands after one more token; nothing has been changed yet."""

    finished: list[Found]
    going: list[tuple[_Beam, _Beam]]
    """Open beams, each behind the one it continues."""


class Search:
    """One sentence's search. Its beams are rows of their own, which begin as copies of its lane."""

    def __init__(self, row: Row, question: Question, rules: DecodingRules):
        self._origin = row
        self._rules = rules
        self.question = question
        self.prompt = len(row.state.target)
        """Target tokens that were written before, and are forced."""
        self._beams = [_Beam(row, Found((), (), 0.0))]
        self._finished: list[Found] = []
        self.best: Found | None = None
        """What was found, once the search is over."""

    @property
    def rows(self) -> list[Row]:
        """Whose next tokens are to be predicted."""
        return [beam.row for beam in self._beams]

    def look(self, tops: Sequence["_Top"]) -> _Step:
        """One token further, given the best that come next in each beam.

        The best continuations of all beams are looked at, enough of them that a full set of beams
        goes on even if all the others end here."""
        choices = [
            _Choice(beam.found.score + score, place, token, probability)
            for place, (beam, top) in enumerate(zip(self._beams, tops, strict=True))
            for score, token, probability in zip(*top, strict=True)
        ]
        choices.sort(key=lambda choice: -choice.score)
        size = self._rules.tail.beams
        finished, going = list(self._finished), []
        for rank, choice in enumerate(choices[: kept(self._rules)]):
            beam = self._continued(choice)
            if not self._rules.over(beam.row.state, None):
                going.append((self._beams[choice.place], beam))
            elif rank < size:
                finished.append(self._normalised(beam.found))
            if len(going) == size:
                break
        finished = sorted(finished, key=lambda found: -found.score)[:size]
        return _Step(finished, [pair for pair in going if self._may_win(pair[1].found, finished)])

    def take(self, step: _Step) -> bool:
        """Go there. False if the search is over: what is open could not be better any more."""
        self._finished = step.finished
        if step.going and self._may_improve(step.going[0][1].found):
            self._beams = [beam for _, beam in step.going]
            return True
        self.best = self._finished[0]
        return False

    def _continued(self, choice: _Choice) -> _Beam:
        parent = self._beams[choice.place]
        old, found = parent.row.state, parent.found
        target = [*old.target, choice.token]
        state = State(old.source, target, True, old.catchup, old.context, old.read_on)
        longer = Found(
            (*found.tokens, choice.token),
            (*found.probabilities, choice.probability),
            choice.score,
        )
        return _Beam(Row(state, self._origin.source, True, self._origin), longer)

    def _normalised(self, found: Found, ahead: int = 0) -> Found:
        length = len(found.tokens) + ahead
        score = found.score / length**self._rules.tail.length_penalty
        return Found(found.tokens, found.probabilities, score)

    def _may_win(self, open_: Found, finished: Sequence[Found]) -> bool:
        """Could this beam still become the best?"""
        return not finished or self._normalised(open_, AHEAD).score > finished[0].score

    def _may_improve(self, best: Found) -> bool:
        """Could the best of the open beams still beat the worst of a full set of finished ones?"""
        full = len(self._finished) == self._rules.tail.beams
        return not full or self._normalised(best).score > self._finished[-1].score

    def release(self, lanes: Lanes) -> None:
        """Give back what the beams held."""
        for row in self.rows:
            if row is not self._origin:
                lanes.release(row)


_Top = tuple[list[float], list[int], list[float]]
"""The best tokens of a distribution: their scores, themselves, their probabilities."""


def kept(rules: DecodingRules) -> int:
    """How many continuations a search looks at."""
    return max(2, 1 + len(rules.eos)) * rules.tail.beams


def advance(
    searches: Sequence[Search], distributions: torch.Tensor, rules: DecodingRules, lanes: Lanes
) -> None:
    """Every search one token further, given what comes next in all of their beams, one after the
    other. What can be done for all at once is."""
    tops = _tops(distributions, [row.state for one in searches for row in one.rows], rules)
    rest = iter(tops)
    steps = [search.look([next(rest) for _ in search.rows]) for search in searches]
    forks: dict[Question, tuple[list[Row], list[tuple[Row, Row]]]] = {}
    for search, step in zip(searches, steps, strict=True):
        before = search.rows
        if search.take(step):
            rows, heirs = forks.setdefault(search.question, ([], []))
            rows += before
            heirs += [(parent.row, beam.row) for parent, beam in step.going]
        else:
            search.release(lanes)
    for question, (rows, heirs) in forks.items():
        lanes.fork(question, rows, heirs)


def _tops(
    distributions: torch.Tensor, states: Sequence[State], rules: DecodingRules
) -> Iterator[_Top]:
    scores = rules.scores(distributions, states)
    best, tokens = scores.topk(min(kept(rules), scores.shape[1]))
    probabilities = distributions.gather(1, tokens)
    return zip(best.tolist(), tokens.tolist(), probabilities.tolist(), strict=True)
