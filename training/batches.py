"""Cuts an epoch into batches of about equal numbers of tokens, in an order that (seed, epoch) alone
decides.

Knows lengths and k; sees tokens only to pad them. Every process makes the same plan and takes its
share of each step."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import DataCollatorForSeq2Seq, PreTrainedTokenizerBase

from hf_simultaneous.schedule import FULL, K

from .data import lengths


WHOLE_SOURCE = 1_000_000
"""A k no source is as long as: the full sentence, in a tensor that cannot hold a word."""

PATH_TURNS = 0.25
"""How likely a path wishes another k at a step."""

Batch = dict[str, torch.Tensor]

Example = tuple[int, Any]
"""A row of the data set, and what was drawn for it: its k, or how it is cut."""


@dataclass(frozen=True)
class Step:
    """The batches whose gradients make one update, and the target tokens in all of them
    together."""

    batches: list[list[Example]]
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Multi-path training: which k to draw from, how often, and the share of sentences in which k
    changes on the way, as it does under an adaptive policy."""

    ks: Sequence[K]
    per: str
    paths: float = 0.0

    def __post_init__(self) -> None:
        if self.per not in ("sentence", "batch"):
            raise ValueError(f"k is drawn per 'sentence' or 'batch'; got {self.per!r}")

    def choose(
        self, batches: list[np.ndarray], rng: np.random.Generator, lengths: np.ndarray
    ) -> list[list[Any]]:
        """A k for every sentence of every batch, or a path of them as long as its target."""
        choices = np.array([WHOLE_SOURCE if k == FULL else k for k in self.ks])
        if self.per == "batch":
            return [[int(rng.choice(choices))] * len(batch) for batch in batches]
        drawn: list[list[Any]] = [rng.choice(choices, len(batch)).tolist() for batch in batches]
        if self.paths:
            for ks, batch in zip(drawn, batches, strict=True):
                for place in np.flatnonzero(rng.random(len(batch)) < self.paths):
                    ks[place] = self._path(int(lengths[batch[place]]), rng)
        return drawn

    def _path(self, steps: int, rng: np.random.Generator) -> list[int]:
        """A wished k, drawn anew every few steps. Reading goes as fast as it asks, but what was
        read is not forgotten: k falls by one a step."""
        order = np.arange(steps)
        drawn = rng.choice([k for k in self.ks if k != FULL], steps)
        last_drawn = np.maximum.accumulate(np.where(rng.random(steps) < PATH_TURNS, order, 0))
        return (np.maximum.accumulate(drawn[last_drawn] + order) - order).tolist()


class Batches:
    """A split cut into steps; the same cut on every process."""

    def __init__(
        self,
        split: Dataset,
        tokenizer: PreTrainedTokenizerBase,
        *,
        batch_tokens: int,
        batches_per_step: int = 1,
        seed: int = 0,
        draw: Draw | None = None,
    ):
        self.rows = Rows(split)
        self.source_lengths = lengths(split, "input_ids")
        self.target_lengths = lengths(split, "labels")
        self.batch_tokens = batch_tokens
        self.batches_per_step = batches_per_step
        self.seed = seed
        self.draw = draw
        self.collate: Callable[[Any], Any] = Collate(tokenizer)

    def epoch(self, number: int) -> list[Step]:
        """The steps of an epoch. The last is filled up with the epoch's first batches: no process
        is left idle."""
        rng = np.random.default_rng((self.seed, number))
        batches = self._bucket(rng)
        rng.shuffle(batches)
        missing = -len(batches) % self.batches_per_step
        batches += [batches[index % len(batches)] for index in range(missing)]
        ks: list[list[Any]] = [[None] * len(batch) for batch in batches]
        if self.draw is not None:
            ks = self.draw.choose(batches, rng, self.target_lengths)
        examples = [
            list(zip(batch.tolist(), k, strict=True)) for batch, k in zip(batches, ks, strict=True)
        ]
        tokens = [int(self.target_lengths[batch].sum()) for batch in batches]
        share = self.batches_per_step
        return [
            Step(examples[i : i + share], sum(tokens[i : i + share]))
            for i in range(0, len(batches), share)
        ]

    def load(
        self, steps: Sequence[Step], rank: int = 0, processes: int = 1
    ) -> Iterator[list[Batch]]:
        """Padded batches of this process, a list for each step."""
        mine = [step.batches[rank::processes] for step in steps]
        # A generator of its own: the loader would else draw from the one dropout uses, and a
        # resumed run would differ.
        loader = iter(
            DataLoader(
                self.rows,
                batch_sampler=[batch for batches in mine for batch in batches],
                collate_fn=self.collate,
                generator=torch.Generator(),
            )
        )
        for batches in mine:
            yield [next(loader) for _ in batches]

    def _bucket(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Neighbours in length share a batch; which of equals are neighbours is drawn."""
        order = np.lexsort((rng.random(len(self.rows)), self.target_lengths, self.source_lengths))
        longest = np.maximum(self.source_lengths, self.target_lengths)[order].tolist()
        batches, start, width = [], 0, 0
        for index, length in enumerate(longest):
            width = max(width, length)
            if index > start and width * (index - start + 1) > self.batch_tokens:
                batches.append(order[start:index])
                start, width = index, length
        return [*batches, order[start:]]


class Collate:
    """transformers' collator, which pads what it knows; a k, or a path of them, it does not."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self.pad = DataCollatorForSeq2Seq(tokenizer, padding=True)

    def __call__(self, rows: list[dict[str, Any]]) -> Any:
        ks = [row.pop("wait_k") for row in rows if "wait_k" in row]
        batch = self.pad(rows)
        if not ks:
            return batch
        if any(isinstance(k, list) for k in ks):
            steps = batch["labels"].shape[1]
            ks = [_as_path(k, steps) for k in ks]
        return {**batch, "wait_k": torch.tensor(ks)}


def _as_path(k: int | list[int], steps: int) -> list[int]:
    """A k for every step; what is padded sees what the last step saw."""
    path = [k] * steps if isinstance(k, int) else k
    return path + [path[-1]] * (steps - len(path))


class Rows:
    """Rows by number, a batch of them at once: one look into the table and not one for each
    sentence."""

    def __init__(self, split: Dataset):
        self.split = split.select_columns(["input_ids", "labels"])

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, examples: Sequence[Example]) -> list[dict[str, Any]]:
        table = self.split[[row for row, _ in examples]]
        pairs = zip(table["input_ids"], table["labels"], examples, strict=True)
        return [self.features(source, target, drawn) for source, target, (_, drawn) in pairs]

    def features(self, source: list[int], target: list[int], drawn: Any) -> dict[str, Any]:
        """One sentence as the model takes it, not padded yet."""
        features: dict[str, Any] = {
            "input_ids": source,
            "attention_mask": [1] * len(source),
            "labels": target,
        }
        return features if drawn is None else {**features, "wait_k": drawn}
