"""The examples run as they are shown."""

import json
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
from tests.serving.processes import PATIENCE, ROOT


CUE = re.compile(r"(\d\d):(\d\d):(\d\d\.\d{3}) --> (\d\d):(\d\d):(\d\d\.\d{3})\n(.+)\n")


def test_a_recogniser_revises_only_its_newest_word():
    previous = ""
    for transcript in transcripts(TALK.splitlines()):
        settled = previous.rpartition(" ")[0]
        assert transcript["text"].startswith(settled)
        previous = "" if transcript["final"] else transcript["text"]


def test_subtitles_hold_the_translation_in_order(generator):
    lines = TALK.splitlines()
    told = [json.dumps(transcript) for transcript in transcripts(lines)]
    found = list(cues(told, TextSession(generator)))
    expected = [e.text for line in lines for e in TextSession(generator).stream(line)
                if e.action == "END" and e.text]  # fmt: skip
    assert " ".join(cue.text for cue in found) == " ".join(expected)
    assert all(first.over <= second.start for first, second in pairwise(found))
    assert str(Cue(61.5, 62, "a <b>")) == "00:01:01.500 --> 00:01:03.500\na &lt;b&gt;\n"


def test_deployments_name_what_there_is():
    compose = yaml.safe_load((ROOT / "examples/compose.yaml").read_text())
    assert {"one", "two", "nginx"} == set(compose["services"])
    service = yaml.safe_load((ROOT / "examples/kuberay.yaml").read_text())
    (application,) = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
    known = {field.name for field in fields(Limits)} | {"replicas", "max_replicas", "threads"}
    assert set(application["args"]) <= known
    module, _, name = application["import_path"].partition(":")
    assert f"def {name}(" in (ROOT / f"{module.replace('.', '/')}.py").read_text()


@pytest.mark.system
def test_the_two_are_joined_by_a_pipe(server):
    talk = [sys.executable, "examples/recogniser.py", "--speed", "0"]
    read = [sys.executable, "examples/subtitles.py", "--server", server.url]
    options = {"cwd": ROOT, "timeout": PATIENCE, "capture_output": True, "check": True}
    heard = subprocess.run(talk, **options).stdout
    shown = subprocess.run(read, input=heard, **options).stdout.decode()
    assert shown.startswith("WEBVTT\n\n")
    assert len(CUE.findall(shown)) >= 5
