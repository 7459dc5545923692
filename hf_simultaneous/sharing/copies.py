"""A saved set in another folder, to the byte: its weights keep their precision, and the card with
the licence comes along.

Knows which files belong to a set; it loads none of them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from ..places import CONFIG_NAME, FILES, check_place, place_below
from ..sets import read_set_config
from .cards import STATED
from .hub import CARD


def copy_set(folder: str | Path, to: str | Path) -> None:
    """Copy what the set consists of, its config last: a folder without it is not a set."""
    root, to = Path(folder), Path(to)
    for path in [*_files(root), root / CONFIG_NAME]:
        target = to / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)  # not its permissions: a package may be read-only


def _files(root: Path) -> Iterator[Path]:
    """Whatever else lies in the folder, such as the states of a training, stays where it is."""
    folders = {root, root / "custom_generate"}
    for place in read_set_config(root)["members"].values():
        check_place(root, place)
        if "folder" in place:
            folders.add(place_below(root, place["folder"]))
    kinds = {*FILES, *CARD, STATED}
    found = {path for folder in folders for kind in kinds for path in folder.glob(kind)}
    yield from sorted(path for path in found - {root / CONFIG_NAME} if path.is_file())
