"""Sentence pairs as pairs of prefixes, to train wait-k on models that have no wait-k of their own.

Their encoders are bidirectional, so what a position may see must be encoded apart. Encoding every
prefix would cost as many passes as there are words. Here a sentence gives one pair an epoch: its
target up to a step that is drawn, and what wait-k has read of the source by then. A step costs no
more than one on whole sentences, and what is not read never enters the batch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from transformers import DataCollatorForSeq2Seq, PreTrainedTokenizerBase

from hf_simultaneous.framing import Framing
from hf_simultaneous.schedule import reach

from .batches import Batch, Batches, Draw, Rows, Step


CUTS = 1
"""Tells the numbers that cut sentences from those that order them."""


class Cut(NamedTuple):
    """How many tokens of a source and of its target there are to see and to learn."""

    source: int
    target: int


def cut(step: int, k: int, source_len: int, target_len: int, catchup: int | None) -> Cut:
    """The prefixes that belong to a step, counted from 1. Once the source has ended, nothing is
    waited for, and all of the target belongs to it."""
    source = min(reach(step, k, catchup), source_len)
    return Cut(source, target_len if source == source_len else step)


class PrefixBatches(Batches):
    """Batches of prefixes, framed as they are when the model is decoded."""

    def __init__(
        self,
        split: Dataset,
        tokenizer: PreTrainedTokenizerBase,
        *,
        framing: Framing,
        draw: Draw,
        catchup: int | None = None,
        **options: Any,
    ):
        super().__init__(split, tokenizer, draw=draw, **options)
        self.rows = _Prefixes(split, framing)
        self.collate = _Forced(tokenizer, framing.prompt)
        self.catchup = catchup

    def epoch(self, number: int) -> list[Step]:
        rng = np.random.default_rng((self.seed, number, CUTS))
        return [self._cut(step, rng) for step in super().epoch(number)]

    def _cut(self, step: Step, rng: np.random.Generator) -> Step:
        batches = [[(row, self._drawn(row, k, rng)) for row, k in batch] for batch in step.batches]
        return Step(batches, sum(one.target for batch in batches for _, one in batch))

    def _drawn(self, row: int, k: Any, rng: np.random.Generator) -> Cut:
        source_len, target_len = int(self.source_lengths[row]), int(self.target_lengths[row])
        step = int(rng.integers(1, target_len, endpoint=True))
        return cut(step, k, source_len, target_len, self.catchup)


class _Prefixes(Rows):
    def __init__(self, split: Dataset, framing: Framing):
        super().__init__(split)
        self.framing = framing

    def features(self, source: list[int], target: list[int], drawn: Cut) -> dict[str, Any]:
        seen = self.framing.put_on(source[: drawn.source], ended=drawn.source == len(source))
        return {
            "input_ids": seen,
            "attention_mask": [1] * len(seen),
            "labels": target[: drawn.target],
        }


class _Forced:
    """Pads, and says what the decoder is forced through: what stands before every target, and the
    target. Nothing is to be learnt of the former."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, prompt: Sequence[int]):
        self.pad = DataCollatorForSeq2Seq(tokenizer, padding=True)
        self.padding = tokenizer.pad_token_id
        self.prompt = torch.tensor(prompt)

    def __call__(self, rows: list[dict[str, Any]]) -> Batch:
        batch: Batch = dict(self.pad(rows))
        labels = batch["labels"]
        said = labels[:, :-1].masked_fill(labels[:, :-1] == -100, self.padding)
        prompt = self.prompt.expand(len(labels), -1)
        batch["decoder_input_ids"] = torch.cat([prompt, said], 1)
        batch["labels"] = torch.cat([torch.full_like(prompt[:, 1:], -100), labels], 1)
        return batch
