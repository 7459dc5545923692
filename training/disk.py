"""Says in one way that a disk is full, before a run and in the middle of one, and that a folder is
not free.

Knows folders and free bytes, not what is written.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from .checked import InputError


def require_space(folder: Path, needed: int) -> None:
    """Refuse to start what the disk cannot hold; a folder is made only where it can."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise InputError(
            f"no disk space: {folder} has {free / 1e6:.0f} MB free and this run needs about "
            f"{needed / 1e6:.0f} MB for "
            "its checkpoints; free some, or give --output on another disk"
        )
    folder.mkdir(parents=True, exist_ok=True)


def check_is_folder(output: Path) -> None:
    """Refuse a place where no folder can be."""
    there = next((place for place in (output, *output.parents) if place.exists()), output)
    if there.exists() and not there.is_dir():
        raise InputError(f"--output {output} must be a folder, and {there} is a file; give another")


def require_empty(output: Path) -> None:
    """Refuse to write among other files."""
    check_is_folder(output)
    if output.exists() and any(output.iterdir()):
        raise InputError(f"--output {output} is not empty; give another folder")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Around all that writes into `folder`: every library reports a full disk in its own way; this
    is ours."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        free = shutil.disk_usage(folder).free
        raise InputError(
            f"cannot write to {folder}: {error} ({free / 1e6:.0f} MB free). What was written "
            f"before is intact: with "
            "more space, a run goes on with --resume"
        ) from error
