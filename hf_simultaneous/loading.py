"""A generator from a folder or a repository: of a set, or of a single checkpoint.

Knows where members are and what is made of them; what a set's config says is `sets`' business, what
a member's files may hold is `members`'."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

from .checks import Quantize, check_quantize
from .members import is_stock, load_model, load_stock, load_tokenizer
from .places import CONFIG_NAME, is_set, member_path, set_folder
from .probe import PRECISIONS, probe
from .quantization import quantize_model
from .quiet import without_bars
from .schedule import FULL, K
from .sets import Saved, operating_point, saved_config, to_be_told


G = TypeVar("G", bound=Saved)
LANGUAGES = ("source_language", "target_language")
# What an encoder does with its weights; how many there are, they say themselves.
_ENCODER_SETTINGS = ("encoder_attention_heads", "activation_function", "scale_embedding")
OWN = (
    "thresholds",
    "ensembles",
    "early_stop",
    "history",
    "dev_scores",
    "latencies",
    "tail_beams",
    "tail",
)


def load_set(
    cls: type[G],
    name_or_path: str | Path,
    *,
    latency: str | None = None,
    revision: str | None = None,
    subfolder: str = "",
    token: str | bool | None = None,
    cache_dir: str | None = None,
    local_files_only: bool = False,
    device: str | None = None,
    quantize: Quantize | None = None,
    **kwargs: Any,
) -> G:
    """A generator from a folder or repository that holds a set or a single checkpoint.

    `thresholds`, `ensembles`, `early_stop`, `history`, `tail`, `tail_beams`, `quantize` and the
    languages beat what is saved; other keywords go to the models."""
    hub = {"token": token, "cache_dir": cache_dir, "local_files_only": local_files_only}
    folder = set_folder(str(name_or_path), revision, hub, subfolder)
    saved = saved_config(folder)
    given = {name: kwargs.pop(name) for name in OWN if name in kwargs}
    told = to_be_told(folder, *(kwargs.pop(name, None) for name in LANGUAGES))
    for name, code in zip(LANGUAGES, (told.source, told.target), strict=True):
        saved[name] = saved.get(name) if code is None else code
    if latency is not None:
        given["thresholds"] = operating_point(latency, {**saved, **given}["latencies"])
    members = saved.pop("members")
    if not is_set(folder) and not subfolder:
        members = {k: _named(place, name_or_path, folder) for k, place in members.items()}
    default = saved.pop("quantize")
    bits = default if quantize is None else quantize
    check_quantize(bits)
    places = {k: member_path(folder, place, hub) for k, place in members.items()}
    with without_bars():
        models = {
            k: _stored_in(bits, _load(place, members[k], is_set(folder), hub, kwargs))
            for k, place in places.items()
        }
    if device is None or str(device) == "cpu":
        _check_precision(models)
    share_encoders(list(models.values()))
    tokenizer = _tokenizer(folder, places, models)
    try:
        generator = cls(models, tokenizer, **saved)
    except (TypeError, ValueError) as error:
        if not is_set(folder):
            raise
        raise ValueError(f"{folder / CONFIG_NAME} does not fit its models: {error}") from error
    _check_generation(generator, places[generator.root])
    if given:
        generator = cls(models, tokenizer, **{**saved, **given})
    generator.origins = {k: place for k, place in members.items() if is_stock(places[k])}
    return generator.to(device) if device is not None else generator


def load_origin(cls: type[G], model: Any, **options: Any) -> G | None:
    """The set that a model was loaded from, on its device, with the model itself as it is now in
    the place of what was saved; None if it came from no set, or from one that is gone."""
    place, revision = model.name_or_path, getattr(model.config, "_commit_hash", None)
    try:
        known = bool(place) and is_set(set_folder(place, revision, {}))
    except (FileNotFoundError, RepositoryNotFoundError, HFValidationError):
        known = False
    if not known:
        return None
    generator = load_set(cls, place, revision=revision, **options)
    if generator.quantize == "none":  # weights in 8 bits are others than the model's
        k = _place_of(model, generator)
        if k is not None:
            generator.models[k] = model.eval()
    return generator.to(model.device, model.dtype)


def _place_of(model: Any, generator: Saved) -> K | None:
    """Which member a model is: the root, unless it was trained for another k."""
    trained = _trained_for(model)
    for k in (generator.root, trained):
        member = generator.models.get(k)
        if member is not None and _trained_for(member) == trained:
            return k if member.config.model_type == model.config.model_type else None
    return None


def _trained_for(model: Any) -> K:
    k: K = getattr(model.config, "wait_k", None) or FULL
    return k


def share_encoders(models: Sequence[Any]) -> None:
    """Have members whose causal encoders are equal hold one, in place: it is run once for all of
    them."""
    kept: list[Any] = []
    for model in models:
        if getattr(model.config, "encoder_attention", None) != "causal":
            continue
        same = next((one for one in kept if _same_encoder(one, model)), None)
        if same is None:
            kept.append(model)
        else:
            model.model.encoder = same.model.encoder


def _same_encoder(one: Any, other: Any) -> bool:
    settings = [model.config.to_dict() for model in (one, other)]
    if any(settings[0].get(name) != settings[1].get(name) for name in _ENCODER_SETTINGS):
        return False
    weights, others = (model.model.encoder.state_dict() for model in (one, other))
    return weights.keys() == others.keys() and all(
        torch.equal(weight, others[name]) for name, weight in weights.items()
    )


def _named(place: dict[str, str], name: str | Path, folder: Path) -> dict[str, str]:
    """A checkpoint on the hub by its name and commit; the commit is what its folder is called."""
    if Path(name).is_dir() or folder.parent.name != "snapshots":
        return place
    return {"repo": str(name), "revision": folder.name}


def _load(
    folder: Path, place: dict[str, str], in_set: bool, hub: dict[str, Any], kwargs: dict[str, Any]
) -> Any:
    if not is_stock(folder):
        return load_model(folder, **kwargs)
    if "repo" not in place:
        return load_stock(folder, folder, strict=in_set, **kwargs)
    revision = place.get("revision")
    return load_stock(folder, place["repo"], strict=False, revision=revision, **hub, **kwargs)


def _stored_in(bits: Quantize, model: Any) -> Any:
    return quantize_model(model) if bits == "int8" else model


def _check_precision(models: Mapping[K, Any]) -> None:
    """Refuse half precision where torch cannot compute with it, which some CPUs say by ending the
    process."""
    on_cpu = [model for model in models.values() if model.device.type == "cpu"]
    for name in {str(model.dtype).removeprefix("torch.") for model in on_cpu}.intersection(
        PRECISIONS
    ):
        found = probe(name)
        if not found.survived:
            raise ValueError(
                f"the models are in half precision, and {found}. Load them with "
                f"dtype=torch.float32, or on another device"
            )


def _tokenizer(folder: Path, places: Mapping[K, Path], models: Mapping[K, Any]) -> Any:
    """The set's own, or that of a member that lies elsewhere."""
    for k, model in models.items():
        for place in (folder, places[k]):
            tokenizer = load_tokenizer(place, model)
            if tokenizer is not None:
                return tokenizer
    return None


def _check_generation(generator: Saved, root: Path) -> None:
    """Refuse a generation config now rather than at the first sentence."""
    try:
        generator.decoding_rules()
    except Exception as error:  # transformers raises what it likes
        raise ValueError(
            f"{root / 'generation_config.json'} or config.json beside it: {error}"
        ) from error
