"""Beyond one sentence: sentences per second in batches, memory of a stream, time per token by
sentence length."""

import statistics
import time
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.jobs import live, make_models, make_source, prepared
from benchmarks.paths import PATHS, RandomWalk, wait_k_path
from hf_simultaneous import AdaptiveWaitKGenerator, WaitK
from hf_simultaneous.loop import Loop


VOCAB = 16000


def throughput(quick: bool) -> dict[str, Any]:
    """Sentences per second of the `tiny` size at batch 1, 8 and 64, and batch 64 over batch 1."""
    generator = AdaptiveWaitKGenerator(make_models("tiny"))
    sentences = [[*make_source(8 + index % 24), 2] for index in range(64 if quick else 128)]
    policies = {"wait3": WaitK(3), "single": RandomWalk(28, VOCAB)}
    result: dict[str, Any] = {}
    for name, policy in tqdm(policies.items(), desc="throughput"):
        rates: dict[int, list[float]] = {1: [], 8: [], 64: []}
        for _ in range(1 if quick else 3):
            for batch, found in rates.items():
                found.append(_rate(generator, sentences, policy, batch))
        result[name] = {batch: round(statistics.median(found), 2) for batch, found in rates.items()}
        best = statistics.median(a / b for a, b in zip(rates[64], rates[1], strict=True))
        key = "batch64_vs_batch1" + ("_wait3" if name == "wait3" else "")
        result.setdefault("ratios", {})[key] = best
    return result


def streams(quick: bool) -> dict[int, float]:
    """Tokens per second that 1 and 32 live streams in one loop write together, size `tiny`."""
    generator = AdaptiveWaitKGenerator(make_models("tiny"))
    found: dict[int, list[float]] = {1: [], 32: []}
    for _ in range(2 if quick else 4):
        for count, rates in found.items():
            rates.append(_stream_rate(generator, count))
    return {count: round(max(rates), 1) for count, rates in found.items()}


def _stream_rate(generator: AdaptiveWaitKGenerator, count: int, length: int = 24) -> float:
    """All streams get a token, then write what they can, until all have ended."""
    rules = generator.decoding_rules(max_new_tokens=length)
    loop = Loop(generator.lanes(), rules)
    policy = RandomWalk(length, VOCAB)
    sentences = [generator.sentence(rules, policy, generator.history) for _ in range(count)]
    sources = [make_source(length + index % 3) for index in range(count)]
    start = time.perf_counter()
    for place in range(length + 3):
        for sentence, source in zip(sentences, sources, strict=True):
            if place <= len(source):
                sentence.row.source.append(source[place] if place < len(source) else 2)
                sentence.row.source_complete = place == len(source)
                loop.add(sentence)
        while not loop.idle:
            loop.step()
    written = sum(len(sentence.state.target) for sentence in sentences)
    return written / (time.perf_counter() - start)


def _rate(
    generator: AdaptiveWaitKGenerator, sentences: list[list[int]], policy: Any, batch: int
) -> float:
    some = sentences[: max(batch, 16)]  # one at a time, a few are enough
    start = time.perf_counter()
    for first in range(0, len(some), batch):
        rows = some[first : first + batch]
        longest = max(map(len, rows))
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        generator.generate(ids, attention_mask=mask, policy=policy, max_new_tokens=28)
    return len(some) / (time.perf_counter() - start)


def cache_bytes(models: dict[int | None, Any]) -> dict[str, int]:
    """Bytes that a stream holds when a sentence of 28 tokens is about to end."""
    found = {}
    for name, ensembles, path, replay in (
        ("wait3", "single", wait_k_path(3, 28), {"always": False, "k": 3}),
        ("single", "single", PATHS[28], {}),
        ("top3", "top-3", PATHS[28], {}),
        ("all", "all", PATHS[28], {}),
    ):
        generator, policy, source = prepared(models, ensembles, path, "forced", replay)
        with generator.session(policy=policy) as session:
            for token in source:
                for _ in session.push(token):
                    pass
            found[name] = session.nbytes
    return found


def growth(models: dict[int | None, Any], quick: bool) -> dict[int, float]:
    """Milliseconds per token of `single`, live, for sentences of 10 to 200 tokens."""
    found = {}
    for length in (10, 28) if quick else tuple(PATHS):
        job = live("single", models, "single", PATHS[length])
        times = []
        for _ in range(3):
            start = time.perf_counter()
            job.run()
            times.append(time.perf_counter() - start)
        found[length] = round(1000 * min(times) / job.tokens, 2)
    return found
