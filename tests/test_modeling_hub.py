"""Checkpoints: any Marian model loads, ours come back bit for bit, and load where our package is
not installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
)

import hf_simultaneous
from hf_simultaneous import SimultaneousConfig, SimultaneousMTModel
from hf_simultaneous.modeling_simultaneous import SimultaneousModel
from hf_simultaneous.pipelines import TASK
from tests.tiny import (
    EOS,
    PAD,
    SIZES,
    TALKATIVE,
    TOKENS,
    VOCABULARY,
    batch,
    from_first_principles,
    tiny_config,
    tiny_model,
    words,
)


pytestmark = pytest.mark.usefixtures("no_gradients")
ROOT = Path(hf_simultaneous.__file__).parent.parent
CODE = {
    "modeling_simultaneous.py",
    "configuration_simultaneous.py",
    "encoder_decoder.py",
    "output_loss.py",
    "inputs.py",
    "masks.py",
    "schedule.py",
}


def random_marian(**overrides):
    """A Marian model with small sizes and large weights, and Marian's own token ids unless told
    otherwise."""
    torch.manual_seed(0)
    model = MarianMTModel(
        MarianConfig(**{**SIZES, "init_std": 0.5, "scale_embedding": True, **overrides})
    ).eval()
    torch.nn.init.normal_(model.final_logits_bias)
    return model


MARIANS = {
    "Marian's token ids": {},
    "shared": TOKENS,
    "not shared": {**TOKENS, "share_encoder_decoder_embeddings": False},
    "another target vocabulary": {
        **TOKENS,
        "share_encoder_decoder_embeddings": False,
        "decoder_vocab_size": 33,
    },
    "untied": {**TOKENS, **TALKATIVE},
}


@pytest.fixture(scope="module", params=MARIANS)
def marian(request, tmp_path_factory):
    """A Marian checkpoint on disk: the model, and the folder."""
    folder = tmp_path_factory.mktemp("marian")
    model = random_marian(**MARIANS[request.param])
    model.save_pretrained(folder)
    return model, folder


def same_weights(one, other):
    one, other = one.state_dict(), other.state_dict()
    assert set(one) == set(other)
    for name, weight in one.items():
        assert torch.equal(weight, other[name]), name


def test_a_marian_checkpoint_loads_and_translates_the_same(marian):
    theirs, folder = marian
    ours, info = SimultaneousMTModel.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    same_weights(ours, theirs)
    assert (ours.config.encoder_attention, ours.config.wait_k) == ("prefix", None)
    source, mask = batch(9, 6, 8)
    target = words(3, 7, seed=1) % 30 + 3
    expected = theirs(source, attention_mask=mask, decoder_input_ids=target)
    assert torch.equal(
        ours(source, attention_mask=mask, decoder_input_ids=target).logits, expected.logits
    )
    for options in (
        {},
        {"num_beams": 4, "early_stopping": True},
        {"num_beams": 3, "length_penalty": 0.6},
    ):
        inputs = {"attention_mask": mask, "max_new_tokens": 9, **options}
        assert (
            ours.generate(source, **inputs).tolist() == theirs.generate(source, **inputs).tolist()
        )
    assert ours.generate(source, attention_mask=mask, max_new_tokens=9, wait_k=1).shape[0] == 3


def test_it_goes_back_to_marian(marian, tmp_path):
    theirs, folder = marian
    ours = SimultaneousMTModel.from_pretrained(folder)
    ours.save_pretrained(tmp_path / "ours")
    back = SimultaneousMTModel.from_pretrained(tmp_path / "ours").to_marian()
    assert type(back) is MarianMTModel
    assert not back.training
    same_weights(back, theirs)
    back.save_pretrained(tmp_path / "back")
    files = {path.name for path in (tmp_path / "back").iterdir()}
    assert not files & CODE
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("marian", ["MarianMTModel"])
    assert not {"auto_map", "wait_k", "catchup", "encoder_attention", "label_smoothing"} & set(
        config
    )
    plain = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "back")
    same_weights(plain, theirs)
    source, mask = batch(9, 6, 8)
    inputs = {"attention_mask": mask, "max_new_tokens": 9, "num_beams": 2}
    assert plain.generate(source, **inputs).tolist() == theirs.generate(source, **inputs).tolist()


def test_a_model_of_ours_becomes_a_marian_of_its_own(tmp_path):
    ours = tiny_model(wait_k=3, catchup=6, label_smoothing=0.1)
    ours.save_pretrained(tmp_path)  # which writes an auto_map into the config
    theirs = ours.to_marian()
    source, target = words(2, 7), words(2, 6, seed=1)
    expected = ours(source, decoder_input_ids=target, wait_k="full").logits
    assert torch.equal(theirs(source, decoder_input_ids=target).logits, expected)
    inputs = {"max_new_tokens": 9, "num_beams": 2}
    assert (
        theirs.generate(source, **inputs).tolist()
        == ours.generate(source, wait_k="full", **inputs).tolist()
    )
    assert not hasattr(theirs.config, "auto_map")
    theirs.generation_config.max_length = 7
    theirs.lm_head.weight.zero_()
    assert ours.generation_config.max_length != 7
    assert torch.equal(ours(source, decoder_input_ids=target, wait_k="full").logits, expected)
    assert tiny_model(dtype=torch.float64).train().to_marian().dtype == torch.float64
    assert ours.train().to_marian().training
    assert theirs.config.model_type == "marian"
    assert SimultaneousMTModel.from_marian(theirs).config.model_type == "simultaneous-mt"


@pytest.mark.parametrize(
    "overrides", [TOKENS, MARIANS["another target vocabulary"], MARIANS["untied"]]
)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_marian_in_memory_becomes_ours_without_a_copy(overrides, attention):
    theirs = random_marian(**overrides, attn_implementation=attention)
    ours = SimultaneousMTModel.from_marian(theirs)
    same_weights(ours, theirs)
    assert not any(weight.is_meta for weight in (*ours.parameters(), *ours.buffers()))
    assert {n for n, w in ours.named_parameters() if w.requires_grad} == {
        n for n, w in theirs.named_parameters() if w.requires_grad
    }
    assert (ours.training, ours.config._attn_implementation) == (False, attention)
    assert ours.lm_head.weight.data_ptr() == theirs.lm_head.weight.data_ptr()
    source, mask = batch(9, 6, 8)
    inputs = {"attention_mask": mask, "max_new_tokens": 9, "num_beams": 2}
    assert ours.generate(source, **inputs).tolist() == theirs.generate(source, **inputs).tolist()
    target = words(3, 7, seed=1) % 30 + 3
    found = ours(source[:, :6], decoder_input_ids=target, wait_k=2).logits
    expected = from_first_principles(ours, source[:, :6], target, 2)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)
    ours.generation_config.wait_k = 3
    assert not hasattr(theirs.generation_config, "wait_k")


def test_a_marian_whose_attention_takes_no_mask_is_refused():
    theirs = random_marian(**TOKENS)
    theirs.config._attn_implementation = "flex_attention"
    with pytest.raises(ValueError, match="SimultaneousMTModel does not support"):
        SimultaneousMTModel.from_marian(theirs)


def test_a_causal_model_is_no_marian():
    with pytest.raises(
        ValueError, match="encoder_attention='causal' .* Train with encoder_attention='prefix'"
    ):
        tiny_model(encoder_attention="causal").to_marian()


def test_a_checkpoint_as_the_hub_has_them(tmp_path):
    """An `opus-mt-*` repository: a `.bin`, and a config full of what transformers has since moved
    or dropped."""
    theirs = random_marian(activation_function="swish")
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    config = {
        **SIZES,
        **dict.fromkeys(("add_bias_logits", "add_final_layer_norm", "normalize_before"), False),
    }
    config |= {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "activation_function": "swish",
    }
    config |= {
        "_num_labels": 3,
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
        "num_hidden_layers": 2,
    }
    config |= {"vocab_size": 58101, "pad_token_id": 58100, "eos_token_id": 0, "bos_token_id": 0}
    config |= {
        "decoder_start_token_id": 58100,
        "scale_embedding": True,
        "static_position_embeddings": True,
    }
    config |= {
        "max_length": 12,
        "num_beams": 2,
        "bad_words_ids": [[58100]],
        "is_encoder_decoder": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    generation = {
        "_from_model_config": True,
        "max_length": 12,
        "num_beams": 2,
        "bad_words_ids": [[58100]],
    }
    generation |= {"decoder_start_token_id": 58100, "pad_token_id": 58100, "eos_token_id": 0}
    generation |= {
        "forced_eos_token_id": 0,
        "bos_token_id": 0,
        "transformers_version": "4.32.0.dev0",
    }
    (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    theirs, ours = (
        MarianMTModel.from_pretrained(tmp_path),
        SimultaneousMTModel.from_pretrained(tmp_path),
    )
    same_weights(ours, theirs)
    source, mask = batch(9, 6, 8)
    found = ours.generate(source, attention_mask=mask)
    assert found.tolist() == theirs.generate(source, attention_mask=mask).tolist()
    assert found.shape[1] == 12
    assert ours.generate(source, attention_mask=mask, wait_k=2).tolist() != found.tolist()
    ours.save_pretrained(tmp_path / "ours")
    again = SimultaneousMTModel.from_pretrained(tmp_path / "ours")
    assert again.generate(source, attention_mask=mask).tolist() == found.tolist()


def test_a_marian_checkpoint_may_be_given_a_policy_while_loading(tmp_path):
    random_marian(**TOKENS).save_pretrained(tmp_path)
    model = SimultaneousMTModel.from_pretrained(tmp_path, wait_k=2, catchup=3)
    assert (model.config.wait_k, model.config.catchup) == (2, 3)
    source, target = words(2, 7), words(2, 6, seed=1)
    full = SimultaneousMTModel.from_pretrained(tmp_path)
    full.config.catchup = 3
    expected = full(source, decoder_input_ids=target, wait_k=2).logits
    assert torch.equal(model(source, decoder_input_ids=target).logits, expected)


# Save and load


@pytest.mark.parametrize(
    "overrides", [{}, TALKATIVE, {"share_encoder_decoder_embeddings": False}], ids=str
)
def test_a_model_comes_back_bit_for_bit(encoder_attention, overrides, tmp_path):
    model = tiny_model(encoder_attention=encoder_attention, wait_k=3, catchup=5, **overrides)
    model.save_pretrained(tmp_path)
    loaded, info = SimultaneousMTModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    same_weights(loaded, model)  # the position tables too: they are not in the file
    assert not any("embed_positions" in name for name in load_file(tmp_path / "model.safetensors"))
    assert not any(parameter.is_meta for parameter in loaded.parameters())
    source, mask = batch(9, 6)
    target = words(2, 7, seed=1)
    for k in (None, 1, "full"):
        inputs = {"attention_mask": mask, "decoder_input_ids": target, "wait_k": k}
        assert torch.equal(loaded(source, **inputs).logits, model(source, **inputs).logits)
    ours, theirs = model.config.to_dict(), loaded.config.to_dict()
    assert {name for name in ours if ours[name] != theirs[name]} <= {
        "_name_or_path",
        "dtype",
        "transformers_version",
    }
    if overrides == {}:
        assert (
            loaded.lm_head.weight
            is loaded.model.shared.weight
            is loaded.model.encoder.embed_tokens.weight
        )


def test_a_resized_model_comes_back(tmp_path):
    model = tiny_model()
    model.resize_token_embeddings(VOCABULARY + 7)
    model.save_pretrained(tmp_path)
    same_weights(SimultaneousMTModel.from_pretrained(tmp_path), model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions_come_back(dtype, tmp_path):
    model = tiny_model(dtype=dtype)
    model.save_pretrained(tmp_path)
    loaded = SimultaneousMTModel.from_pretrained(tmp_path)
    assert loaded.dtype == dtype
    same_weights(loaded, model)
    single = SimultaneousMTModel.from_pretrained(tmp_path, dtype=torch.float32)
    assert torch.equal(single.lm_head.weight, model.lm_head.weight.float())
    fresh = (
        tiny_model().model.encoder.embed_positions.weight
    )  # made anew, in the precision asked for
    assert torch.equal(single.model.encoder.embed_positions.weight, fresh)


@pytest.mark.parametrize("how", ["derived", "assigned"])
def test_a_default_k_of_the_generation_config_survives_the_disk(model, how, tmp_path):
    source, mask = batch(9, 6, 8)
    inputs = {"input_ids": source, "attention_mask": mask, "max_new_tokens": 10}
    expected = {k: model.generate(**inputs, wait_k=k).tolist() for k in (1, 3, "full")}
    assert len({str(target) for target in expected.values()}) == 3
    model.save_pretrained(tmp_path / "plain")
    loaded = SimultaneousMTModel.from_pretrained(tmp_path / "plain")
    if how == "derived":  # transformers made it from the config, and would make it again
        loaded.generation_config = GenerationConfig.from_model_config(loaded.config)
        loaded.generation_config.wait_k = 3
    else:
        loaded.generation_config = GenerationConfig(
            wait_k=3, decoder_start_token_id=PAD, pad_token_id=PAD, eos_token_id=EOS
        )
    for number in ("once", "twice"):
        loaded.save_pretrained(tmp_path / number)
        loaded = SimultaneousMTModel.from_pretrained(tmp_path / number)
        assert loaded.generation_config.wait_k == 3
        assert loaded.generate(**inputs).tolist() == expected[3]
        for k in (1, "full"):
            assert loaded.generate(**inputs, wait_k=k).tolist() == expected[k]
    assert model.generate(**inputs).tolist() == expected["full"]


# Auto classes


def test_the_auto_classes_know_it(encoder_attention, tmp_path):
    model = tiny_model(encoder_attention=encoder_attention, wait_k=3)
    model.save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert type(config) is SimultaneousConfig
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert type(loaded) is SimultaneousMTModel
    same_weights(loaded, model)
    trusted = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, trust_remote_code=True)
    assert (
        type(trusted) is SimultaneousMTModel
    )  # the installed package wins over the copy in the folder
    base = AutoModel.from_pretrained(tmp_path)
    assert type(base) is SimultaneousModel
    same_weights(base, model.model)
    assert type(AutoModelForSeq2SeqLM.from_config(config)) is SimultaneousMTModel
    assert type(AutoConfig.for_model("simultaneous-mt")) is SimultaneousConfig


def test_the_model_without_its_head_saves_loads_and_masks(encoder_attention, tmp_path):
    model = tiny_model(encoder_attention=encoder_attention)
    base = model.model
    base.save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path)
    same_weights(loaded, base)
    source, target = words(2, 7), words(2, 6, seed=1)
    hidden = loaded(source, decoder_input_ids=target, wait_k=2).last_hidden_state
    logits = model(source, decoder_input_ids=target, wait_k=2).logits
    assert torch.equal(model.lm_head(hidden) + model.final_logits_bias, logits)


def test_a_tokenizer_beside_it_is_found(tokenizer, tmp_path):
    tiny_model().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded("w3 w4").input_ids == [3, 4, EOS]


def test_marian_is_still_marian(tmp_path):
    random_marian(**TOKENS).save_pretrained(tmp_path)
    assert type(AutoModelForSeq2SeqLM.from_pretrained(tmp_path)) is MarianMTModel


def test_the_auto_classes_know_no_other_name():
    from hf_simultaneous.auto import _Ours

    with pytest.raises(
        AttributeError, match="know SimultaneousConfig, .*; got 'SimultaneousTokenizer'"
    ):
        _Ours().SimultaneousTokenizer  # noqa: B018


# Each order of imports in a process of its own; forked, because importing torch takes seconds.
IMPORT_ORDERS = {
    "ours alone": """
        import hf_simultaneous
        assert not {"torch", "transformers"} & set(sys.modules), "the import is not light"
    """,
    "ours, then AutoModel": """
        import hf_simultaneous
        from transformers import AutoModelForSeq2SeqLM, AutoConfig
    """,
    "ours, then AutoTokenizer": """
        import hf_simultaneous
        from transformers import AutoTokenizer, AutoConfig, AutoModelForSeq2SeqLM
    """,
    "AutoModel, then ours": """
        from transformers import AutoConfig, AutoModelForSeq2SeqLM
        import hf_simultaneous
    """,
    "our model, then AutoModel": """
        from hf_simultaneous import SimultaneousMTModel
        from transformers import AutoConfig, AutoModelForSeq2SeqLM
    """,
    **{
        f"ours, then {first}": f"""
        import hf_simultaneous
        assert "transformers" not in sys.modules
        import {first}
        from transformers.pipelines import PIPELINE_REGISTRY
        assert {TASK!r} in PIPELINE_REGISTRY.get_supported_tasks()
        assert "hf_simultaneous.generation" not in sys.modules, "the models can wait"
    """
        for first in ("transformers", "hf_simultaneous.pipelines")
    },
}
EVERY_ORDER = """
import os, sys, textwrap, traceback
orders, check = {orders!r}, {check!r}
for name, order in orders.items():
    if name != "ours alone":
        import torch._dynamo, torch.distributed.tensor  # slow, and transformers will want them
    if os.fork() == 0:
        status = 1
        try:
            names = {{"name": name}}
            exec("import sys\\n" + textwrap.dedent(order), names)
            if "AutoConfig" in names:
                exec(check, names)
            status = 0
        except BaseException:
            print(name, file=sys.stderr)
            traceback.print_exc()
        os._exit(status)
    if os.wait()[1]:
        raise SystemExit(name + " failed")
"""
CHECK = """
config = AutoConfig.from_pretrained({folder!r})
home = type(config).__module__
assert home == "hf_simultaneous.configuration_simultaneous", home
assert type(config) in AutoModelForSeq2SeqLM._model_mapping
if name in ("ours, then AutoModel", "our model, then AutoModel"):
    model = AutoModelForSeq2SeqLM.from_pretrained({folder!r})
    assert type(model).__module__ == "hf_simultaneous.modeling_simultaneous", type(model).__module__
"""


def run(code, *arguments, cwd, **environment):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        env={**clean, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )


def test_the_order_of_imports_does_not_matter(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    check = CHECK.format(folder=str(tmp_path))
    result = run(EVERY_ORDER.format(orders=IMPORT_ORDERS, check=check), cwd=ROOT)
    assert result.returncode == 0, result.stderr


WITHOUT_US = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hf_simultaneous":
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocked())
try:
    import hf_simultaneous
except ImportError:
    pass
else:
    raise SystemExit("the block does not hold")

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

*folders, inputs, outputs = sys.argv[1:]
inputs, found = load_file(inputs), {}
torch.set_grad_enabled(False)
for number, folder in enumerate(folders):
    for name in ("first", "again"):
        loaded = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
        folder += "-again"
        loaded.save_pretrained(folder)
        assert type(loaded).__module__.startswith("transformers_modules."), type(loaded)
        found[f"{number} {name} logits"] = loaded(**inputs).logits
        found[f"{number} {name} full"] = loaded(**inputs, wait_k="full").logits
        sources = {key: inputs[key] for key in ("input_ids", "attention_mask")}
        search = {"wait_k": 1, "num_beams": 2, "max_new_tokens": 6}
        found[f"{number} {name} target"] = loaded.generate(**sources, **search)
save_file({name: tensor.contiguous() for name, tensor in found.items()}, outputs)
"""


def test_checkpoints_work_where_our_package_is_not_installed(tmp_path):
    source, mask = batch(9, 6)
    inputs = {"input_ids": source, "attention_mask": mask, "decoder_input_ids": words(2, 7, seed=1)}
    save_file(inputs, tmp_path / "inputs.safetensors")
    models = {
        name: tiny_model(encoder_attention=name, wait_k=2, catchup=3)
        for name in ("causal", "prefix")
    }
    for name, model in models.items():
        model.generation_config.wait_k = 2
        model.save_pretrained(tmp_path / name)
        assert {path.name for path in (tmp_path / name).glob("*.py")} == CODE
        auto_map = json.loads((tmp_path / name / "config.json").read_text())["auto_map"]
        assert auto_map == {
            "AutoConfig": "configuration_simultaneous.SimultaneousConfig",
            "AutoModelForSeq2SeqLM": "modeling_simultaneous.SimultaneousMTModel",
        }
    folders = [tmp_path / name for name in models]
    result = run(
        WITHOUT_US,
        *folders,
        tmp_path / "inputs.safetensors",
        tmp_path / "outputs.safetensors",
        cwd=tmp_path,
        HF_HOME=str(tmp_path / "home"),
    )
    assert result.returncode == 0, result.stderr
    found = load_file(tmp_path / "outputs.safetensors")
    for number, (name, model) in enumerate(models.items()):
        assert {path.name for path in (tmp_path / f"{name}-again").glob("*.py")} == CODE
        sources = {key: inputs[key] for key in ("input_ids", "attention_mask")}
        expected = {
            "logits": model(**inputs).logits,
            "full": model(**inputs, wait_k="full").logits,
            "target": model.generate(**sources, wait_k=1, num_beams=2, max_new_tokens=6),
        }
        for load in ("first", "again"):
            for what, value in expected.items():
                assert torch.equal(found[f"{number} {load} {what}"], value), (name, load, what)
        # And back where the package is: the copy in the folder does not get in the way.
        same_weights(AutoModelForSeq2SeqLM.from_pretrained(tmp_path / f"{name}-again"), model)


def test_the_files_that_travel_import_nothing_that_stays():
    """A checkpoint's code may import its siblings, in the form transformers copies, and what pip
    installs with it."""
    for name in CODE:
        text = (ROOT / "hf_simultaneous" / name).read_text(encoding="utf-8")
        for line in text.splitlines():
            assert "import hf_simultaneous" not in line
            if line.strip().startswith("from ."):
                assert line.strip().split()[1].removeprefix(".") + ".py" in CODE, line
    assert tiny_config()._auto_class == "AutoConfig"
