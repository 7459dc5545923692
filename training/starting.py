"""Makes what a run starts from: its folder, its tokeniser and its model, new or taken from another
checkpoint.

Knows checkpoints as they are stored; nothing of how training goes on from them.
"""

import ctypes
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from hf_simultaneous import SimultaneousConfig, SimultaneousMTModel
from hf_simultaneous.families import OURS
from hf_simultaneous.schedule import FULL

from .checked import InputError
from .disk import check_is_folder, writing
from .finish import CHECKPOINTS, FACTS
from .options import RunConfig, model_config
from .stock import OWN, generator_of, kind_of, load


RUN = "run.json"
TOKENIZER_FILES = ("tokenizer.json", "source.spm", "vocab.json")
# What may differ from the checkpoint a run starts from; everything else shapes the weights.
FREE = (
    *(
        "dropout",
        "attention_dropout",
        "activation_dropout",
        "encoder_layerdrop",
        "decoder_layerdrop",
    ),
    *("catchup", "encoder_attention", "label_smoothing", "init_std"),
)
# A run may be resumed with other values of these: they do not change what a step does.
LOOSE = re.compile(
    r"config\.(set\..*|finetune\..*|second_round\..*|data\.(cache|description|licence|attribution)"
    r"|training\.(max_steps|log_every|tracker|keep_checkpoints|average|patience|score_every|score_sentences|score_test))"
)


def check_folder(folder: Path, identity: dict[str, Any], resume: bool) -> None:
    """Refuse a folder that holds something else, or this very run where it is not to go on. Changes
    nothing."""
    check_is_folder(folder)
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / RUN).is_file():
        raise InputError(
            f"--output {folder} holds files that are not a run of this script; give an empty folder"
        )
    if not any((folder / CHECKPOINTS).glob("step-*")) and not (folder / FACTS).exists():
        return  # it ended before there was anything to lose
    if not resume:
        raise InputError(
            f"--output {folder} holds a run already; go on with --resume, or give another folder"
        )
    now = json.loads(json.dumps(identity))
    different = [*_differences(read_run(folder), now), *_other_end(read_run(folder), now)]
    if different:
        raise InputError(
            f"--output {folder} holds another run: {different[0]}. Resume with what it was started "
            f"with, "
            "or give another folder"
        )


def read_run(folder: Path) -> dict[str, Any]:
    """What a run was started with."""
    try:
        identity = json.loads((folder / RUN).read_text())
    except (OSError, ValueError, RecursionError):
        identity = None
    if not isinstance(identity, dict) or not isinstance(identity.get("config"), dict):
        raise InputError(
            f"{folder / RUN} is damaged, so nobody can tell which run this is; give another "
            f"folder, or remove this one to start from nothing"
        )
    return identity


@contextmanager
def claimed(folder: Path, identity: dict[str, Any]) -> Iterator[None]:
    """Mark a folder as this run's, and keep every other process out of it meanwhile."""
    (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / CHECKPOINTS / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"another process is training into {folder}; wait for it or end it first"
        ) from None
    try:
        (folder / RUN).write_text(json.dumps(identity, indent=2))
        yield
    finally:
        lock.release()


def _differences(before: dict[str, Any], now: dict[str, Any], path: str = "") -> list[str]:
    found: list[str] = []
    for key in sorted({*before, *now}):
        name, old, new = f"{path}{key}", before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{name}.")
        elif (
            old != new and (key in before or new) and not LOOSE.fullmatch(name)
        ):  # an option that came later is off
            found.append(f"{name.removeprefix('config.')} was {old!r} and is now {new!r}")
    return found


def _other_end(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Another last step, where the rate of every step depends on it."""
    old, new = (one["config"].get("training", {}) for one in (before, now))
    if new.get("schedule") != "cosine" or old.get("max_steps") == new.get("max_steps"):
        return []
    steps = f"training.max_steps was {old.get('max_steps')} and is now {new.get('max_steps')}"
    return [f"{steps}, towards which `schedule: cosine` lowers the rate"]


def tokenizer_of(init_from: str | None) -> PreTrainedTokenizerBase | None:
    """The tokeniser that comes with a checkpoint; None where it has none of its own."""
    if init_from is None:
        return None
    folder = Path(init_from)
    if folder.is_dir() and not any((folder / name).is_file() for name in TOKENIZER_FILES):
        return None
    try:
        return AutoTokenizer.from_pretrained(init_from)
    except (OSError, ValueError) as error:
        raise _not_loaded(init_from, error) from None


def load_trained(name: str) -> tuple[SimultaneousMTModel, PreTrainedTokenizerBase]:
    """One of our models and its tokeniser, from a folder or the hub, for commands that take
    `--model`."""
    try:
        model = SimultaneousMTModel.from_pretrained(name, dtype=torch.float32)
        return model, AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(f"--model {name} cannot be loaded: {error}") from None


def save_trained(
    model: SimultaneousMTModel, tokenizer: PreTrainedTokenizerBase, output: Path
) -> None:
    """A folder that `--init-from` takes."""
    output.mkdir(parents=True, exist_ok=True)
    with writing(output):
        model.save_pretrained(output)
        tokenizer.save_pretrained(output)


def make_model(
    config: RunConfig, wait_k: int | None, tokenizer: PreTrainedTokenizerBase, init_from: str | None
) -> PreTrainedModel:
    """A new model of the configured size, or the one in `init_from` under the k of this run."""
    if init_from is None:
        model = _new(config, wait_k, tokenizer)
    else:
        model = _load(config, wait_k, init_from)
        _check_tokenizer(model, tokenizer, init_from)
    positions = generator_of(config, wait_k or FULL, model, tokenizer).position_limit
    if positions < config.data.max_tokens:
        raise InputError(
            f"data.max_tokens is {config.data.max_tokens}, but the model has {positions} "
            f"positions; lower it, or "
            "raise model.max_position_embeddings"
        )
    return model


def _new(
    config: RunConfig, wait_k: int | None, tokenizer: PreTrainedTokenizerBase
) -> SimultaneousMTModel:
    ids = {
        f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")
    }
    ids["decoder_start_token_id"] = tokenizer.pad_token_id
    model = SimultaneousMTModel(
        model_config(config.model, vocab_size=len(tokenizer), wait_k=wait_k, **ids)
    )
    _spread_embeddings(model)
    # Without a limit of its own, `generate` would stop after 20 tokens.
    model.generation_config = GenerationConfig(
        max_length=model.config.max_position_embeddings, **ids
    )
    return model


@torch.no_grad()
def _spread_embeddings(model: SimultaneousMTModel) -> None:
    """Embeddings that enter the first layer with variance 1, however small `init_std` makes the
    layers.

    Marian has one `init_std` for both. Its layers are normalised after each block and learn soonest
    from a small one; embeddings as small would be drowned by the positions added to them."""
    if model.config.scale_embedding:
        table = model.get_input_embeddings().weight
        table.normal_(std=model.config.d_model**-0.5)
        table[model.config.pad_token_id] = 0


def _load(config: RunConfig, wait_k: int | None, init_from: str) -> PreTrainedModel:
    if Path(init_from).is_dir() and not (Path(init_from) / "config.json").is_file():
        raise InputError(
            f"--init-from {init_from} holds no config.json; give a folder that from_pretrained can "
            f"load"
        )
    try:
        if kind_of(init_from) not in OWN:
            return load(config, init_from)
        settings = SimultaneousConfig.from_pretrained(init_from)
    except (OSError, ValueError) as error:
        raise _not_loaded(init_from, error) from None
    for key, value in config.model.items():
        if key in FREE:
            setattr(settings, key, value)
        elif key != "preset" and getattr(settings, key) != value:
            raise InputError(
                f"model.{key} is {value!r} in the config, but {getattr(settings, key)!r} in "
                f"{init_from}"
            )
    settings.wait_k = wait_k
    settings.model_type = OURS  # what was read says "marian" of a Marian
    # transformers would keep a checkpoint's half precision, in which Adam's small steps are lost.
    model = SimultaneousMTModel.from_pretrained(init_from, config=settings, dtype=torch.float32)
    # Sines, which get no gradient; transformers forgets that of a table that no file holds, and
    # processes that share a model would wait for it.
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_positions.requires_grad_(False)
    return model


def _not_loaded(init_from: str, error: Exception) -> InputError:
    return InputError(
        f"--init-from {init_from} cannot be loaded: {error}. Give a folder, or a model on the hub"
    )


def _check_tokenizer(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, init_from: str
) -> None:
    settings = model.config
    same = (tokenizer.pad_token_id, tokenizer.eos_token_id) == (
        settings.pad_token_id,
        settings.eos_token_id,
    )
    if len(tokenizer) > settings.vocab_size or not same:
        raise InputError(
            f"the tokeniser ({len(tokenizer)} tokens, pad {tokenizer.pad_token_id}, eos "
            f"{tokenizer.eos_token_id}) "
            f"does not fit the model in {init_from} ({settings.vocab_size} tokens, pad "
            f"{settings.pad_token_id}, eos "
            f"{settings.eos_token_id}); put the model's own tokeniser into that folder"
        )


def bytes_needed(model: torch.nn.Module, keep: int) -> int:
    """Disk for the checkpoints kept, the best one, one being written, and the finished model."""
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return 3 * weights * (keep + 2) + weights  # Adam keeps two numbers for each weight


def keep_freed_memory() -> None:
    """On Linux, let the allocator keep the memory of one step for the next.

    The scores over the vocabulary take tens of megabytes, which malloc returns to the system after
    every use; getting them back page by page costs a quarter of the time of training a small model
    on a CPU, and a tenth of decoding with many. Changes no result."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt") and hasattr(libc, "gnu_get_libc_version"):
        mmap_max, trim_threshold = -4, -1
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, 2**31 - 1)
