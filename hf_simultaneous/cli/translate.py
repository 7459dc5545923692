"""What `hf-simultaneous translate` does: a request from the command line, run to its end.

Joins a set, the text that arrives and a view; knows nothing of how either works.
"""

import codecs
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ..sets import BUILTIN, set_or_builtin
from ..text_session import TextSession, sentence_splitting, warm_up
from .ahead import check_answers, found_set, waiting_for
from .requests import TranslateRequest
from .terminal import JsonView, LiveView, PlainView, View, arriving, follow, open_console, play


if TYPE_CHECKING:
    from ..actions import Policy
    from ..generation import AdaptiveWaitKGenerator
    from ..serving.client import Client


PATIENCE = 20.0
"""Seconds for which a server that is gone is tried again: somebody waits."""


def run(request: TranslateRequest) -> None:
    """Translate what is asked for, or what arrives, until it ends."""
    if _is_typed(request):
        _run_at_keyboard(replace(request, show=True))
        return
    fragments: Iterable[bytes] = _checked(_fragments(request))
    if request.text or request.file:  # it is all there: look at it before loading anything
        fragments = list(fragments)
        if not any(map(bytes.strip, fragments)):
            return
    with _session(request) as session:
        play(follow(session, fragments, lines=request.lines), _view(request))


def _is_typed(request: TranslateRequest) -> bool:
    """Does somebody type, and watch? A terminal alone would give whole lines, and no hint that it
    waits for them."""
    given = request.text or request.file or request.jsonl
    return not given and sys.stdin.isatty() and (request.show or sys.stdout.isatty())


def _run_at_keyboard(request: TranslateRequest) -> None:
    """Translate while somebody types. What is typed before the models are there is not lost."""
    from .keyboard import follow_keys, raw_keys, say_ready

    descriptor = sys.stdin.fileno()
    with raw_keys(descriptor), _session(request, warm=True) as session:
        say_ready("German" if is_german(request) else None)
        view = LiveView(open_console())
        play(follow_keys(session, arriving(descriptor, _tick(request)), view.typing), view)


def is_german(request: TranslateRequest) -> bool:
    """Is it known to be? Of sets only that of the package is."""
    return not request.server and set_or_builtin(request.model) == str(BUILTIN)


def _session(request: TranslateRequest, *, warm: bool = False) -> "TextSession | Client":
    """The models here, or a server that has some."""
    if request.server:
        return _client(request, request.server.split(","))
    generator, policy = load(request, warm=warm)
    rules = sentence_splitting(generator, silence=request.silence)
    beams = generator.tail_beams if request.tail_beams is None else request.tail_beams
    pieces = request.show or request.pieces
    return TextSession(generator, policy=policy, sentences=rules, tail_beams=beams, pieces=pieces)


def _client(request: TranslateRequest, servers: list[str]) -> "Client":
    from .doctor import require

    require("serve", "websockets")
    from ..serving.client import Client

    choice = {name: value for name, value in request.choice.options.items() if value is not None}
    client = Client(
        servers,
        latency=request.choice.latency,
        policy=request.choice.policy,
        k=choice.pop("k", None),
        rho=choice.pop("rho", None),
        options=choice,
        silence=request.silence,
        pieces=request.show or request.pieces,
        patience=PATIENCE,
        tell=_warn,
    )
    check_answers(servers)
    return client


def load(
    request: TranslateRequest, *, warm: bool = False
) -> "tuple[AdaptiveWaitKGenerator, Policy]":
    """The set and the policy that a request names; `warm` for who then waits at each word."""
    policy_for = request.choice.maker()
    latency = request.choice.latency
    languages = asdict(request.languages)
    place = found_set(request.model, latency=latency, quantize=request.quantize, **languages)
    with waiting_for():
        from ..generation import AdaptiveWaitKGenerator

        generator = AdaptiveWaitKGenerator.from_pretrained(
            place,
            latency=latency,
            quantize=request.quantize,
            **languages,
        )
        if warm:
            warm_up(generator)
    return generator, policy_for(generator)


def _fragments(request: TranslateRequest) -> Iterator[bytes]:
    if request.text:
        if len(request.text) == 1 and Path(request.text[0]).is_file():
            raise ValueError(
                f"{request.text[0]} is a file; translate what stands in it with --file "
                f"{request.text[0]}"
            )
        # Words need no quotes; what stands in quotes is a sentence, which an empty line ends.
        between = "\n\n" if any(" " in part for part in request.text) else " "
        return iter([between.join(request.text).encode(errors="surrogateescape")])
    if request.file:
        if request.file.is_dir():
            raise IsADirectoryError(f"{request.file} is a folder; give a text file")
        if not request.file.exists():
            raise FileNotFoundError(f"there is no file {request.file}; give a text file")
        return iter([request.file.read_bytes()])
    return arriving(sys.stdin.fileno(), _tick(request))


def _checked(fragments: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, if they may be text; standard error is told if there is none, and once if
    they are not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    until_the_end: Iterable[bytes | None] = chain(fragments, [None])
    beginning, empty = b"", True
    for fragment in until_the_end:
        beginning = (beginning + (fragment or b""))[:2]
        _check_text(beginning, fragment or b"")
        empty = empty and not (fragment or b"").strip()
        try:
            decoder.decode(fragment or b"", final=fragment is None)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            _warn(
                f"the input is not UTF-8 (byte {byte:#x}): such bytes are read "
                "as U+FFFD. Convert it first, as in: iconv -f latin1 -t utf-8"
            )
            decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        if fragment is not None:
            yield fragment
    if empty:
        _warn("nothing to translate")


def _check_text(beginning: bytes, fragment: bytes) -> None:
    """Refuse what is no text in UTF-8 at all, where a few bad bytes are only warned of."""
    if beginning in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise ValueError("the input is UTF-16; convert it first, as in: iconv -f utf-16 -t utf-8")
    if b"\0" in fragment:
        raise ValueError(
            "the input holds NUL bytes, and text in UTF-8 has none. If it is UTF-16, convert it "
            "first, as in: iconv -f utf-16le -t utf-8; else give a text file"
        )


def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr, flush=True)


def _tick(request: TranslateRequest) -> float | None:
    return None if request.silence is None else request.silence / 4


def _view(request: TranslateRequest) -> View:
    if not request.show:
        return JsonView(sys.stdout) if request.jsonl else PlainView(sys.stdout)
    return LiveView(open_console())
