"""How good and how late: a corpus decoded under a policy, logged, scored and compared; thresholds
for a latency."""

from .calibration import Calibration, Search, calibrate, save_latency
from .corpus import Evaluation, decode_corpus, encoder_of, evaluate, read_sentences
from .decoding import Decoding, tail_named, text_decoding
from .descriptions import describe
from .logs import read_log, write_instances, write_log
from .processes import is_main_process
from .scores import Scores, Scoring, score, scores_from_log


__all__ = [
    "Calibration",
    "Decoding",
    "Evaluation",
    "Scores",
    "Scoring",
    "Search",
    "calibrate",
    "decode_corpus",
    "describe",
    "encoder_of",
    "evaluate",
    "is_main_process",
    "read_log",
    "read_sentences",
    "save_latency",
    "score",
    "scores_from_log",
    "tail_named",
    "text_decoding",
    "write_instances",
    "write_log",
]
