"""Whole runs of the command, small ones: learning, going on, starting from another model, and what
stops a run."""

import json
import random
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoTokenizer, MarianConfig, MarianMTModel

from hf_simultaneous import AdaptiveWaitKGenerator, SimultaneousMTModel
from tests.forked import Forked
from tests.guard import PATIENCE
from training import finish, train_wait_k
from training.checkpoints import Checkpoints
from training.options import TrainOptions
from training.toy import toy_pairs
from training.trainer import learning_rate


Train = Callable[..., int]
Settings = dict[str, Any]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(first: Path, second: Path) -> bool:
    one, other = weights(first), weights(second)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def facts(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "training.json").read_text())


def changed(settings: Settings, section: str, **values: Any) -> Settings:
    return {**settings, section: {**settings[section], **values}}


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("inverse_sqrt", {1: 0.1, 5: 0.5, 10: 1.0, 40: 0.5, 90: 1 / 3}),
        ("cosine", {1: 0.1, 5: 0.5, 10: 1.0, 35: 0.5, 60: 0.0, 99: 0.0}),
    ],
)
def test_the_learning_rate(schedule: Any, expected: dict[int, float]) -> None:
    options = TrainOptions(max_steps=60, learning_rate=1.0, warmup_steps=10, schedule=schedule)
    assert {step: learning_rate(step, options) for step in expected} == pytest.approx(expected)


@pytest.fixture(scope="module")
def toy_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Wait-3 on the toy task, and the same with the translations dealt out at random."""
    folder = tmp_path_factory.mktemp("control")
    pairs = toy_pairs(2040, seed=5)
    targets = [pair.target for pair in pairs]
    shuffled = random.Random(0).sample(targets[:2000], 2000)
    for name, lines in {
        "train.de": [pair.source for pair in pairs[:2000]],
        "train.en": targets[:2000],
        "shuffled.en": shuffled,
        "dev.de": [pair.source for pair in pairs[2000:]],
        "dev.en": targets[2000:],
    }.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = yaml.safe_load(Path("training/configs/toy.yaml").read_text())
    settings["training"] |= {
        "max_steps": 80,
        "evaluate_every": 40,
        "warmup_steps": 30,
        "batch_tokens": 1200,
        "batches_per_step": 1,
    }
    found = {}
    for name in ("train", "shuffled"):
        dev = [str(folder / "dev.de"), str(folder / "dev.en")]
        train = [str(folder / "train.de"), str(folder / f"{name}.en")]
        settings["data"] = {
            "train": train,
            "dev": dev,
            "cache": str(folder / "cache"),
            "max_tokens": 64,
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))
        command = [
            "--config",
            str(folder / "config.yaml"),
            "--k",
            "3",
            "--output",
            str(folder / name),
        ]
        assert train_wait_k.main(command) == 0
        found[name] = facts(folder / name)
    return found


def test_the_loss_falls(toy_runs: dict[str, Any]) -> None:
    history = toy_runs["train"]["history"]
    assert history[-1]["loss"] < 0.6 * history[0]["loss"]
    assert history[-1]["dev_loss"] < 0.5 * history[0]["dev_loss"]


def test_it_learns_more_than_from_shuffled_translations(toy_runs: dict[str, Any]) -> None:
    real, control = (
        toy_runs[name]["scores"]["dev"]["wait-3"]["bleu"] for name in ("train", "shuffled")
    )
    assert real > control + 20
    assert toy_runs["train"]["dev_loss"] < toy_runs["shuffled"]["dev_loss"] - 0.5


@pytest.mark.parametrize("k", [2, "multi"])
def test_resuming_gives_the_same_weights_to_the_bit(
    settings: Settings, train: Train, tmp_path: Path, k: Any
) -> None:
    settings = changed(settings, "training", checkpoint_every=3)
    assert train(settings, k, tmp_path / "whole") == 0
    assert (
        train(settings, k, tmp_path / "parts", "--max-steps", "4") == 0
    )  # between two checkpoints, within an epoch
    assert not same(tmp_path / "whole", tmp_path / "parts")
    assert train(settings, k, tmp_path / "parts", "--resume", "--max-steps", "7") == 0
    assert train(settings, k, tmp_path / "parts", "--resume") == 0
    last = "checkpoints/step-00000012"
    assert same(tmp_path / "whole" / last, tmp_path / "parts" / last)
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert facts(tmp_path / "whole")["history"] == facts(tmp_path / "parts")["history"]
    progress = Checkpoints(tmp_path / "parts" / "checkpoints").progress(12)
    assert progress.epoch > 0
    assert progress.step_in_epoch > 0


def test_a_seed_is_a_run(settings: Settings, train: Train, tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert train(settings, 2, tmp_path / name, "--seed", seed, "--max-steps", "2") == 0
    assert same(tmp_path / "a", tmp_path / "b")
    assert not same(tmp_path / "a", tmp_path / "c")


STOPS_ITSELF = """
import os, signal, sys
from training import train_wait_k
from training.checkpoints import Checkpoints

begin = Checkpoints.begin

def begin_or_stop(self, step):
    beside = begin(self, step)
    if step == 6:  # halfway through writing the third
        os.kill(os.getpid(), signal.SIGSTOP)
    return beside

Checkpoints.begin = begin_or_stop
sys.exit(train_wait_k.main())
"""


@pytest.mark.system
def test_a_killed_run_goes_on(
    settings: Settings, train: Train, config_file: Callable[[Settings], str], tmp_path: Path
) -> None:
    settings = changed(settings, "training", checkpoint_every=2, max_steps=30, evaluate_every=15)
    killed = tmp_path / "killed"
    options = ("--config", config_file(settings), "--k", "2", "--output", killed)
    process = Forked(STOPS_ITSELF, *options)
    status = Path(f"/proc/{process.pid}/status")
    deadline = time.monotonic() + PATIENCE
    while "State:\tT (stopped)" not in status.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert train(settings, 2, killed, "--resume") == 2  # another process is at it
    process.kill()
    process.wait()
    (killed / "checkpoints" / "step-00000029.tmp").mkdir()
    stopped_at = Checkpoints(killed / "checkpoints").steps()[-1]
    assert stopped_at == 4
    assert train(settings, 2, killed, "--resume") == 0
    assert train(settings, 2, tmp_path / "whole") == 0
    assert same(killed, tmp_path / "whole")


def test_a_damaged_checkpoint_is_passed_over(
    settings: Settings, train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert train(settings, 2, folder, "--max-steps", "10") == 0
    whole = weights(folder)
    damaged = folder / "checkpoints" / "step-00000010" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    (folder / "training.json").unlink()
    capsys.readouterr()
    assert train(settings, 2, folder, "--resume", "--max-steps", "10") == 0
    said = capsys.readouterr().out
    assert (
        "step-00000010 is damaged (model.safetensors has changed since it was written) and is not "
        "used" in said
    )
    assert "going on from step 5" in said
    assert all(torch.equal(whole[name], value) for name, value in weights(folder).items())


def test_early_stopping_keeps_the_best(settings: Settings, train: Train, tmp_path: Path) -> None:
    settings = changed(
        settings, "training", evaluate_every=1, patience=2, learning_rate=30.0, max_steps=30
    )
    assert train(settings, 2, tmp_path / "run") == 0
    found = facts(tmp_path / "run")
    losses = [entry["dev_loss"] for entry in found["history"]]
    assert found["stopped_early"]
    assert found["steps"] == found["best_step"] + 2 < 30
    assert found["dev_loss"] == min(losses)
    best = weights(tmp_path / "run" / "checkpoints" / f"step-{found['best_step']:08d}")
    assert torch.equal(
        best["model.shared.weight"], weights(tmp_path / "run")["model.shared.weight"]
    )


def test_a_finished_folder_loads(settings: Settings, train: Train, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = changed(settings, "training", score_every=5, score_sentences=3)
    assert train(settings, 3, folder, "--max-steps", "5") == 0
    model = SimultaneousMTModel.from_pretrained(folder)
    assert (model.config.wait_k, model.config.encoder_attention) == (3, "causal")
    assert (model.generation_config.eos_token_id, model.generation_config.max_length) == (2, 128)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    engine = AdaptiveWaitKGenerator.from_pretrained(str(folder))
    assert engine.generate(tokenizer(["das Kind hat"]).input_ids, max_new_tokens=3).shape[0] == 1
    entry = facts(folder)["history"][0]
    assert {"step", "loss", "dev_loss", "learning_rate", "bleu_wait-3", "al_wait-3"} == set(entry)
    card = (folder / "README.md").read_text()
    for fact in (
        "train.de",
        "400 of 400 pairs",
        "| seed | 1 |",
        "| steps | 5, best at 5",
        "| dev | wait-3 |",
        "tok:13a",
    ):
        assert fact in card
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["checkpoints"]


@pytest.mark.parametrize("scored", [True, False])
def test_a_test_set_is_scored_unless_it_is_kept_for_later(
    settings: Settings, train: Train, tmp_path: Path, scored: bool
) -> None:
    sides = []
    for suffix, line in (("de", "das Kind sieht den Hund ."), ("en", "the child sees the dog .")):
        (tmp_path / f"later.{suffix}").write_text(f"{line}\n", "utf-8")
        sides.append(str(tmp_path / f"later.{suffix}"))
    settings = changed(settings, "data", test=sides)
    settings = changed(settings, "training", score_test=scored)
    assert train(settings, 3, tmp_path / "run", "--max-steps", "1") == 0
    assert set(facts(tmp_path / "run")["scores"]) == ({"dev", "test"} if scored else {"dev"})


def test_starting_from_a_model_of_ours(settings: Settings, train: Train, tmp_path: Path) -> None:
    assert train(settings, "full", tmp_path / "full", "--max-steps", "2") == 0
    assert (
        train(
            settings, 1, tmp_path / "one", "--init-from", str(tmp_path / "full"), "--max-steps", "1"
        )
        == 0
    )
    base, tuned = weights(tmp_path / "full"), weights(tmp_path / "one")
    moved = max(float((base[name] - tuned[name]).abs().max()) for name in base)
    assert 0 < moved < 0.01  # one step away
    assert SimultaneousMTModel.from_pretrained(tmp_path / "one").config.wait_k == 1
    assert facts(tmp_path / "one")["config"]["training"]["max_steps"] == 4  # of `finetune`


def marian(folder: Path, **changes: Any) -> None:
    sizes = {
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
    }
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    ids = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0}
    MarianMTModel(MarianConfig(**{**sizes, **heads, **ids, **changes})).half().save_pretrained(
        folder
    )


@pytest.mark.parametrize("encoder", ["prefix", "causal"])
def test_starting_from_a_marian_model(
    settings: Settings, train: Train, tmp_path: Path, encoder: str
) -> None:
    marian(tmp_path / "marian", vocab_size=500, max_position_embeddings=128)
    settings = {**settings, "model": {"encoder_attention": encoder, "catchup": 6}}
    more = ("--init-from", str(tmp_path / "marian"), "--max-steps", "2")
    assert train(settings, 2, tmp_path / "run", *more) == 0
    model = SimultaneousMTModel.from_pretrained(tmp_path / "run")
    assert (model.config.encoder_attention, model.config.catchup, model.config.wait_k) == (
        encoder,
        6,
        2,
    )
    assert model.dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        (
            {"vocab_size": 300},
            {},
            "does not fit the model in .*marian .300 tokens, pad 0, eos 2.; put the",
        ),
        ({"vocab_size": 500, "eos_token_id": 7}, {}, "does not fit the model"),
        (
            {"vocab_size": 500},
            {"init_std": 0.9, "d_model": 64},
            "model.d_model is 64 in the config, but 32 in",
        ),
        (
            {"vocab_size": 500, "max_position_embeddings": 64},
            {},
            "max_tokens is 128, but the model has 64 positions",
        ),
    ],
)
def test_a_model_that_does_not_fit(
    settings: Settings,
    train: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    more: dict[str, Any],
    message: str,
) -> None:
    marian(tmp_path / "marian", **change)
    assert (
        train(
            {**settings, "model": more},
            2,
            tmp_path / "run",
            "--init-from",
            str(tmp_path / "marian"),
        )
        == 2
    )
    assert re.search(message, capsys.readouterr().err)


def test_no_model_to_start_from(
    settings: Settings, train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(settings, 2, tmp_path / "none", "--init-from", str(tmp_path / "nowhere")) == 2
    assert "nowhere cannot be loaded" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert train(settings, 2, tmp_path / "a", "--init-from", str(tmp_path / "empty")) == 2
    assert "holds no config.json" in capsys.readouterr().err
    (tmp_path / "empty" / "config.json").write_text("{")
    assert train(settings, 2, tmp_path / "b", "--init-from", str(tmp_path / "empty")) == 2
    assert "cannot be loaded" in capsys.readouterr().err


def test_a_folder_that_holds_something_else(
    settings: Settings, train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert train(settings, 2, folder, "--max-steps", "1") == 0
    capsys.readouterr()
    assert train(settings, 2, folder) == 2
    assert "holds a run already; go on with --resume" in capsys.readouterr().err
    assert train(settings, 3, folder, "--resume") == 2
    assert "holds another run: k was 2 and is now 3" in capsys.readouterr().err
    assert train(changed(settings, "training", learning_rate=0.5), 2, folder, "--resume") == 2
    assert "training.learning_rate was 0.005 and is now 0.5" in capsys.readouterr().err
    loose = changed(settings, "training", log_every=3) | {
        "finetune": {"seed": 5},
        "set": {"ks": [9]},
    }
    assert train(loose, 2, folder, "--resume", "--max-steps", "1") == 0
    assert "is finished: 1 steps" in capsys.readouterr().out
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    assert train(settings, 2, tmp_path / "mine", "--resume") == 2
    assert "holds files that are not a run" in capsys.readouterr().err


def test_bad_data_is_named_before_anything_is_trained(
    settings: Settings, train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = changed(settings, "data", train=["nowhere.de", "nowhere.en"])
    assert train(settings, 2, tmp_path / "run") == 2
    assert capsys.readouterr().err.startswith(
        "error: the file nowhere.de (data.train) is not there"
    )
    assert not (tmp_path / "run").exists()  # the corrected command need not say --resume


def test_no_disk_space(
    settings: Settings,
    train: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=100_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert train(settings, 2, tmp_path / "run") == 2
    assert "no disk space" in capsys.readouterr().err


def test_a_disk_that_fills_up(
    settings: Settings,
    train: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "run"

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    assert train(settings, 2, folder, "--max-steps", "5") == 0
    with monkeypatch.context() as patch:
        patch.setattr(train_wait_k.Accelerator, "save_state", full)
        assert train(settings, 2, folder, "--resume") == 2
    assert "No space left on device" in capsys.readouterr().err
    assert train(settings, 2, folder, "--resume") == 0
    assert facts(folder)["steps"] == 12


def test_wrong_numbers_on_the_command_line(
    settings: Settings, train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(settings, 2, tmp_path / "run", "--max-steps", "0") == 2
    assert "--max-steps must be at least 1; got 0" in capsys.readouterr().err
    assert train(settings, "some", tmp_path / "run") == 2
    assert "--k is a number" in capsys.readouterr().err


def test_a_tracker_that_is_not_installed(
    settings: Settings,
    train: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(train_wait_k, "is_trackio_available", lambda: False)
    assert train(changed(settings, "training", tracker="trackio"), 2, tmp_path / "run") == 2
    assert "training.tracker: trackio is not installed" in capsys.readouterr().err


def test_a_tracker_is_told_of_every_look(
    settings: Settings, train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, set[str]]] = []

    def log(_: Any, values: dict[str, float], step: int) -> None:
        told.append((step, set(values)))

    monkeypatch.setattr(train_wait_k, "is_trackio_available", lambda: True)
    monkeypatch.setattr(train_wait_k.Accelerator, "log", log)
    assert train(changed(settings, "training", tracker="trackio"), 2, tmp_path / "run") == 0
    assert told == [(step, {"loss", "dev_loss", "learning_rate"}) for step in (5, 10)]


def test_an_interrupted_run_says_how_to_go_on(
    settings: Settings,
    train: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train_wait_k.Trainer, "fit", interrupt)
        assert train(settings, 2, tmp_path / "run") == 130
    assert "--resume" in capsys.readouterr().err
    assert (
        train(settings, 2, tmp_path / "run", "--max-steps", "1") == 0
    )  # nothing was lost, so nothing is refused


def test_sharing(
    settings: Settings,
    train: Train,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shared: list[Any] = []

    def push(request: Any) -> list[str]:
        shared.append(request)
        return [f"https://huggingface.co/{request.repo}"]

    folder = tmp_path / "run"
    monkeypatch.setattr(finish.hub, "push", push)
    assert train(settings, 2, folder, "--max-steps", "1", "--push-to-hub", "me/wait-2") == 0
    assert [(request.folder, request.repo) for request in shared] == [(folder, "me/wait-2")]
    assert "shared as https://huggingface.co/me/wait-2" in capsys.readouterr().out
    more = (
        "--resume",
        "--max-steps",
        "1",
        "--push-to-hub",
        "me/again",
    )  # what is finished can still be shared
    assert train(settings, 2, folder, *more) == 0
    assert shared[1].repo == "me/again"
    (folder / "README.md").write_text("Mine.")
    monkeypatch.setattr(
        finish.hub, "push", lambda _: (_ for _ in ()).throw(ConnectionError("no network"))
    )
    assert (
        train(settings, 2, folder, "--resume", "--max-steps", "2", "--push-to-hub", "me/again") == 2
    )
    assert f"{folder} is finished, but was not shared: no network" in capsys.readouterr().err
    assert facts(folder)["steps"] == 2
    assert (folder / "README.md").read_text() == "Mine.", "an edited card stays"


def test_a_name_to_share_under_is_checked_before_anything_is_trained(
    settings: Settings, train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(settings, 2, tmp_path / "run", "--push-to-hub", "wait-2") == 2
    assert "--push-to-hub: a repository is user/name" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
