"""Simultaneous translation for Hugging Face Transformers.

Exports lazily: the rules of the paper (`schedule`, `actions`, `policies`, `metrics`) work without torch, and
`import hf_simultaneous` stays quick.
"""

from importlib import import_module
from typing import Any

from .auto import install
from .version import __version__


_EXPORTS = {
    "Read": "actions",
    "Write": "actions",
    "Prediction": "actions",
    "State": "actions",
    "Adaptive": "policies",
    "FullSentence": "policies",
    "PAPER_SETTINGS": "policies",
    "TestTimeWaitK": "policies",
    "WaitIfDiff": "policies",
    "WaitIfWorse": "policies",
    "WaitK": "policies",
    "linear_thresholds": "policies",
    "SimultaneousConfig": "configuration_simultaneous",
    "SimultaneousMTModel": "modeling_simultaneous",
    "ActionStreamer": "generation",
    "AdaptiveWaitKGenerator": "generation",
    "SentenceRules": "text",
    "TextEvent": "translation",
    "TextSession": "translation",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__


install()
