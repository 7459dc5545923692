"""`--policy FILE.py:NAME`: a policy of the user's own on the command line, and what is said when it
is not one. And requests, which commands take as options."""

import json
import re
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hf_simultaneous import WaitK
from hf_simultaneous.cli import app
from hf_simultaneous.cli.own_policy import load_policy
from hf_simultaneous.cli.parameters import taken_apart
from hf_simultaneous.cli.requests import PolicyChoice
from tests.babble import SENTENCES, save_babbler


MINE = '''
from dataclasses import dataclass

from hf_simultaneous import Read, Write, WaitK

from beside import K


def policy(state, predict):
    """Wait-2, by hand."""
    if not state.source_ended and state.lag < K:
        return Read()
    return Write(predict(K).token)


@dataclass(frozen=True)
class Waiting:
    k: int

    def __call__(self, state, predict):
        return WaitK(self.k)(state, predict)


waiting = Waiting(2)
number = 3


def lost(state, predict):
    return "read"


def slips(state, predict):
    return Read() if not state.source else state.nothing


def asks(state, predict):
    return Read() if not state.source else Write(predict(0).token)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = Path(save_babbler(tmp_path_factory.mktemp("set")))
    (folder / "mine.py").write_text(MINE)
    (folder / "beside.py").write_text("K = 2\n")
    (folder / "broken.py").write_text("x = 1\n\ny = x / 0\n")
    (folder / "wrong.py").write_text("x = 1\ndef policy(:\n")
    (folder / "source").write_text("\n".join(SENTENCES))
    (folder / "reference").write_text("\n".join(SENTENCES))
    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("name", ["policy", "waiting"])
def test_a_function_or_a_value_of_a_file_is_a_policy(folder, name):
    given = ["translate", "--model", folder, SENTENCES[0], "--policy"]
    mine = run(*given, f"{folder}/mine.py:{name}")
    assert (mine.exit_code, mine.stdout) == (0, run(*given, "wait-k", "--k", 2).stdout)


def test_a_file_beside_the_work_is_found_by_its_name(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert load_policy("mine.py:waiting").k == 2


def evaluate(folder, *options):
    files = ["--source", folder / "source", "--reference", folder / "reference"]
    return run("evaluate", *files, "--model", folder, "--output", folder / "out", *options)


def test_scores_name_it_and_know_it_by_what_is_in_the_file(folder):
    given = ["--policy", f"{folder}/mine.py:policy"]
    assert evaluate(folder, *given).exit_code == 0
    scores = json.loads((folder / "out/scores.json").read_text())
    assert scores["policy"] == "policy"
    assert len(scores["settings"]["file"]) == 64
    assert evaluate(folder, *given).exit_code == 0, "the same"
    (folder / "mine.py").write_text(MINE + "\n# changed\n")
    assert "holds a result of other settings" in evaluate(folder, *given).stderr
    assert evaluate(folder, *given, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nowhere.py:policy", [], "there is no file {}/nowhere.py; a policy of your own is named"),
        ("mine.py", [], "is named as FILE.py:NAME, such as mine.py:policy; got '{}/mine.py'"),
        ("mine.py:", [], "is named as FILE.py:NAME, such as mine.py:policy; got"),
        ("mine.txt:x", [], "is named as FILE.py:NAME, such as mine.py:policy; got"),
        ("mine.py:polizei", [], "{}/mine.py has no 'polizei'"),
        ("mine.py:number", [], "mine.py:number is not a policy: 3. A policy is called with"),
        ("mine.py:Waiting", [], "of a class, name an object that was made"),
        ("broken.py:policy", [], "{}/broken.py, line 3: ZeroDivisionError: division by zero"),
        ("wrong.py:policy", [], "{}/wrong.py, line 2: SyntaxError: "),
        ("mine.py:policy", ["--k", "3"], "takes no options; leave out --k, and set it in the file"),
        ("mine.py:policy", ["--latency", "low"], "leave out --rho, --k and --policy"),
        ("mine.py:policy", ["--server", "ws://x:1"], "takes policies by name"),
    ],
)
def test_what_is_not_a_policy_is_named(folder, name, options, message):
    if "--server" not in options:
        options = [*options, "--model", folder]
    result = run("translate", "Haus", "--policy", f"{folder}/{name}", *options)
    assert result.exit_code == 2
    assert message.format(folder) in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lost", r"a policy returns Read\(\) or Write\(token\); .* returned 'read'"),
        ("slips", r".*/mine\.py, line 33: AttributeError: .* has no attribute 'nothing'"),
        ("asks", "k must be 1 to 1, the current lag, while the source is open; got 0"),
    ],
)
def test_a_policy_that_fails_is_told_in_a_line(folder, name, message):
    given = ["--model", folder, "--policy", f"{folder}/mine.py:{name}"]
    live, corpus = run("translate", "Haus am Boot", *given), evaluate(folder, *given, "--force")
    for result in (live, corpus):
        assert result.exit_code == 2
        assert re.fullmatch(f"error: {message}", result.stderr.splitlines()[-1])
        assert "Traceback" not in result.stderr


def test_a_choice_alone_is_the_policy_of_the_set(generator):
    assert PolicyChoice().maker()(generator) == generator.policy
    assert PolicyChoice(k=3).maker()(generator) == WaitK(3)


@pytest.fixture(scope="module")
def generator(folder):
    from hf_simultaneous import AdaptiveWaitKGenerator

    return AdaptiveWaitKGenerator.from_pretrained(folder)


@dataclass(frozen=True)
class Inner:
    left: int
    right: str = "r"


@dataclass(frozen=True)
class Outer:
    first: float
    inner: Inner
    last: bool = False


def test_a_request_is_taken_apart_and_put_together():
    seen = []

    def command(request: Outer, loud: bool = True) -> None:
        """Its help."""
        seen.append((request, loud))

    flat = taken_apart(command)
    defaults = {name: one.default for name, one in signature(flat).parameters.items()}
    needed = Parameter.empty
    assert defaults == {
        "first": needed,
        "left": needed,
        "right": "r",
        "last": False,
        "loud": True,
    }
    assert flat.__doc__ == "Its help."
    flat(first=0.5, left=1, right="x", last=True, loud=False)
    assert seen == [(Outer(0.5, Inner(1, "x"), last=True), False)]
