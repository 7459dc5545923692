"""Turns delays into latency scores (AL, LAAL, AP, DAL, CW), and sentences into BLEU.

It does not know where delays come from: no policy, no model, no tokenizer. BLEU itself is left to
sacreBLEU, and how sure a score is to `evaluation.significance`.

A delay g(t) is the number of source units read when target unit t was written. "AL" alone names
several metrics, so every score carries a signature, as sacreBLEU's do, and two scores may be
compared when their signatures are equal."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise

from .version import __version__


# The target lengths a metric may be computed with; the first is what None means. "longer" is LAAL's
# own definition. DAL has one because g' is a schedule for the tokens written; CW uses no length.
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

# As sacreBLEU has them: one list per reference, each in the corpus' order.
References = Sequence[Sequence[str]]

_LENGTH_MARKS = {
    "hypothesis": "|len:hyp",
    "reference": "|len:ref",
    "longer": "|len:max",
    "none": "",
}


def _require(correct: bool, message: str) -> None:
    if not correct:
        raise ValueError(message)


def _require_one_of(what: str, given: object, allowed: Sequence[str]) -> None:
    _require(
        given in allowed,
        f"{what} must be one of {', '.join(allowed)}; got {given!r}. Choose one of these names",
    )


def _whole(what: str, given: object, at_least: int, hint: str) -> int:
    """The integer `given` stands for: numpy's and torch's integers count, floats and booleans do
    not."""
    try:
        number = at_least - 1 if isinstance(given, bool) else operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        number = at_least - 1
    _require(
        number >= at_least,
        f"{what} must be a whole number of at least {at_least}; got {given!r}. {hint}",
    )
    return number


@dataclass(frozen=True)
class Sentence:
    """What one sentence contributes: its delays, and the lengths in the same unit.

    `delays` may be empty (see `latency`) and may stop before the source is read; 0, a token written
    before any READ, is allowed. `reference_len` is needed by LAAL and by the variants with
    `length="reference"` only."""

    delays: Sequence[int]
    source_len: int
    reference_len: int | None = None

    def __post_init__(self) -> None:
        delays = tuple(
            _whole("a delay", delay, 0, "Count the units read, not time") for delay in self.delays
        )
        source_len = _whole(
            "source_len", self.source_len, 1, "Leave sentences without a source out"
        )
        object.__setattr__(self, "delays", delays)
        object.__setattr__(self, "source_len", source_len)
        if self.reference_len is not None:
            reference_len = _whole(
                "reference_len", self.reference_len, 1, "Pass None if there is no reference"
            )
            object.__setattr__(self, "reference_len", reference_len)
        _require(
            max(delays, default=0) <= source_len,
            f"delays must not exceed source_len = {source_len}; got {list(delays)}. Count </s> in "
            f"both or in neither",
        )
        _require(
            all(before <= after for before, after in pairwise(delays)),
            f"delays must not go backwards; got {list(delays)}. Record all that was read when each "
            f"token was written",
        )


@dataclass(frozen=True)
class Metric:
    """A latency metric by name, with everything that changes its value.

    `length` is the target length the ideal pace is taken from; None is the metric's first in
    `LENGTHS` (for AL the hypothesis, as in the paper). `unit`, `eos` (is `</s>` counted) and
    `delays` (for wait-if-diff and wait-if-worse: "read", all that had to be read to decide, or
    "context", the part the token was predicted from) describe how the caller counted: they cannot
    be checked here, and are printed so that unlike scores are not compared. `mean`:
    "source-weighted" weighs sentences by source length, which, unlike the hypothesis length, is
    never 0 and is the same for every system."""

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
        _require(
            isinstance(self.eos, bool),
            f"eos must be True or False; got {self.eos!r}. Say whether </s> counts",
        )
        _require_one_of("delays", self.delays, DELAYS)
        _require_one_of("mean", self.mean, MEANS)

    @property
    def signature(self) -> str:
        length = _LENGTH_MARKS[self.length or "none"]
        eos = "yes" if self.eos else "no"
        counted = f"unit:{self.unit}|eos:{eos}|delays:{self.delays}"
        return f"{self.name}{length}|{counted}|mean:{self.mean}|version:{__version__}"


@dataclass(frozen=True)
class Bleu:
    """The settings of sacreBLEU that may be changed; the others keep its defaults."""

    tokenize: str = "13a"
    _: KW_ONLY
    lowercase: bool = False


AL = Metric("AL")
BLEU_13A = Bleu("13a")


@dataclass(frozen=True)
class Score:
    """A value that says how it was computed. `empty` of the `sentences` had no hypothesis."""

    name: str
    value: float
    signature: str
    sentences: int = 1
    empty: int = 0

    def __post_init__(self) -> None:
        _require(
            math.isfinite(self.value),
            f"a score must be finite; got {self.value}. Look at what it came from",
        )

    def __str__(self) -> str:
        return f"{self.signature} = {self.value:.4f}"


def latency(sentence: Sentence, metric: Metric = AL) -> Score:
    """The latency of one sentence.

    An empty hypothesis scores as a translation that waits for the whole source: |x| for AL, LAAL,
    DAL and CW, 1 for AP. Nothing reached the reader sooner, silence must not lower the mean (0
    would), and both systems of a comparison keep the same sentences. (SimulEval warns and leaves
    such a sentence out of its mean.)"""
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
        raise ValueError(
            f"{metric.name} with length {metric.length!r} needs reference_len; got None. {hint}"
        )
    return reference_len if metric.length == "reference" else max(written, reference_len)


def _source_per_target(source_len: int, target_len: int) -> float:
    """1/gamma: how far an ideal translator, always level with the speaker, reads for one token."""
    return source_len / target_len


def average_lagging(delays: Sequence[float], source_len: int, target_len: int) -> float:
    """AL of one sentence that has delays. They may be times, counted in source units: then a token
    may come after the last of them."""
    pace = _source_per_target(source_len, target_len)
    # tau: once the source is over there is no more lag to cause, so later tokens do not count.
    tau = next((t for t, delay in enumerate(delays, start=1) if delay >= source_len), len(delays))
    return sum(delay - t * pace for t, delay in enumerate(delays[:tau])) / tau


def _average_proportion(delays: Sequence[int], source_len: int, target_len: int) -> float:
    return sum(delays) / (source_len * target_len)


def _differentiable_average_lagging(
    delays: Sequence[int], source_len: int, target_len: int
) -> float:
    pace = _source_per_target(source_len, target_len)
    total, reached = 0.0, -math.inf
    for t, delay in enumerate(delays):
        # Each token takes its share of time to say, so lag once caused is not made up by a burst of
        # tokens.
        reached = max(float(delay), reached + pace)
        total += reached - t * pace
    return total / len(delays)


def _consecutive_wait(delays: Sequence[int], source_len: int, target_len: int) -> float:
    """READs up to the last WRITE per run of READs; 0 when every token was written before the first
    READ."""
    runs = sum(before < after for before, after in pairwise((0, *delays)))
    return delays[-1] / runs if runs else 0.0


_FORMULAS: dict[str, Callable[[Sequence[int], int, int], float]] = {
    "AL": average_lagging,
    "LAAL": average_lagging,  # the same formula; only the target length differs
    "AP": _average_proportion,
    "DAL": _differentiable_average_lagging,
    "CW": _consecutive_wait,
}


@dataclass(frozen=True)
class System:
    """All that resampling needs: one row a sentence, and a function from the rows' sum to the
    score."""

    score: Score
    rows: Sequence[Sequence[float]]
    score_of: Callable[[Sequence[float]], float]


def latency_system(sentences: Sequence[Sentence], metric: Metric) -> System:
    _require(
        len(sentences) >= 1,
        "sentences must hold at least one; got none. Check that the corpus was read",
    )
    weights = [1 if metric.mean == "plain" else sentence.source_len for sentence in sentences]
    rows = [
        (w * _value(sentence, metric), w) for w, sentence in zip(weights, sentences, strict=True)
    ]
    value = _ratio([sum(column) for column in zip(*rows, strict=True)])
    empty = sum(not sentence.delays for sentence in sentences)
    return System(Score(metric.name, value, metric.signature, len(sentences), empty), rows, _ratio)


def _ratio(sums: Sequence[float]) -> float:
    return sums[0] / sums[1]


def corpus_bleu(hypotheses: Sequence[str], references: References, bleu: Bleu = BLEU_13A) -> Score:
    """sacreBLEU's corpus score; one reference per sentence is `[references]`. An empty hypothesis
    matches nothing."""
    return bleu_system(hypotheses, references, bleu).score


def bleu_system(hypotheses: Sequence[str], references: References, bleu: Bleu) -> System:
    # Here, so that latency needs nothing beyond the standard library.
    from sacrebleu.metrics.bleu import BLEU

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
        bleu_score = BLEU.compute_bleu(
            counts[:half], counts[half:], sys_len, ref_len, scorer.smooth_method
        )
        return float(bleu_score.score)

    value = score_of([sum(column) for column in zip(*rows, strict=True)])
    empty = sum(not hypothesis.strip() for hypothesis in hypotheses)
    signature = f"BLEU|{scorer.get_signature().format()}"
    return System(Score("BLEU", value, signature, len(hypotheses), empty), rows, score_of)


def _require_parallel(hypotheses: Sequence[str], references: References) -> None:
    _require(
        len(hypotheses) >= 1,
        "hypotheses must hold at least one; got none. Check that the corpus was read",
    )
    _require(
        len(references) >= 1,
        "references must hold at least one list; got none. BLEU needs a reference",
    )
    _require(
        not any(isinstance(stream, str) for stream in references),
        f"references must be lists of sentences; got the sentence {references[0]!r}. Pass "
        f"[references]",
    )
    _require(
        all(len(stream) == len(hypotheses) for stream in references),
        f"each list of references must be as long as the {len(hypotheses)} hypotheses; got "
        f"{[len(stream) for stream in references]}. Lay them out as one list per reference, not "
        f"one per sentence",
    )
