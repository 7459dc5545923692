"""The `evaluate` modules load from their folders and give what `metrics` gives."""

from pathlib import Path

import pytest

from hf_simultaneous.metrics import Metric, Sentence, corpus_bleu, corpus_latency


FOLDER = Path(__file__).parents[2] / "hub_cards" / "metrics"
DELAYS = [[3, 4, 5, 6, 6, 6], [2, 2, 3, 3]]


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path))
    import evaluate

    return lambda name: evaluate.load(str(FOLDER / name), cache_dir=str(tmp_path / "cache"))


def test_latency(load):
    module = load("simultaneous_latency")
    scores = module.compute(predictions=DELAYS, references=[6, 5], source_lengths=[6, 3])
    sentences = [Sentence(DELAYS[0], 6, 6), Sentence(DELAYS[1], 3, 5)]
    for name, metric in {
        "al": Metric("AL"),
        "laal": Metric("LAAL"),
        "ap": Metric("AP"),
        "dal": Metric("DAL"),
    }.items():
        assert scores[name] == pytest.approx(corpus_latency(sentences, metric).value)
        assert scores["signatures"][name] == metric.signature
    assert set(scores) == {"al", "al_ref", "laal", "ap", "dal", "cw", "signatures"}
    module.add_batch(predictions=DELAYS[:1], references=[6])
    assert module.compute(source_lengths=[6])["al"] == pytest.approx(3.0)
    with pytest.raises(ValueError, match="each of the 2 sentences; got 1"):
        module.compute(predictions=DELAYS, references=[6, 5], source_lengths=[6])


def test_quality_and_latency(load):
    module = load("simultaneous_translation")
    texts, references = (
        ["the old house is very big", "a small dog barks"],
        ["the old house is too big", "a dog barks"],
    )
    given = {"delays": DELAYS, "source_lengths": [6, 3]}
    scores = module.compute(predictions=texts, references=references, **given)
    assert scores["bleu"] == pytest.approx(corpus_bleu(texts, [references]).value)
    expected = corpus_latency(
        [Sentence(DELAYS[0], 6, 6), Sentence(DELAYS[1], 3, 3)], Metric("LAAL", unit="word")
    )
    assert (scores["laal"], scores["signatures"]["laal"]) == (
        pytest.approx(expected.value),
        expected.signature,
    )
    two = module.compute(
        predictions=texts,
        references=[[r, t] for r, t in zip(references, texts, strict=True)],
        **given,
    )
    assert two["bleu"] == pytest.approx(100)
    with pytest.raises(ValueError, match="delays must have one for each of the 2 sentences; got 1"):
        module.compute(
            predictions=texts, references=references, delays=DELAYS[:1], source_lengths=[6, 3]
        )
    with pytest.raises(ValueError, match="the same number of references"):
        module.compute(predictions=texts, references=[["a"], ["b", "c"]], **given)
