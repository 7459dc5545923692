"""What the load test makes of what its speakers went through."""

import math
import subprocess
import sys
from collections import namedtuple
from types import SimpleNamespace

import pytest
from rich.console import Console

from benchmarks import load_runs
from benchmarks.load import REQUIRED, Load, Times, holds
from benchmarks.load_runs import Others, _ours, outcome, percentile
from benchmarks.soak_served import by_minute, done_by_minute, steady
from benchmarks.speakers import SENTENCES, Heard, Plan, words


def test_percentiles_are_values_that_occurred():
    assert percentile([0.1 * n for n in range(1, 11)], 50) == 500.0
    assert percentile([0.1, 0.2], 95) == 200.0
    assert math.isnan(percentile([], 50))


@pytest.mark.parametrize(
    ("late", "others", "void"), [(0.001, 0.1, False), (0.03, 0.1, True), (0.001, 0.5, True)]
)
def test_a_run_is_void_whose_speakers_were_late_or_beside_which_others_worked(late, others, void):
    heard = [
        Heard(done=4, waits=[0.1, 0.3], lateness=[late]),
        Heard(done=4, waits=[0.1, 0.1], lateness=[late]),
        Heard(refusals=[0.05, 0.04]),
    ]
    plan = Plan(url="", speakers=2, too_many=1, seconds=2.0)
    figures = outcome(plan, heard, cpu=0.08, others=others, beside=0.02)
    assert figures.speakers == 3
    assert (figures.admitted, figures.words_per_second, figures.p95) == (2, 2.0, 300.0)
    assert (figures.cpu_per_word, figures.refusals_p95, figures.void) == (10.0, 50.0, void)
    assert figures.beside_per_word == 2.5
    assert figures.slowest_over_median == pytest.approx(0.2 / 0.15, abs=0.01)


def test_streams_that_are_always_busy_cannot_be_late_but_others_can_disturb_them():
    plan = Plan(url="", gap=0.0, seconds=2.0)
    heard = [Heard(done=1, waits=[0.1], lateness=[0.5])]
    assert not outcome(plan, heard, cpu=0.1, others=0.0).void
    assert outcome(plan, heard, cpu=0.1, others=1.0).void


def test_what_we_use_ourselves_is_not_what_others_use(monkeypatch):
    machine, clock = SimpleNamespace(cpu=10.0), SimpleNamespace(now=100.0)
    times = namedtuple("times", "user idle guest")
    monkeypatch.setattr(load_runs.psutil, "cpu_times", lambda: times(machine.cpu, 50.0, 5.0))
    monkeypatch.setattr(load_runs.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(load_runs, "_ours", lambda: machine.cpu - 4.0 - (clock.now - 100) / 4)
    others = Others()
    machine.cpu, clock.now = 18.0, 110.0
    assert others.cores() == 0.25


def test_our_own_use_counts_children_that_are_over():
    before = _ours()
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    assert _ours() > before


def test_a_part_that_is_run_again_is_no_longer_void():
    load = Load(Times(), Console(quiet=True))
    load._keep("flooded_p95", 1.5, True, False)
    assert load.void == {"flooded_p95"}
    load._keep("flooded_p95", 1.1, False, False)
    assert not load.void


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
