"""Several processes: two that share a run, and those of a whole set."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from hf_simultaneous import AdaptiveWaitKGenerator, FullSentence
from hf_simultaneous.schedule import FULL
from hf_simultaneous.sets import update_set_config
from tests.forked import run_shared
from tests.training.small import run_here
from training import train_all
from training.checked import InputError
from training.options import parse_config
from training.train_all import Plan, main


Settings = dict[str, Any]
Config = Callable[[Settings], str]


@pytest.mark.system
def test_two_processes_do_what_one_does(
    settings: Settings, config_file: Config, train: Callable[..., int], tmp_path: Path
) -> None:
    """Same global batch: losses agree to 1e-5, weights to 1e-4 (sums are taken in another
    order)."""
    settings["model"]["dropout"] = 0.0
    assert train(settings, "multi", tmp_path / "one") == 0
    options = ["--config", config_file(settings), "--k", "multi", "--output", str(tmp_path / "two")]
    run_shared(
        "import sys; from training import train_wait_k; sys.exit(train_wait_k.main())", *options
    )
    one, two = (
        json.loads((tmp_path / name / "training.json").read_text())["history"]
        for name in ("one", "two")
    )
    assert len(one) == len(two) == 2
    for first, second in zip(one, two, strict=True):
        assert first == pytest.approx(second, abs=1e-5)
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, value in before.items():
        torch.testing.assert_close(value, after[name], atol=1e-4, rtol=0)


def test_steps_that_processes_cannot_share(
    settings: Settings,
    train: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
) -> None:
    from accelerate import Accelerator

    monkeypatch.setattr(Accelerator, "num_processes", 3)
    assert train(settings, 2, tmp_path / "run") == 2
    assert (
        "training.batches_per_step is 2, which 3 processes cannot share equally"
        in capsys.readouterr().err
    )


def check_card(card: str, tmp_path: Path) -> None:
    for fact in (
        "| training data | Us |",
        "| licence of the data | CC BY 2.0 FR |",
        "| attribution | us.org |",
    ):
        assert fact in card
    assert re.search(
        r"\| wait-2 \| causal \| [\d,]+ \| 4 steps from full "
        r"\| dev, wait-2: BLEU [\d.]+, AL [\d.]+ \|",
        card,
    )
    assert str(tmp_path) not in card


def check_members(output: Path) -> None:
    generator = AdaptiveWaitKGenerator.from_pretrained(str(output / "set"))
    assert list(generator.models) == [2, FULL]
    assert [model.config.encoder_attention for model in generator.models.values()] == [
        "causal",
        "prefix",
    ]
    assert (generator.thresholds, generator.early_stop) == ({2: 0.5, 3: 0.0}, False)
    assert {
        weight.dtype for weight in load_file(output / "set" / "model.safetensors").values()
    } == {torch.float16}
    assert {model.dtype for model in generator.models.values()} == {torch.float32}
    source = generator.tokenizer(["das Kind hat"]).input_ids
    for policy in (None, FullSentence()):
        assert generator.generate(source, policy=policy, max_new_tokens=3).shape[0] == 1
    assert (output / "wait-2" / "training.json").is_file()
    assert json.loads((output / "wait-2" / "training.json").read_text())["init_from"] == str(
        output / "full"
    )


@pytest.mark.system
def test_a_set(
    settings: Settings,
    config_file: Config,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
) -> None:
    settings["model"]["encoder_attention"] = "prefix"
    more = {
        "set": {"ks": [2], "first_threshold": 0.5, "half": True, "k_max": 3, "early_stop": False},
        "wait_k_model": {"encoder_attention": "causal"},
    }
    settings["data"] |= {"description": "Us", "licence": "CC BY 2.0 FR", "attribution": "us.org"}
    config, output = config_file({**settings, **more}), tmp_path / "out"
    really = subprocess.run

    def run(given: list[str], **options: Any) -> Any:
        """The base in a process of its own; its member need not prove that again."""
        return (run_here if "--init-from" in given else really)(given, **options)

    monkeypatch.setattr(train_all.subprocess, "run", run)
    command = ["--config", config, "--output", str(output), "--ks", "2", "--jobs", "1"]
    assert main(command) == 0
    card = (output / "set" / "README.md").read_text()
    check_card(card, tmp_path)
    check_members(output)

    assert main(command) == 2
    assert "is not empty; go on with --resume" in capsys.readouterr().err
    monkeypatch.setattr(train_all.subprocess, "run", lambda *_, **__: pytest.fail("trained again"))
    assert main([*command, "--resume"]) == 0
    said = capsys.readouterr().out
    assert "full: finished before, 12 steps" in said
    assert "wait-2: finished before, 4 steps" in said
    assert (output / "set" / "README.md").read_text() == card
    check_resumed(output, command, config, capsys)


def check_resumed(
    output: Path, command: list[str], config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was found of a finished set since is kept, and another config is not passed over."""
    update_set_config(output / "set", latencies={"low": {"2": 0.5, "3": 0.0}}, tail_beams=5)
    (output / "set" / "README.md").write_text("Mine.")
    before = (output / "set" / "adaptive_config.json").read_text()
    assert main([*command, "--resume"]) == 0
    assert "as it was; to make it anew, remove it first" in capsys.readouterr().out
    assert (output / "set" / "adaptive_config.json").read_text() == before
    assert (output / "set" / "README.md").read_text() == "Mine."
    text = Path(config).read_text()
    Path(config).write_text(text.replace("0.005", "0.004"))
    assert main([*command, "--resume"]) == 2
    said = capsys.readouterr().err
    assert "training.learning_rate was 0.005 and is now 0.004. Resume with" in said
    assert "To take a finished model as it is, remove its run.json" in said
    for name in ("full", "wait-2"):
        (output / name / "run.json").unlink()
    (output / "set" / "adaptive_config.json").unlink()
    (output / "set" / "README.md").unlink()
    assert main([*command, "--resume"]) == 0
    check_members(output)


def test_one_model_for_all_k_may_be_put_under_several(
    settings: Settings, config_file: Config, train: Callable[..., int], tmp_path: Path
) -> None:
    """Models that were trained apart become neighbours of a set, each at the k it is put under."""
    assert train(settings, "multi", tmp_path / "trained", "--max-steps", "2") == 0
    output = tmp_path / "models"
    for name in ("wait-1", "wait-3", FULL):
        ignored = shutil.ignore_patterns("checkpoints", "run.json")
        shutil.copytree(tmp_path / "trained", output / name, ignore=ignored)
    config = config_file({**settings, "set": {"base": "none", "ks": [1, 3]}})
    assert main(["--config", config, "--output", str(output), "--resume"]) == 0
    generator = AdaptiveWaitKGenerator.from_pretrained(str(output / "set"))
    assert list(generator.models) == [1, 3, FULL]
    assert dict(generator.ensembles) == {1: (1,), 2: (3,), 3: (3,)}


def plan(settings: Settings, config_file: Config, tmp_path: Path, **changes: Any) -> Plan:
    from training.options import load_config

    path = config_file(settings)
    values = {
        "config_file": path,
        "config": load_config(path),
        "output": tmp_path / "out",
        "ks": [1, 3],
        "jobs": 2,
    }
    return Plan(**{**values, **changes})


@pytest.mark.parametrize(
    ("base", "bases", "starts"),
    [
        ("multi", ["multi", "multi-2"], ["multi", "multi-2", "multi", "multi"]),
        ("full", ["full", "full-2"], ["full", "full-2", "full"]),
        (
            "full-multi",
            ["first", "full", "multi", "first-2", "multi-2"],
            ["multi", "multi-2", "multi"],
        ),
    ],
)
def test_members_start_from_several_bases_in_turn(
    settings: dict[str, Any], tmp_path: Path, base: str, bases: list[str], starts: list[str]
) -> None:
    settings = {**settings, "set": {"base": base, "bases": 2, "ks": [1, 3, 5]}}
    config = parse_config(settings, "x.yaml")
    several = Plan(config_file="x.yaml", config=config, output=tmp_path, ks=[1, 3, 5])
    assert [job.name for job in several.bases] == bases
    assert [job.start for job in several.members] == starts
    assert {job.name for job in several.members} | set(bases) >= {"full", "wait-1", "wait-5"}
    seeds = [several.command(job, 1)[-1] for job in [*several.bases, *several.members]]
    by_start = {job.name: several.command(job, 1)[-1] for job in several.bases}
    assert len({seed for name, seed in by_start.items() if name.endswith("-2")}) == 1
    assert {"1", "1001", "2", "1004", "6"} <= set(seeds)


class Runs:
    """Stands in for subprocess.run: takes notes, and leaves the facts of a finished run, or does
    not."""

    def __init__(self, code: int = 0):
        self.code, self.commands, self.environments = code, [], []

    def __call__(self, command: list[str], env: dict[str, str], stdout: Any, **_: Any) -> Any:
        self.commands.append(command)
        self.environments.append(env)
        folder = Path(command[command.index("--output") + 1])
        folder.mkdir()
        if self.code:
            stdout.write("error: no disk space\n")
        else:
            (folder / "training.json").write_text('{"scores": {}, "steps": 1, "seconds": 1}')
        return subprocess.CompletedProcess(command, self.code)


def test_the_base_comes_first_on_all_cores(
    settings: Settings, config_file: Config, tmp_path: Path, monkeypatch: Any
) -> None:
    runs = Runs()
    monkeypatch.setattr(train_all.subprocess, "run", runs)
    monkeypatch.setattr(train_all, "_save_set", lambda _: None)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    train_all.train_all(plan({**settings, "set": {"base": "multi"}}, config_file, tmp_path))
    ks = [command[command.index("--k") + 1] for command in runs.commands]
    assert ks[0] == "multi"
    assert sorted(ks) == ["1", "3", "full", "multi"]
    assert "--nproc-per-node=2" in runs.commands[0]
    assert "--init-from" not in runs.commands[0]
    for command in runs.commands[1:]:
        assert command[command.index("--init-from") + 1] == str(tmp_path / "out" / "multi")
    seeds = {
        command[command.index("--k") + 1]: command[command.index("--seed") + 1]
        for command in runs.commands
    }
    assert len({seeds["multi"], seeds["1"], seeds["3"]}) == 3
    assert {env["OMP_NUM_THREADS"] for env in runs.environments} == {"1"}


def test_data_that_is_not_there_leaves_no_folder(
    settings: Settings, config_file: Config, tmp_path: Path
) -> None:
    absent = {**settings, "data": {**settings["data"], "train": ["data/no.de", "data/no.en"]}}
    with pytest.raises(InputError, match=r"the file data/no.de \(data.train\) is not there"):
        train_all.train_all(plan(absent, config_file, tmp_path))
    assert not (tmp_path / "out").exists()


def test_a_model_for_all_k_may_come_between(
    settings: Settings, config_file: Config, tmp_path: Path, monkeypatch: Any
) -> None:
    runs = Runs()
    monkeypatch.setattr(train_all.subprocess, "run", runs)
    monkeypatch.setattr(train_all, "_save_set", lambda _: None)
    train_all.train_all(plan({**settings, "set": {"base": "full-multi"}}, config_file, tmp_path))
    found = []
    for command in runs.commands:
        given = dict(zip(command, command[1:], strict=False))
        found.append(
            (given["--k"], Path(given["--output"]).name, Path(given.get("--init-from", "")).name)
        )
    assert found[:3] == [
        ("full", "first", ""),
        ("full", "full", "first"),
        ("multi", "multi", "first"),
    ]
    assert sorted(found[3:]) == [("1", "wait-1", "multi"), ("3", "wait-3", "multi")]


def test_members_may_have_nothing_in_common(
    settings: Settings, config_file: Config, tmp_path: Path, monkeypatch: Any
) -> None:
    runs = Runs()
    monkeypatch.setattr(train_all.subprocess, "run", runs)
    monkeypatch.setattr(train_all, "_save_set", lambda _: None)
    train_all.train_all(plan({**settings, "set": {"base": "none"}}, config_file, tmp_path))
    given = [dict(zip(command, command[1:], strict=False)) for command in runs.commands]
    assert sorted(one["--k"] for one in given) == ["1", "3", "full"]
    assert len({one["--seed"] for one in given}) == 3
    assert not any("--init-from" in one for one in given)


def test_a_base_whose_steps_cannot_be_shared_uses_threads(
    settings: Settings, config_file: Config, tmp_path: Path, monkeypatch: Any
) -> None:
    runs = Runs()
    monkeypatch.setattr(train_all.subprocess, "run", runs)
    monkeypatch.setattr(train_all, "_save_set", lambda _: None)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    train_all.train_all(plan(settings, config_file, tmp_path, jobs=3))
    assert "torch.distributed.run" not in runs.commands[0]
    assert [env["OMP_NUM_THREADS"] for env in runs.environments] == ["3", "1", "1"]


def test_a_member_that_fails_is_named_and_the_others_go_on(
    settings: Settings, config_file: Config, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "out" / "full").mkdir(parents=True)
    (tmp_path / "out" / "full" / "training.json").write_text(
        '{"scores": {}, "steps": 1, "seconds": 1}'
    )
    runs = Runs(code=2)
    monkeypatch.setattr(train_all.subprocess, "run", runs)
    with pytest.raises(
        InputError, match="wait-1 failed with exit code 2: no disk space .*; wait-3 failed"
    ):
        train_all.train_all(plan(settings, config_file, tmp_path, resume=True))
    assert len(runs.commands) == 2


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("step 1\nerror: no disk space\n", "no disk space"),
        ("Traceback\nOSError: [Errno 28] full\nE0000 x\nChildFailedError: y\n====\n", "OSError: "),
        ("step 1\rstep 2\n", "step 2"),
        ("", "no output"),
    ],
)
def test_what_a_failed_run_died_of_is_found_in_its_log(log: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "full.log").write_text(log)
    assert train_all._last_line(tmp_path / "full.log").startswith(said)


def test_interrupting_calls_off_what_has_not_begun(
    settings: Settings,
    config_file: Config,
    tmp_path: Path,
    monkeypatch: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train_all.subprocess, "run", interrupt)
    command = ["--config", config_file(settings), "--output", str(tmp_path / "out"), "--jobs", "1"]
    assert main(command) == 130
    assert "--resume" in capsys.readouterr().err


def test_wrong_options(
    settings: Settings, config_file: Config, tmp_path: Path, capsys: Any
) -> None:
    command = ["--config", config_file(settings), "--output", str(tmp_path / "out")]
    assert main([*command, "--jobs", "0"]) == 2
    assert "--jobs must be at least 1; got 0" in capsys.readouterr().err
    assert main([*command, "--ks", "1,1"]) == 2
    assert "--ks lists different numbers" in capsys.readouterr().err
