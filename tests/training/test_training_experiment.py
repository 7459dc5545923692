"""The dev grid and the paper's protocol on tiny random models: what is run, what goes on, what is
refused."""

import json

import pytest

from hf_simultaneous import Adaptive, AdaptiveWaitKGenerator, PsFuture, linear_thresholds
from hf_simultaneous.evaluation import decode_corpus, tail_named, text_decoding
from hf_simultaneous.evaluation.scores import texts
from hf_simultaneous.metrics import corpus_bleu
from hf_simultaneous.schedule import FULL
from hf_simultaneous.sharing.cards import hand_edited, write_card
from tests.tiny import TALKATIVE, tiny_model
from training.choose_ensembles import Plan as GridPlan
from training.choose_ensembles import best_tail, choose, table
from training.choose_ensembles import main as choose_ensembles
from training.run_experiment import METHODS, Plan, settings_of
from training.run_experiment import main as run_experiment


def make_set(folder, tokenizer, ks):
    models = {
        k: tiny_model(seed=seed, encoder_attention="causal", **TALKATIVE)
        for seed, k in enumerate(ks, start=1)
    }
    AdaptiveWaitKGenerator(models, tokenizer, linear_thresholds(0.9, 0.1, 1, 2)).save_pretrained(
        folder
    )


@pytest.fixture
def folder(tokenizer, tmp_path):
    make_set(tmp_path / "set", tokenizer, (1, 2, FULL))
    (tmp_path / "a.de").write_text("w3 w4\nw5 w6 w7\nw8\n")
    (tmp_path / "a.en").write_text("w4 w3\nw7 w6\nw8\n")
    return tmp_path


def run(folder, *options, name="set"):
    files = ["--test", str(folder / "a.de"), str(folder / "a.en")]
    fixed = ["--set", str(folder / name), "--output", str(folder / "out"), "--timed", "1"]
    return run_experiment([*fixed, *files, *options])


def test_the_protocol_has_the_paper_s_settings(tokenizer):
    generator = AdaptiveWaitKGenerator(
        {10: tiny_model(wait_k=10)}, tokenizer, linear_thresholds(1.0, 0.0)
    )
    settings = {method: settings_of(method, generator) for method in METHODS}
    counts = {
        "wait-k": 10,
        "test-time-wait-k": 10,
        "wait-if-diff": 4,
        "wait-if-worse": 8,
        "full": 2,
        "local-agreement": 5,
        "hold-n": 7,
        "align-att": 6,
        "ps-future": 7,
    }
    assert {m: len(rows) for m, rows in settings.items()} == {
        "single": 18,
        "top-3": 18,
        "all": 18,
        **counts,
    }
    assert [row.name for row in settings["wait-if-diff"]][:2] == [
        "start=4,delta=2",
        "start=6,delta=2",
    ]
    assert settings["single"][0].name == "rho1=0.2,rho10=0"
    assert settings["full"][1].beams == 10
    assert [row.name for row in settings["local-agreement"]][-2:] == [
        "n=2,step=4,close=True",
        "n=3,step=1,close=True",
    ]
    assert settings["ps-future"][0].policy == PsFuture(0.9)


def test_steep_lines_fall_from_one_to_nothing(tokenizer):
    generator = AdaptiveWaitKGenerator(
        {10: tiny_model(wait_k=10)}, tokenizer, linear_thresholds(1.0, 0.0, 2, 5)
    )
    rows = settings_of("single", generator, lines="steep")
    assert [row.name for row in rows] == ["rho2=1,rho4=0", "rho2=1,rho5=0"]
    assert [row.policy for row in rows] == [
        Adaptive(linear_thresholds(1.0, 0.0, 2, k)) for k in (4, 5)
    ]


def test_each_setting_is_decoded_once_and_the_rest_goes_on(folder, capsys, monkeypatch):
    monkeypatch.setattr("hf_simultaneous.evaluation.report._draw", lambda *_: None)
    assert run(folder, "--methods", "wait-k", "full", "--beams", "2") == 0
    logs = {path: path.stat().st_mtime_ns for path in (folder / "out" / "runs").rglob("*.jsonl")}
    assert len(logs) == 4
    (missing, _), *others = sorted(logs.items())
    whole = missing.read_text()
    missing.unlink()
    assert run(folder, "--methods", "wait-k", "full", "--beams", "2") == 0
    assert [json.loads(line)["hypothesis"] for line in missing.read_text().splitlines()] == [
        json.loads(line)["hypothesis"] for line in whole.splitlines()
    ]
    assert all(path.stat().st_mtime_ns == before for path, before in others)
    assert "2/4 wait-k k=2: BLEU" in capsys.readouterr().out
    assert "Encoder: causal" in (folder / "out" / "report" / "README.md").read_text()


def test_every_second_setting_will_do(folder, capsys, monkeypatch):
    monkeypatch.setattr("hf_simultaneous.evaluation.report._draw", lambda *_: None)
    assert run(folder, "--methods", "single", "wait-k", "--every", "6") == 0
    names = [path.stem for path in (folder / "out" / "runs" / "single").glob("*.jsonl")]
    assert sorted(names) == ["rho1=0.2,rho2=0", "rho1=0.8,rho2=0", "rho1=1,rho2=0.4"]
    assert len(list((folder / "out" / "runs" / "wait-k").glob("*.jsonl"))) == 2
    assert run(folder, "--every", "0") == 2
    assert "--every must be at least 1; got 0" in capsys.readouterr().err
    assert run(folder, "--limit", "-1") == 2
    assert "--limit must be at least 1; got -1" in capsys.readouterr().err
    dev = ["--set", str(folder / "set"), "--dev", str(folder / "a.de"), str(folder / "a.en")]
    assert choose_ensembles([*dev, "--limit", "0"]) == 2
    assert "--limit must be at least 1; got 0" in capsys.readouterr().err


def test_another_experiment_s_folder_is_left_alone(folder, capsys, monkeypatch):
    monkeypatch.setattr("hf_simultaneous.evaluation.report._draw", lambda *_: None)
    assert run(folder, "--methods", "wait-k") == 0
    assert run(folder, "--methods", "wait-k", "--limit", "2") == 2
    refusal = "holds an experiment with other models, languages, sentences or tails"
    assert refusal in capsys.readouterr().err
    assert run(folder, "--methods", "wait-k", "--tail-beams", "2") == 2
    assert refusal in capsys.readouterr().err


def test_every_method_is_given_the_same_tail(folder, monkeypatch):
    monkeypatch.setattr("hf_simultaneous.evaluation.report._draw", lambda *_: None)
    import hf_simultaneous.evaluation.experiment as module

    decode, used = module.decode_corpus, []

    def noted(*given):
        used.append((type(given[3]).__name__, given[4].options, given[4].beams))
        return decode(*given)

    monkeypatch.setattr(module, "decode_corpus", noted)
    methods = ["wait-k", "wait-if-diff", "full", "--beams", "3"]
    assert run(folder, "--tail-beams", "2", "--tail", "full", "--methods", *methods) == 0
    same = {"tail_beams": 2, "tail": (FULL,)}
    assert {kind for kind, tail, beams in used if (tail, beams) == (same, 1)} == {
        "WaitK",
        "WaitIfDiff",
    }
    full = [(tail, beams) for kind, tail, beams in used if kind == "FullSentence"]
    assert full == [({"tail_beams": 1, "tail": None}, beams) for beams in (1, 3)]
    facts = json.loads((folder / "out" / "experiment.json").read_text())
    assert facts["decoding"] == "ends:early|tail:beam2,full"
    report = (folder / "out" / "report" / "README.md").read_text()
    assert "|ends:early|tail:beam2,full`" in report


def test_what_the_protocol_cannot_do_is_said(folder, tokenizer, capsys):
    assert run(folder, "--methods", "top-3") == 2
    assert "this set has no dev grid" in capsys.readouterr().err
    assert run(folder, "--methods", "godot") == 2
    assert "--methods are single, top-3, all, wait-k, " in capsys.readouterr().err
    make_set(folder / "small", tokenizer, (1, 2))
    assert run(folder, "--methods", "full", "wait-k", name="small") == 2
    assert "full need a full-sentence model, and the set has none" in capsys.readouterr().err
    with pytest.raises(
        ValueError, match="--test is a source file and one or more references; got 1 file"
    ):
        Plan(set=folder, test=[folder], output=folder)
    with pytest.raises(
        ValueError, match="--dev is a source file and one or more references; got 1 file"
    ):
        GridPlan(set=folder, dev=[folder])


def test_the_grid_is_kept_in_the_set_and_top_3_follows_from_it(folder, capsys):
    files = ["--dev", str(folder / "a.de"), str(folder / "a.en")]
    write_card(folder / "set")
    assert choose_ensembles(["--set", str(folder / "set"), *files, "--ensembles", "all"]) == 0
    assert not hand_edited(folder / "set"), "the card tells the new ensembles"
    assert "k=1: 1, 2" in (folder / "set" / "README.md").read_text()
    assert "wait-2" in capsys.readouterr().out
    generator = AdaptiveWaitKGenerator.from_pretrained(folder / "set")
    assert {k: set(row) for k, row in generator.dev_scores.items()} == {1: {1, 2}, 2: {1, 2}}
    assert generator.ensembles == {1: (1, 2), 2: (1, 2)}
    assert generator.early_stop is True, "as it was"
    assert not (folder / "set" / "dev_grid.json").exists()


def test_a_grid_that_was_cut_off_goes_on(folder, monkeypatch):
    plan = GridPlan(set=folder / "set", dev=[folder / "a.de", folder / "a.en"])
    whole = choose(plan)
    import training.choose_ensembles as module

    decode, calls = module.decode_corpus, []

    def cut(*given):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return decode(*given)

    monkeypatch.setattr(module, "decode_corpus", cut)
    files = ["--dev", str(folder / "a.de"), str(folder / "a.en")]
    assert choose_ensembles(["--set", str(folder / "set"), *files]) == 130
    assert choose(plan) == whole
    assert len(calls) == 3 + 2 + 6


def test_the_best_tail_on_dev_is_kept_in_the_set(folder, capsys):
    plan = GridPlan(set=folder / "set", dev=[folder / "a.de", folder / "a.en"])
    _, tails = choose(plan)
    assert list(tails) == [(name, beams) for name in ("k_max", "full", "all") for beams in (1, 5)]
    assert "*" in capsys.readouterr().out.partition("tail ")[2]
    generator = AdaptiveWaitKGenerator.from_pretrained(folder / "set")
    name, beams = best_tail(tails)
    assert (generator.tail, generator.tail_beams) == (tail_named(name, generator), beams)
    decoding = text_decoding(generator, timed=0)
    lines = decode_corpus(
        generator, ["w3 w4", "w5 w6 w7", "w8"], ["w4 w3", "w7 w6", "w8"], None, decoding
    )
    assert corpus_bleu(*texts(lines)).value == max(tails.values())


def test_of_equal_tails_the_paper_s_is_taken():
    assert best_tail({("k_max", 1): 3.0, ("full", 5): 3.0}) == ("k_max", 1)


def test_a_set_without_wait_k_models_has_no_grid(folder, tokenizer, capsys):
    AdaptiveWaitKGenerator(tiny_model(), tokenizer).save_pretrained(folder / "full")
    files = ["--dev", str(folder / "a.de"), str(folder / "a.en")]
    assert choose_ensembles(["--set", str(folder / "full"), *files]) == 2
    assert "a grid needs models trained with some k" in capsys.readouterr().err


def test_the_table_marks_the_best_three():
    text = table({1: {1: 10.0, 3: 30.0, 5: 20.0, 7: 40.0}})
    assert text.splitlines()[1] == "wait-1    10.00    30.00*   20.00*   40.00*"
