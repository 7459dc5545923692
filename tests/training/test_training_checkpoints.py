import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from training.checked import InputError
from training.checkpoints import Checkpoints, Progress


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def checkpoints(tmp_path: Path, said: list[str]) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints", keep=2, report=said.append)


def put(checkpoints: Checkpoints, step: int, best: int | None = None) -> None:
    beside = checkpoints.begin(step)
    (beside / "model.safetensors").write_bytes(bytes(range(256)) * step)
    checkpoints.commit(Progress(step=step, best_step=best, history=[{"step": 1, "loss": 0.1}]))


def test_what_is_committed_is_found(checkpoints: Checkpoints) -> None:
    assert checkpoints.latest() is None
    put(checkpoints, 10)
    put(checkpoints, 20)
    assert checkpoints.latest() == Progress(step=20, history=[{"step": 1, "loss": 0.1}])


def test_what_is_still_being_written_is_not(checkpoints: Checkpoints) -> None:
    put(checkpoints, 10)
    (checkpoints.begin(20) / "model.safetensors").write_bytes(b"half")
    assert checkpoints.steps() == [10]
    assert checkpoints.latest().step == 10
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-00000010"]


@pytest.mark.parametrize("moment", ["write_text", "fsync", "replace"])
def test_dying_while_committing_leaves_the_one_before(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    put(checkpoints, 10)
    with monkeypatch.context() as patch:
        patch.setattr(Path if moment == "write_text" else os, moment, _die)
        with pytest.raises(KeyboardInterrupt):
            put(checkpoints, 20)
    assert checkpoints.latest().step == 10


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def holding(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


def naming_a_folder(path: Path) -> None:
    (path.parent / "elsewhere").mkdir()
    path.write_text(json.dumps({"elsewhere": "0", **json.loads(path.read_text())}))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def emptied(path: Path) -> None:
    """And the manifest agrees."""
    path.write_text("[]")
    manifest = path.with_name("manifest.json")
    digest = sha256(b"[]").hexdigest()
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), path.name: digest}))


@pytest.mark.parametrize(
    ("name", "harm", "fault"),
    [
        ("model.safetensors", cut, "model.safetensors has changed since it was written"),
        ("model.safetensors", flip, "model.safetensors has changed since it was written"),
        ("model.safetensors", Path.unlink, "model.safetensors is missing"),
        ("progress.json", cut, "progress.json has changed"),
        ("manifest.json", cut, "manifest.json cannot be read"),
        ("manifest.json", Path.unlink, "manifest.json is missing"),
        ("manifest.json", holding("{}"), "manifest.json does not list its files"),
        ("manifest.json", holding("[]"), "manifest.json does not list its files"),
        ("manifest.json", holding("[" * 100_000), "manifest.json cannot be read"),
        ("manifest.json", holding('{"progress.json": "0"}'), "does not list its files"),
        ("manifest.json", naming_a_folder, "elsewhere is not a file"),
        ("manifest.json", a_folder, "manifest.json cannot be read"),
        ("progress.json", emptied, "progress.json is not the progress of a run"),
    ],
)
def test_a_damaged_one_is_refused_by_name(
    checkpoints: Checkpoints, said: list[str], name: str, harm: Callable[[Path], None], fault: str
) -> None:
    put(checkpoints, 10)
    put(checkpoints, 20)
    harm(checkpoints.path(20) / name)
    assert checkpoints.latest().step == 10
    assert len(said) == 1
    assert "step-00000020 is damaged" in said[0]
    assert fault in said[0]
    put(checkpoints, 15)
    put(checkpoints, 20)
    assert checkpoints.latest().step == 20
    assert checkpoints.steps() == [15, 20]


def test_a_damaged_one_before_the_latest_does_not_stop_a_run(checkpoints: Checkpoints) -> None:
    put(checkpoints, 10)
    (checkpoints.path(10) / "progress.json").write_text("[]")
    put(checkpoints, 20)
    assert checkpoints.latest().step == 20


def test_nothing_intact(checkpoints: Checkpoints) -> None:
    put(checkpoints, 10)
    cut(checkpoints.path(10) / "model.safetensors")
    with pytest.raises(InputError, match="every checkpoint in .* is damaged"):
        checkpoints.latest()


def test_the_latest_and_the_best_they_know_are_kept(checkpoints: Checkpoints) -> None:
    kept = []
    for step, best in [(1, 1), (2, 2), (3, 2), (4, 2), (5, 5), (6, 5)]:
        put(checkpoints, step, best)
        kept.append(checkpoints.steps())
    assert kept == [[1], [1, 2], [2, 3], [2, 3, 4], [2, 4, 5], [5, 6]]


def test_other_things_in_the_folder_are_left_alone(checkpoints: Checkpoints) -> None:
    put(checkpoints, 1)
    (checkpoints.folder / "step-final").mkdir()
    (checkpoints.folder / "lock").touch()
    assert checkpoints.latest().step == 1
