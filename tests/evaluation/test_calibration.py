"""Calibration: the search on a made-up landscape, and one on tiny models down to the saved
operating point."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from hf_simultaneous import Adaptive, AdaptiveWaitKGenerator, linear_thresholds
from hf_simultaneous.cli import app
from hf_simultaneous.evaluation import Decoding, decode_corpus, text_decoding
from hf_simultaneous.evaluation.calibration import (
    Calibration,
    Point,
    Search,
    calibrate,
    paper_line,
    save_latency,
    search_lines,
    search_thresholds,
)
from hf_simultaneous.evaluation.scores import sentences_of
from hf_simultaneous.metrics import corpus_latency
from hf_simultaneous.policies import PAPER_SETTINGS
from hf_simultaneous.sets import read_set_config, update_set_config
from hf_simultaneous.sharing.cards import hand_edited, write_card
from tests.corpora import REFERENCE, SOURCE
from tests.tiny import TALKATIVE, tiny_model


def landscape(thresholds):
    """AL grows with every threshold, and BLEU with AL."""
    al = 1 + sum(thresholds.values())
    return Point(thresholds, al, 20 + al)


@pytest.mark.parametrize("target", [1.0, 2.0, 4.0, 7.5, 11.0])
def test_the_latency_is_met_on_the_papers_line(target):
    tried = search_thresholds(landscape, target, 1, 10)
    assert abs(tried[0].al - target) <= 0.15
    assert len(tried) <= Search().budget
    for point in tried:
        first, last = point.thresholds[1], point.thresholds[10]
        assert first == 1 or last == 0
        line = linear_thresholds(first, last, 1, 10)
        assert point.thresholds == pytest.approx(line, abs=1e-4)


def test_the_line_holds_every_setting_of_the_paper():
    lines = [paper_line(number / 20, 1, 10) for number in range(21)]
    for setting in PAPER_SETTINGS.values():
        assert any(dict(setting) == pytest.approx(line, abs=1e-4) for line in lines)


def test_the_budget_holds():
    calls = []

    def counted(thresholds):
        calls.append(thresholds)
        return landscape(thresholds)

    search_thresholds(counted, 4.0, 1, 10, Search(budget=4, tolerance=1.5))
    assert len(calls) <= 4


@given(st.lists(st.floats(1.0, 9.0), min_size=21, max_size=21))
def test_a_latency_that_does_not_grow_all_the_way_is_met(wiggles):
    """As where models end sentences early: all that is needed is that the ends lie on both
    sides."""
    als = [1.0, *wiggles[1:-1], 9.0]

    def uneven(thresholds):
        t = (thresholds[1] + thresholds[10]) / 2
        return Point(thresholds, float(np.interp(t, np.linspace(0, 1, 21), als)), 20.0)

    chosen = search_thresholds(uneven, 4.0, 1, 10, Search(budget=20))[0]
    assert abs(chosen.al - 4.0) <= 0.15


def test_two_ks_are_enough():
    def small(thresholds):
        return Point(thresholds, 1 + sum(thresholds.values()), 20.0)

    assert abs(search_thresholds(small, 2.0, 1, 2)[0].al - 2) <= 0.15


def test_a_latency_out_of_reach_is_refused():
    with pytest.raises(ValueError, match="AL goes from 1.00 to 11.00; got target_al=40"):
        search_thresholds(landscape, 40.0, 1, 10)


def test_a_latency_that_is_jumped_over_is_refused():
    def cliff(thresholds):
        return Point(thresholds, 9.0 if thresholds[1] > 0.5 else 1.0, 20.0)

    with pytest.raises(
        ValueError, match="no thresholds met AL 4.0 within 0.15; the nearest of .* gave 1.000"
    ):
        search_thresholds(cliff, 4.0, 1, 10)


def test_a_latency_that_buys_nothing_is_pointed_out():
    chosen, less = Point({1: 0.5}, 4.0, 20.0), Point({1: 0.2}, 3.0, 21.0)
    said = "note: AL 3.000 tokens, BLEU 21.00 is less late and better; ask for less latency"
    assert said in str(Calibration("al-4", 4.0, chosen, (chosen, less)))
    assert "note" not in str(Calibration("al-4", 4.0, less, (chosen, less)))


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9))
def test_lines_end_between_the_smallest_and_the_largest_k(lines, k_min, more):
    ends = Search(lines=lines).ends(k_min, k_min + more)
    assert ends[0] == k_min + more
    assert len(ends) <= lines
    assert ends == sorted(set(ends), reverse=True)
    assert ends[-1] > k_min


def test_the_line_with_the_best_bleu_is_chosen():
    """Lines that end at 8, 6 and 4 all meet AL 2, and the one that ends at 6 is best there."""

    def ridge(thresholds):
        return replace(landscape(thresholds), bleu=20 - abs(max(thresholds) - 6))

    policy = Adaptive(linear_thresholds(1, 0, 1, 8))
    tried = search_lines(ridge, 2.0, policy, Search())
    assert max(tried[0].thresholds) == 6
    assert abs(tried[0].al - 2) <= 0.15
    assert {max(point.thresholds) for point in tried} == {8, 6, 4}
    assert {max(p.thresholds) for p in search_lines(ridge, 2.0, policy, Search(lines=1))} == {8}


def test_a_line_too_short_for_the_latency_is_left_out():
    policy = Adaptive(linear_thresholds(1, 0, 1, 8))
    tried = search_lines(landscape, 7.0, policy, Search())
    assert max(tried[0].thresholds) in (8, 6)
    assert abs(tried[0].al - 7) <= 0.15
    with pytest.raises(ValueError, match="got target_al=40"):
        search_lines(landscape, 40.0, policy, Search())


@pytest.mark.parametrize("options", [{"tolerance": 0}, {"budget": 2}, {"lines": 0}, {"lines": 5}])
def test_search_options_are_checked(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        Search(**options)


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate")
    models = {
        k: tiny_model(seed=k, encoder_attention="causal", wait_k=k, **TALKATIVE) for k in (1, 3)
    }
    AdaptiveWaitKGenerator(models, tokenizer, linear_thresholds(0.9, 0.1, 1, 3)).save_pretrained(
        folder / "set"
    )
    (folder / "source.txt").write_text("\n".join(SOURCE))
    (folder / "reference.txt").write_text("\n".join(REFERENCE))
    return folder


def test_an_operating_point_is_kept_in_the_set_and_loads_by_name(folder):
    generator = AdaptiveWaitKGenerator.from_pretrained(folder / "set")
    search = Search(tolerance=3.0, budget=6)
    found = calibrate(
        generator,
        SOURCE,
        REFERENCE,
        1.5,
        name="quick",
        search=search,
        decoding=Decoding(progress=False),
    )
    assert generator.latencies == {"quick": found.point.thresholds}
    assert str(found).startswith("quick: AL ")
    save_latency(folder / "set", found.name, found.point.thresholds)
    assert (
        AdaptiveWaitKGenerator.from_pretrained(folder / "set", latency="quick").thresholds
        == found.point.thresholds
    )


def test_thresholds_are_chosen_for_text_sessions_unless_told_otherwise(folder):
    generator = AdaptiveWaitKGenerator.from_pretrained(folder / "set", tail_beams=2)
    search = Search(tolerance=5.0, budget=3)
    for decoding in (None, text_decoding(generator), Decoding()):
        found = calibrate(generator, SOURCE, REFERENCE, 2.0, search=search, decoding=decoding)
        used = decoding or text_decoding(generator)
        lines = decode_corpus(
            generator, SOURCE, REFERENCE, Adaptive(found.point.thresholds), replace(used, timed=0)
        )
        assert found.point.al == corpus_latency(sentences_of(lines)).value


def run(folder, *options):
    files = ["--source", str(folder / "source.txt"), "--reference", str(folder / "reference.txt")]
    return CliRunner().invoke(app, ["calibrate", *files, *options])


def test_the_command_says_what_is_wrong(folder):
    outcome = run(
        folder, "--model", str(folder / "set"), "--al", "50", "--limit", "3", "--budget", "6"
    )
    assert outcome.exit_code == 2
    assert "got target_al=50.0. Name one in between" in outcome.output
    outcome = run(folder, "--model", str(folder))
    assert "holds neither a set" in outcome.output
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "config.json").write_text("{}")
    outcome = run(folder, "--model", str(folder / "checkpoint"))
    assert "is not a saved set: it has no adaptive_config.json" in outcome.output


def test_the_command_keeps_what_it_found(folder):
    low = run(
        folder, "--model", str(folder / "set"), "--al", "50", "--limit", "4", "--budget", "6"
    ).output
    lowest = low.split("AL goes from ")[1].split()[0]
    outcome = run(
        folder, "--model", str(folder / "set"), "--al", lowest, "--limit", "4", "--budget", "6"
    )
    assert outcome.exit_code == 0, outcome.output
    name = f"al-{float(lowest):g}"
    assert f"{name}: AL " in outcome.output
    assert outcome.stdout.endswith(f"translate --model {folder / 'set'} --latency {name}\n")
    assert name in read_set_config(folder / "set")["latencies"]


def test_the_set_in_the_package_is_copied_not_changed(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_simultaneous.sets.BUILTIN", folder / "set")
    before = (folder / "set" / "adaptive_config.json").read_bytes()
    for named in ([], ["--model", str(folder / "set")]):
        assert "the set in the package stays as it is; give --output" in run(folder, *named).stderr
    out = ["--output", str(tmp_path / "mine"), "--al", "2", "--limit", "4", "--budget", "3"]
    low = run(folder, *out[:2], "--al", "50", *out[4:]).output.split("AL goes from ")[1].split()[0]
    outcome = run(folder, *out, "--al", low, "--name", "mine")
    assert outcome.exit_code == 0, outcome.output
    assert (folder / "set" / "adaptive_config.json").read_bytes() == before
    assert AdaptiveWaitKGenerator.from_pretrained(tmp_path / "mine", latency="mine").latencies
    # Each decoding is told, and how many there may be.
    counts = re.findall(r"(\d+) of at most (\d+): AL \S+ tokens, BLEU \S+\n", outcome.stderr)
    assert [int(count) for count, _ in counts] == list(range(1, len(counts) + 1))
    assert len(counts) >= 3
    assert {int(most) % 3 for _, most in counts} == {0}
    assert run(folder, *out, "--al", low).exit_code == 2, "it is a set by now"
    assert "of at most" not in run(folder, "--model", str(tmp_path / "mine"), "--quiet").stderr


def lowest_al(folder, *options):
    """What can be asked for: the command says so when it is asked for too much."""
    said = run(folder, *options, "--al", "50", "--limit", "4", "--budget", "3").output
    return said.split("AL goes from ")[1].split()[0]


def asked(folder, *options):
    quick = ["--al", lowest_al(folder, *options), "--limit", "4", "--budget", "3"]
    outcome = run(folder, *options, *quick, "--name", "mine", "--quiet")
    assert outcome.exit_code == 0, outcome.output
    return outcome


@pytest.fixture
def half(folder, tmp_path):
    """A set as one ships: weights in half precision, a card, and things that are not of it."""
    shutil.copytree(folder / "set", tmp_path / "half")
    for path in (tmp_path / "half").rglob("model.safetensors"):
        save_file(
            {name: one.half() for name, one in load_file(path).items()}, path, {"format": "pt"}
        )
    (tmp_path / "half" / "card.yaml").write_text("licence: cc-by-2.0\n")
    (tmp_path / "half" / "checkpoint-5").mkdir()
    (tmp_path / "half" / "checkpoint-5" / "optimizer.json").write_text("{}")
    write_card(tmp_path / "half")
    return tmp_path / "half"


def test_a_card_that_nobody_edited_tells_of_the_point_that_was_found(folder, half):
    before = (half / "README.md").read_text()
    asked(folder, "--model", str(half))
    assert not hand_edited(half)
    assert "mine (1: " in (half / "README.md").read_text()
    assert (half / "README.md").read_text() != before


def test_what_people_wrote_into_a_card_stays(folder, half):
    card = half / "README.md"
    card.write_text(card.read_text() + "\nBy hand.\n")
    asked(folder, "--model", str(half))
    assert card.read_text().endswith("\nBy hand.\n")
    assert "mine (1: " in card.read_text()


def test_a_copy_keeps_weights_and_card_and_says_what_is_its_default(folder, half, tmp_path):
    copy = tmp_path / "copy"
    outcome = asked(folder, "--model", str(half), "--output", str(copy))
    assert outcome.stdout.endswith(f"--latency mine (the default of {copy} now)\n")
    weights = {path.relative_to(half) for path in half.rglob("*.safetensors")}
    assert len(weights) == 2
    for path in weights:
        assert (copy / path).read_bytes() == (half / path).read_bytes()
    assert not (copy / "checkpoint-5").exists()
    assert "license: cc-by-2.0" in (copy / "README.md").read_text()
    assert not hand_edited(copy)
    saved = read_set_config(copy)
    assert saved["thresholds"] == saved["latencies"]["mine"]
    assert saved["members"] == read_set_config(half)["members"]
    made = AdaptiveWaitKGenerator.from_pretrained(copy)
    assert made.thresholds == made.latencies["mine"]


def test_other_entries_of_the_config_stay(folder):
    before = read_set_config(folder / "set")
    update_set_config(folder / "set", dev_scores=None)
    assert read_set_config(folder / "set") == before
    with pytest.raises(ValueError, match="thresholds must cover"):
        save_latency(folder / "set", "gap", {1: 0.5, 3: 0.1})
