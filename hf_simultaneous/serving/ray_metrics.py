"""The metrics of a replica, given to Ray, which exports those of all replicas per node.

Knows Ray's metrics; what is counted is written in `telemetry.py`."""

from collections.abc import Sequence
from typing import Any

from ray.serve import metrics

from .telemetry import PREFIX, Telemetry


class _Metric:
    """One of Ray's metrics, spoken to as one of Prometheus's client."""

    def __init__(self, metric: Any, label: str = "", value: str | None = None):
        self._metric = metric
        self._label = label
        self._tags = None if value is None else {label: value}
        self._level = 0.0

    def labels(self, value: str) -> "_Metric":
        return _Metric(self._metric, self._label, value)

    def inc(self, amount: float = 1.0) -> None:
        if isinstance(self._metric, metrics.Gauge):
            self.set(self._level + amount)
        elif amount > 0:
            self._metric.inc(amount, self._tags)

    def set(self, value: float) -> None:
        self._level = value
        self._metric.set(value, self._tags)

    def observe(self, value: float) -> None:
        self._metric.observe(value, self._tags)


class RayTelemetry(Telemetry):
    """The same names; `/metrics` of a replica says where to look."""

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Any:
        return _Metric(metrics.Counter(PREFIX + name, text, tuple(labels)), *labels)

    def _gauge(self, name: str, text: str) -> Any:
        return _Metric(metrics.Gauge(PREFIX + name, text))

    def _histogram(
        self, name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = ()
    ) -> Any:
        made = metrics.Histogram(PREFIX + name, text, list(buckets), tuple(labels))
        return _Metric(made, *labels)

    def text(self) -> bytes:
        return b"# Ray exports the metrics of all replicas, per node: see its metrics port.\n"
