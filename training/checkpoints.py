"""Keeps the checkpoints of a run: whole or not at all, checked before use, old ones removed.

Knows files and the progress of a run; what is in the files is the business of who writes them.
"""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from .checked import InputError


MANIFEST = "manifest.json"
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


class Checkpoints:
    """The checkpoints in a folder, `step-00000100` and so on."""

    def __init__(self, folder: Path, keep: int = 2, report: Callable[[str], None] = print):
        self.folder = folder
        self.keep = keep
        self.report = report

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """Steps there is a checkpoint of, the latest last. One that is still being written is not among them."""
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
        (beside / "progress.json").write_text(json.dumps(asdict(progress)))
        files = sorted(file for file in beside.rglob("*") if file.is_file())
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
            raise InputError(f"every checkpoint in {self.folder} is damaged; remove the folder to start from nothing")
        return None

    def progress(self, step: int) -> Progress:
        return Progress(**json.loads((self.path(step) / "progress.json").read_text()))

    def fault(self, step: int) -> str | None:
        """What is wrong with a checkpoint; None when every file is as it was written."""
        folder = self.path(step)
        try:
            manifest = json.loads((folder / MANIFEST).read_text())
            for name, digest in manifest.items():
                if _digest(folder / name) != digest:
                    return f"{name} has changed since it was written"
        except FileNotFoundError as error:
            return f"{Path(error.filename).name} is missing"
        except ValueError:
            return f"{MANIFEST} cannot be read"
        return None

    def _prune(self) -> None:
        """Keep the latest, and the best that each of those knows of."""
        latest = self.steps()[-self.keep :]
        best = {self.progress(step).best_step for step in latest}
        for step in self.steps():
            if step not in latest and step not in best:
                shutil.rmtree(self.path(step), ignore_errors=True)


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
