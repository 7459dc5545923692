"""`docs/policies.md` has a picture of every policy, under options that choose it. What the models
say in them is not tested: `python docs/make_pictures.py` writes it anew."""

import shlex
from dataclasses import fields

import pytest
from typer.main import get_command

from docs.make_pictures import BEGIN, END, PAGE, SENTENCE, SHOWN, with_pictures
from hf_simultaneous.cli import app
from hf_simultaneous.cli.requests import PolicyChoice
from hf_simultaneous.policies import NAMES
from tests.babble import babbler


def drawn() -> list[list[str]]:
    """The lines of each picture on the page."""
    block = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    pictures = block.strip().removeprefix("```").removesuffix("```").strip("\n").split("\n\n")
    return [picture.splitlines() for picture in pictures]


def test_every_policy_has_a_picture():
    named = [options.split()[1] for options in SHOWN if options.startswith("--policy")]
    assert {*named, "adaptive"} == set(NAMES), "the first is the set's own, at an operating point"
    assert [lines[0] for lines in drawn()] == list(SHOWN), "run: python docs/make_pictures.py"


def test_a_picture_shows_the_sentence_what_was_written_and_how_late():
    for _, above, below, lagging in drawn():
        assert above == f"  READ  {SENTENCE}"
        assert below.startswith("  WRITE ")
        assert below.endswith(".")
        assert lagging.startswith("  Average Lagging ")


@pytest.mark.parametrize("options", [one for one in SHOWN if one.startswith("--policy")])
def test_the_options_above_a_picture_choose_its_policy(options):
    command = get_command(app).commands["translate"]
    given = command.make_context("translate", shlex.split(options)).params
    choice = PolicyChoice(**{one.name: given[one.name] for one in fields(PolicyChoice)})
    assert choice.maker()(babbler()) == SHOWN[options]


def test_pictures_are_exchanged_and_the_page_stays():
    assert with_pictures(f"a\n{BEGIN}old\n{END}b\n", "new\n") == f"a\n{BEGIN}new\n{END}b\n"
