"""Finds thresholds that meet a latency the user names at the best dev BLEU, and keeps them in the set by name.

Knows thresholds and scores; how a corpus is decoded is `evaluation`'s business.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .evaluation import DEFAULT, Decoding, decode_corpus, is_main_process
from .generation import AdaptiveWaitKGenerator
from .logs import write_text
from .metrics import corpus_bleu, corpus_latency
from .policies import Adaptive, check_thresholds, linear_thresholds
from .scores import sentences_of, texts
from .sets import CONFIG_NAME


Thresholds = dict[int, float]

STEP = 0.15  # by how much one threshold is moved
WORTH = 0.1  # BLEU that a move must bring: less may be the dev set's own


@dataclass(frozen=True)
class Point:
    """Thresholds and what they give on the dev set."""

    thresholds: Mapping[int, float]
    al: float
    bleu: float


@dataclass(frozen=True)
class Search:
    """How well the latency must be met on dev data, and how many times the dev set may be decoded."""

    tolerance: float = 0.15
    budget: int = 40

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise ValueError(f"tolerance must be above 0; got {self.tolerance}. 0.15 leaves room for other sentences")
        if self.budget < 6:
            raise ValueError(f"budget must be 6 or more, or no search is possible; got {self.budget}")


USUAL = Search()


@dataclass(frozen=True)
class Calibration:
    """The point that was chosen, under its name in the set, and all that were tried."""

    name: str
    target_al: float
    point: Point
    tried: tuple[Point, ...]

    @property
    def earlier_and_better(self) -> Point | None:
        """A point that beats the chosen one in both, where the latency asked for buys nothing."""
        points = [point for point in self.tried if point.al < self.point.al and point.bleu > self.point.bleu]
        return max(points, key=lambda point: point.bleu, default=None)

    def __str__(self) -> str:
        found, less = self.point, self.earlier_and_better
        rhos = " ".join(f"{k}:{rho:.3g}" for k, rho in found.thresholds.items())
        hint = f"\nnote: AL {less.al:.2f} gave BLEU {less.bleu:.2f}; ask for less latency" if less else ""
        return f"{self.name}: AL {found.al:.3f}, BLEU {found.bleu:.2f} on dev, {len(self.tried)} tried; {rhos}{hint}"


def calibrate(
    generator: AdaptiveWaitKGenerator,
    dev_source: Sequence[str],
    dev_references: Sequence[str] | Sequence[Sequence[str]],
    target_al: float = 4.0,
    *,
    name: str | None = None,
    search: Search = USUAL,
    decoding: Decoding = DEFAULT,
) -> Calibration:
    """Choose thresholds for Average Lagging `target_al` and keep them as `generator.latencies[name]`.

    Three families of one parameter are bisected (the paper's lines, level thresholds, lines that reach 0 halfway);
    from the best of them single thresholds are moved, the others giving way so that the latency stays.
    """
    decoding = replace(decoding, timed=0, beams=1)

    def measure(thresholds: Thresholds) -> Point:
        lines = decode_corpus(generator, dev_source, dev_references, Adaptive(thresholds), decoding)
        return Point(thresholds, corpus_latency(sentences_of(lines)).value, corpus_bleu(*texts(lines)).value)

    tried = search_thresholds(measure, target_al, generator.policy.k_min, generator.policy.k_max, search)
    name = name or f"al-{target_al:g}"
    generator.latencies[name] = dict(tried[0].thresholds)
    return Calibration(name, target_al, tried[0], tried)


def search_thresholds(
    measure: Callable[[Thresholds], Point], target_al: float, k_min: int, k_max: int, search: Search = USUAL
) -> tuple[Point, ...]:
    """All points that were measured, the chosen one first."""
    tries = _Tries(measure, target_al, search)
    families = _families(k_min, k_max)
    tries.check_range(families[0])
    for family in families:
        tries.bisect(family)
    tries.move_single()
    chosen = tries.best()
    return chosen, *(point for point in tries.points.values() if point is not chosen)


Family = Callable[[float], Thresholds]
"""From a parameter in 0..1 to thresholds: the larger, the later."""


def _families(k_min: int, k_max: int) -> list[Family]:
    middle = (k_min + k_max) // 2

    def paper(t: float) -> Thresholds:
        return linear_thresholds(min(1.0, 2 * t), max(0.0, 2 * t - 1), k_min, k_max)

    def level(t: float) -> Thresholds:
        return linear_thresholds(t, t, k_min, k_max)

    def short(t: float) -> Thresholds:
        """Up to t = 1/2 a line that is 0 from the middle on; then the whole of it is raised."""
        head = linear_thresholds(min(1.0, 2 * t), 0.0, k_min, middle)
        floor = max(0.0, 2 * t - 1)
        return {k: max(head.get(k, 0.0), floor) for k in range(k_min, k_max + 1)}

    return [paper, level, short] if middle > k_min else [paper, level]


class _Tries:
    """What was measured so far, and what to measure next."""

    def __init__(self, measure: Callable[[Thresholds], Point], target: float, search: Search):
        self._measure, self._target, self._search = measure, target, search
        self.points: dict[tuple[tuple[int, float], ...], Point] = {}

    def at(self, thresholds: Thresholds) -> Point | None:
        """Measured once; None if the budget is used up."""
        key = tuple((k, round(rho, 4)) for k, rho in thresholds.items())
        if key not in self.points:
            if len(self.points) >= self._search.budget:
                return None
            self.points[key] = self._measure(dict(key))
        return self.points[key]

    def best(self) -> Point:
        """The best BLEU of those that meet the latency."""
        meeting = [point for point in self.points.values() if self._off(point) <= self._search.tolerance]
        if not meeting:
            nearest = min(self.points.values(), key=self._off)
            raise ValueError(
                f"no thresholds met AL {self._target} within {self._search.tolerance}; the nearest of "
                f"{len(self.points)} gave {nearest.al:.3f}. Allow a larger tolerance, or name another latency"
            )
        return max(meeting, key=lambda point: point.bleu)

    def _off(self, point: Point) -> float:
        return abs(point.al - self._target)

    def check_range(self, family: Family) -> None:
        """Can this latency be met at all?"""
        low, high = (self.at(family(t)) for t in (0.0, 1.0))
        if low is None or high is None:  # a budget allows for more
            return
        if not low.al - self._search.tolerance <= self._target <= high.al + self._search.tolerance:
            raise ValueError(
                f"with these models AL goes from {low.al:.2f} to {high.al:.2f}; got target_al={self._target}. "
                "Name one in between, or train models with other k"
            )

    def bisect(self, family: Family, low: float = 0.0, high: float = 1.0, steps: int = 6) -> None:
        """Close in on the parameter that meets the latency."""
        for _ in range(steps):
            middle = (low + high) / 2
            point = self.at(family(middle))
            if point is None or self._off(point) <= self._search.tolerance / 3:
                return
            low, high = (middle, high) if point.al < self._target else (low, middle)

    def move_single(self) -> None:
        """Raise or lower one threshold, shift the others until the latency is met again, keep what pays."""
        pays = True
        while pays and len(self.points) < self._search.budget:
            before = self.best()
            for k, step in self._moves(before):
                self.bisect(_shifted(before.thresholds, k, step), 0.3, 0.7, steps=3)
                if self.best().bleu >= before.bleu + WORTH:
                    break
            pays = self.best().bleu >= before.bleu + WORTH

    @staticmethod
    def _moves(point: Point) -> Iterator[tuple[int, float]]:
        # Not the last k: there it writes whatever the probability.
        for k in sorted(point.thresholds)[:-1]:
            for step in (STEP, -STEP):
                if 0 <= point.thresholds[k] + step <= 1:
                    yield k, step


def _shifted(thresholds: Mapping[int, float], k: int, step: float) -> Family:
    """One threshold moved by `step`; the parameter moves all the others, 1/2 not at all."""

    def family(t: float) -> Thresholds:
        moved = {at: rho + (step if at == k else t - 0.5) for at, rho in thresholds.items()}
        return {at: min(1.0, max(0.0, rho)) for at, rho in moved.items()}

    return family


def save_latency(folder: str | Path, name: str, thresholds: Mapping[int, float]) -> None:
    """Keep an operating point in a saved set: `from_pretrained(folder, latency=name)` then uses it."""
    check_thresholds(thresholds)
    known = read_config(folder).get("latencies", {})
    update_config(folder, latencies={**known, name: {str(k): rho for k, rho in thresholds.items()}})


def read_config(folder: str | Path) -> dict[str, Any]:
    """The set's `adaptive_config.json`."""
    path = Path(folder) / CONFIG_NAME
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} is no saved set: it has no {CONFIG_NAME}. Give a folder of save_pretrained()"
        )
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return config


def update_config(folder: str | Path, **entries: Any) -> None:
    """Change entries of a saved set's config; its models stay as they are."""
    text = json.dumps({**read_config(folder), **entries}, indent=2) + "\n"
    write_text(Path(folder) / CONFIG_NAME, text)


def calibrate_files(
    folder: str,
    source: Path,
    references: Sequence[Path],
    target_al: float,
    name: str | None = None,
    limit: int | None = None,
    budget: int = 40,
) -> Calibration:
    """`hf-simultaneous calibrate`: the set in a folder, its thresholds found and kept there."""
    from .reporting import read_sentences

    read_config(folder)  # before the search, not after it
    generator = AdaptiveWaitKGenerator.from_pretrained(folder)
    streams = [read_sentences(path, limit) for path in references]
    search = Search(budget=budget)
    found = calibrate(generator, read_sentences(source, limit), streams, target_al, name=name, search=search)
    if is_main_process():
        save_latency(folder, found.name, found.point.thresholds)
    return found
