import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from training.checked import InputError
from training.options import RunConfig, load_config, parse_config, parse_k, parse_ks


CONFIGS = sorted(Path("training/configs").glob("*.yaml"))


def changed(settings: dict[str, Any], section: str, **values: Any) -> dict[str, Any]:
    return {**settings, section: {**settings.get(section, {}), **values}}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configs_that_ship_are_correct(path: Path) -> None:
    config = load_config(path)
    tuned = config.for_run(3, init_from="somewhere", seed=3).training
    assert tuned.seed == 3
    assert tuned.max_steps < config.training.max_steps


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configs_that_ship_read_text_from_one_folder(path: Path) -> None:
    read = re.sub("#.*", "", path.read_text())
    named = re.findall(r"[^\s,\[\]]+\.(?:de|en|zh)\w*", read)
    assert all(name.startswith("data/") for name in named), named


def test_there_is_a_config_for_every_data_set() -> None:
    names = {
        "toy",
        "tatoeba-deu-eng",
        "tatoeba-zho-eng",
        "package-deu-eng",
        "europarl-deu-eng",
        "multi30k-deu-eng",
        "3am-zho-eng",
        "wmt15-deu-eng",
        "nist-zho-eng",
    }
    assert names <= {path.stem for path in CONFIGS}


def test_the_papers_german_model_has_its_size_and_catch_up() -> None:
    model = load_config("training/configs/wmt15-deu-eng.yaml").model
    assert (model["preset"], model["catchup"]) == ("base", 6)


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        (
            "training",
            {"lerning_rate": 1.0},
            "unknown key 'training.lerning_rate'; did you mean 'learning_rate'",
        ),
        ("training", {"zzz": 1.0}, "unknown key 'training.zzz'; the keys there are max_steps, "),
        (
            "training",
            {"max_steps": "many"},
            r"training.max_steps must be a whole number; got 'many' \(str\)",
        ),
        ("training", {"max_steps": True}, "training.max_steps must be a whole number; got True"),
        ("training", {"max_steps": 1.5}, "training.max_steps must be a whole number; got 1.5"),
        ("training", {"max_steps": 0}, "training: max_steps must be at least 1; got 0"),
        (
            "training",
            {"learning_rate": "fast"},
            "training.learning_rate must be a number; got 'fast'",
        ),
        ("training", {"learning_rate": 0}, "learning_rate must be above 0; got 0"),
        ("training", {"adam_beta2": 1.0}, "adam_beta2 must lie between 0 and 1; got 1.0"),
        ("training", {"ema": 1.0}, "ema must lie between 0 and 1, or be null; got 1.0"),
        ("training", {"r_drop": 0.0}, "r_drop must be above 0, or null for none; got 0.0"),
        ("training", {"average": 0}, "average must be at least 1; got 0"),
        (
            "training",
            {"clip_norm": 0.0},
            "clip_norm must be above 0, or null for no clipping; got 0.0",
        ),
        ("training", {"clip_norm": []}, "training.clip_norm must be a number or null; got"),
        (
            "training",
            {"schedule": "linear"},
            "training.schedule must be 'inverse_sqrt' or 'cosine'; got 'linear'",
        ),
        ("training", {"multi_ks": [0]}, r"multi_ks lists k of 1 or more.*got \[0\]"),
        (
            "training",
            {"multi_ks": ["a"]},
            "training.multi_ks must be a list, each a whole number or 'full'",
        ),
        ("training", {"multi_paths": 1.5}, "multi_paths is a share, 0 to 1; got 1.5"),
        (
            "training",
            {"multi_paths": 0.5, "multi_draw": "batch"},
            "multi_paths needs multi_draw: sentence, and in multi_ks a k besides full",
        ),
        (
            "training",
            {"multi_paths": 0.5, "multi_ks": ["full"]},
            "multi_paths needs multi_draw: sentence",
        ),
        ("training", {"patience": 0}, "patience must be at least 1; got 0"),
        ("data", {"train": None}, "data: train is missing: give two text files"),
        (
            "data",
            {"train": ["a", "b", "c"]},
            r"train as a list is \[source file, target file\]; got 3 entries",
        ),
        (
            "data",
            {"dataset": "wmt/wmt14"},
            "with dataset 'wmt/wmt14', train is the name of a split",
        ),
        ("data", {"max_tokens": 1}, "max_tokens must be at least 2; got 1"),
        ("data", {"max_ratio": 0.5}, "max_ratio must be at least 1; got 0.5"),
        ("data", {"drop_duplicates": "no"}, "data.drop_duplicates must be true or false; got 'no'"),
        ("tokenizer", {"vocab_size": 10}, "tokenizer: vocab_size must be at least"),
        ("model", {"d_modl": 64}, "unknown key 'model.d_modl'; did you mean 'd_model'"),
        ("model", {"vocab_size": 64}, "unknown key 'model.vocab_size'"),
        ("model", {"d_model": "wide"}, "model: .*d_model.*expected int, got str"),
        ("model", {"preset": "huge"}, "model: presets are base, tiny; got 'huge'"),
        (
            "model",
            {"encoder_attention": "both"},
            "encoder_attention must be 'causal' or 'prefix'; got 'both'",
        ),
        ("wait_k_model", {"zzz": 1}, "unknown key 'wait_k_model.zzz'"),
        ("finetune", {"max_step": 3}, "unknown key 'finetune.max_step'; did you mean 'max_steps'"),
        ("finetune", {"seed": -1}, "finetune: seed must be at least 0; got -1"),
        ("set", {"ks": [1, 1]}, r"set: ks lists different k of 1 or more; got \[1, 1\]"),
        ("set", {"ks": [1, 5], "k_max": 4}, "k_max must reach the largest of ks, 5; got 4"),
        ("set", {"bases": 0}, "bases must be at least 1, .*; got 0 with base: full"),
        ("set", {"bases": 3, "base": "none"}, "there must be a base; got 3 with base: none"),
        ("set", {"first_threshold": 2.0}, "first_threshold is a probability; got 2.0"),
    ],
)
def test_what_is_wrong_is_named(
    settings: dict[str, Any], section: str, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=f"x.yaml: .*{message}"):
        parse_config(changed(settings, section, **values), "x.yaml")


def test_a_missing_section_and_one_that_is_none_are_named(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="the key training.learning_rate is missing"):
        parse_config({**settings, "training": {"max_steps": 3}}, "x.yaml")
    with pytest.raises(InputError, match="the key data is missing"):
        parse_config({"training": settings["training"]}, "x.yaml")
    with pytest.raises(
        InputError, match=r"data must be a section of keys and values; got 'toy' \(str\)"
    ):
        parse_config({**settings, "data": "toy"}, "x.yaml")


def test_numbers_as_yaml_misreads_them(settings: dict[str, Any]) -> None:
    values = yaml.safe_load("{learning_rate: 3e-4, max_steps: 5}")
    assert isinstance(values["learning_rate"], str)  # YAML 1.1 wants 3.0e-4
    config = parse_config({**settings, "training": values}, "x.yaml")
    assert config.training.learning_rate == 3e-4


def test_files_that_hold_no_config(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no configuration file nowhere.yaml"):
        load_config("nowhere.yaml")
    (tmp_path / "list.yaml").write_text("- a")
    with pytest.raises(InputError, match="must hold the sections data, training"):
        load_config(tmp_path / "list.yaml")
    (tmp_path / "broken.yaml").write_text("data: [")
    with pytest.raises(InputError, match="broken.yaml is not YAML"):
        load_config(tmp_path / "broken.yaml")


def test_a_config_may_say_only_what_differs_from_another(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "whole.yaml").write_text(yaml.safe_dump({**settings, "set": {"ks": [1, 3]}}))
    (tmp_path / "other.yaml").write_text(
        "{extends: whole.yaml, training: {seed: 7}, set: {base: none}}"
    )
    whole, other = (load_config(tmp_path / f"{name}.yaml") for name in ("whole", "other"))
    assert (other.training.seed, other.set.base) == (7, "none")
    changed = replace(
        other, training=replace(other.training, seed=whole.training.seed), set=whole.set
    )
    assert other.set.ks == [1, 3]
    assert changed == whole
    (tmp_path / "lost.yaml").write_text("{extends: nowhere.yaml}")
    with pytest.raises(InputError, match="there is no configuration file .*nowhere.yaml"):
        load_config(tmp_path / "lost.yaml")
    for wrong in (5, 0):
        (tmp_path / "wrong.yaml").write_text(f"{{extends: whole.yaml, training: {wrong}}}")
        with pytest.raises(InputError, match="wrong.yaml: training must be a section"):
            load_config(tmp_path / "wrong.yaml")


def test_fine_tuning_changes_only_what_it_names(settings: dict[str, Any]) -> None:
    config: RunConfig = parse_config(settings, "x.yaml")
    assert config.for_run(3, init_from=None, seed=None) == config
    tuned = config.for_run(3, init_from="base", seed=None).training
    assert (tuned.max_steps, tuned.learning_rate) == (4, config.training.learning_rate)
    config = parse_config({**settings, "second_round": {"max_steps": 7}}, "x.yaml")
    steps = {
        k: config.for_run(k, init_from="base", seed=None).training.max_steps
        for k in (3, "full", "multi")
    }
    assert steps == {3: 4, "full": 7, "multi": 7}
    assert config.for_run("full", init_from=None, seed=None).training == config.training
    with pytest.raises(InputError, match="second_round"):
        parse_config({**settings, "second_round": {"max_steps": 0}}, "x.yaml")


def test_wait_k_models_may_differ_from_the_full_sentence_one(settings: dict[str, Any]) -> None:
    values = changed(settings, "model", encoder_attention="prefix")
    config = parse_config({**values, "wait_k_model": {"encoder_attention": "causal"}}, "x.yaml")
    for k, encoder in ((3, "causal"), ("multi", "causal"), ("full", "prefix")):
        assert config.for_run(k, init_from=None, seed=None).model["encoder_attention"] == encoder


def test_k_on_the_command_line() -> None:
    assert [parse_k(text) for text in ("3", "full", "multi")] == [3, "full", "multi"]
    assert parse_ks("5, 1,3") == [1, 3, 5]
    for wrong in ("0", "-1", "x", "1.5", ""):
        with pytest.raises(
            InputError, match="--k is a number of 1 or more, 'full' or 'multi'; got"
        ):
            parse_k(wrong)
    for wrong in ("1,1", "full,1"):
        with pytest.raises(InputError, match="--ks lists different numbers"):
            parse_ks(wrong)
