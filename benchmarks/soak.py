"""`make soak`: one stream of 100,000 words; time per word and memory for each tenth of it, which must stay flat.

The models are tiny and know nothing: what a session keeps from one sentence to the next does not depend on them.
"""

import argparse
import random
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import psutil
import torch
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from hf_simultaneous import AdaptiveWaitKGenerator, SimultaneousConfig, SimultaneousMTModel, TextSession
from hf_simultaneous.policies import linear_thresholds
from training.tokenizer import TokenizerOptions, train_tokenizer


SYLLABLES = "ba der fen gel hin kas lo mei nung ra schei sen tig ur ver wo zau".split()


class Tenth(NamedTuple):
    """One row of the table."""

    words: int
    ms_per_word: float
    mebibytes: float
    """Of the whole process, models and libraries included."""


def babble(seed: int = 0) -> Iterator[str]:
    """Words without end, ever new ones among them. Every third sentence has no full stop, as recognisers send them."""
    choose = random.Random(seed)
    for sentence in range(10**9):
        for _ in range(choose.randint(3, 25)):
            yield "".join(choose.choices(SYLLABLES, k=choose.randint(1, 4)))
        if sentence % 3:
            yield "ende."


def tiny_set(seed: int = 0) -> AdaptiveWaitKGenerator:
    """Two models of one layer with random weights. They end a sentence with its source, or they never would."""
    words = babble(seed)
    tokenizer = train_tokenizer([" ".join(next(words) for _ in range(5000))], TokenizerOptions(vocab_size=1000))
    torch.manual_seed(seed)
    small = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    config = SimultaneousConfig.preset("tiny", vocab_size=len(tokenizer), **small)
    models = {k: SimultaneousMTModel(config).eval() for k in (1, 3)}
    for model in models.values():
        model.final_logits_bias[:, tokenizer.eos_token_id] = 100.0
    # Thresholds among the probabilities of such models, so that it reads at times and writes at times.
    return AdaptiveWaitKGenerator(models, tokenizer, linear_thresholds(0.02, 0.0, 1, 4))


def soak(session: TextSession, words: Iterable[str], count: int) -> Iterator[Tenth]:
    """Push `count` words, and look at the clock and the memory ten times on the way."""
    process, part = psutil.Process(), max(1, count // 10)
    stream = iter(words)
    for done in range(part, count + 1, part):
        start = time.perf_counter()
        for _ in range(part):
            for _ in session.push_word(next(stream)):
                pass
        taken = time.perf_counter() - start
        yield Tenth(done, 1000 * taken / part, process.memory_info().rss / 2**20)


def table_of(rows: list[Tenth]) -> Table:
    """The table a person reads."""
    table = Table(title="one stream")
    for column in ("words", "ms / word", "MiB resident"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(f"{row.words:,}", f"{row.ms_per_word:.2f}", f"{row.mebibytes:.1f}")
    return table


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--words", type=int, default=100_000)
    arguments = parser.parse_args()
    if arguments.words < 10:
        parser.error(f"--words is 10 or more, for there are ten parts; got {arguments.words}")
    torch.set_num_threads(1)
    with TextSession(tiny_set()) as session:
        rows = list(tqdm(soak(session, babble(seed=1), arguments.words), total=10))
    Console().print(table_of(rows))


if __name__ == "__main__":
    main()
