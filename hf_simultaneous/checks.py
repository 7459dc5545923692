"""What the files of a set may hold, found out before anything is built of them: nothing in a small
file may cost much memory or time.

Knows JSON and the headers of safetensors; builds no model and no tokenizer. What is refused is
refused by a `ValueError` that names the file."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from safetensors import SafetensorError, safe_open

from .schedule import is_at_least_one


Quantize = Literal["int8", "none"]
QUANTIZE = ("int8", "none")
MAX_JSON = 200_000_000
"""Bytes of a file of JSON; the largest tokenizers have 35 million."""
MAX_POSITIONS = 10_000
"""The table of positions is not stored but computed at loading, which takes time."""
MAX_ENTRY = 1_000
"""Letters of an entry of a vocabulary. `tokenizers` dies of a unigram entry of 300,000."""

# These would make transformers read other files, other code or other weights than those checked.
_NOT_OURS = (
    "transformers_weights",
    "configuration_files",
    "quantization_config",
    "attn_implementation",
    "_attn_implementation",
)
_SIZES = ("vocab_size", "decoder_vocab_size", "d_model", "max_position_embeddings")
_SIZES_OF_A_STACK = ("layers", "attention_heads", "ffn_dim")
_TOKENS = (
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "forced_eos_token_id",
    "decoder_start_token_id",
)
_TABLES = {
    "vocab_size": ("model.shared.weight", "model.encoder.embed_tokens.weight"),
    "decoder_vocab_size": ("model.decoder.embed_tokens.weight", "lm_head.weight"),
}


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The entries of a file of JSON; `what` it should be is for the message."""
    try:
        if not path.is_file():  # reading a pipe would wait for ever
            raise TypeError("it is not a file")
        if path.stat().st_size > MAX_JSON:
            raise ValueError(f"it has more than {MAX_JSON} bytes")
        found = json.loads(
            path.read_text(encoding="utf-8"),
            object_pairs_hook=_each_once,
            parse_constant=_not_a_number,
        )
        json.dumps(found, ensure_ascii=False).encode()  # refuses half a surrogate pair
        if not isinstance(found, dict):
            raise TypeError(f"it must be an object with entries, not {type(found).__name__}")
    except (ValueError, TypeError, RecursionError, OSError) as error:
        raise ValueError(f"{path} is not {what}: {type(error).__name__}: {error}") from error
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice!r} is there twice")
    return entries


def _not_a_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def check_config(path: Path, saved: Mapping[str, Any]) -> None:
    """Refuse the entries of a `config.json` that lead elsewhere."""
    for name in _NOT_OURS:
        if name in saved:
            raise ValueError(f"{path}: {name} is not allowed; weights are model.safetensors")


def check_settings(path: Path, config: Any) -> None:
    """Refuse a configuration that no model can be made from."""
    stacks = [f"{part}_{name}" for part in ("encoder", "decoder") for name in _SIZES_OF_A_STACK]
    for name in (*_SIZES, *stacks):
        if not is_at_least_one(getattr(config, name)):
            raise ValueError(f"{path}: {name} must be 1 or more; got {getattr(config, name)!r}")
    if config.max_position_embeddings > MAX_POSITIONS:
        raise ValueError(
            f"{path}: max_position_embeddings must be {MAX_POSITIONS} or less; got "
            f"{config.max_position_embeddings}"
        )
    for name in ("encoder_attention_heads", "decoder_attention_heads"):
        if config.d_model % getattr(config, name):
            raise ValueError(
                f"{path}: d_model must be divisible by {name}; got {config.d_model} and "
                f"{getattr(config, name)}"
            )
    check_tokens(path, {name: getattr(config, name) for name in _TOKENS}, vocabulary(config))


def vocabulary(config: Any) -> int:
    """How many tokens both sides know."""
    shared = config.share_encoder_decoder_embeddings
    sizes = (config.vocab_size, config.vocab_size if shared else config.decoder_vocab_size)
    return int(min(sizes))


def check_tokens(path: Path, entries: Mapping[str, Any], size: int) -> None:
    """Refuse special tokens that are not in the vocabulary."""
    for name in _TOKENS:
        given = entries.get(name)
        for token in given if isinstance(given, list) else [given]:
            wrong = isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < size
            if token is not None and wrong:
                raise ValueError(f"{path}: {name} must be 0 to {size - 1}; got {token!r}")


def check_quantize(quantize: Any) -> None:
    """Refuse what is not a way to store weights."""
    if quantize not in QUANTIZE:
        raise ValueError(
            f"quantize must be one of {', '.join(QUANTIZE)}; got {quantize!r}. Leave it out for "
            "what the set was saved with"
        )


def weight_files(folder: Path, variant: str | None = None) -> list[Path]:
    """The files of the weights, all of them safetensors, all in this folder."""
    kind = f".{variant}" if variant else ""
    whole = folder / f"model{kind}.safetensors"
    index = folder / f"model.safetensors.index{kind}.json"
    if (folder / "adapter_config.json").exists():
        raise ValueError(
            f"{folder}/adapter_config.json is not allowed; merge the adapter into model.safetensors"
        )
    if whole.exists():
        return [whole]
    if not index.exists():
        raise FileNotFoundError(f"{whole} is missing; weights are safetensors and nothing else")
    shards = read_json(index, "an index of weights").get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise ValueError(f"{index} is not an index of weights: it has no weight_map")
    names = dict.fromkeys(map(str, shards.values()))
    for name in names:
        if PurePosixPath(name).name != name or "\\" in name or not name.endswith(".safetensors"):
            raise ValueError(f"{index}: weights are safetensors in files beside it; got {name!r}")
    return [folder / name for name in names]


def weight_shapes(files: Iterable[Path]) -> dict[str, tuple[int, ...]]:
    """The shape of every weight. The headers say it; no weight is read."""
    found: dict[str, tuple[int, ...]] = {}
    for path in files:
        if not path.is_file():
            raise ValueError(f"{path} is missing, or is not a file")
        try:
            with safe_open(path, framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118 (it is not a mapping)
                    found[name] = tuple(weights.get_slice(name).get_shape())
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
    return found


def check_sizes(path: Path, config: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a configuration that asks for other sizes than the weights have."""
    shared = config.share_encoder_decoder_embeddings
    for part in ("encoder", "decoder"):
        start = f"model.{part}.layers."
        layers = {name[len(start) :].split(".")[0] for name in shapes if name.startswith(start)}
        _same(path, f"{part}_layers", getattr(config, f"{part}_layers"), len(layers))
        size = getattr(config, f"{part}_ffn_dim"), config.d_model
        _same(path, f"{part}_ffn_dim, d_model", size, shapes.get(f"{start}0.fc1.weight"))
    # One table that serves all is stored under any of its names.
    stored = {"vocab_size": sum(_TABLES.values(), ())} if shared else _TABLES
    for name, tables in stored.items():
        found = {shapes[table] for table in tables if table in shapes}
        _same(path, f"{name}, d_model", {(getattr(config, name), config.d_model)}, found)


def _same(path: Path, name: str, said: Any, found: Any) -> None:
    if said != found:
        raise ValueError(
            f"{path} does not fit config.json: {name} is {said} there, and {found} in the weights"
        )


def check_entries(folder: Path) -> None:
    """Refuse a vocabulary with endless entries."""
    for name in ("tokenizer.json", "vocab.json"):
        path = folder / name
        if not path.exists():
            continue
        found = read_json(path, "a tokenizer")
        entries = found
        if name == "tokenizer.json":
            model = found.get("model")
            entries = model.get("vocab", {}) if isinstance(model, dict) else {}
        if max((len(str(_entry(entry))) for entry in entries), default=0) > MAX_ENTRY:
            raise ValueError(f"{path}: an entry of a vocabulary has {MAX_ENTRY} letters at most")


def _entry(entry: Any) -> Any:
    """A unigram vocabulary lists pairs of an entry and its score."""
    return entry[0] if isinstance(entry, list) and entry else entry
