"""What a client remembers so that it can go on with any server: what it said and was not read, and
the sentence that is open.

Pure: messages in, messages out. Knows no sockets."""

import itertools
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..text_events import TextEvent
from ..transcripts import Transcript
from ..words import UNSPACED, UNSPACED_CLASS, normal
from .limits import Bucket, count_words
from .protocol import Replay, Start, start_message, text_event, visible


CHUNK = 200
"""Characters of a long text that go into one message. Each may be a word, as in Chinese, and a
server takes a bounded number of words at once; less goes where it takes fewer."""


UNTOLD = 200
"""Events after which the server is told that they were seen, if there is nothing else to say."""


class ServerError(ValueError):
    """A server refused, and would refuse again; `code` is its word for it."""

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass
class _Said:
    """A message; `text` is the part that was not read yet."""

    kind: str
    text: str
    seq: int = 0
    done: bool = False


@dataclass
class _Sentence:
    """What was seen of the sentence that is open."""

    number: int = 1
    source: str = ""
    """What was read of it, with the spaces that stood there."""
    tokens: list[int] = field(default_factory=list)
    growing: list[int] = field(default_factory=list)
    """Tokens that were shown as pieces of a word which is not finished."""


class Journal:
    """The client's side of a stream, over any number of connections."""

    def __init__(self, start: Start):
        self._start = replace(start, reads=True)  # without them nothing could be replayed
        self._wanted_reads = start.reads
        self._seqs = itertools.count(1)
        self._said: deque[_Said] = deque()
        self._sentence = _Sentence()
        self._n = 0
        self._replaying = False
        self._transcript = Transcript()
        self._bucket: Bucket | None = None
        self._backlog = 256
        self._waiting: dict[int, int] = {}
        self._told = 0
        self.started = False
        """Has the server that we are connected to answered the start?"""

    # Out.

    def start(self) -> dict[str, Any]:
        """The first message of a connection: where it stands, unless nothing has happened yet."""
        self.started = False
        self._waiting.clear()
        sentence = self._sentence
        if not self._n:
            return start_message(self._start)
        replay = Replay(
            sentence=sentence.number,
            n=self._n,
            words=_joinable(sentence.source),
            open=normal(sentence.source)[-1:] not in ("", " "),
            tokens=(*sentence.tokens, *sentence.growing),
            written=len(sentence.tokens) if sentence.growing else None,
            ended=self._ends_here(),
        )
        return start_message(replace(self._start, replay=replay))

    def _ends_here(self) -> bool:
        """Is the end of the sentence what was said next after what was read of it?"""
        left = (said for said in self._said if said.kind == "flush" or visible(said.text))
        said = next(left, None)
        return said is not None and said.kind == "flush" and bool(visible(self._sentence.source))

    def again(self) -> Iterator[dict[str, Any]]:
        """After `started`: everything that was said and not read, once more."""
        unread = [said for said in self._said if said.text or said.kind == "flush"]
        self._said.clear()
        for said in unread:  # cut anew: this server may take less at once
            yield from self._keep(said.kind, said.text)

    def say(self, kind: str, text: str = "") -> list[dict[str, Any]]:
        """A word, a text, or a flush, as messages that are not too long."""
        if not text and kind == "text" or kind == "word" and not visible(text):
            return []
        if kind == "flush" and self._transcript.tail:  # its last word is final now
            return [*self.say("text", self._transcript.settle()), *self.say("flush")]
        if kind == "flush":
            self._transcript = Transcript()
        if kind == "word":  # part of which may be read when a connection breaks
            kind, text = "text", f" {text} "
        return self._keep(kind, text)

    def _keep(self, kind: str, text: str) -> list[dict[str, Any]]:
        """Remember what is said, in messages that are not too long."""
        said = [_Said(kind, part, next(self._seqs)) for part in self._parts(text)]
        self._said.extend(said)
        return [self._message(each) for each in said]

    def _parts(self, text: str) -> list[str]:
        most = max(1, self._backlog)
        return [
            part
            for chunk in _cut(text, CHUNK)
            for part in (_cut(chunk, most) if count_words(chunk) > most else [chunk])
        ]

    def transcript(self, text: str, stable: int | None = None) -> str:
        """What is new and final in a recogniser's whole text so far."""
        return self._transcript.hear(text, stable or self._start.stable)

    def pause(self, message: Mapping[str, Any]) -> float:
        """Seconds to wait before this message, to stay within the server's bounds."""
        return self._bucket.take(_words(message)) if self._bucket else 0.0

    def has_room(self, message: Mapping[str, Any]) -> bool:
        """May this message be sent before those that wait are done?"""
        waiting = sum(self._waiting.values())
        return not waiting or waiting + _words(message) <= self._backlog

    def stamped(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The message as it is sent now: with the number of the last event that was seen."""
        if "seq" in message:
            self._waiting[message["seq"]] = _words(message)
        self._told = self._n
        return {**message, "seen": self._n}

    def nod(self) -> dict[str, Any] | None:
        """What to say when so much was seen that the server must know, or it would stop."""
        return self.stamped({"type": "ping"}) if self._n - self._told >= UNTOLD else None

    def _message(self, said: _Said) -> dict[str, Any]:
        text = {} if said.kind == "flush" else {"text": said.text}
        return {"type": said.kind, "seq": said.seq, **text}

    # In.

    @property
    def settled(self) -> bool:
        """Is everything that was said done?"""
        return not self._replaying and all(said.done for said in self._said)

    @property
    def seen(self) -> int:
        """The number of the last event."""
        return self._n

    def hear(self, message: Mapping[str, Any]) -> list[TextEvent]:
        """A server's message: the events in it, or what it refuses."""
        kind = message.get("type")
        if kind == "started":
            limits = message.get("limits", {})
            # A little below the server's own count, which runs on another clock.
            self._bucket = Bucket(limits.get("rate", 50) * 0.9, limits.get("backlog", 512) * 0.5)
            self._backlog = limits.get("backlog", 512) // 2
            self._replaying = message.get("replayed") is not None
            self.started = True
        elif kind == "error":
            self._refused(message)
        elif kind == "events":
            return self._events(message)
        return []

    def _refused(self, message: Mapping[str, Any]) -> None:
        if message.get("code") not in ("busy", "draining", "internal", "session_over", "idle"):
            raise ServerError(str(message.get("code")), str(message.get("message")))

    def _events(self, message: Mapping[str, Any]) -> list[TextEvent]:
        new = [event for event in message["events"] if event["n"] > self._n]
        for event in new:
            self._see(event)
        if message["done"]:
            self._done(message["seq"])
        wanted = [event for event in new if self._wanted_reads or event["action"] != "READ"]
        return [text_event(event) for event in wanted]

    def _see(self, event: Mapping[str, Any]) -> None:
        self._n = event["n"]
        if event["action"] == "READ":
            self._read(len(event["text"]))
        elif event["action"] == "PIECE":
            self._sentence.growing += event["tokens"]
        elif event["action"] == "WRITE":
            self._sentence.tokens += event["tokens"]
            del self._sentence.growing[: len(event["tokens"])]
        else:
            self._sentence = _Sentence(event["sentence"] + 1)

    def _read(self, characters: int) -> None:
        """So many characters of what was said were read, and the spaces around them."""
        for said in self._said:
            while said.text and (characters or not visible(said.text[0])):
                characters -= bool(visible(said.text[0]))
                self._sentence.source += said.text[0]
                said.text = said.text[1:]
            if said.text:  # a space behind it may be what ends a word that was not read
                return
            self._sentence.source += " " * (said.kind == "flush")  # which ends a word, too

    def _done(self, seq: int) -> None:
        if seq == 0:
            self._replaying = False
        self._waiting.pop(seq, None)
        for said in self._said:
            said.done = said.done or said.seq == seq
        while self._said and self._said[0].done and self._is_read(self._said[0]):
            self._sentence.source += self._said.popleft().text

    def _is_read(self, said: _Said) -> bool:
        """A text may end in half a word, which the server holds back until the rest comes."""
        return said.kind == "flush" or not visible(said.text)


def _joinable(source: str) -> tuple[str, ...]:
    """A text as words that make it again: a server joins them with spaces, but not before a
    character of a script that has none."""
    text = re.sub(" +", " ", normal(source)).lstrip()
    bare = text.rstrip()
    text = text if UNSPACED.match(bare[-1:]) else bare
    return tuple(re.split(rf" (?!{UNSPACED_CLASS}|$)", text)) if text else ()


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, max(1, len(text)), size)]


def _words(message: Mapping[str, Any]) -> int:
    return count_words(message.get("text", ""))
