"""Somebody types at a terminal, a real one: words are translated while they do, Backspace works,
and the terminal is given back as it was."""

import codecs
import os
import pty
import re
import select
import signal
import termios
import time

import pytest

from hf_simultaneous.cli.keyboard import READY
from tests.babble import save_babbler
from tests.forked import Forked
from tests.screen import Screen


PATIENCE = 120.0
pytestmark = pytest.mark.system


class Terminal:
    """A program at a pseudo-terminal, and what its screen shows."""

    def __init__(self, *options, show=(), size=(24, 100)):
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, size)
        self.shown = Screen(*size)
        self.before = termios.tcgetattr(self.slave)
        self.output = ""
        self.decoded = codecs.getincrementaldecoder("utf-8")()
        call = "from hf_simultaneous.cli import main; main()"
        self.process = Forked(
            call,
            *("translate", *show, "--k", "1", *options),
            env={"TERM": "xterm", "COLUMNS": "300"},  # of a shell that was wider
            streams=(self.slave,) * 3,
        )

    def type(self, keys):
        os.write(self.master, keys.encode())

    def until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition(self.screen()) and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                self.output += (new := self.decoded.decode(os.read(self.master, 65536)))
                self.shown.write(new)
        assert condition(self.screen()), "\n".join(self.screen())

    def screen(self):
        return self.shown.lines()

    def resize(self, height, width):
        termios.tcsetwinsize(self.slave, (height, width))
        self.shown.resize(height, width)

    def end(self):
        code = self.process.wait(PATIENCE)
        assert termios.tcgetattr(self.slave) == self.before, "the terminal is as it was"
        return code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_babbler(tmp_path_factory.mktemp("set"))


@pytest.fixture(params=[()])
def terminal(folder, request):
    opened = Terminal("--model", folder, show=request.param)
    yield opened
    opened.process.kill()
    os.close(opened.master)
    os.close(opened.slave)


def shows(start):
    return lambda screen: any(line.startswith(start) for line in screen)


@pytest.mark.parametrize("terminal", [(), ("--show",)], indirect=True)
def test_words_are_translated_while_somebody_types(terminal):
    terminal.until(shows(f"Type away: {READY}"))
    assert "loading" in terminal.output
    assert not shows("loading")(terminal.screen()), "that line is taken back"
    terminal.type("Das Hax")
    terminal.until(shows("  READ  Das Hax"))
    terminal.type("\x7f\x1b[Dus ")
    terminal.until(shows("  READ  Das Haus"))
    terminal.until(lambda screen: any(re.match(r"  WRITE +\w", line) for line in screen))
    terminal.type("läuft\r")
    terminal.until(shows("  Average Lagging"))
    reads = [line for line in terminal.screen() if line.startswith("  READ")]
    assert reads[0] == "  READ  Das Haus läuft"
    assert [line for line in reads[1:] if line != "  READ"] == [], "no stale lines"
    terminal.type("\x04")
    assert terminal.end() == 0


TYPED = "Das kleine Haus am Boot läuft heute nicht alt Und die Katze"


@pytest.fixture
def small(folder):
    opened = Terminal("--model", folder, "--k", "100", size=(6, 30))
    yield opened
    opened.process.kill()
    os.close(opened.master)
    os.close(opened.slave)


def test_a_small_terminal_shows_what_is_new_and_at_the_end_all(small):
    small.until(lambda screen: "Ctrl-C ends." in "".join(screen))
    small.type(f"{TYPED} {TYPED} bald")
    small.until(lambda screen: screen[-2].endswith("bald"))
    small.type("\r")
    small.until(shows("  Average Lagging"))
    reads = [line[8:] for line in small.screen() if line.startswith("  READ")]
    assert " ".join(" ".join(reads).split()) == f"{TYPED} {TYPED} bald"
    by_letter = Screen(6, 30)
    for letter in small.output:
        by_letter.write(letter)
    assert by_letter.lines() == small.screen(), "wherever a read ended"


def test_nothing_stale_stays_when_the_terminal_becomes_narrower(small):
    small.until(lambda screen: "Ctrl-C ends." in "".join(screen))
    small.resize(24, 60)
    small.type(TYPED)
    small.until(lambda screen: screen[-2].endswith("Katze"))
    for width in (40, 17):
        small.resize(24, width)
        small.type("n")
        small.until(lambda screen: screen[-2].endswith("n"))
        reads = [line[8:] for line in small.screen() if line.startswith("  READ")]
        assert "".join(reads).count("Das") == 1
    small.type("\r\x04")
    assert small.end() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_terminal_is_given_back_when_it_is_interrupted(terminal, number, code):
    terminal.until(shows(f"Type away: {READY}"))
    terminal.type("Das Haus ")
    terminal.until(shows("  READ  Das Haus"))
    terminal.process.send_signal(number)
    assert terminal.end() == code
