"""Turns the lines of a log into scores: quality, latency, length, early stops, time; each with its
signature.

Needs no model: whoever has the log gets the same numbers again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from ..metrics import (
    BLEU_13A,
    DELAYS,
    Bleu,
    Metric,
    Sentence,
    System,
    average_lagging,
    bleu_system,
    latency_system,
)
from ..version import __version__
from ..words import source_words
from .logs import LoggedSentence, read_log
from .significance import RESAMPLE_1000, Bootstrap, Resampled, resample


TOKENS = {
    "al": Metric("AL"),
    "al_ref": Metric("AL", length="reference"),
    "laal": Metric("LAAL"),
    "ap": Metric("AP"),
    "ap_ref": Metric("AP", length="reference"),
    "dal": Metric("DAL"),
    "cw": Metric("CW"),
}
WORDS = {
    "al_words": Metric("AL", length="reference", unit="word"),
    "laal_words": Metric("LAAL", unit="word"),
    "ap_words": Metric("AP", length="reference", unit="word"),
    "dal_words": Metric("DAL", unit="word"),
}


@dataclass(frozen=True)
class Scoring:
    """How to count. `bootstrap=None`: no intervals.

    `count`, for wait-if-diff and wait-if-worse: a token is as late as all that was "read" to decide
    on it, or as the "context" it was predicted from. `seconds_per_token` is how fast the speaker
    talks; the paper takes 0.6."""

    _: KW_ONLY
    bleu: Bleu = BLEU_13A
    count: str = "read"
    seconds_per_token: float = 0.6
    bootstrap: Bootstrap | None = RESAMPLE_1000

    def __post_init__(self) -> None:
        if self.count not in DELAYS:
            raise ValueError(f"count must be one of {', '.join(DELAYS)}; got {self.count!r}")
        if not self.seconds_per_token > 0:
            raise ValueError(
                f"seconds_per_token must be above 0; got {self.seconds_per_token}. 0.6 is usual"
            )


DEFAULT_SCORING = Scoring()


@dataclass(frozen=True)
class Scores:
    """`scores["bleu"]`, `scores["al"]`, ...: the values by name, with what is known about each of
    them. `resampled` is what the intervals come from: None without intervals."""

    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    signatures: Mapping[str, str]
    sentences: int
    early_stops: int
    empty: int
    timed: int
    resampled: Resampled | None = None

    def __getitem__(self, name: str) -> float:
        if name not in self.values:
            raise KeyError(f"there is no score {name!r}; there are {', '.join(self.values)}")
        return self.values[name]

    def as_dict(self) -> dict[str, Any]:
        """As `scores.json` holds it."""
        counts = {
            name: getattr(self, name) for name in ("sentences", "early_stops", "empty", "timed")
        }
        intervals = {name: list(bounds) for name, bounds in self.intervals.items()}
        return {
            **self.values,
            **counts,
            "intervals": intervals,
            "signatures": dict(self.signatures),
        }

    def __str__(self) -> str:
        shown = [f"BLEU {self['bleu']:.2f}", f"chrF {self['chrf']:.2f}", f"AL {self['al']:.3f}"]
        return ", ".join(
            [*shown, f"LAAL {self['laal']:.3f}", f"length ratio {self['length_ratio']:.3f}"]
        )


def scores_from_log(path: str | Path, scoring: Scoring = DEFAULT_SCORING) -> Scores:
    """The scores of the run that wrote this log."""
    return score(read_log(path), scoring)


def score(lines: Sequence[LoggedSentence], scoring: Scoring = DEFAULT_SCORING) -> Scores:
    """Every score of these sentences."""
    if not lines:
        raise ValueError("there must be at least one sentence to score; got none")
    systems = _systems(lines, scoring)
    values = {name: system.score.value for name, system in systems.items()}
    signatures = {name: system.score.signature for name, system in systems.items()}
    values["chrf"], signatures["chrf"] = _chrf(*texts(lines))
    written = sum(len(line.delays) for line in lines)
    wanted = sum(line.reference_length for line in lines)
    values["length_ratio"] = written / wanted
    signatures["length_ratio"] = "hyp/ref|unit:token|eos:no"
    timed = [line for line in lines if line.costs is not None]
    if timed:
        _add_times(values, signatures, timed, scoring.seconds_per_token)
    if lines[0].decoding is not None:
        signatures = {name: f"{text}|{lines[0].decoding}" for name, text in signatures.items()}
    resampled = None
    intervals: dict[str, tuple[float, float]] = {}
    if scoring.bootstrap is not None and len(lines) > 1:
        resampled = resample(systems["al"], systems["bleu"], scoring.bootstrap)
        intervals = resampled.intervals(scoring.bootstrap)
    return Scores(
        values=values,
        intervals=intervals,
        signatures=signatures,
        sentences=len(lines),
        early_stops=sum(line.early_stop for line in lines),
        empty=sum(not line.delays for line in lines),
        timed=len(timed),
        resampled=resampled,
    )


def _systems(lines: Sequence[LoggedSentence], scoring: Scoring) -> dict[str, System]:
    """What is a sum over sentences: BLEU, and every latency."""
    latencies = {
        name: latency_system(sentences, metric)
        for name, metric, sentences in _latencies(lines, scoring.count)
    }
    return {"bleu": bleu_system(*texts(lines), scoring.bleu), **latencies}


def texts(lines: Sequence[LoggedSentence]) -> tuple[list[str], list[list[str]]]:
    """Hypotheses, and references as sacreBLEU takes them."""
    counts = {len(line.references) for line in lines}
    if len(counts) > 1 or 0 in counts:
        raise ValueError(
            f"every sentence must have the same number of references, one or more; got "
            f"{sorted(counts)}"
        )
    return [line.hypothesis for line in lines], [
        list(s) for s in zip(*(line.references for line in lines), strict=True)
    ]


def sentences_of(lines: Sequence[LoggedSentence], count: str = "read") -> list[Sentence]:
    """The lines as latency metrics take them, in tokens."""
    delays = [line.contexts if count == "context" else line.delays for line in lines]
    return [
        Sentence(d, line.source_length, line.reference_length)
        for d, line in zip(delays, lines, strict=True)
    ]


def _latencies(
    lines: Sequence[LoggedSentence], count: str
) -> list[tuple[str, Metric, list[Sentence]]]:
    sentences = sentences_of(lines, count)
    found = [
        (name, Metric(m.name, length=m.length, delays=count), sentences)
        for name, m in TOKENS.items()
    ]
    if any(line.word_delays is None for line in lines):
        return found
    words = [
        Sentence(
            line.word_delays or (), len(source_words(line.source)), len(line.reference.split())
        )
        for line in lines
    ]
    return found + [(name, metric, words) for name, metric in WORDS.items()]


def _chrf(hypotheses: list[str], references: list[list[str]]) -> tuple[float, str]:
    # Here, so that reading a log does not need it.
    from sacrebleu.metrics.chrf import CHRF

    scorer = CHRF()
    value = float(scorer.corpus_score(hypotheses, references).score)
    return value, f"chrF2|{scorer.get_signature().format()}"


def _add_times(
    values: dict[str, float],
    signatures: dict[str, str],
    timed: Sequence[LoggedSentence],
    pace: float,
) -> None:
    seconds = sum(sum(line.costs or ()) for line in timed)
    predicted = sum(line.actions.count("W") for line in timed)
    values["time_per_token"] = seconds / max(1, predicted)
    signatures["time_per_token"] = (
        f"seconds|live, one sentence at a time|sentences:{len(timed)}|eos:yes"
    )
    values["al_ca"] = sum(computation_aware_al(line, pace) for line in timed) / len(timed)
    signatures["al_ca"] = (
        f"AL-CA|len:hyp|unit:token|eos:no|seconds-per-token:{pace:g}|sentences:{len(timed)}|version:{__version__}"
    )


def computation_aware_al(line: LoggedSentence, seconds_per_token: float) -> float:
    """Average Lagging in source tokens when the clock runs on while the models compute.

    Source token i is there i x `seconds_per_token` after the start, `</s>` together with the last
    token. A token written counts up to the first that came when the speaker had finished, as in AL.
    """
    clock, read, times = 0.0, 0, list[float]()
    for action, cost in zip(line.actions, line.costs or (), strict=True):
        clock += cost  # before a READ: the prediction that was not sure enough
        if action == "R":
            read = min(read + 1, line.source_length)
            clock = max(clock, read * seconds_per_token)
        else:
            times.append(clock / seconds_per_token)
    times = times[: len(line.delays)]
    if not times:
        return float(line.source_length)  # as `metrics.latency` counts silence
    return average_lagging(times, line.source_length, len(times))
