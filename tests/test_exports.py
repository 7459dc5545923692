"""The front of the package: names that load when they are asked for, and that type checkers
know."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hf_simultaneous
from hf_simultaneous import evaluation


ROOT = Path(__file__).parent.parent
RIGHT = """
from collections.abc import Iterator

from hf_simultaneous import AdaptiveWaitKGenerator, TextEvent, TextSession, WaitK, evaluate

k: int = WaitK(3).k
generator = AdaptiveWaitKGenerator.from_pretrained()
events: Iterator[TextEvent] = TextSession(generator).push_word("Haus")
encoder: str = evaluate(generator, ["Haus"], ["house"]).encoder
"""
WRONG = """
from hf_simultaneous import WaitK, WaitForGodot

k: str = WaitK(3).k
WaitK("three")
"""


FRONTS = pytest.mark.parametrize(
    "front", [hf_simultaneous, evaluation], ids=lambda one: one.__name__
)


@FRONTS
def test_type_checkers_are_told_of_every_export_and_no_other(front):
    tree = ast.parse(Path(front.__file__).read_text(encoding="utf-8"))
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    told = {alias.asname: node.module for node in block.body for alias in node.names}
    assert told == front._EXPORTS
    assert all(alias.name == alias.asname for node in block.body for alias in node.names)


@FRONTS
def test_every_export_is_there(front):
    assert all(getattr(front, name) is not None for name in front.__all__)
    with pytest.raises(AttributeError, match=f"'{front.__name__}' has no attribute 'Godot'"):
        front.Godot  # noqa: B018


def test_the_room_and_its_function_are_two_things():
    import hf_simultaneous.evaluation as room

    assert hf_simultaneous.evaluate is room.evaluate
    assert hf_simultaneous.calibrate is room.calibrate


def test_the_front_is_light():
    code = """
import sys, hf_simultaneous.evaluation
sys.exit(bool({'torch', 'transformers'} & {*sys.modules}))"""
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=900).returncode == 0


def mypy(*paths):
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "setup.cfg", *paths]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
    ).stdout


def test_what_a_user_writes_is_typed(tmp_path):
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT)
    wrong.write_text(WRONG)
    said = mypy(right, wrong)
    assert "right.py" not in said
    assert 'Module "hf_simultaneous" has no attribute "WaitForGodot"' in said
    assert 'expression has type "int", variable has type "str"' in said
    assert 'Argument 1 to "WaitK" has incompatible type "str"; expected "int"' in said
    assert "Found 3 errors in 1 file (checked 2 source files)" in said
