"""The report from made-up logs: tables, claims at equal latency, and what is said when something is
missing."""

import csv
import json
from dataclasses import replace
from shutil import copytree

import pytest
from typer.testing import CliRunner

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.cli import app
from hf_simultaneous.evaluation.fingerprints import fingerprint
from hf_simultaneous.evaluation.logs import read_log, write_log
from hf_simultaneous.evaluation.report import (
    load_experiment,
    log_path,
    resampled,
    scored,
    write_report,
)
from hf_simultaneous.evaluation.scores import score
from tests.corpora import FACTS, SETTINGS, corpus
from tests.tiny import tiny_model


@pytest.fixture(scope="module")
def saved(tokenizer, tmp_path_factory):
    """A set of two tiny models."""
    place = tmp_path_factory.mktemp("set")
    models = {k: tiny_model(seed=k) for k in (1, 2)}
    AdaptiveWaitKGenerator(models, tokenizer).save_pretrained(place)
    return place


def with_entry(path, **entries):
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


NAMED = {"members": {"1": {"repo": "me/it", "revision": "a"}, "2": {"folder": "."}}}
CHANGES = {
    "an option of a member": lambda place: with_entry(place / "wait-1" / "config.json", catchup=3),
    "the tokenizer": lambda place: with_entry(place / "tokenizer.json", version="2"),
    "a member elsewhere": lambda place: with_entry(place / "adaptive_config.json", **NAMED),
    "the precision": lambda place: with_entry(place / "adaptive_config.json", quantize="int8"),
}
NO_CHANGES = {
    "nothing": lambda place: None,
    "facts of a run": lambda place: (place / "wait-1" / "training.json").write_text("{}"),
    "a grid that is not finished": lambda place: (place / "dev_grid.json").write_text("{}"),
    "a card": lambda place: (place / "README.md").write_text("It."),
}


@pytest.mark.parametrize("change", {**CHANGES, **NO_CHANGES})
def test_a_fingerprint_tells_what_is_decoded_otherwise(saved, tmp_path, change):
    copytree(saved, tmp_path / "set")
    {**CHANGES, **NO_CHANGES}[change](tmp_path / "set")
    same = fingerprint(tmp_path / "set", ["a"]) == fingerprint(saved, ["a"])
    assert same == (change in NO_CHANGES)
    assert fingerprint(saved, ["a"]) != fingerprint(saved, ["b"])


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
    times = text.split("## Time per token")[1].split("##")[0]
    assert [row.split(" | ")[0] for row in times.splitlines() if " ms " in row] == [
        "| wait-k, k=3",
        "| full, greedy",
    ]
    names = {
        "curves.svg",
        "curves.png",
        "grid.svg",
        "grid.png",
        "examples.html",
        "scores.csv",
        "equal_al.csv",
    }
    assert names <= {path.name for path in report.iterdir()}
    assert len(list(report.glob("example-*.svg"))) == 6
    rows = list(csv.DictReader((report / "scores.csv").open()))
    assert [row["setting"] for row in rows if row["method"] == "wait-k"] == ["k=1", "k=3", "k=5"]
    assert float(rows[1]["al"]) == pytest.approx(3.0)


@pytest.fixture
def without_pictures(monkeypatch):
    """They take most of the time."""
    monkeypatch.setattr("hf_simultaneous.evaluation.report._draw", lambda *_: None)
    monkeypatch.setattr("hf_simultaneous.evaluation.report._write_examples", lambda *_: [])


@pytest.mark.usefixtures("without_pictures")
def test_rows_that_were_decoded_otherwise_have_their_own_signature(folder):
    for method, rows in SETTINGS.items():
        how = "ends:read-on|tail:beam5" if method != "full" else "ends:read-on|tail:greedy"
        for name, (k, errors) in rows.items():
            lines = [replace(line, decoding=how) for line in corpus(k, errors)]
            write_log(log_path(folder, method, name), lines)
    write_report(folder)
    text = (folder / "report" / "README.md").read_text()
    (told,) = [line for line in text.splitlines() if line.startswith("The rows of full")]
    assert told.startswith("The rows of full, by the full-sentence model alone: `BLEU|nrefs:1")
    assert told.endswith("|ends:read-on|tail:greedy`")
    assert text.count("|ends:read-on|tail:beam5`") == 2, "BLEU and AL of all others"


@pytest.mark.usefixtures("without_pictures")
def test_rows_that_were_decoded_alike_share_their_signature(folder):
    write_report(folder)
    assert "The rows of full" not in (folder / "report" / "README.md").read_text()


@pytest.mark.usefixtures("without_pictures")
def test_a_causal_baseline_is_called_an_easy_rival(folder):
    (folder / "experiment.json").write_text(
        json.dumps({**FACTS, "full_encoder": "causal", "dev_scores": None})
    )
    write_report(folder)
    assert "easy rival" in (folder / "report" / "README.md").read_text()


def test_scores_are_kept_until_the_log_changes(folder):
    log = log_path(folder, "wait-k", "k=1")
    first = scored(log)
    kept = log.with_suffix(".scores.json")
    assert scored(log) == first == json.loads(kept.read_text())["scores"]
    assert resampled(log) == resampled(log) == score(read_log(log)).resampled
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
def test_all_times_are_shown_where_none_were_chosen(folder):
    facts = {name: value for name, value in FACTS.items() if name != "time_table"}
    (folder / "experiment.json").write_text(json.dumps(facts))
    write_report(folder)
    text = (folder / "report" / "README.md").read_text()
    assert text.split("## Time per token")[1].count(" ms ") == 8


@pytest.mark.usefixtures("without_pictures")
def test_part_of_an_experiment_is_reported_as_such(folder):
    for method in ("wait-k", "top-3", "full"):
        for log in (folder / "runs" / method).iterdir():
            log.unlink()
    few, report = write_report(folder).splitlines()
    assert few.startswith("Few sentences (24)")
    assert report.startswith("report: ")
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
    with pytest.raises(ValueError, match="line 24 is not JSON"):
        write_report(folder)


def test_scores_kept_without_their_resamples_are_made_again(folder):
    log = log_path(folder, "wait-k", "k=1")
    kept = log.with_suffix(".scores.json")
    scored(log)
    known = json.loads(kept.read_text())
    del known["resamples"]
    kept.write_text(json.dumps(known))
    assert scored(log) == known["scores"]
    assert "resamples" in json.loads(kept.read_text())


def test_a_single_sentence_is_not_resampled(tmp_path):
    write_log(tmp_path / "one.jsonl", corpus(1, 0.0, count=1))
    assert scored(tmp_path / "one.jsonl")["intervals"] == {}
    with pytest.raises(ValueError, match="has a single sentence, which cannot be resampled"):
        resampled(tmp_path / "one.jsonl")
