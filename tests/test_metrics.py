"""The golden tables of the design, properties, and every bad input.

`system/test_simuleval_scores.py` compares the same formulas with SimulEval's.
"""

from collections.abc import Callable
from typing import Any

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from hf_simultaneous.metrics import (
    LENGTHS,
    Bleu,
    Metric,
    Score,
    Sentence,
    corpus_bleu,
    corpus_latency,
    latency,
)
from hf_simultaneous.version import __version__


VARIANTS = [Metric(name, length=length) for name, lengths in LENGTHS.items() for length in lengths]

# (name, delays, source, reference, AL reference, AL hypothesis, LAAL, AP reference, AP hypothesis,
# DAL): design 6.
GOLDEN = [
    ("wait-3", [3, 4, 5, 6, 6, 6], 6, 6, 3.0, 3.0, 3.0, 0.8333, 0.8333, 3.0),
    ("wait-1", [1, 2, 3, 4, 5, 6], 6, 6, 1.0, 1.0, 1.0, 0.5833, 0.5833, 1.0),
    ("full", [6] * 6, 6, 6, 6.0, 6.0, 6.0, 1.0, 1.0, 6.0),
    ("wait-3, long", [3, 4, 5, 6, 6, 6, 6, 6, 6], 6, 6, 3.0, 3.5, 3.5, 1.3333, 0.8889, 3.7778),
    ("wait-3, short", [3, 4, 5, 6], 6, 6, 3.0, 2.25, 3.0, 0.5, 0.75, 3.0),
    ("wait-3, stops early", [3, 4, 5, 6], 10, 8, 2.625, 0.75, 2.625, 0.225, 0.45, 3.0),
    ("adaptive", [2, 5, 5, 6, 6, 6], 6, 6, 3.0, 3.0, 3.0, 0.8333, 0.8333, 3.6667),
    ("catch-up", [*range(1, 7), *range(8, 14)], 14, 12, 0.5833, 0.5833, 0.5833, 0.5, 0.5, 1.0),
]
COLUMNS = [
    Metric("AL", length="reference"),
    Metric("AL", length="hypothesis"),
    Metric("LAAL"),
    Metric("AP", length="reference"),
    Metric("AP", length="hypothesis"),
    Metric("DAL"),
]
# The paper's own example; its first row is printed as 7, its third as 3.72.
PRINTED = [
    ("top-3, 1 to 0", [4, 5, 11, 11, 12, 12, 12, 12, *[16] * 10], 7.0),
    ("top-3, 0.4 to 0", [2, 3, 9, 9, 9, 9, 11, 11, 11, 12, 12, 12, 14, 14, 16], 2.8),
    ("wait-3", [*range(3, 16), *[16] * 5], 3.7222),
    ("full sentence", [16] * 18, 16.0),
]


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row[0])
def test_golden_table(row: Any) -> None:
    _, delays, source_len, reference_len, *expected = row
    sentence = Sentence(delays, source_len, reference_len)
    assert [latency(sentence, metric).value for metric in COLUMNS] == pytest.approx(
        expected, abs=1e-4
    )


@pytest.mark.parametrize(
    ("delays", "printed"), [row[1:] for row in PRINTED], ids=[row[0] for row in PRINTED]
)
def test_the_papers_example(delays: list[int], printed: float) -> None:
    assert latency(Sentence(delays, 16)).value == pytest.approx(printed, abs=1e-4)


@pytest.mark.parametrize(
    ("delays", "source_len", "expected"),
    [
        ([3, 4, 5, 6, 6, 6], 6, 6 / 4),  # RRRW RW RW RWWW
        ([6, 6], 6, 6.0),
        ([1, 2, 3], 3, 1.0),
        ([2, 5, 5, 6], 6, 2.0),
        ([0, 0, 2], 4, 2.0),  # the two READs after the last WRITE are in no delay
        ([0, 0], 4, 0.0),  # nothing was read: the documented value
    ],
)
def test_consecutive_wait(delays: list[int], source_len: int, expected: float) -> None:
    assert latency(Sentence(delays, source_len), Metric("CW")).value == pytest.approx(expected)


# --- properties


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    source_len = draw(st.integers(1, 30))
    delays = sorted(draw(st.lists(st.integers(0, source_len), min_size=1, max_size=40)))
    return Sentence(delays, source_len, draw(st.integers(1, 40)))


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30))
def test_full_sentence_lags_by_the_whole_source(
    source_len: int, target_len: int, reference_len: int
) -> None:
    sentence = Sentence([source_len] * target_len, source_len, reference_len)
    for metric in (
        Metric("AL"),
        Metric("AL", length="reference"),
        Metric("LAAL"),
        Metric("DAL"),
        Metric("CW"),
    ):
        assert latency(sentence, metric).value == pytest.approx(source_len)
    assert latency(sentence, Metric("AP")).value == pytest.approx(1)


@given(st.integers(1, 20), st.integers(1, 30))
def test_wait_k_lags_by_k_at_equal_lengths(k: int, length: int) -> None:
    sentence = Sentence([min(length, t + k - 1) for t in range(1, length + 1)], length, length)
    for metric in (Metric("AL"), Metric("LAAL"), Metric("DAL")):
        assert latency(sentence, metric).value == pytest.approx(min(k, length))


@given(sentences())
def test_order_of_the_variants(sentence: Sentence) -> None:
    value = {metric: latency(sentence, metric).value for metric in VARIANTS}
    lagging, by_reference = value[Metric("AL")], value[Metric("AL", length="reference")]
    assert value[Metric("LAAL")] == pytest.approx(max(lagging, by_reference))
    if (
        sentence.source_len not in sentence.delays
    ):  # then AL, too, is the mean over all tokens, and g' >= g
        assert value[Metric("DAL")] >= lagging - 1e-9
    assert 0 <= value[Metric("AP")] <= 1
    assert 0 <= value[Metric("CW")] <= sentence.source_len


@given(sentences(), st.data())
def test_reading_more_never_lowers_proportion_or_dal(
    sentence: Sentence, data: st.DataObject
) -> None:
    extra = data.draw(st.integers(0, sentence.source_len))
    later = Sentence(
        [max(d, extra) for d in sentence.delays], sentence.source_len, sentence.reference_len
    )
    for metric in (Metric("AP"), Metric("DAL")):
        assert latency(later, metric).value >= latency(sentence, metric).value - 1e-9


@given(st.lists(sentences(), min_size=1, max_size=10))
def test_means(corpus: list[Sentence]) -> None:
    values = [latency(sentence).value for sentence in corpus]
    lengths = [sentence.source_len for sentence in corpus]
    weighted = sum(v * n for v, n in zip(values, lengths, strict=True)) / sum(lengths)
    assert corpus_latency(corpus).value == pytest.approx(sum(values) / len(values))
    assert corpus_latency(corpus, Metric(mean="source-weighted")).value == pytest.approx(
        weighted, abs=1e-9
    )


# --- scores say how they were computed


def test_signatures() -> None:
    sentence = Sentence([3, 4, 5, 6], 6, 6)
    signature = f"AL|len:hyp|unit:token|eos:no|delays:read|mean:plain|version:{__version__}"
    assert str(latency(sentence)) == f"{signature} = 2.2500"
    metric = Metric(
        "AP", length="reference", unit="word", eos=True, delays="context", mean="source-weighted"
    )
    signature = (
        f"AP|len:ref|unit:word|eos:yes|delays:context|mean:source-weighted|version:{__version__}"
    )
    assert latency(sentence, metric).signature == signature
    assert Metric("LAAL").signature.startswith("LAAL|len:max|unit:token")
    assert Metric("CW").signature.startswith("CW|unit:token")
    assert len({metric.signature for metric in VARIANTS}) == len(VARIANTS)


def test_integers_of_other_libraries_count() -> None:
    numpy = pytest.importorskip("numpy")
    sentence = Sentence(numpy.array([3, 4, 5, 6]), numpy.int64(6), numpy.int32(6))
    assert sentence == Sentence((3, 4, 5, 6), 6, 6)
    assert type(sentence.delays[0]) is int


# --- bad input: a documented value, or an error that says what was given and what is allowed


@pytest.mark.parametrize("metric", VARIANTS, ids=lambda metric: f"{metric.name}-{metric.length}")
def test_an_empty_hypothesis_scores_as_a_full_sentence(metric: Metric) -> None:
    empty = latency(Sentence([], 7, 5), metric)
    assert empty.value == (1.0 if metric.name == "AP" else 7.0)
    assert empty.value == pytest.approx(latency(Sentence([7] * 5, 7, 5), metric).value)
    assert (empty.sentences, empty.empty) == (1, 1)


def test_empty_hypotheses_are_counted() -> None:
    score = corpus_latency([Sentence([], 4), Sentence([1, 2], 2), Sentence([], 4)])
    assert (score.value, score.sentences, score.empty) == (3.0, 3, 2)


BAD_INPUTS: list[tuple[str, Callable[[], object], str]] = [
    ("delays go backwards", lambda: Sentence([2, 1], 3), r"must not go backwards; got \[2, 1\]"),
    (
        "delays beyond the source",
        lambda: Sentence([2, 4], 3),
        r"must not exceed source_len = 3; got \[2, 4\]",
    ),
    (
        "negative delay",
        lambda: Sentence([-1, 1], 3),
        "a delay must be a whole number of at least 0; got -1",
    ),
    (
        "fractional delay",
        lambda: Sentence([0.5], 3),
        "a delay must be a whole number of at least 0; got 0.5",
    ),  # type: ignore[list-item]
    ("nan delay", lambda: Sentence([float("nan")], 3), "whole number of at least 0; got nan"),  # type: ignore[list-item]
    ("boolean delay", lambda: Sentence([True], 3), "whole number of at least 0; got True"),
    (
        "empty source",
        lambda: Sentence([], 0),
        "source_len must be a whole number of at least 1; got 0",
    ),
    ("fractional source", lambda: Sentence([], 2.5), "source_len must be .* at least 1; got 2.5"),  # type: ignore[arg-type]
    (
        "empty reference",
        lambda: Sentence([1], 1, 0),
        "reference_len must be .* at least 1; got 0. Pass None",
    ),
    (
        "unknown metric",
        lambda: Metric("ATD"),
        "name must be one of AL, LAAL, AP, DAL, CW; got 'ATD'",
    ),
    (
        "unknown length",
        lambda: Metric("AL", length="ref"),
        "length of AL must be one of hypothesis, reference",
    ),
    (
        "length not of this metric",
        lambda: Metric("DAL", length="reference"),
        "length of DAL must be one of hyp",
    ),
    ("unknown unit", lambda: Metric(unit="ms"), "unit must be one of token, word, char; got 'ms'"),
    ("eos as a word", lambda: Metric(eos="no"), "eos must be True or False; got 'no'"),  # type: ignore[arg-type]
    (
        "unknown delays",
        lambda: Metric(delays="all"),
        "delays must be one of read, context; got 'all'",
    ),
    (
        "unknown mean",
        lambda: Metric(mean="median"),
        "mean must be one of plain, source-weighted; got 'median'",
    ),
    (
        "score not finite",
        lambda: Score("AL", float("nan"), "AL"),
        "a score must be finite; got nan",
    ),
    (
        "no reference for AL",
        lambda: latency(Sentence([1], 1), Metric(length="reference")),
        "AL with length 'ref",
    ),
    (
        "no reference for LAAL",
        lambda: latency(Sentence([1], 1), Metric("LAAL")),
        "needs reference_len; got None",
    ),
    ("no sentences", lambda: corpus_latency([]), "sentences must hold at least one; got none"),
    (
        "unknown tokenizer",
        lambda: corpus_bleu(["a"], [["a"]], Bleu("14a")),
        "tokenize must be one of .* got '14a'",
    ),
    ("no hypotheses", lambda: corpus_bleu([], [[]]), "hypotheses must hold at least one; got none"),
    (
        "no references",
        lambda: corpus_bleu(["a"], []),
        "references must hold at least one list; got none",
    ),
    ("flat references", lambda: corpus_bleu(["a"], ["a"]), "got the sentence 'a'. Pass"),
    (
        "references too few",
        lambda: corpus_bleu(["a", "b"], [["a", "b"], ["a"]]),
        r"as the 2 hypotheses; got \[2, 1\]",
    ),
]


@pytest.mark.parametrize(
    ("call", "message"), [case[1:] for case in BAD_INPUTS], ids=[case[0] for case in BAD_INPUTS]
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# --- BLEU


HYPOTHESES = ["", "the cat sat on the mat today", "A dog barks at the very old moon"]
REFERENCES = [
    ["a bird", "the cat sat on a mat today", "a dog barks at the old moon"],
    ["one bird sings", "today the cat sat on the mat", "the dog barks at the very old moon"],
]


@pytest.mark.parametrize("references", [REFERENCES[:1], REFERENCES], ids=["one", "two"])
def test_bleu_is_sacrebleus(references: list[list[str]]) -> None:
    score = corpus_bleu(HYPOTHESES, references)
    theirs = sacrebleu.corpus_bleu(HYPOTHESES, references)
    assert score.value == pytest.approx(theirs.score, abs=1e-12)
    assert score.value > 10  # or nothing is tested
    assert (score.sentences, score.empty) == (3, 1)
    settings = f"nrefs:{len(references)}|case:mixed|eff:no|tok:13a|smooth:exp"
    assert score.signature == f"BLEU|{settings}|version:{sacrebleu.__version__}"


def test_bleu_settings_reach_sacrebleu() -> None:
    score = corpus_bleu(["A b", "c D"], [["a b", "c d"]], Bleu("char", lowercase=True))
    assert score.value == pytest.approx(
        sacrebleu.corpus_bleu(
            ["A b", "c D"], [["a b", "c d"]], lowercase=True, tokenize="char"
        ).score
    )
    assert "case:lc" in score.signature
    assert "tok:char" in score.signature
    assert corpus_bleu(["", ""], [["a", "b"]]).value == 0
