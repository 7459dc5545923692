"""What a server tells of itself: Prometheus metrics, and a line of log per stream and per error.

Counts and times only; never the text, unless that is asked for."""

import json
import logging
import time
import traceback
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4


LOG = logging.getLogger("hf_simultaneous.serving")
SECONDS = [0.01 * 2**power for power in range(10)]
"""Buckets of the histograms: 0.01 to 5.12 seconds, doubling."""
CALLS = [0.001 * 2**power for power in range(12)]
ROWS = [2**power for power in range(9)]
PREFIX = "hf_simultaneous_"
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Telemetry:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.streams = self._gauge("open_streams", "Streams that are open")
        self.streams_total = self._counter("streams_total", "Streams that have ended", ["outcome"])
        self.rejected = self._counter(
            "rejected_total", "Connections refused at the door", ["reason"]
        )
        self.words = self._counter("words_total", "Source words received")
        self.tokens = self._counter("tokens_written_total", "Target tokens shown")
        self.sentences = self._counter("sentences_total", "Sentences ended")
        self.replays = self._counter(
            "replays_total", "Sentences gone on with from elsewhere", ["diverged"]
        )
        self.errors = self._counter("errors_total", "Errors told to clients", ["code"])
        self.word_seconds = self._histogram(
            "word_seconds", "From a message to all it caused", SECONDS
        )
        self.call_seconds = self._histogram("call_seconds", "One call of models", CALLS, ["model"])
        self.call_rows = self._histogram(
            "call_rows", "Sentences that were answered in a call", ROWS
        )
        self.waiting = self._gauge("waiting_words", "Words received and not done")
        self.lanes_bytes = self._gauge("lanes_bytes", "Memory of open sentences")
        self.open_sentences = self._gauge("open_sentences", "Sentences held in memory")
        self.loop_lag = self._gauge("loop_lag_seconds", "Lateness of the event loop")
        self.heartbeat = self._gauge(
            "engine_heartbeat_seconds", "Since the engine's last sign of life"
        )

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(PREFIX + name, text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(PREFIX + name, text, registry=self._registry)

    def _histogram(
        self, name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = ()
    ) -> Histogram:
        return Histogram(PREFIX + name, text, labels, buckets=buckets, registry=self._registry)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "facts", {})
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        line = {"time": stamp, "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps({**line, **facts}, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """For people."""

    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "facts", {})
        told = " ".join(f"{name}={value}" for name, value in facts.items())
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        return f"{clock} {record.getMessage()} {told}".rstrip()


def log_to_stderr(style: str) -> None:
    """`text` or `json`, a line each on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    LOG.handlers = [handler]
    LOG.setLevel(logging.INFO)
    LOG.propagate = False


def origin(error: BaseException) -> dict[str, Any]:
    """What an error was and where it was raised. Not its message: that may hold what was said."""
    *_, (frame, line) = [(None, 0), *traceback.walk_tb(error.__traceback__)]
    return {
        "kind": type(error).__name__,
        **({"at": f"{frame.f_code.co_filename}:{line}"} if frame else {}),
    }


def log(event: str, level: int = logging.INFO, **facts: Any) -> None:
    LOG.log(level, event, extra={"facts": facts})
