"""The READ/WRITE loop: sentences act by their policies, and the predictions they ask for are made together.

Knows that policies are called with a state and that lanes answer questions; neither what a policy is nor a model.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .actions import Action, Policy, Prediction, Read, State, Write
from .lanes import Lanes, Question
from .members import Members
from .rules import Rules
from .sources import Row


@dataclass(frozen=True, slots=True)
class Event:
    """One action as it happened: a source token read, or a target token written, for good."""

    action: Action
    token: int
    k: int
    """WRITE: the k the token was predicted with. READ: the lag before it."""
    probability: float | None = None
    """WRITE: of the token. READ: of the token that was not sure enough to be written, if one was asked for."""


class Sentence:
    """One sentence in the loop: its state, the predictions made for its next token, and what has happened so far."""

    def __init__(
        self,
        policy: Policy,
        rules: Rules,
        members: Callable[[int | None, Members | None], Members],
        *,
        catchup: int | None = None,
        source: Sequence[int] = (),
        complete: bool = False,
        history: str = "forced",
    ):
        self.state = State(catchup=catchup)
        self.row = Row(self.state, list(source), complete)
        self.known: dict[Question, Prediction] = {}
        self._asked: dict[Question, Prediction] = {}
        self.events: list[Event] = []
        self.delays: list[int] = []
        self.contexts: list[int] = []
        self.done = False
        self._policy, self._rules, self._members, self._path = policy, rules, members, history == "path"

    def predict(
        self, k: int | None = None, *, context: int | None = None, models: Members | None = None
    ) -> Prediction:
        """What policies call. An answer not known yet leaves the policy; it is called again when it is."""
        if (k is None) == (context is None):
            raise ValueError(f"predict takes a k or a context, one of the two; got k={k}, context={context}")
        question = Question(k, context, self._members(k, models))
        if question not in self.known:
            raise _Unanswered(question)
        self._asked[question] = self.known[question]
        return self.known[question]

    def act(self) -> Event | Question | None:
        """Take one action. A question if the policy needs its answer first; None if over, or if the source is late."""
        if self.done:
            return None
        self._asked.clear()
        try:
            action = self._policy(self.state, self.predict)
        except _Unanswered as unanswered:
            return unanswered.question
        if isinstance(action, Write):
            return self._write(action)
        if isinstance(action, Read):
            return self._read(action)
        raise TypeError(f"a policy returns Read() or Write(token); {self._policy!r} returned {action!r}")

    def _read(self, action: Read) -> Event | None:
        state, row = self.state, self.row
        if state.ended:
            raise ValueError(f"the source has ended and there is nothing left to READ; {self._policy!r} must WRITE")
        if len(state.source) == len(row.source):
            return None
        refused = next(reversed(self._asked.values()), None)
        event = Event(action, row.source[len(state.source)], state.lag, refused.probability if refused else None)
        state.source.append(event.token)
        state.ended = row.complete and len(state.source) == len(row.source)
        if state.ended or self._path:  # </s> may be allowed from here on; on the actual path more is seen
            self.known.clear()
        return self._happened(event)

    def _write(self, action: Write) -> Event:
        state = self.state
        if not 0 <= action.token < self._rules.vocabulary:
            raise ValueError(f"tokens are 0 to {self._rules.vocabulary - 1}; {self._policy!r} wrote {action.token!r}")
        question, prediction = self._reason(action)
        k = state.lag if question is None or question.k is None else question.k
        probability = prediction.probability_of(action.token) if prediction else None
        event = Event(action, action.token, k, probability)
        if action.token not in self._rules.eos:
            read_end = state.source[-1:] and state.source[-1] in self._rules.eos
            self.delays.append(len(state.source) - bool(read_end))
            self.contexts.append(self.delays[-1] if action.context is None else min(action.context, self.delays[-1]))
        if action.context is not None:
            state.context = action.context
        state.target.append(action.token)
        self.known.clear()
        self.done = self._rules.over(state, prediction)
        return self._happened(event)

    def _reason(self, action: Write) -> tuple[Question, Prediction] | tuple[None, None]:
        """The prediction a written token rests on: at the context it names, or the latest with that token on top."""
        latest = list(reversed(self._asked.items()))
        for question, prediction in latest:
            if prediction.token == action.token if action.context is None else question.context == action.context:
                return question, prediction
        return latest[0] if latest else (None, None)

    def _happened(self, event: Event) -> Event:
        self.events.append(event)
        return event

    @property
    def stopped_early(self) -> bool:
        """Did it end with `</s>` before the source did?"""
        return self.done and not self.state.ended and self.state.target[-1] in self._rules.eos


class _Unanswered(BaseException):  # not an Exception: a policy's own error handling must not catch it
    def __init__(self, question: Question):
        self.question = question


def decode(sentences: Iterable[Sentence], lanes: Lanes, rules: Rules) -> Iterator[tuple[Sentence, Event]]:
    """The READ/WRITE loop. Every sentence acts until it needs a prediction; the predictions are made together; again.

    Returns when each sentence is over or waits for source that has not arrived.
    """
    active, asked = list(sentences), list[tuple[Sentence, Question]]()
    while True:
        for sentence in active:
            while isinstance(step := sentence.act(), Event):
                yield sentence, step
            if step is not None:
                asked.append((sentence, step))
            elif sentence.done:
                lanes.forget(sentence.row)
        if not asked:
            return
        answered, asked = _busiest(asked)
        distributions = lanes.predict([(sentence.row, question) for sentence, question in answered])
        answers = rules.choose(distributions, [sentence.state for sentence, _ in answered])
        for (sentence, question), answer in zip(answered, answers, strict=True):
            sentence.known[question] = answer
        active = [sentence for sentence, _ in answered]


def _busiest(asked: list[tuple[Sentence, Question]]) -> tuple[list[Any], list[Any]]:
    """Split off the questions to the models that most sentences wait for: fewer and larger calls than all at once.

    Sentences whose source has ended all ask the same models from there on, so they wait until they can go together.
    """
    still_reading = [pair for pair in asked if not pair[0].state.ended]
    counts = Counter(question.models for _, question in still_reading or asked)
    models = counts.most_common(1)[0][0]
    return [pair for pair in asked if pair[1].models == models], [pair for pair in asked if pair[1].models != models]
