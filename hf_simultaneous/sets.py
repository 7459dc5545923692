"""A set of models as one thing to save, load and share: `adaptive_config.json`, the members, the tokenizer.

Knows files and folders, not what the models do. The set's root is itself a checkpoint, the member with the largest k;
the others lie in subfolders or in repositories of their own.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, StrictDataclassError


if TYPE_CHECKING:
    from .generation import AdaptiveWaitKGenerator


CONFIG_NAME = "adaptive_config.json"
FORMAT = 1
# What a set is made of: nothing else is ever downloaded.
FILES = ["*.json", "*.safetensors", "*.model", "*.spm", "*.md", "*.py", "*.txt"]
# What `custom_generate` needs where this package is not installed.
CODE = (
    "actions",
    "caches",
    "configuration_simultaneous",
    "generation",
    "inputs",
    "lanes",
    "loop",
    "masks",
    "members",
    "modeling_simultaneous",
    "packing",
    "policies",
    "rules",
    "schedule",
    "sessions",
    "sets",
    "sources",
)
# `pipeline` looks for its code in the root of the set, and for what it is called in config.json.
PIPELINE_CODE = (*CODE, "pipelines", "text", "translation")
CUSTOM_PIPELINES = {
    "simultaneous-translation": {
        "impl": "pipelines.SimultaneousTranslationPipeline",
        "pt": ["AutoModelForSeq2SeqLM"],
        "type": "text",
    }
}


def save_set(generator: "AdaptiveWaitKGenerator", save_directory: str | Path, **kwargs: Any) -> None:
    """Write members, tokenizer and code, and the config last: a folder without it is not a set."""
    folder = Path(save_directory)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG_NAME).unlink(missing_ok=True)
    members = {}
    for k, model in generator.models.items():
        members[_name(k)] = {"folder": member_folder(k, generator.root)}
        model.save_pretrained(folder / members[_name(k)]["folder"], **kwargs)
    if generator.tokenizer is not None:
        generator.tokenizer.save_pretrained(folder)
    _save_code(folder / "custom_generate")
    _save_pipeline(folder)
    text = json.dumps(_config(generator, members), indent=2) + "\n"
    (folder / CONFIG_NAME).write_text(text, encoding="utf-8")


def member_folder(k: int | None, root: int | None) -> str:
    """Where the model for k lies in a set; `root` is the k of the one that needs no folder of its own."""
    return "." if k == root else f"wait-{k}" if k is not None else "full"


def _config(generator: "AdaptiveWaitKGenerator", members: dict[str, Any]) -> dict[str, Any]:
    scores = generator.dev_scores
    return {
        "format": FORMAT,
        "members": members,
        "thresholds": {str(k): rho for k, rho in generator.thresholds.items()},
        "ensembles": {str(k): [_name(m) for m in models] for k, models in generator.ensembles.items()},
        "dev_scores": scores and {str(k): {_name(m): bleu for m, bleu in row.items()} for k, row in scores.items()},
        "latencies": {name: {str(k): rho for k, rho in rhos.items()} for name, rhos in generator.latencies.items()},
        "early_stop": generator.early_stop,
        "history": generator.history,
    }


def _name(k: int | None) -> str:
    return "full" if k is None else str(k)


def _k(name: str) -> int | None:
    """The inverse of `_name`: two spellings of one k would hide each other."""
    k = None if name == "full" else int(name)
    if _name(k) != name:
        raise ValueError(f"{name!r} is no k")
    return k


def _rows(saved: dict[str, float]) -> dict[Any, float]:
    for value in saved.values():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{value!r} is no number")
    return {_k(name): float(value) for name, value in saved.items()}


def _copy_code(modules: tuple[str, ...], folder: Path) -> None:
    for module in modules:
        shutil.copy(Path(__file__).with_name(f"{module}.py"), folder / f"{module}.py")


def _save_pipeline(folder: Path) -> None:
    if not Path(__file__).with_name("pipelines.py").exists():
        return  # this file came here with `custom_generate`, which needs no pipeline
    _copy_code(PIPELINE_CODE, folder)
    path = folder / "config.json"
    config = {**json.loads(path.read_text(encoding="utf-8")), "custom_pipelines": CUSTOM_PIPELINES}
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _save_code(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    _copy_code(CODE, folder)
    (folder / "generate.py").write_text(
        '"""The set\'s policy as `model.generate(custom_generate=...)`; the code beside it is hf_simultaneous."""\n\n'
        "from .sets import generate\n",
        encoding="utf-8",
    )


def load_set(
    cls: "type[AdaptiveWaitKGenerator]",
    name_or_path: str | Path,
    *,
    latency: str | None = None,
    revision: str | None = None,
    subfolder: str = "",
    token: str | bool | None = None,
    cache_dir: str | None = None,
    local_files_only: bool = False,
    device: str | None = None,
    **kwargs: Any,
) -> "AdaptiveWaitKGenerator":
    """A generator from a folder or repository that holds a set or a single checkpoint.

    `thresholds`, `ensembles`, `early_stop` and `history` beat what is saved; other keywords go to the models.
    """
    hub = {"token": token, "cache_dir": cache_dir, "local_files_only": local_files_only}
    folder = set_folder(str(name_or_path), revision, hub, subfolder)
    saved = saved_config(folder)
    own = ("thresholds", "ensembles", "early_stop", "history", "dev_scores", "latencies")
    given = {name: kwargs.pop(name) for name in own if name in kwargs}
    if latency is not None:
        given["thresholds"] = _operating_point(latency, {**saved, **given}["latencies"])
    places = {k: member_path(folder, place, hub) for k, place in saved.pop("members").items()}
    models = {k: _load_model(place, **kwargs) for k, place in places.items()}
    tokenizer = _load_tokenizer(folder, next(iter(models.values()), None))
    try:
        generator = cls(models, tokenizer, **saved)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{folder / CONFIG_NAME} does not fit its models: {error}") from error
    if given:
        generator = cls(models, tokenizer, **{**saved, **given})
    return generator.to(device) if device is not None else generator


def set_folder(name_or_path: str, revision: str | None, hub: dict[str, Any], subfolder: str = "") -> Path:
    """Where a set's files are: a folder as it is, a repository once its files are here."""
    if Path(name_or_path).is_dir():
        return Path(name_or_path, subfolder)
    if Path(name_or_path).is_absolute() or name_or_path.count("/") > 1 or name_or_path.startswith("."):
        raise FileNotFoundError(f"no folder {name_or_path!r}; give a folder, or a repository as user/name")
    files = [f"{subfolder}/{pattern}" if subfolder else pattern for pattern in FILES]
    return Path(snapshot_download(name_or_path, revision=revision, allow_patterns=files, **hub), subfolder)


def check_links(files: Iterable[Path], root: Path) -> None:
    """No file may be a link that leads out of `root`; in the hub's cache all are links to its `blobs`."""
    caches = [parent.parent / "blobs" for parent in root.absolute().parents if parent.name == "snapshots"]
    homes = [home.resolve() for home in (root, *caches)]
    for path in files:
        if not path.is_dir() and not any(path.resolve().is_relative_to(home) for home in homes):
            raise ValueError(f"{path} is linked from outside {root}; put the file itself there")


def saved_config(folder: Path) -> dict[str, Any]:
    """The keyword arguments of a generator, and `members`; a single checkpoint is a set of one."""
    path = folder / CONFIG_NAME
    if not path.exists():
        if not (folder / "config.json").exists():
            raise FileNotFoundError(f"{folder} holds neither a set ({CONFIG_NAME}) nor a checkpoint (config.json)")
        return {"members": {_config_of(folder).get("wait_k"): {"folder": "."}}, "latencies": {}}
    check_links(folder.iterdir(), folder)
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved["format"] != FORMAT:
            raise ValueError(f"format {saved['format']!r} is not {FORMAT}, the one this version reads")
        if not isinstance(saved["early_stop"], bool):
            raise TypeError(f"early_stop is true or false; got {saved['early_stop']!r}")
        scores = saved["dev_scores"]
        return {
            "members": {_k(name): place for name, place in saved["members"].items()},
            "thresholds": _rows(saved["thresholds"]),
            "ensembles": {_k(k): [_k(name) for name in names] for k, names in saved["ensembles"].items()},
            "dev_scores": None if scores is None else {_k(k): _rows(row) for k, row in scores.items()},
            "latencies": {name: _rows(rhos) for name, rhos in saved["latencies"].items()},
            "early_stop": saved["early_stop"],
            "history": saved["history"],
        }
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a set's config: {type(error).__name__}: {error}") from error


def _operating_point(name: str, latencies: dict[str, dict[int, float]]) -> dict[int, float]:
    if name not in latencies:
        known = ", ".join(sorted(latencies)) or "none; make one with calibrate()"
        raise ValueError(f"this set has no operating point {name!r}; it has: {known}")
    return latencies[name]


def check_place(root: Path, place: Any) -> None:
    """A member is below the set's own folder, or a repository. A config must not lead anywhere else."""
    kinds = ({"folder"}, {"repo"}, {"repo", "revision"})
    if not isinstance(place, dict) or set(place) not in kinds or not all(isinstance(at, str) for at in place.values()):
        raise ValueError(f"{root / CONFIG_NAME}: a member is a folder or a repo (with a revision); got {place!r}")


def member_path(root: Path, place: dict[str, str], hub: dict[str, Any]) -> Path:
    """The folder of a member, downloaded if it is elsewhere."""
    check_place(root, place)
    inside = _download(root, place, hub) if "repo" in place else place_below(root, place["folder"])
    if not (inside / "config.json").exists():
        named = place.get("folder") or place["repo"]
        raise FileNotFoundError(f"{root / CONFIG_NAME} names member {named!r}, but {inside}/config.json is missing")
    return inside


def _download(root: Path, place: dict[str, str], hub: dict[str, Any]) -> Path:
    try:
        return Path(snapshot_download(place["repo"], revision=place.get("revision"), allow_patterns=FILES, **hub))
    except HFValidationError as error:
        raise ValueError(f"{root / CONFIG_NAME}: a member's repo is user/name; got {place['repo']!r}") from error


def place_below(root: Path, folder: str) -> Path:
    """A member's folder, if it and all its files are in the set."""
    path = PurePosixPath(folder)
    inside = root / path
    if path.is_absolute() or ".." in path.parts or "\\" in folder:
        raise ValueError(f"{root / CONFIG_NAME}: a member's folder is below the set's own; got {folder!r}")
    if not inside.resolve().is_relative_to(root.resolve()):
        raise ValueError(f"{root / CONFIG_NAME}: member {folder!r} leads out of the set")
    if inside.is_dir() and (root / CONFIG_NAME).exists():  # a checkpoint the user named is the user's own affair
        check_links(inside.iterdir(), root)
    return inside


def _load_model(folder: Path, **kwargs: Any) -> Any:
    from safetensors import SafetensorError

    from .modeling_simultaneous import SimultaneousMTModel

    config = _config_of(folder)
    kind = config.get("model_type")
    if kind not in ("simultaneous-mt", "marian"):  # its weights would not fit, and random ones would stand in for them
        raise ValueError(f"{folder}/config.json: a member is a simultaneous-mt or a marian model; got {kind!r}")
    _check_weights(folder, config)
    try:
        model, told = SimultaneousMTModel.from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, **kwargs
        )
    except (StrictDataclassError, ValueError) as error:
        raise ValueError(f"{folder}/config.json: {' '.join(str(error).split())}") from error
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{folder}/model.safetensors is damaged or does not fit config.json: {error}") from error
    # Marian's own may hold tables that transformers no longer keeps.
    odd = {*told["missing_keys"], *(told["unexpected_keys"] if kind != "marian" else ())}
    if odd:  # transformers would make the missing up
        raise ValueError(
            f"{folder}/model.safetensors does not fit config.json: {len(odd)} weights, such as {min(odd)}"
        )
    return model


def _check_weights(folder: Path, config: dict[str, Any]) -> None:
    """Weights are in files of the folder; these three could make transformers look for them elsewhere."""
    index = folder / "model.safetensors.index.json"
    if "transformers_weights" in config:
        raise ValueError(f"{folder}/config.json: transformers_weights is not allowed; weights are model.safetensors")
    if (folder / "adapter_config.json").exists():
        raise ValueError(f"{folder}/adapter_config.json is not allowed; merge the adapter into model.safetensors")
    try:
        shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values() if index.exists() else ()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{index} is no index of weights: {error}") from error
    for shard in shards:
        if PurePosixPath(str(shard)).name != shard or "\\" in shard:
            raise ValueError(f"{index}: weights are in files beside it; got {shard!r}")


def _config_of(folder: Path) -> dict[str, Any]:
    from .configuration_simultaneous import SimultaneousConfig

    config: Any = SimultaneousConfig.get_config_dict(folder)[0]
    if not isinstance(config, dict):
        raise ValueError(f"{folder}/config.json holds no configuration, but {config!r}")
    return config


def _load_tokenizer(folder: Path, model: Any) -> Any:
    if model is None or not (folder / "tokenizer_config.json").exists():
        return None
    from transformers import AutoTokenizer  # here, so that what only shares files need not wait for it

    try:
        # Given a config it does not look for one, and so does not ask whether the code that comes with it may be run.
        return AutoTokenizer.from_pretrained(folder, config=model.config, trust_remote_code=False)
    except Exception as error:  # `tokenizers` raises nothing more special
        raise ValueError(f"the tokenizer in {folder} cannot be read: {error}") from error


def generate(
    *positional: Any,
    model: Any,
    input_ids: Any = None,
    inputs: Any = None,
    adaptive_set: str | None = None,
    custom_generate: str | None = None,
    trust_remote_code: bool | None = None,
    **kwargs: Any,
) -> Any:
    """`model.generate(custom_generate=<set>)`: decode with the set `adaptive_set`, or the one `model` came from.

    The set is loaded once and stays on the model; a model that came from no set serves every k alone. A trusted set
    has this for its `generate`, hence the last two names.
    """
    source = next((given for given in (*positional, input_ids, inputs) if given is not None), None)
    if source is None:
        raise ValueError("give the source sentence as input_ids")
    sets = model.__dict__.setdefault("_adaptive_sets", {})
    if adaptive_set not in sets:
        sets[adaptive_set] = _set_of(model, adaptive_set)
    generator = sets[adaptive_set]
    if (generator.device, generator.model.dtype) != (model.device, model.dtype):
        generator.to(model.device, model.dtype)
    return generator.generate(source, **{name: value for name, value in kwargs.items() if value is not None})


def _set_of(model: Any, named: str | None) -> "AdaptiveWaitKGenerator":
    from .generation import AdaptiveWaitKGenerator

    if named:
        return AdaptiveWaitKGenerator.from_pretrained(named)
    revision = getattr(model.config, "_commit_hash", None)  # the set as it was when the model was loaded
    if model.name_or_path and (set_folder(model.name_or_path, revision, {}) / CONFIG_NAME).exists():
        return AdaptiveWaitKGenerator.from_pretrained(model.name_or_path, revision=revision)
    return AdaptiveWaitKGenerator(model)
