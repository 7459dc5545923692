"""`hf-simultaneous evaluate` on files: what it writes, and how it says what is wrong."""

import json

import pytest
from typer.testing import CliRunner

from hf_simultaneous import AdaptiveWaitKGenerator, linear_thresholds
from hf_simultaneous.cli import app
from hf_simultaneous.cli.requests import EvaluateRequest
from hf_simultaneous.evaluation import read_sentences
from hf_simultaneous.evaluation.scores import scores_from_log
from hf_simultaneous.schedule import FULL
from tests.tiny import TALKATIVE, tiny_model


LATENCIES = {"early": linear_thresholds(0.2, 0.0, 1, 2)}


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    """A set of tiny models, and a corpus of four sentences."""
    folder = tmp_path_factory.mktemp("evaluate")
    models = {
        k: tiny_model(
            seed=9 if k == FULL else k,
            encoder_attention="causal",
            wait_k=k if k != FULL else None,
            **TALKATIVE,
        )
        for k in (1, 2, FULL)
    }
    AdaptiveWaitKGenerator(
        models, tokenizer, linear_thresholds(0.9, 0.1, 1, 2), latencies=LATENCIES
    ).save_pretrained(folder / "set")
    (folder / "source.txt").write_text("w3 w4\nw5 w6 w7\nw8\nw9 w10 w11\n")
    (folder / "reference.txt").write_text("w4 w3\nw7 w6\nw8\nw11 w10\n")
    (folder / "short.txt").write_text("w4 w3\n")
    (folder / "gold.wa").write_text("0-1 1-0\n2-0 1-1\n0-0\n\n")
    return folder


def run(folder, *options, reference="reference.txt"):
    given = [
        "--source",
        folder / "source.txt",
        "--reference",
        folder / reference,
        "--output",
        folder / "out",
        "--force",
    ]
    return CliRunner().invoke(app, ["evaluate", *map(str, given), *options])


@pytest.mark.parametrize(
    "options",
    [
        ["--policy", "wait-k", "--k", "2"],
        ["--policy", "adaptive", "--rho", "0.8", "0.2", "--ensembles", "all", "--limit", "3"],
        ["--policy", "full", "--beams", "2"],
        ["--latency", "early"],
    ],
    ids=" ".join,
)
def test_scores_and_log_are_written_and_agree(folder, options):
    outcome = run(
        folder, "--model", str(folder / "set"), "--alignments", str(folder / "gold.wa"), *options
    )
    assert outcome.exit_code == 0, outcome.output
    scores = json.loads((folder / "out" / "scores.json").read_text())
    again = scores_from_log(folder / "out" / "log.jsonl").as_dict()
    known = {**scores, "signatures": {**scores["signatures"]}}
    del known["signatures"]["anticipation"]
    assert {name: known[name] for name in again} == again
    assert scores["encoder"] == "causal"
    assert {"bleu", "al", "laal", "ap", "dal", "signatures", "policy", "anticipation"} <= set(
        scores
    )
    line = json.loads((folder / "out" / "log.jsonl").read_text().splitlines()[0])
    assert {"source", "reference", "hypothesis", "delays", "actions", "source_length"} <= set(line)
    count = 3 if "--limit" in options else 4
    assert (
        len((folder / "out" / "instances.log").read_text().splitlines())
        == count
        == scores["sentences"]
    )
    assert f"{count} sentences" in outcome.output
    assert "AL|len:hyp" in outcome.output


TAILS = {
    "": "ends:early|tail:beam2,full",
    "--tail k_max --read-on": "ends:read-on|tail:beam2",
    "--tail all --tail-beams 3 --early-stop": "ends:early|tail:beam3,1+2+full",
    "--tail 1,2 --tail-beams 1": "ends:early|tail:greedy,1+2",
    "--policy full --beams 2": "ends:early|beam2",
    "--reads word": "ends:early|tail:beam2,full|reads:word",
}


@pytest.mark.parametrize("options", TAILS)
def test_a_tail_and_the_rule_of_ends_are_the_set_s_own_or_as_asked(folder, options):
    own = AdaptiveWaitKGenerator.from_pretrained(folder / "set", tail_beams=2, tail=FULL)
    own.save_pretrained(folder / "searching")
    outcome = run(folder, "--model", str(folder / "searching"), *options.split())
    assert outcome.exit_code == 0, outcome.output
    assert TAILS[options] in outcome.output
    scores = json.loads((folder / "out" / "scores.json").read_text())
    assert scores["decoding"] == TAILS[options]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "godot"], "--policy is adaptive, wait-k,"),
        (["--policy", "wait-k"], "wait-k takes k; got none"),
        (["--policy", "align-att", "--border", "0"], "border must be an integer of 1 or more"),
        (["--policy", "align-att", "--layer", "9"], "from the last; got 9"),
        (["--n", "3"], "adaptive takes rho; got n=3"),
        (["--ensembles", "top-3"], "this set has no dev grid. Make it with"),
        (["--ensembles", "top-9"], "--ensembles is single, top-3 or all; got 'top-9'"),
        (["--latency", "never"], "no operating point 'never'; it has: early"),
        (["--latency", "early", "--rho", "1", "0"], "--latency early chooses the thresholds"),
        (["--limit", "0"], "limit must be an integer of 1 or more"),
        (["--beams", "2"], "--beams 2 is for --policy full"),
        (["--beams", "0"], "beams must be an integer of 1 or more; got 0"),
        (["--tail-beams", "0"], "tail_beams must be an integer of 1 or more; got 0"),
        (["--reads", "letter"], "reads must be token or word; got 'letter'"),
        (["--tail", "best"], "a tail is k_max, full, all or members of the set such as 1,3"),
        (["--tail", "7"], "tail names members of the set, [1, 2, 'full']"),
        (["--beams", "2", "--tail-beams", "2", "--policy", "full"], "which have no tail"),
    ],
)
def test_bad_options_are_named_in_a_line(folder, options, message):
    outcome = run(folder, "--model", str(folder / "set"), *options)
    assert outcome.exit_code == 2
    assert outcome.output.strip().splitlines()[-1].startswith("error: ")
    assert message in outcome.output


def test_bad_files_are_named(folder):
    assert (
        "got 4 and 1 in reference 1"
        in run(folder, "--model", str(folder / "set"), reference="short.txt").output
    )
    assert (
        "there is no file"
        in run(folder, "--model", str(folder / "set"), reference="nowhere.txt").output
    )
    (folder / "latin1.txt").write_bytes("eins\nschön\n".encode("latin-1"))
    (folder / "utf16.txt").write_bytes("schön\n".encode("utf-16"))
    for name, message in (
        ("latin1.txt", "latin1.txt line 2 is not UTF-8 (byte 0xf6 at place 8)"),
        ("utf16.txt", "utf16.txt is UTF-16, not UTF-8 (byte 0xff at place 0)"),
    ):
        assert message in run(folder, "--model", str(folder / "set"), reference=name).output


def test_a_result_of_other_settings_is_not_overwritten(folder, tmp_path):
    files = ["--source", folder / "source.txt", "--reference", folder / "reference.txt"]
    given = ["evaluate", *files, "--model", folder / "set", "--output", tmp_path, "--k"]

    def ask(*options):
        return CliRunner().invoke(app, [*map(str, given), *options, "--policy", "wait-k"])

    loud = ask("1")
    assert loud.exit_code == 0
    assert "sentence/s" in loud.stderr
    assert "time_per_token" in loud.stdout
    assert loud.stdout.splitlines()[-1].startswith("written to ")
    again = ask("1", "--batch-size", "2", "--timed", "0", "--quiet")
    assert again.stderr == "", "the same settings, and no bar"
    assert "time_per_token" not in again.stdout
    before = (tmp_path / "scores.json").read_text()
    refused = ask("2")
    assert refused.exit_code == 2
    assert "scores.json holds a result of other settings. Give another --output" in refused.stderr
    assert (tmp_path / "scores.json").read_text() == before
    assert ask("2", "--force").exit_code == 0
    (tmp_path / "scores.json").write_text("[]")
    assert ask("2").exit_code == 2, "whatever that was, it was not ours"


def test_a_run_that_fails_leaves_the_result_that_was_there(folder, tmp_path, monkeypatch):
    files = ["--source", folder / "source.txt", "--reference", folder / "reference.txt"]
    given = ["evaluate", *files, "--model", folder / "set", "--output", tmp_path / "out", "--k"]

    def ask(k, *options):
        asked = [*given, k, "--policy", "wait-k", "--timed", "0", "--force", "--quiet", *options]
        return CliRunner().invoke(app, [*map(str, asked)])

    assert ask(1).exit_code == 0
    before = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    (tmp_path / "outside.wa").write_text("7-7\n7-7\n7-7\n7-7\n")
    (tmp_path / "few.wa").write_text("0-0\n")
    failed = ask(2, "--alignments", tmp_path / "outside.wa")
    assert "4 of 4 aligned words are outside their sentences" in failed.stderr
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == before
    monkeypatch.setattr("hf_simultaneous.evaluation.corpus._Corpus._words_read", lambda *_: None)
    assert ask(2).exit_code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"log.jsonl", "scores.json"}
    monkeypatch.setattr(
        AdaptiveWaitKGenerator, "from_pretrained", lambda *_, **__: pytest.fail("loaded")
    )
    few = ask(2, "--alignments", tmp_path / "few.wa")
    assert "an alignment for each of the 4 sentences; got 1" in few.stderr


def test_references_are_needed(folder):
    with pytest.raises(ValueError, match="at least one file of references"):
        EvaluateRequest(source=folder, references=[], output=folder)


def test_lines_end_at_newlines_only(tmp_path):
    (tmp_path / "text").write_bytes("\ufeffeins\u2028zwei\r\ndrei\n".encode())
    assert read_sentences(tmp_path / "text") == ["eins\u2028zwei", "drei"]
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ValueError, match="empty is empty; give a text file with a sentence on"):
        read_sentences(tmp_path / "empty")


def test_without_a_model_the_one_in_the_package_is_meant(folder, monkeypatch):
    monkeypatch.setattr("hf_simultaneous.sets.BUILTIN", folder / "nowhere")
    assert "the models that ship with the package are missing" in run(folder).output
    monkeypatch.setattr("hf_simultaneous.sets.BUILTIN", folder / "set")
    assert run(folder, "--policy", "wait-k", "--k", "1").exit_code == 0


def test_top_3_takes_the_best_of_the_dev_grid(tokenizer):
    models = {k: tiny_model(seed=k, encoder_attention="causal", wait_k=k) for k in (1, 2, 3, 4)}
    grid = {k: {1: 5.0, 2: 1.0, 3: 4.0, 4: 3.0} for k in (1, 2)}
    rhos = linear_thresholds(1.0, 0.0, 1, 2)
    generator = AdaptiveWaitKGenerator(models, tokenizer, rhos, dev_scores=grid, early_stop=False)
    best = generator.with_ensembles("top-3")
    assert best.ensembles == {1: (1, 3, 4), 2: (1, 3, 4)}
    assert (best.early_stop, best.thresholds) == (False, rhos)
