"""The tail: beam search over the rest of a sentence whose source has ended, what was written being
forced.

Knows lanes and rules; neither policies nor who asks. It ends where transformers' own beam search
does (`early_stopping=False`), and so finds the same."""

from dataclasses import dataclass

import torch

from .actions import State
from .decoding_rules import DecodingRules
from .lanes import Lanes, Question
from .sources import Row


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

    def advance(self, distributions: torch.Tensor, lanes: Lanes) -> None:
        """One token further, given what comes next in each beam."""
        candidates = self._candidates(distributions)
        size = self._rules.tail.beams
        ends = [self._rules.over(beam.row.state, None) for _, beam in candidates]
        for (_, beam), end in list(zip(candidates, ends, strict=True))[:size]:
            if end:
                self._finished.append(self._normalised(beam.found))
        self._finished = sorted(self._finished, key=lambda found: -found.score)[:size]
        going = [pair for pair, end in zip(candidates, ends, strict=True) if not end][:size]
        if not going or not self._may_improve(going[0][1].found):
            self._finish(lanes)
            return
        lanes.fork(self.question, self.rows, [(parent.row, beam.row) for parent, beam in going])
        self._beams = [beam for _, beam in going]

    def _candidates(self, distributions: torch.Tensor) -> list[tuple[_Beam, _Beam]]:
        """The best continuations of all beams, best first, each with the beam it continues; enough
        of them that a full set of beams goes on even if all the others end here."""
        states = [beam.row.state for beam in self._beams]
        scores = self._rules.scores(distributions, states)
        totals = scores + scores.new_tensor([beam.found.score for beam in self._beams])[:, None]
        keep = max(2, 1 + len(self._rules.eos)) * self._rules.tail.beams
        best, places = totals.flatten().topk(min(keep, totals.numel()))
        pairs = []
        for score, place in zip(best.tolist(), places.tolist(), strict=True):
            index, token = divmod(place, totals.shape[1])
            parent = self._beams[index]
            probability = float(distributions[index, token])
            pairs.append((parent, self._continued(parent, token, probability, score)))
        return pairs

    def _continued(self, parent: _Beam, token: int, probability: float, score: float) -> _Beam:
        old = parent.row.state
        state = State(old.source, [*old.target, token], True, old.catchup, old.context, old.read_on)
        found = Found(
            (*parent.found.tokens, token), (*parent.found.probabilities, probability), score
        )
        return _Beam(Row(state, self._origin.source, True, self._origin), found)

    def _normalised(self, found: Found) -> Found:
        score = found.score / len(found.tokens) ** self._rules.tail.length_penalty
        return Found(found.tokens, found.probabilities, score)

    def _may_improve(self, best: Found) -> bool:
        """Could the best of the open beams still beat the worst of a full set of finished ones?"""
        full = len(self._finished) == self._rules.tail.beams
        return not full or self._normalised(best).score > self._finished[-1].score

    def _finish(self, lanes: Lanes) -> None:
        self.best = self._finished[0]
        self.release(lanes)

    def release(self, lanes: Lanes) -> None:
        """Give back what the beams held."""
        for row in self.rows:
            if row is not self._origin:
                lanes.release(row)
