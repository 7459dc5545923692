"""`make soak`: one stream of 100,000 words; time per word and memory for each tenth of it, which
must stay flat.

The models are tiny and know nothing: what a session keeps from one sentence to the next does not
depend on them."""

import argparse
import random
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import psutil
import torch

from hf_simultaneous import (
    AdaptiveWaitKGenerator,
    SimultaneousConfig,
    SimultaneousMTModel,
    TextSession,
)
from hf_simultaneous.policies import linear_thresholds
from hf_simultaneous.words import SPACE
from training.tokenizer import TokenizerOptions, train_tokenizer


SYLLABLES = (
    "ba",
    "der",
    "fen",
    "gel",
    "hin",
    "kas",
    "lo",
    "mei",
    "nung",
    "ra",
    "schei",
    "sen",
    "tig",
    "ur",
    "ver",
    "wo",
)
SMALL = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
# Tied embeddings make a random model say one word again and again.
TALKATIVE = {
    "share_encoder_decoder_embeddings": False,
    "tie_word_embeddings": False,
    "init_std": 0.5,
}


class Tenth(NamedTuple):
    """One row of the table."""

    words: int
    ms_per_word: float
    """Computing, not waiting: the machine may be busy with something else."""
    mebibytes: float
    """Of the whole process, models and libraries included."""


def babble(seed: int = 0) -> Iterator[str]:
    """Words without end, ever new ones among them. Every third sentence has no full stop, as
    recognisers send them."""
    choose = random.Random(seed)
    for sentence in range(10**9):
        for _ in range(choose.randint(3, 25)):
            yield "".join(choose.choices(SYLLABLES, k=choose.randint(1, 3)))
        if sentence % 3:
            yield "ende."


def tiny_set(seed: int = 0) -> AdaptiveWaitKGenerator:
    """Two models of one layer with random weights, which read and write by turns: thresholds among
    probabilities."""
    words = babble(seed)
    tokenizer = train_tokenizer(
        [" ".join(next(words) for _ in range(5000))], TokenizerOptions(vocab_size=2500)
    )
    torch.manual_seed(seed)
    config = SimultaneousConfig.preset("tiny", vocab_size=len(tokenizer), **SMALL, **TALKATIVE)
    models = {k: SimultaneousMTModel(config).eval() for k in (1, 3)}
    for model in models.values():
        _speak_in_words(model, tokenizer)
    return AdaptiveWaitKGenerator(models, tokenizer, linear_thresholds(0.5, 0.1, 1, 4))


def _speak_in_words(model: Any, tokenizer: Any) -> None:
    """Every token begins a word, and a sentence ends with its source: left alone, chance would do
    neither."""
    for token, entry in enumerate(tokenizer.convert_ids_to_tokens(range(len(tokenizer)))):
        if not entry.startswith(SPACE):
            model.final_logits_bias[:, token] = -100.0
    model.final_logits_bias[:, tokenizer.eos_token_id] = 16.0


def soak(session: TextSession, words: Iterable[str], count: int) -> Iterator[Tenth]:
    """Push `count` words, and look at the clock and the memory ten times on the way."""
    process, part = psutil.Process(), max(1, count // 10)
    stream = iter(words)
    for done in range(part, count + 1, part):
        start = time.process_time()
        for _ in range(part):
            for _ in session.push_word(next(stream)):
                pass
        taken = time.process_time() - start
        yield Tenth(done, 1000 * taken / part, process.memory_info().rss / 2**20)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--words", type=int, default=100_000)
    arguments = parser.parse_args()
    if arguments.words < 10:
        parser.error(f"--words is 10 or more, for there are ten parts; got {arguments.words}")
    torch.set_num_threads(1)
    print(f"{'words':>9}  {'ms / word':>9}  {'MiB resident':>12}", flush=True)
    with TextSession(tiny_set()) as session:
        for row in soak(session, babble(seed=1), arguments.words):
            print(f"{row.words:9,}  {row.ms_per_word:9.2f}  {row.mebibytes:12.1f}", flush=True)


if __name__ == "__main__":
    main()
