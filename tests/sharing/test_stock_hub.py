"""Models of other families by their names on a hub: translated with, calibrated, and named by a set
that holds settings only."""

import json
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.sharing.test_hub import server as server
from tests.stock_tokenizers import TOKENIZERS, model_for


pytestmark = pytest.mark.system
REPO = "me/tiny-nllb"
LANGUAGES = ("--from", "deu_Latn", "--to", "eng_Latn")
ALL = """
import json, sys
from transformers import pipeline
from typer.testing import CliRunner
from hf_simultaneous import AdaptiveWaitKGenerator, TextSession
from hf_simultaneous.cli import app

name, folder, shared, commands = sys.argv[1:]
said, told = [], []

def say(door):
    events = door.stream("der Hund und".split())
    said.append([(event.action, event.text) for event in events])

def run(arguments):
    result = CliRunner().invoke(app, arguments)
    told.append((arguments, result.exit_code, result.stdout, result.stderr))

languages = {"source_language": "deu_Latn", "target_language": "eng_Latn"}
generator = AdaptiveWaitKGenerator.from_pretrained(name, **languages)
say(TextSession(generator, max_new_tokens=7))
generator.save_pretrained(folder)
run(["info", folder])
run(["push", folder, "--repo", shared])
# Each by our own door and by that of transformers.
for again in (folder, shared):
    say(TextSession(AdaptiveWaitKGenerator.from_pretrained(again), max_new_tokens=7))
    say(pipeline("simultaneous-translation", model=again, max_new_tokens=7))
for arguments in json.loads(commands):
    run(arguments)
print(json.dumps([said, told]))
"""


@dataclass(frozen=True)
class Told:
    """What one process was told that did all of it: a start takes longer than the rest."""

    hub: Any
    folder: Path
    said: list[list[list[str]]]
    info: CompletedProcess
    pushed: CompletedProcess
    translated: CompletedProcess
    wrong: CompletedProcess
    calibrated: CompletedProcess
    scored: CompletedProcess
    again: CompletedProcess


@pytest.fixture(scope="module")
def told(server, tmp_path_factory):
    """The checkpoint is on the hub, as transformers would have pushed it."""
    checkpoint, folder = tmp_path_factory.mktemp("nllb"), tmp_path_factory.mktemp("told")
    tokenizer = TOKENIZERS["nllb"][0](checkpoint)
    model_for(tokenizer, "m2m_100").float().save_pretrained(checkpoint)
    tokenizer.save_pretrained(checkpoint)
    pushed = server.push(checkpoint, REPO)
    assert pushed.returncode == 0, pushed.stderr
    lines = ["der Hund und die Katze laufen durch das Haus", "das große Haus der Familie ist alt"]
    (folder / "dev").write_text("\n".join(lines * 2) + "\n")
    files = ("--source", folder / "dev", "--reference", folder / "dev", "--quiet")
    translate, calibrated = ("translate", "--model", REPO), folder / "calibrated"
    calibrate = ("calibrate", "--model", REPO, *LANGUAGES, *files, "--output", calibrated)
    commands = [
        (*translate, *LANGUAGES, "--policy", "full", "der Hund"),
        (*translate, "--to", "eng", "der Hund"),
        (*calibrate, "--al", "6"),
        (
            "evaluate",
            "--model",
            calibrated,
            "--latency",
            "al-6",
            *files,
            "--output",
            folder / "out",
        ),
        calibrate,
    ]
    given = json.dumps([[*map(str, command)] for command in commands])
    done = server.run("-c", ALL, REPO, folder / "set", "me/settings", given)
    assert done.returncode == 0, done.stderr
    said, results = json.loads(done.stdout)
    return Told(server, folder, said, *(CompletedProcess(*result) for result in results))


def test_a_set_that_names_its_model_holds_settings_only(told):
    made, *again = told.said
    assert "WRITE" in [action for action, _ in made]
    assert again == 4 * [made]
    files = {"adaptive_config.json", "config.json"}
    folder = told.folder / "set"
    assert {path.name for path in folder.iterdir()} == files
    assert json.loads((folder / "config.json").read_text()) == {"model_type": "simultaneous-set"}
    saved = json.loads((folder / "adaptive_config.json").read_text())
    (place,) = saved["members"].values()
    assert place["repo"] == REPO
    assert len(place["revision"]) == 40
    assert "full" in told.info.stdout, told.info.stderr
    assert told.pushed.returncode == 0, told.pushed.stderr
    (sent,) = told.hub.repos()["models/me/settings"]["sent"]
    assert set(sent) == {"README.md", *files}
    card = told.hub.read("me/settings/resolve/main/README.md").decode()
    assert f"base_model:\n- {REPO}\n" in card
    assert f"thresholds and languages for `{REPO}` at `{place['revision']}`" in card
    assert "trust_remote_code" not in card


def test_the_command_line_takes_a_name_and_two_languages(told):
    assert told.translated.stdout.strip(), told.translated.stderr
    assert told.wrong.returncode == 2
    stderr = told.wrong.stderr
    assert "error: target_language must be one of the model's 202 languages" in stderr
    assert "eng_Latn" in stderr


def test_thresholds_for_a_model_on_the_hub(told):
    assert told.calibrated.returncode == 0, told.calibrated.stderr
    saved = json.loads((told.folder / "calibrated" / "adaptive_config.json").read_text())
    assert saved["latencies"].keys() == {"al-6"}
    assert saved["thresholds"] == saved["latencies"]["al-6"]
    assert saved["target_language"] == "eng_Latn"
    assert "encoder prefix" in told.scored.stdout, told.scored.stderr
    assert "is a set already; give it as --model" in told.again.stderr
