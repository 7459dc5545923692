"""What SimulEval and OmniSTEval compute from our `instances.log` is what we compute from our own
log, in words."""

import csv
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hf_simultaneous.evaluation.logs import LoggedSentence, write_instances
from hf_simultaneous.evaluation.scores import Scoring, score
from tests.corpora import corpus


ROOT = Path(__file__).resolve().parents[2]
SIMULEVAL_PYTHON = ROOT / ".venv-simuleval" / "bin" / "python"

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        not SIMULEVAL_PYTHON.exists(), reason="no .venv-simuleval: run `make simuleval` first"
    ),
]


def longer_references(lines: list[LoggedSentence]) -> list[LoggedSentence]:
    """Where hypothesis and reference differ in length, so do the variants of every metric."""
    return [
        replace(line, references=(f"{line.reference} and more",), reference_length=10)
        for line in lines
    ]


LOGS = pytest.mark.parametrize(
    "lines", [corpus(1, 0.2), corpus(4, 0.0), longer_references(corpus(2, 0.1))]
)


@LOGS
def test_simuleval_reads_our_log_and_agrees(tmp_path, lines):
    write_instances(tmp_path / "instances.log", lines)
    command = [
        SIMULEVAL_PYTHON,
        "-I",
        Path(__file__).with_name("simuleval_log.py"),
        tmp_path / "instances.log",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    theirs, ours = json.loads(done.stdout), score(lines, Scoring(bootstrap=None))
    for name in ("AL", "LAAL", "AP", "DAL"):
        assert theirs[name] == pytest.approx(ours[f"{name.lower()}_words"]), name
    assert theirs["BLEU"] == pytest.approx(ours["bleu"])


@LOGS
def test_omnisteval_reads_our_log_and_agrees(tmp_path, lines):
    write_instances(tmp_path / "instances.log", lines)
    (tmp_path / "references").write_text("".join(f"{line.reference}\n" for line in lines))
    files = [
        "--hypothesis_file",
        tmp_path / "instances.log",
        "--ref_sentences_file",
        tmp_path / "references",
    ]
    command = [SIMULEVAL_PYTHON, "-I", "-m", "omnisteval.cli", "shortform", "--word_level", *files]
    done = subprocess.run(
        [*map(str, command), "--output_folder", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "out" / "scores.tsv") as file:
        theirs = {row["metric"]: row["value"] for row in csv.DictReader(file, delimiter="\t")}
    ours = score(lines, Scoring(bootstrap=None))
    for name in ("AL", "LAAL", "AP", "DAL"):  # they print four places
        assert float(theirs[f"{name} (CU)"]) == pytest.approx(
            ours[f"{name.lower()}_words"], abs=6e-5
        ), name
    assert float(theirs["BLEU"]) == pytest.approx(ours["bleu"], abs=6e-5)
    assert float(theirs["chrF"]) == pytest.approx(ours["chrf"], abs=6e-5)
