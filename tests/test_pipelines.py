"""`pipeline("simultaneous-translation")`: the same words as the generator gives, from a set, a
checkpoint, a model."""

import asyncio
import copy
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import MarianMTModel, pipeline

from hf_simultaneous import AdaptiveWaitKGenerator, FullSentence, SimultaneousMTModel, WaitK
from hf_simultaneous.pipelines import TASK, SimultaneousTranslationPipeline
from hf_simultaneous.text_session import TextSession
from tests.babble import SENTENCES, TEXT, babbler, save_babbler


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save_babbler(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def pipe(saved):
    return pipeline(TASK, model=saved, device="cpu")


@pytest.fixture(scope="module")
def generator(saved):
    return AdaptiveWaitKGenerator.from_pretrained(saved)


def written(events):
    """The words of a stream, its sentences parted by a space."""
    return " ".join(
        " ".join(sentence)
        for sentence in [[event.text for event in events if event.action == "WRITE"]]
    )


def untimed(events):
    return [dataclasses.replace(event, time=0.0) for event in events]


def test_a_set_is_loaded_whole(pipe, generator):
    assert isinstance(pipe, SimultaneousTranslationPipeline)
    assert list(pipe.generator.models) == [1, 3]
    assert pipe.generator.thresholds == generator.thresholds
    assert pipe.model is pipe.generator.models[3], "not loaded twice"


def test_a_text_is_translated_as_its_stream_is(pipe):
    assert pipe(TEXT) == {"translation_text": written(pipe.stream(TEXT.split()))}


def test_lists_batches_and_generators(pipe):
    alone = [pipe(text) for text in [TEXT, SENTENCES[2], "", SENTENCES[0]]]
    texts = [TEXT, SENTENCES[2], "", SENTENCES[0]]
    assert alone[2] == {"translation_text": ""}
    assert pipe(texts) == alone
    assert pipe(texts, batch_size=3) == alone
    assert pipe(["", ""], batch_size=2) == [alone[2]] * 2
    assert list(pipe(text for text in texts)) == alone


def test_a_long_text_is_decoded_some_sentences_at_a_time(pipe, monkeypatch):
    counts, generate = [], pipe.generator.generate

    def counted(sentences, **options):
        counts.append(len(sentences))
        return generate(sentences, **options)

    monkeypatch.setattr(pipe.generator, "generate", counted)
    texts = [f"{SENTENCES[0]} {SENTENCES[1]} {SENTENCES[2]}! " * 20, SENTENCES[0]]
    found = pipe(texts, batch_size=2, max_new_tokens=4)
    assert counts == [32, 29]
    ended = [*SENTENCES[:2], f"{SENTENCES[2]}!"]
    short = [pipe(sentence, max_new_tokens=4)["translation_text"] for sentence in ended]
    joined = " ".join(" ".join(short * 20).split())  # of some it writes nothing
    assert [one["translation_text"] for one in found] == [joined, short[0]]


def test_a_word_too_long_for_the_models_is_translated_in_parts(pipe):
    text = f"Das ist {'𒀀' * 90} gut. {SENTENCES[0]}"
    assert len(pipe.preprocess(text)["text"].sentences) > 3
    assert pipe(text) == {"translation_text": written(pipe.stream(text))}


def test_tokens_are_not_what_a_pipeline_gives(pipe):
    with pytest.raises(ValueError, match=r"gives text; got return_dict_in_generate=True\."):
        pipe(TEXT, return_dict_in_generate=True)
    assert pipe(TEXT, return_dict_in_generate=False) == pipe(TEXT)


def test_no_texts_have_no_translations(pipe):
    assert pipe([]) == []
    assert pipe([], k=1, batch_size=2) == []


def test_what_is_no_text_is_refused(pipe):
    with pytest.raises(
        TypeError, match=r"takes a text or a list of texts, and stream\(\) words; got 3"
    ):
        pipe(3)


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({"k": 1}, WaitK(1)),
        ({"policy": "full"}, FullSentence()),
        ({"policy": WaitK(2)}, WaitK(2)),
        ({"rho": (0.3, 0.0), "max_new_tokens": 5}, None),
    ],
)
def test_a_policy_by_name_or_by_value(pipe, generator, options, policy):
    length = {name: value for name, value in options.items() if name == "max_new_tokens"}
    policy = policy or type(generator.policy)({1: 0.3, 2: 0.2, 3: 0.1, 4: 0.0})
    expected = written(TextSession(generator, policy=policy, **length).stream(TEXT))
    assert pipe(TEXT, **options)["translation_text"] == expected
    assert written(pipe.stream(TEXT, **options)) == expected


def test_options_of_the_pipeline_hold_for_every_call(saved, generator):
    pipe = pipeline(TASK, model=saved, k=1, device="cpu")
    expected = written(TextSession(generator, policy=WaitK(1)).stream(TEXT))
    assert pipe(TEXT)["translation_text"] == written(pipe.stream(TEXT)) == expected


def test_an_operating_point(tmp_path):
    babbler = babbler_with_latencies()
    babbler.save_pretrained(str(tmp_path))
    pipe = pipeline(TASK, model=str(tmp_path), latency="low", device="cpu")
    assert pipe.generator.thresholds == {1: 0.1, 2: 0.0}
    with pytest.raises(ValueError, match="no operating point 'high'; it has: low"):
        pipeline(TASK, model=str(tmp_path), latency="high", device="cpu")


def babbler_with_latencies():
    plain = babbler()
    return AdaptiveWaitKGenerator(
        plain.models, plain.tokenizer, latencies={"low": {1: 0.1, 2: 0.0}}
    )


def test_asynchronous_code_gets_the_same(pipe):
    async def collect():
        return [event async for event in pipe.astream(SENTENCES[0].split())]

    assert untimed(asyncio.run(collect())) == untimed(pipe.stream(SENTENCES[0]))


def test_a_single_checkpoint_or_a_model_serves_every_k(tmp_path, generator):
    alone = AdaptiveWaitKGenerator(generator.models[1], generator.tokenizer)
    expected = written(TextSession(alone).stream(TEXT))
    generator.models[1].save_pretrained(tmp_path)
    generator.tokenizer.save_pretrained(tmp_path)
    for model, more in ((str(tmp_path), {}), (alone.model, {"tokenizer": generator.tokenizer})):
        pipe = pipeline(TASK, model=model, device="cpu", **more)
        assert pipe(TEXT)["translation_text"] == expected
    with pytest.raises(
        ValueError, match="latency names an operating point of a set, and .* is not a set"
    ):
        pipeline(TASK, model=str(tmp_path), latency="low", device="cpu")


def test_a_model_that_was_changed_in_memory_speaks_as_it_is_now(saved, generator):
    tokenizer = {"tokenizer": generator.tokenizer}
    model = SimultaneousMTModel.from_pretrained(saved)
    with torch.no_grad():
        model.final_logits_bias.copy_(model.final_logits_bias.roll(1))
    pipe = pipeline(TASK, model=model, **tokenizer, device="cpu")
    assert pipe.model is pipe.generator.models[3] is model
    members = {**generator.models, 3: model}
    changed = AdaptiveWaitKGenerator(members, **tokenizer, thresholds=generator.thresholds)
    assert pipe(TEXT)["translation_text"] == written(TextSession(changed).stream(TEXT))
    member = SimultaneousMTModel.from_pretrained(saved, subfolder="wait-1")
    other = pipeline(TASK, model=member, **tokenizer, device="cpu")
    assert other.generator.models[1] is member
    assert other.generator.models[3] is not member


@pytest.mark.parametrize("gone", ["/gone/for/ever", "no such/name", "a/b/c"])
def test_a_model_whose_origin_is_gone_serves_every_k(generator, gone):
    model = copy.deepcopy(generator.models[3])
    model.name_or_path = model.config.name_or_path = gone
    pipe = pipeline(TASK, model=model, tokenizer=generator.tokenizer, device="cpu")
    assert pipe.generator.models == {3: model}


def test_any_marian_checkpoint_becomes_simultaneous(tmp_path, generator):
    generator.models[1].to_marian().save_pretrained(tmp_path)
    generator.tokenizer.save_pretrained(tmp_path)
    pipe = pipeline(TASK, model=str(tmp_path), device="cpu", k=2)
    alone = AdaptiveWaitKGenerator(MarianMTModel.from_pretrained(tmp_path), generator.tokenizer)
    assert pipe(TEXT)["translation_text"] == written(
        TextSession(alone, policy=WaitK(2)).stream(TEXT)
    )


def test_saving_a_pipeline_saves_the_set(pipe, tmp_path):
    pipe.save_pretrained(str(tmp_path))
    again = pipeline(TASK, model=str(tmp_path), device="cpu")
    assert list(again.generator.models) == [1, 3]
    assert again(TEXT) == pipe(TEXT)
    assert "custom_pipelines" in json.loads((tmp_path / "config.json").read_text())


ELSEWHERE = """
import json, sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hf_simultaneous":
            raise ImportError(name + " is not installed")
sys.meta_path.insert(0, Gone())
from transformers import pipeline
folder, text, again = sys.argv[1:]
pipe = pipeline(model=folder, trust_remote_code=True, device="cpu")
events = [event.to_dict() for event in pipe.stream(text.split(), k=1)]
pipe.save_pretrained(again)
print(json.dumps([pipe(text), pipe([text], policy="full"), events, pipe.task]))
"""


@pytest.mark.system
def test_the_pipeline_ships_with_the_set_and_works_where_the_package_is_not_installed(
    pipe, saved, tmp_path
):
    environment = {
        **os.environ,
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": "",
    }
    command = [sys.executable, "-c", ELSEWHERE, saved, TEXT, str(tmp_path / "again")]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    text, texts, events, task = json.loads(done.stdout.splitlines()[-1])
    assert task == TASK
    assert text == pipe(TEXT)
    assert texts == pipe([TEXT], policy="full")
    expected = [event.to_dict() for event in pipe.stream(TEXT.split(), k=1)]
    assert [event["text"] for event in events] == [event["text"] for event in expected]
    assert {path.name for path in (tmp_path / "again").iterdir()} == {
        path.name for path in Path(saved).iterdir()
    }
    assert pipeline(TASK, model=str(tmp_path / "again"), device="cpu")(TEXT) == text


def test_a_member_saved_alone_does_not_name_a_pipeline_it_does_not_bring(saved, tmp_path):
    SimultaneousMTModel.from_pretrained(saved).save_pretrained(tmp_path)
    assert "custom_pipelines" not in json.loads((tmp_path / "config.json").read_text())
