"""A set of models as one thing to save, load and share: `adaptive_config.json`, the members, the tokenizer.

Knows files and folders, not what the models do. The set's root is itself a checkpoint, the member with the largest k;
the others lie in subfolders or in repositories of their own.
"""

import json
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from huggingface_hub import HfApi, snapshot_download
from transformers import AutoTokenizer


if TYPE_CHECKING:
    from .generation import AdaptiveWaitKGenerator


CONFIG_NAME = "adaptive_config.json"
FORMAT = 1
# What a set is made of: nothing else is ever downloaded or uploaded.
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
        members[_name(k)] = {"folder": "." if k == generator.root else f"wait-{k}" if k is not None else "full"}
        model.save_pretrained(folder / members[_name(k)]["folder"], **kwargs)
    if generator.tokenizer is not None:
        generator.tokenizer.save_pretrained(folder)
    _save_code(folder / "custom_generate")
    _save_pipeline(folder)
    text = json.dumps(_config(generator, members), indent=2) + "\n"
    (folder / CONFIG_NAME).write_text(text, encoding="utf-8")


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
    folder = _folder(str(name_or_path), revision, hub)
    saved = _read_config(folder)
    own = ("thresholds", "ensembles", "early_stop", "history", "dev_scores", "latencies")
    given = {name: kwargs.pop(name) for name in own if name in kwargs}
    if latency is not None:
        given["thresholds"] = _operating_point(latency, {**saved, **given}["latencies"])
    places = {k: _member(folder, place, hub) for k, place in saved.pop("members").items()}
    models = {k: _load_model(place, **kwargs) for k, place in places.items()}
    tokenizer = _load_tokenizer(folder, next(iter(models.values()), None))
    try:
        generator = cls(models, tokenizer, **saved)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{folder / CONFIG_NAME} does not fit its models: {error}") from error
    if given:
        generator = cls(models, tokenizer, **{**saved, **given})
    return generator.to(device) if device is not None else generator


def _folder(name_or_path: str, revision: str | None, hub: dict[str, Any]) -> Path:
    if Path(name_or_path).is_dir():
        return Path(name_or_path)
    if Path(name_or_path).is_absolute() or name_or_path.count("/") > 1 or name_or_path.startswith("."):
        raise FileNotFoundError(f"no folder {name_or_path!r}; give a folder, or a repository as user/name")
    return Path(snapshot_download(name_or_path, revision=revision, allow_patterns=FILES, **hub))


def _read_config(folder: Path) -> dict[str, Any]:
    """The keyword arguments of a generator, and `members`; a single checkpoint is a set of one."""
    path = folder / CONFIG_NAME
    if not path.exists():
        if not (folder / "config.json").exists():
            raise FileNotFoundError(f"{folder} holds neither a set ({CONFIG_NAME}) nor a checkpoint (config.json)")
        return {"members": {_config_of(folder).get("wait_k"): {"folder": "."}}, "latencies": {}}
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


def _member(root: Path, place: dict[str, str], hub: dict[str, Any]) -> Path:
    """The folder of a member: below the set's own, or a repository. A config must not lead anywhere else."""
    kinds = ({"folder"}, {"repo"}, {"repo", "revision"})
    if not isinstance(place, dict) or set(place) not in kinds or not all(isinstance(at, str) for at in place.values()):
        raise ValueError(f"{root / CONFIG_NAME}: a member is a folder or a repo (with a revision); got {place!r}")
    if "repo" in place:
        return Path(snapshot_download(place["repo"], revision=place.get("revision"), allow_patterns=FILES, **hub))
    path = PurePosixPath(place["folder"])
    inside = root / path
    if path.is_absolute() or ".." in path.parts or "\\" in place["folder"]:
        raise ValueError(f"{root / CONFIG_NAME}: a member's folder is below the set's own; got {place['folder']!r}")
    if not inside.resolve().is_relative_to(root.resolve()):
        raise ValueError(f"{root / CONFIG_NAME}: member {place['folder']!r} leads out of the set")
    if not (inside / "config.json").exists():
        raise FileNotFoundError(
            f"{root / CONFIG_NAME} names member {place['folder']!r}, but {inside}/config.json is missing"
        )
    return inside


def _load_model(folder: Path, **kwargs: Any) -> Any:
    from .modeling_simultaneous import SimultaneousMTModel

    kind = _config_of(folder).get("model_type")
    if kind not in ("simultaneous-mt", "marian"):  # its weights would not fit, and random ones would stand in for them
        raise ValueError(f"{folder}/config.json: a member is a simultaneous-mt or a marian model; got {kind!r}")
    return SimultaneousMTModel.from_pretrained(folder, use_safetensors=True, **kwargs)


def _config_of(folder: Path) -> dict[str, Any]:
    from .configuration_simultaneous import SimultaneousConfig

    config: dict[str, Any] = SimultaneousConfig.get_config_dict(folder)[0]
    return config


def _load_tokenizer(folder: Path, model: Any) -> Any:
    if model is None or not (folder / "tokenizer_config.json").exists():
        return None
    # Given a config it does not look for one, and so does not ask whether the code that comes with that may be run.
    return AutoTokenizer.from_pretrained(folder, config=model.config, trust_remote_code=False)


def push_set(
    generator: "AdaptiveWaitKGenerator", repo_id: str, *, private: bool | None = None, token: str | None = None
) -> str:
    """Upload the set as one commit: a push cut in the middle leaves the old revision whole."""
    api = HfApi(token=token)
    repo = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    with tempfile.TemporaryDirectory() as folder:
        save_set(generator, folder)
        commit = api.upload_folder(
            repo_id=repo, folder_path=folder, allow_patterns=FILES, commit_message="Upload a set of wait-k models"
        )
    return str(commit.commit_url)


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

    place = named or model.name_or_path
    if named or (place and (_folder(place, None, {}) / CONFIG_NAME).exists()):
        return AdaptiveWaitKGenerator.from_pretrained(place)
    return AdaptiveWaitKGenerator(model)
