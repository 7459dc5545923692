"""What is installed here and what a set is made of, as facts to print; loads no model.

Knows packages, folders and config files; not what is done with them.
"""

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .. import places, probe, sets
from ..version import __version__


REQUIRED = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "huggingface_hub",
    "typer",
    "rich",
)
EXTRAS = {
    "train": ("accelerate", "datasets", "sacrebleu", "pyyaml"),
    "eval": ("accelerate", "datasets", "evaluate", "sacrebleu", "matplotlib"),
    "app": ("gradio",),
    "serve": ("starlette", "uvicorn", "websockets", "prometheus_client"),
    "ray": ("ray", "fastapi"),
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


def to_install(extra: str) -> str:
    """Right for a clone as for a wheel: pip takes the package itself as it is installed, and adds
    what its extra needs."""
    return f"pip install 'hf_simultaneous[{extra}]'"


def require(extra: str, *packages: str) -> None:
    """Say what to install before any work is done, not after it."""
    absent = [package for package in packages if installed(package) is None]
    if absent:
        raise ValueError(
            f"this command needs {' and '.join(absent)}, which is not installed: "
            f"{to_install(extra)}"
        )


def examine() -> Examination:
    """Versions, extras, device, precisions and built-in models."""
    lines = [f"hf_simultaneous  {__version__}", f"python           {platform.python_version()}"]
    lines += [f"{package:17}{installed(package) or 'MISSING'}" for package in REQUIRED]
    missing = [package for package in REQUIRED if installed(package) is None]
    without = []
    for extra, packages in EXTRAS.items():
        absent = [package for package in packages if installed(package) is None]
        need = f"missing {', '.join(absent)}: {to_install(extra)}"
        lines.append(f"{'[' + extra + ']':17}{need if absent else 'installed'}")
        without += [extra] if absent else []
    lines.append(f"device           {_device()}")
    lines += _precisions()
    lines.append(f"built-in models  {', '.join(builtin()) or 'missing: install the package again'}")
    missing += [] if builtin() else ["built-in models"]
    lines.append(_verdict(missing, without))
    return Examination(tuple(lines), not missing)


def _verdict(missing: list[str], without: list[str]) -> str:
    if missing:
        return f"not in order: {', '.join(missing)}"
    if without:
        return f"translation is in order; not installed: [{', '.join(without)}], see above"
    return "all in order"


def _device() -> str:
    if installed("torch") is None:
        return "unknown without torch"
    import torch

    if torch.cuda.is_available():
        return f"cuda ({torch.cuda.get_device_name(0)})"
    return (
        "mps" if torch.backends.mps.is_available() else f"cpu ({torch.get_num_threads()} threads)"
    )


def _precisions() -> list[str]:
    """What torch makes of the precisions that not every machine bears; ours is float32."""
    if installed("torch") is None:
        return []
    return [f"{name:17}{probe.probe(name).failure or 'works'}" for name in probe.PRECISIONS]


def builtin() -> list[str]:
    """The sets that ship with the package."""
    return [sets.BUILTIN.name] if places.is_set(sets.BUILTIN) else []


def describe_set(name_or_path: str) -> dict[str, Any]:
    """What a set or checkpoint says of itself: members, thresholds, operating points, sizes."""
    from ..members import read_config
    from ..places import member_path, set_folder
    from ..sets import saved_config

    folder = set_folder(name_or_path, None, {})
    saved = saved_config(folder)
    places = {k: member_path(folder, place, {}) for k, place in saved["members"].items()}
    configs = {k: read_config(place) for k, place in places.items()}
    # A set that names its models has none at its root.
    at_root = [k for k, place in saved["members"].items() if place.get("folder") == "."]
    root = configs[(at_root or list(configs))[0]]
    weights = sum(
        file.stat().st_size for place in places.values() for file in place.glob("*.safetensors")
    )
    return {
        "model": str(name_or_path),
        "members": list(places),
        "thresholds": saved.get("thresholds"),
        "latencies": saved["latencies"],
        "encoders": {k: one.get("encoder_attention", "prefix") for k, one in configs.items()},
        "catchup": root.get("catchup"),
        "vocabulary": root["vocab_size"],
        "d_model": root["d_model"],
        "layers": [
            root.get("encoder_layers", root.get("num_layers")),
            root.get("decoder_layers", root.get("num_decoder_layers")),
        ],
        "megabytes": round(weights / 1e6, 1),
        "tokenizer": (folder / "tokenizer_config.json").exists(),
    }


def in_words(facts: dict[str, Any]) -> str:
    """The facts of a set, a line each; a line for every operating point."""
    return "\n".join(f"{name:12}{_said(value)}" for name, value in facts.items())


def _said(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if not isinstance(value, dict):
        return str(value)
    nested = any(isinstance(one, dict) for one in value.values())
    between = "\n" + " " * 12 if nested else ", "
    return between.join(f"{name}{':' * nested} {_said(one)}" for name, one in value.items())
