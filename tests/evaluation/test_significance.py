"""The bootstrap: intervals as wide as theory says, resamples as sacreBLEU scores them, differences
at equal latency."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import sacrebleu

from hf_simultaneous.evaluation.scores import Scoring, score
from hf_simultaneous.evaluation.significance import (
    Bootstrap,
    Curve,
    Resampled,
    bounds,
    compare_at_equal_al,
    compare_settings,
    curve,
    doubts,
    mean_gain,
    resample,
    samples,
    signature,
)
from hf_simultaneous.metrics import (
    AL,
    BLEU_13A,
    Metric,
    Sentence,
    bleu_system,
    corpus_bleu,
    latency_system,
)
from tests.corpora import corpus


QUICK = Bootstrap(200)


def test_scores_of_few_sentences_are_doubted():
    assert doubts(99) == ["Few sentences (99): scores and intervals of fewer than 100 mean little."]
    assert doubts(100) == []


def wait_k_corpus(k: int, count: int = 60) -> list[Sentence]:
    """The same sources for every k, with hypotheses that differ in length from them."""
    generator = random.Random(7)
    lengths = [(generator.randint(5, 25), generator.randint(5, 25)) for _ in range(count)]
    return [Sentence([min(n, t + k) for t in range(m)], n, m) for n, m in lengths]


def noisy_copy(reference: list[str], noise: float, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join("x" if generator.random() < noise else w for w in line.split())
        for line in reference
    ]


def word_salad(count: int, seed: int = 3) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices([f"w{i}" for i in range(40)], k=12)) for _ in range(count)]


REFERENCE = word_salad(60)
GOOD, POOR = noisy_copy(REFERENCE, 0.15, 5), noisy_copy(REFERENCE, 0.5, 6)


def resampled(hypotheses: list[str], k: int = 3, bootstrap: Bootstrap = QUICK) -> Resampled:
    latency = latency_system(wait_k_corpus(k), AL)
    return resample(latency, bleu_system(hypotheses, [REFERENCE], BLEU_13A), bootstrap)


def setting(k: int, errors: float, count: int = 24) -> Resampled:
    found = score(corpus(k, errors, count), Scoring(bootstrap=QUICK)).resampled
    assert found is not None
    return found


@pytest.mark.parametrize(
    "metric", [Metric("AL"), Metric("LAAL"), Metric("AL", mean="source-weighted")]
)
def test_the_score_lies_in_its_interval(metric: Metric) -> None:
    system = latency_system(wait_k_corpus(3), metric)
    found = samples(system)
    low, high = bounds(found)
    assert low < system.score.value < high
    assert samples(system) == found
    assert samples(system, Bootstrap(seed=1)) != found
    wide_low, wide_high = bounds(found, Bootstrap(confidence=0.99))
    assert wide_low <= low <= high <= wide_high


def test_the_interval_is_as_wide_as_the_normal_theory_says() -> None:
    # 200 sentences of lag 1 and 200 of lag 3: mean 2, standard deviation 1, so the mean's is 1/20.
    lags = [Sentence([1, 2, 3], 3)] * 200 + [Sentence([3, 3, 3], 3)] * 200
    # The tolerance tells the 95 per cent interval from the 90 per cent one, which is 0.016 narrower
    # on either side.
    found = bounds(samples(latency_system(lags, AL), Bootstrap(4000)))
    assert found == pytest.approx((2 - 1.96 / 20, 2 + 1.96 / 20), abs=0.007)


def test_one_resample_has_an_interval_of_no_width() -> None:
    low, high = bounds(samples(latency_system(wait_k_corpus(3), AL), Bootstrap(1)))
    assert low == high


def test_every_resample_is_scored_as_sacrebleu_scores_it() -> None:
    drawn = np.random.default_rng(9).integers(60, size=60)
    theirs = sacrebleu.corpus_bleu([GOOD[i] for i in drawn], [[REFERENCE[i] for i in drawn]])
    system = bleu_system(GOOD, [REFERENCE], BLEU_13A)
    assert samples(system, Bootstrap(1, seed=9)) == pytest.approx([theirs.score], abs=1e-12)


def test_both_scores_of_a_setting_have_their_interval() -> None:
    found = resampled(GOOD)
    assert found.bleu == corpus_bleu(GOOD, [REFERENCE]).value
    intervals = found.intervals(QUICK)
    assert intervals["bleu"] == bounds(found.bleu_samples, QUICK)
    assert intervals["bleu"][0] < found.bleu < intervals["bleu"][1]
    assert intervals["al"][0] < found.al < intervals["al"][1]


def test_a_setting_does_not_differ_from_itself_and_a_poorer_one_does() -> None:
    same = compare_settings(resampled(GOOD), resampled(GOOD), QUICK)
    assert (same.difference, same.low, same.high) == (0, 0, 0)
    poorer = compare_settings(resampled(GOOD), resampled(POOR, k=4), QUICK)
    assert poorer.low <= poorer.difference <= poorer.high < 0
    assert poorer.al == resampled(POOR, k=4).al


def test_equal_settings_are_seldom_told_apart() -> None:
    """The interval of a difference that is chance alone leaves out 0 in 5 per cent of the cases,
    give or take chance."""
    generator = random.Random(1)
    apart = 0
    for seed in range(200):
        bootstrap = Bootstrap(100, seed=seed)
        first, second = (
            samples(
                latency_system([Sentence([generator.randint(1, 9)], 9) for _ in range(40)], AL),
                bootstrap,
            )
            for _ in range(2)
        )
        low, high = bounds([b - a for a, b in zip(first, second, strict=True)], bootstrap)
        apart += not low <= 0 <= high
    assert 2 <= apart <= 26


def test_equal_latency_is_a_straight_line_between_settings() -> None:
    base = curve([setting(1, 0.5), setting(3, 0.3), setting(5, 0.1)])
    better = curve([setting(1, 0.3), setting(5, 0.0)])
    (row,) = compare_at_equal_al(base, better, [2.0], QUICK)
    assert row.first == pytest.approx((base.bleu[0] + base.bleu[1]) / 2)
    assert row.second == pytest.approx(better.bleu[0] + (better.bleu[1] - better.bleu[0]) / 4)
    assert row.low <= row.difference <= row.high
    assert row.low > 0
    latencies = [one.al for one in compare_at_equal_al(base, better, None, QUICK)]
    assert latencies == pytest.approx([1.0, 3.0, 5.0])
    for one in compare_at_equal_al(base, base, None, QUICK):
        assert one.difference == one.low == one.high == 0


def drifting(*al: float, gain: float = 0.0) -> Curve:
    """Settings on a straight line of BLEU over AL, which every resample moves along, and up and
    down as a whole."""
    generator = np.random.default_rng(2)
    shift, level = (generator.normal(size=(50, 1)) for _ in range(2))
    latencies = np.array(al)
    moved = latencies + shift
    line = 10 * latencies + gain
    return Curve(latencies, line, moved, 10 * moved + gain + level)


@pytest.mark.parametrize("latencies", [None, [3.0], [7.0], [5.0]])
def test_the_ends_of_a_curve_are_read_where_they_are_on_each_resample(
    latencies: list[float] | None,
) -> None:
    base, longer = drifting(3.0, 5.0, 7.0), drifting(1.0, 3.0, 5.0, 7.0, 9.0)
    for first, second in ((base, base), (base, longer), (longer, base)):
        for row in compare_at_equal_al(first, second, latencies, QUICK):
            assert (row.difference, row.low, row.high) == pytest.approx((0, 0, 0), abs=1e-9)
    better = drifting(2.0, 8.0, gain=4.0)
    gain = mean_gain(base, better, QUICK)
    assert gain is not None
    assert (gain.difference, gain.low, gain.high) == pytest.approx((4, 4, 4))
    for row in compare_at_equal_al(better, drifting(1.0, 9.0), sorted(better.al), QUICK):
        assert (row.difference, row.low, row.high) == pytest.approx((-4, -4, -4))
    (between,) = compare_at_equal_al(base, better, [4.0], QUICK)
    assert between.difference == pytest.approx(4.0)


def test_the_mean_gain_is_the_mean_of_the_gains_and_surer_than_each() -> None:
    first = curve([setting(k, 0.3) for k in (1, 3, 5)])
    second = curve([setting(k, 0.1) for k in (1, 3, 5)])
    gain = mean_gain(first, second, QUICK)
    each = compare_at_equal_al(first, second, bootstrap=QUICK)
    assert gain is not None
    assert gain.latencies == [row.al for row in each]
    assert gain.difference == pytest.approx(np.mean([row.difference for row in each]))
    assert gain.low < gain.difference < gain.high
    assert gain.high - gain.low <= max(row.high - row.low for row in each)
    later = curve([setting(k, 0.1) for k in (8, 9)])
    assert mean_gain(first, later, QUICK) is None


def test_settings_of_one_corpus_draw_the_same_sentences() -> None:
    assert setting(1, 0.5) == setting(1, 0.5)
    with pytest.raises(ValueError, match=r"settings of \[3, 24\] sentences"):
        curve([setting(1, 0.5), setting(1, 0.5, count=3)])


def test_signatures() -> None:
    assert QUICK.signature == "bs:200|seed:12345|rng:pcg64|ci:0.95"
    assert (
        signature(QUICK) == f"equal-AL|interpolation:linear|at:own-AL|test:paired|{QUICK.signature}"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Bootstrap(0), "resamples must be an integer of 1 or more; got 0"),
        (lambda: Bootstrap(seed=None), "seed must be an integer of 0 or more; got None"),
        (lambda: Bootstrap(confidence=95), "must lie between 0 and 1; got 95"),
        (
            lambda: samples(latency_system([Sentence([1], 1)], AL)),
            "resampling needs at least 2 sentences; got 1",
        ),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
