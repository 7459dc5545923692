"""Two methods at equal latency: their quality-latency curves are interpolated and resampled together.

Knows lines of logs; not how they came about.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .logs import Line
from .metrics import BLEU_13A, RESAMPLE_1000, Bootstrap, Metric, System, bleu_system, latency_system
from .scores import sentences_of, texts


@dataclass(frozen=True)
class Resampled:
    """One setting on a corpus: its AL and BLEU, there and on every resample."""

    sentences: int
    al: float
    bleu: float
    al_samples: Sequence[float]
    bleu_samples: Sequence[float]


@dataclass(frozen=True)
class Curve:
    """A method's settings on one corpus: AL and BLEU of each, on the corpus and on every resample."""

    al: np.ndarray
    bleu: np.ndarray
    al_samples: np.ndarray
    bleu_samples: np.ndarray

    def at(self, latency: float) -> float:
        """BLEU at this AL, on a straight line between the settings next to it."""
        return _interpolate(latency, self.al, self.bleu)

    def samples_at(self, latency: float) -> np.ndarray:
        pairs = zip(self.al_samples, self.bleu_samples, strict=True)
        return np.array([_interpolate(latency, al, bleu) for al, bleu in pairs])


@dataclass(frozen=True)
class EqualLatency:
    """BLEU of two methods at the same AL, and the interval of the difference, second minus first."""

    al: float
    first: float
    second: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        return self.second - self.first


def resample(lines: Sequence[Line], bootstrap: Bootstrap = RESAMPLE_1000) -> Resampled:
    """Settings of the same corpus and bootstrap are resampled alike, so that they can be compared in pairs."""
    weights = _weights(len(lines), bootstrap)
    latency, quality = latency_system(sentences_of(lines), Metric("AL")), bleu_system(*texts(lines), BLEU_13A)
    samples = (_samples(system, weights) for system in (latency, quality))
    return Resampled(len(lines), latency.score.value, quality.score.value, *samples)


def curve(settings: Sequence[Resampled]) -> Curve:
    """The settings of a method, in any order."""
    sizes = {setting.sentences for setting in settings}
    if len(sizes) != 1:
        raise ValueError(f"a curve needs settings of the same sentences; got settings of {sorted(sizes)} sentences")
    return Curve(
        np.array([setting.al for setting in settings]),
        np.array([setting.bleu for setting in settings]),
        np.stack([setting.al_samples for setting in settings], axis=1),
        np.stack([setting.bleu_samples for setting in settings], axis=1),
    )


def compare_at_equal_al(
    first: Curve, second: Curve, latencies: Sequence[float] | None = None, bootstrap: Bootstrap = RESAMPLE_1000
) -> list[EqualLatency]:
    """At these ALs, or those of `first`; left out where one of the curves does not reach."""
    low, high = max(first.al.min(), second.al.min()), min(first.al.max(), second.al.max())
    wanted = sorted(first.al) if latencies is None else latencies
    return [_compare(first, second, float(al), bootstrap) for al in wanted if low <= al <= high]


def _compare(first: Curve, second: Curve, al: float, bootstrap: Bootstrap) -> EqualLatency:
    differences = second.samples_at(al) - first.samples_at(al)
    return EqualLatency(al, first.at(al), second.at(al), *_bounds(differences, bootstrap))


def _bounds(differences: np.ndarray, bootstrap: Bootstrap) -> tuple[float, float]:
    tail = 50 * (1 - bootstrap.confidence)
    low, high = np.percentile(differences, [tail, 100 - tail])
    return float(low), float(high)


def compare_settings(first: Resampled, second: Resampled, bootstrap: Bootstrap = RESAMPLE_1000) -> EqualLatency:
    """Two single settings, whatever their latency, which is given as the second's."""
    differences = np.subtract(second.bleu_samples, first.bleu_samples)
    return EqualLatency(second.al, first.bleu, second.bleu, *_bounds(differences, bootstrap))


def signature(bootstrap: Bootstrap = RESAMPLE_1000) -> str:
    """How the intervals were made; the generator of random numbers is not that of `metrics`."""
    return f"equal-AL|interpolation:linear|test:paired|bs:{bootstrap.resamples}|seed:{bootstrap.seed}|rng:pcg64"


def _weights(sentences: int, bootstrap: Bootstrap) -> np.ndarray:
    """How often each sentence is drawn, a row for each resample."""
    drawn = np.random.default_rng(bootstrap.seed).integers(sentences, size=(bootstrap.resamples, sentences))
    return np.stack([np.bincount(row, minlength=sentences) for row in drawn])


def _samples(system: System, weights: np.ndarray) -> list[float]:
    return [system.score_of(sums) for sums in (weights @ np.asarray(system.rows, dtype=float)).tolist()]


def _interpolate(latency: float, al: np.ndarray, bleu: np.ndarray) -> float:
    order = np.argsort(al, kind="stable")
    return float(np.interp(latency, al[order], bleu[order]))
