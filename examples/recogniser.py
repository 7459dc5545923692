"""A stand-in for a speech recogniser: transcripts as one sends them, a JSON object a line.

Each holds the whole text of the utterance so far. The newest word is often wrong at first and put
right in the next transcript, as recognisers do it; `final` ends an utterance.

    python examples/recogniser.py | python examples/subtitles.py --server ws://127.0.0.1:8765
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


TALK = """Guten Morgen und herzlich willkommen.
Wir sprechen heute über den Garten im Winter.
Viele Leute glauben, dass man im Winter nichts tun kann.
Das ist nicht richtig.
Ich zeige euch, was ich jedes Jahr im Januar mache."""


def misheard(word: str, chance: random.Random) -> str:
    """A first guess: the word without its end, or another vowel in it."""
    if len(word) > 4 and chance.random() < 0.5:
        return word[: len(word) // 2 + 1]
    return word.translate(str.maketrans("aeiou", "eioua")) if chance.random() < 0.3 else word


def transcripts(lines: Iterable[str], rate: float = 2.5, seed: int = 0) -> Iterator[dict[str, Any]]:
    """What a recogniser would send, with the second of the talk in which it would send it."""
    chance = random.Random(seed)
    now = 0.0
    for line in lines:
        words = line.split()
        for count in range(1, len(words) + 1):
            now += chance.uniform(0.6, 1.4) / rate
            known, newest = words[: count - 1], misheard(words[count - 1], chance)
            yield {"time": round(now, 2), "text": " ".join([*known, newest]), "final": False}
        now += 0.5
        yield {"time": round(now, 2), "text": line, "final": True}


def speak(text: str, speed: float) -> None:
    """Print each transcript in its time."""
    begun = time.monotonic()
    for transcript in transcripts(filter(None, text.splitlines())):
        if speed:
            due = begun + transcript["time"] / speed
            time.sleep(max(0.0, due - time.monotonic()))
        print(json.dumps(transcript, ensure_ascii=False), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, help="an utterance a line")
    parser.add_argument("--speed", type=float, default=1.0, help="0 does not wait at all")
    arguments = parser.parse_args()
    try:
        text = arguments.file.read_text(encoding="utf-8") if arguments.file else TALK
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"error: {arguments.file} cannot be read as UTF-8 text: {error}")
    try:
        speak(text, arguments.speed)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # who listened has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python would complain when it ends


if __name__ == "__main__":
    main()
