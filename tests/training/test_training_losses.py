import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from training.losses import r_drop


def test_r_drop_is_the_divergence_of_both_ways() -> None:
    first, second = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0)).double()
    labels = torch.ones(3, 4, dtype=torch.long)
    labels[1, 2:] = -100
    expected = 0.0
    for row, column in (labels != -100).nonzero().tolist():
        one, two = (side[row, column].softmax(-1) for side in (first, second))
        expected += 0.5 * float(((one - two) * (one / two).log()).sum())
    found = r_drop(torch.cat([first, second]), torch.cat([labels, labels]))
    assert found.item() == pytest.approx(expected, rel=1e-5)
    assert r_drop(torch.cat([first, first]), torch.cat([labels, labels])).item() == 0


@pytest.mark.parametrize("k", [2, "multi"])
def test_r_drop_without_dropout_changes_nothing(
    settings: dict[str, Any], train: Callable[..., int], tmp_path: Path, k: Any
) -> None:
    settings["model"] |= {"dropout": 0.0}
    losses = []
    for alpha in (None, 5.0):
        settings["training"] |= {"r_drop": alpha, "max_steps": 5}
        assert train(settings, k, tmp_path / f"{alpha}") == 0
        history = json.loads((tmp_path / f"{alpha}" / "training.json").read_text())["history"]
        losses.append(history[0]["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_r_drop_with_dropout_is_another_training(
    settings: dict[str, Any], train: Callable[..., int], tmp_path: Path
) -> None:
    settings["model"] |= {"dropout": 0.4}
    for alpha in (None, 20.0):
        settings["training"] |= {"r_drop": alpha, "max_steps": 5}
        assert train(settings, 2, tmp_path / f"{alpha}") == 0
    plain, steady = (load_file(tmp_path / name / "model.safetensors") for name in ("None", "20.0"))
    assert not torch.equal(plain["model.shared.weight"], steady["model.shared.weight"])


def test_a_frozen_encoder_stays_as_it_is(
    settings: dict[str, Any], train: Callable[..., int], tmp_path: Path
) -> None:
    settings["finetune"] |= {"freeze_encoder": True}
    base, tuned = tmp_path / "base", tmp_path / "tuned"
    assert train(settings, 2, base, "--max-steps", "1") == 0
    assert train(settings, 1, tuned, "--init-from", str(base)) == 0
    before, after = (load_file(folder / "model.safetensors") for folder in (base, tuned))
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert all(name.startswith("model.decoder.") for name in moved)
