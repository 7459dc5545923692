"""How good and how late: a corpus decoded under a policy, logged, scored and compared; thresholds
for a latency.

Exports lazily: text files and logs are read, and logs scored, without torch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:  # the same names once more, for type checkers and editors
    from .calibration import Calibration as Calibration
    from .calibration import Search as Search
    from .calibration import calibrate as calibrate
    from .calibration import save_latency as save_latency
    from .corpus import Evaluation as Evaluation
    from .corpus import decode_corpus as decode_corpus
    from .corpus import encoder_of as encoder_of
    from .corpus import evaluate as evaluate
    from .decoding import Decoding as Decoding
    from .decoding import tail_named as tail_named
    from .decoding import text_decoding as text_decoding
    from .descriptions import describe as describe
    from .logs import read_log as read_log
    from .logs import write_instances as write_instances
    from .logs import write_log as write_log
    from .processes import is_main_process as is_main_process
    from .scores import Scores as Scores
    from .scores import Scoring as Scoring
    from .scores import score as score
    from .scores import scores_from_log as scores_from_log
    from .texts import read_sentences as read_sentences

_EXPORTS = {
    "calibrate": "calibration",
    "Calibration": "calibration",
    "save_latency": "calibration",
    "Search": "calibration",
    "decode_corpus": "corpus",
    "encoder_of": "corpus",
    "evaluate": "corpus",
    "Evaluation": "corpus",
    "Decoding": "decoding",
    "tail_named": "decoding",
    "text_decoding": "decoding",
    "describe": "descriptions",
    "read_log": "logs",
    "write_instances": "logs",
    "write_log": "logs",
    "is_main_process": "processes",
    "score": "scores",
    "Scores": "scores",
    "scores_from_log": "scores",
    "Scoring": "scores",
    "read_sentences": "texts",
}

__all__ = list(_EXPORTS)


if not TYPE_CHECKING:  # else any misspelt name would have a type

    def __getattr__(name: str) -> Any:
        if name not in _EXPORTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
