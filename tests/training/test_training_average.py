"""The mean of checkpoints: what it is, where it comes from, and what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator, DistributedType
from safetensors.torch import load_file
from transformers import AutoTokenizer

from hf_simultaneous import SimultaneousMTModel
from tests.training.small import run_training, small_settings
from training.average import RunningMean, main, mean_of
from training.checked import InputError


Settings = dict[str, Any]


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    settings = small_settings(text)
    settings["training"] |= {"evaluate_every": 2, "keep_checkpoints": 3, "max_steps": 6}
    assert run_training(folder, settings, 2, folder / "run") == 0
    return folder / "run"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A finished run with checkpoints at 2, 4 and 6, to do with as one likes."""
    return shutil.copytree(trained, tmp_path / "run")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_the_mean_is_taken_in_double_precision() -> None:
    parts = [{"w": torch.tensor([x], dtype=torch.float16)} for x in (2048.0, 1.0, 1.0, 2050.0)]
    mean = mean_of(parts)["w"]
    assert mean.dtype == torch.float16
    assert mean.item() == 1025.0  # in half precision 2048 + 1 is 2048
    with pytest.raises(InputError, match="checkpoints of different models have no mean: v is"):
        mean_of([{"w": torch.ones(1)}, {"v": torch.ones(1)}])


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("choice", [["--last", "2"], ["--steps", "6,4"]])
def test_the_last_checkpoints_become_a_folder_that_loads(
    run: Path, tmp_path: Path, finished: bool, choice: list[str]
) -> None:
    if not finished:
        for file in run.iterdir():
            if file.is_file() and file.name != "run.json":
                file.unlink()
    before = sorted(run.rglob("*"))
    folder = tmp_path / "mean"
    assert main(["--run", str(run), "--output", str(folder), *choice]) == 0
    assert sorted(run.rglob("*")) == before
    made = SimultaneousMTModel.from_pretrained(folder)
    assert made.config.wait_k == 2
    four, six = (weights(run / "checkpoints" / f"step-{step:08d}") for step in (4, 6))
    for name, value in weights(folder).items():
        expected = ((four[name].double() + six[name].double()) / 2).float()
        assert torch.equal(value, expected), name
    assert len(AutoTokenizer.from_pretrained(folder)) == made.config.vocab_size
    facts = json.loads((folder / "training.json").read_text())
    assert (facts["averaged"], facts["scores"], facts["k"]) == ([4, 6], {}, 2)
    assert (folder / "README.md").is_file()


def test_what_cannot_be_averaged_is_said(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*arguments: str, folder: Path = run, output: Path = tmp_path / "mean") -> str:
        assert main(["--run", str(folder), "--output", str(output), *arguments]) == 2
        return capsys.readouterr().err

    assert "--last must be at least 1; got 0" in said("--last", "0")
    config = run / "config.json"
    own = config.read_text()
    config.write_text('{"model_type": "t5"}')
    assert "trains a model of the family 't5'; only those of simultaneous-mt and" in said(
        "--last", "2"
    )
    config.write_text(own)
    assert "does not hold 4 checkpoints; the steps there are 2, 4, 6" in said("--last", "4")
    assert "does not hold step 5; the steps there are 2, 4, 6" in said("--steps", "4,5")
    assert "--steps lists numbers, such as 3800,4000; got 'x'" in said("--steps", "x")
    assert "is not the folder of a run: it holds no run.json" in said(folder=tmp_path / "none")
    assert "is not empty; give another folder" in said(output=run)
    damaged = run / "checkpoints" / "step-00000004" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert "step-00000004 cannot be used: model.safetensors has changed" in said("--last", "2")
    manifest = run / "checkpoints" / "step-00000004" / "manifest.json"
    listed = json.loads(manifest.read_text())
    del listed["model.safetensors"]
    manifest.write_text(json.dumps(listed))
    assert "cannot be used: manifest.json does not list its files" in said("--last", "2")
    damaged.unlink()
    assert "cannot be used: model.safetensors is missing" in said("--last", "2")


def facts(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "training.json").read_text())


def same(first: Path, second: Path) -> bool:
    one, other = weights(first), weights(second)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_may_end_with_the_mean_of_its_last_looks(
    settings: Settings, train: Callable[..., int], tmp_path: Path
) -> None:
    """The mean is the command's, and an interrupted run ends with the same bits."""
    settings["training"] |= {
        "average": 3,
        "keep_checkpoints": 1,
        "checkpoint_every": 1,
        "evaluate_every": 2,
        "learning_rate": 0.1,  # it jumps about, so that the mean is the best
        "max_steps": 9,
    }
    assert train(settings, 2, tmp_path / "whole") == 0
    steps = sorted(path.name for path in (tmp_path / "whole" / "checkpoints").glob("step-*"))
    assert {"step-00000004", "step-00000006", "step-00000008", "step-00000009"} <= set(steps)
    found = facts(tmp_path / "whole")
    assert found["averaged"] == [4, 6, 8]
    assert found["dev_loss"] < min(entry["dev_loss"] for entry in found["history"])
    command = ["--run", str(tmp_path / "whole"), "--output", str(tmp_path / "mean")]
    assert main([*command, "--steps", "4,6,8"]) == 0
    assert same(tmp_path / "whole", tmp_path / "mean")
    assert train(settings, 2, tmp_path / "parts", "--max-steps", "5") == 0
    assert facts(tmp_path / "parts")["averaged"] in ([], [2, 4])
    assert train(settings, 2, tmp_path / "parts", "--resume") == 0
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert "steps | 9, the mean of 3" in (tmp_path / "whole" / "README.md").read_text()


def test_a_run_that_still_gets_better_does_not_end_with_a_mean(
    settings: Settings, train: Callable[..., int], tmp_path: Path
) -> None:
    settings["training"] |= {"average": 2, "evaluate_every": 2, "max_steps": 4}
    assert train(settings, 2, tmp_path / "run") == 0
    found = facts(tmp_path / "run")
    assert (found["averaged"], found["ema"], found["best_step"]) == ([], None, 4)
    assert found["dev_loss"] == found["history"][-1]["dev_loss"]
    last = weights(tmp_path / "run" / "checkpoints" / "step-00000004")
    assert all(torch.equal(last[name], value) for name, value in weights(tmp_path / "run").items())


def test_an_exponential_mean_survives_an_interruption(
    settings: Settings, train: Callable[..., int], tmp_path: Path
) -> None:
    settings["training"] |= {"ema": 0.5, "learning_rate": 1.0, "warmup_steps": 1}
    assert train(settings, 2, tmp_path / "whole") == 0
    assert facts(tmp_path / "whole")["ema"] == 0.5
    assert train(settings, 2, tmp_path / "parts", "--max-steps", "4") == 0
    assert train(settings, 2, tmp_path / "parts", "--resume") == 0
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert facts(tmp_path / "whole")["dev_loss"] == facts(tmp_path / "parts")["dev_loss"]


def test_the_exponential_mean() -> None:
    value = {"w": torch.zeros(1, dtype=torch.float64)}
    mean = RunningMean(value, 0.5)
    expected = 0.0
    for step in (1, 2, 30):
        value["w"] += step
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value["w"].item()
        mean.update(value, step)
        assert mean.weights["w"].item() == pytest.approx(expected)


def test_weights_cut_up_over_processes_have_no_running_mean(
    settings: Settings,
    train: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = property(lambda _: DistributedType.FSDP)
    settings["training"]["ema"] = 0.9
    monkeypatch.setattr(Accelerator, "distributed_type", kind)
    monkeypatch.setattr(Accelerator, "prepare", lambda _, *given: given)
    assert train(settings, 2, tmp_path / "run") == 2
    assert "training.ema needs all weights on each process" in capsys.readouterr().err
