"""Calibration: the search on a made-up landscape, and one on tiny models down to the saved operating point."""

import pytest
from typer.testing import CliRunner

from hf_simultaneous import AdaptiveWaitKGenerator, linear_thresholds
from hf_simultaneous.calibration import (
    Calibration,
    Point,
    Search,
    calibrate,
    read_config,
    save_latency,
    search_thresholds,
    update_config,
)
from hf_simultaneous.cli import app
from hf_simultaneous.evaluation import Decoding
from hf_simultaneous.policies import PAPER_SETTINGS
from tests.test_evaluation import REFERENCE, SOURCE
from tests.tiny import TALKATIVE, tiny_model


def landscape(thresholds):
    """AL grows with every threshold; BLEU prefers a high one at k = 3, which no line has."""
    al = 1 + sum(thresholds.values())
    return Point(thresholds, al, 20 + al + 3 * thresholds[3] - thresholds[4])


@pytest.mark.parametrize("target", [2.0, 4.0, 7.5])
def test_the_latency_is_met_and_no_linear_setting_near_it_is_better(target):
    tried = search_thresholds(landscape, target, 1, 10, Search(budget=60))
    chosen = tried[0]
    assert abs(chosen.al - target) <= 0.15
    assert len(tried) <= 60
    near = [point for point in map(landscape, map(dict, PAPER_SETTINGS.values())) if abs(point.al - target) <= 0.15]
    assert chosen.bleu >= max((point.bleu for point in near), default=0)


def test_the_budget_holds():
    calls = []

    def counted(thresholds):
        calls.append(thresholds)
        return landscape(thresholds)

    search_thresholds(counted, 4.0, 1, 10, Search(budget=9, tolerance=0.5))
    assert len(calls) <= 9


def test_two_ks_have_no_half():
    def small(thresholds):
        return Point(thresholds, 1 + sum(thresholds.values()), 20.0)

    assert abs(search_thresholds(small, 2.0, 1, 2)[0].al - 2) <= 0.15


def test_a_latency_out_of_reach_is_refused():
    with pytest.raises(ValueError, match="AL goes from 1.00 to 11.00; got target_al=40"):
        search_thresholds(landscape, 40.0, 1, 10)


def test_a_latency_that_is_jumped_over_is_refused():
    def cliff(thresholds):
        return Point(thresholds, 9.0 if thresholds[1] > 0.5 else 1.0, 20.0)

    with pytest.raises(ValueError, match="no thresholds met AL 4.0 within 0.15; the nearest of .* gave 1.000"):
        search_thresholds(cliff, 4.0, 1, 10)


def test_a_latency_that_buys_nothing_is_pointed_out():
    chosen, less = Point({1: 0.5}, 4.0, 20.0), Point({1: 0.2}, 3.0, 21.0)
    assert "note: AL 3.00 gave BLEU 21.00" in str(Calibration("al-4", 4.0, chosen, (chosen, less)))
    assert "note" not in str(Calibration("al-4", 4.0, less, (chosen, less)))


@pytest.mark.parametrize("options", [{"tolerance": 0}, {"budget": 5}])
def test_search_options_are_checked(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        Search(**options)


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate")
    models = {k: tiny_model(seed=k, encoder_attention="causal", wait_k=k, **TALKATIVE) for k in (1, 3)}
    AdaptiveWaitKGenerator(models, tokenizer, linear_thresholds(0.9, 0.1, 1, 3)).save_pretrained(folder / "set")
    (folder / "source.txt").write_text("\n".join(SOURCE))
    (folder / "reference.txt").write_text("\n".join(REFERENCE))
    return folder


def test_an_operating_point_is_kept_in_the_set_and_loads_by_name(folder):
    generator = AdaptiveWaitKGenerator.from_pretrained(folder / "set")
    search = Search(tolerance=3.0, budget=6)
    found = calibrate(
        generator, SOURCE, REFERENCE, 1.5, name="quick", search=search, decoding=Decoding(progress=False)
    )
    assert generator.latencies == {"quick": found.point.thresholds}
    assert str(found).startswith("quick: AL ")
    save_latency(folder / "set", found.name, found.point.thresholds)
    assert AdaptiveWaitKGenerator.from_pretrained(folder / "set", latency="quick").thresholds == found.point.thresholds


def run(folder, *options):
    files = ["--source", str(folder / "source.txt"), "--reference", str(folder / "reference.txt")]
    return CliRunner().invoke(app, ["calibrate", *files, *options])


def test_the_command_says_what_is_wrong(folder):
    outcome = run(folder, "--model", str(folder / "set"), "--al", "50", "--limit", "3", "--budget", "6")
    assert outcome.exit_code == 2
    assert "got target_al=50.0. Name one in between" in outcome.output
    outcome = run(folder, "--model", str(folder))
    assert "is no saved set: it has no adaptive_config.json" in outcome.output


def test_the_command_keeps_what_it_found(folder):
    low = run(folder, "--model", str(folder / "set"), "--al", "50", "--limit", "4", "--budget", "6").output
    lowest = low.split("AL goes from ")[1].split()[0]
    outcome = run(folder, "--model", str(folder / "set"), "--al", lowest, "--limit", "4", "--budget", "6")
    assert outcome.exit_code == 0, outcome.output
    name = f"al-{float(lowest):g}"
    assert f"{name}: AL " in outcome.output
    assert name in read_config(folder / "set")["latencies"]


def test_other_entries_of_the_config_stay(folder):
    before = read_config(folder / "set")
    update_config(folder / "set", dev_scores=None)
    assert read_config(folder / "set") == before
    with pytest.raises(ValueError, match="thresholds must cover"):
        save_latency(folder / "set", "gap", {1: 0.5, 3: 0.1})
