"""Keeps the checkpoints of a run: whole or not at all, checked before use, old ones removed.

Knows files and the progress of a run; what is in the files is the business of who writes them.
"""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from .checked import InputError


MANIFEST = "manifest.json"
PROGRESS = "progress.json"
BESIDE = ".tmp"


@dataclass(frozen=True)
class Progress:
    """How far a run has come; with the weights and the random states, all it needs to go on."""

    step: int = 0
    epoch: int = 0
    step_in_epoch: int = 0
    loss_sum: float = 0.0
    """Training loss since the last look at the dev set, summed over target tokens."""
    loss_tokens: int = 0
    best_step: int | None = None
    best_loss: float | None = None
    without_best: int = 0
    """Looks at the dev loss since the best one."""
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def last_looks(self, count: int) -> list[int]:
        """The last steps at which there was a look at the dev set, `count` at most."""
        return [entry["step"] for entry in self.history[max(0, len(self.history) - count) :]]


class Checkpoints:
    """The checkpoints in a folder, `step-00000100` and so on."""

    def __init__(
        self,
        folder: Path,
        keep: int = 2,
        report: Callable[[str], None] = print,
        *,
        looks: int = 0,
    ):
        """`looks`: so many of those at which the dev set was looked at stay, to be averaged."""
        self.folder = folder
        self.keep = keep
        self.looks = looks
        self.report = report

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """Steps there is a checkpoint of, the latest last. One that is still being written is not
        among them."""
        names = [entry.name for entry in self.folder.glob("step-*") if entry.is_dir()]
        return sorted(int(name[5:]) for name in names if name[5:].isdecimal())

    def begin(self, step: int) -> Path:
        """An empty folder beside the final one, to write into."""
        beside = self.path(step).with_suffix(BESIDE)
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        return beside

    def commit(self, progress: Progress) -> None:
        """Make what was written to `begin`'s folder a checkpoint, at once and for good."""
        final = self.path(progress.step)
        beside = final.with_suffix(BESIDE)
        (beside / PROGRESS).write_text(json.dumps(asdict(progress)))
        files = _files(beside)
        manifest = {str(file.relative_to(beside)): _digest(file) for file in files}
        (beside / MANIFEST).write_text(json.dumps(manifest))
        for file in [*files, beside / MANIFEST, beside]:
            _flush(file)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(beside, final)
        _flush(self.folder)
        self._prune()

    def latest(self) -> Progress | None:
        """The progress of the latest checkpoint that is intact; None where there is none at all.

        Damaged ones after it are renamed: they would pass for the latest when old ones are removed.
        """
        for leftover in self.folder.glob(f"step-*{BESIDE}"):
            shutil.rmtree(leftover, ignore_errors=True)
        damaged: list[Path] = []
        for step in reversed(self.steps()):
            fault = self.fault(step)
            if fault is None:
                for path in damaged:
                    with suppress(OSError):  # another process of the run may have done so
                        path.rename(path.with_name(f"damaged-{path.name}"))
                return self.progress(step)
            self.report(f"checkpoint {self.path(step)} is damaged ({fault}) and is not used")
            damaged.append(self.path(step))
        if damaged:
            raise InputError(
                f"every checkpoint in {self.folder} is damaged; remove the folder to start from "
                f"nothing"
            )
        return None

    def progress(self, step: int) -> Progress:
        return Progress(**json.loads((self.path(step) / PROGRESS).read_text()))

    def intact(self, steps: Sequence[int]) -> list[int]:
        """Those of the steps whose checkpoint can be used; the others are reported."""
        faults = {step: self.fault(step) for step in steps}
        for step, fault in faults.items():
            if fault is not None:
                self.report(f"checkpoint {self.path(step)} is damaged ({fault}) and is not used")
        return [step for step in steps if faults[step] is None]

    def fault(self, step: int) -> str | None:
        """What is wrong with a checkpoint; None when every file is as it was written."""
        folder = self.path(step)
        try:
            manifest = json.loads((folder / MANIFEST).read_text())
            files = {str(file.relative_to(folder)) for file in _files(folder)} - {MANIFEST}
            if not isinstance(manifest, dict) or not files <= manifest.keys():
                return f"{MANIFEST} does not list its files"
            for name, digest in manifest.items():
                if (folder / name).exists() and not (folder / name).is_file():
                    return f"{name} is not a file"
                if _digest(folder / name) != digest:
                    return f"{name} has changed since it was written"
            self.progress(step)
        except FileNotFoundError as error:
            return f"{Path(error.filename).name} is missing"
        except (OSError, ValueError, RecursionError):
            return f"{MANIFEST} cannot be read"
        except TypeError:
            return f"{PROGRESS} is not the progress of a run"
        return None

    def _prune(self) -> None:
        """Keep the latest, and what each of those needs: the best and the last looks it knows."""
        latest = self.steps()[-self.keep :]
        needed: set[int | None] = set(latest)
        for step in latest:
            with suppress(OSError, ValueError, TypeError, RecursionError):  # damaged: needs nothing
                progress = self.progress(step)
                needed |= {progress.best_step, *progress.last_looks(self.looks)}
        for step in self.steps():
            if step not in needed:
                shutil.rmtree(self.path(step), ignore_errors=True)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _digest(file: Path) -> str:
    digest = sha256()
    with open(file, "rb") as content:
        while chunk := content.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    """To the disk itself, or a power cut could keep the new name and lose what it names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
