"""`SimultaneousConfig`: its defaults, its presets, what it refuses, and the way to disk and
back."""

import json

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import MarianConfig

from hf_simultaneous import SimultaneousConfig
from tests.tiny import tiny_config


def test_a_plain_configuration_is_what_a_marian_checkpoint_is():
    config = SimultaneousConfig()
    assert (config.wait_k, config.catchup) == (None, None)
    assert (config.encoder_attention, config.label_smoothing) == ("prefix", 0.0)
    ours, marian = config.to_dict(), MarianConfig().to_dict()
    new = {"wait_k", "catchup", "encoder_attention", "label_smoothing"}
    differ = {name for name in ours if name not in new and ours[name] != marian.get(name)}
    assert differ == {"model_type", "forced_eos_token_id"}
    assert config.forced_eos_token_id is None


def test_base_is_the_papers_transformer():
    config = SimultaneousConfig.preset("base")
    assert (config.d_model, config.encoder_ffn_dim, config.decoder_ffn_dim) == (512, 2048, 2048)
    assert (config.encoder_layers, config.decoder_layers) == (6, 6)
    assert (config.encoder_attention_heads, config.decoder_attention_heads) == (8, 8)
    assert (config.scale_embedding, config.activation_function) == (True, "relu")


@pytest.mark.parametrize("name", ["tiny", "base"])
def test_presets_are_causal_and_take_overrides(name):
    config = SimultaneousConfig.preset(name)
    assert config.encoder_attention == "causal"
    assert config.label_smoothing == 0.1
    assert config.d_model % config.encoder_attention_heads == 0
    assert (config.pad_token_id, config.decoder_start_token_id, config.eos_token_id) == (0, 0, 2)
    other = SimultaneousConfig.preset(
        name, wait_k=3, encoder_attention="prefix", d_model=64, vocab_size=100
    )
    assert (other.wait_k, other.encoder_attention, other.d_model, other.vocab_size) == (
        3,
        "prefix",
        64,
        100,
    )
    assert other.decoder_vocab_size == 100


def test_an_unknown_preset_is_refused():
    with pytest.raises(ValueError, match="presets are base, tiny; got 'huge'"):
        SimultaneousConfig.preset("huge")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("wait_k", 0, "k must be an integer of 1 or more; got 0"),
        ("wait_k", -3, "k must be an integer of 1 or more; got -3"),
        ("catchup", 0, "1 or more, or None; got 0"),
        ("encoder_attention", "bidirectional", "must be 'causal' or 'prefix'; got 'bidirectional'"),
        ("label_smoothing", 1, "must be 0 or more and below 1; got 1"),
        ("label_smoothing", -0.1, "must be 0 or more and below 1; got -0.1"),
        ("label_smoothing", float("nan"), "must be 0 or more and below 1; got nan"),
    ],
)
def test_a_bad_value_is_refused_at_once(field, value, message):
    with pytest.raises(StrictDataclassError, match=message):
        tiny_config(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [("wait_k", "3"), ("wait_k", 2.5), ("catchup", "6"), ("encoder_attention", None)],
)
def test_a_bad_type_is_refused_by_name(field, value):
    with pytest.raises(StrictDataclassError, match=field):
        tiny_config(**{field: value})
    config = tiny_config()
    with pytest.raises(StrictDataclassError, match=field):
        setattr(config, field, value)


def test_a_value_that_was_spoilt_later_is_not_saved(tmp_path):
    config = tiny_config()
    config.wait_k = 0
    with pytest.raises(StrictDataclassError, match="k must be an integer of 1 or more; got 0"):
        config.save_pretrained(tmp_path)


def test_it_comes_back_from_disk(tmp_path):
    config = tiny_config(
        wait_k=5, catchup=6, encoder_attention="causal", label_smoothing=0.1, dropout=0
    )
    config.save_pretrained(tmp_path)
    loaded = SimultaneousConfig.from_pretrained(tmp_path)
    assert loaded.wait_k == 5
    ours, theirs = config.to_dict(), loaded.to_dict()
    assert {name for name in ours if ours[name] != theirs[name]} <= {"transformers_version"}
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "simultaneous-mt"


def test_a_marian_configuration_loads_as_a_prefix_model(tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.configuration_utils.logger.warning", pytest.fail)
    MarianConfig(d_model=32, encoder_attention_heads=4, decoder_attention_heads=4).save_pretrained(
        tmp_path
    )
    config = SimultaneousConfig.from_pretrained(tmp_path)
    assert (config.encoder_attention, config.wait_k, config.d_model, config.pad_token_id) == (
        "prefix",
        None,
        32,
        58100,
    )


def test_keywords_change_what_is_loaded(tmp_path):
    MarianConfig().save_pretrained(tmp_path)
    config = SimultaneousConfig.from_pretrained(tmp_path, wait_k=3, catchup=6)
    assert (config.wait_k, config.catchup) == (3, 6)
