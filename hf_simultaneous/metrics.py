"""Turns delays into latency scores (AL, LAAL, AP, DAL, CW) and says how sure a score, or a difference of two, is.

It does not know where delays come from: no policy, no model, no tokenizer, and BLEU itself is left to sacreBLEU.

A delay g(t) is the number of source units read when target unit t was written. "AL" alone names several metrics, so
every score carries a signature, as sacreBLEU's do, and two scores may be compared when their signatures are equal.
"""

import math
import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise, zip_longest

from .version import __version__


# The target lengths a metric may be computed with; the first is what None means. "longer" is LAAL's own
# definition. DAL has one because g' is a schedule for the tokens written; CW uses no length.
LENGTHS: dict[str, tuple[str, ...]] = {
    "AL": ("hypothesis", "reference"),
    "LAAL": ("longer",),
    "AP": ("hypothesis", "reference"),
    "DAL": ("hypothesis",),
    "CW": ("none",),
}
UNITS = ("token", "word", "char")
DELAYS = ("read", "context")
MEANS = ("plain", "source-weighted")

References = Sequence[Sequence[str]]  # as sacreBLEU has them: one list per reference, each in the corpus' order

_LENGTH_MARKS = {"hypothesis": "|len:hyp", "reference": "|len:ref", "longer": "|len:max", "none": ""}


def _require(correct: bool, message: str) -> None:
    if not correct:
        raise ValueError(message)


def _require_one_of(what: str, given: object, allowed: Sequence[str]) -> None:
    _require(given in allowed, f"{what} must be one of {', '.join(allowed)}; got {given!r}. Choose one of these names")


def _whole(what: str, given: object, at_least: int, hint: str) -> int:
    """The integer `given` stands for: numpy's and torch's integers count, floats and booleans do not."""
    try:
        number = at_least - 1 if isinstance(given, bool) else operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        number = at_least - 1
    _require(number >= at_least, f"{what} must be a whole number of at least {at_least}; got {given!r}. {hint}")
    return number


@dataclass(frozen=True)
class Sentence:
    """What one sentence contributes: its delays, and the lengths in the same unit.

    `delays` may be empty (see `latency`) and may stop before the source is read; 0, a token written before any READ,
    is allowed. `reference_len` is needed by LAAL and by the variants with `length="reference"` only.
    """

    delays: Sequence[int]
    source_len: int
    reference_len: int | None = None

    def __post_init__(self) -> None:
        delays = tuple(_whole("a delay", delay, 0, "Count the units read, not time") for delay in self.delays)
        source_len = _whole("source_len", self.source_len, 1, "Leave sentences without a source out")
        object.__setattr__(self, "delays", delays)
        object.__setattr__(self, "source_len", source_len)
        if self.reference_len is not None:
            reference_len = _whole("reference_len", self.reference_len, 1, "Pass None if there is no reference")
            object.__setattr__(self, "reference_len", reference_len)
        _require(
            max(delays, default=0) <= source_len,
            f"delays must not exceed source_len = {source_len}; got {list(delays)}. Count </s> in both or in neither",
        )
        _require(
            all(before <= after for before, after in pairwise(delays)),
            f"delays must not go backwards; got {list(delays)}. Record all that was read when each token was written",
        )


@dataclass(frozen=True)
class Metric:
    """A latency metric by name, with everything that changes its value.

    `length` is the target length the ideal pace is taken from; None is the metric's first in `LENGTHS` (for AL the
    hypothesis, as in the paper). `unit`, `eos` (is `</s>` counted) and `delays` (for wait-if-diff and wait-if-worse:
    "read", all that had to be read to decide, or "context", the part the token was predicted from) describe how the
    caller counted: they cannot be checked here, and are printed so that unlike scores are not compared. `mean`:
    "source-weighted" weighs sentences by source length, which, unlike the hypothesis length, is never 0 and is the
    same for every system.
    """

    name: str = "AL"
    _: KW_ONLY
    length: str | None = None
    unit: str = "token"
    eos: bool = False
    delays: str = "read"
    mean: str = "plain"

    def __post_init__(self) -> None:
        _require_one_of("name", self.name, tuple(LENGTHS))
        if self.length is None:
            object.__setattr__(self, "length", LENGTHS[self.name][0])
        _require_one_of(f"length of {self.name}", self.length, LENGTHS[self.name])
        _require_one_of("unit", self.unit, UNITS)
        # "no" would be truthy and print eos:yes
        _require(isinstance(self.eos, bool), f"eos must be True or False; got {self.eos!r}. Say whether </s> counts")
        _require_one_of("delays", self.delays, DELAYS)
        _require_one_of("mean", self.mean, MEANS)

    @property
    def signature(self) -> str:
        length = _LENGTH_MARKS[self.length or "none"]
        eos = "yes" if self.eos else "no"
        counted = f"unit:{self.unit}|eos:{eos}|delays:{self.delays}"
        return f"{self.name}{length}|{counted}|mean:{self.mean}|version:{__version__}"


@dataclass(frozen=True)
class Bootstrap:
    """How often to resample sentences with replacement, from which seed, and how wide the interval is."""

    resamples: int = 1000
    _: KW_ONLY
    seed: int = 12345
    confidence: float = 0.95

    def __post_init__(self) -> None:
        _whole("resamples", self.resamples, 1, "1000 is usual")
        _whole("seed", self.seed, 0, "Any will do; the same seed gives the same result")
        _require(0 < self.confidence < 1, f"confidence must lie between 0 and 1; got {self.confidence}. 0.95 is usual")

    @property
    def signature(self) -> str:
        # The generator is named because sacreBLEU draws other samples from the same seed.
        return f"bs:{self.resamples}|seed:{self.seed}|rng:mt19937|ci:{self.confidence}"


@dataclass(frozen=True)
class Bleu:
    """The settings of sacreBLEU that may be changed; the others keep its defaults."""

    tokenize: str = "13a"
    _: KW_ONLY
    lowercase: bool = False


AL = Metric("AL")
BLEU_13A = Bleu("13a")
RESAMPLE_1000 = Bootstrap(1000)


@dataclass(frozen=True)
class Score:
    """A value that says how it was computed. `empty` of the `sentences` had no hypothesis."""

    name: str
    value: float
    signature: str
    sentences: int = 1
    empty: int = 0

    def __post_init__(self) -> None:
        _require(math.isfinite(self.value), f"a score must be finite; got {self.value}. Look at what it came from")

    def __str__(self) -> str:
        return f"{self.signature} = {self.value:.4f}"


@dataclass(frozen=True)
class Interval:
    """A score and the bounds between which the bootstrap puts it."""

    score: Score
    low: float
    high: float
    bootstrap: Bootstrap

    def __post_init__(self) -> None:
        _require(self.low <= self.high, f"low must not exceed high; got {self.low} and {self.high}. Swap them")

    @property
    def signature(self) -> str:
        return f"{self.score.signature}|{self.bootstrap.signature}"

    def __str__(self) -> str:
        return f"{self.signature} = {self.score.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same sentences. The interval is that of the difference, second minus first; `p_value` is
    two-sided: how often chance alone would make a difference at least as large."""

    first: Score
    second: Score
    difference: Interval
    p_value: float

    def __post_init__(self) -> None:
        _require(0 <= self.p_value <= 1, f"p_value must lie in 0..1; got {self.p_value}. Divide by the resamples")

    @property
    def signature(self) -> str:
        return self.difference.signature

    def __str__(self) -> str:
        return f"{self.difference} ({self.first.value:.4f} -> {self.second.value:.4f}, p = {self.p_value:.4f})"


def latency(sentence: Sentence, metric: Metric = AL) -> Score:
    """The latency of one sentence.

    An empty hypothesis scores as a translation that waits for the whole source: |x| for AL, LAAL, DAL and CW, 1 for
    AP. Nothing reached the reader sooner, silence must not lower the mean (0 would), and both systems of a comparison
    keep the same sentences. (SimulEval warns and leaves such a sentence out of its mean.)
    """
    return corpus_latency([sentence], metric)


def corpus_latency(sentences: Sequence[Sentence], metric: Metric = AL) -> Score:
    """The mean over sentences, plain or weighted by source length as `metric.mean` says."""
    return latency_system(sentences, metric).score


def _value(sentence: Sentence, metric: Metric) -> float:
    target_len = _target_len(sentence, metric)
    if not sentence.delays:
        return 1.0 if metric.name == "AP" else float(sentence.source_len)
    return _FORMULAS[metric.name](sentence.delays, sentence.source_len, target_len)


def _target_len(sentence: Sentence, metric: Metric) -> int:
    written, reference_len = len(sentence.delays), sentence.reference_len
    if metric.length in ("hypothesis", "none"):
        return written
    if reference_len is None:
        hint = 'Pass it to Sentence, or use Metric("AL"), which needs none'
        raise ValueError(f"{metric.name} with length {metric.length!r} needs reference_len; got None. {hint}")
    return reference_len if metric.length == "reference" else max(written, reference_len)


def _source_per_target(source_len: int, target_len: int) -> float:
    """1/gamma: how far an ideal translator, always level with the speaker, reads for one token."""
    return source_len / target_len


def _average_lagging(delays: Sequence[int], source_len: int, target_len: int) -> float:
    pace = _source_per_target(source_len, target_len)
    # tau: once the source is over there is no more lag to cause, so later tokens do not count.
    tau = next((t for t, delay in enumerate(delays, start=1) if delay == source_len), len(delays))
    return sum(delay - t * pace for t, delay in enumerate(delays[:tau])) / tau


def _average_proportion(delays: Sequence[int], source_len: int, target_len: int) -> float:
    return sum(delays) / (source_len * target_len)


def _differentiable_average_lagging(delays: Sequence[int], source_len: int, target_len: int) -> float:
    pace = _source_per_target(source_len, target_len)
    total, reached = 0.0, -math.inf
    for t, delay in enumerate(delays):
        # Each token takes its share of time to say, so lag once caused is not made up by a burst of tokens.
        reached = max(float(delay), reached + pace)
        total += reached - t * pace
    return total / len(delays)


def _consecutive_wait(delays: Sequence[int], source_len: int, target_len: int) -> float:
    """READs up to the last WRITE per run of READs; 0 when every token was written before the first READ."""
    runs = sum(before < after for before, after in pairwise((0, *delays)))
    return delays[-1] / runs if runs else 0.0


_FORMULAS: dict[str, Callable[[Sequence[int], int, int], float]] = {
    "AL": _average_lagging,
    "LAAL": _average_lagging,  # the same formula; only the target length differs
    "AP": _average_proportion,
    "DAL": _differentiable_average_lagging,
    "CW": _consecutive_wait,
}


@dataclass(frozen=True)
class System:
    """All that resampling needs: one row a sentence, and a function from the rows' sum to the score."""

    score: Score
    rows: Sequence[Sequence[float]]
    score_of: Callable[[Sequence[float]], float]


def latency_system(sentences: Sequence[Sentence], metric: Metric) -> System:
    _require(len(sentences) >= 1, "sentences must hold at least one; got none. Check that the corpus was read")
    weights = [1 if metric.mean == "plain" else sentence.source_len for sentence in sentences]
    rows = [(w * _value(sentence, metric), w) for w, sentence in zip(weights, sentences, strict=True)]
    value = _ratio([sum(column) for column in zip(*rows, strict=True)])
    empty = sum(not sentence.delays for sentence in sentences)
    return System(Score(metric.name, value, metric.signature, len(sentences), empty), rows, _ratio)


def _ratio(sums: Sequence[float]) -> float:
    return sums[0] / sums[1]


def bootstrap_latency(
    sentences: Sequence[Sentence], metric: Metric = AL, bootstrap: Bootstrap = RESAMPLE_1000
) -> Interval:
    """The corpus latency with its confidence interval."""
    return _interval(latency_system(sentences, metric), bootstrap)


def compare_latency(
    first: Sequence[Sentence], second: Sequence[Sentence], metric: Metric = AL, bootstrap: Bootstrap = RESAMPLE_1000
) -> Comparison:
    """The paired bootstrap test of two systems' latencies; sentence i of both has the same source and reference."""
    lengths = ([(s.source_len, s.reference_len) for s in system] for system in (first, second))
    unlike = next((i for i, (a, b) in enumerate(zip_longest(*lengths)) if a != b), None)
    _require(
        unlike is None,
        f"both systems must have the same sentences; got {len(first)} and {len(second)}, and source or reference "
        f"length differ at index {unlike}. Keep empty hypotheses in, and use one order and one unit",
    )
    return _comparison(latency_system(first, metric), latency_system(second, metric), bootstrap)


def corpus_bleu(hypotheses: Sequence[str], references: References, bleu: Bleu = BLEU_13A) -> Score:
    """sacreBLEU's corpus score; one reference per sentence is `[references]`. An empty hypothesis matches nothing."""
    return bleu_system(hypotheses, references, bleu).score


def bootstrap_bleu(
    hypotheses: Sequence[str], references: References, bleu: Bleu = BLEU_13A, bootstrap: Bootstrap = RESAMPLE_1000
) -> Interval:
    """The corpus BLEU with its confidence interval."""
    return _interval(bleu_system(hypotheses, references, bleu), bootstrap)


def compare_bleu(
    first: Sequence[str],
    second: Sequence[str],
    references: References,
    bleu: Bleu = BLEU_13A,
    bootstrap: Bootstrap = RESAMPLE_1000,
) -> Comparison:
    """The paired bootstrap test of two systems' BLEU on the same sentences."""
    return _comparison(bleu_system(first, references, bleu), bleu_system(second, references, bleu), bootstrap)


def bleu_system(hypotheses: Sequence[str], references: References, bleu: Bleu) -> System:
    from sacrebleu.metrics.bleu import BLEU  # here, so that latency needs nothing beyond the standard library

    _require_one_of("tokenize", bleu.tokenize, tuple(BLEU.TOKENIZERS))
    _require_parallel(hypotheses, references)
    scorer = BLEU(tokenize=bleu.tokenize, lowercase=bleu.lowercase)
    parts = [
        scorer.corpus_score([hypothesis], [[stream[i]] for stream in references])
        for i, hypothesis in enumerate(hypotheses)
    ]
    rows = [(part.sys_len, part.ref_len, *part.counts, *part.totals) for part in parts]

    def score_of(sums: Sequence[float]) -> float:
        sys_len, ref_len, *counts = map(int, sums)
        half = len(counts) // 2
        bleu_score = BLEU.compute_bleu(counts[:half], counts[half:], sys_len, ref_len, scorer.smooth_method)
        return float(bleu_score.score)

    value = score_of([sum(column) for column in zip(*rows, strict=True)])
    empty = sum(not hypothesis.strip() for hypothesis in hypotheses)
    signature = f"BLEU|{scorer.get_signature().format()}"
    return System(Score("BLEU", value, signature, len(hypotheses), empty), rows, score_of)


def _require_parallel(hypotheses: Sequence[str], references: References) -> None:
    _require(len(hypotheses) >= 1, "hypotheses must hold at least one; got none. Check that the corpus was read")
    _require(len(references) >= 1, "references must hold at least one list; got none. BLEU needs a reference")
    _require(
        not any(isinstance(stream, str) for stream in references),
        f"references must be lists of sentences; got the sentence {references[0]!r}. Pass [references]",
    )
    _require(
        all(len(stream) == len(hypotheses) for stream in references),
        f"each list of references must be as long as the {len(hypotheses)} hypotheses; got "
        f"{[len(stream) for stream in references]}. Lay them out as one list per reference, not one per sentence",
    )


def _resample(systems: Sequence[System], bootstrap: Bootstrap) -> list[list[float]]:
    """Each system's scores on every resample; in a resample all systems are given the same sentences."""
    places = range(len(systems[0].rows))
    _require(len(places) >= 2, f"resampling needs at least 2 sentences; got {len(places)}. One says nothing of chance")
    generator = random.Random(bootstrap.seed)
    columns = [list(zip(*system.rows, strict=True)) for system in systems]
    samples: list[list[float]] = [[] for _ in systems]
    for _ in range(bootstrap.resamples):
        drawn = generator.choices(places, k=len(places))
        for system, table, scores in zip(systems, columns, samples, strict=True):
            scores.append(system.score_of([sum(map(column.__getitem__, drawn)) for column in table]))
    return samples


def _bounds(samples: Sequence[float], confidence: float) -> tuple[float, float]:
    """The percentile interval: as many samples are cut off below as above."""
    ordered = sorted(samples)
    cut = min(int(len(ordered) * (1 - confidence) / 2 + 1e-9), (len(ordered) - 1) // 2)
    return ordered[cut], ordered[-1 - cut]


def _interval(system: System, bootstrap: Bootstrap) -> Interval:
    (samples,) = _resample([system], bootstrap)
    return Interval(system.score, *_bounds(samples, bootstrap.confidence), bootstrap)


def _comparison(first: System, second: System, bootstrap: Bootstrap) -> Comparison:
    differences = [b - a for a, b in zip(*_resample([first, second], bootstrap), strict=True)]
    observed = second.score.value - first.score.value
    # Around the observed difference the resampled ones spread as chance alone would spread them around 0. The
    # observed one counts as a sample too, so that p is never 0.
    extreme = sum(abs(difference - observed) >= abs(observed) for difference in differences)
    signature = f"{first.score.signature}|test:paired"
    score = Score(f"{first.score.name} difference", observed, signature, first.score.sentences)
    interval = Interval(score, *_bounds(differences, bootstrap.confidence), bootstrap)
    return Comparison(first.score, second.score, interval, (extreme + 1) / (len(differences) + 1))
