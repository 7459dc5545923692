"""A set of models as one thing to save, load and share: `adaptive_config.json`, the members, the
tokenizer.

Knows what a set consists of, not what the models do; where its files may lie is the business of
`places`. The set's root is itself a checkpoint, the member with the largest k; the others lie in
subfolders or in repositories of their own."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .actions import Models
from .checks import Quantize, check_quantize, read_json
from .members import read_config
from .places import CONFIG_NAME, check_links, is_set
from .quiet import without_bars
from .schedule import FULL, K, check_k
from .travelling import save_code, save_pipeline_code


@dataclass(frozen=True)
class SpokenLanguages:
    """Codes of what is read and of what is written, where they are known."""

    source: str | None = None
    target: str | None = None


class Saved(Protocol):
    """A generator as saving and loading know it: what is saved, and how one is made from that."""

    models: dict[K, Any]
    tokenizer: Any
    thresholds: dict[int, float]
    dev_scores: Mapping[int, Mapping[Any, float]] | None
    latencies: dict[str, dict[int, float]]
    early_stop: bool
    history: Any
    tail_beams: int
    tail: Models | None
    source_language: str | None
    target_language: str | None
    origins: dict[K, dict[str, str]]
    """Stock members that were loaded by their name on the hub: a set names them too."""

    def __init__(self, models: Any, tokenizer: Any, **options: Any): ...

    @property
    def policy(self) -> Any: ...

    @property
    def usual_policy(self) -> Any: ...

    @property
    def ensembles(self) -> Mapping[int, Models]: ...

    @property
    def root(self) -> K: ...

    @property
    def quantize(self) -> Quantize: ...

    def to(self, device: Any, dtype: Any = None) -> Any: ...

    def decoding_rules(self) -> Any: ...


BUILTIN = Path(__file__).parent / "builtin"
"""The set that ships with the package; where this file travelled with a set of its own, there is
none."""
GERMAN_ENGLISH = SpokenLanguages("de", "en")
"""What it translates."""
FORMAT = 1
NAMED = "simultaneous-set"
"""What config.json calls a set whose models lie elsewhere, for transformers' `pipeline`."""
MAX_MEMBERS = 100


def save_set(generator: Saved, save_directory: str | Path, **kwargs: Any) -> None:
    """Write members, tokenizer and code, and the config last: a folder without it is not a set."""
    from .quantization import float_weights  # torch: not for those who only read a config

    folder = Path(save_directory)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG_NAME).unlink(missing_ok=True)
    members = {}
    for k, model in generator.models.items():
        if "repo" in generator.origins.get(k, {}):
            members[str(k)] = generator.origins[k]
            continue
        members[str(k)] = {"folder": member_folder(k, generator.root)}
        weights = {"state_dict": float_weights(model)} if generator.quantize != "none" else {}
        with without_bars():
            model.save_pretrained(folder / members[str(k)]["folder"], **{**weights, **kwargs})
    if "folder" in members[str(generator.root)]:  # else the tokenizer is named with the model
        if generator.tokenizer is not None:
            generator.tokenizer.save_pretrained(folder)
        # A stock config that names code of its own would be refused without trust in it.
        if hasattr(generator.models[generator.root].config, "wait_k"):
            save_code(folder / "custom_generate")
            save_pipeline_code(folder)
    else:
        (folder / "config.json").write_text(json.dumps({"model_type": NAMED}) + "\n")
    _write_config(folder, _config(generator, members))


def member_folder(k: K, root: K) -> str:
    """Where the model for k lies in a set; `root` is the k of the one that needs no folder of its
    own."""
    return "." if k == root else policy_name(k)


def policy_name(k: K) -> str:
    """`wait-3`, `full`: what a k is called in folders, logs and tables."""
    return FULL if k == FULL else f"wait-{k}"


def operating_point(name: str, latencies: Mapping[str, dict[int, float]]) -> dict[int, float]:
    """The thresholds that a set keeps under this name."""
    if name not in latencies:
        known = ", ".join(latencies) or "none; make one with calibrate()"
        raise ValueError(f"this set has no operating point {name!r}; it has: {known}")
    return latencies[name]


def languages_of(generator: Any) -> SpokenLanguages:
    """The two languages, as far as they are known: of models of many languages those that were
    asked for, and those of the set in the package."""
    if BUILTIN in Path(generator.model.config.name_or_path, "here").parents:
        return GERMAN_ENGLISH
    return SpokenLanguages(generator.source_language, generator.target_language)


def to_be_told(folder: str | Path, source: str | None, target: str | None) -> SpokenLanguages:
    """The languages that models are told; those in the package know theirs, and no others."""
    if Path(folder) != BUILTIN:
        return SpokenLanguages(source, target)
    own = GERMAN_ENGLISH
    if source not in (None, own.source) or target not in (None, own.target):
        raise ValueError(
            f"the built-in set translates {own.source} to {own.target}; got "
            f"{source or own.source} to {target or own.target}. Leave out --from and --to, or name "
            f"a model that knows others"
        )
    return SpokenLanguages()


def set_or_builtin(name_or_path: str | Path | None) -> str:
    """The set that was named, or the one inside the package, which is called `builtin` where no
    folder is."""
    if name_or_path is not None and (
        str(name_or_path) != BUILTIN.name or Path(name_or_path).is_dir()
    ):
        return str(name_or_path)
    if not is_set(BUILTIN):
        raise ValueError(
            f"the models that ship with the package are missing from {BUILTIN}: install it again, "
            f"or name a set, a "
            "folder or user/name"
        )
    return str(BUILTIN)


def _config(generator: Saved, members: dict[str, Any]) -> dict[str, Any]:
    scores = None
    if generator.dev_scores is not None:
        scores = {
            str(k): {str(m): bleu for m, bleu in row.items()}
            for k, row in generator.dev_scores.items()
        }
    return {
        "format": FORMAT,
        "members": members,
        "thresholds": {str(k): rho for k, rho in generator.thresholds.items()}
        if generator.usual_policy is generator.policy
        else None,  # nobody chose some
        "ensembles": {
            str(k): [str(m) for m in models] for k, models in generator.ensembles.items()
        },
        "dev_scores": scores,
        "latencies": {
            name: {str(k): rho for k, rho in rhos.items()}
            for name, rhos in generator.latencies.items()
        },
        "early_stop": generator.early_stop,
        "history": generator.history,
        **_unusual_config(generator),
    }


def _unusual_config(generator: Saved) -> dict[str, Any]:
    """Only where there is something to say: a set without it writes its tail as the paper does, and
    has float weights."""
    members = None if generator.tail is None else [str(member) for member in generator.tail]
    given = {
        "tail_beams": generator.tail_beams,
        "tail": members,
        "quantize": generator.quantize,
        "source_language": generator.source_language,
        "target_language": generator.target_language,
    }
    return {name: value for name, value in given.items() if value not in (None, 1, "none")}


def saved_k(name: Any) -> K:
    """A k as it was saved: two spellings of one would hide each other."""
    if name == FULL:
        return FULL
    if not isinstance(name, str) or not name.isdecimal() or str(int(name)) != name:
        raise ValueError(f"a member is {FULL!r} or a number such as '3'; got {name!r}")
    check_k(int(name))
    return int(name)


def _rows(saved: dict[str, float]) -> dict[Any, float]:
    for value in saved.values():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{value!r} is not a number")
        if not math.isfinite(value):
            raise ValueError(f"{value!r} is not a finite number")
    return {saved_k(name): float(value) for name, value in saved.items()}


def _members(names: Any) -> list[K]:
    if not isinstance(names, list):  # of a word, each letter would be one
        raise TypeError(f"members are a list; got {names!r}")
    return [saved_k(name) for name in names]


def saved_config(folder: Path) -> dict[str, Any]:
    """The keyword arguments of a generator, and `members`; a single checkpoint is a set of one."""
    if not is_set(folder):
        if not (folder / "config.json").exists():
            raise FileNotFoundError(
                f"{folder} holds neither a set ({CONFIG_NAME}) nor a checkpoint (config.json)"
            )
        members = {_own_k(folder): {"folder": "."}}
        return {"members": members, "latencies": {}, "quantize": "none"}
    check_links(folder.iterdir(), folder)
    saved = read_set_config(folder)
    try:
        if saved["format"] != FORMAT:
            raise ValueError(
                f"format {saved['format']!r} is not {FORMAT}, the one this version reads"
            )
        if not isinstance(saved["early_stop"], bool):
            raise TypeError(f"early_stop is true or false; got {saved['early_stop']!r}")
        if not isinstance(saved.get("tail") or [], list):
            raise TypeError(f"tail is a list of members such as ['full']; got {saved['tail']!r}")
        check_quantize(saved.get("quantize", "none"))
        if len(saved["members"]) > MAX_MEMBERS:
            raise ValueError(f"a set has {MAX_MEMBERS} members at most")
        scores = saved["dev_scores"]
        return {
            "members": {saved_k(name): place for name, place in saved["members"].items()},
            "thresholds": None if saved["thresholds"] is None else _rows(saved["thresholds"]),
            "ensembles": {saved_k(k): _members(names) for k, names in saved["ensembles"].items()},
            "dev_scores": None
            if scores is None
            else {saved_k(k): _rows(row) for k, row in scores.items()},
            "latencies": {name: _rows(rhos) for name, rhos in saved["latencies"].items()},
            "early_stop": saved["early_stop"],
            "history": saved["history"],
            "tail_beams": saved.get("tail_beams", 1),
            "tail": saved.get("tail") and [saved_k(name) for name in saved["tail"]],
            "quantize": saved.get("quantize", "none"),
            "source_language": saved.get("source_language"),
            "target_language": saved.get("target_language"),
        }
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        path = folder / CONFIG_NAME
        raise ValueError(
            f"{path} is not a set's config: {type(error).__name__}: {error}"
        ) from error


def _own_k(folder: Path) -> K:
    """The k that a checkpoint says it was trained with."""
    k: K = read_config(folder).get("wait_k") or FULL
    try:
        check_k(k, "wait_k")
    except ValueError as error:
        raise ValueError(f"{folder / 'config.json'}: {error}") from error
    return k


def read_set_config(folder: str | Path) -> dict[str, Any]:
    """The set's `adaptive_config.json`, as it was written."""
    if not is_set(folder):
        raise FileNotFoundError(
            f"{folder} is not a saved set: it has no {CONFIG_NAME}. Give a folder of "
            f"save_pretrained()"
        )
    return read_json(Path(folder) / CONFIG_NAME, "a set's config")


def update_set_config(folder: str | Path, **entries: Any) -> None:
    """Change entries of a saved set's config; its models stay as they are."""
    _write_config(folder, {**read_set_config(folder), **entries})


def set_config_text(config: Mapping[str, Any]) -> str:
    """What `adaptive_config.json` holds."""
    return json.dumps(config, indent=2) + "\n"


def _write_config(folder: str | Path, config: Mapping[str, Any]) -> None:
    """Beside, then renamed: there is never half a config."""
    beside = Path(folder) / f"{CONFIG_NAME}.tmp"
    beside.write_text(set_config_text(config), encoding="utf-8")
    beside.replace(Path(folder) / CONFIG_NAME)
