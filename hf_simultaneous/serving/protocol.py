"""The messages of `hf-simultaneous.v1`: what a client may say, checked, and what a server answers.

Pure: JSON to frozen values and back. Knows nothing of sockets, streams or models.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..text_events import TextEvent
from ..words import SURROGATES, normal


SUBPROTOCOL = "hf-simultaneous.v1"
BEARER = "bearer."
"""Before a token that a browser sends as a subprotocol, because it cannot set headers."""
VERSION = 1
LARGEST = 2**53
"""The integers that every language's JSON can count to."""

CLOSE_CODES = {
    "bad_json": 1008,
    "bad_message": 1008,
    "unknown_type": 1008,
    "bad_seq": 1008,
    "empty_word": 1008,
    "bad_start": 4400,
    "busy": 1013,
    "draining": 1012,
    "too_large": 1009,
    "too_fast": 1008,
    "backlog": 1008,
    "slow_reader": 1008,
    "no_start": 4408,
    "idle": 4408,
    "session_over": 1000,
    "internal": 1011,
}
OPTIONS = ("start", "delta", "n", "step", "border", "layer", "threshold", "close")
"""What policies take besides k and rho."""
FORGIVEN = ("bad_json", "bad_message", "unknown_type", "bad_seq", "empty_word")
"""What does not end a stream, unless there is too much of it."""


class ProtocolError(ValueError):
    """What is wrong with a message, by the code that the client is told."""

    def __init__(self, code: str, message: str, seq: int | None = None):
        super().__init__(message)
        self.code = code
        self.seq = seq

    @property
    def fatal(self) -> bool:
        return self.code not in FORGIVEN


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A sentence that was open when a connection broke, to be gone on with elsewhere."""

    sentence: int = 1
    """Its number, from 1."""
    n: int = 0
    """The number of the last event that was seen."""
    words: tuple[str, ...] = ()
    """Its words that were read."""
    tokens: tuple[int, ...] = ()
    """What was shown of its translation: these are forced."""
    written: int | None = None
    """How many of these make whole words; all of them, unless pieces of words are shown."""
    open: bool = False
    """Does the last word go on in what will be said next, without a space?"""
    ended: bool = False
    """Was the end of the sentence said as well? Then its tail may be among the tokens."""

    def __post_init__(self) -> None:
        _check(_is_count(self.sentence), "replay.sentence", self.sentence, "a whole number from 0")
        _check(_is_count(self.n), "replay.n", self.n, "a whole number from 0")
        words = _is_list(self.words) and all(isinstance(word, str) for word in self.words)
        _check(words, "replay.words", self.words, "a list of strings")
        tokens = _is_list(self.tokens) and all(map(_is_count, self.tokens))
        _check(tokens, "replay.tokens", self.tokens, "a list of token ids")
        written = self.written is None or (
            _is_count(self.written) and self.written <= len(self.tokens)
        )
        _check(written, "replay.written", self.written, "a number of replay.tokens")
        for name in ("open", "ended"):
            value = getattr(self, name)
            _check(isinstance(value, bool), f"replay.{name}", value, "true or false")
        spoken = any(visible(word) for word in self.words)
        _check(spoken or not self.tokens, "replay.tokens", self.tokens, "empty without words")


@dataclass(frozen=True, kw_only=True)
class Start:
    """The first message: how this stream is to be translated."""

    latency: str | None = None
    policy: str | None = None
    k: int | None = None
    rho: tuple[float, float] | None = None
    options: Mapping[str, float] = field(default_factory=dict)
    """What the policy takes besides, by name (`make_policy`)."""
    silence: float | None = None
    stable: int = 1
    """How many transcripts in a row must agree on a word before it is read."""
    reads: bool = True
    """Are READ events wanted?"""
    pieces: bool = False
    """And PIECE events, for every part of a word that is being written?"""
    replay: Replay | None = None

    def __post_init__(self) -> None:
        for name in ("latency", "policy"):
            value = getattr(self, name)
            _check(value is None or isinstance(value, str), name, value, "a name")
        k = self.k is None or (_is_count(self.k) and self.k > 0)
        _check(k, "k", self.k, "a whole number from 1")
        pair = self.rho is None or (
            _is_list(self.rho) and len(self.rho) == 2 and all(map(_is_number, self.rho))
        )
        _check(pair, "rho", self.rho, "the first and the last threshold")
        silence = self.silence is None or (_is_number(self.silence) and 0 < self.silence <= 3600)
        _check(silence, "silence", self.silence, "seconds, above 0 and up to 3600")
        stable = _is_count(self.stable) and 1 <= self.stable <= 10
        _check(stable, "stable", self.stable, "a whole number from 1 to 10")
        for name in ("reads", "pieces"):
            value = getattr(self, name)
            _check(isinstance(value, bool), name, value, "true or false")
        options = isinstance(self.options, Mapping) and all(map(_is_option, self.options.items()))
        _check(options, "options", self.options, f"numbers up to 100, of {', '.join(OPTIONS)}")
        alone = self.k is None and self.rho is None and self.policy in (None, "adaptive")
        _check(alone or not self.latency, "latency", self.latency, "given without policy, k or rho")


@dataclass(frozen=True)
class Say:
    """Source text: a whole `word`, `text` cut anywhere, or the whole `transcript` so far."""

    kind: Literal["word", "text", "transcript"]
    seq: int
    text: str
    seen: int | None = None


@dataclass(frozen=True)
class Flush:
    """The sentence ends here."""

    seq: int
    seen: int | None = None


@dataclass(frozen=True)
class Ping:
    """Still there? Also a way to say what was seen while there is nothing else to say."""

    seen: int | None = None


@dataclass(frozen=True)
class End:
    """Nothing more will come."""


Message = Start | Say | Flush | Ping | End


def parse(raw: str | bytes) -> Message:
    """A message of a client; unknown fields are ignored."""
    if isinstance(raw, bytes):
        raise ProtocolError("bad_message", "messages are text frames with JSON in them, not binary")
    fields = json_object(raw)
    kind = fields.get("type")
    if kind == "start":
        return parse_start(fields)
    if kind in ("word", "text", "transcript"):
        return _say(kind, fields)
    if kind == "flush":
        return Flush(_seq(fields), _seen(fields))
    if kind == "ping":
        return Ping(_seen(fields))
    if kind == "end":
        return End()
    raise ProtocolError(
        "unknown_type",
        f"type must be start, word, text, transcript, flush, ping or end; got {_shown(kind)}",
    )


def parse_start(fields: Mapping[str, Any]) -> Start:
    """The options of a stream, out of JSON."""
    replay = fields.get("replay")
    try:
        options = {name: fields[name] for name in _START if fields.get(name) is not None}
        if "rho" in options and _is_list(options["rho"]):
            options["rho"] = tuple(options["rho"])
        return Start(**options, replay=None if replay is None else _replay(replay))
    except ProtocolError:
        raise
    except ValueError as error:
        raise ProtocolError("bad_start", str(error)) from None


_START = ("latency", "policy", "k", "rho", "options", "silence", "stable", "reads", "pieces")
_REPLAY = ("sentence", "n", "words", "tokens", "written", "open", "ended")


def _replay(fields: Any) -> Replay:
    _check(isinstance(fields, dict), "replay", fields, "an object")
    given = {name: fields[name] for name in _REPLAY if name in fields}
    frozen: dict[str, Any] = {
        name: tuple(each) if _is_list(each) else each for name, each in given.items()
    }
    return Replay(**frozen)


def json_object(raw: str) -> dict[str, Any]:
    """The fields of a message, or of a request."""
    try:
        fields = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ProtocolError("bad_json", "this is not JSON") from None
    if not isinstance(fields, dict):
        raise ProtocolError("bad_message", "send a JSON object, with a name for every value")
    return fields


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _say(kind: Literal["word", "text", "transcript"], fields: Mapping[str, Any]) -> Say:
    seq = _seq(fields)
    text = fields.get("text")
    if not isinstance(text, str):
        raise ProtocolError("bad_message", f"text must be a string; got {_shown(text)}", seq)
    if kind == "word" and not visible(text):
        raise ProtocolError("empty_word", "there is nothing in this word", seq)
    return Say(kind, seq, text, _seen(fields))


def _seq(fields: Mapping[str, Any]) -> int:
    seq: Any = fields.get("seq")
    if not _is_count(seq) or seq < 1:
        raise ProtocolError("bad_seq", f"seq must be a whole number from 1; got {_shown(seq)}")
    return int(seq)


def _seen(fields: Mapping[str, Any]) -> int | None:
    """The number of the last event that the client has seen."""
    seen: Any = fields.get("seen")
    if seen is not None and not _is_count(seen):
        raise ProtocolError("bad_message", f"seen must be a number of events; got {_shown(seen)}")
    return seen


def visible(text: str) -> str:
    """What counts of a text: all but white space and control characters."""
    return normal(text).replace(" ", "")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_option(item: tuple[Any, Any]) -> bool:
    name, value = item
    return name in OPTIONS and isinstance(value, int | float) and -100 <= value <= 100


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _check(holds: bool, name: str, value: Any, allowed: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {allowed}; got {_shown(value)}")


def _shown(value: Any) -> str:
    """What was given, shortened, in ASCII: it may hold half a surrogate."""
    shown = ascii(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def encode(message: Mapping[str, Any]) -> str:
    """A message as it is sent; half a surrogate, which UTF-8 has no bytes for, is U+FFFD."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return SURROGATES.sub("\ufffd", text)


def start_message(start: Start) -> dict[str, Any]:
    """What a client sends first; options that are not given are left out."""
    usual = asdict(Start())
    options = {name: value for name, value in asdict(start).items() if value != usual[name]}
    return {"type": "start", **options}


def events_message(seq: int, done: bool, events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "events", "seq": seq, "done": done, "events": list(events)}


def error_message(error: ProtocolError, *, fatal: bool) -> dict[str, Any]:
    seq = {} if error.seq is None else {"seq": error.seq}
    return {"type": "error", "code": error.code, "message": str(error), **seq, "fatal": fatal}


class Numbered:
    """Numbers the events of one stream, and leaves out what its client does not want to see."""

    def __init__(self, start: Start):
        replay = start.replay or Replay()
        self._reads = start.reads
        self._n = replay.n
        self._sentence = replay.sentence

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self._n

    def message(self, events: Iterable[TextEvent]) -> list[dict[str, Any]]:
        """The events as they are sent: what is empty or not known is left out."""
        wanted = [event for event in events if self._reads or event.action != "READ"]
        return [self._one(event) for event in wanted]

    def _one(self, event: TextEvent) -> dict[str, Any]:
        self._n += 1
        values = {
            "action": event.action,
            "text": event.text or None,
            "spaced": event.spaced or None,
            "tokens": list(event.tokens) or None,
            "k": event.k,
            "probability": event.probability,
            "delay": event.delay,
            "delay_tokens": event.delay_tokens,
            "time": round(event.time, 3),
        }
        known = {name: value for name, value in values.items() if value is not None}
        numbered = {"n": self._n, "sentence": self._sentence, **known}
        self._sentence += event.action == "END"
        return numbered


def text_event(values: Mapping[str, Any]) -> TextEvent:
    """An event as it was sent, as a session would have told it."""
    return TextEvent(
        values["action"],
        values.get("text", ""),
        values.get("k"),
        values.get("probability"),
        values.get("time", 0.0),
        values.get("delay", 0),
        values.get("delay_tokens", 0),
        values.get("spaced", False),
        tuple(values.get("tokens", ())),
        values.get("sentence", 0),
        values.get("n", 0),
    )
