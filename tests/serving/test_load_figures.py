"""What the load test makes of what its speakers went through."""

import math

import pytest

from benchmarks.load import REQUIRED, holds
from benchmarks.load_runs import outcome, percentile
from benchmarks.soak_served import by_minute, done_by_minute, steady
from benchmarks.speakers import SENTENCES, Heard, Plan, words


def test_percentiles_are_values_that_occurred():
    assert percentile([0.1 * n for n in range(1, 11)], 50) == 500.0
    assert percentile([0.1, 0.2], 95) == 200.0
    assert math.isnan(percentile([], 50))


@pytest.mark.parametrize(("late", "void"), [(0.001, False), (0.03, True)])
def test_a_run_whose_speakers_were_late_is_void(late, void):
    heard = [
        Heard(done=4, waits=[0.1, 0.3], lateness=[late]),
        Heard(done=4, waits=[0.1, 0.1], lateness=[late]),
        Heard(refused_after=0.05),
    ]
    figures = outcome(Plan(url="", speakers=3, seconds=2.0), heard, cpu=0.08)
    assert (figures.admitted, figures.words_per_second, figures.p95) == (2, 2.0, 300.0)
    assert (figures.cpu_per_word, figures.refusals_p95, figures.void) == (10.0, 50.0, void)
    assert figures.slowest_over_median == pytest.approx(0.2 / 0.15, abs=0.01)


def test_bounds_are_read_from_both_sides():
    assert holds("equal", 1.0)
    assert not holds("equal", 0.9)
    assert holds("p95_at_32", 0.5)
    assert not holds("p95_at_32", 1.5)
    assert {sign for _, _, sign in REQUIRED.values()} == {"≥", "≤"}


def test_minutes_are_kept_apart():
    heard = [Heard(waits=[0.1, 3.0, 0.2], dues=[5.0, 58.0, 70.0])]
    assert by_minute(heard, 2) == [[0.1, 3.0], [0.2]]
    assert done_by_minute(heard, 2) == [1, 2]


def test_the_last_minute_is_compared_with_the_second():
    assert steady("p95", [9.0, 100.0, 300.0, 120.0]) == (
        "p95, the last minute over the second: 1.20, steady"
    )
    assert "NOT steady" in steady("p95", [100.0, 100.0, 121.0])


def test_speakers_say_every_sentence_before_they_repeat_one():
    source = words(3)
    said = [next(source) for sentence in SENTENCES for _ in sentence.split()]
    assert sorted(said) == sorted(word for sentence in SENTENCES for word in sentence.split())
