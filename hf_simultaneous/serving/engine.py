"""The engine: one thread that owns the models, the tokenizer and the lanes, and translates for all
streams at once.

Words wake it, and it takes whatever waits by then: nothing waits for a batch to fill. Knows streams
and the loop; not sockets, nor JSON."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..loop import Loop
from ..text_session import warm_up
from .protocol import Flush, ProtocolError, Say, Start
from .streams import Report, Stream


if TYPE_CHECKING:
    from ..actions import Event
    from ..decoding_rules import DecodingRules
    from ..generation import AdaptiveWaitKGenerator
    from ..lanes import Lanes
    from ..live_sentence import LiveSentence
    from ..loop import _Asked


HEARTBEAT = 1.0
"""Seconds after which an engine that has nothing to do shows that it is alive."""
KEPT_BYTES = 64 << 20
"""Memory of lanes that an engine without open sentences holds on to."""
WEIGHED_EVERY = 0.1
"""Seconds: a sum over all that is held is too much for every step."""

PATIENCE = 1
"""Steps that the rest of a sentence may wait for speakers who go on: nearly none, because somebody
waits for it. At 32 busy streams this made p95 a third of what it was, and took no more computing
than waiting until more sentences can be ended together."""

Deliver = Callable[[list[tuple["Ticket", Report]]], None]


@dataclass(eq=False, frozen=True)
class Ticket:
    """A stream as the rest of the process knows it: how it began, and who is told of it."""

    start: Start
    report: Callable[[Report], None]


class Engine:
    """Open streams, feed them, close them, from any thread; reports come from the engine's own, all
    of a step in one call of `deliver`."""

    def __init__(
        self,
        load: "Callable[[], AdaptiveWaitKGenerator]",
        deliver: Deliver,
        kept: int = KEPT_BYTES,
    ):
        self._load = load
        self._deliver = deliver
        self._kept = kept
        self._commands: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._streams: dict[Ticket, Stream] = {}
        self._owners: dict[LiveSentence, Ticket] = {}
        self._reports: dict[Ticket, list[Report]] = {}
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self.heartbeat = self._weighed = time.monotonic()
        self.nbytes = 0
        self.rows = 0
        self.failure: BaseException | None = None
        self.generator: AdaptiveWaitKGenerator | None = None
        self.on_call: Callable[[str, float, int], None] = lambda models, seconds, rows: None

    def begin(self) -> None:
        """Start the thread, which first loads the models."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End the thread after the step it is in."""
        self._stopped = True
        self._wake.set()
        self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        # Its thread outlives a failure by what it has left to say.
        return self.failure is None and self._thread.is_alive()

    def open(self, ticket: Ticket) -> None:
        """The first report says whether it could be done."""
        self._tell(lambda: self._open(ticket))

    def feed(self, ticket: Ticket, message: Say | Flush) -> None:
        arrived = time.monotonic()  # not when the engine comes to look at it
        self._tell(lambda: self._feed(ticket, message, arrived))

    def close(self, ticket: Ticket) -> None:
        """Once the engine has heard this, it reports nothing more; closing twice is fine."""
        self._tell(lambda: self._close(ticket))

    def _tell(self, command: Callable[[], None]) -> None:
        self._commands.append(command)
        self._wake.set()

    def _run(self) -> None:
        try:
            generator = self._load()
            warm_up(generator)
            self.generator = generator  # from here on streams are let in
            self._rules = generator.decoding_rules(**generator.for_text())
            self._loop = self._new_loop()
            self._deliver([])
            while not self._stopped:
                self._round()
        except BaseException as error:
            self.failure = error
            broken = _failed(RuntimeError("the engine has failed"))
            self._deliver([(ticket, broken) for ticket in self._streams])

    def _round(self) -> None:
        self.heartbeat = time.monotonic()
        if not (self._reports or self._has_work()):
            self._wake.wait(self._until_silence(self.heartbeat))
            self._wake.clear()
            self.heartbeat = time.monotonic()
        while self._commands:
            self._commands.popleft()()
        self._end_silences()
        for _ in range(2):  # a word that was only read is done, and there is room for another
            self._advance_all()
            self._pass_on(self._loop.act())
        self._hand_over()
        if not self._loop.idle:
            self._pass_on(self._loop.step())

    def _has_work(self) -> bool:
        return bool(self._commands) or any(stream.has_work for stream in self._streams.values())

    def _until_silence(self, now: float) -> float:
        waits = [s.silent_at - now for s in self._streams.values() if s.silent_at is not None]
        return max(0.0, min([HEARTBEAT, *waits]))

    def _end_silences(self) -> None:
        now = time.monotonic()
        for ticket, stream in list(self._streams.items()):
            if stream.silent_at is not None and now >= stream.silent_at and not stream.has_work:
                self._guarded(ticket, stream.fall_silent)

    def _advance_all(self) -> None:
        for ticket, stream in list(self._streams.items()):
            if stream.has_work and not (stream.sentence and stream.sentence in self._loop):
                self._guarded(ticket, partial(self._advance, ticket, stream))

    def _advance(self, ticket: Ticket, stream: Stream) -> None:
        before = stream.sentence
        try:
            stream.advance(self._loop)
        finally:
            if stream.sentence is not before:
                self._disown(before)
                if stream.sentence is not None:
                    self._owners[stream.sentence] = ticket

    def _disown(self, sentence: "LiveSentence | None") -> None:
        if sentence is not None:
            self._owners.pop(sentence, None)

    def _pass_on(self, happened: "list[tuple[LiveSentence, Event]]") -> None:
        """What happened to sentences is told to their streams."""
        for sentence, event in happened:
            ticket = self._owners.get(sentence)
            if ticket is not None:
                self._guarded(ticket, partial(self._streams[ticket].take, event))
        for sentence in {sentence for sentence, _ in happened} & self._owners.keys():
            self._streams[self._owners[sentence]].tell()

    def _hand_over(self) -> None:
        self.rows = len(self._owners)
        if self.heartbeat - self._weighed > WEIGHED_EVERY or not self._has_work():
            self._weigh()
        if self._reports:
            waiting, self._reports = self._reports, {}
            self._deliver([(ticket, each) for ticket, told in waiting.items() for each in told])

    def _weigh(self) -> None:
        """Stores grow with the streams and do not shrink: where no sentence is open, begin with new
        ones."""
        self._weighed = self.heartbeat
        if self._loop.lanes.nbytes > self._kept and not self._owners:
            self._loop = self._new_loop()
        self.nbytes = self._loop.lanes.nbytes

    def _new_loop(self) -> Loop:
        assert self.generator is not None
        return _Timed(self.generator.lanes(), self._rules, self.on_call)

    def _open(self, ticket: Ticket) -> None:
        assert self.generator is not None
        try:
            self._streams[ticket] = Stream(
                self.generator,
                self._rules,
                ticket.start,
                partial(self._report, ticket),
            )
        except ValueError as error:
            self._report(ticket, _failed(ProtocolError("bad_start", str(error))))
        else:
            self._report(ticket, Report(0, False))

    def _feed(self, ticket: Ticket, message: Say | Flush, arrived: float) -> None:
        if ticket in self._streams:
            self._streams[ticket].feed(message, arrived)

    def _report(self, ticket: Ticket, report: Report) -> None:
        """To be handed over with the others of this step; what the last one left open, this one
        goes on with, so that a client gets one message where two would come at the same time."""
        waiting = self._reports.setdefault(ticket, [])
        if waiting and (joined := waiting[-1].joined(report)) is not None:
            waiting[-1] = joined
        else:
            waiting.append(report)

    def _close(self, ticket: Ticket) -> None:
        self._drop(ticket)
        self._reports.pop(ticket, None)

    def _drop(self, ticket: Ticket) -> None:
        """Give back what a stream holds; what is to be told of it is told."""
        stream = self._streams.pop(ticket, None)
        if stream is None:
            return
        self._disown(stream.sentence)
        stream.leave(self._loop)

    def _guarded(self, ticket: Ticket, act: Callable[[], None]) -> None:
        """An error ends the stream that made it, and no other."""
        try:
            act()
        except Exception as error:
            self._report(ticket, _failed(error))
            self._drop(ticket)


class _Timed(Loop):
    """The loop, which also says how long each call of the models took, and for how many rows."""

    def __init__(
        self, lanes: "Lanes", rules: "DecodingRules", on_call: Callable[[str, float, int], None]
    ):
        super().__init__(lanes, rules, PATIENCE)
        self._on_call = on_call

    def _predict(self, group: "list[_Asked]") -> None:
        began = time.monotonic()
        super()._predict(group)
        models = "+".join(str(model) for model in group[0].question.models)
        self._on_call(models, time.monotonic() - began, len(group))


def _failed(error: Exception) -> Report:
    return Report(0, True, error=error)
