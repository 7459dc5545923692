"""One member of a set from its folder, and the set's tokenizer: checked, then loaded.

Knows a member's files, not where they come from, nor what a set is."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from .checks import (
    check_config,
    check_entries,
    check_settings,
    check_sizes,
    check_tokens,
    read_json,
    vocabulary,
    weight_files,
    weight_shapes,
)


def is_stock(folder: Path) -> bool:
    """Is this a checkpoint of another family than ours, which transformers loads as it is?"""
    from .families import OURS, known_families

    kind = read_config(folder).get("model_type")
    return kind in known_families() and kind not in (OURS, "marian")


def load_stock(folder: Path, name: str | Path, *, strict: bool, **kwargs: Any) -> Any:
    """A checkpoint of another family, by its name on the hub or its folder.

    `strict`: it came with a set, whose files may hold safetensors only."""
    from transformers import AutoModelForSeq2SeqLM

    if strict:
        check_config(folder / "config.json", read_config(folder))
        weight_files(folder, kwargs.get("variant"))
        kwargs["use_safetensors"] = True
    with _said_plainly(str(name), f"{name}: its weights do not fit config.json"):
        model, told = AutoModelForSeq2SeqLM.from_pretrained(
            name, output_loading_info=True, trust_remote_code=False, **kwargs
        )
    if told["missing_keys"]:  # transformers would make them up
        raise ValueError(
            f"{name}: {len(told['missing_keys'])} weights are missing, such as "
            f"{min(told['missing_keys'])}"
        )
    return model


@contextmanager
def _said_plainly(config: str, weights: str) -> Iterator[None]:
    """What transformers raises about a configuration or about weights, as one kind of error that
    names the place."""
    try:
        yield
    except (StrictDataclassError, ValueError, LookupError, AttributeError) as error:
        raise ValueError(f"{config}: {' '.join(str(error).split())}") from error
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{weights}: {error}") from error


def read_config(folder: Path) -> dict[str, Any]:
    """A member's `config.json`, as it was written."""
    return read_json(folder / "config.json", "a configuration")


def load_model(folder: Path, **kwargs: Any) -> Any:
    """The model in a folder; refused before it is built if its files do not fit each other."""
    from .modeling_simultaneous import SimultaneousMTModel

    kind = _check(folder, kwargs.get("variant"))
    weights = f"{folder}/model.safetensors is damaged or does not fit config.json"
    with _said_plainly(f"{folder}/config.json", weights):
        model, told = SimultaneousMTModel.from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, **kwargs
        )
    # Marian's own may hold tables that transformers no longer keeps.
    odd = {*told["missing_keys"], *(told["unexpected_keys"] if kind != "marian" else ())}
    if odd:  # transformers would make the missing up
        raise ValueError(
            f"{folder}/model.safetensors does not fit config.json: {len(odd)} weights, such as "
            f"{min(odd)}"
        )
    _check_finite(folder, model)
    return model


def _check(folder: Path, variant: str | None) -> str:
    """What kind of model the files describe, if they agree with each other."""
    from transformers.activations import ACT2FN

    from .configuration_simultaneous import SimultaneousConfig
    from .families import OURS, known_families

    path = folder / "config.json"
    saved = read_config(folder)
    kind = saved.get("model_type")
    if kind not in (OURS, "marian"):
        # Its weights would not fit, and random ones would stand in for them.
        raise ValueError(
            f"{path}: a member is of one of the families {', '.join(known_families())}; got "
            f"{kind!r}. register_family() adds one"
        )
    check_config(path, saved)
    try:
        config = SimultaneousConfig.from_dict({**saved, "model_type": "simultaneous-mt"})
    except (StrictDataclassError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from error
    check_settings(path, config)
    if config.activation_function not in ACT2FN:
        raise ValueError(f"{path}: no activation_function {config.activation_function!r}")
    generation = folder / "generation_config.json"
    if generation.exists():
        check_tokens(generation, read_json(generation, "a configuration"), vocabulary(config))
    files = weight_files(folder, variant)
    check_sizes(files[0], config, weight_shapes(files))
    return str(kind)


def _check_finite(folder: Path, model: Any) -> None:
    for name, weight in model.state_dict().items():
        if not weight.is_floating_point() or weight.element_size() == 1:
            continue
        fine = weight.isfinite()
        if name == "final_logits_bias":  # which may rule a token out
            fine |= weight == -math.inf
        if not fine.all():
            raise ValueError(f"{folder}/model.safetensors: {name} is not all numbers")


def load_tokenizer(folder: Path, model: Any) -> Any:
    """The tokenizer in a folder, if there is one; refused if it is not that of the model."""
    if not (folder / "tokenizer_config.json").exists():
        return None
    from transformers import (
        AutoTokenizer,
    )  # here, so that what only shares files need not wait for it

    check_entries(folder)
    try:
        # Given a config it does not look for one, and so does not ask whether the code that comes
        # with it may be run.
        tokenizer = AutoTokenizer.from_pretrained(
            folder, config=model.config, trust_remote_code=False
        )
    except Exception as error:  # `tokenizers` raises nothing more special
        if any(folder.glob("*.spm")) and find_spec("sentencepiece") is None:
            raise ValueError(
                f"the tokenizer in {folder} needs sentencepiece, which is not installed: pip "
                f"install sentencepiece"  # whoever loads it with its own code has no extras of ours
            ) from error
        raise ValueError(f"the tokenizer in {folder} cannot be read: {error}") from error
    _check_tokenizer(folder, tokenizer, model.config)
    return tokenizer


def _check_tokenizer(folder: Path, tokenizer: Any, config: Any) -> None:
    largest = max(tokenizer.get_vocab().values(), default=0)
    if largest >= config.vocab_size:
        raise ValueError(
            f"the tokenizer in {folder} is not that of the models: it has tokens up to {largest}, "
            f"they up to {config.vocab_size - 1}"
        )
    for name in ("eos_token_id", "pad_token_id"):
        own = getattr(tokenizer, name)
        theirs = getattr(config, name)
        known = theirs if isinstance(theirs, list) else [theirs]
        if own is not None and theirs is not None and own not in known:
            raise ValueError(
                f"the tokenizer in {folder} is not that of the models: {name} is {own}, and theirs "
                f"is {theirs}"
            )
