"""A set goes into the package whole, without its code, or not at all."""

import json
import random
from pathlib import Path

import pytest
import torch

from hf_simultaneous import AdaptiveWaitKGenerator, linear_thresholds
from tests.reference import random_model, word_tokenizer
from training import ship
from training.ship import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(4)
    models = {k: random_model(rng, 2, torch.float32) for k in (1, 3)}
    generator = AdaptiveWaitKGenerator(models, word_tokenizer(), linear_thresholds(0.8, 0.2, 1, 3))
    generator.save_pretrained(tmp_path / "set")
    (tmp_path / "set" / "README.md").write_text("a card")
    (tmp_path / "set" / "training.json").write_text('{"init_from": "/somewhere/else"}')
    return tmp_path / "set"


def test_what_is_shipped_translates_as_the_set_does(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "builtin"
    for _ in range(2):  # the second takes the place of the first
        assert main(["--set", str(folder), "--to", str(place)]) == 0
    source = [[5, 9, 14, 2]]
    before, after = (
        AdaptiveWaitKGenerator.from_pretrained(str(at)).generate(source) for at in (folder, place)
    )
    assert before.tolist() == after.tolist()
    assert {path.suffix for path in place.rglob("*") if path.is_file()} == {
        ".json",
        ".safetensors",
        ".md",
    }
    assert not (place / "training.json").exists()
    assert not {"auto_map", "custom_pipelines"} & set(
        json.loads((place / "config.json").read_text())
    )


def test_a_set_that_cannot_be_shipped_leaves_the_old_one(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = tmp_path / "builtin"
    place.mkdir()
    (place / "adaptive_config.json").write_text("{}")
    (place / "old").write_text("old")
    monkeypatch.setattr(ship, "LIMIT", 10)
    assert main(["--set", str(folder), "--to", str(place)]) == 2
    assert "a package takes at most 10" in capsys.readouterr().err
    monkeypatch.undo()
    (folder / "wait-1" / "config.json").unlink()
    assert main(["--set", str(folder), "--to", str(place)]) == 2
    assert "config.json is missing" in capsys.readouterr().err
    (folder / "README.md").unlink()
    assert main(["--set", str(folder), "--to", str(place)]) == 2
    assert "has no card; write one with hf-simultaneous card" in capsys.readouterr().err
    assert (place / "old").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["builtin", "set"]


def test_what_is_no_set_is_not_removed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert main(["--set", str(folder), "--to", str(home)]) == 0, "it was empty"
    (home / "adaptive_config.json").unlink()
    assert main(["--set", str(folder), "--to", str(home)]) == 2
    assert "holds something else than a set, which would be lost" in capsys.readouterr().err
    assert (home / "README.md").exists()
