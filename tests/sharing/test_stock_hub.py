"""Models of other families by their names on a hub: translated with, calibrated, and named by a set
that holds settings only."""

import json

import pytest

from tests.sharing.test_hub import server as server
from tests.stock_tokenizers import TOKENIZERS, model_for


pytestmark = pytest.mark.system
REPO = "me/tiny-nllb"
LANGUAGES = ("--from", "deu_Latn", "--to", "eng_Latn")
SAY = """
import sys
from hf_simultaneous import AdaptiveWaitKGenerator, TextSession
name, folder = sys.argv[1:]
languages = {"source_language": "deu_Latn", "target_language": "eng_Latn"}
generator = AdaptiveWaitKGenerator.from_pretrained(name, **languages)
session = TextSession(generator, max_new_tokens=7)
print([(event.action, event.text) for event in session.stream("der Hund und".split())])
generator.save_pretrained(folder)
"""
SAY_AGAIN = """
import sys
import hf_simultaneous
from transformers import pipeline
for name in sys.argv[1:]:
    generator = hf_simultaneous.AdaptiveWaitKGenerator.from_pretrained(name)
    for door in (
        hf_simultaneous.TextSession(generator, max_new_tokens=7),
        pipeline("simultaneous-translation", model=name, max_new_tokens=7),
    ):
        events = door.stream("der Hund und".split())
        print([(event.action, event.text) for event in events])
"""


@pytest.fixture(scope="module")
def checkpoint(server, tmp_path_factory):
    """On the hub, as transformers would have pushed it."""
    folder = tmp_path_factory.mktemp("nllb")
    tokenizer = TOKENIZERS["nllb"][0](folder)
    model_for(tokenizer, "m2m_100").float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    pushed = server.push(folder, REPO)
    assert pushed.returncode == 0, pushed.stderr
    return server


def test_a_set_that_names_its_model_holds_settings_only(checkpoint, tmp_path):
    made = checkpoint.run("-c", SAY, REPO, tmp_path)
    assert "WRITE" in made.stdout, made.stderr
    files = {"adaptive_config.json", "config.json"}
    assert {path.name for path in tmp_path.iterdir()} == files
    assert json.loads((tmp_path / "config.json").read_text()) == {"model_type": "simultaneous-set"}
    saved = json.loads((tmp_path / "adaptive_config.json").read_text())
    (place,) = saved["members"].values()
    assert place["repo"] == REPO
    assert len(place["revision"]) == 40
    told = checkpoint.cli("info", tmp_path)
    assert "full" in told.stdout, told.stderr
    pushed = checkpoint.push(tmp_path, "me/settings")
    assert pushed.returncode == 0, pushed.stderr
    (sent,) = checkpoint.repos()["models/me/settings"]["sent"]
    assert set(sent) == {"README.md", *files}
    card = checkpoint.read("me/settings/resolve/main/README.md").decode()
    assert f"base_model:\n- {REPO}\n" in card
    assert f"thresholds and languages for `{REPO}` at `{place['revision']}`" in card
    assert "trust_remote_code" not in card
    # Each by our own door and by that of transformers.
    again = checkpoint.run("-c", SAY_AGAIN, tmp_path, "me/settings")
    assert again.stdout == 4 * made.stdout, again.stderr


def test_the_command_line_takes_a_name_and_two_languages(checkpoint):
    said = checkpoint.cli("translate", "--model", REPO, *LANGUAGES, "--policy", "full", "der Hund")
    assert said.stdout.strip(), said.stderr
    wrong = checkpoint.cli("translate", "--model", REPO, "--to", "eng", "der Hund")
    assert wrong.returncode == 2
    assert "error: target_language must be one of the model's 202 languages" in wrong.stderr
    assert "eng_Latn" in wrong.stderr


def test_thresholds_for_a_model_on_the_hub(checkpoint, tmp_path):
    lines = ["der Hund und die Katze laufen durch das Haus", "das große Haus der Familie ist alt"]
    (tmp_path / "dev").write_text("\n".join(lines * 2) + "\n")
    files = ("--source", tmp_path / "dev", "--reference", tmp_path / "dev", "--quiet")
    folder = tmp_path / "set"
    found = checkpoint.cli(
        "calibrate", "--model", REPO, *LANGUAGES, *files, "--al", "6", "--output", folder
    )
    assert found.returncode == 0, found.stderr
    saved = json.loads((folder / "adaptive_config.json").read_text())
    assert saved["latencies"].keys() == {"al-6"}
    assert saved["thresholds"] == saved["latencies"]["al-6"]
    assert saved["target_language"] == "eng_Latn"
    scored = checkpoint.cli(
        *("evaluate", "--model", folder, "--latency", "al-6", *files, "--output", tmp_path / "out")
    )
    assert "encoder prefix" in scored.stdout, scored.stderr
    again = checkpoint.cli("calibrate", "--model", REPO, *LANGUAGES, *files, "--output", folder)
    assert "is a set already; give it as --model" in again.stderr
