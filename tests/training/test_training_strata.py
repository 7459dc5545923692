"""Sentences are sorted by word order, and each stratum is an experiment of its own."""

import json
from pathlib import Path

import pytest

from hf_simultaneous.evaluation.anticipation import read_alignments
from hf_simultaneous.evaluation.logs import read_log, write_log
from hf_simultaneous.evaluation.report import load_experiment, log_path
from tests.corpora import FACTS, SETTINGS, corpus
from training.strata import is_late, main


@pytest.mark.parametrize(
    ("source", "reference", "links", "late"),
    [
        ("ich habe ihn gesehen .", "i saw him there .", "0-0 1-1 3-1 2-2", False),
        ("er hat das Haus gestern gebaut.", "he built the house yesterday.", "5-1 3-3", True),
        ("er hat das Haus gestern gebaut .", "he built the house yesterday .", "6-5 5-1", True),
        ("er baut das Haus", "he builds the house", "0-0 1-1 2-2 3-3", False),
        ("er baut das Haus", "he builds the house", "", False),
    ],
)
def test_a_sentence_is_late_if_its_last_word_is_needed_early(
    source, reference, links, late, tmp_path
):
    (tmp_path / "one.wa").write_text(links + "\n")
    (alignment,) = read_alignments(tmp_path / "one.wa")
    assert is_late(source, reference, alignment, words=3) == late


@pytest.fixture
def options(tmp_path: Path) -> dict[str, str]:
    """An experiment of 24 sentences of eight words, every third of which needs its last word
    first."""
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "experiment.json").write_text(json.dumps(FACTS))
    for method, rows in SETTINGS.items():
        for name, (k, errors) in rows.items():
            write_log(log_path(folder, method, name), corpus(k, errors))
    (tmp_path / "a.wa").write_text("7-0 0-7\n0-0 7-7\n0-0 7-7\n" * 8)
    places = {"experiment": folder, "alignments": tmp_path / "a.wa", "output": tmp_path / "strata"}
    return {name: str(place) for name, place in places.items()}


def run(options: dict[str, str], **changes: str) -> int:
    given = {**options, **changes}
    return main([part for name, value in given.items() for part in (f"--{name}", value)])


def test_each_stratum_holds_its_sentences_of_every_log(options, capsys):
    assert run(options) == 0
    assert capsys.readouterr().out == "late: 8 sentences, others: 16 sentences\n"
    for name, places in {
        "late": range(0, 24, 3),
        "others": [n for n in range(24) if n % 3],
    }.items():
        stratum = load_experiment(Path(options["output"]) / name)
        whole = load_experiment(options["experiment"])
        assert stratum.facts["sentences"] == len(places)
        for part, all_of_it in zip(stratum.runs, whole.runs, strict=True):
            lines = read_log(all_of_it.log)
            assert [line.hypothesis for line in read_log(part.log)] == [
                lines[place].hypothesis for place in places
            ]
        assert (stratum.folder / "report" / "README.md").is_file()


def test_what_cannot_be_sorted_is_refused(options, tmp_path, capsys):
    (tmp_path / "short.wa").write_text("0-0\n")
    assert run(options, alignments=str(tmp_path / "short.wa")) == 2
    assert "has 1 lines, and the experiment 24 sentences" in capsys.readouterr().err
    assert run(options, words="8") == 2
    assert "no two sentences are 'late'; choose another --words" in capsys.readouterr().err
    assert run(options, words="0") == 2
    assert "--words must be at least 1; got 0" in capsys.readouterr().err
    assert not Path(options["output"]).exists()
