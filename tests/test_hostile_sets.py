"""Sets made to cost much, to lead elsewhere or to be misunderstood: each is refused at once, by one
`ValueError` that names the file."""

import json
import math
import os
import random
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_simultaneous import AdaptiveWaitKGenerator, linear_thresholds
from hf_simultaneous.schedule import FULL
from tests.guard import cheaply
from tests.reference import random_model, word_tokenizer
from tests.tiny import TALKATIVE, tiny_model


CONFIG = "adaptive_config.json"
ENDLESS = "[" * 100_000
BILLION = 10**9


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = random.Random(7)
    models = {
        k: random_model(rng, 1, torch.float32, encoder_attention="causal", **own)
        for k, own in ((2, {"wait_k": 2}), (FULL, {}))
    }
    folder = tmp_path_factory.mktemp("sets") / "set"
    AdaptiveWaitKGenerator(
        models,
        word_tokenizer(),
        linear_thresholds(0.8, 0.2, 1, 3),
        {k: [2, FULL] for k in (1, 2, 3)},
    ).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "set")


def changed(path: Path, **entries) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def refuse(folder: Path, file: Path | str, message: str) -> None:
    with cheaply(), pytest.raises(ValueError, match=message) as refusal:
        AdaptiveWaitKGenerator.from_pretrained(folder)
    assert str(file) in str(refusal.value)


def test_a_set_whose_ensembles_name_the_full_sentence_model_survives(folder):
    loaded = AdaptiveWaitKGenerator.from_pretrained(folder)
    assert dict(loaded.ensembles) == dict.fromkeys((1, 2, 3), (2, FULL))


@pytest.mark.parametrize("unshared", [{}, {**TALKATIVE, "decoder_vocab_size": 30}])
@pytest.mark.parametrize("kind", [{"max_shard_size": "5KB"}, {"variant": "half"}])
def test_shards_variants_and_tables_of_their_own_are_fine(tmp_path, unshared, kind):
    model = tiny_model(**unshared)
    for one in (model, model.to_marian()):
        folder = tmp_path / type(one).__name__
        one.save_pretrained(folder, **kind)
        variant = {"variant": "half"} if "variant" in kind else {}
        loaded = AdaptiveWaitKGenerator.from_pretrained(folder, **variant).model
        assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"thresholds": {"1": 0.5, str(BILLION): 0.1}}, "must be 1000 or less"),
        ({"latencies": {"low": {"1": 0.5, str(BILLION): 0.1}}}, "must be 1000 or less"),
        ({"ensembles": {str(BILLION): ["2"]}}, "must be 1000 or less"),
        ({"members": {str(BILLION): {"folder": "."}}}, "must be 1000 or less"),
        ({"members": {str(k): {"folder": "."} for k in range(1, 10_000)}}, "100 members at most"),
        ({"members": {"3": {"folder": "."}}}, "the one named 3 was trained with 2"),
        ({"members": {"2": {"folder": "\ud800"}}}, "UnicodeEncodeError"),
        ({"members": {"2": {"folder": "a\0b"}}}, "below the set's own"),
        ({"members": {"2": {"folder": "a" * 5000}}}, "below the set's own"),
        ({"ensembles": {"1": "2", "2": "2", "3": "2"}}, "members are a list; got '2'"),
        ({"ensembles": "single"}, "'str' object has no attribute"),
        ({"tail_beams": BILLION}, "tail_beams must be 100 or less"),
        ({"dev_scores": {"1": {"2": math.nan}}}, "NaN is not JSON"),
        ({"thresholds": {"1": 10**400}}, "OverflowError"),
    ],
)
def test_a_hostile_config_of_a_set(folder, entries, message):
    changed(folder / CONFIG, **entries)
    refuse(folder, folder / CONFIG, message)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda text: text.replace('"format"', '"format": 1, "format"'), "'format' is there twice"),
        (
            lambda text: text.replace('"dev_scores": null', '"dev_scores": {"1": {"2": 1e999}}'),
            "inf",
        ),
        (lambda text: ENDLESS, "RecursionError"),
        (lambda text: "3", "it must be an object with entries, not int"),
    ],
)
def test_a_config_of_a_set_that_is_odd_json(folder, harm, message):
    path = folder / CONFIG
    path.write_text(harm(path.read_text()))
    refuse(folder, path, message)


MEMBER = [
    ({"decoder_layers": 10**6}, "decoder_layers is 1000000 there, and 2 in the weights"),
    ({"encoder_layers": 10**6}, "encoder_layers is 1000000 there"),
    ({"encoder_layers": 0}, "encoder_layers must be 1 or more"),
    ({"d_model": 2**30}, "d_model is"),
    ({"vocab_size": BILLION, "decoder_vocab_size": BILLION}, "vocab_size, d_model is"),
    ({"encoder_ffn_dim": BILLION}, "encoder_ffn_dim, d_model is"),
    ({"max_position_embeddings": 10**7}, "max_position_embeddings must be 10000 or less"),
    ({"max_position_embeddings": 0}, "max_position_embeddings must be 1 or more"),
    ({"decoder_attention_heads": 0}, "decoder_attention_heads must be 1 or more"),
    ({"decoder_attention_heads": 5}, "divisible by decoder_attention_heads"),
    ({"pad_token_id": BILLION}, "pad_token_id must be 0 to"),
    ({"eos_token_id": BILLION}, "eos_token_id must be 0 to"),
    ({"eos_token_id": [2, -1]}, "eos_token_id must be 0 to"),
    ({"decoder_start_token_id": None}, "decoder_start_token_id.*expected int"),
    ({"activation_function": "magic"}, "no activation_function 'magic'"),
    ({"wait_k": BILLION}, "1000 or less"),
    ({"wait_k": "two"}, "wait_k"),
    ({"configuration_files": ["config.4.0.0.json"]}, "configuration_files is not allowed"),
    ({"dtype": "float1"}, "float1"),
]


@pytest.mark.parametrize(("entries", "message"), MEMBER)
@pytest.mark.parametrize("alone", [False, True], ids=["member", "checkpoint"])
def test_a_hostile_config_of_a_member(folder, entries, message, alone):
    changed(folder / "config.json", **entries)
    if alone:
        (folder / CONFIG).unlink()
    refuse(folder, folder, message)


@pytest.mark.parametrize("text", [ENDLESS, "3", "", '{"a": 1, "a": 2}'])
@pytest.mark.parametrize(
    "name", ["config.json", "generation_config.json", "full/config.json", "tokenizer.json"]
)
def test_a_file_that_is_odd_json(folder, name, text):
    (folder / name).write_text(text)
    refuse(folder, folder / name, "is not a (configuration|tokenizer)")


@pytest.mark.parametrize(
    "shard", ["pytorch_model.bin", "../model.safetensors", "a\\b.safetensors", "none.safetensors"]
)
def test_weights_are_safetensors_whatever_an_index_says(folder, shard):
    torch.save({"a": torch.zeros(1)}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shard}}))
    refuse(folder, folder, "weights are safetensors in files beside it|is missing, or is not a")
    index.write_text(ENDLESS)
    refuse(folder, index, "is not an index of weights: RecursionError")


def test_a_pickle_that_is_called_safetensors(folder):
    (folder / "model.safetensors").unlink()
    torch.save({"a": torch.zeros(1)}, folder / "model.safetensors")
    refuse(folder, folder / "model.safetensors", "is damaged")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_numbers(folder, value):
    weights = load_file(folder / "model.safetensors")
    weights["model.decoder.layers.0.fc1.weight"][0, 0] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refuse(folder, folder / "model.safetensors", "fc1.weight is not all numbers")


def test_a_token_may_be_ruled_out_by_its_bias(folder):
    weights = load_file(folder / "model.safetensors")
    weights["final_logits_bias"][0, 0] = -math.inf
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    AdaptiveWaitKGenerator.from_pretrained(folder)


@pytest.mark.parametrize(
    "name", [CONFIG, "config.json", "tokenizer.json", "model.safetensors", "full/config.json"]
)
@pytest.mark.parametrize("alone", [False, True], ids=["set", "checkpoint"])
def test_a_pipe_is_not_a_file(folder, name, alone):
    if alone:
        (folder / CONFIG).unlink()
        folder = (folder / name).parent
    path = folder / Path(name).name if alone else folder / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    refuse(folder, path, "is not a file")


@pytest.mark.parametrize("name", [CONFIG, "config.json", "full"])
def test_a_link_that_leads_to_itself(folder, name):
    path = folder / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(path.name)
    refuse(folder, path, "leads nowhere")


@pytest.mark.parametrize(
    "entries",
    [
        {"bad_words_ids": [[0]], "decoder_start_token_id": None, "bos_token_id": None},
        {"eos_token_id": BILLION},
        {"no_repeat_ngram_size": "many"},
    ],
)
def test_a_hostile_generation_config(folder, entries):
    (folder / "generation_config.json").write_text(json.dumps(entries))
    refuse(folder, folder / "generation_config.json", "")


def test_a_tokenizer_of_another_vocabulary(folder):
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocab = tokenizer["model"]["vocab"]
    vocab["one-too-many"] = len(vocab) + 100
    path.write_text(json.dumps(tokenizer))
    refuse(folder, folder, "the tokenizer in .* is not that of the models: it has tokens up to")


def test_a_tokenizer_that_needs_what_is_not_installed(folder, monkeypatch):
    (folder / "source.spm").write_bytes(b"")
    (folder / "tokenizer.json").write_text("{}")
    refuse(folder, folder, "cannot be read")
    monkeypatch.setattr("hf_simultaneous.members.find_spec", lambda name: None)
    refuse(folder, folder, r"needs sentencepiece, .* pip install sentencepiece$")


def test_a_tokenizer_with_another_end(folder):
    changed(folder / "tokenizer_config.json", eos_token="w5")
    refuse(folder, folder, "is not that of the models: eos_token_id is 5, and theirs is 2")


def test_a_tokenizer_with_an_endless_entry(folder):
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a" * 300_000, -1]]}
    for kind in (model, {**tokenizer["model"], "vocab": {"a" * 300_000: 0}}):
        path.write_text(json.dumps({**tokenizer, "model": kind}))
        refuse(folder, path, "an entry of a vocabulary has 1000 letters at most")
