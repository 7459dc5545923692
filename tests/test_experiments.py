"""The report from made-up logs: tables, claims at equal latency, and what is said when something is missing."""

import csv
import json
import random

import numpy as np
import pytest
from typer.testing import CliRunner

from hf_simultaneous.cli import app
from hf_simultaneous.comparison import compare_at_equal_al, curve, resample, signature
from hf_simultaneous.experiments import load_experiment, log_path, resampled, scored, write_report
from hf_simultaneous.logs import Line, read_log, write_log
from hf_simultaneous.metrics import Bootstrap


WORDS = [f"w{number}" for number in range(30)]
QUICK = Bootstrap(50)


def corpus(k: int, errors: float, count: int = 24, seed: int = 0) -> list[Line]:
    """Sentences of eight words written under wait-k, each word wrong with the probability `errors`."""
    texts, chance = random.Random(seed), random.Random(seed + 1)
    lines = []
    for index in range(count):
        words = texts.choices(WORDS, k=8)
        written = [word if chance.random() >= errors else "wrong" for word in words]
        actions = "R" * k + "WR" * (8 - k) + "W" * k + "RW"
        delays = [min(8, k + t) for t in range(8)]
        lines.append(
            Line(
                index=index,
                sentences=count,
                source=" ".join(words).upper(),
                references=(" ".join(words),),
                hypothesis=" ".join(written),
                actions=actions,
                delays=delays,
                contexts=delays,
                lags=[k] * 8,
                probabilities=[0.5] * 8,
                source_length=8,
                reference_length=8,
                word_delays=delays,
                costs=[0.01] * len(actions),
            )
        )
    return lines


SETTINGS = {
    "wait-k": {"k=1": (1, 0.5), "k=3": (3, 0.3), "k=5": (5, 0.1)},
    "single": {"rho1=0.2,rho10=0": (1, 0.4), "rho1=1,rho10=0": (5, 0.02)},
    "top-3": {"rho1=0.2,rho10=0": (7, 0.3), "rho1=1,rho10=0": (8, 0.3)},
    "full": {"greedy": (8, 0.0)},
}
FACTS = {
    "set": "toy",
    "test": "made-up",
    "sentences": 24,
    "encoder": "causal",
    "full_encoder": "prefix",
    "dev_scores": {"1": {"1": 10.0, "3": 11.0}, "2": {"1": 12.0, "3": 13.0}},
    "settings": {method: list(rows) for method, rows in SETTINGS.items()},
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "experiment.json").write_text(json.dumps(FACTS))
    for method, rows in SETTINGS.items():
        for name, (k, errors) in rows.items():
            write_log(log_path(tmp_path, method, name), corpus(k, errors))
    return tmp_path


def test_the_report_says_and_shows_what_the_logs_hold(folder):
    outcome = CliRunner().invoke(app, ["report", str(folder)])
    assert outcome.exit_code == 0, outcome.output
    assert "single over wait-k by" in outcome.output
    assert "top-3 and wait-k have no latency in common" in outcome.output
    report = folder / "report"
    text = (report / "README.md").read_text()
    assert "Encoder: causal; full-sentence baseline: prefix" in text
    assert "## wait-k (encoder: causal)" in text
    assert "## full (encoder: prefix)" in text
    assert "8 of 8 settings" in text
    assert "| wait-k, k=3 | " in text.split("## Time per token")[1]
    names = {"curves.svg", "curves.png", "grid.svg", "grid.png", "examples.html", "scores.csv", "equal_al.csv"}
    assert names <= {path.name for path in report.iterdir()}
    assert len(list(report.glob("example-*.svg"))) == 6
    rows = list(csv.DictReader((report / "scores.csv").open()))
    assert [row["setting"] for row in rows if row["method"] == "wait-k"] == ["k=1", "k=3", "k=5"]
    assert float(rows[1]["al"]) == pytest.approx(3.0)


@pytest.fixture
def without_pictures(monkeypatch):
    """They take most of the time."""
    monkeypatch.setattr("hf_simultaneous.experiments._draw", lambda *_: None)
    monkeypatch.setattr("hf_simultaneous.experiments._write_examples", lambda *_: [])


@pytest.mark.usefixtures("without_pictures")
def test_a_causal_baseline_is_called_an_easy_rival(folder):
    (folder / "experiment.json").write_text(json.dumps({**FACTS, "full_encoder": "causal", "dev_scores": None}))
    write_report(folder)
    assert "easy rival" in (folder / "report" / "README.md").read_text()


def test_scores_are_kept_until_the_log_changes(folder):
    log = log_path(folder, "wait-k", "k=1")
    first = scored(log)
    kept = log.with_suffix(".scores.json")
    assert scored(log) == first == json.loads(kept.read_text())["scores"]
    assert resampled(log) == resampled(log) == resample(read_log(log))
    before = resampled(log)
    write_log(log, corpus(1, 0.0))
    assert scored(log)["bleu"] > first["bleu"]
    assert resampled(log).bleu > before.bleu


@pytest.mark.usefixtures("without_pictures")
def test_the_second_report_is_the_first_again(folder):
    write_report(folder)
    before = {path.name: path.read_text() for path in (folder / "report").iterdir()}
    write_report(folder)
    assert {path.name: path.read_text() for path in (folder / "report").iterdir()} == before


@pytest.mark.usefixtures("without_pictures")
def test_part_of_an_experiment_is_reported_as_such(folder):
    for method in ("wait-k", "top-3", "full"):
        for log in (folder / "runs" / method).iterdir():
            log.unlink()
    assert write_report(folder).startswith("report: ")
    assert "2 of 8 settings" in (folder / "report" / "README.md").read_text()


def test_a_folder_without_an_experiment_or_logs_is_refused(tmp_path, folder):
    outcome = CliRunner().invoke(app, ["report", str(folder / "runs")])
    assert outcome.exit_code == 2
    assert "holds no experiment" in outcome.output
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "experiment.json").write_text(json.dumps(FACTS))
    with pytest.raises(ValueError, match="has no logs yet"):
        load_experiment(empty)
    whole = log_path(folder, "wait-k", "k=3")
    whole.write_text(whole.read_text()[:-9])
    with pytest.raises(ValueError, match="line 24 is no JSON"):
        write_report(folder)


def test_equal_latency_is_a_straight_line_between_settings():
    base = curve([resample(lines, QUICK) for lines in (corpus(1, 0.5), corpus(3, 0.3), corpus(5, 0.1))])
    better = curve([resample(lines, QUICK) for lines in (corpus(1, 0.3), corpus(5, 0.0))])
    (row,) = compare_at_equal_al(base, better, [2.0], QUICK)
    assert row.first == pytest.approx((base.bleu[0] + base.bleu[1]) / 2)
    assert row.second == pytest.approx(better.bleu[0] + (better.bleu[1] - better.bleu[0]) / 4)
    assert row.low <= row.difference <= row.high
    assert row.low > 0
    assert [one.al for one in compare_at_equal_al(base, better, None, QUICK)] == pytest.approx([1.0, 3.0, 5.0])
    assert all(one.difference == one.low == one.high == 0 for one in compare_at_equal_al(base, base, None, QUICK))
    assert "bs:1000" in signature()


def test_curves_of_one_corpus_draw_the_same_sentences():
    first, second = (resample(corpus(1, 0.5), QUICK) for _ in range(2))
    assert np.array_equal(first.bleu_samples, second.bleu_samples)
    with pytest.raises(ValueError, match=r"settings of \[3, 24\] sentences"):
        curve([resample(lines, QUICK) for lines in (corpus(1, 0.5), corpus(1, 0.5, count=3))])
