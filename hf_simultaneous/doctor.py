"""What is installed here and what a set is made of, as facts to print; loads no model.

Knows packages, folders and config files; not what is done with them.
"""

import json
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .version import __version__


BUILTIN = Path(__file__).parent / "builtin"
REQUIRED = ("torch", "transformers", "tokenizers", "safetensors", "huggingface_hub", "typer", "rich")
EXTRAS = {
    "train": ("accelerate", "datasets", "sacrebleu", "pyyaml"),
    "eval": ("accelerate", "datasets", "evaluate", "sacrebleu", "matplotlib"),
    "app": ("gradio",),
    "marian": ("sentencepiece",),
}


@dataclass(frozen=True)
class Examination:
    """Lines to read, and whether translation can work here."""

    lines: tuple[str, ...]
    healthy: bool


def installed(package: str) -> str | None:
    """The version of a package, without importing it; `None` if it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def examine() -> Examination:
    """Versions, extras, device and built-in models."""
    lines = [f"hf_simultaneous  {__version__}", f"python           {platform.python_version()}"]
    lines += [f"{package:17}{installed(package) or 'MISSING'}" for package in REQUIRED]
    missing = [package for package in REQUIRED if installed(package) is None]
    for extra, packages in EXTRAS.items():
        absent = [package for package in packages if installed(package) is None]
        need = f"missing {', '.join(absent)}: pip install 'hf_simultaneous[{extra}]'" if absent else "installed"
        lines.append(f"{'[' + extra + ']':17}{need}")
    lines.append(f"device           {_device()}")
    lines.append(f"built-in models  {', '.join(builtin()) or 'missing: install the package again'}")
    lines.append(f"not in order: {', '.join(missing)}" if missing else "all in order")
    return Examination(tuple(lines), not missing)


def _device() -> str:
    if installed("torch") is None:
        return "unknown without torch"
    import torch

    if torch.cuda.is_available():
        return f"cuda ({torch.cuda.get_device_name(0)})"
    return "mps" if torch.backends.mps.is_available() else f"cpu ({torch.get_num_threads()} threads)"


def builtin() -> list[str]:
    """The sets that ship with the package."""
    return [BUILTIN.name] if (BUILTIN / "adaptive_config.json").exists() else []


def set_or_builtin(model: str | None) -> str:
    """The set named on the command line, or the one inside the package."""
    if model is not None:
        return model
    if not builtin():
        raise ValueError(
            f"the models that ship with the package are missing from {BUILTIN}: install it again, or name a set, a "
            "folder or user/name"
        )
    return str(BUILTIN)


def describe_set(name_or_path: str) -> dict[str, Any]:
    """What a set or checkpoint says of itself: members, thresholds, operating points, sizes."""
    from .sets import member_path, saved_config, set_folder

    folder = set_folder(name_or_path, None, {})
    saved = saved_config(folder)
    places = {k: member_path(folder, place, {}) for k, place in saved["members"].items()}
    configs = {k: json.loads((place / "config.json").read_text(encoding="utf-8")) for k, place in places.items()}
    root = next(reversed(configs.values()))
    weights = sum(file.stat().st_size for place in places.values() for file in place.glob("*.safetensors"))
    return {
        "model": str(name_or_path),
        "members": ["full" if k is None else k for k in places],
        "thresholds": saved.get("thresholds"),
        "latencies": saved["latencies"],
        "encoder": root.get("encoder_attention", "prefix"),
        "catchup": root.get("catchup"),
        "vocabulary": root["vocab_size"],
        "d_model": root["d_model"],
        "layers": [root["encoder_layers"], root["decoder_layers"]],
        "megabytes": round(weights / 1e6, 1),
        "tokenizer": (folder / "tokenizer_config.json").exists(),
    }
