"""Target tokens a second of our training loop under wait-k, beside the same loop around stock
Marian."""

import io
import logging
import statistics
import tempfile
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from datasets import Dataset
from tqdm import tqdm

from benchmarks.jobs import plain_marian
from hf_simultaneous import SimultaneousConfig, SimultaneousMTModel
from training.batches import Batches
from training.checkpoints import Checkpoints
from training.options import TrainOptions
from training.tokenizer import train_tokenizer
from training.trainer import Trainer


STEPS = 4  # between one look at the clock and the next


def training_speed_ratio(size: str, repeats: int, vocab: int = 8000) -> float:
    """Our tokens per second over Marian's: the median over repeats, in which the two take turns."""
    torch.manual_seed(0)
    logging.getLogger("accelerate.utils.other").setLevel(
        logging.ERROR
    )  # it tells of tied weights at each checkpoint
    # Marian's loss knows no label smoothing.
    config = SimultaneousConfig.preset(size, vocab_size=vocab, wait_k=3, label_smoothing=0.0)
    ours = SimultaneousMTModel(config)
    batches = _batches(vocab, sentences=32 * STEPS * (repeats + 1))
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        trainers = [
            _trainer(model, batches, Path(folder) / str(number))
            for number, model in enumerate((ours, _Stock(plain_marian(ours))))
        ]
        for repeat in tqdm(range(repeats + 1), desc="training loop"):
            first, second = (_seconds(trainer) for trainer in trainers)
            if repeat:
                ratios.append(second / first)
    return statistics.median(ratios)


class _Stock(torch.nn.Module):
    """Marian as the trainer calls a model; the number of tokens that its mean ought to be over, it
    does not take."""

    def __init__(self, marian: Any):
        super().__init__()
        self.marian = marian

    def forward(self, num_items_in_batch: float, **batch: torch.Tensor) -> Any:
        return self.marian(**batch)


def _batches(vocab: int, sentences: int) -> Batches:
    """Random sentences of 12 to 24 tokens."""
    lengths = [12 + number % 13 for number in range(sentences)]
    columns = {
        name: [torch.randint(4, vocab, (length,)).tolist() for length in lengths]
        for name in ("input_ids", "labels")
    }
    tokenizer = train_tokenizer(["it pads, and does nothing else"])
    return Batches(Dataset.from_dict(columns), tokenizer, batch_tokens=32 * 24)


def _trainer(model: torch.nn.Module, batches: Batches, folder: Path) -> Trainer:
    options = TrainOptions(max_steps=1_000_000, learning_rate=1e-4, evaluate_every=1_000_000)
    checkpoints = Checkpoints(folder, keep=1)
    return Trainer(
        model, batches, batches, options, accelerator=Accelerator(cpu=True), checkpoints=checkpoints
    )


def _seconds(trainer: Trainer) -> float:
    """Time of the next few steps, by the trainer's own clock, which stands still while it writes a
    checkpoint."""
    before = trainer.progress.seconds
    with redirect_stderr(io.StringIO()):  # one bar is enough
        trainer.fit(trainer.progress.step + STEPS)
    return trainer.progress.seconds - before
