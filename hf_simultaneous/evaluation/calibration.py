"""Finds thresholds of the paper's family that meet a latency the user names, and keeps them in the
set by name.

Knows thresholds and scores; how a corpus is decoded is `evaluation`'s business.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..generation import AdaptiveWaitKGenerator
from ..metrics import corpus_bleu, corpus_latency
from ..policies import Adaptive, check_thresholds, linear_thresholds
from ..sets import read_set_config, update_set_config
from .corpus import decode_corpus
from .decoding import Decoding, text_decoding
from .scores import sentences_of, texts


Thresholds = dict[int, float]

QUARTERS = 4
"""A line of thresholds is shortened by quarters of k_max."""


@dataclass(frozen=True)
class Point:
    """Thresholds and what they give on the dev set."""

    thresholds: Mapping[int, float]
    al: float
    bleu: float

    def __str__(self) -> str:
        return f"AL {self.al:.3f} tokens, BLEU {self.bleu:.2f}"


@dataclass(frozen=True)
class Search:
    """How well the latency must be met on dev data, and how long to look.

    The dev set is decoded at most `budget` times for each of `lines`: thresholds that end at the
    set's k_max, at three quarters of it, and so on. Short lines serve low latencies better."""

    tolerance: float = 0.15
    budget: int = 12
    lines: int = 3

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise ValueError(
                f"tolerance must be above 0; got {self.tolerance}. 0.15 leaves room for other "
                f"sentences"
            )
        if self.budget < 3:
            raise ValueError(
                f"budget must be 3 or more, or no search is possible; got {self.budget}"
            )
        if not 1 <= self.lines <= QUARTERS:
            raise ValueError(
                f"lines must be 1 to {QUARTERS}: 1 ends at k_max only; got {self.lines}"
            )

    def ends(self, k_min: int, k_max: int) -> list[int]:
        """The ks at which lines end, the largest first."""
        ends = [k_max * (QUARTERS - line) // QUARTERS for line in range(self.lines)]
        return list(dict.fromkeys([k_max, *(end for end in ends if end > k_min)]))


DEFAULT_SEARCH = Search()


class OutOfReach(ValueError):
    """No thresholds of a line give the latency asked for."""


@dataclass(frozen=True)
class Calibration:
    """The point that was chosen, under its name in the set, and all that were tried."""

    name: str
    target_al: float
    point: Point
    tried: tuple[Point, ...]

    @property
    def earlier_and_better(self) -> Point | None:
        """The best point with less latency than the chosen one and more BLEU, if there is one."""
        points = [
            point
            for point in self.tried
            if point.al < self.point.al and point.bleu > self.point.bleu
        ]
        return max(points, key=lambda point: point.bleu, default=None)

    def __str__(self) -> str:
        found, less = self.point, self.earlier_and_better
        rhos = " ".join(f"{k}:{rho:.3g}" for k, rho in found.thresholds.items())
        hint = f"\nnote: {less} is less late and better; ask for less latency" if less else ""
        scores = f"{found} on dev"
        return f"{self.name}: {scores}, {len(self.tried)} tried; {rhos}{hint}"


def calibrate(
    generator: AdaptiveWaitKGenerator,
    dev_source: Sequence[str],
    dev_references: Sequence[str] | Sequence[Sequence[str]],
    target_al: float = 4.0,
    *,
    name: str | None = None,
    search: Search = DEFAULT_SEARCH,
    decoding: Decoding | None = None,
    tell: Callable[[str], None] | None = None,
) -> Calibration:
    """Choose thresholds for Average Lagging `target_al`, in tokens, of several lines the one with
    the best dev BLEU, and keep them as `generator.latencies[name]`. By default they are chosen for
    text sessions, which read on and write the set's own tail (`text_decoding`). `tell` is called
    with a line about each decoding, and how many there may be."""
    decoding = replace(decoding or text_decoding(generator), timed=0, beams=1)
    most = search.budget * len(search.ends(generator.policy.k_min, generator.policy.k_max))
    measured = 0

    def measure(thresholds: Thresholds) -> Point:
        nonlocal measured
        lines = decode_corpus(generator, dev_source, dev_references, Adaptive(thresholds), decoding)
        point = Point(
            thresholds, corpus_latency(sentences_of(lines)).value, corpus_bleu(*texts(lines)).value
        )
        measured += 1
        if tell is not None:
            tell(f"{measured} of at most {most}: {point}")
        return point

    tried = search_lines(measure, target_al, generator.policy, search)
    name = name or f"al-{target_al:g}"
    generator.latencies[name] = dict(tried[0].thresholds)
    return Calibration(name, target_al, tried[0], tried)


def search_lines(
    measure: Callable[[Thresholds], Point], target_al: float, policy: Adaptive, search: Search
) -> tuple[Point, ...]:
    """All points that were measured, the chosen one first: of what each line has to offer, the best
    in BLEU. Only the longest line must reach the latency."""
    longest, *shorter = search.ends(policy.k_min, policy.k_max)
    found = [search_thresholds(measure, target_al, policy.k_min, longest, search)]
    for end in shorter:
        try:
            found.append(search_thresholds(measure, target_al, policy.k_min, end, search))
        except OutOfReach:
            continue
    found.sort(key=lambda points: -points[0].bleu)
    return tuple(point for points in found for point in points)


def search_thresholds(
    measure: Callable[[Thresholds], Point],
    target_al: float,
    k_min: int,
    k_max: int,
    search: Search = DEFAULT_SEARCH,
) -> tuple[Point, ...]:
    """All points that were measured, the chosen one first: the first that is well within the
    tolerance, or else the nearest."""

    def at(t: float) -> Point:
        return measure(paper_line(t, k_min, k_max))

    low, high = 0.0, 1.0
    points = [at(low), at(high)]
    _check_range(points[0], points[1], target_al, search.tolerance)

    def off(point: Point) -> float:
        return abs(point.al - target_al)

    # AL is below the target at `low` and above it at `high`, so that it is met in between, even
    # where it does not grow all the way.
    while len(points) < search.budget and min(map(off, points)) > search.tolerance / 3:
        middle = (low + high) / 2
        points.append(at(middle))
        low, high = (middle, high) if points[-1].al < target_al else (low, middle)
    chosen = min(points, key=off)
    if off(chosen) > search.tolerance:
        raise OutOfReach(
            f"no thresholds met AL {target_al} within {search.tolerance}; the nearest of "
            f"{len(points)} gave {chosen.al:.3f}. Allow a larger tolerance, or name another latency"
        )
    return chosen, *(point for point in points if point is not chosen)


def paper_line(t: float, k_min: int, k_max: int) -> Thresholds:
    """The paper's settings in a row, for t in 0..1: the later, the larger t. First the threshold at
    k_min rises to 1, then that at k_max."""
    line = linear_thresholds(min(1.0, 2 * t), max(0.0, 2 * t - 1), k_min, k_max)
    return {k: round(rho, 4) for k, rho in line.items()}


def _check_range(earliest: Point, latest: Point, target_al: float, tolerance: float) -> None:
    """Can this latency be met at all?"""
    if not earliest.al - tolerance <= target_al <= latest.al + tolerance:
        raise OutOfReach(
            f"with these models AL goes from {earliest.al:.2f} to {latest.al:.2f}; got "
            f"target_al={target_al}. Name one in between, or train models with other k"
        )


def save_latency(folder: str | Path, name: str, thresholds: Mapping[int, float]) -> None:
    """Keep an operating point in a saved set: `from_pretrained(folder, latency=name)` then uses
    it."""
    check_thresholds(thresholds)
    known = read_set_config(folder).get("latencies", {})
    update_set_config(
        folder, latencies={**known, name: {str(k): rho for k, rho in thresholds.items()}}
    )
