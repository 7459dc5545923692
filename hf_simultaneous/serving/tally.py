"""What is counted of one stream: words that wait, events, bytes, times; and its line in the log.

Knows reports and metrics; decides nothing."""

import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from .telemetry import Telemetry, log


if TYPE_CHECKING:
    from .streams import Report


REMEMBERED = 1000
"""Messages over which the log's 95th percentile is taken, the last ones."""


class _Waiting(NamedTuple):
    words: int
    size: int
    since: float


class Tally:
    """The counts of one stream, which are also added to those of the server."""

    def __init__(self, session: str, telemetry: Telemetry, *, log_text: bool = False):
        self.session = session
        self.words = 0
        self.sentences = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.open_sentence = False
        """Was something read of a sentence that has not ended?"""
        self.waiting_words = 0
        self.waiting_bytes = 0
        self._telemetry = telemetry
        self._log_text = log_text
        self._source: list[str] = []
        self._opened = time.monotonic()
        self._waiting: dict[int, _Waiting] = {}
        self._times: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._opened, 3)

    def heard(self, words: int) -> None:
        self.words += words
        self._telemetry.words.inc(words)

    # What waits.

    def wait(self, seq: int, words: int, size: int) -> None:
        """A message was handed to the engine."""
        self._waiting[seq] = _Waiting(words, size, time.monotonic())
        self._count(words, size)

    def settle(self, seq: int) -> None:
        """And is done."""
        waiting = self._waiting.pop(seq, None)
        if waiting is not None:
            seconds = time.monotonic() - waiting.since
            self._times.append(seconds)
            self._count(-waiting.words, -waiting.size)
            self._telemetry.word_seconds.observe(seconds)

    def give_up(self) -> None:
        """Nothing that waits will be done: reports that are still on their way settle nothing."""
        self._waiting.clear()
        self._count(-self.waiting_words, -self.waiting_bytes)

    def _count(self, words: int, size: int) -> None:
        self.waiting_words += words
        self.waiting_bytes += size
        self._telemetry.waiting.inc(words)

    @property
    def settled(self) -> bool:
        return not self._waiting

    # What happens.

    def report(self, report: "Report") -> None:
        """Count what the engine says has happened."""
        for event in report.events:
            self.open_sentence = event.action != "END"
            if event.action == "READ" and self._log_text:
                self._source.append(event.text)
            elif event.action == "WRITE":
                self._telemetry.tokens.inc(len(event.tokens))
            elif event.action == "END":
                self._end_sentence(event.text)
        if report.diverged is not None:
            self._telemetry.replays.labels(str(report.diverged).lower()).inc()

    def _end_sentence(self, text: str) -> None:
        self.sentences += 1
        self._telemetry.sentences.inc()
        if self._log_text:
            log("sentence", session=self.session, source=" ".join(self._source), text=text)
            self._source.clear()

    def error(self, code: str, seq: int | None = None, **facts: Any) -> None:
        self._telemetry.errors.labels(code).inc()
        log("error", session=self.session, code=code, seq=seq, **facts)

    def end(self, outcome: str, code: int | None) -> None:
        """The line of this stream."""
        self._telemetry.streams_total.labels(outcome).inc()
        log(
            "stream",
            session=self.session,
            outcome=outcome,
            code=code,
            words=self.words,
            sentences=self.sentences,
            seconds=self.seconds,
            p95=round(self._p95, 3),
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
        )

    @property
    def _p95(self) -> float:
        times = sorted(self._times)
        return times[int(0.95 * (len(times) - 1))] if times else 0.0
