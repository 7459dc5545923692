"""Sets are loaded without bars and without warnings of our own default, and what the user had
switched on or off stays so."""

import itertools
from logging import Handler
from pathlib import Path

import pytest
from huggingface_hub import utils as hub
from transformers import pipelines
from transformers.utils import logging

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.quiet import without_bars
from hf_simultaneous.sets import BUILTIN
from tests.babble import save_babbler


@pytest.fixture
def switches():
    """Sets both switches and the verbosity; puts them back after the test."""
    bars, quiet = logging.is_progress_bar_enabled(), hub.are_progress_bars_disabled()
    verbosity = logging.get_verbosity()
    yield turn
    turn(bars, quiet, verbosity)


def turn(bars, hub_quiet, verbosity=logging.WARNING):
    (logging.enable_progress_bar if bars else logging.disable_progress_bar)()
    (hub.disable_progress_bars if hub_quiet else hub.enable_progress_bars)()
    logging.set_verbosity(verbosity)


def state():
    return logging.is_progress_bar_enabled(), hub.are_progress_bars_disabled()


@pytest.mark.parametrize("before", [*itertools.product((True, False), repeat=2)])
def test_the_switches_are_put_back_whatever_happens(switches, before):
    switches(*before)
    with without_bars():
        assert not logging.is_progress_bar_enabled()
    assert state() == before
    with pytest.raises(FileNotFoundError), without_bars():
        Path("/no/such/file").read_bytes()
    assert state() == before


def test_a_set_loads_without_bars_unless_more_is_asked_for(switches, tmp_path, capsys):
    folder = save_babbler(tmp_path)
    switches(True, False)
    capsys.readouterr()
    AdaptiveWaitKGenerator.from_pretrained(folder)
    assert capsys.readouterr().err == ""
    switches(True, False, logging.INFO)
    AdaptiveWaitKGenerator.from_pretrained(folder)
    assert "Loading weights" in capsys.readouterr().err


def test_the_pipeline_of_a_set_is_made_without_a_word(switches, tmp_path, capfd):
    folder = save_babbler(tmp_path)
    switches(True, False)
    capfd.readouterr()
    pipelines.pipeline("simultaneous-translation", model=folder)
    assert capfd.readouterr() == ("", "")


class Said(Handler):
    """What was logged."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


def test_only_the_notice_of_our_own_default_is_left_out(monkeypatch):
    """That it is worded so is seen where a pipeline is made of that default."""
    log, said = pipelines.logger, Said()
    monkeypatch.setattr(log, "handlers", [said])
    for place in (BUILTIN, "some/model"):
        log.warning(f"No model was supplied, defaulted to {place} and revision main.")
    log.warning("Both `device` and `device_map` are specified.")
    assert [message.split()[0] for message in said.messages] == ["No", "Both"]
    assert "some/model" in said.messages[0]
