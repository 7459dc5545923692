"""Keys as they are pressed at a terminal, and what is typed with them.

Knows terminals and keys; the translating is done by the session it is given."""

import codecs
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..words import UNSPACED


if TYPE_CHECKING:
    from ..serving.client import Client
    from ..text_session import TextEvent, TextSession


READY = "a word counts at the space behind it. Enter ends a sentence, Ctrl-D or Ctrl-C ends."
END_OF_INPUT = "\x04"  # Ctrl-D
BACKSPACE = "\x7f\b"
DELETE_WORD = "\x15\x17"  # Ctrl-U, Ctrl-W
ARROWS = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.)?")


@contextmanager
def raw_keys(descriptor: int) -> Iterator[None]:
    """Keys arrive one by one and are not echoed; the terminal is given back as it was, however
    this ends."""
    import termios
    import tty

    def stop(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    def go_on(*_: Any) -> None:
        tty.setcbreak(descriptor, termios.TCSANOW)  # a shell may have changed it meanwhile

    before = termios.tcgetattr(descriptor)
    handlers = {signal.SIGTERM: stop, signal.SIGHUP: stop, signal.SIGCONT: go_on}
    old = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number, handler in old.items():
            signal.signal(number, handler)


def say_ready(language: str | None = None) -> None:
    """How to go on; in which language, where it is known."""
    print(f"Type {language or 'away'}: {READY}", file=sys.stderr, flush=True)


def follow_keys(
    session: "TextSession | Client", keys: Iterable[bytes], typing: Callable[[str], None]
) -> "Iterator[TextEvent]":
    """Translate what is typed; `typing` is told the unfinished word, which Backspace may change."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = word = ""
    for pressed in keys:
        for event in () if pressed else session.poll():
            if event.action == "END":  # silence has finished the word
                text += f"{word} "
                word = ""
                typing(word)
            yield event
        for key in ARROWS.sub("", decoder.decode(pressed)):
            if key == END_OF_INPUT:
                yield from session.flush()
                return
            text, word = _typed(text, word, key)
            typing(word)
            yield from session.push_transcript(text + word)
            if key in "\r\n":
                yield from session.flush()
                text = ""
    yield from session.flush()


def _typed(text: str, word: str, key: str) -> tuple[str, str]:
    """What is finished and the unfinished word, after one more key."""
    if key in BACKSPACE:
        return text, word[:-1]
    if key in DELETE_WORD:
        return text, ""
    if key.isspace():
        return f"{text}{word} ", ""
    if UNSPACED.match(key):
        return text + word + key, ""
    return text, word + key if key.isprintable() else word
