"""Wait-k training of other families than ours, from a checkpoint to a set that streams."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM

from hf_simultaneous import AdaptiveWaitKGenerator, TextSession, WaitK
from hf_simultaneous.framing import Framing, tells_languages
from hf_simultaneous.policies import LocalAgreement
from hf_simultaneous.schedule import visible
from tests.stock_tokenizers import TOKENIZERS, model_for
from tests.training.small import run_here
from training import train_all
from training.batches import Draw
from training.data import prepare
from training.options import parse_config
from training.prefixes import Cut, PrefixBatches, cut
from training.stock import generator_of, load


Settings = dict[str, Any]
KINDS = {"nllb": ("deu_Latn", "eng_Latn"), "t5": ("de", "en")}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One with language tokens before source and target, and one without any."""
    found = {}
    for name in KINDS:
        make, family = TOKENIZERS[name]
        found[name] = tmp_path_factory.mktemp(name)
        tokenizer = make(found[name])
        options = {} if family == "t5" else {"max_position_embeddings": 200}
        model_for(tokenizer, family, **options).half().save_pretrained(found[name])
        tokenizer.save_pretrained(found[name])
    return found


@pytest.fixture
def configs(settings: Settings, checkpoints: dict[str, Path]) -> Callable[..., Settings]:
    def make(name: str, **training: Any) -> Settings:
        source, target = KINDS[name]
        data = {"source_language": source, "target_language": target, "max_tokens": 120}
        return {
            "init": str(checkpoints[name]),
            "data": {**settings["data"], **data},
            "model": {"dropout": 0.1, "label_smoothing": 0.1},
            "training": {**settings["training"], **training},
        }

    return make


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(first: Path, second: Path) -> bool:
    one, other = weights(first), weights(second)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(("name", "k"), [("nllb", 3), ("t5", "multi")])
def test_a_run_learns_goes_on_to_the_bit_and_streams(
    configs: Callable[..., Settings],
    checkpoints: dict[str, Path],
    train: Callable[..., int],
    tmp_path: Path,
    name: str,
    k: Any,
) -> None:
    values = configs(name, max_steps=24, evaluate_every=8, checkpoint_every=5, learning_rate=0.02)
    assert train(values, k, tmp_path / "whole") == 0
    assert train(values, k, tmp_path / "parts", "--max-steps", "7") == 0
    assert train(values, k, tmp_path / "parts", "--resume") == 0
    assert same(tmp_path / "whole", tmp_path / "parts")
    history = json.loads((tmp_path / "whole" / "training.json").read_text())["history"]
    for loss in ("loss", "dev_loss"):
        falling = [entry[loss] for entry in history]
        assert falling == sorted(falling, reverse=True)
        assert falling[-1] < falling[0] - 0.3
    before = AutoModelForSeq2SeqLM.from_pretrained(checkpoints[name])
    after = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "whole")
    assert type(after) is type(before)
    assert after.dtype == torch.float32
    generator = AdaptiveWaitKGenerator.from_pretrained(tmp_path / "whole")
    assert list(generator.models) == [k if k == 3 else "full"]
    asked_twice = isinstance(generator.usual_policy, LocalAgreement)
    assert asked_twice == (k == "multi"), "a model that was trained for a k needs no agreement"
    told = KINDS[name] if name == "nllb" else (None, None)
    assert (generator.source_language, generator.target_language) == told
    session = TextSession(generator, policy=WaitK(3), max_new_tokens=9)
    actions = [
        event.action for event in session.stream(["das", "Kind", "hat", "den", "Hund", "gesucht"])
    ]
    assert "WRITE" in actions[: actions.index("END")]


def test_a_set_is_trained_from_it(
    configs: Callable[..., Settings],
    config_file: Callable[[Settings], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(train_all.subprocess, "run", run_here)
    values = {**configs("nllb", max_steps=2), "set": {"ks": [2], "base": "none"}}
    command = ["--config", config_file(values), "--output", str(tmp_path / "out"), "--jobs", "1"]
    assert train_all.main(command) == 0
    generator = AdaptiveWaitKGenerator.from_pretrained(tmp_path / "out" / "set")
    assert list(generator.models) == [2, "full"]
    assert (generator.source_language, generator.target_language) == KINDS["nllb"]
    card = (tmp_path / "out" / "set" / "README.md").read_text()
    assert "deu_Latn" in card


def test_what_is_cut_is_what_wait_k_has_read() -> None:
    rng = random.Random(3)
    ended = 0
    for _ in range(300):
        source_len, target_len, k = rng.randint(1, 12), rng.randint(1, 12), rng.randint(1, 6)
        step, catchup = rng.randint(1, target_len), rng.choice((None, 2))
        found = cut(step, k, source_len, target_len, catchup)
        assert found.source == visible(step, k, source_len, catchup)
        ended += found.source == source_len
        assert found.target == (target_len if found.source == source_len else step)
    assert 50 < ended < 250


def batches_of(config: Any, name: str, model: Any, corpus: Any, k: Any = 2) -> PrefixBatches:
    generator = generator_of(config, "full", model, corpus.tokenizer)
    return PrefixBatches(
        corpus.splits["train"],
        corpus.tokenizer,
        framing=generator.framing,
        draw=Draw(ks=[k], per="sentence"),
        batch_tokens=300,
        seed=5,
    )


@pytest.mark.parametrize("name", KINDS)
def test_batches_are_framed_and_counted(
    configs: Callable[..., Settings], checkpoints: dict[str, Path], name: str
) -> None:
    config = parse_config(configs(name), "x.yaml")
    model = load(config, str(checkpoints[name]))
    tokenizer = TOKENIZERS[name][0](checkpoints[name])
    corpus = prepare(config.data, config.tokenizer, tokenizer)
    batches = batches_of(config, name, model, corpus)
    steps = batches.epoch(0)
    assert steps == batches.epoch(0)
    assert steps != batches.epoch(1), "other prefixes every time"
    framing = generator_of(config, "full", model, corpus.tokenizer).framing
    assert len(framing.prompt) == (2 if name == "nllb" else 1)
    cuts = set()
    for step, (batch,) in zip(steps[:5], batches.load(steps[:5]), strict=True):
        assert int((batch["labels"] != -100).sum()) == step.tokens
        for index, (row, drawn) in enumerate(step.batches[0]):
            pair = corpus.splits["train"][row]
            ended = drawn.source == len(pair["input_ids"])
            cuts.add(ended)
            seen = framing.put_on(pair["input_ids"][: drawn.source], ended)
            mask = batch["attention_mask"][index].bool()
            assert batch["input_ids"][index][mask].tolist() == seen
            said = [*framing.prompt, *pair["labels"][: drawn.target]][:-1]
            assert batch["decoder_input_ids"][index][: len(said)].tolist() == said
            learnt = batch["labels"][index][len(framing.prompt) - 1 :]
            assert learnt[: drawn.target].tolist() == pair["labels"][: drawn.target]
            assert set(batch["labels"][index][: len(framing.prompt) - 1].tolist()) <= {-100}
    assert cuts == {True, False}
    assert pair["input_ids"][-1] == tokenizer.eos_token_id


@pytest.mark.parametrize("name", KINDS)
def test_nothing_beyond_the_prefix_is_seen(
    configs: Callable[..., Settings], checkpoints: dict[str, Path], name: str
) -> None:
    """And what is in it is: a control that must differ."""
    config = parse_config(configs(name), "x.yaml")
    model = load(config, str(checkpoints[name])).double().eval()
    tokenizer = TOKENIZERS[name][0](checkpoints[name])
    corpus = prepare(config.data, config.tokenizer, tokenizer)
    batches = batches_of(config, name, model, corpus)
    step = batches.epoch(0)[0]
    table = corpus.splits["train"]

    def logits(change: Callable[[list[int], Cut], list[int]]) -> torch.Tensor:
        rows = [(table[row], drawn) for row, drawn in step.batches[0]]
        features = [
            batches.rows.features(change(pair["input_ids"], drawn), pair["labels"], drawn)
            for pair, drawn in rows
        ]
        batch = batches.collate(features)
        with torch.no_grad():
            found = model(**{key: batch[key] for key in batch if key != "labels"}).logits
        return found.flatten(0, 1)[batch["labels"].flatten() != -100]

    sizes = [(drawn.source, len(table[row]["input_ids"])) for row, drawn in step.batches[0]]
    assert sum(seen < there for seen, there in sizes) > 3
    right = logits(lambda source, _: source)
    other = logits(lambda source, drawn: [*source[: drawn.source], *[9] * 3][: len(source)])
    assert torch.equal(right, other)
    changed = logits(
        lambda source, drawn: [*source[: drawn.source - 1], 9, *source[drawn.source :]]
    )
    assert not torch.allclose(right, changed)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("nllb", {"model": {"d_model": 64}}, "model.d_model cannot be set for a 'm2m_100' model"),
        ("t5", {"model": {"attention_dropout": 0.1}}, "set for a 't5' model, .* can is dropout, l"),
        ("nllb", {"data": {"target_language": "eng_Lat"}}, "data.target_language: .* eng_Latn"),
        ("nllb", {"data": {"max_tokens": 200}}, "max_tokens is 200, but the model has 199 pos"),
        (
            "t5",
            {"training": {"multi_paths": 0.5}},
            "multi_paths is for models that know wait-k; t5",
        ),
    ],
)
def test_what_does_not_fit_is_said(
    configs: Callable[..., Settings],
    train: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    change: Settings,
    message: str,
) -> None:
    values = configs(name)
    for section, keys in change.items():
        values[section] = {**values[section], **keys}
    assert train(values, 2, tmp_path / "run") == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_family_that_is_not_known(
    settings: Settings, train: Callable[..., int], tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "config.json").write_text('{"model_type": "gpt2"}')
    assert train({**settings, "init": str(tmp_path / "gpt")}, 2, tmp_path / "run") == 2
    assert "it is of the family 'gpt2'; those that work are" in capsys.readouterr().err


def test_t5_is_told_the_pairs_it_knows(checkpoints: dict[str, Path]) -> None:
    tokenizer = TOKENIZERS["t5"][0](checkpoints["t5"])
    model = model_for(tokenizer, "t5")
    assert not tells_languages(model, tokenizer, "de", "en")
    model.config.task_specific_params = {"translation_de_to_en": {"prefix": "der Hund "}}
    assert tells_languages(model, tokenizer, "de", "en")
    assert not tells_languages(model, tokenizer, "en", "de")
    assert Framing((0,)).put_on([5], ended=False) == [5]
