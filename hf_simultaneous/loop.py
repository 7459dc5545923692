"""The READ/WRITE loop: sentences act, and the predictions they ask for are made together.

Knows that sentences ask questions and that lanes answer them; neither what a policy is nor a
model."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from .actions import Event
from .decoding_rules import DecodingRules
from .lanes import Lanes, Question
from .live_sentence import LiveSentence
from .tail import advance


class _Asked(NamedTuple):
    """A sentence that waits for an answer, and since which step of the loop."""

    sentence: LiveSentence
    question: Question
    since: int


PATIENCE = 8
"""Steps of the loop after which a question is answered next, however few ask the same models."""


class Loop:
    """The READ/WRITE loop of any number of sentences, which may come and go between two steps.

    An error of one sentence ends that sentence only: it is kept as its `error`."""

    def __init__(self, lanes: Lanes, rules: DecodingRules, patience: int = PATIENCE):
        self.lanes = lanes
        self._patience = patience
        self._rules = rules
        self._ready: dict[LiveSentence, None] = {}
        self._asked: dict[LiveSentence, _Asked] = {}
        self._steps = 0

    def add(self, sentence: LiveSentence) -> None:
        """Let a sentence act: a new one, or one with more source than before."""
        if sentence not in self._asked and not sentence.finished and sentence.error is None:
            self._ready[sentence] = None

    def remove(self, sentence: LiveSentence) -> None:
        """Forget a sentence, finished or not, and give back what it held."""
        self._ready.pop(sentence, None)
        self._asked.pop(sentence, None)
        if sentence.search is not None:
            sentence.search.release(self.lanes)
        self.lanes.release(sentence.row)

    def __contains__(self, sentence: LiveSentence) -> bool:
        """Can it still act on the source that has arrived?"""
        return sentence in self._ready or sentence in self._asked

    @property
    def idle(self) -> bool:
        """Is every sentence over, or waiting for source that has not arrived?"""
        return not (self._ready or self._asked)

    def step(self) -> list[tuple[LiveSentence, Event]]:
        """Answer one group of questions together, then let whoever can act do so."""
        self._steps += 1
        if self._asked:
            self._answer(self._next_group())
        return self.act()

    def act(self) -> list[tuple[LiveSentence, Event]]:
        """Let whoever needs no answer act until it asks or waits."""
        events: list[tuple[LiveSentence, Event]] = []
        for sentence in list(self._ready):
            del self._ready[sentence]
            try:
                while isinstance(step := sentence.act(), Event):
                    events.append((sentence, step))
            except Exception as error:
                self._fail(sentence, error)
                continue
            if step is not None:
                self._asked[sentence] = _Asked(sentence, step, self._steps)
            elif sentence.finished:
                self.remove(sentence)
        return events

    def _next_group(self) -> list[_Asked]:
        """The questions to the models that most sentences wait for: fewer and larger calls than all
        at once. But nobody waits for ever: first those of whoever has waited too long.

        Sentences whose source has ended all ask the same models from there on, so they wait until
        they can go together."""
        waiting = list(self._asked.values())
        if self._steps - waiting[0].since > self._patience:
            models = waiting[0].question.models
        else:
            reading = [asked for asked in waiting if not asked.sentence.state.source_ended]
            counts = Counter(asked.question.models for asked in reading or waiting)
            models = counts.most_common(1)[0][0]
        return [asked for asked in waiting if asked.question.models == models]

    def _answer(self, group: list[_Asked]) -> None:
        try:
            self._predict(group)
        except Exception as error:
            if len(group) == 1:
                self._fail(group[0].sentence, error)
            else:  # find out whose fault it was
                for asked in group:
                    self._answer([asked])
            return
        for asked in group:
            del self._asked[asked.sentence]
            self._ready[asked.sentence] = None

    def _predict(self, group: list[_Asked]) -> None:
        """One call for all of them, with what else their policies will ask; a sentence that
        searches asks for each of its beams."""
        plain = [
            (asked.sentence, question)
            for asked in group
            if asked.sentence.search is None
            for question in (asked.question, *asked.sentence.besides)
        ]
        searches = [asked.sentence.search for asked in group if asked.sentence.search is not None]
        pairs = [(sentence.row, question) for sentence, question in plain]
        pairs += [(row, search.question) for search in searches for row in search.rows]
        distributions, attention = self.lanes.answer(pairs)
        if plain:
            states = [sentence.imagined(question.after) for sentence, question in plain]
            answers = self._rules.choose(distributions[: len(plain)], states)
            for (sentence, question), answer, row in zip(plain, answers, attention, strict=False):
                known = answer if row is None else replace(answer, attention=row)
                sentence.known[question] = known
        if searches:
            advance(searches, distributions[len(plain) :], self._rules, self.lanes)

    def _fail(self, sentence: LiveSentence, error: Exception) -> None:
        sentence.error = error
        self.remove(sentence)


def decode(
    sentences: Sequence[LiveSentence], lanes: Lanes, rules: DecodingRules
) -> Iterator[tuple[LiveSentence, Event]]:
    """Step until every sentence is over or waits for source that has not arrived; the first error
    is raised."""
    loop = Loop(lanes, rules)
    for sentence in sentences:
        loop.add(sentence)
    while not loop.idle:
        yield from loop.step()
        for sentence in sentences:
            if sentence.error is not None:
                raise sentence.error
