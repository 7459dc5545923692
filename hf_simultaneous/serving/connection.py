"""One socket: what a client says becomes messages for the engine, what the engine reports becomes
messages for the client, and every bound of a stream is kept here. (A whole text in one request has
bounds of its own, in `requests.py`.)

Runs in the event loop's thread. Knows the protocol and the limits; not models, nor how words are
translated."""

import asyncio
import secrets
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from .engine import Ticket
from .limits import Bucket, count_words
from .protocol import (
    CLOSE_CODES,
    VERSION,
    End,
    Flush,
    Message,
    Numbered,
    Ping,
    ProtocolError,
    Say,
    Start,
    encode,
    error_message,
    events_message,
    parse,
)
from .tally import Tally
from .telemetry import origin


if TYPE_CHECKING:
    from .hub import Hub
    from .streams import Report


AWAY = ("left", "gone")
"""How a stream ended whose client closed the socket, or lost it."""


class Connection:
    """A stream from its first message to its last. `run` ends when the socket is closed."""

    def __init__(self, socket: WebSocket, hub: "Hub"):
        self._socket = socket
        self._hub = hub
        self._limits = hub.limits
        self._ticket: Ticket | None = None
        self._numbered: Numbered | None = None
        self._outbox: deque[tuple[str, int]] = deque()
        self._unsent = 0
        self._something = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._close: int | None = None
        self._outcome = "open"
        self._seq = 0
        self._transcript = ""
        self._bucket = Bucket(self._limits.max_rate, self._limits.max_backlog)
        self._errors = Bucket(self._limits.max_errors / 60, self._limits.max_errors)
        self._opened = time.monotonic()
        self._started = False
        self._ending = False
        self._seen = 0
        self._tally = Tally(secrets.token_hex(8), hub.telemetry, log_text=hub.log_text)

    async def run(self) -> None:
        """Serve this client until either side has closed the socket."""
        receiver = asyncio.create_task(self._receive())
        try:
            await self._send()
        finally:
            receiver.cancel()
            if self._ticket is not None:
                self._hub.engine.close(self._ticket)
            self._tally.give_up()
            self._tally.end(self._outcome, self._close)

    # In.

    async def _receive(self) -> None:
        try:
            await self._first_message()
            while self._close is None:
                await self._room.wait()
                await self._next_message()
        except WebSocketDisconnect as gone:
            self._finish(gone.code, "left" if gone.code in (1000, 1001) else "gone")
        except Exception as error:
            self._fail_inside(error)

    async def _first_message(self) -> None:
        try:
            async with asyncio.timeout(self._limits.start):
                while self._ticket is None and self._close is None:
                    await self._handle_one()
        except TimeoutError:
            self.fail(ProtocolError("no_start", f"no start came in {self._limits.start:g} s"))

    async def _next_message(self) -> None:
        left = self._opened + self._limits.max_session - time.monotonic()
        try:
            async with asyncio.timeout(min(self._limits.idle, left)):
                await self._handle_one()
        except TimeoutError:
            if left <= self._limits.idle:
                self.fail(ProtocolError("session_over", "this session has lasted long enough"))
            else:
                self.fail(ProtocolError("idle", f"nothing came in {self._limits.idle:g} s"))

    async def _handle_one(self) -> None:
        frame = await self._socket.receive()
        if frame["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(frame.get("code", 1005))
        raw: str | bytes = frame["text"] if frame.get("text") is not None else frame["bytes"]
        try:
            self._check_size(raw)
            self._handle(parse(raw))
        except ProtocolError as error:
            self.fail(error)

    def _check_size(self, raw: str | bytes) -> None:
        size = len(raw) if isinstance(raw, bytes) else _size(raw)
        self._tally.bytes_in += size
        if size > self._limits.message_bytes:
            raise ProtocolError(
                "too_large", f"a message has up to {self._limits.message_bytes} bytes; got {size}"
            )

    def _handle(self, message: Message) -> None:
        if isinstance(message, Say | Flush | Ping) and message.seen is not None:
            self._seen = max(self._seen, message.seen)
        if isinstance(message, Ping):
            self._keep_pace(1)
            self._put({"type": "pong"})
        elif isinstance(message, Start):
            self._start(message)
        elif self._ticket is None:
            raise ProtocolError("bad_message", "the first message is start")
        elif self._ending:
            raise ProtocolError("bad_message", "after end nothing more is taken")
        elif isinstance(message, End):
            self._ending = True
            self._feed(Flush(self._seq + 1), 1)
        else:
            self._take(message)

    def _start(self, start: Start) -> None:
        if self._ticket is not None:
            raise ProtocolError("bad_message", "this stream has started already")
        if self._hub.memory_is_short:
            raise ProtocolError("busy", "there is no memory for another stream; try again later")
        self._numbered = Numbered(start)
        self._seen = self._numbered.last
        self._ticket = Ticket(start, self._report)
        self._hub.engine.open(self._ticket)

    def _take(self, message: Say | Flush) -> None:
        if message.seq <= self._seq:
            raise ProtocolError(
                "bad_seq", f"seq must rise; after {self._seq} came {message.seq}", message.seq
            )
        words = self._count(message) if isinstance(message, Say) else 1
        self._keep_pace(words, message.seq)
        if isinstance(message, Flush):
            self._transcript = ""
        self._tally.heard(words if isinstance(message, Say) else 0)
        self._feed(message, words)

    def _keep_pace(self, words: int, seq: int | None = None) -> None:
        """A ping counts as a word: it is answered too."""
        if self._bucket.take(words) > 0:
            told = f"a stream may send {self._limits.max_rate:g} words or pings a second"
            raise ProtocolError("too_fast", told, seq)

    def _count(self, message: Say) -> int:
        """Of a transcript only what is new is work; after a flush it is a new one."""
        if message.kind != "transcript":
            return count_words(message.text)
        known, self._transcript = self._transcript, message.text
        return count_words(message.text[len(known) :])

    def _feed(self, message: Say | Flush, words: int) -> None:
        assert self._ticket is not None
        self._seq = message.seq
        size = _size(message.text) if isinstance(message, Say) else 0
        self._tally.wait(message.seq, words, size)
        self._hub.engine.feed(self._ticket, message)
        if self._limits.buffered:
            self._refuse_excess()
        else:
            self._look_for_room()

    def _look_for_room(self) -> None:
        """A full backlog stops reading, and the network pushes back."""
        words, size = self._tally.waiting_words, self._tally.waiting_bytes
        if words < self._limits.max_backlog and size < self._limits.max_backlog_bytes:
            self._room.set()
        else:
            self._room.clear()

    def _refuse_excess(self) -> None:
        """Where nothing pushes back, the client is told that it went too far."""
        words, size = self._tally.waiting_words, self._tally.waiting_bytes
        if words > self._limits.max_backlog or size > self._limits.max_backlog_bytes:
            raise ProtocolError("backlog", f"{words} words wait; wait for `done` before you go on")

    # What the engine reports.

    def _say_hello(self) -> None:
        assert self._ticket is not None
        self._started = True
        replay = self._ticket.start.replay
        replayed = {} if replay is None else {"replayed": len(replay.words)}
        self._put(
            {
                "type": "started",
                "protocol": VERSION,
                "session": self._tally.session,
                **self._hub.about,
                "limits": self._hub.told_limits,
                "window": 0,
                **replayed,
            }
        )

    def _report(self, report: "Report") -> None:
        """The first report says that the stream is open."""
        if report.error is not None:
            self._settle(report.seq)
            if isinstance(report.error, ProtocolError):
                self.fail(report.error)
            else:
                self._fail_inside(report.error)
        elif not self._started:
            self._say_hello()
        else:
            self._pass_on(report)

    def _pass_on(self, report: "Report") -> None:
        self._tally.report(report)
        assert self._numbered is not None
        events = self._numbered.message(report.events)
        if report.done:
            self._settle(report.seq)
        if events or not (self._ending and report.seq == self._seq):
            self._put(events_message(report.seq, report.done, events), len(events))
            self._check_seen()
        if self._ending and self._tally.settled:
            self._say_goodbye()
        self.leave_if_draining()

    def _fail_inside(self, error: Exception) -> None:
        """Our own fault; the client is told that, and the log what it was and where."""
        self.fail(ProtocolError("internal", "this stream has failed"), **origin(error))

    def _settle(self, seq: int) -> None:
        """A message is done: there is room for as many words again."""
        self._tally.settle(seq)
        if not self._limits.buffered:
            self._look_for_room()

    def _say_goodbye(self) -> None:
        counts = {"words": self._tally.words, "sentences": self._tally.sentences}
        self._put({"type": "ended", **counts, "seconds": self._tally.seconds})
        self._finish(1000, "ended")

    # Out.

    def drain(self, seconds: float) -> None:
        """The server is going to stop: open sentences go on for a while."""
        self._put({"type": "draining", "seconds": seconds})
        self.leave_if_draining()

    def leave_if_draining(self) -> None:
        """Between sentences there is nothing to wait for."""
        if self._hub.draining and not self._tally.open_sentence and self._tally.settled:
            self.cut_off()

    def cut_off(self) -> None:
        """There is no more time, or nothing to wait for."""
        self._finish(CLOSE_CODES["draining"], "draining")

    def fail(self, error: ProtocolError, **facts: str) -> None:
        """Tell the client what was wrong; and close the socket, if it was that wrong."""
        if self._close is not None:
            return
        fatal = error.fatal or self._errors.take(1) > 0
        self._tally.error(error.code, error.seq, **facts)
        self._put(error_message(error, fatal=fatal))
        if fatal:
            self._finish(CLOSE_CODES[error.code], error.code)

    def _finish(self, code: int, outcome: str) -> None:
        """Close the socket once everything before this is sent."""
        if self._close is None:
            self._close = code
            self._outcome = outcome
            if outcome in AWAY:  # nobody is there to be told the rest
                self._outbox.clear()
            self._something.set()

    def _put(self, message: dict[str, Any], events: int = 1) -> None:
        if self._close is not None:
            return
        self._outbox.append((encode(message), events))
        self._unsent += events
        self._something.set()
        if self._unsent > self._limits.max_unsent:
            self._drop_slow_reader()

    def _check_seen(self) -> None:
        """Where everything can be sent, only the client can say what it has read."""
        assert self._numbered is not None
        unseen = self._numbered.last - self._seen
        if self._limits.buffered and unseen > self._limits.max_unsent:
            told = f"{unseen} events were not seen; say so with `seen`, in a ping if need be"
            self.fail(ProtocolError("slow_reader", told))

    def _drop_slow_reader(self) -> None:
        self._tally.error("slow_reader")
        self._outbox.clear()
        self._finish(CLOSE_CODES["slow_reader"], "slow_reader")
        self._abandon("slow_reader")

    async def _send(self) -> None:
        try:
            while self._outbox or self._close is None:
                await self._something.wait()
                self._something.clear()
                await self._empty_outbox()
            silent = self._outcome == "slow_reader" and not self._limits.buffered
            if self._outcome not in AWAY and not silent:
                async with asyncio.timeout(self._limits.send):
                    await self._socket.close(self._close, self._outcome)
        except TimeoutError:
            self._drop_slow_reader()
        except (WebSocketDisconnect, RuntimeError, OSError):
            self._finish(1006, "gone")

    async def _empty_outbox(self) -> None:
        while self._outbox and self._outcome not in AWAY:
            text, events = self._outbox.popleft()
            async with asyncio.timeout(self._limits.send):
                await self._socket.send_text(text)
            self._tally.bytes_out += _size(text)
            self._unsent -= events

    def _abandon(self, reason: str) -> None:
        """Close without waiting for a client that does not read."""
        abandon = self._socket.scope.get("state", {}).get("abandon")
        if abandon is not None:
            abandon(CLOSE_CODES[reason], reason)


def _size(text: str) -> int:
    """In bytes, as it is sent; half a surrogate pair, which JSON can name, is three."""
    return len(text.encode(errors="surrogatepass"))
