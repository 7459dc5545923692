"""Simultaneous translation for Hugging Face Transformers.

Exports lazily: the rules of the paper (`schedule`, `actions`, `policies`, `metrics`) work without
torch, and `import hf_simultaneous` stays quick."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .auto import install
from .version import __version__


if TYPE_CHECKING:  # the same names once more, for type checkers and editors
    from .actions import Prediction as Prediction
    from .actions import Read as Read
    from .actions import State as State
    from .actions import Write as Write
    from .configuration_simultaneous import SimultaneousConfig as SimultaneousConfig
    from .evaluation import calibrate as calibrate
    from .evaluation import evaluate as evaluate
    from .families import register_family as register_family
    from .generation import ActionStreamer as ActionStreamer
    from .generation import AdaptiveWaitKGenerator as AdaptiveWaitKGenerator
    from .modeling_simultaneous import SimultaneousMTModel as SimultaneousMTModel
    from .policies import PAPER_SETTINGS as PAPER_SETTINGS
    from .policies import Adaptive as Adaptive
    from .policies import AlignAtt as AlignAtt
    from .policies import FullSentence as FullSentence
    from .policies import HoldN as HoldN
    from .policies import LocalAgreement as LocalAgreement
    from .policies import PsFuture as PsFuture
    from .policies import TestTimeWaitK as TestTimeWaitK
    from .policies import WaitIfDiff as WaitIfDiff
    from .policies import WaitIfWorse as WaitIfWorse
    from .policies import WaitK as WaitK
    from .policies import linear_thresholds as linear_thresholds
    from .schedule import FULL as FULL
    from .sentences import SentenceSplitting as SentenceSplitting
    from .text_events import TextEvent as TextEvent
    from .text_session import TextSession as TextSession
    from .transcripts import SourceRevised as SourceRevised

_EXPORTS = {
    "Read": "actions",
    "Write": "actions",
    "Prediction": "actions",
    "State": "actions",
    "Adaptive": "policies",
    "AlignAtt": "policies",
    "FullSentence": "policies",
    "HoldN": "policies",
    "LocalAgreement": "policies",
    "PAPER_SETTINGS": "policies",
    "PsFuture": "policies",
    "TestTimeWaitK": "policies",
    "WaitIfDiff": "policies",
    "WaitIfWorse": "policies",
    "WaitK": "policies",
    "linear_thresholds": "policies",
    "FULL": "schedule",
    "SimultaneousConfig": "configuration_simultaneous",
    "SimultaneousMTModel": "modeling_simultaneous",
    "register_family": "families",
    "ActionStreamer": "generation",
    "AdaptiveWaitKGenerator": "generation",
    "SentenceSplitting": "sentences",
    "SourceRevised": "transcripts",
    "TextEvent": "text_events",
    "TextSession": "text_session",
    "calibrate": "evaluation",
    "evaluate": "evaluation",
}

__all__ = ["__version__", *_EXPORTS]


if not TYPE_CHECKING:  # else any misspelt name would have a type

    def __getattr__(name: str) -> Any:
        if name not in _EXPORTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__


install()
