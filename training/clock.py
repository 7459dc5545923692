"""Measures how fast a run is.

Knows when it was started and stopped, and the tokens it is told of.
"""

import time


class Clock:
    """Time spent training, not looking at dev sets or writing files, and the tokens seen in it."""

    def __init__(self) -> None:
        self.tokens, self._seconds, self._taken = 0, 0.0, 0.0
        self._since: float | None = None

    def start(self) -> None:
        self._since = time.perf_counter()

    def stop(self) -> None:
        if self._since is not None:
            self._seconds += time.perf_counter() - self._since
        self._since = None

    def seconds(self) -> float:
        running = 0.0 if self._since is None else time.perf_counter() - self._since
        return self._seconds + running

    def take(self) -> float:
        """Seconds since this was last asked."""
        now = self.seconds()
        fresh, self._taken = now - self._taken, now
        return fresh

    def speed(self) -> float:
        """Target tokens per second since the start of this process."""
        return self.tokens / max(self.seconds(), 1e-9)
