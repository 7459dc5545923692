"""A pipe: words written one by one come out translated before standard input closes, and the times
prove it."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from hf_simultaneous import WaitK
from hf_simultaneous.text_session import TextSession
from tests.babble import SENTENCES, babbler, save_babbler
from tests.forked import ROOT, Forked
from tests.guard import PATIENCE


MAIN = "from hf_simultaneous.cli import main; main()"
pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_babbler(tmp_path_factory.mktemp("set"))


def start(folder, *options):
    command = [sys.executable, "-c", MAIN, "translate", "--model", folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, *options], cwd=ROOT, bufsize=0, **pipes)


def words(text, **options):
    return [
        str(event)
        for event in TextSession(babbler(), **options).stream(text)
        if event.action == "WRITE"
    ]


class Clock(threading.Thread):
    """Reads a pipe and notes when each piece of it came."""

    def __init__(self, pipe):
        super().__init__(daemon=True)
        self.pipe, self.came = pipe, []
        self.start()

    def run(self):
        while piece := os.read(self.pipe.fileno(), 65536):
            self.came.append((time.monotonic(), piece))

    @property
    def text(self):
        return b"".join(piece for _, piece in self.came).decode()

    def wait_for(self, text, seconds=PATIENCE):
        until = time.monotonic() + seconds
        while not self.text.startswith(text) and time.monotonic() < until:
            time.sleep(0.01)
        return time.monotonic()


def test_words_come_out_before_the_next_goes_in(folder):
    process = start(folder, "--k", "1")
    clock, expected, sent = Clock(process.stdout), "", []
    session = TextSession(babbler(), policy=WaitK(1))
    for word in SENTENCES[1].split():
        sent.append(time.monotonic())
        process.stdin.write(f"{word} ".encode())
        expected += "".join(
            str(event) for event in session.push_word(word) if event.action == "WRITE"
        )
        clock.wait_for(expected)
        assert clock.text.startswith(expected), (
            "the next word is not sent before this one is translated"
        )
    assert expected
    closed = time.monotonic()
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    clock.join(PATIENCE)
    before = b"".join(piece for when, piece in clock.came if when < sent[-1]).decode()
    assert len(before.split()) >= 3, "words were there before the last word was even sent"
    assert (
        b"".join(piece for when, piece in clock.came if when < closed).decode().startswith(expected)
    )
    assert clock.text == "".join(words(SENTENCES[1], policy=WaitK(1))) + "\n"


def test_control_c_leaves_no_traceback(folder):
    process = Forked(MAIN, "translate", "--model", folder, "--k", "1")
    clock = Clock(process.stdout)
    process.stdin.write(b"Das kleine Haus am Boot ")
    first = words("Das kleine Haus am Boot", policy=WaitK(1))[0]
    clock.wait_for(first)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    assert process.stderr.read() == ""


@pytest.mark.parametrize("command", ["demo", "info", "translate"])
def test_a_closed_pipe_leaves_no_traceback(folder, command):
    arguments = {"demo": ["--model", folder], "info": [folder]}
    more = arguments.get(command, ["--model", folder, "--show", SENTENCES[0]])
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", MAIN, command, *more],
        cwd=ROOT,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=900,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
