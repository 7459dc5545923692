"""Sentences to decode, and made-up logs to score: what the tests of evaluation and of the report
share."""

import random

import torch

from hf_simultaneous.evaluation.logs import LoggedSentence
from tests.tiny import VOCABULARY


WORDS = [f"w{number}" for number in range(30)]


def sentences(count: int, seed: int) -> list[str]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 9, (count,), generator=generator).tolist()
    return [
        " ".join(
            f"w{n}" for n in torch.randint(3, VOCABULARY, (length,), generator=generator).tolist()
        )
        for length in lengths
    ]


SOURCE, REFERENCE = sentences(11, 1), sentences(11, 2)


def line(**changes) -> LoggedSentence:
    values = {
        "index": 0,
        "corpus_size": 1,
        "source": "das alte Haus",
        "references": ("the old house",),
        "hypothesis": "the house",
        "actions": "RRWRWRW",
        "delays": (2, 3),
        "contexts": (1, 2),
        "lags": (2, 2),
        "probabilities": (0.5, None),
        "source_length": 3,
        "reference_length": 3,
        "word_delays": (3, 3),
    }
    return LoggedSentence(**{**values, **changes})


def corpus(k: int, errors: float, count: int = 24, seed: int = 0) -> list[LoggedSentence]:
    """Sentences of eight words written under wait-k, each word wrong with the probability
    `errors`."""
    texts, chance = random.Random(seed), random.Random(seed + 1)
    lines = []
    for index in range(count):
        words = texts.choices(WORDS, k=8)
        written = [word if chance.random() >= errors else "wrong" for word in words]
        actions = "R" * k + "WR" * (8 - k) + "W" * k + "RW"
        delays = [min(8, k + t) for t in range(8)]
        lines.append(
            LoggedSentence(
                index=index,
                corpus_size=count,
                source=" ".join(words).upper(),
                references=(" ".join(words),),
                hypothesis=" ".join(written),
                actions=actions,
                delays=delays,
                contexts=delays,
                lags=[k] * 8,
                probabilities=[0.5] * 8,
                source_length=8,
                reference_length=8,
                word_delays=delays,
                costs=[0.01] * len(actions),
            )
        )
    return lines


SETTINGS = {
    "wait-k": {"k=1": (1, 0.5), "k=3": (3, 0.3), "k=5": (5, 0.1)},
    "single": {"rho1=0.2,rho10=0": (1, 0.4), "rho1=1,rho10=0": (5, 0.02)},
    "top-3": {"rho1=0.2,rho10=0": (7, 0.3), "rho1=1,rho10=0": (8, 0.3)},
    "full": {"greedy": (8, 0.0)},
}
FACTS = {
    "set": "toy",
    "test": "made-up",
    "sentences": 24,
    "encoder": "causal",
    "full_encoder": "prefix",
    "dev_scores": {"1": {"1": 10.0, "3": 11.0}, "2": {"1": 12.0, "3": 13.0}},
    "settings": {method: list(rows) for method, rows in SETTINGS.items()},
    "time_table": {"wait-k": ["k=3"], "full": ["greedy"]},
}
