"""How much one stream, and all of them together, may ask of a server.

Numbers and counting only; who refuses whom is decided where the words arrive."""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from ..words import source_words


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a server; times are in seconds."""

    max_streams: int = 64
    max_memory: int = 2 << 30
    """Bytes that the models may remember of all open sentences before new streams are refused."""
    max_backlog: int = 512
    """Words of a stream that wait; while there are as many, no more are read from its socket."""
    max_backlog_bytes: int = 65536
    max_rate: float = 50.0
    """Words per second that a stream may send for long; at once it may send a backlog of them."""
    idle: float = 300.0
    max_session: float = 14400.0
    start: float = 10.0
    """How long a new socket may wait before it says `start`."""
    drain: float = 10.0
    """How long open sentences may go on once the server was told to stop."""
    message_bytes: int = 16384
    request_bytes: int = 65536
    max_unsent: int = 1000
    """Events that may wait for a client that does not read."""
    send: float = 10.0
    """How long one message may take to leave."""
    max_errors: int = 10
    """Wrong messages in a minute that are answered; after these the stream is closed."""
    buffered: bool = False
    """Does something between us and the client keep messages without bound, as Ray Serve does? Then
    only the client's `seen` numbers tell what it reads, and a full backlog is an error."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not False and not value > 0:
                raise ValueError(f"{field.name} must be above 0; got {value!r}")


class Bucket:
    """Counts what passes: `burst` at once, `rate` a second for long."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._level = burst
        self._then = clock()

    def take(self, amount: float) -> float:
        """Let `amount` through. 0 if that was within the bounds, else the seconds to wait until it
        is."""
        now = self._clock()
        refilled = self._level + (now - self._then) * self._rate
        self._level = min(self._burst, refilled) - amount
        self._then = now
        return max(0.0, -self._level / self._rate)


def count_words(text: str) -> int:
    """Words of a message; 1 at least, for the work it makes to look at it."""
    return max(1, len(source_words(text)))
