"""Subtitles of a talk while it is held: a recogniser's transcripts on standard input, WebVTT on
standard output, a cue as soon as its last word is there.

    python examples/recogniser.py | python examples/subtitles.py --server ws://127.0.0.1:8765

Without `--server` the models run in this process.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any


WIDTH = 60
"""Characters of a cue; the next word begins another."""
SHOWN = 2.0
"""Seconds that a cue stays at least."""


@dataclass
class Cue:
    """Words, and the times at which the first and the last of them were written."""

    start: float
    end: float
    text: str = ""

    @property
    def over(self) -> float:
        return max(self.end, self.start + SHOWN)

    def __str__(self) -> str:
        times = f"{stamp(self.start)} --> {stamp(self.over)}"
        return f"{times}\n{escape(self.text, quote=False)}\n"


def stamp(seconds: float) -> str:
    minutes, seconds = divmod(seconds, 60)
    return f"{int(minutes // 60):02}:{int(minutes % 60):02}:{seconds:06.3f}"


@dataclass
class Subtitles:
    """Cues out of events; a cue ends with its sentence, or where it would become too long."""

    _cue: Cue | None = field(default=None)
    _over: float = 0.0
    """When the last cue goes: two at once would hide each other."""

    def take(self, events: Iterable[Any], now: float) -> Iterator[Cue]:
        for event in events:
            if event.action == "WRITE":
                yield from self._word(str(event), now)
            elif event.action == "END":
                yield from self._end()

    def _word(self, word: str, now: float) -> Iterator[Cue]:
        if self._cue is not None and len(self._cue.text) + len(word) > WIDTH:
            yield from self._end()
        if self._cue is None:
            self._cue = Cue(max(now, self._over), now)
        self._cue.text = (self._cue.text + word).strip()
        self._cue.end = now

    def _end(self) -> Iterator[Cue]:
        cue, self._cue = self._cue, None
        if cue is not None:
            self._over = cue.over
            yield cue


def session(server: str | None) -> Any:
    """A client and a session have the same methods."""
    if server:
        from hf_simultaneous.serving import Client

        return Client(server.split(","))
    from hf_simultaneous import AdaptiveWaitKGenerator, TextSession

    return TextSession(AdaptiveWaitKGenerator.from_pretrained())


def heard(line: str, number: int) -> dict[str, Any]:
    """The transcript in a line of input."""
    try:
        transcript = json.loads(line)
        return {name: transcript[name] for name in ("text", "time", "final")}
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"line {number} is not a transcript: got {line.strip()!r:.60}. Each line is a JSON "
            f"object with text, time and final, as examples/recogniser.py writes them"
        ) from None


def cues(lines: Iterable[str], translator: Any) -> Iterator[Cue]:
    """A word is read once two transcripts in a row agree on it: what is read cannot change."""
    subtitles = Subtitles()
    for number, line in enumerate(lines, start=1):
        transcript = heard(line, number)
        events = translator.push_transcript(transcript["text"], stable=2)
        yield from subtitles.take(events, transcript["time"])
        if transcript["final"]:
            yield from subtitles.take(translator.flush(), transcript["time"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", help="ws://host:port, or several with commas between them")
    arguments = parser.parse_args()
    try:
        print("WEBVTT\n", flush=True)
        with session(arguments.server) as translator:
            for cue in cues(sys.stdin, translator):
                print(cue, flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # who read has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python would complain when it ends
    except (ValueError, OSError) as error:  # no transcript, nobody at --server, a refusal
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
