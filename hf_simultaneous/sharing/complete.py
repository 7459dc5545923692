"""Gives a set the code that travels with it, where it was left out: the set in the package has the
package around it, and needs none until it is shared.

Knows sets on disk; what is sent where is `hub`'s business."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ..members import read_config
from .cards import OURS
from .hub import PushRequest


@contextmanager
def complete(request: PushRequest) -> Iterator[PushRequest]:
    """The same request for a set that has its code: that of one saved anew, if need be."""
    if request.found != "set" or not _lacks_code(request.folder):
        yield request
        return
    from ..generation import AdaptiveWaitKGenerator  # slow, and rarely needed

    with tempfile.TemporaryDirectory() as place:
        AdaptiveWaitKGenerator.from_pretrained(str(request.folder)).save_pretrained(place)
        # All else stays as it was to the byte: weights in half precision, the card.
        given = shutil.ignore_patterns("config.json")
        shutil.copytree(request.folder, place, ignore=given, dirs_exist_ok=True)
        yield replace(request, folder=Path(place))


def _lacks_code(folder: Path) -> bool:
    """Would this set's models need code that its config does not name?"""
    if not (folder / "config.json").exists():
        return False  # `hub` says what is missing
    config = read_config(folder)
    return config.get("model_type") == OURS and "auto_map" not in config
