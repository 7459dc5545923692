"""A set without code, as the one in the package is, is shared with it, as its card says."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from hf_simultaneous.cli import app
from hf_simultaneous.sharing import hub
from hf_simultaneous.sharing.complete import complete
from tests.babble import save_babbler
from training.ship import _copy


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A set as it is saved, and one as it ships."""
    place = tmp_path_factory.mktemp("sets")
    save_babbler(place / "whole")
    (place / "whole" / "README.md").write_text("# Of ours\n")
    _copy(place / "whole", place / "bare")
    assert not list((place / "bare").rglob("*.py"))
    return place


def contents(upload):
    return {
        path: content if isinstance(content, bytes) else content.read_bytes()
        for path, content in upload.files.items()
    }


def test_it_is_sent_as_if_it_had_been_saved(saved):
    whole, bare = (hub.PushRequest(folder=saved / name, repo="me/x") for name in ("whole", "bare"))
    with complete(bare) as request:
        (upload,) = hub.plan(request)
        sent = contents(upload)
    assert not request.folder.exists()
    expected = contents(hub.plan(whole)[0])
    assert sent.keys() == expected.keys()
    for path in expected:
        given, wanted = sent[path], expected[path]
        if path.endswith(".json"):
            given, wanted = json.loads(given), json.loads(wanted)
        assert given == wanted, path


def test_others_are_sent_as_they_are(saved, tmp_path):
    with complete(hub.PushRequest(folder=saved / "whole", repo="me/x")) as request:
        assert request.folder == saved / "whole"
    shutil.copytree(saved / "bare", tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "adaptive_config.json").rename(tmp_path / "adaptive_config.json")
    alone = hub.PushRequest(folder=tmp_path / "checkpoint", repo="me/x")
    with complete(alone) as request:
        assert request is alone
    empty = hub.PushRequest(folder=tmp_path, repo="me/x")
    with complete(empty) as request:
        assert request is empty


def test_the_set_in_the_package_has_a_name(saved, monkeypatch):
    (saved / "builtin").symlink_to(saved / "bare")
    monkeypatch.setattr("hf_simultaneous.sets.BUILTIN", saved / "builtin")
    named = CliRunner().invoke(app, ["push", "builtin", "--repo", "me/x", "--dry-run"])
    assert named.exit_code == 0, named.output
    assert "custom_generate/generate.py" in named.stdout


def test_a_dry_run_needs_no_hub(saved, monkeypatch):
    """Members have no cards, so that the hub is asked for theirs."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    given = ["push", str(saved / "whole"), "--repo", "me/x", "--separate"]
    dry = CliRunner().invoke(app, [*given, "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert dry.stdout.count("README.md") == 2
    sent = CliRunner().invoke(app, given)
    assert sent.exit_code == 2
    assert "HF_HUB_OFFLINE is set, so nothing can be sent" in sent.stderr
