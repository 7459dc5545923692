"""The examples run as they are shown."""

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from itertools import pairwise

import pytest
import yaml

from examples.recogniser import TALK, transcripts
from examples.subtitles import Cue, cues
from hf_simultaneous import TextSession
from hf_simultaneous.serving import Limits
from hf_simultaneous.serving.ray_front import HAPROXY
from tests.forked import free_port
from tests.serving.processes import PATIENCE, ROOT


CUE = re.compile(r"(\d\d):(\d\d):(\d\d\.\d{3}) --> (\d\d):(\d\d):(\d\d\.\d{3})\n(.+)\n")


def test_a_recogniser_revises_only_its_newest_word():
    previous = ""
    for transcript in transcripts(TALK.splitlines()):
        settled = previous.rpartition(" ")[0]
        assert transcript["text"].startswith(settled)
        previous = "" if transcript["final"] else transcript["text"]


def translations(generator):
    """Of each sentence of the talk for which these models have words."""
    events = (e for line in TALK.splitlines() for e in TextSession(generator).stream(line))
    return [event.text for event in events if event.action == "END" and event.text]


def test_subtitles_hold_the_translation_in_order(generator):
    lines = TALK.splitlines()
    told = [json.dumps(transcript) for transcript in transcripts(lines)]
    found = list(cues(told, TextSession(generator)))
    assert " ".join(cue.text for cue in found) == " ".join(translations(generator))
    assert all(first.over <= second.start for first, second in pairwise(found))
    assert str(Cue(61.5, 62, "a <b>")) == "00:01:01.500 --> 00:01:03.500\na &lt;b&gt;\n"


NONE = "nobody answers at ws://127.0.0.1:{port} (Connection refused); start a server"
TOLD = {
    "recogniser.py nosuch.txt": ("", "nosuch.txt cannot be read as UTF-8 text: [Errno 2] No such"),
    "subtitles.py --server ws://127.0.0.1:{port}": ("plain text\n", "line 1 is not a transcript"),
    "subtitles.py --server  ws://127.0.0.1:{port}": (
        '{"text": "Das Haus", "time": 1.0, "final": true}\n',
        NONE,
    ),
}


@pytest.mark.parametrize("command", TOLD)
def test_what_is_wrong_is_told_in_a_line(command):
    heard, message = TOLD[command]
    port = free_port()
    given = [sys.executable, *f"examples/{command}".format(port=port).split()]
    shell = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        given, cwd=ROOT, env=shell, input=heard, timeout=PATIENCE, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert message.format(port=port) in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("line", ["", "[]", "3", '{"text": "Haus"}', "plain"])
def test_a_line_that_is_no_transcript_is_named(generator, line):
    with pytest.raises(
        ValueError, match=r"line 1 is not a transcript: got '.* Each line is a JSON"
    ):
        list(cues([line], TextSession(generator)))


def test_a_recogniser_stops_where_nobody_listens():
    talk = [sys.executable, "examples/recogniser.py", "--speed", "0"]
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as nobody:
        done = subprocess.run(
            talk, cwd=ROOT, timeout=PATIENCE, stdout=nobody, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_deployments_name_what_there_is():
    compose = yaml.safe_load((ROOT / "examples/compose.yaml").read_text())
    assert {"one", "two", "nginx"} == set(compose["services"])
    front, service = yaml.safe_load_all((ROOT / "examples/kuberay.yaml").read_text())
    assert front["data"] == HAPROXY, "as in a cluster that is started here"
    cluster = service["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        assert container["envFrom"] == [{"configMapRef": {"name": front["metadata"]["name"]}}]
    (application,) = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
    known = {field.name for field in fields(Limits)} | {"replicas", "max_replicas", "threads"}
    assert set(application["args"]) <= known
    module, _, name = application["import_path"].partition(":")
    assert f"def {name}(" in (ROOT / f"{module.replace('.', '/')}.py").read_text()


@pytest.mark.system
def test_the_two_are_joined_by_a_pipe(server, generator):
    talk = [sys.executable, "examples/recogniser.py", "--speed", "0"]
    read = [sys.executable, "examples/subtitles.py", "--server", server.url]
    options = {"cwd": ROOT, "timeout": PATIENCE, "capture_output": True, "check": True}
    heard = subprocess.run(talk, **options).stdout
    shown = subprocess.run(read, input=heard, **options).stdout.decode()
    assert shown.startswith("WEBVTT\n\n")
    assert len(translations(generator)) > 2
    assert len(CUE.findall(shown)) >= len(translations(generator)), "each sentence has a cue"
