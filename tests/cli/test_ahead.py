"""Before models are loaded: what is wrong is said without the seconds that torch takes, and who
waits is told so."""

import json
import os
import pty
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hf_simultaneous import sets
from hf_simultaneous.cli import translate
from hf_simultaneous.cli.ahead import check_answers, found_set, waiting_for
from hf_simultaneous.cli.keyboard import say_ready
from hf_simultaneous.cli.requests import TranslateRequest
from tests.forked import free_port


ROOT = Path(__file__).resolve().parents[2]
MISTAKES = {
    "translate --latency nope Haus": "no operating point 'nope'; it has: low, medium, high",
    "translate --policy godot Haus": "full, or FILE.py:NAME; got 'godot'\n",
    "translate --policy waitk Haus": "FILE.py:NAME; got 'waitk'. Did you mean wait-k?",
    "translate --policy adaptiv Haus": "FILE.py:NAME; got 'adaptiv'. Did you mean adaptive?",
    "compare --source a.de --reference a.en --output out --policy top3": "Did you mean top-3?",
    "translate --policy wait-k Haus": "wait-k takes k; got none. Give --k 3",
    "translate --n 3 Haus": "adaptive takes rho; got n=3",
    "translate --rho 2 0 Haus": "a threshold is a probability",
    "translate --k drei Haus": "'--k': it takes a whole number; got 'drei'",
    "translate --rho 0.9 Haus": "'--rho': it takes 2 numbers, FIRST LAST; got 'Haus'",
    "translate --silence bald Haus": "'--silence': it takes a number; got 'bald'",
    "translate --quantize int4 Haus": "quantize must be one of int8, none; got 'int4'",
    "translate --file ./nowhere": "there is no file",
    "translate a.de": "is a file; translate what stands in it with --file",
    "translate --model ./nowhere Haus": "no folder",
    "translate --model . Haus": "holds neither a set",
    "translate --policy ./nowhere.py:x Haus": "there is no file",
    "translate --policy broken.py:x Haus": "broken.py, line 2: ZeroDivisionError",
    "translate --server ws://127.0.0.1:{port} Haus": "nobody answers at ws://127.0.0.1:",
    "translate --from fr Haus": "the built-in set translates de to en; got fr to en. Leave out",
    "serve --port {port} --to fr": "the built-in set translates de to en; got de to fr. Leave out",
    "translate --silence -1 Haus": "--silence is a number of seconds above 0; got -1. Leave it out",
    "translate --server 127.0.0.1:9 Haus": "got '127.0.0.1:9'. Did you mean ws://127.0.0.1:9?",
    "evaluate --source a.de --reference a.en --output out --ensembles top3": (
        "--ensembles is single, top-3 or all; got 'top3'. Did you mean top-3?"
    ),
    "card builtin": "the set in the package stays as it is, and has a card: ",
    "demo --model ./nowhere": "no folder",
    "info ./nowhere": "no folder",
    "app --port 99999": "a port is a number from 1 to 65535; got 99999",
    "app --port {port} --model ./nowhere": "no folder",
    "serve --port 99999": "a port is a number from 1 to 65535; got 99999",
    "serve --port {port} --model ./nowhere": "no folder",
    "serve --port {port} --latency nope": "no operating point 'nope'",
    "evaluate --source ./nowhere --reference a.en --output out": "there is no file",
    "evaluate --source a.de --reference short --output out": "got 2 and 1 in reference 1",
    "evaluate --source a.de --reference a.en --output out --latency nope": "it has: low",
    "evaluate --source a.de --reference a.en --output out --beams 2": "--policy full",
    "compare --source a.de --reference a.en --output out --policy godot": "got 'godot'",
    "compare --source a.de --reference short --output out": "got 2 and 1 in reference 1",
    "calibrate --source a.de --reference a.en": "give --output FOLDER for a copy",
    "calibrate --source ./nowhere --reference a.en --output out": "there is no file",
    "calibrate --source a.de --reference a.en --output out --budget 1": "of 3 or more; got '1'",
    "calibrate --source a.de --reference a.en --output out --limit -1": "1 or more; got -1",
    "calibrate --source a.de --reference a.en --output out --lines 9": "from 1 to 4; got '9'",
    "evaluate --source a.de --reference a.en --output a.de": "a.de is a file; --output is a folder",
    "evaluate --source a.de --reference a.en --output a.de/x": "a.de is a file; --output is a",
    "compare --source a.de --reference a.en --output a.de": "a.de is a file; --output is a folder",
    "calibrate --source a.de --reference a.en --output a.de": "a.de is a file; --output is",
    "calibrate --source a.de --reference a.en --output .": "is not empty; give a new folder",
    "report a.de": "holds no experiment",
    "report ./nowhere": "holds no experiment",
}
ASK = """
import json, sys
from typer.testing import CliRunner
from hf_simultaneous.cli import app

said = []
for arguments in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, arguments)
    said.append((result.exit_code, result.output, sorted({*sys.modules} & {*sys.argv[2:]})))
print(json.dumps(said))
"""


def test_mistakes_are_told_before_anything_slow_is_imported(tmp_path):
    (tmp_path / "a.de").write_text("das Haus\ndie Zeit\n")
    (tmp_path / "a.en").write_text("the house\ntime\n")
    (tmp_path / "short").write_text("the house\n")
    (tmp_path / "broken.py").write_text("x = 1\nx / 0\n")
    asked = [line.format(port=free_port()).split() for line in MISTAKES]
    slow = ["torch", "transformers", "gradio"]
    command = [sys.executable, "-c", ASK, json.dumps(asked), *slow]
    shell = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=shell, timeout=900, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    for (code, said, imported), (line, message) in zip(answers, MISTAKES.items(), strict=True):
        assert (code, imported) == (2, []), line
        assert message in said, line
        assert "Traceback" not in said


def test_the_set_that_ships_has_a_name(tmp_path, monkeypatch):
    assert found_set(None, latency="low", quantize="int8") == str(sets.BUILTIN)
    assert found_set("builtin") == str(sets.BUILTIN)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "builtin").mkdir()
    assert sets.set_or_builtin("builtin") == "builtin", "a folder of that name is meant"


def shown(terminal, size):
    """That many bytes: a terminal passes on what was written when it likes, in parts."""
    text = b""
    while len(text) < size:
        text += os.read(terminal, size - len(text))
    return text


def test_who_watches_is_told_and_the_line_is_taken_back(monkeypatch, capsys):
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        with waiting_for():
            assert shown(master, 22) == b"loading the models ..."
        assert shown(master, 24) == b"\r" + b" " * 22 + b"\r"
        with pytest.raises(ValueError, match="wrong"), waiting_for("looking"):
            raise ValueError("wrong")
        assert shown(master, 24).endswith(b"\r           \r"), "before the error is told"
    os.close(master)
    monkeypatch.undo()
    with waiting_for():
        pass
    assert capsys.readouterr() == ("", ""), "nobody watches a pipe"


def test_one_server_of_several_must_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = f"ws://127.0.0.1:{server.getsockname()[1]}"
        nowhere = f"wss://127.0.0.1:{free_port()}"
        check_answers([nowhere, here])
    with pytest.raises(ConnectionError, match=f"at {nowhere} .Connection refused. or {here} .Conn"):
        check_answers([nowhere, here])
    with pytest.raises(ConnectionError, match=r"at ws://no\.such\.host"):
        check_answers(["ws://no.such.host.invalid"])


def test_german_is_asked_for_where_it_is_understood(capsys):
    server = "ws://127.0.0.1:1"
    for request, known in (({}, True), ({"model": "x"}, False), ({"server": server}, False)):
        assert translate.is_german(TranslateRequest(**request)) is known
    say_ready("German")
    assert capsys.readouterr().err.startswith("Type German: a word counts at the space behind it.")
