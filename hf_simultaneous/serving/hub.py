"""What all the sockets of a server share: the engine, the limits, who is in, and whether the doors
are still open.

Runs in the event loop's thread; knows connections by what it calls of them."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from ..policies import NAMES
from ..sets import languages_of
from ..text_session import operating_points
from ..version import __version__
from .access import Access
from .engine import KEPT_BYTES, Engine, Ticket
from .limits import Limits
from .protocol import ProtocolError
from .streams import Report
from .telemetry import Telemetry, log, origin


if TYPE_CHECKING:
    from ..generation import AdaptiveWaitKGenerator


HEALTHY = 5.0
"""Seconds without a sign of life after which the engine counts as dead."""


class Guest(Protocol):
    """A connection, as far as the hub is concerned."""

    def drain(self, seconds: float) -> None: ...

    def cut_off(self) -> None: ...

    def fail(self, error: ProtocolError) -> None: ...


class Hub:
    """One server's state."""

    def __init__(
        self,
        load: "Callable[[], AdaptiveWaitKGenerator]",
        limits: Limits,
        access: Access,
        name: str = "builtin",
        *,
        telemetry: Telemetry | None = None,
        log_text: bool = False,
    ):
        self.limits = limits
        self.access = access
        self.telemetry = telemetry or Telemetry()
        # What is kept for the next sentence must not be what keeps everybody out.
        self.engine = Engine(load, self._deliver, min(KEPT_BYTES, limits.max_memory))
        self.engine.on_call = self._called
        self.log_text = log_text
        self.draining = False
        self._broken = False
        self.about: dict[str, Any] = {"model": name, "revision": __version__}
        self._guests: set[Guest] = set()
        self._places = 0
        self._loaded = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_loaded: Callable[[], None] = lambda: None
        self.on_failure: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Start the engine; to be called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self.engine.begin()

    async def loaded(self) -> None:
        """Wait until the models are there; raise what went wrong, if they are not."""
        await self._loaded.wait()
        if self.engine.failure is not None:
            raise self.engine.failure

    @property
    def told_limits(self) -> dict[str, Any]:
        """What a client needs to know to stay within bounds."""
        return {
            "message_bytes": self.limits.message_bytes,
            "backlog": self.limits.max_backlog,
            "rate": self.limits.max_rate,
            "idle_seconds": self.limits.idle,
            **({"unseen": self.limits.max_unsent} if self.limits.buffered else {}),
        }

    @property
    def memory_is_short(self) -> bool:
        return self.engine.nbytes > self.limits.max_memory

    @property
    def closed_because(self) -> str | None:
        """Why nobody more is let in, or `None`."""
        if self.draining:
            return "draining"
        if self.engine.failure is not None:
            return "broken"
        if self.engine.generator is None:
            return "loading"
        full = self._places >= self.limits.max_streams or self.memory_is_short
        return "full" if full else None

    @property
    def healthy(self) -> bool:
        if self.engine.generator is None:
            return self.engine.failure is None
        return self.engine.alive and time.monotonic() - self.engine.heartbeat < HEALTHY

    def info(self) -> dict[str, Any]:
        """What a client may ask for."""
        generator = self.engine.generator
        assert generator is not None
        return {
            **self.about,
            "languages": asdict(languages_of(generator)),
            "latencies": operating_points(generator),
            "policies": list(NAMES),
            "k": sorted(generator.thresholds),
            "limits": self.told_limits,
        }

    @contextmanager
    def place(self, guest: Guest | None = None) -> Iterator[None]:
        """Somebody is in."""
        self._places += 1
        self.telemetry.streams.set(self._places)
        if guest is not None:
            self._guests.add(guest)
        try:
            yield
        finally:
            self._places -= 1
            self.telemetry.streams.set(self._places)
            if guest is not None:
                self._guests.discard(guest)

    async def drain(self) -> None:
        """Let nobody in, let open sentences end, then close what is left."""
        self.draining = True
        for guest in list(self._guests):
            guest.drain(self.limits.drain)
        deadline = time.monotonic() + self.limits.drain
        while self._places and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        for guest in list(self._guests):
            guest.cut_off()
        for _ in range(20):
            if self._places:
                await asyncio.sleep(0.05)

    def metrics(self) -> bytes:
        """Gauges are read when they are asked for."""
        self._read_gauges()
        return self.telemetry.text()

    def _read_gauges(self) -> None:
        self.telemetry.lanes_bytes.set(self.engine.nbytes)
        self.telemetry.open_sentences.set(self.engine.rows)
        self.telemetry.heartbeat.set(time.monotonic() - self.engine.heartbeat)

    async def watch_lag(self, every: float = 0.5) -> None:
        """How late does the event loop wake up? More than a few milliseconds is a warning."""
        while True:
            due = time.monotonic() + every
            await asyncio.sleep(every)
            self.telemetry.loop_lag.set(time.monotonic() - due)
            self._read_gauges()

    def _deliver(self, reports: list[tuple[Ticket, Report]]) -> None:
        """From the engine's thread."""
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hand_out, reports)

    def _hand_out(self, reports: list[tuple[Ticket, Report]]) -> None:
        first = not self._loaded.is_set()
        self._loaded.set()
        if self.engine.failure is not None:
            self._break_down(self.engine.failure)
        elif first:
            self.on_loaded()
        for ticket, report in reports:
            try:
                ticket.report(report)
            except Exception as error:  # it ends its own stream, and no other
                with suppress(Exception):
                    ticket.report(Report(report.seq, True, error=error))

    def _break_down(self, failure: BaseException) -> None:
        """Nobody who is in will hear of the engine again: they had better go elsewhere."""
        if not self._broken:
            self._broken = True
            log("broken", logging.ERROR, **origin(failure))
            for guest in list(self._guests):
                guest.fail(ProtocolError("internal", "the engine of this server has failed"))
            self.on_failure()

    def _called(self, models: str, seconds: float, rows: int) -> None:
        self.telemetry.call_seconds.labels(models).observe(seconds)
        self.telemetry.call_rows.observe(rows)
