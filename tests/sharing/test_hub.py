"""There and back through a hub: what `push` sends, and that it loads by name, with this package and
without it.

The hub is `hub_server.py`, a process of its own on loopback; huggingface_hub talks to it as it
would to the real one."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from transformers import pipeline

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.pipelines import TASK
from hf_simultaneous.sharing import hub
from hf_simultaneous.sharing.hub import PushRequest
from tests.babble import SENTENCES, babbler
from tests.hub_server import TOKEN


pytestmark = pytest.mark.system
ROOT = Path(__file__).resolve().parents[2]
TEXT = SENTENCES[1]
DECODING = {"max_new_tokens": 12, "early_stop": False}


class Hub:
    """The server, and what a user's shell looks like beside it."""

    def __init__(self, url: str, home: Path):
        self.url = url
        foreign = re.compile("HF_(?!SIMULTANEOUS_)")
        self.shell = {
            **{name: value for name, value in os.environ.items() if not foreign.match(name)},
            **{
                "HF_ENDPOINT": url,
                "HF_TOKEN": TOKEN,
                "HF_HOME": str(home),
                "HF_HUB_DISABLE_XET": "1",
            },
            **{
                "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                "HF_HUB_DISABLE_TELEMETRY": "1",
                "COLUMNS": "200",
            },
        }

    def run(self, *command, cwd=ROOT, **settings):
        shell = {**self.shell, **settings}
        return subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=cwd,
            env=shell,
            capture_output=True,
            text=True,
            timeout=900,
        )

    def cli(self, *arguments, **settings):
        return self.run(
            "-c", "from hf_simultaneous.cli import main; main()", *arguments, **settings
        )

    def push(self, folder, repo, *options, **settings):
        return self.cli("push", folder, "--repo", repo, *options, **settings)

    def repos(self):
        with urllib.request.urlopen(f"{self.url}/test/repos") as answer:
            return json.load(answer)

    def read(self, path):
        asked = urllib.request.Request(
            f"{self.url}/{path}", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        with urllib.request.urlopen(asked) as answer:
            return answer.read()

    def cut(self):
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/test/cut", method="POST"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with subprocess.Popen(
        [sys.executable, ROOT / "tests" / "hub_server.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Hub(process.stdout.readline().strip(), tmp_path_factory.mktemp("home"))
        process.stdin.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A set as it may lie on somebody's disk, among what is nobody else's business."""
    folder = tmp_path_factory.mktemp("disk") / "set"
    babbler().save_pretrained(str(folder))
    facts = {"seed": 1, "config": {"data": {"train": ["/home/me/train.de"]}}}
    for name in (
        ".env",
        "token",
        "train.log",
        "run.json",
        "optimizer.pt",
        "notes.txt",
        "pytorch_model.bin",
        "tool.py",
    ):
        (folder / name).write_text("secret")
        (folder / "wait-1" / name).write_text("secret")
    for name in (
        "checkpoints/step-5/model.safetensors",
        ".cache/config.json",
        "wait-7/config.json",
        "out/scores.json",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("secret")
    (folder / "card.yaml").write_text(
        "licence: cc-by-2.0\nsource_language: de\ntarget_language: en\n"
    )
    (folder / "training.json").write_text(json.dumps(facts))
    return folder


def listed(text):
    """`{repository: {path: size}}` of a dry run."""
    found, files = {}, {}
    for line in text.splitlines():
        if head := re.fullmatch(r"(\S+) \((\w+)\): .*", line):
            files = found[f"{head[2]}s/{head[1]}"] = {}
        elif row := re.fullmatch(r" +([\d,]+)  (\S+)", line):
            files[row[2]] = int(row[1].replace(",", ""))
    return found


@pytest.fixture(scope="module")
def pushed(server, folder):
    """The set in one repository and in several, each after a dry run; returns what those said."""
    said = {}
    for repo, options in (("me/set", ()), ("me/apart", ("--separate", "--space"))):
        dry = server.push(folder, repo, *options, "--dry-run")
        assert dry.returncode == 0, dry.stderr
        assert dry.stdout.endswith("nothing was sent\n")
        assert not any(repo in name for name in server.repos())
        done = server.push(folder, repo, *options)
        assert done.returncode == 0, done.stderr
        said[repo] = (listed(dry.stdout), done.stdout.split())
    return said


def test_a_dry_run_lists_exactly_what_is_sent(server, pushed):
    repos = server.repos()
    for dry, places in pushed.values():
        for name, files in dry.items():
            assert repos[name]["sent"] == [files], "one commit, of these files and sizes"
        assert places == [f"{server.url}/{name.removeprefix('models/')}" for name in dry]
    assert set(pushed["me/apart"][0]) == {
        "models/me/apart-wait-1",
        "models/me/apart",
        "spaces/me/apart",
    }


def test_nothing_else_in_the_folder_is_sent(server, pushed, folder):
    sent = {
        f"{name}/{path}"
        for name, repo in server.repos().items()
        for files in repo["sent"]
        for path in files
    }
    allowed = (
        r"(README\.md|.*config\.json|tokenizer\.json|model\.safetensors|requirements\.txt|\w+\.py)"
    )
    assert all(
        re.fullmatch(rf"(custom_generate/|wait-1/)?{allowed}", path.split("/", 3)[3])
        for path in sent
    )
    assert not any(path.endswith("tool.py") for path in sent)
    assert (
        server.read("me/set/resolve/main/model.safetensors")
        == (folder / "model.safetensors").read_bytes()
    )


def test_a_set_apart_names_the_commits_of_its_members(server, pushed):
    members = json.loads(server.read("me/apart/resolve/main/adaptive_config.json"))["members"]
    commit = server.repos()["models/me/apart-wait-1"]["commits"][-1]
    assert members == {"1": {"repo": "me/apart-wait-1", "revision": commit}, "3": {"folder": "."}}


def test_cards_go_along_under_their_names(server, pushed):
    card = server.read("me/set/resolve/main/README.md").decode()
    assert 'AdaptiveWaitKGenerator.from_pretrained("me/set")' in card
    assert "license: cc-by-2.0" in card
    assert "user/name" not in card
    assert (
        'from_pretrained("me/apart-wait-1"'
        in server.read("me/apart-wait-1/resolve/main/README.md").decode()
    )
    space = server.read("spaces/me/apart/resolve/main/app.py").decode()
    assert '"SIMULTANEOUS_SET", "me/apart"' in space
    compile(space, "app.py", "exec")
    assert server.repos()["spaces/me/apart"]["sdk"] == "gradio"


LOAD = """
import json, os, sys
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

torch.set_num_threads(1)
text, decoding, first, again = json.loads(sys.argv[1])


class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hf_simultaneous":
            raise ImportError(name + " is not installed")


def load(name, trust):
    inputs = AutoTokenizer.from_pretrained(name, **trust)([text], return_tensors="pt")
    model = AutoModelForSeq2SeqLM.from_pretrained(name, **trust)
    where = {"subfolder": "wait-1"} if name == "me/set" else {}
    place = name if where else f"{name}-wait-1"
    member = AutoModelForSeq2SeqLM.from_pretrained(place, **where, **trust)
    options = {"wait_k": 2, "max_new_tokens": 12}
    found = [
        type(one).generate(one, **inputs, **options).tolist() for one in (model, member)
    ]
    trusted = {"custom_generate": name, "trust_remote_code": True}
    found.append(model.generate(**inputs, **trusted, **decoding).tolist())
    translate = pipeline("simultaneous-translation", model=name, device="cpu", **trust)
    found.append(translate(text)["translation_text"])
    return found


def without():
    sys.meta_path.insert(0, Gone())
    try:
        AutoModelForSeq2SeqLM.from_pretrained("me/set", trust_remote_code=False)
    except ValueError as error:
        assert "trust_remote_code" in str(error) or "simultaneous-mt" in str(error), error
    else:
        raise SystemExit("code of the repository was run without trust")
    return [load(name, {"trust_remote_code": True}) for name in ("me/set", "me/apart")]


def with_us():
    from hf_simultaneous import AdaptiveWaitKGenerator

    found = [load(name, {}) for name in ("me/set", "me/apart")]
    ids = AutoTokenizer.from_pretrained("me/set")([text]).input_ids
    places = (
        ("me/set", {"revision": first}), ("me/apart", {}), ("me/many", {"subfolder": "de-en"})
    )
    for name, options in places:
        generator = AdaptiveWaitKGenerator.from_pretrained(name, **options)
        found.append(generator.generate(ids, **decoding).tolist())
    if again:
        found.append(generator.push_to_hub(again, private=True))
    return found


# Each in a process of its own, which need not import transformers again.
for job in (without, with_us):
    reader, writer = os.pipe()
    if not os.fork():
        os.write(writer, json.dumps(job()).encode())
        os._exit(0)
    os.close(writer)
    print(os.fdopen(reader).read(), flush=True)
    if os.wait()[1]:
        raise SystemExit(f"{job.__name__} failed")
"""


def test_the_same_words_in_another_process_with_and_without_us_online_and_offline(
    server, pushed, folder, tmp_path
):
    generator = AdaptiveWaitKGenerator.from_pretrained(folder)
    ids = generator.tokenizer([TEXT], return_tensors="pt").input_ids
    whole = [
        generator.models[k].generate(ids, wait_k=2, max_new_tokens=12).tolist() for k in (3, 1)
    ]
    adaptive = generator.generate(ids, **DECODING).tolist()
    assert len(adaptive[0]) == 13
    # A repository that holds several sets.
    _add(
        server, "me/many", {f"de-en/{path.relative_to(folder)}": path for path in _members(folder)}
    )
    first = server.repos()["models/me/set"]["commits"][1]
    pipe = pipeline(TASK, model=str(folder), device="cpu")
    loaded = [*whole, adaptive, pipe(TEXT)["translation_text"]]
    for offline in ("0", "1"):
        again = "" if offline == "1" else "me/again"
        job = json.dumps([TEXT, DECODING, first, again])
        done = server.run(
            "-c", LOAD, job, cwd=tmp_path, HF_HUB_OFFLINE=offline, PYTHONPATH=str(ROOT)
        )
        assert done.returncode == 0, done.stderr[-3000:]
        without, with_us = map(json.loads, done.stdout.splitlines())
        assert without == [loaded, loaded]
        assert with_us[:5] == [loaded, loaded, adaptive, adaptive, adaptive]
    assert not server.repos()["models/me/set"]["private"]
    assert server.repos()["models/me/again"]["private"]
    weights = server.read("me/again/resolve/main/wait-1/model.safetensors")
    assert weights == (folder / "wait-1" / "model.safetensors").read_bytes()


def _members(folder):
    names = (
        "adaptive_config.json",
        "tokenizer*.json",
        "*config.json",
        "model.safetensors",
        "wait-1/*config.json",
    )
    return {path for name in (*names, "wait-1/model.safetensors") for path in folder.glob(name)}


def _add(server, repo, files):
    """Send files as they are, not as `push` would."""
    code = """
import json, sys
from huggingface_hub import CommitOperationAdd, create_commit, create_repo
repo, files = sys.argv[1], json.loads(sys.argv[2])
create_repo(repo, exist_ok=True)
added = [CommitOperationAdd(path, source) for path, source in files.items()]
create_commit(repo, added, commit_message="more")
"""
    done = server.run(
        "-c", code, repo, json.dumps({path: str(source) for path, source in files.items()})
    )
    assert done.returncode == 0, done.stderr


def test_what_is_there_already_is_not_sent_again(server, pushed, folder):
    before = server.repos()["models/me/set"]["commits"]
    assert server.push(folder, "me/set").returncode == 0
    assert server.repos()["models/me/set"]["commits"] == before


def test_an_upload_cut_in_the_middle_leaves_the_old_revision_whole(
    server, pushed, folder, tmp_path
):
    changed = tmp_path / "set"
    shutil.copytree(folder, changed)
    (changed / "README.md").write_text("---\nlicense: mit\n---\nMine.\n")
    before = server.repos()["models/me/set"]
    server.cut()
    done = server.push(changed, "me/set")
    assert done.returncode == 2
    assert "what me/set held is unchanged. Try again" in done.stderr
    assert server.repos()["models/me/set"] == before
    assert server.push(changed, "me/set").returncode == 0
    assert server.read("me/set/resolve/main/README.md").endswith(b"Mine.\n")
    assert (
        server.push(folder, "me/set").returncode == 0
    )  # there is no card in this folder now, and one on the hub
    assert server.read("me/set/resolve/main/README.md").endswith(b"Mine.\n"), "an edited card stays"


def test_a_checkpoint_and_a_metric(server, folder, tmp_path):
    done = server.push(folder, "me/wait-3", "--kind", "checkpoint", "--private")
    assert done.returncode == 0, done.stderr
    repo = server.repos()["models/me/wait-3"]
    assert repo["private"]
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} < set(
        repo["sent"][0]
    )
    assert "adaptive_config.json" not in repo["sent"][0]
    module = ROOT / "hub_cards" / "metrics" / "simultaneous_latency"
    assert server.push(module, "me/simultaneous_latency").returncode == 0
    sent = server.repos()["spaces/me/simultaneous_latency"]["sent"]
    assert [set(files) for files in sent] == [
        {"README.md", "requirements.txt", "simultaneous_latency.py"}
    ]


@pytest.mark.parametrize(
    ("repo", "settings", "message"),
    [
        ("you/new", {}, r"does not let you write to you/new \(403\)"),
        ("me/api", {}, r"the hub refused me/api \(400\): no"),
        (
            "me/new",
            {"HF_TOKEN": "hf_wrong"},
            r"does not let you write to me/new \(401\): log in with `hf auth login`",
        ),
        ("me/new", {"HF_ENDPOINT": "http://127.0.0.1:9"}, "the connection to the hub failed"),
        ("me/new", {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set, so nothing can be sent"),
    ],
)
def test_what_the_hub_or_the_network_refuses_is_said_in_a_line(
    server, folder, repo, settings, message
):
    done = server.push(folder, repo, **settings)
    assert done.returncode == 2
    assert re.match(rf"error: .*{message}", done.stderr), done.stderr
    assert "Traceback" not in done.stderr


def test_what_the_hub_does_not_accept_is_said_in_a_line(server, pushed, folder, tmp_path):
    public = server.push(folder, "me/set", "--private")
    assert (public.returncode, public.stderr.split(";")[0]) == (
        2,
        "error: me/set is there already and public",
    )
    changed = tmp_path / "set"
    shutil.copytree(folder, changed)
    (changed / "README.md").write_text("---\nlicense: All Mine!\n---\n")
    refused = server.push(changed, "me/card")
    assert refused.returncode == 2
    assert '"license" must be an identifier of the hub; got All Mine!' in refused.stderr
    assert server.repos()["models/me/card"]["sent"] == []


# What is refused before the hub is asked


def refused(folder, message, repo="me/set", error=ValueError, **options):
    with pytest.raises(error, match=message):
        hub.plan(PushRequest(folder=Path(folder), repo=repo, **options))


def test_requests_that_make_no_sense(folder, tmp_path):
    module = ROOT / "hub_cards" / "metrics" / "simultaneous_latency"
    refused(tmp_path / "none", "no folder '.*none'; give that of a set", error=FileNotFoundError)
    refused(tmp_path, r"holds no set \(adaptive_config.json\), no checkpoint .* and no metric")
    refused(folder, "a kind is one of set, checkpoint, metric; got 'poem'", kind="poem")
    refused(
        folder, "a repository is user/name, with your own name on the hub; got 'set'", repo="set"
    )
    refused(folder, "a repository is user/name; got 'me/a set'", repo="me/a set")
    refused(module, "--separate is for the members of a set", separate=True)
    refused(module, "--space shows a set or a checkpoint", space=True)
    refused(module, "--repo must be user/simultaneous_latency; got 'me/set'")
    refused(
        tmp_path,
        "is not a metric: it needs",
        f"me/{tmp_path.name}",
        error=FileNotFoundError,
        kind="metric",
    )
    (tmp_path / "config.json").write_text("{}")
    refused(tmp_path, "it needs config.json and model.safetensors", error=FileNotFoundError)


def test_a_set_that_leads_elsewhere_is_not_sent(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "set")
    config = tmp_path / "set" / "adaptive_config.json"
    saved = json.loads(config.read_text())
    (tmp_path / "set" / "README.md").write_text("mine")
    for place, message in (
        ({"folder": "../set/wait-1"}, "below the set's own"),
        (["wait-1"], "a member is a folder"),
    ):
        config.write_text(json.dumps({**saved, "members": {**saved["members"], "1": place}}))
        refused(tmp_path / "set", message)
    config.write_text("{}")
    refused(tmp_path / "set", "is not a set's config")
    config.write_text(json.dumps(saved))
    weights = tmp_path / "set" / "wait-1" / "model.safetensors"
    weights.unlink()
    refused(tmp_path / "set", "wait-1 is not a checkpoint", error=FileNotFoundError)
    weights.symlink_to(folder / "wait-1" / "model.safetensors")
    refused(tmp_path / "set", "model.safetensors is linked from outside")
