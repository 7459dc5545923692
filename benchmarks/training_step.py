"""The cost of a training step under wait-k with the causal encoder, beside stock Marian of the same size."""

import statistics
import time
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.jobs import plain_marian
from hf_simultaneous import SimultaneousConfig, SimultaneousMTModel


def train_step_ratio(size: str, repeats: int, vocab: int = 8000) -> float:
    """Median over interleaved repeats of our step's time over Marian's."""
    torch.manual_seed(0)
    config = SimultaneousConfig.preset(size, vocab_size=vocab, wait_k=3, label_smoothing=0.0)
    ours = SimultaneousMTModel(config).train()
    marian = plain_marian(ours).train()
    batch = _batch(vocab)
    steps = [_step(model, batch) for model in (ours, marian)]
    ratios = []
    for repeat in tqdm(range(repeats + 1), desc="training step"):
        first, second = (_seconds(step) for step in steps)
        if repeat:
            ratios.append(first / second)
    return statistics.median(ratios)


def _batch(vocab: int, sentences: int = 32, length: int = 24) -> dict[str, torch.Tensor]:
    """Sentences of 12 to 24 tokens, padded, as in training."""
    lengths = torch.arange(sentences) % 13 + length - 12
    inside = torch.arange(length) < lengths[:, None]
    source, target = torch.randint(4, vocab, (2, sentences, length))
    return {
        "input_ids": source.masked_fill(~inside, 0),
        "attention_mask": inside.long(),
        "labels": target.masked_fill(~inside, -100),
    }


def _step(model: Any, batch: dict[str, torch.Tensor]) -> Any:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def run() -> None:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return run


def _seconds(run: Any) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
