"""A page of results is filled from logs, again and again the same, and its prose is left alone."""

import json
import re
from pathlib import Path

import pytest

from hf_simultaneous.evaluation.logs import write_log
from hf_simultaneous.evaluation.report import log_path, write_report
from tests.corpora import FACTS, SETTINGS, corpus
from training.results import PARTS, fill, main


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "toy" / "experiment"
    folder.mkdir(parents=True)
    (folder / "experiment.json").write_text(json.dumps(FACTS))
    for method, rows in SETTINGS.items():
        for name, (k, errors) in rows.items():
            write_log(log_path(folder, method, name), corpus(k, errors))
    model = {"config": {"model": {}}, "init_from": None, "seed": 1, "steps": 5, "seconds": 60}
    score = {"bleu": 12.34, "al": 3.0}
    (folder.parent / "wait-3").mkdir()
    (folder.parent / "wait-3" / "training.json").write_text(
        json.dumps({**model, "scores": {"dev": {"wait-3": score}}})
    )
    (folder.parent / "set").mkdir()
    (folder.parent / "set" / "training.json").write_text(json.dumps({**model, "steps": 99}))
    (folder.parent / "set" / "adaptive_config.json").touch()
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    return page


def marked(*parts: str) -> str:
    folders = {part: "runs/toy" if part == "models" else "runs/toy/experiment" for part in parts}
    return "Before.\n\n" + "".join(
        f"<!-- {folders[p]}: {p} -->\nold\n<!-- end -->\n\nSaid of {p}.\n" for p in parts
    )


def test_every_part_is_filled_and_prose_stays(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_report("runs/toy/experiment")
    page.write_text(marked(*PARTS))
    assert main([str(page)]) == 0
    assert f"{len(PARTS)} parts" in capsys.readouterr().out
    text = page.read_text()
    assert "\nold\n" not in text
    assert all(f"Said of {part}." in text for part in PARTS)
    assert "| wait-3 | causal | random weights | 1 | 5 | 1 min | 12.3 / 3.0 |  |" in text
    assert " 99 " not in text
    assert "| single | +1.17, at most +1.90 | +" in text
    assert "| top-3 | +1.96, at most +2.64 | no latency in common with wait-k |" in text
    assert "| wait-2 | **12.0** | **13.0** |" in text
    assert (page.parent / "figures" / "toy-curves.svg").is_file()
    fill(page)
    assert page.read_text() == text


def test_a_method_of_one_setting_has_no_mean(page: Path) -> None:
    """No AL of wait-k is its own, so there is nothing to take the mean of."""
    folder = Path("runs/toy/experiment")
    settings = {**FACTS["settings"], "mine.policy": ["own"]}
    (folder / "experiment.json").write_text(json.dumps({**FACTS, "settings": settings}))
    write_log(log_path(folder, "mine.policy", "own"), corpus(2, 0.1))
    page.write_text(marked("findings"))
    assert main([str(page)]) == 0
    (row,) = [line for line in page.read_text().splitlines() if line.startswith("| mine.policy |")]
    assert " | – | above at 1, below at 0 of 1 |" in row


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "marks nothing to fill in"),
        (marked("weather"), "parts are setup, models.*got 'weather'"),
        (marked("curves"), "curves.svg is missing; make the report"),
        (marked("models").replace("runs/toy", "runs/toy/experiment"), "holds no finished model"),
        (marked("setup").replace("runs/toy", "runs/other"), "holds no experiment"),
    ],
)
def test_a_page_that_cannot_be_filled_is_left_as_it_was(
    page: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page.write_text(text)
    assert main([str(page)]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert page.read_text() == text


def test_a_set_without_a_dev_grid_is_named(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = Path("runs/toy/experiment/experiment.json")
    facts.write_text(json.dumps({**FACTS, "dev_scores": None}))
    page.write_text(marked("best-models"))
    assert main([str(page)]) == 2
    assert "its set has no dev grid" in capsys.readouterr().err


def test_parts_of_other_folders_stay_where_one_is_named(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = marked("equal-al").replace("runs/toy", "runs/other").replace("old", "older")
    page.write_text(marked("setup") + elsewhere)
    assert main([str(page), "--only", "runs/toy"]) == 0
    assert elsewhere in page.read_text()
    assert "\nold\n" not in page.read_text()
    assert main([str(page), "--only", "runs/to"]) == 2
    assert "marks nothing to fill in of runs/to;" in capsys.readouterr().err
