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


PATIENCE = 120.0
CODES = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")
pytestmark = pytest.mark.system


class Terminal:
    """A program at a pseudo-terminal, and what its screen shows."""

    def __init__(self, *options, show=()):
        self.master, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)
        self.output = ""
        self.decoded = codecs.getincrementaldecoder("utf-8")()
        call = "from hf_simultaneous.cli import main; main()"
        self.process = Forked(
            call,
            *("translate", *show, "--k", "1", *options),
            env={"TERM": "xterm", "COLUMNS": "100"},
            streams=(self.slave,) * 3,
        )

    def type(self, keys):
        os.write(self.master, keys.encode())

    def until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition(self.screen()) and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                self.output += self.decoded.decode(os.read(self.master, 65536))
        assert condition(self.screen()), "\n".join(self.screen())

    def screen(self):
        lines, row, column = [""], 0, 0
        for numbers, code, back, down, text in CODES.findall(self.output):
            if code == "A":
                row -= int(numbers or 1)
            elif code == "K":
                lines[row] = ""
            elif back:
                column = 0
            elif down:
                row, column = row + 1, 0
                lines += [""] * (row + 1 - len(lines))
            elif text:
                line = lines[row].ljust(column)
                lines[row] = line[:column] + text + line[column + len(text) :]
                column += len(text)
        return [line.rstrip() for line in lines if line.strip()]

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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_terminal_is_given_back_when_it_is_interrupted(terminal, number, code):
    terminal.until(shows(f"Type away: {READY}"))
    terminal.type("Das Haus ")
    terminal.until(shows("  READ  Das Haus"))
    terminal.process.send_signal(number)
    assert terminal.end() == code
