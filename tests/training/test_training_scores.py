"""Scores during and after training are those of `hf-simultaneous evaluate`, to the digit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hf_simultaneous.cli import app
from hf_simultaneous.schedule import FULL


@pytest.mark.parametrize("k", [3, FULL])
def test_a_dev_score_on_a_card_is_what_evaluate_prints(
    settings: dict[str, Any], train: Callable[..., int], text: Path, tmp_path: Path, k: int | str
) -> None:
    settings["training"]["score_every"] = 5
    folder = tmp_path / "run"
    assert train(settings, k, folder, "--max-steps", "10") == 0
    policy = ["full"] if k == FULL else ["wait-k", "--k", str(k)]
    files = ["--source", str(text / "dev.de"), "--reference", str(text / "dev.en")]
    out = tmp_path / "out"
    command = ["evaluate", *files, "--model", str(folder), "--output", str(out)]
    outcome = CliRunner().invoke(app, [*command, "--policy", *policy])
    assert outcome.exit_code == 0, outcome.output
    printed = json.loads((out / "scores.json").read_text())
    facts = json.loads((folder / "training.json").read_text())
    name = FULL if k == FULL else f"wait-{k}"
    kept = facts["scores"]["dev"][name]
    assert kept["bleu"] > 0  # or nothing is compared; so early, sentences run to the length limit
    for score in ("bleu", "chrf", "al", "laal", "length_ratio", "sentences"):
        assert kept[score] == printed[score]
    for score in ("bleu", "al"):
        assert kept["signatures"][score] == printed["signatures"][score]
        digits = f"{printed[score]:.4f}"
        assert digits in outcome.output
    looked = {entry["step"]: entry for entry in facts["history"]}[facts["best_step"]]
    assert (looked[f"bleu_{name}"], looked[f"al_{name}"]) == (kept["bleu"], kept["al"])
    card = (folder / "README.md").read_text()
    numbers = (f"{printed['bleu']:.2f}", f"{printed['chrf']:.2f}", f"{printed['al']:.3f}")
    assert f"| dev | {name} | {' | '.join(numbers)} |" in card
