"""Speakers whose server is killed in the middle of a sentence: do all of them end with the words of
a run that nobody disturbed, and how long is the pause? Prints one JSON object."""

import argparse
import asyncio
import json
import os
import signal
import time
from typing import Any

from benchmarks.speakers import SENTENCES
from hf_simultaneous.serving import AsyncClient


async def speak(client: AsyncClient, sentence: str, gap: float) -> tuple[list[str], float]:
    """What was told, and the longest wait for a word."""
    told, longest = [], 0.0
    for word in sentence.split():
        due = time.monotonic()
        told += [f"{event.action} {event.text}" async for event in client.push_word(word)]
        longest = max(longest, time.monotonic() - due)
        await asyncio.sleep(gap)
    told += [f"{event.action} {event.text}" async for event in client.flush()]
    await client.close()
    return told, longest


async def run(urls: list[str], pid: int, speakers: int, gap: float) -> dict[str, Any]:
    clients = [AsyncClient(urls, patience=120) for _ in range(speakers)]
    sentences = [SENTENCES[number % len(SENTENCES)] for number in range(speakers)]
    both = zip(clients, sentences, strict=True)
    spoken = asyncio.gather(*[speak(client, sentence, gap) for client, sentence in both])
    await asyncio.sleep(4 * gap)
    os.kill(pid, signal.SIGKILL)
    heard = await spoken
    moved = [client._turn > 1 for client in clients]
    if not any(moved):
        raise RuntimeError(f"nobody spoke to process {pid}, which was killed")
    return {
        "told": [[sentence, told] for sentence, (told, _) in zip(sentences, heard, strict=True)],
        "pauses": [longest for (_, longest), left in zip(heard, moved, strict=True) if left],
    }


def main() -> None:
    """The command line: a plan as JSON."""
    parser = argparse.ArgumentParser(prog="outlive", description=__doc__)
    parser.add_argument("plan", type=json.loads)
    print(json.dumps(asyncio.run(run(**parser.parse_args().plan))))


if __name__ == "__main__":
    main()
