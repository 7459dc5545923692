"""One sentence that is being translated: it acts by its policy as far as what is known allows, and
asks for the prediction it lacks.

Knows that policies are called with a state, and questions; neither what a policy is nor a model."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .actions import Action, Besides, Event, Models, Policy, Prediction, Read, State, Write
from .decoding_rules import DecodingRules
from .ensembles import Ensembles
from .lanes import Question
from .schedule import FULL
from .sources import Row
from .tail import Search


class LiveSentence:
    """One sentence in the loop: its state, the predictions made for its next token, and what has
    happened so far."""

    def __init__(
        self,
        policy: Policy,
        rules: DecodingRules,
        ensembles: Ensembles,
        *,
        catchup: int | None = None,
        source: Sequence[int] = (),
        source_complete: bool = False,
        undecided: Iterable[int] = (),
        history: str = "forced",
    ):
        self.state = State(catchup=catchup)
        self.row = Row(self.state, list(source), source_complete)
        self._undecided = set(undecided)
        self.known: dict[Question, Prediction] = {}
        self._asked: dict[Question, Prediction] = {}
        self.besides: list[Question] = []
        """What the policy will ask as well as its question."""
        self.events: list[Event] = []
        self.delays: list[int] = []
        self.contexts: list[int] = []
        self.finished = False
        self.error: Exception | None = None
        """What ended it, if it could not be finished. Its owner raises it."""
        self.search: Search | None = None
        """The search for its tail, if there is one."""
        self._policy = policy
        self._rules = rules.anew() if rules.stopping else rules
        self._ensembles = ensembles
        self._path = history == "path"

    def arrive(self, tokens: Sequence[int], undecided: Iterable[int] = ()) -> None:
        """More source. After as many of these tokens as are `undecided` the next is read without
        asking the policy: they arrived together, and waiting for it costs nothing."""
        before = len(self.row.source)
        self._undecided.update(before + number for number in undecided)
        self.row.source.extend(tokens)

    def predict(
        self,
        k: int | None = None,
        *,
        context: int | None = None,
        models: Models | None = None,
        close: bool = False,
        after: tuple[int, ...] = (),
        attention: int | None = None,
        besides: Besides = (),
    ) -> Prediction:
        """What policies call. Where the answer is not known yet, an exception leaves the policy,
        and the policy is called again once it is."""
        if (k is None) == (context is None):
            raise ValueError(
                f"predict takes a k or a context, one of the two; got k={k}, context={context}"
            )
        if after and len(self.state.target) + len(after) >= self._rules.limit(self.state):
            return Prediction(self._rules.eos[0], 1.0, ends=True)  # there is room for no more
        named = self._ensembles.models_for(k, models)
        question = Question(k, context, named, close, after, attention)
        if question not in self.known:
            others = dict.fromkeys(question._replace(context=s, close=end) for s, end in besides)
            # Once the source has ended, with and without an end mark may be the same.
            if not self.state.source_ended:
                self.besides = [one for one in others if one not in {question, *self.known}]
            raise _Unanswered(question)
        if not after:  # what is only imagined is no reason to write
            self._asked[question] = self.known[question]
        return self.known[question]

    def imagined(self, after: tuple[int, ...]) -> State:
        """The state as it would be with these tokens written too."""
        return replace(self.state, target=[*self.state.target, *after]) if after else self.state

    def act(self) -> Event | Question | None:
        """Take one action. A question if the policy needs its answer first; None if over, or if the
        source is late."""
        if self.finished:
            return None
        if self.search is not None:
            return self._found(self.search)
        self._asked.clear()
        self.besides = []
        if len(self.state.source) in self._undecided and not self.state.source_ended:
            return self._read(Read())
        try:
            if self.state.source_ended and not self._rules.tail.plain:
                action = self._tail()
            else:
                action = self._policy(self.state, self.predict)
        except _Unanswered as unanswered:
            return unanswered.question
        if isinstance(action, Write):
            if self._rules.reads_on(action.token, self.state):
                return self._read_on(action)
            return self._write(action)
        if isinstance(action, Read):
            return self._read(action)
        raise TypeError(
            f"a policy returns Read() or Write(token); {self._policy!r} returned {action!r}"
        )

    def _read(self, action: Read) -> Event | None:
        state, row = self.state, self.row
        if state.source_ended:
            raise ValueError(
                f"the source has ended and there is nothing left to READ; {self._policy!r} must "
                f"WRITE"
            )
        if len(state.source) == len(row.source):
            return None
        refused = next(reversed(self._asked.values()), None)
        event = Event(
            action,
            row.source[len(state.source)],
            state.lag,
            refused.probability if refused else None,
        )
        state.source.append(event.token)
        state.source_ended = row.source_complete and len(state.source) == len(row.source)
        if self._path:  # more is seen from here on
            self.known.clear()
        return self._happened(event)

    def _read_on(self, end: Write) -> Event | None:
        """READ where the models would end. From here on every position sees at least what has been
        read, or P_k would want to end for ever: at a fixed k it sees no more when the source grows.

        A policy asks with the k it always asks with, falls behind by what was read, and catches up.
        """
        event = self._read(Read())
        if event is not None:
            self.state.read_on[len(self.state.target)] = len(self.state.source)
            if end.context is not None:
                self.state.context = end.context + 1
            self.known.clear()
        return event

    def _write(self, action: Write) -> Event:
        state = self.state
        if not 0 <= action.token < self._rules.vocabulary:
            raise ValueError(
                f"tokens are 0 to {self._rules.vocabulary - 1}; {self._policy!r} wrote "
                f"{action.token!r}"
            )
        question, prediction = self._reason(action)
        k = state.lag if question is None or question.k is None else question.k
        probability = prediction.probability_of(action.token) if prediction else None
        event = self._commit(action, k, probability)
        self.finished = self._rules.over(state, prediction)
        return event

    def _commit(self, action: Write, k: int, probability: float | None) -> Event:
        state = self.state
        if action.token not in self._rules.eos:
            read_end = state.source[-1:] and state.source[-1] in self._rules.eos
            self.delays.append(len(state.source) - bool(read_end))
            self.contexts.append(
                self.delays[-1] if action.context is None else min(action.context, self.delays[-1])
            )
        if action.context is not None:
            state.context = action.context
        state.target.append(action.token)
        self.known.clear()
        return self._happened(Event(action, action.token, k, probability))

    def _tail(self) -> Action:
        """The action where the rules, not the policy, say who writes the tail: other members, or a
        search, which begins here. What is not known yet is asked for as `predict` does it."""
        question = self._tail_question()
        if question is None:  # a policy that asks nobody
            return self._policy(self.state, self.predict)
        if self._rules.tail.beams > 1:
            self.search = Search(self.row, question, self._rules)
            raise _Unanswered(question)
        if question not in self.known:
            raise _Unanswered(question)
        self._asked[question] = self.known[question]
        return Write(self.known[question].token)

    def _tail_question(self) -> Question | None:
        """What the policy asks first, by its own members or those the rules name; with a context
        where it has one, then the whole source."""
        members, whole = self._rules.tail.members, len(self.state.source)
        if members == (FULL,):
            return Question(None, whole, members)
        known, self.known = self.known, {}
        try:
            self._policy(self.state, self.predict)
        except _Unanswered as unanswered:
            own = unanswered.question
        else:
            return None
        finally:
            self.known = known
        models = self._ensembles.models_for(own.k, members) if members else own.models
        return own._replace(context=None if own.context is None else whole, models=models)

    def _found(self, search: Search) -> Event | Question:
        """The next token of what was found, or one more step of the search."""
        best, begun = search.best, len(self.state.target) - search.prompt
        if best is None:
            return search.question
        k = self.state.lag if search.question.k is None else search.question.k
        event = self._commit(Write(best.tokens[begun]), k, best.probabilities[begun])
        self.finished = begun + 1 == len(best.tokens)
        return event

    def _reason(self, action: Write) -> tuple[Question, Prediction] | tuple[None, None]:
        """The prediction a written token rests on: at the context it names, or the latest with that
        token on top."""
        latest = list(reversed(self._asked.items()))
        for question, prediction in latest:
            if (
                prediction.token == action.token
                if action.context is None
                else question.context == action.context
            ):
                return question, prediction
        return latest[0] if latest else (None, None)

    def _happened(self, event: Event) -> Event:
        self.events.append(event)
        return event

    @property
    def stopped_early(self) -> bool:
        """Did it end with `</s>` before the source did?"""
        return (
            self.finished
            and not self.state.source_ended
            and self.state.target[-1] in self._rules.eos
        )


class _Unanswered(BaseException):  # no policy's own error handling may catch it
    def __init__(self, question: Question):
        self.question = question
