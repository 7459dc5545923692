"""SimulEval runs our agent from end to end, across the border of two environments, and its AL is
ours."""

import importlib
import json
import subprocess
import sys
import types
from argparse import ArgumentParser
from pathlib import Path

import pytest

from hf_simultaneous import WaitK
from hf_simultaneous.metrics import Metric, Sentence, corpus_latency
from hf_simultaneous.simuleval_server import WholeLines, serve
from hf_simultaneous.text_session import TextSession
from tests.babble import SENTENCES, babbler, save_babbler


ROOT = Path(__file__).resolve().parents[2]
SIMULEVAL = ROOT / ".venv-simuleval" / "bin" / "simuleval"
# Each writes something (SimulEval leaves out a sentence without a word), and the fourth writes two
# words at one moment: one word per action would be noticed.
SOURCES = [
    "Das kleine Boot ist am 3. Mai verkauft",
    *SENTENCES[1:],
    "heute Katze Boot Und",
    "Wir am Haus. Katze Und verkauft! nicht haben",
]
REFERENCES = [
    "The small boat was sold on May 3.",
    "We have not sold the boat",
    "and the cat is running now",
    "today a cat, a boat",
    "We at the house.",
]

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_babbler(tmp_path_factory.mktemp("set"))


def paths(**options):
    """What our own session does with the same words: texts and delays of the finished words."""
    generator, found = babbler(), []
    for source in SOURCES:
        rules = WholeLines(max_tokens=generator.position_limit)
        events = TextSession(generator, sentences=rules, **options).stream(source.split())
        words = [event for event in events if event.action == "WRITE"]
        found.append(([event.text for event in words], [event.delay for event in words]))
    return found


@pytest.mark.skipif(not SIMULEVAL.exists(), reason="no .venv-simuleval: run `make simuleval` first")
def test_simuleval_gives_the_average_lagging_that_we_give(folder, tmp_path):
    for name, rows in (("source", SOURCES), ("target", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    agent = [
        "--agent",
        ROOT / "hf_simultaneous" / "simuleval_agent.py",
        "--engine-python",
        sys.executable,
    ]
    corpus = [
        "--source",
        tmp_path / "source",
        "--target",
        tmp_path / "target",
        "--output",
        tmp_path / "out",
    ]
    metrics = [
        "--quality-metrics",
        "BLEU",
        "--latency-metrics",
        "AL",
        "LAAL",
        "AP",
        "DAL",
        "--no-progress-bar",
    ]
    command = [str(part) for part in (SIMULEVAL, *agent, "--model", folder, *corpus, *metrics)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr

    expected = paths()
    assert any(
        first == second < len(source.split())
        for source, (_, delays) in zip(SOURCES, expected, strict=True)
        for first, second in zip(delays, delays[1:], strict=False)
    ), (
        "nowhere are two words written at one moment: this corpus would not notice one word per "
        "action"
    )
    rows = [
        json.loads(line) for line in (tmp_path / "out" / "instances.log").read_text().splitlines()
    ]
    assert [(row["prediction"].split(), row["delays"]) for row in rows] == expected

    sentences = [
        Sentence(tuple(delays), len(source.split()), len(reference.split()))
        for source, reference, (_, delays) in zip(SOURCES, REFERENCES, expected, strict=True)
    ]
    header, values = (
        line.split() for line in (tmp_path / "out" / "scores.tsv").read_text().splitlines()
    )
    theirs = dict(zip(header, map(float, values), strict=True))
    for name in ("AL", "LAAL", "AP", "DAL"):
        length = {"AL": "reference", "AP": "reference"}.get(name)
        ours = corpus_latency(sentences, Metric(name, length=length, unit="word")).value
        assert theirs[name] == pytest.approx(ours, abs=6e-4), (
            name
        )  # SimulEval rounds to three places


def test_the_server_answers_every_line(folder):
    requests = [
        {"request": "open", "model": folder, "k": 1},
        *({"request": "word", "text": word} for word in SOURCES[0].split()),
        {"request": "flush"},
        {"request": "reset"},
        {"request": "flush"},
    ]
    answers = [json.loads(answer)["events"] for answer in serve(map(json.dumps, requests))]
    assert len(answers) == len(requests)
    assert answers[0] == answers[-1] == []
    written = [
        event["text"] for answer in answers for event in answer if event["action"] == "WRITE"
    ]
    assert written == paths(policy=WaitK(1))[0][0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"request": "open", "model": "/no/such/folder"}', "no folder '/no/such/folder'"),
        ('{"request": "close"}', "request must be one of open, word, flush, reset; got 'close'"),
        (
            '{"request": "word", "text": "Haus"}',
            "the first request is open, with a model; got 'word'",
        ),
        ("nonsense", "JSONDecodeError"),
        ('{"request": "open", "speed": 3}', "unexpected keyword argument 'speed'"),
    ],
)
def test_an_error_is_an_answer_too(line, message):
    (answer,) = serve([line])
    assert message in json.loads(answer)["error"]


@pytest.fixture
def agent_module(monkeypatch):
    """The agent's file where SimulEval is not installed: only the names it imports stand in for
    it."""
    names = {
        "simuleval": {},
        "simuleval.agents": {"TextToTextAgent": object},
        "simuleval.agents.actions": dict.fromkeys(("Action", "ReadAction", "WriteAction"), object),
        "simuleval.utils": {"entrypoint": lambda agent: agent},
    }
    for name, content in names.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    yield importlib.import_module("hf_simultaneous.simuleval_agent")
    del sys.modules["hf_simultaneous.simuleval_agent"]


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ("""echo '{"error": "no such set"}'; cat > /dev/null""", "says: no such set"),
        ("exit 3", "says: it has stopped"),
    ],
)
def test_an_engine_that_fails_is_heard(agent_module, tmp_path, says, message):
    (tmp_path / "python").write_text(f"#!/bin/sh\n{says}\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(RuntimeError, match=message):
        agent_module.Engine(str(tmp_path / "python"), model="set")


def test_the_engine_is_started_and_answers(agent_module, folder):
    engine = agent_module.Engine(sys.executable, model=folder, k=1)
    engine.ask("reset")
    assert [event["action"] for event in engine.ask("word", text="Haus")][0] == "READ"
    assert engine.ask("flush")[-1]["action"] == "END"


def test_simuleval_does_not_take_an_option_of_ours_for_its_own(agent_module):
    """Its parsers know no option of the agent's, and what is short for one of theirs is theirs."""
    theirs = ArgumentParser()
    theirs.add_argument("--latency-metrics", nargs="+")
    given = ["--model", "set", "--operating-point", "low", "--latency-metrics", "AL"]
    known, rest = theirs.parse_known_args(given)
    assert known.latency_metrics == ["AL"]
    ours = ArgumentParser()
    agent_module.SimultaneousAgent.add_args(ours)
    assert ours.parse_args(rest).operating_point == "low"
