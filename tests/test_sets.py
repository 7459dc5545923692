"""A set of models as one thing to save, load and share; what a folder may not contain;
`custom_generate`."""

import copy
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, BertConfig, BertModel, MarianConfig, MarianMTModel

from hf_simultaneous import (
    AdaptiveWaitKGenerator,
    SimultaneousMTModel,
    custom_generation,
    linear_thresholds,
    places,
)
from hf_simultaneous.policies import FullSentence, WaitK
from hf_simultaneous.schedule import FULL
from tests.reference import padded, random_model, word_tokenizer
from tests.tiny import EOS, SIZES, TOKENS


torch.set_num_threads(1)

CONFIG = "adaptive_config.json"
SOURCES = [[5, 9, 14, 20, 7, EOS], [11, 6, EOS]]
IDS, MASK = padded(SOURCES), padded([[1] * len(source) for source in SOURCES])
KS = range(1, 6)
SCORES = {k: {1: 10.0 + k, 3: 12.0, 4: 11.0, FULL: 9.0} for k in KS}
LATENCIES = {"low": linear_thresholds(0.3, 0.0, 1, 5), "high": linear_thresholds(1.0, 0.9, 1, 5)}


@pytest.fixture(scope="module")
def generator():
    rng = random.Random(21)
    encoders = {1: "causal", 3: "prefix", 4: "causal", FULL: "prefix"}
    models = {
        k: random_model(rng, 2, torch.float32, encoder_attention=encoder)
        for k, encoder in encoders.items()
    }
    return AdaptiveWaitKGenerator(
        models,
        word_tokenizer(),
        linear_thresholds(0.8, 0.2, 1, 5),
        {1: [1], 2: [1, 3], 3: [3], 4: [4, FULL], 5: [1, 3, 4]},
        dev_scores=SCORES,
        latencies=LATENCIES,
        early_stop=False,
    )


@pytest.fixture(scope="module")
def saved(generator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets") / "set"
    generator.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    """The set's config and links to its members, to be tampered with."""
    folder = tmp_path / "tampered"
    folder.mkdir()
    (folder / CONFIG).write_text((saved / CONFIG).read_text())
    for path in saved.iterdir():
        if path.is_file() and path.name != CONFIG:
            os.link(path, folder / path.name)
        elif path.is_dir():
            (folder / path.name).mkdir()
            for inner in path.iterdir():
                os.link(inner, folder / path.name / inner.name)
    return folder


def tamper(folder: Path, **changes) -> None:
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**config, **changes}))


def told(generator, **options):
    output = generator.generate(
        IDS, MASK, max_new_tokens=6, return_dict_in_generate=True, **options
    )
    return output.sequences.tolist(), output.actions


# There and back


def test_everything_survives(generator, saved):
    loaded = AdaptiveWaitKGenerator.from_pretrained(saved)
    assert told(loaded) == told(generator)
    for name in (
        "thresholds",
        "ensembles",
        "dev_scores",
        "latencies",
        "early_stop",
        "history",
        "catchup",
        "root",
    ):
        assert getattr(loaded, name) == getattr(generator, name), name
    assert list(loaded.models) == [1, 3, 4, FULL]
    assert loaded.tokenizer("w4 w5").input_ids == [4, 5, EOS]
    assert not any(model.training for model in loaded.models.values())


def test_an_ensemble_by_name_survives_as_what_it_meant(generator, tmp_path):
    top = AdaptiveWaitKGenerator(
        {k: generator.models[k] for k in (1, 3, 4)},
        thresholds=linear_thresholds(0.8, 0.2, 1, 5),
        ensembles="top-3",
        dev_scores=SCORES,
        history="path",
    )
    top.save_pretrained(tmp_path)
    loaded = AdaptiveWaitKGenerator.from_pretrained(str(tmp_path))
    assert loaded.ensembles == top.ensembles == dict.fromkeys(KS, (1, 3, 4))
    assert (loaded.history, loaded.early_stop, loaded.tokenizer) == ("path", True, None)


def test_the_files_of_a_set(saved):
    assert {path.name for path in saved.iterdir()} >= {
        CONFIG,
        "config.json",
        "model.safetensors",
        "wait-1",
        "full",
    }
    assert not (saved / "wait-4").exists(), "the largest k is the root itself"
    config = json.loads((saved / CONFIG).read_text())
    assert config["format"] == 1
    assert config["members"] == {
        "1": {"folder": "wait-1"},
        "3": {"folder": "wait-3"},
        "4": {"folder": "."},
        "full": {"folder": "full"},
    }
    suffixes = {path.suffix for path in saved.rglob("*") if path.is_file()}
    assert suffixes == {".json", ".py", ".safetensors"}, "nothing that unpickles"


def test_the_root_is_a_checkpoint_by_itself(generator, saved):
    model = AutoModelForSeq2SeqLM.from_pretrained(saved)
    assert type(model) is SimultaneousMTModel
    expected = generator.models[4].generate(IDS, attention_mask=MASK, wait_k=2, max_new_tokens=5)
    assert torch.equal(
        model.generate(IDS, attention_mask=MASK, wait_k=2, max_new_tokens=5), expected
    )


def test_a_name_for_a_latency(generator, saved):
    fast = AdaptiveWaitKGenerator.from_pretrained(saved, latency="low")
    assert fast.thresholds == LATENCIES["low"]
    assert told(fast) != told(generator)
    with pytest.raises(ValueError, match="no operating point 'medium'; it has: low, high"):
        AdaptiveWaitKGenerator.from_pretrained(saved, latency="medium")


def test_what_the_caller_says_beats_what_is_saved(saved):
    loaded = AdaptiveWaitKGenerator.from_pretrained(
        saved,
        thresholds={2: 0.5},
        ensembles="all",
        early_stop=True,
        dtype=torch.float64,
        device="cpu",
    )
    assert loaded.thresholds == {2: 0.5}
    assert loaded.ensembles == {2: (1, 3, 4)}
    assert loaded.early_stop
    assert {model.dtype for model in loaded.models.values()} == {torch.float64}
    with pytest.raises(
        ValueError, match="^thresholds must cover"
    ):  # the caller's fault, not the file's
        AdaptiveWaitKGenerator.from_pretrained(saved, thresholds={2: 0.5, 4: 0.1})


def test_a_single_checkpoint_is_a_set_of_one(generator, tmp_path):
    ours, marian = tmp_path / "ours", tmp_path / "marian"
    generator.models[3].save_pretrained(ours)
    loaded = AdaptiveWaitKGenerator.from_pretrained(ours)
    assert list(loaded.models) == [FULL]
    assert told(loaded, policy=WaitK(2)) == told(
        AdaptiveWaitKGenerator(generator.models[3]), policy=WaitK(2)
    )
    with pytest.raises(
        ValueError, match=r"no operating point 'low'; it has: none; make one with calibrate\(\)"
    ):
        AdaptiveWaitKGenerator.from_pretrained(ours, latency="low")
    torch.manual_seed(0)
    plain = MarianMTModel(MarianConfig(**SIZES, **TOKENS, init_std=0.5)).eval()
    plain.save_pretrained(marian)
    found = AdaptiveWaitKGenerator.from_pretrained(marian).generate(
        IDS, MASK, policy=FullSentence(), max_new_tokens=5
    )
    assert torch.equal(found, plain.generate(IDS, attention_mask=MASK, max_new_tokens=5))


def test_a_set_may_be_saved_over_itself(generator, folder):
    loaded = AdaptiveWaitKGenerator.from_pretrained(folder)
    loaded.save_pretrained(folder)
    assert told(loaded) == told(generator)
    assert told(AdaptiveWaitKGenerator.from_pretrained(folder)) == told(generator)


def test_saving_a_set_leaves_a_card_alone(generator, folder):
    (folder / "README.md").write_text("Mine.")
    generator.save_pretrained(folder)
    assert (folder / "README.md").read_text() == "Mine."


def test_a_save_cut_in_the_middle_leaves_no_set(generator, folder, monkeypatch):
    def full(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(type(generator.tokenizer), "save_pretrained", full)
    with pytest.raises(OSError, match="no space left"):
        generator.save_pretrained(folder)
    assert not (folder / CONFIG).exists()


# What a folder may not contain


MEMBERS = {
    "1": {"folder": "wait-1"},
    "3": {"folder": "wait-3"},
    "4": {"folder": "."},
    "full": {"folder": "full"},
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format 2 is not 1, the one this version reads"),
        ({"format": None}, "format None is not 1"),
        ({"thresholds": {"1": 0.5, "3": 0.1}}, "thresholds must cover k_min..k_max without gaps"),
        ({"thresholds": {}}, "thresholds must name at least one k"),
        ({"thresholds": {"1": 1.5}}, "a threshold is a probability"),
        ({"thresholds": {"1": "0.5"}}, "'0.5' is not a number"),
        ({"thresholds": {"1": True}}, "True is not a number"),
        ({"thresholds": {"1": None}}, "None is not a number"),
        ({"thresholds": {"one": 0.5}}, "a member is 'full' or a number.*'one'"),
        ({"thresholds": {"1": 0.5, "01": 0.4}}, "a number such as '3'; got '01'"),
        ({"thresholds": {"full": 0.5}}, "must be an integer of 1 or more; got 'full'"),
        ({"thresholds": [0.5]}, "'list' object has no attribute"),
        ({"latencies": {"low": {"1": 0.5, "3": 0.1}}}, "without gaps"),
        ({"latencies": []}, "'list' object has no attribute"),
        ({"ensembles": {"1": ["1"]}}, r"for every k in thresholds; nothing for \[2, 3, 4, 5\]"),
        (
            {"ensembles": {str(k): ["2"] for k in KS}},
            r"name models of the set, .*each once; got \[2\] for k=1",
        ),
        ({"ensembles": {str(k): [] for k in KS}}, r"each once; got \[\] for k=1"),
        ({"ensembles": {str(k): 3 for k in KS}}, "members are a list; got 3"),
        ({"ensembles": "all"}, "'str' object has no attribute"),
        ({"dev_scores": {"1": {"1": "good"}}}, "'good' is not a number"),
        ({"early_stop": "yes"}, "early_stop is true or false; got 'yes'"),
        ({"history": "rumour"}, "history must be one of forced, path"),
        ({"history": ["path"]}, "history must be one of forced, path"),
        ({"tail": "full"}, r"tail is a list of members such as \['full'\]; got 'full'"),
        ({"tail": 3}, r"tail is a list of members such as \['full'\]; got 3"),
        ({"tail": [1]}, "a member is 'full' or a number such as '3'; got 1"),
        ({"tail": ["best"]}, "a member is 'full' or a number such as '3'; got 'best'"),
        ({"tail": ["9"]}, r"tail names members of the set, .*each once, .*got \[9\]"),
        ({"tail": []}, r"tail names members of the set, .*got \[\]"),
        ({"tail_beams": 0}, "tail_beams must be an integer of 1 or more; got 0"),
        ({"tail_beams": "5"}, "tail_beams must be an integer of 1 or more; got '5'"),
        ({"tail_beams": None}, "tail_beams must be an integer of 1 or more; got None"),
        ({"members": {}}, "a set needs at least one model"),
        (
            {"members": {"0": {"folder": "."}}},
            "k must be an integer of 1 or more; got 0",
        ),
        (
            {"members": {"-1": {"folder": "."}}},
            "(a member is 'full' or a number|named by the k they were trained with)",
        ),
        ({"members": [{"folder": "."}]}, "'list' object has no attribute"),
        (
            {"members": {**MEMBERS, "1": "../elsewhere"}},
            "a member is a folder or a repo .*got '../elsewhere'",
        ),
        ({"members": {**MEMBERS, "1": None}}, "a member is a folder or a repo .*got None"),
        ({"members": {**MEMBERS, "1": {}}}, "a member is a folder or a repo .*got {}"),
        (
            {"members": {**MEMBERS, "1": {"folder": 5}}},
            "a member is a folder or a repo .*got {'folder': 5}",
        ),
        (
            {"members": {**MEMBERS, "1": {"folder": "wait-1", "repo": "a/b"}}},
            "a member is a folder or a repo",
        ),
        ({"members": {**MEMBERS, "1": {"repo": ["a/b"]}}}, "a member is a folder or a repo"),
        (
            {"members": {**MEMBERS, "1": {"folder": "../set/wait-1"}}},
            "below the set's own; got '../set/wait-1'",
        ),
        ({"members": {**MEMBERS, "1": {"folder": "wait-1/../../x"}}}, "below the set's own"),
        ({"members": {**MEMBERS, "1": {"folder": "/etc"}}}, "below the set's own; got '/etc'"),
        ({"members": {**MEMBERS, "1": {"folder": "..\\set"}}}, "below the set's own"),
        (
            {"members": {**MEMBERS, "1": {"repo": "../../etc"}}},
            "a member's repo is user/name; got '../../etc'",
        ),
    ],
)
def test_a_config_that_is_none_is_refused_by_name(folder, changes, message):
    tamper(folder, **changes)
    with pytest.raises(ValueError, match=f"(?s)^{folder / CONFIG}.*{message}"):
        AdaptiveWaitKGenerator.from_pretrained(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '{"format": 1}', "[" * 100_000])
def test_a_config_that_is_no_set_is_refused_by_name(folder, text):
    (folder / CONFIG).write_text(text)
    with pytest.raises(ValueError, match=f"^{folder / CONFIG} is not a set's config: "):
        AdaptiveWaitKGenerator.from_pretrained(folder)


def test_a_config_that_is_no_text_is_refused_by_name(folder):
    (folder / CONFIG).write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(
        ValueError, match=f"^{folder / CONFIG} is not a set's config: UnicodeDecodeError"
    ):
        AdaptiveWaitKGenerator.from_pretrained(folder)


def test_a_member_that_leads_out_of_the_set_is_refused(folder, saved):
    (folder / "elsewhere").symlink_to(saved / "wait-1", target_is_directory=True)
    tamper(folder, members={**MEMBERS, "1": {"folder": "elsewhere"}})
    with pytest.raises(
        ValueError, match=f"^{folder / CONFIG}: member 'elsewhere' leads out of the set"
    ):
        AdaptiveWaitKGenerator.from_pretrained(folder)


@pytest.mark.parametrize(
    "name", ["wait-1/model.safetensors", "wait-1/config.json", "tokenizer.json", CONFIG]
)
def test_a_file_that_is_linked_from_elsewhere_is_refused(folder, saved, name):
    (folder / name).unlink()
    (folder / name).symlink_to(saved / name)
    with pytest.raises(
        ValueError, match=f"^{folder / name} is linked from outside {folder}; put the file itself"
    ):
        AdaptiveWaitKGenerator.from_pretrained(folder)


def test_links_inside_the_set_and_into_the_hubs_cache_are_fine(generator, folder, saved, tmp_path):
    (folder / "copy.safetensors").hardlink_to(saved / "wait-1" / "model.safetensors")
    (folder / "wait-1" / "model.safetensors").unlink()
    (folder / "wait-1" / "model.safetensors").symlink_to("../copy.safetensors")
    snapshot, blobs = (
        tmp_path / "models--me--set" / "snapshots" / "0a1b",
        tmp_path / "models--me--set" / "blobs",
    )
    blobs.mkdir(parents=True)
    for number, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        (blobs / str(number)).hardlink_to(path.resolve())
        link = snapshot / path.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blobs / str(number), link.parent))
    for place in (folder, snapshot):
        assert told(AdaptiveWaitKGenerator.from_pretrained(place)) == told(generator)
    assert told(AdaptiveWaitKGenerator.from_pretrained(tmp_path, subfolder=folder.name)) == told(
        generator
    )


def test_a_member_that_is_missing_is_named(folder):
    tamper(folder, members={**MEMBERS, "1": {"folder": "wait-2"}})
    with pytest.raises(
        FileNotFoundError,
        match=f"{CONFIG} names member 'wait-2', but .*wait-2/config.json is missing",
    ):
        AdaptiveWaitKGenerator.from_pretrained(folder)


def test_a_member_of_another_kind_is_refused(folder):
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 8,
    }
    BertModel(BertConfig(**sizes, vocab_size=24)).save_pretrained(folder / "bert")
    tamper(folder, members={**MEMBERS, "1": {"folder": "bert"}})
    with pytest.raises(
        ValueError,
        match=r"bert/config.json: a member is of one of the families bart, .*got 'bert'.*register",
    ):
        AdaptiveWaitKGenerator.from_pretrained(folder)


def test_a_member_with_another_vocabulary_is_refused(folder):
    other = random_model(random.Random(0), 2, torch.float32, vocab_size=30)
    (folder / "other").mkdir()
    other.save_pretrained(folder / "other")
    tamper(folder, members={**MEMBERS, "1": {"folder": "other"}})
    with pytest.raises(
        ValueError, match=f"^{folder / CONFIG} does not fit its models: .*vocab_size differs"
    ):
        AdaptiveWaitKGenerator.from_pretrained(folder)


def replaced(path: Path, content: bytes) -> None:
    path.unlink()  # the file itself is shared with the set it was linked from
    path.write_bytes(content)


def without_a_weight(path: Path) -> None:
    weights = load_file(path)
    del weights["model.decoder.layers.0.fc2.weight"]
    path.unlink()
    save_file(weights, path, metadata={"format": "pt"})


def with_config(path: Path, **changes) -> None:
    config = path.with_name("config.json")
    replaced(config, json.dumps({**json.loads(config.read_text()), **changes}).encode())


def with_index(path: Path, index) -> None:
    path.rename(path.with_name("model-00001-of-00001.safetensors"))
    path.with_name("model.safetensors.index.json").write_text(json.dumps(index))


DAMAGES = {
    "cut short": (
        lambda path: replaced(path, path.read_bytes()[:-500]),
        "model.safetensors is damaged",
    ),
    "empty": (lambda path: replaced(path, b""), "model.safetensors is damaged"),
    "no weights at all": (
        lambda path: replaced(path, b"\xff" * 5000),
        "model.safetensors is damaged",
    ),
    "a weight is missing": (
        without_a_weight,
        "model.safetensors does not fit config.json: 1 weights, such as .*fc2",
    ),
    "other sizes": (
        lambda path: with_config(path, encoder_ffn_dim=48),
        "does not fit config.json: encoder_ffn_dim, d_model is",
    ),
    "fewer layers": (
        lambda path: with_config(path, decoder_layers=1),
        "does not fit config.json: decoder_layers is 1 there, and 2 in",
    ),
    "a word for a number": (
        lambda path: with_config(path, d_model="big"),
        "config.json: .*expected int, got str",
    ),
    "heads that do not fit": (
        lambda path: with_config(path, encoder_attention_heads=3),
        "config.json: .*divisible",
    ),
    "weights elsewhere": (
        lambda path: with_config(path, transformers_weights="../model.safetensors"),
        "not allowed",
    ),
    "an adapter": (
        lambda path: path.with_name("adapter_config.json").write_text("{}"),
        "adapter_config.json is not",
    ),
    "no index": (lambda path: with_index(path, []), "index.json is not an index of weights"),
    "an index that leads out": (
        lambda path: with_index(path, {"weight_map": {"a": "../b"}}),
        "beside it; got '../b'",
    ),
    "no config": (
        lambda path: replaced(path.with_name("config.json"), b"[]"),
        "config.json is not a configuration",
    ),
    "no json": (lambda path: replaced(path.with_name("config.json"), b"{"), "config.json"),
    "no tokenizer": (
        lambda path: replaced(path.parents[1] / "tokenizer.json", b"{}"),
        "the tokenizer in .* cannot",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_set_is_refused_and_the_file_named(folder, damage):
    harm, message = DAMAGES[damage]
    harm(folder / "wait-1" / "model.safetensors")
    with pytest.raises((ValueError, OSError), match=message) as refusal:
        AdaptiveWaitKGenerator.from_pretrained(folder)
    assert str(folder if "tokenizer" in message else folder / "wait-1") in str(refusal.value)


def test_pickles_are_never_opened(generator, folder):
    (folder / "wait-1" / "model.safetensors").unlink()
    torch.save(generator.models[1].state_dict(), folder / "wait-1" / "pytorch_model.bin")
    with pytest.raises(OSError, match="model.safetensors"):
        AdaptiveWaitKGenerator.from_pretrained(folder)


def test_a_folder_without_anything_is_refused(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=f"{tmp_path} holds neither a set .*nor a checkpoint"
    ):
        AdaptiveWaitKGenerator.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["/no/such/folder", "./set", "a/b/c"])
def test_a_folder_that_is_none_is_no_repository(name):
    with pytest.raises(
        FileNotFoundError, match=f"no folder '{name}'; give a folder, or a repository as user/name"
    ):
        AdaptiveWaitKGenerator.from_pretrained(name)


# The hub


def test_sets_and_members_may_come_from_repositories(generator, saved, folder, monkeypatch):
    asked = []

    def snapshot(repo, revision, allow_patterns, **hub):
        asked.append((repo, revision, hub["token"]))
        return {"me/set": folder, "me/one": saved / "wait-1"}[repo]

    monkeypatch.setattr(places, "snapshot_download", snapshot)
    tamper(folder, members={**MEMBERS, "1": {"repo": "me/one", "revision": "v2"}})
    loaded = AdaptiveWaitKGenerator.from_pretrained("me/set", revision="main", token="secret")
    assert told(loaded) == told(generator)
    assert asked == [("me/set", "main", "secret"), ("me/one", "v2", "secret")]


# custom_generate


@pytest.fixture
def remote_code(monkeypatch, tmp_path):
    """Where transformers keeps the code it was told to trust."""
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]


def custom(model, folder, **options):
    settings = {"attention_mask": MASK, "max_new_tokens": 6, **options}
    return model.generate(IDS, custom_generate=str(folder), trust_remote_code=True, **settings)


def test_custom_generate_is_the_generator_and_loads_its_members_once(generator, saved, remote_code):
    model = AutoModelForSeq2SeqLM.from_pretrained(saved)
    assert custom(model, saved).tolist() == told(generator)[0]
    members = {k: id(member) for k, member in model._adaptive_sets[None].models.items()}
    output = custom(model, saved, return_dict_in_generate=True, early_stop=True)
    assert output.sequences.tolist() == told(generator, early_stop=True)[0]
    assert {k: id(member) for k, member in model._adaptive_sets[None].models.items()} == members
    assert set(members) == {1, 3, 4, FULL}
    assert (
        custom(model.double(), saved, return_dict_in_generate=True).sequences.tolist()
        == told(generator)[0]
    )
    members = model._adaptive_sets[None].models
    assert members[4] is model
    assert {member.dtype for member in members.values()} == {torch.float64}


def test_custom_generate_sees_what_became_of_the_model(generator, saved, remote_code):
    model = AutoModelForSeq2SeqLM.from_pretrained(saved)
    custom(model, saved)
    with torch.no_grad():
        model.final_logits_bias.copy_(model.final_logits_bias.roll(1))
    members = {**generator.models, 4: model}
    point = {"thresholds": generator.thresholds, "ensembles": dict(generator.ensembles)}
    changed = AdaptiveWaitKGenerator(members, **point, early_stop=False)
    assert custom(model, saved).tolist() == told(changed)[0] != told(generator)[0]


def test_custom_generate_brings_the_streamer(generator, saved, remote_code):
    from hf_simultaneous import ActionStreamer

    model, streamer = AutoModelForSeq2SeqLM.from_pretrained(saved), ActionStreamer()
    model.generate(
        input_ids=IDS[1:, :3],
        custom_generate=str(saved),
        trust_remote_code=True,
        streamer=streamer,
        max_new_tokens=6,
    )
    found = generator.generate([SOURCES[1]], max_new_tokens=6, return_dict_in_generate=True)
    assert [type(action).__name__ for action in streamer.actions] == [
        type(a).__name__ for a in found.actions[0]
    ]


def test_custom_generate_on_any_marian_model(generator, saved, remote_code):
    torch.manual_seed(0)
    marian = MarianMTModel(MarianConfig(**SIZES, **TOKENS, init_std=0.5)).eval()
    alone = AdaptiveWaitKGenerator(copy.deepcopy(marian))
    assert custom(marian, saved).tolist() == told(alone)[0]
    with_set = custom(marian, saved, adaptive_set=str(saved))
    assert with_set.tolist() == told(generator)[0]
    assert set(marian._adaptive_sets) == {None, str(saved)}


def test_custom_generate_needs_a_source(saved, remote_code):
    model = AutoModelForSeq2SeqLM.from_pretrained(saved)
    with pytest.raises(ValueError, match="give the source sentence as input_ids"):
        model.generate(custom_generate=str(saved), trust_remote_code=True)
    with pytest.raises(ValueError, match="give the source sentence as input_ids"):
        custom_generation.generate(model=model)
    with pytest.raises(ValueError, match="unknown arguments: wait_k"):
        custom(model, saved, wait_k=3)


WITHOUT_THE_PACKAGE = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hf_simultaneous":
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocked())
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, TextStreamer
torch.set_num_threads(1)

folder, job = sys.argv[1], json.loads(sys.argv[2])
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
ids, mask = torch.tensor(job["ids"]), torch.tensor(job["mask"])
settings = {"attention_mask": mask, "max_new_tokens": 6}
found = [model.generate(ids, custom_generate=folder, trust_remote_code=True, **settings).tolist()]
members = {k: id(member) for k, member in model._adaptive_sets[None].models.items()}
found.append(model.generate(ids, **settings).tolist())
assert {k: id(member) for k, member in model._adaptive_sets[None].models.items()} == members
model._adaptive_sets[None].save_pretrained(folder + "-again")
assert "hf_simultaneous" not in sys.modules
print(json.dumps(found))
"""


@pytest.mark.system
def test_custom_generate_where_the_package_is_not_installed(generator, saved, tmp_path):
    job = json.dumps({"ids": IDS.tolist(), "mask": MASK.tolist()})
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_PACKAGE, str(saved), job],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    # A repository with custom_generate/ decides for itself how `generate` works once it is trusted.
    assert json.loads(result.stdout) == [told(generator)[0]] * 2
    again = AdaptiveWaitKGenerator.from_pretrained(f"{saved}-again")
    assert told(again) == told(generator)


def test_a_name_that_nothing_has_is_in_the_message(monkeypatch):
    def unreachable(*_, **__):
        raise LocalEntryNotFoundError("no network")

    monkeypatch.setattr("hf_simultaneous.places.snapshot_download", unreachable)
    with pytest.raises(FileNotFoundError, match="'me/nowhere' here, .*no network"):
        AdaptiveWaitKGenerator.from_pretrained("me/nowhere")
