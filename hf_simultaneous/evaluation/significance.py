"""How sure a score is: sentences are resampled with replacement, which gives intervals for a score
and for the difference of two methods at equal latency.

Knows a score as a sum over sentences; not what it measures, nor how the sentences came about.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from ..metrics import System
from ..schedule import check_at_least_one


FEW = 100
"""Sentences below which resampling them says little of any others."""


def doubts(sentences: int) -> list[str]:
    """What is to be said beside scores of so many sentences: nothing, or that they are few."""
    if sentences >= FEW:
        return []
    return [f"Few sentences ({sentences}): scores and intervals of fewer than {FEW} mean little."]


@dataclass(frozen=True)
class Bootstrap:
    """How often to resample, from which seed, and how wide the interval is."""

    resamples: int = 1000
    _: KW_ONLY
    seed: int = 12345
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_at_least_one("resamples", self.resamples)
        if not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(
                f"seed must be an integer of 0 or more; got {self.seed!r}. The same seed gives the "
                f"same result"
            )
        if not 0 < self.confidence < 1:
            raise ValueError(
                f"confidence must lie between 0 and 1; got {self.confidence}. 0.95 is usual"
            )

    @property
    def signature(self) -> str:
        # The generator is named because other programs draw other samples from the same seed.
        return f"bs:{self.resamples}|seed:{self.seed}|rng:pcg64|ci:{self.confidence}"


RESAMPLE_1000 = Bootstrap(1000)


@dataclass(frozen=True)
class Resampled:
    """One setting on a corpus: its AL and BLEU, there and on every resample."""

    sentences: int
    al: float
    bleu: float
    al_samples: Sequence[float]
    bleu_samples: Sequence[float]

    def intervals(self, bootstrap: Bootstrap) -> dict[str, tuple[float, float]]:
        """Between which bounds the bootstrap puts each score."""
        return {
            "bleu": bounds(self.bleu_samples, bootstrap),
            "al": bounds(self.al_samples, bootstrap),
        }


@dataclass(frozen=True)
class Curve:
    """A method's settings on one corpus: AL and BLEU of each, on the corpus and on every
    resample."""

    al: np.ndarray
    bleu: np.ndarray
    al_samples: np.ndarray
    bleu_samples: np.ndarray

    def at(self, latency: float) -> float:
        """BLEU at this AL, on a straight line between the settings next to it."""
        return _interpolate(latency, self.al, self.bleu)

    def samples_at(self, latencies: float | np.ndarray) -> np.ndarray:
        """The same on every resample, at one AL or at one for each of them."""
        wanted = np.broadcast_to(latencies, len(self.al_samples))
        rows = zip(wanted, self.al_samples, self.bleu_samples, strict=True)
        return np.array([_interpolate(float(latency), al, bleu) for latency, al, bleu in rows])

    def own(self, latency: float) -> np.ndarray | None:
        """The ALs on every resample of the setting that has this one on the corpus, if any has."""
        found = np.flatnonzero(self.al == latency)
        return self.al_samples[:, found[0]] if len(found) else None


@dataclass(frozen=True)
class EqualLatency:
    """BLEU of two methods at the same AL, and the interval of the difference, second minus
    first."""

    al: float
    first: float
    second: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        return self.second - self.first


def resample(latency: System, quality: System, bootstrap: Bootstrap = RESAMPLE_1000) -> Resampled:
    """Settings of the same corpus and bootstrap are resampled alike, so that they can be compared
    in pairs."""
    sentences = latency.score.sentences
    al, bleu = latency.score.value, quality.score.value
    return Resampled(sentences, al, bleu, samples(latency, bootstrap), samples(quality, bootstrap))


def samples(system: System, bootstrap: Bootstrap = RESAMPLE_1000) -> list[float]:
    """The score on every resample."""
    if len(system.rows) < 2:
        raise ValueError(
            f"resampling needs at least 2 sentences; got {len(system.rows)}. Leave intervals out, "
            f"with bootstrap=None"
        )
    sums = _weights(len(system.rows), bootstrap) @ np.asarray(system.rows, dtype=float)
    return [system.score_of(row) for row in sums.tolist()]


def bounds(values: Sequence[float], bootstrap: Bootstrap = RESAMPLE_1000) -> tuple[float, float]:
    """The percentile interval: as many samples are cut off below as above."""
    tail = 50 * (1 - bootstrap.confidence)
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def curve(settings: Sequence[Resampled]) -> Curve:
    """The settings of a method, in any order."""
    sizes = {setting.sentences for setting in settings}
    if len(sizes) != 1:
        raise ValueError(
            f"a curve needs settings of the same sentences; got settings of {sorted(sizes)} "
            f"sentences"
        )
    return Curve(
        np.array([setting.al for setting in settings]),
        np.array([setting.bleu for setting in settings]),
        np.stack([setting.al_samples for setting in settings], axis=1),
        np.stack([setting.bleu_samples for setting in settings], axis=1),
    )


def compare_at_equal_al(
    first: Curve,
    second: Curve,
    latencies: Sequence[float] | None = None,
    bootstrap: Bootstrap = RESAMPLE_1000,
) -> list[EqualLatency]:
    """At these ALs, or those of `first`; left out where one of the curves does not reach."""
    low, high = max(first.al.min(), second.al.min()), min(first.al.max(), second.al.max())
    wanted = sorted(first.al) if latencies is None else latencies
    return [_compare(first, second, float(al), bootstrap) for al in wanted if low <= al <= high]


@dataclass(frozen=True)
class MeanGain:
    """How much more BLEU the second method has than the first in the mean over some ALs, with its
    interval."""

    latencies: Sequence[float]
    difference: float
    low: float
    high: float


def mean_gain(first: Curve, second: Curve, bootstrap: Bootstrap = RESAMPLE_1000) -> MeanGain | None:
    """Over the ALs of `first` that both reach; None where there are none."""
    shared = compare_at_equal_al(first, second, bootstrap=bootstrap)
    if not shared:
        return None
    latencies = [row.al for row in shared]
    differences = [_differences(first, second, al) for al in latencies]
    mean = float(np.mean([row.difference for row in shared]))
    return MeanGain(latencies, mean, *bounds(np.mean(differences, axis=0).tolist(), bootstrap))


def _compare(first: Curve, second: Curve, al: float, bootstrap: Bootstrap) -> EqualLatency:
    differences = _differences(first, second, al)
    return EqualLatency(al, first.at(al), second.at(al), *bounds(differences.tolist(), bootstrap))


def _differences(first: Curve, second: Curve, al: float) -> np.ndarray:
    """On every resample, at the AL there of the setting that has this one on the corpus.

    A resample moves the ends of both curves. At an AL that stays, a curve whose end has moved past
    it would be read where it does not reach, and the interval of a setting at the end be
    one-sided."""
    own = first.own(al)
    if own is None:
        own = second.own(al)
    wanted = al if own is None else own
    return second.samples_at(wanted) - first.samples_at(wanted)


def compare_settings(
    first: Resampled, second: Resampled, bootstrap: Bootstrap = RESAMPLE_1000
) -> EqualLatency:
    """Two single settings, whatever their latency, which is given as the second's."""
    differences = np.subtract(second.bleu_samples, first.bleu_samples)
    return EqualLatency(
        second.al, first.bleu, second.bleu, *bounds(differences.tolist(), bootstrap)
    )


def signature(bootstrap: Bootstrap = RESAMPLE_1000) -> str:
    """How the intervals of differences were made."""
    return f"equal-AL|interpolation:linear|at:own-AL|test:paired|{bootstrap.signature}"


def _weights(sentences: int, bootstrap: Bootstrap) -> np.ndarray:
    """How often each sentence is drawn, a row for each resample."""
    drawn = np.random.default_rng(bootstrap.seed).integers(
        sentences, size=(bootstrap.resamples, sentences)
    )
    return np.stack([np.bincount(row, minlength=sentences) for row in drawn])


def _interpolate(latency: float, al: np.ndarray, bleu: np.ndarray) -> float:
    order = np.argsort(al, kind="stable")
    return float(np.interp(latency, al[order], bleu[order]))
