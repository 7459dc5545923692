"""The German-English set in the package: small enough, loads by no name, and says something sensible."""

import pytest
from transformers import pipeline

from hf_simultaneous import AdaptiveWaitKGenerator, FullSentence, TextSession
from hf_simultaneous.doctor import BUILTIN, describe_set


@pytest.fixture(scope="module")
def generator():
    return AdaptiveWaitKGenerator.from_pretrained()


def translated(generator, text, **policy):
    with TextSession(generator, **policy) as session:
        return " ".join(event.text for event in session.stream(text.split()) if event.action == "WRITE")


def test_all_weights_together_fit_into_16_mebibytes():
    assert sum(path.stat().st_size for path in BUILTIN.rglob("*.safetensors")) <= 16 * 2**20


def test_no_code_and_no_local_path_is_shipped():
    files = [path for path in BUILTIN.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".safetensors", ".md"}
    for path in files:
        if path.suffix != ".safetensors":
            assert "/work/" not in path.read_text(encoding="utf-8"), path
            assert "../" not in path.read_text(encoding="utf-8"), path


def test_the_card_names_the_data_and_its_licence():
    card = (BUILTIN / "README.md").read_text(encoding="utf-8")
    for fact in ("Tatoeba", "CC BY 2.0 FR", "tatoeba.org", "BLEU|nrefs:1"):
        assert fact in card


@pytest.mark.parametrize(
    ("german", "english"),
    [("Ich bin müde.", "I'm tired."), ("Wo ist der Bahnhof?", "Where is the station?"), ("Danke!", "Thank you!")],
)
def test_everyday_sentences_become_english(generator, german, english):
    assert translated(generator, german, policy=FullSentence()).lower() == english.lower()


def test_operating_points_go_from_quick_to_careful(generator):
    assert list(describe_set(str(BUILTIN))["latencies"]) == ["low", "medium", "high"]
    text = "Ich glaube, dass der Zug heute nicht mehr kommt."
    delays = []
    for name in ("low", "medium", "high"):
        point = AdaptiveWaitKGenerator.from_pretrained(latency=name)
        ids = point.tokenizer([text], return_tensors="pt").input_ids
        (found,) = point.generate(ids, return_dict_in_generate=True).delays
        delays.append(sum(found) / len(found))
    assert delays == sorted(delays)
    assert delays[0] < delays[-1]


def test_the_pipeline_needs_no_model_either():
    (result,) = pipeline("simultaneous-translation")(["Ich bin müde."])
    assert result["translation_text"]
