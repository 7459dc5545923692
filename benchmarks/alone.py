"""One speaker and a `TextSession` in one process: what a server is compared with, in time and in
what is said. Prints one JSON object."""

import argparse
import json
import random
import time
from typing import Any

import torch

from benchmarks.speakers import JITTER, SENTENCES, words
from hf_simultaneous import AdaptiveWaitKGenerator, TextSession


def waits(
    generator: AdaptiveWaitKGenerator, gap: float, warm: float, seconds: float
) -> list[float]:
    """From the moment each word was due until all it caused was told."""
    jitter = random.Random(0)
    source, found = words(0), []
    due = begin = time.monotonic()
    session = TextSession(generator)
    while due < begin + warm + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        for _ in session.push_word(next(source)):
            pass
        if due >= begin + warm:
            found.append(time.monotonic() - due)
        due += gap * jitter.uniform(1 - JITTER, 1 + JITTER)
    session.close()
    return found


def actions(generator: AdaptiveWaitKGenerator) -> dict[str, list[str]]:
    """What happens in every sentence, by its words."""
    told = {}
    for sentence in SENTENCES:
        events = TextSession(generator).stream(sentence.split())
        told[sentence] = [f"{event.action} {event.text}" for event in events]
    return told


def main() -> None:
    """The command line: a plan as JSON."""
    parser = argparse.ArgumentParser(prog="alone", description=__doc__)
    parser.add_argument("plan", type=json.loads)
    plan: dict[str, Any] = parser.parse_args().plan
    torch.set_num_threads(1)  # as the server
    generator = AdaptiveWaitKGenerator.from_pretrained()
    found = waits(generator, plan["gap"], plan["warm"], plan["seconds"])
    print(json.dumps({"waits": found, "actions": actions(generator)}))


if __name__ == "__main__":
    main()
