"""A guard around what must be quick and small, in this process."""

import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


SECONDS = 10
"""Of this process's own time: far more than anything here takes."""
PATIENCE = 120
"""Seconds by the clock, for what waits instead of working; a machine may be busy."""
MEGABYTES = 500


@contextmanager
def cheaply(seconds: float = SECONDS) -> Iterator[None]:
    """Ends with an error what takes too long; an error too if memory has grown by too much."""

    def late(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"not over after {PATIENCE} seconds")

    began = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    previous = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    took = time.process_time() - began
    assert took < seconds, f"it took {took:.0f} seconds"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < MEGABYTES, f"memory grew by {grown:.0f} MB"
