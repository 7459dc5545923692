"""Translations for another model to learn from: right, resumable, shared by processes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hf_simultaneous import AdaptiveWaitKGenerator, FullSentence, WaitK
from tests.tiny import tiny_model
from training import distill
from training.distill import main


@pytest.fixture
def model(settings: dict[str, Any], train: Callable[..., int], tmp_path: Path) -> Path:
    settings["training"] |= {"max_steps": 3}
    assert train(settings, "multi", tmp_path / "model") == 0
    return tmp_path / "model"


@pytest.fixture
def source(text: Path, tmp_path: Path) -> Path:
    lines = (text / "dev.de").read_text(encoding="utf-8").splitlines()[:7]
    lines[3] = ""
    lines[5] = "und " * 300
    (tmp_path / "source.de").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path / "source.de"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distill, "BATCHES_AT_ONCE", 1)


def command(model: Path, source: Path, output: Path, *more: str) -> list[str]:
    start = ["--set", str(model), "--source", str(source), "--output", str(output)]
    return [*start, "--batch-size", "2", *more]


@pytest.mark.parametrize(
    ("more", "policy", "beams"),
    [
        (["--beams", "1"], FullSentence(), 1),
        ([], FullSentence(), 5),
        (["--policy", "wait-k", "--k", "3"], WaitK(3), 1),
    ],
)
def test_each_line_is_translated(
    model: Path, source: Path, tmp_path: Path, more: list[str], policy: Any, beams: int
) -> None:
    output = tmp_path / "new" / "out.en"
    assert main(command(model, source, output, *more)) == 0
    found = output.read_text(encoding="utf-8").split("\n")
    assert len(found) == 8
    assert found[3] == found[5] == found[7] == ""  # empty, too long, after the last line
    generator = AdaptiveWaitKGenerator.from_pretrained(str(model))
    sentence = source.read_text(encoding="utf-8").splitlines()[0]
    ids = generator.tokenizer([sentence]).input_ids
    limit = min(2 * len(ids[0]) + 20, generator.position_limit)
    if beams == 1:
        tokens = generator.generate(ids, policy=policy, max_new_tokens=limit)[0]
        whole = generator.tokenizer.decode(tokens, skip_special_tokens=True)
        assert found[0]
        assert whole.strip().startswith(found[0]) or found[0].startswith(whole.strip())
    settings = json.loads(Path(f"{output}.json").read_text())
    assert (settings["beams"], settings["batch_size"]) == (beams, 2)


def test_what_was_cut_off_goes_on(
    model: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = tmp_path / "whole.en", tmp_path / "parts.en"
    assert main(command(model, source, whole, "--beams", "2")) == 0
    content = whole.read_bytes()
    again = command(model, source, parts, "--beams", "2")
    assert main(again) == 0
    lines = content.splitlines(keepends=True)
    parts.write_bytes(b"".join(lines[:3]) + b"half a li")
    assert main(again) == 0
    assert parts.read_bytes() == content
    monkeypatch.setattr(distill, "_translate", lambda *_: pytest.fail("all of it is there"))
    assert main(again) == 0
    assert parts.read_bytes() == content


def test_other_settings_are_refused(
    model: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.en"
    assert main(command(model, source, output, "--beams", "1")) == 0
    for more, name in (
        (["--beams", "2"], "beams"),
        (["--policy", "wait-k", "--k", "2"], "k"),
        (["--beams", "1", "--batch-size", "3"], "batch_size"),
    ):
        assert main(command(model, source, output, *more)) == 2
        assert f"was made with another {name}" in capsys.readouterr().err
    source.write_text("etwas anderes\n")
    assert main(command(model, source, output, "--beams", "1")) == 2
    assert "was made with another source" in capsys.readouterr().err
    for content in ("[]", "{", None):
        settings = Path(f"{output}.json")
        settings.unlink()
        if content is not None:
            settings.write_text(content)
        else:
            continue
        assert main(command(model, source, output)) == 2
        assert "does not say what it was made with" in capsys.readouterr().err
    assert main(command(model, source, output)) == 2


def test_wrong_requests(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more, message in (
        (["--policy", "wait-k"], "--k is the k of --policy wait-k; give both or neither"),
        (["--k", "3"], "give both or neither"),
        (["--policy", "wait-k", "--k", "0"], "--k must be at least 1; got 0"),
        (["--policy", "wait-k", "--k", "3", "--beams", "4"], "--beams 4 is for full sentences"),
        (["--beams", "-1"], "--beams must be at least 1; got -1"),
        (["--beams", "0"], "--beams must be at least 1; got 0"),
        (["--batch-size", "0"], "--batch-size must be at least 1; got 0"),
    ):
        assert main(command(tmp_path, source, tmp_path / "o", *more)) == 2
        assert message in capsys.readouterr().err
    assert main(command(tmp_path, tmp_path / "none.de", tmp_path / "o")) == 2
    assert "none.de is not a file" in capsys.readouterr().err


def test_a_set_without_a_tokenizer_is_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_model().save_pretrained(tmp_path / "bare")
    assert main(command(tmp_path / "bare", source, tmp_path / "o")) == 2
    assert "bare has no tokenizer; give a set that was saved with one" in capsys.readouterr().err


@pytest.mark.system
def test_two_processes_write_what_one_writes(model: Path, source: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    run = [*launcher, "--nproc-per-node=2", "-m", "training.distill"]
    two = command(model, source, tmp_path / "two.en", "--beams", "2")
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*run, *two], check=True, env=settings, timeout=900)
    assert main(command(model, source, tmp_path / "one.en", "--beams", "2")) == 0
    assert (tmp_path / "two.en").read_bytes() == (tmp_path / "one.en").read_bytes()
