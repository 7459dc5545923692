"""`hf-simultaneous compare`: several policies on one corpus, with what the package alone brings."""

import csv
import json

import pytest
from typer.testing import CliRunner

from hf_simultaneous import AdaptiveWaitKGenerator, linear_thresholds
from hf_simultaneous.cli import app
from hf_simultaneous.cli.compare import usual
from hf_simultaneous.evaluation.experiment import settings_of
from hf_simultaneous.schedule import FULL
from tests.stock_tokenizers import TOKENIZERS, model_for
from tests.tiny import TALKATIVE, tiny_model


POINTS = {"early": linear_thresholds(0.2, 0.0, 1, 2), "late": linear_thresholds(1.0, 0.9, 1, 2)}
MINE = """
from hf_simultaneous import WaitK

mine = WaitK(2)
"""


@pytest.fixture(scope="module")
def models(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    members = {
        k: tiny_model(seed=seed, encoder_attention="causal", **TALKATIVE)
        for seed, k in enumerate((1, 2, FULL), start=1)
    }
    rhos = linear_thresholds(0.9, 0.1, 1, 2)
    whole = AdaptiveWaitKGenerator(members, tokenizer, rhos, latencies=POINTS)
    whole.save_pretrained(folder / "set")
    del members[FULL]
    AdaptiveWaitKGenerator(members, tokenizer, rhos).save_pretrained(folder / "small")
    return folder


@pytest.fixture
def folder(models, tmp_path):
    (tmp_path / "a.de").write_text("w3 w4\nw5 w6 w7\nw8\n")
    (tmp_path / "a.en").write_text("w4 w3\nw7 w6\nw8\n")
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.py").write_text(MINE)
    return tmp_path


def compare(models, folder, *options, name="set", quiet=True):
    files = ["--source", folder / "a.de", "--reference", folder / "a.en"]
    given = [*files, "--output", folder / "out", "--model", models / name, *options]
    asked = [*map(str, given), *(["--quiet"] if quiet else [])]
    return CliRunner().invoke(app, ["compare", *asked])


def rows(folder):
    text = (folder / "out" / "report" / "scores.csv").read_text().splitlines()
    return [(row["method"], row["setting"]) for row in csv.DictReader(text)]


def test_by_default_the_set_as_it_ships_is_compared_with_wait_k_and_full_sentences(models, folder):
    outcome = compare(models, folder)
    assert outcome.exit_code == 0, outcome.output
    assert rows(folder) == [
        *[("adaptive", point) for point in POINTS],
        *[("wait-k", f"k={k}") for k in (1, 2)],
        ("full", "greedy"),
        ("full", "beam=5"),
    ]
    assert "4/6 wait-k k=2: BLEU " in outcome.stdout
    assert " tokens\n5/6 full greedy: BLEU " in outcome.stdout
    assert "adaptive" in outcome.stdout.splitlines()[-2]
    assert outcome.stdout.splitlines()[-1] == f"report: {folder / 'out' / 'report'}"
    report = (folder / "out" / "report" / "README.md").read_text()
    few = "Few sentences (3): scores and intervals of fewer than 100 mean little.\n"
    assert few in outcome.stdout
    assert few in report
    assert "Set set, 3 sentences" in report
    assert (folder / "out" / "report" / "curves.svg").exists()


def test_a_policy_of_one_s_own_joins_and_is_decoded_anew(models, folder):
    own = ["--policy", f"{folder}/mine.py:mine"]
    assert compare(models, folder, "--policy", "wait-k").exit_code == 0
    logs = {path: path.stat().st_mtime_ns for path in (folder / "out" / "runs").rglob("*.jsonl")}
    outcome = compare(models, folder, *own)
    assert outcome.exit_code == 0, outcome.output
    assert rows(folder) == [("wait-k", "k=1"), ("wait-k", "k=2"), ("mine.mine", "own")]
    assert all(path.stat().st_mtime_ns == before for path, before in logs.items())
    log = folder / "out" / "runs" / "mine.mine" / "own.jsonl"
    lines = [[json.loads(line)["hypothesis"] for line in path.read_text().splitlines()]
             for path in (log, folder / "out" / "runs" / "wait-k" / "k=2.jsonl")]  # fmt: skip
    assert lines[0] == lines[1], "it is wait-2"
    assert "mine.mine over wait-k by 0.00 BLEU (difference +0.00 to +0.00" in outcome.stdout
    (folder / "mine.py").write_text(MINE.replace("(2)", "(1)"))
    before = log.read_text()
    assert compare(models, folder, *own).exit_code == 0
    assert log.read_text() != before


def test_a_set_without_operating_points_or_a_full_sentence_model(models):
    generator = AdaptiveWaitKGenerator.from_pretrained(models / "small")
    assert usual(generator) == ["adaptive", "wait-k"]
    names = [setting.name for setting in settings_of("adaptive", generator)]
    assert names == [setting.name for setting in settings_of("single", generator)]
    assert names[0] == "rho1=0.2,rho2=0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "godot"], "--policy is adaptive, single, top-3, all, wait-k, "),
        (["--policy", "nowhere.py:x"], "there is no file nowhere.py"),
        (["--policy", "full", "--beams", "0"], "beams must be an integer of 1 or more"),
        (["--limit", "0"], "limit must be an integer of 1 or more"),
        (["--tail", "best"], "a tail is k_max, full, all or members of the set"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_decoded(models, folder, options, message):
    outcome = compare(models, folder, *options)
    assert outcome.exit_code == 2
    assert message in outcome.output
    assert not (folder / "out").exists()


def test_what_does_not_go_together_is_refused(models, folder):
    both = [["--policy", f"{folder}/{name}mine.py:mine"] for name in ("", "other/")]
    assert "rename a file" in compare(models, folder, *both[0], *both[1]).stderr
    small = compare(models, folder, "--policy", "full", "--policy", "wait-k", name="small")
    assert "full need a full-sentence model, and the set has none" in small.stderr
    assert compare(models, folder, "--policy", "wait-k").exit_code == 0
    other = compare(models, folder, "--policy", "wait-k", "--limit", "2")
    assert "holds an experiment with other models, languages, sentences or tails" in other.stderr
    files = ["--source", folder / "a.de", "--reference", folder / "a.en", "--model", models / "set"]
    given = ["evaluate", *files, "--k", "1", "--force", "--quiet", "--output"]

    def evaluate(output):
        return CliRunner().invoke(app, [*map(str, given), str(folder / output)])

    assert "holds a comparison, which compare goes on with; give another" in evaluate("out").stderr
    assert evaluate("alone").exit_code == 0
    (folder / "alone").rename(folder / "alone-before")
    (folder / "out").rename(folder / "out-before")
    (folder / "alone-before").rename(folder / "out")
    refused = compare(models, folder, "--policy", "wait-k")
    assert "holds a result of hf-simultaneous evaluate; give another --output" in refused.stderr


@pytest.fixture(scope="module")
def nllb(tmp_path_factory):
    """The folder of a tiny NLLB, as transformers saves it."""
    folder = tmp_path_factory.mktemp("nllb")
    tokenizer = TOKENIZERS["nllb"][0](folder)
    model_for(tokenizer, "m2m_100").float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_model_of_another_family_is_compared(nllb, folder):
    told = ["--from", "deu_Latn", "--to", "eng_Latn", "--policy", "test-time-wait-k"]
    outcome = compare(nllb, folder, *told, name="")
    assert outcome.exit_code == 0, outcome.output
    facts = json.loads((folder / "out" / "experiment.json").read_text())
    assert (facts["encoder"], facts["full_encoder"]) == ("prefix", "prefix")
    other = [*told[:3], "fra_Latn", *told[4:]]
    refusal = "holds an experiment with other models, languages, sentences or tails"
    assert refusal in compare(nllb, folder, *other, name="").stderr
