"""What the page does when events come in an order that nobody planned."""

import gradio as gr
import pytest

from hf_simultaneous.app import gradio_page
from hf_simultaneous.app.gradio_page import _Acts, _Visitor
from tests.babble import babbler


SETTINGS = (["wait-k"], 8, 1, None)
EXAMPLE, TYPED = "Das kleine Boot ", "Das Haus "
QUICK = 1000.0  # words a second


@pytest.fixture(scope="module")
def acts():
    return _Acts(babbler())


@pytest.mark.parametrize("box", [TYPED, ""])  # what was in it when the page arrived
def test_who_types_before_the_page_has_arrived_is_not_overwritten(acts, box):
    visitor = _Visitor()
    shown = acts.typed(TYPED, visitor, *SETTINGS)[0]
    arrived = list(acts.arrived(box, EXAMPLE, visitor, QUICK, *SETTINGS))
    assert [drawn for drawn, _ in arrived] == [shown]


def test_an_example_that_was_asked_for_goes_on_when_the_page_arrives(acts):
    visitor = _Visitor()
    playing = acts.played(TYPED, visitor, QUICK, *SETTINGS)
    next(playing)
    assert list(acts.arrived("", EXAMPLE, visitor, QUICK, *SETTINGS)) == []
    assert list(playing)[-1][0] == acts.finished(TYPED, _Visitor(), *SETTINGS)


def test_what_was_finished_is_not_overwritten_either(acts):
    visitor = _Visitor()
    playing = acts.arrived("", EXAMPLE, visitor, QUICK, *SETTINGS)
    next(playing)
    shown = acts.finished(TYPED, visitor, *SETTINGS)
    assert [drawn for drawn, _ in playing] == [gr.skip()]
    assert acts.rested(TYPED, visitor) == shown
    more = acts.typed(f"{TYPED}Boot ", visitor, *SETTINGS)[0]
    assert more == acts.typed(f"{TYPED}Boot ", _Visitor(), *SETTINGS)[0]


def test_a_text_that_was_in_the_box_on_arrival_is_translated(acts):
    arrived = list(acts.arrived(TYPED, EXAMPLE, _Visitor(), QUICK, *SETTINGS))
    assert [drawn for drawn, _ in arrived] == [acts.typed(TYPED, _Visitor(), *SETTINGS)[0]]


def test_an_empty_box_shows_the_example(acts):
    last = list(acts.arrived("", EXAMPLE, _Visitor(), QUICK, *SETTINGS))[-1][0]
    assert last == acts.finished(EXAMPLE, _Visitor(), *SETTINGS)


def test_what_ends_an_example_has_the_last_word(acts):
    """The example's last picture may reach the page after that of what was typed, so what was typed
    is drawn again."""
    visitor = _Visitor()
    playing = acts.arrived("", EXAMPLE, visitor, QUICK, *SETTINGS)
    next(playing)
    shown = acts.typed(TYPED, visitor, *SETTINGS)[0]
    assert [drawn for drawn, _ in playing] == [gr.skip()]
    assert acts.rested(TYPED, visitor) == shown


def test_the_models_are_warm_before_the_page_is_served(monkeypatch):
    done = []

    class Page:
        def launch(self, **options):
            done.append("served")

    monkeypatch.setattr(gradio_page, "warm_up", lambda generator: done.append("warm"))
    monkeypatch.setattr(gradio_page, "build", lambda generator, examples: Page())
    gradio_page.launch(babbler())
    assert done == ["warm", "served"]
