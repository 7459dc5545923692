"""Models of other families than ours as a run starts from and leaves them: their own class and
files, and the languages they are told.

Knows checkpoints of transformers; how they are trained is `prefixes`' business."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.families import OURS, known_families
from hf_simultaneous.framing import tells_languages
from hf_simultaneous.members import load_stock
from hf_simultaneous.schedule import K

from .checked import InputError
from .options import RunConfig


OWN = (OURS, "marian")
"""Families that are trained as `SimultaneousMTModel`."""
LAYERDROP = ("encoder_layerdrop", "decoder_layerdrop")
DROPOUT = ("dropout", "attention_dropout", "activation_dropout", *LAYERDROP)
ADDED = ("label_smoothing", "catchup")
"""What no family has, and the training and the decoding of any know."""
T5_DROPOUT = "dropout_rate"


def is_stock(settings: PretrainedConfig) -> bool:
    """Is this model trained as what it is?"""
    return settings.model_type not in OWN


def kind_of(init_from: str) -> str:
    """The family of a checkpoint, by what its config says. Raises OSError or ValueError where there
    is none."""
    settings, _ = PretrainedConfig.get_config_dict(init_from)
    kind = str(settings.get("model_type"))
    if kind not in known_families():
        raise ValueError(
            f"it is of the family {kind!r}; those that work are {', '.join(known_families())}"
        )
    return kind


def load(config: RunConfig, init_from: str) -> PreTrainedModel:
    """The model in full precision, with what the config changes in it."""
    settings = AutoConfig.from_pretrained(init_from)
    # A layer left out has no gradient, which processes that share a step would wait for.
    changes = {name: 0.0 for name in LAYERDROP if hasattr(settings, name)} | config.model
    for key, value in changes.items():
        name = T5_DROPOUT if key == "dropout" and hasattr(settings, T5_DROPOUT) else key
        if key not in ADDED and not (key in DROPOUT and hasattr(settings, name)):
            free = [one for one in DROPOUT if hasattr(settings, one)] or ["dropout"]
            raise InputError(
                f"model.{key} cannot be set for a {settings.model_type!r} model, which keeps its "
                f"own shape; what can is {', '.join([*free, *ADDED])}"
            )
        setattr(settings, name, value)
    precision = torch.float32
    return load_stock(Path(init_from), init_from, strict=False, config=settings, dtype=precision)


def generator_of(
    config: RunConfig, k: K, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> AdaptiveWaitKGenerator:
    """The model as it is decoded: told the languages of the data, if it is one to be told."""
    languages: dict[str, Any] = {}
    source, target = config.data.source_language, config.data.target_language
    if is_stock(model.config) and tells_languages(model, tokenizer, source, target):
        languages = {"source_language": source, "target_language": target}
    try:
        return AdaptiveWaitKGenerator({k: model}, tokenizer, **languages)
    except ValueError as error:
        raise InputError(f"data.source_language and data.target_language: {error}") from None
