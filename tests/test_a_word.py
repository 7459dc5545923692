"""`docs/a-word.md` names the files that a word passes, in their order: sends words through and
compares."""

import io
import os
import re
import sys
from pathlib import Path
from types import FrameType

import pytest

import hf_simultaneous
from hf_simultaneous import TextSession
from hf_simultaneous.cli.terminal import PlainView, arriving, follow, play
from tests.babble import babbler


PACKAGE = Path(hf_simultaneous.__file__).parent
PAGE = PACKAGE.parent / "docs" / "a-word.md"


def stations() -> list[list[str]]:
    """The files that each heading of the page names."""
    headings = re.findall(r"^## \d+\. (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.findall(r"`(\S+\.py)`", heading) for heading in headings]


@pytest.fixture(scope="module")
def passed() -> list[str]:
    """The files of the package that are entered between the keyboard and the screen, in order."""
    found: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            found.setdefault(path.relative_to(PACKAGE).as_posix())

    reader, writer = os.pipe()
    os.write(writer, b"Das Haus am 3. Mai ist alt. Und die ")
    os.close(writer)
    out = io.StringIO()
    before = sys.getprofile()
    with TextSession(babbler()) as session, os.fdopen(reader) as pipe:
        sys.setprofile(note)
        try:
            play(follow(session, arriving(pipe.fileno())), PlainView(out))
        finally:
            sys.setprofile(before)
    assert out.getvalue().strip(), "nothing was translated, so nothing is tested"
    return list(found)


def test_the_page_names_the_files_that_a_word_passes(passed):
    named = {file for files in stations() for file in files}
    assert named == set(passed), f"not on the page: {set(passed) - named}"


def test_the_stations_are_in_the_order_in_which_a_word_comes_to_them(passed):
    assert 10 <= len(stations()) <= 14
    first = list(dict.fromkeys(files[0] for files in stations()))
    assert first == sorted(first, key=passed.index)


def test_each_station_names_the_files_it_is_about():
    assert all(files for files in stations())
    assert all((PACKAGE / file).is_file() for files in stations() for file in files)
