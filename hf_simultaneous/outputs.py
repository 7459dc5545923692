"""What `generate` returns: sequences, and how each came to be.

Knows finished sentences; decodes nothing."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers.utils import ModelOutput

from .actions import Action, Write
from .decoding_rules import DecodingRules
from .live_sentence import LiveSentence


@dataclass
class SimultaneousOutput(ModelOutput):
    """What `AdaptiveWaitKGenerator.generate` returns; the lists have one entry per sentence.

    `delays`, `contexts`, `lags` and `probabilities` have a value per written token, `</s>` not
    counted: source tokens read by then (`</s>` not counted), source tokens it was chosen with, the
    k it was predicted with, its probability."""

    sequences: torch.Tensor | None = None
    actions: list[list[Action]] | None = None
    delays: list[list[int]] | None = None
    contexts: list[list[int]] | None = None
    lags: list[list[int]] | None = None
    probabilities: list[list[float | None]] | None = None
    early_stops: list[bool] | None = None


def output_of(
    sentences: list[LiveSentence], rules: DecodingRules, model: Any
) -> SimultaneousOutput:
    """What these sentences came to, in their order."""
    targets = [[*rules.prompt, *sentence.state.target] for sentence in sentences]
    longest = max(map(len, targets))
    pad = model.config.pad_token_id
    writes = [
        [e for e in s.events if isinstance(e.action, Write) and e.token not in rules.eos]
        for s in sentences
    ]
    return SimultaneousOutput(
        sequences=torch.tensor(
            [row + [pad] * (longest - len(row)) for row in targets], device=model.device
        ),
        actions=[[event.action for event in sentence.events] for sentence in sentences],
        delays=[sentence.delays for sentence in sentences],
        contexts=[sentence.contexts for sentence in sentences],
        lags=[[event.k for event in row] for row in writes],
        probabilities=[[event.probability for event in row] for row in writes],
        early_stops=[sentence.stopped_early for sentence in sentences],
    )
