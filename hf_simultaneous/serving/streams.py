"""One speaker inside the engine: messages in, the next part of a word into the loop, reports out.

Runs in the engine's thread alone. Knows text and sentences; not sockets, nor other speakers."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..actions import Action, Policy, Predict, Read, State, Write
from ..policies import Adaptive
from ..text import Piece
from ..text_session import (
    TextEvent,
    TextEvents,
    choose_policy,
    sentence_splitting,
    source_text,
)
from ..words import UNSPACED
from .protocol import Flush, ProtocolError, Replay, Say, Start, visible


if TYPE_CHECKING:
    from ..actions import Event
    from ..decoding_rules import DecodingRules
    from ..generation import AdaptiveWaitKGenerator
    from ..live_sentence import LiveSentence
    from ..loop import Loop


SLICE = 256
"""Characters of a message that are tokenised at once: a long one must not keep the others
waiting."""


@dataclass(frozen=True)
class Report:
    """What became of a message since the last report."""

    seq: int
    done: bool
    events: tuple[TextEvent, ...] = ()
    error: Exception | None = None
    """A `ProtocolError` is the client's own; any other ends the stream."""
    diverged: bool | None = None
    """Once, when a sentence from elsewhere is over: would the models have gone another way?"""

    def joined(self, later: "Report") -> "Report | None":
        """Both as one, if the second goes on where the first, which has events, left a message."""
        apart = self.done or not self.events or self.error or later.error
        if apart or self.seq != later.seq:
            return None
        diverged = self.diverged if later.diverged is None else later.diverged
        return replace(later, events=self.events + later.events, diverged=diverged)


@dataclass
class Forced:
    """Goes on with a sentence that was begun elsewhere: the same policy, but what was written there
    is written here, whatever the models would say now.

    The policy still decides between READ and WRITE, so that a sentence comes to stand where it
    stood; but it may not wait for more source than there was."""

    policy: Policy
    tokens: tuple[int, ...]
    source: int
    """Source tokens that had arrived."""
    eos: tuple[int, ...]
    diverged: bool = False
    """Would the models have done anything else here?"""

    def __call__(self, state: State, predict: Predict) -> Action:
        left = self.tokens[len(state.target) :]
        if not left:
            return self.policy(state, predict)
        action = self.policy(state, predict) if state.source else Read()
        if self._reads(action, state) and len(state.source) < self.source:
            return action
        written = action if isinstance(action, Write) else None
        self.diverged = self.diverged or written is None or written.token != left[0]
        return Write(left[0], written.context if written else None)

    def _reads(self, action: Action, state: State) -> bool:
        """Where the models would end before the source does, the loop reads on."""
        return isinstance(action, Read) or (action.token in self.eos and not state.source_ended)


class Stream:
    """One speaker. `feed` it messages; while it `has_work` and its sentence is not in the loop,
    `advance` it; give it the events of its sentence."""

    def __init__(
        self,
        generator: "AdaptiveWaitKGenerator",
        rules: "DecodingRules",
        start: Start,
        report: Callable[[Report], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._generator = generator
        self._rules = rules
        self._policy = _policy(generator, start)
        self._splitting = sentence_splitting(generator, silence=start.silence)
        self._clock = clock
        self._source = source_text(generator, self._splitting, clock=clock)
        self._text = TextEvents(generator, clock, pieces=start.pieces)
        self._stable = start.stable
        self._messages: deque[tuple[Say | Flush, float]] = deque()
        self._left = ""  # of the message in work, not tokenised yet
        self._pieces: deque[Piece] = deque()
        self._parts: Iterator[Piece] = iter(())
        self._part: Piece | None = None
        self._events: list[TextEvent] = []
        self._seq = 0
        self._busy = False
        self.silent_at: float | None = None
        """When the silence will have lasted long enough to end a sentence."""
        self.sentence: LiveSentence | None = None
        self.report = report
        self.forced: Forced | None = None
        self._diverged: bool | None = None
        self._seen_source = 0
        self._seen_pieces = 0
        self._seen_tokens = 0
        if start.replay is not None:
            self._replay(start.replay)

    def feed(self, message: Say | Flush, arrived: float | None = None) -> None:
        """One more message, and when it came; it waits until those before it are done."""
        self._messages.append((message, self._clock() if arrived is None else arrived))

    @property
    def has_work(self) -> bool:
        """Is there anything that could be done without another message?"""
        return self._busy or bool(self._messages)

    def fall_silent(self) -> None:
        """Nothing has come for long: end the sentence, if there is one."""
        self._pieces.extend(self._source.poll())
        self._busy = bool(self._pieces)
        if not self._source.owes:  # else it was too early by a rounding, and is tried again
            self.silent_at = None

    def advance(self, loop: "Loop") -> None:
        """What was in the loop is done there: report it, and put the next part of a word there, if
        need be of the next message."""
        self._finish_part(loop)
        self._part = self._next_part()
        if self._part is None and self._busy:
            self._tell(done=not self._more_of_message())
        if not self._busy and self._messages:
            self._take(*self._messages.popleft())
        self._part = self._part or self._next_part()
        if self._part is not None:
            self._begin(self._part, loop)

    def take(self, event: "Event") -> None:
        """Something happened to the sentence in the loop."""
        assert self._part is not None
        self._keep(self._text.take(event, self._part))

    def tell(self) -> None:
        """Report what was written since the last report; a READ alone can wait for what follows."""
        if any(event.action != "READ" for event in self._events):
            self._tell(done=False)

    def leave(self, loop: "Loop") -> None:
        """Give back what the stream holds."""
        if self.sentence is not None:
            loop.remove(self.sentence)
            self.sentence = None

    def _take(self, message: Say | Flush, arrived: float) -> None:
        self._seq = message.seq
        self._busy = True
        if self.silent_at is None or arrived < self.silent_at:
            self._source.listen()  # it came in time, however late its turn is
        try:
            self._pieces.extend(self._pieces_of(message))
        except ValueError as error:
            self.report(
                Report(self._seq, True, error=ProtocolError("bad_message", str(error), self._seq))
            )
            self._pieces.extend(self._source.poll())  # what a silence before it has ended
            self._busy = bool(self._pieces)
            self._listen()

    def _listen(self) -> None:
        """All is done, so silence begins now: the time that translating takes is none."""
        self._source.listen()
        silence = self._splitting.silence if self._source.owes else None
        self.silent_at = None if silence is None else self._clock() + silence

    def _pieces_of(self, message: Say | Flush) -> list[Piece]:
        if isinstance(message, Flush):
            return self._source.flush()
        if message.kind == "transcript":
            return self._source.push_transcript(message.text, stable=self._stable)
        text = f" {message.text} " if message.kind == "word" else message.text
        self._left = text[SLICE:]
        return self._source.push_text(text[:SLICE])

    def _more_of_message(self) -> bool:
        """Tokenise the next slice of a long message."""
        if not self._left:
            return False
        self._source.listen()  # nobody was silent within a message
        self._pieces.extend(self._source.push_text(self._left[:SLICE]))
        self._left = self._left[SLICE:]
        return True

    def _next_part(self) -> Piece | None:
        while (part := next(self._parts, None)) is None and self._pieces:
            self._parts = self._text.parts(self._pieces.popleft())
        return part

    def _begin(self, part: Piece, loop: "Loop") -> None:
        if self.sentence is None:
            self.sentence = self._generator.sentence(
                self._rules, self.forced or self._policy, self._generator.history
            )
        if not self.sentence.finished:
            self.sentence.arrive(part.tokens, part.undecided)
            self.sentence.row.source_complete = part.ends_sentence
            loop.add(self.sentence)

    def _finish_part(self, loop: "Loop") -> None:
        if self.sentence is not None and self.sentence.error is not None:
            raise self.sentence.error
        part, self._part = self._part, None
        if part is not None and part.ends_sentence:
            self._keep(self._text.end(part))
            self.leave(loop)
            self._diverged = self.forced.diverged if self.forced else None
            self.forced = None
            self._seen_source = 0
            self._seen_pieces = 0
            self._seen_tokens = 0

    def _keep(self, events: Iterator[TextEvent]) -> None:
        self._events += [event for event in events if not self._seen(event)]

    def _tell(self, *, done: bool) -> None:
        events, self._events = tuple(self._events), []
        self._busy = not done
        if events or done:
            self.report(Report(self._seq, done, events, diverged=self._diverged))
            self._diverged = None
        if done:
            self._listen()

    # Going on with a sentence from elsewhere.

    def _replay(self, replay: Replay) -> None:
        pieces = self._source.push_text(_joined(replay)) if replay.words else []
        if replay.ended:
            pieces += self._source.flush()
        ends = [place for place, piece in enumerate(pieces) if piece.ends_sentence]
        if ends and ends != [len(pieces) - 1]:
            raise ValueError(
                "replay.words must be those of one sentence; here they make more than one"
            )
        wrong = [
            token
            for token in replay.tokens
            if token in self._rules.eos or token >= self._rules.vocabulary
        ]
        if wrong or len(replay.tokens) >= self._rules.position_limit:
            raise ValueError(
                f"replay.tokens must be up to {self._rules.position_limit - 1} ids below "
                f"{self._rules.vocabulary}, without the end of a sentence; got "
                f"{len(replay.tokens)}, of which {wrong[:3]} are wrong"
            )
        self._pieces.extend(pieces)
        self._busy = True
        self._seen_source = sum(len(visible(word)) for word in replay.words)
        self._seen_pieces = len(replay.tokens)
        self._seen_tokens = len(replay.tokens) if replay.written is None else replay.written
        arrived = sum(len(piece.tokens) for piece in pieces)
        self.forced = Forced(self._policy, replay.tokens, arrived, self._rules.eos)

    def _seen(self, event: TextEvent) -> bool:
        """Was the client told of this event by another server?"""
        if event.action == "READ" and self._seen_source > 0:
            self._seen_source -= len(event.text)
            return True
        if event.action == "PIECE" and self._seen_pieces > 0:
            self._seen_pieces -= len(event.tokens)
            return True
        if event.action == "WRITE" and self._seen_tokens > 0:
            self._seen_tokens -= len(event.tokens)
            return True
        return False


def _policy(generator: "AdaptiveWaitKGenerator", start: Start) -> Policy:
    if not start.latency:
        return choose_policy(generator, start.policy, k=start.k, rho=start.rho, **start.options)
    if start.latency not in generator.latencies:
        names = ", ".join(generator.latencies) or "none"
        raise ValueError(f"this set has no latency {start.latency!a}; it has {names}")
    return Adaptive(generator.latencies[start.latency])


def _joined(replay: Replay) -> str:
    """The text of words that were read: with spaces, but not before a character of a script that
    has none."""
    text = "".join(word if UNSPACED.match(word) else f" {word}" for word in replay.words)
    return text if replay.open or UNSPACED.match(text[-1:]) else f"{text} "
