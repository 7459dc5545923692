"""What `hf-simultaneous translate` does: a request from the command line, run to its end.

Joins a set, the text that arrives and a view; knows nothing of how either works.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .doctor import set_or_builtin
from .terminal import JsonView, LiveView, PlainView, View, arriving, follow, play
from .translation import TextSession, check_latency_alone, choose_policy, sentence_rules


if TYPE_CHECKING:
    from .actions import Policy
    from .generation import AdaptiveWaitKGenerator


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be translated, with what, and how it is to be shown."""

    text: Sequence[str] | None = None
    file: Path | None = None
    model: str | None = None
    policy: str | None = None
    k: int | None = None
    rho: Sequence[float] | None = None
    latency: str | None = None
    show: bool = False
    jsonl: bool = False
    lines: bool = False
    silence: float | None = None

    def __post_init__(self) -> None:
        if self.text and self.file:
            raise ValueError(f"give a text or --file, not both; got {' '.join(self.text)!r} and {self.file}")
        if self.show and self.jsonl:
            raise ValueError("--show is for people and --jsonl for programs; choose one")
        check_latency_alone(self.latency, self.policy, k=self.k, rho=self.rho)


def run(request: Request) -> None:
    """Translate what is asked for, or what arrives, until it ends."""
    generator, policy = load(request)
    rules = sentence_rules(generator, silence=request.silence)
    with TextSession(generator, policy=policy, sentences=rules) as session:
        play(follow(session, _fragments(request), lines=request.lines), _view(request))


def load(request: Request) -> "tuple[AdaptiveWaitKGenerator, Policy]":
    """The set and the policy that a request names."""
    place = set_or_builtin(request.model)  # before the imports, which take seconds

    from transformers.utils import logging

    from .generation import AdaptiveWaitKGenerator

    logging.disable_progress_bar()
    generator = AdaptiveWaitKGenerator.from_pretrained(place, latency=request.latency)
    return generator, choose_policy(generator, request.policy, k=request.k, rho=request.rho)


def _fragments(request: Request) -> Iterator[bytes]:
    if request.text:
        return iter([" ".join(request.text).encode(errors="surrogateescape")])
    if request.file:
        return iter([request.file.read_bytes()])
    tick = None if request.silence is None else request.silence / 4
    return arriving(sys.stdin.fileno(), tick)


def _view(request: Request) -> View:
    if not request.show:
        return JsonView(sys.stdout) if request.jsonl else PlainView(sys.stdout)
    from rich.console import Console

    return LiveView(Console())
