"""The German-English set in the package: small enough, loads by no name, and says something
sensible."""

import statistics

import pytest
from transformers import pipelines

from hf_simultaneous import Adaptive, AdaptiveWaitKGenerator, FullSentence, TextSession
from hf_simultaneous.cli.doctor import describe_set
from hf_simultaneous.sets import BUILTIN
from tests.test_quiet import Said


@pytest.fixture(scope="module")
def generator():
    return AdaptiveWaitKGenerator.from_pretrained()


def translated(generator, text, **policy):
    with TextSession(generator, **policy) as session:
        return " ".join(
            event.text for event in session.stream(text.split()) if event.action == "WRITE"
        )


def test_all_weights_together_fit_into_32_mebibytes():
    assert sum(path.stat().st_size for path in BUILTIN.rglob("*.safetensors")) <= 32 * 2**20


def test_no_code_and_no_local_path_is_shipped():
    files = [path for path in BUILTIN.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".safetensors", ".md"}
    for path in files:
        if (
            path.suffix == ".json" and path.name != "tokenizer.json"
        ):  # whose tokens may look like anything
            text = path.read_text(encoding="utf-8")
            assert '"/' not in text, path
            assert "../" not in text, path


def test_the_card_names_the_data_and_its_licence():
    card = (BUILTIN / "README.md").read_text(encoding="utf-8")
    for fact in ("Tatoeba", "CC BY 2.0 FR", "tatoeba.org", "BLEU|nrefs:1"):
        assert fact in card


@pytest.mark.parametrize(
    ("german", "english"),
    [
        ("Ich bin müde.", "I'm tired."),
        ("Wo ist der Bahnhof?", "Where is the train station?"),
        ("Ich habe Hunger.", "I'm hungry."),
    ],
)
def test_everyday_sentences_become_english(generator, german, english):
    assert translated(generator, german, policy=FullSentence()).lower() == english.lower()


def test_operating_points_go_from_quick_to_careful(generator):
    assert list(describe_set(str(BUILTIN))["latencies"]) == ["low", "medium", "high"]
    ids = generator.tokenizer(
        ["Meine Schwester hat mir gestern ein altes Fahrrad geschenkt."]
    ).input_ids
    means = []
    for thresholds in generator.latencies.values():
        output = generator.generate(ids, policy=Adaptive(thresholds), return_dict_in_generate=True)
        means.append(statistics.mean(output.delays[0]))
    assert means[0] < means[1] < means[2] < len(ids[0])
    assert (
        AdaptiveWaitKGenerator.from_pretrained(latency="low").thresholds
        == generator.latencies["low"]
    )


def test_the_pipeline_needs_no_model_either(monkeypatch):
    said = Said()
    monkeypatch.setattr(pipelines.logger, "handlers", [said])
    (result,) = pipelines.pipeline("simultaneous-translation")(["Ich bin müde."])
    assert result["translation_text"]
    assert said.messages == [], "nobody is advised against it"
