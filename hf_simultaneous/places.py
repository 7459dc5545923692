"""Where the files of a set are: in its own folder, or in repositories that its config names.

Knows paths and downloads, and lets no config, link or index lead anywhere else; not what the files
mean."""

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError


CONFIG_NAME = "adaptive_config.json"

MAX_PATH = 200
"""Letters of a member's folder."""

# What a set is made of: nothing else is ever downloaded.
FILES = ["*.json", "*.safetensors", "*.model", "*.spm", "*.md", "*.py", "*.txt"]


def is_set(folder: str | Path) -> bool:
    """Is a whole set saved here? Its config is written last."""
    return os.path.lexists(Path(folder) / CONFIG_NAME)


def set_folder(
    name_or_path: str, revision: str | None, hub: dict[str, Any], subfolder: str = ""
) -> Path:
    """Where a set's files are: a folder as it is, a repository once its files are here."""
    if Path(name_or_path).is_dir():
        return Path(name_or_path, subfolder)
    if (
        Path(name_or_path).is_absolute()
        or name_or_path.count("/") > 1
        or name_or_path.startswith(".")
    ):
        raise FileNotFoundError(
            f"no folder {name_or_path!r}; give a folder, or a repository as user/name"
        )
    files = [f"{subfolder}/{pattern}" if subfolder else pattern for pattern in FILES]
    try:
        found = snapshot_download(name_or_path, revision=revision, allow_patterns=files, **hub)
    except LocalEntryNotFoundError as error:
        raise FileNotFoundError(
            f"no folder {name_or_path!r} here, and no repository of that name can be reached; "
            f"check the name and the network ({error})"
        ) from error
    return Path(found, subfolder)


def check_links(files: Iterable[Path], root: Path) -> None:
    """No file may be a link that leads out of `root`; in the hub's cache all are links to its
    `blobs`."""
    caches = [
        parent.parent / "blobs" for parent in root.absolute().parents if parent.name == "snapshots"
    ]
    homes = [home.resolve() for home in (root, *caches)]
    for path in files:
        if path.is_dir():
            continue
        if not any(resolved(path).is_relative_to(home) for home in homes):
            raise ValueError(f"{path} is linked from outside {root}; put the file itself there")


def check_files(folder: Path) -> None:
    """What looks like a file of a set must be one: reading a pipe would wait for ever."""
    for path in folder.iterdir():
        named = any(path.match(pattern) for pattern in FILES)
        if named and path.exists() and not (path.is_file() or path.is_dir()):
            raise ValueError(f"{path} is not a file")


def resolved(path: Path) -> Path:
    """Where a path leads in the end."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # a loop of links; a name too long
        raise ValueError(f"{path} leads nowhere: {error}") from error


def check_place(root: Path, place: Any) -> None:
    """A member is below the set's own folder, or a repository. A config must not lead anywhere
    else."""
    kinds = ({"folder"}, {"repo"}, {"repo", "revision"})
    if (
        not isinstance(place, dict)
        or set(place) not in kinds
        or not all(isinstance(at, str) for at in place.values())
    ):
        raise ValueError(
            f"{root / CONFIG_NAME}: a member is a folder or a repo (with a revision); got {place!r}"
        )


def member_path(root: Path, place: dict[str, str], hub: dict[str, Any]) -> Path:
    """The folder of a member, downloaded if it is elsewhere."""
    check_place(root, place)
    inside = _download(root, place, hub) if "repo" in place else place_below(root, place["folder"])
    if inside.is_dir():
        check_files(inside)
    if not (inside / "config.json").exists():
        named = place.get("folder") or place["repo"]
        raise FileNotFoundError(
            f"{root / CONFIG_NAME} names member {named!r}, but {inside}/config.json is missing"
        )
    return inside


def _download(root: Path, place: dict[str, str], hub: dict[str, Any]) -> Path:
    try:
        return Path(
            snapshot_download(
                place["repo"], revision=place.get("revision"), allow_patterns=FILES, **hub
            )
        )
    except HFValidationError as error:
        raise ValueError(
            f"{root / CONFIG_NAME}: a member's repo is user/name; got {place['repo']!r}"
        ) from error


def place_below(root: Path, folder: str) -> Path:
    """A member's folder, if it and all its files are in the set."""
    path = PurePosixPath(folder)
    inside = root / path
    odd = "\\" in folder or not folder.isprintable() or len(folder) > MAX_PATH
    if odd or path.is_absolute() or ".." in path.parts:
        raise ValueError(
            f"{root / CONFIG_NAME}: a member's folder is below the set's own; got {folder!r}"
        )
    if not resolved(inside).is_relative_to(root.resolve()):
        raise ValueError(f"{root / CONFIG_NAME}: member {folder!r} leads out of the set")
    if inside.is_dir() and is_set(root):  # a checkpoint the user named is the user's own affair
        check_links(inside.iterdir(), root)
    return inside
