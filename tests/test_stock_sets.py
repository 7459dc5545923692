"""Checkpoints of other families, loaded by name or folder, and the sets that are made of them."""

import json

import pytest
import torch
from transformers import pipeline

from hf_simultaneous import AdaptiveWaitKGenerator, TextSession
from hf_simultaneous.policies import Adaptive, FullSentence, LocalAgreement
from tests.stock_tokenizers import TOKENIZERS, model_for
from tests.test_framing import LANGUAGES


torch.set_num_threads(1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """The folder of a tiny NLLB, as transformers saves it."""
    folder = tmp_path_factory.mktemp("nllb")
    tokenizer = TOKENIZERS["nllb"][0](folder)
    model_for(tokenizer, "m2m_100").float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


GERMAN = {"source_language": "deu_Latn", "target_language": "eng_Latn"}


def said(generator, text="der Hund und die Katze laufen", **options):
    session = TextSession(generator, max_new_tokens=7, **options)
    return [(event.action, event.text) for event in session.stream(text.split())]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_any_family_loads_from_its_folder(name, tmp_path):
    source, target = LANGUAGES[name]
    tokenizer = TOKENIZERS[name][0](tmp_path)
    model = model_for(tokenizer, TOKENIZERS[name][1]).float()
    model.save_pretrained(tmp_path / "saved")
    tokenizer.save_pretrained(tmp_path / "saved")
    languages = {"source_language": source, "target_language": target}
    loaded = AdaptiveWaitKGenerator.from_pretrained(tmp_path / "saved", **languages)
    given = AdaptiveWaitKGenerator(loaded.model, tokenizer, **languages)
    assert loaded.framing == given.framing
    assert said(loaded) == said(given)
    loaded.save_pretrained(tmp_path / "set")
    again = AdaptiveWaitKGenerator.from_pretrained(tmp_path / "set")
    assert (again.source_language, again.target_language) == (source, target)
    assert again.framing == loaded.framing
    assert said(again, policy=FullSentence()) == said(loaded, policy=FullSentence())


def test_a_full_sentence_model_is_asked_twice_unless_it_has_thresholds(checkpoint):
    plain = AdaptiveWaitKGenerator.from_pretrained(checkpoint, **GERMAN)
    assert plain.usual_policy == LocalAgreement()
    assert said(plain) == said(plain, policy=LocalAgreement())
    thresholds = {1: 0.9, 2: 0.5}
    tuned = AdaptiveWaitKGenerator.from_pretrained(checkpoint, thresholds=thresholds, **GERMAN)
    assert tuned.usual_policy == Adaptive(thresholds)


def test_what_is_wrong_with_a_checkpoint_is_said(checkpoint, tmp_path):
    with pytest.raises(ValueError, match=r"^this model speaks 202 languages: say which"):
        AdaptiveWaitKGenerator.from_pretrained(checkpoint)
    for file in checkpoint.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "decoder_layers": 3}))
    with pytest.raises(ValueError, match=r"\d+ weights are missing, such as model\.decoder"):
        AdaptiveWaitKGenerator.from_pretrained(tmp_path, **GERMAN)
    (tmp_path / "config.json").write_text(json.dumps({**config, "d_model": 8}))
    with pytest.raises(ValueError, match=r"its weights do not fit config\.json"):
        AdaptiveWaitKGenerator.from_pretrained(tmp_path, **GERMAN)
    (tmp_path / "config.json").write_text(json.dumps({**config, "d_model": "wide"}))
    with pytest.raises(ValueError, match="d_model"):
        AdaptiveWaitKGenerator.from_pretrained(tmp_path, **GERMAN)


def test_a_set_may_hold_safetensors_only(checkpoint, tmp_path):
    generator = AdaptiveWaitKGenerator.from_pretrained(checkpoint, **GERMAN)
    generator.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match="safetensors and nothing else"):
        AdaptiveWaitKGenerator.from_pretrained(tmp_path)


def test_a_saved_set_opens_as_a_pipeline_without_trust(checkpoint, tmp_path):
    generator = AdaptiveWaitKGenerator.from_pretrained(checkpoint, **GERMAN)
    generator.save_pretrained(tmp_path)
    pipe = pipeline("simultaneous-translation", model=str(tmp_path))
    assert pipe.generator.framing == generator.framing
    text = "der Hund und die Katze laufen"
    heard = [(event.action, event.text) for event in pipe.stream(text.split(), max_new_tokens=7)]
    assert heard == said(generator)


def test_a_stock_model_in_8_bits(checkpoint):
    small = AdaptiveWaitKGenerator.from_pretrained(checkpoint, quantize="int8", **GERMAN)
    assert small.quantize == "int8"
    ids = small.tokenizer("der Hund und die Katze").input_ids
    settings = {"max_new_tokens": 7, "suppress_tokens": [small.tokenizer.pad_token_id]}
    start, forced = small.framing.prompt
    expected = small.model.generate(
        torch.tensor([ids]), forced_bos_token_id=forced, decoder_start_token_id=start, **settings
    )
    found = small.generate([ids], policy=FullSentence(), **settings)
    assert found.tolist() == expected.tolist()
