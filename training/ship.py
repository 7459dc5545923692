"""Puts a set into the package, where it is what a newcomer translates with: weights, tokeniser and
card, no code.

    python -m training.ship --set runs/tatoeba/set

Knows which files a set needs where the package itself is installed; how it was made is in its card.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.places import is_set
from hf_simultaneous.sets import BUILTIN

from .checked import InputError
from .command import command_line, exit_code


LIMIT = 32 * 2**20
# The code a shared set brings along is the package's own; the facts of a run are in the card,
# without their paths.
LEFT_OUT = ("training.json", "dev_grid.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("ship", __doc__)
    parser.add_argument("--set", required=True, type=Path, help="a folder with a set and its card")
    parser.add_argument(
        "--to", type=Path, default=BUILTIN, help="by default the place in the package"
    )
    given = parser.parse_args(arguments)
    return exit_code(lambda: print(ship(given.set, given.to)))


def ship(folder: Path, to: Path) -> str:
    """Copy the set, see that it loads, and only then put it in the place of the old one."""
    if not (folder / "README.md").is_file():
        raise InputError(
            f"{folder} has no card; write one with hf-simultaneous card {folder} --facts FILE"
        )
    if to.exists() and not is_set(to) and not (to.is_dir() and not any(to.iterdir())):
        raise InputError(
            f"--to {to} holds something else than a set, which would be lost; give a set, an empty "
            f"folder or a new one"
        )
    weights = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
    if weights > LIMIT:
        raise InputError(
            f"the weights in {folder} are {weights:,} bytes; a package takes at most {LIMIT:,}"
        )
    with tempfile.TemporaryDirectory(dir=to.parent) as place:
        beside = Path(place) / to.name
        _copy(folder, beside)
        AdaptiveWaitKGenerator.from_pretrained(str(beside))
        shutil.rmtree(to, ignore_errors=True)
        beside.rename(to)
    return f"{to}: {weights / 2**20:.1f} MiB of weights"


def _copy(folder: Path, to: Path) -> None:
    for path in folder.rglob("*"):
        if path.suffix in (".json", ".safetensors", ".md") and path.name not in LEFT_OUT:
            target = to / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)  # not its permissions: everyone may read what ships
    for path in to.rglob("config.json"):
        config = json.loads(path.read_text(encoding="utf-8"))
        kept = {
            key: value
            for key, value in config.items()
            if key not in ("auto_map", "custom_pipelines")
        }
        path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
