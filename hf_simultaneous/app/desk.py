"""What the page shows: one visitor's sessions, several policies side by side on the same words,
drawn as HTML.

Knows sessions, events and HTML; not Gradio, which `gradio_page.py` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING

from ..actions import Policy
from ..metrics import Metric, Sentence, corpus_latency
from ..policies import (
    PAPER_SETTINGS,
    Adaptive,
    AlignAtt,
    FullSentence,
    HoldN,
    LocalAgreement,
    PsFuture,
    WaitK,
    linear_thresholds,
)
from ..sentences import SentenceSplitting
from ..sets import SpokenLanguages, languages_of
from ..text_session import TextEvent, TextSession
from ..transcripts import SourceRevised


if TYPE_CHECKING:
    from ..generation import AdaptiveWaitKGenerator


KEPT = 12  # sentences that stay on the page
CAUTION = [(rhos[1], rhos[10]) for rhos in PAPER_SETTINGS.values()]
"""First and last thresholds, from quick to careful: the settings of the paper."""

CSS = files(__package__).joinpath("desk.css").read_text(encoding="utf-8")

NO_POLICY = "<p>No policy is chosen: tick one in the settings.</p>"


def policies_for(
    generator: "AdaptiveWaitKGenerator",
    chosen: list[str],
    caution: int,
    k: int,
    point: str | None = None,
) -> dict[str, Policy]:
    """The policies to be compared, by their titles: thresholds from the slider, or a named
    operating point."""
    if not 1 <= caution <= len(CAUTION):
        raise ValueError(f"caution is 1 (quick) to {len(CAUTION)} (careful); got {caution}")
    first, last = CAUTION[caution - 1]
    own = generator.policy
    thresholds = (
        generator.latencies[point]
        if point
        else linear_thresholds(first, last, own.k_min, own.k_max)
    )
    title = f"Adaptive, {point}" if point else f"Adaptive, ρ {first:g} to {last:g}"
    offers: dict[str, tuple[str, Policy]] = {
        "adaptive": (title, Adaptive(thresholds)),
        "wait-k": (f"Wait-{k}", WaitK(k)),
        "local-agreement": ("Local agreement", LocalAgreement(2, 2, close=True)),
        "hold-n": ("Hold-4", HoldN(4, close=True)),
        "align-att": ("AlignAtt, border 2", AlignAtt(2, close=True)),
        "ps-future": ("PsFuture, threshold 0.02", PsFuture(0.02)),
        "full": ("Full sentence", FullSentence()),
    }
    return {offers[name][0]: offers[name][1] for name in offers if name in chosen}


def what(policy: Policy) -> str:
    """What a policy does, in a sentence for a visitor."""
    match policy:
        case WaitK(k):
            return f"Reads {k} tokens, then writes one for each that it reads."
        case FullSentence():
            return "Reads the whole sentence before it writes."
        case LocalAgreement(n, step):
            return f"Writes what {n} readings, each {step} tokens longer, agree on."
        case HoldN(n):
            return f"Writes all but the last {n} tokens of what it would say now."
        case AlignAtt(border):
            return f"Writes while its attention is not on the last {border} tokens read."
        case PsFuture():
            return "Writes when it says the same whether or not the sentence ends here."
    return "Writes when its models are sure, reads on when they are not."


@dataclass
class Track:
    """One policy at work: its session and what has happened in it, sentence by sentence."""

    session: TextSession
    sentences: list[list[TextEvent]] = field(default_factory=lambda: [[]])

    def take(self, event: TextEvent) -> None:
        self.sentences[-1].append(event)
        if event.action == "END":
            self.sentences = [*self.sentences[-KEPT:], []]

    @property
    def newest_first(self) -> list[list[TextEvent]]:
        """The sentences in which something has happened."""
        return [sentence for sentence in reversed(self.sentences) if sentence]

    @property
    def lagging(self) -> float | None:
        """Average Lagging, in words, over the sentences that are over."""
        over = [
            Sentence(
                tuple(event.delay for event in sentence if event.action == "WRITE"),
                sentence[-1].delay,
            )
            for sentence in self.sentences
            if sentence and sentence[-1].action == "END"
        ]
        return corpus_latency(over, Metric("AL", unit="word")).value if over else None


def said(sentence: list[TextEvent]) -> str:
    """What was written in a sentence, the word that is still growing included."""
    return "".join(str(event) for event in sentence if event.action == "PIECE")


def path(sentence: list[TextEvent]) -> list[tuple[str, str]]:
    """Each source word of a sentence, and what was written before the next was read."""
    columns: list[tuple[str, str]] = []
    for event in sentence:
        if event.action == "READ":
            columns.append((event.text, ""))
        elif event.action == "PIECE" and columns:
            word, written = columns[-1]
            columns[-1] = (word, f"{written}{event}".strip())
    return columns


def ends_sentence(text: str) -> bool:
    """Does a sentence end where this text does?"""
    return not text[-1:].isspace() and SentenceSplitting().ends((text.split() or [""])[-1])


class Desk:
    """One visitor: the same words to every policy chosen. Desks share the models and nothing
    else."""

    def __init__(self, generator: "AdaptiveWaitKGenerator", policies: Mapping[str, Policy]):
        self._generator, self._policies = generator, dict(policies)
        self._languages = languages_of(generator)
        self._text = ""
        self._hearing = Lock()
        self._restart()

    def _restart(self) -> None:
        self._over = False
        self.tracks = {
            title: Track(TextSession(self._generator, policy=policy, pieces=True))
            for title, policy in self._policies.items()
        }

    def hear(self, text: str, *, over: bool = False) -> None:
        """The whole text so far. Where it changed what was heard before, or that was over,
        everything begins anew."""
        with self._hearing:
            self._text = text
            if self._over:
                self._restart()
            try:
                self._pass_on(text, over)
            except SourceRevised:
                self._restart()
                self._pass_on(text, over)

    def rest(self, text: str) -> bool:
        """Nothing was typed after this text for a while. A word that ends a sentence is then
        finished, as if a space followed; returns whether there was one."""
        with self._hearing:
            if self._over or text != self._text or not ends_sentence(text):
                return False
            self._pass_on(f"{text} ", over=False)
            return True

    def _pass_on(self, text: str, over: bool) -> None:
        self._over = over
        for track in self.tracks.values():
            for event in track.session.push_transcript(text):
                track.take(event)
            for event in track.session.flush() if over else ():
                track.take(event)

    def html(self) -> str:
        """Every policy's card. What anybody typed is escaped."""
        # One voice is enough for a screen reader: the first policy speaks.
        cards = [
            _card(title, self._policies[title], track, self._languages, live=not place)
            for place, (title, track) in enumerate(self.tracks.items())
        ]
        return f'<div class="desk">{"".join(cards) or NO_POLICY}</div>'


def _card(
    title: str, policy: Policy, track: Track, languages: SpokenLanguages, *, live: bool
) -> str:
    title = escape(title)
    politeness = "polite" if live else "off"
    waiting = "waits for the end of the sentence" if isinstance(policy, FullSentence) else "…"
    rows = [_row(sentence, waiting, languages) for sentence in track.newest_first or [[]]]
    return (
        f'<section class="track" aria-label="{title}">'
        f"<h2>{title} {_lag(track)}</h2>"
        f'<p class="what">{what(policy)}</p>'
        f'<ol class="sentences" aria-live="{politeness}">{"".join(rows)}</ol>'
        f"</section>"
    )


def _lag(track: Track) -> str:
    title = "Average Lagging: how far behind the speaker the words were written"
    known = track.lagging is not None
    return (
        f'<span class="lag"><abbr title="{title}">AL</abbr> {track.lagging:.1f} words</span>'
        if known
        else ""
    )


def _lang(code: str | None) -> str:
    """For screen readers, which speak each language in its own voice."""
    return f' lang="{escape(code)}"' if code else ""


def _row(sentence: list[TextEvent], waiting: str, languages: SpokenLanguages) -> str:
    """One sentence: its translation, and under it each word read with what was written after it."""
    over = bool(sentence) and sentence[-1].action == "END"
    source, target = _lang(languages.source), _lang(languages.target)
    words = escape(said(sentence))
    shown = words if words or over else f'<span class="waiting">{waiting}</span>'
    columns = "".join(
        f'<li><span class="read"{source}>{escape(word)}</span>'
        f'<span class="write"{target}>{escape(written)}</span></li>'
        for word, written in path(sentence)
    )
    label = "each word read, and what was written after it"
    return (
        f'<li class="sentence"><p class="said"{target}>{shown}</p>'
        f'<ol class="path" aria-live="off" aria-label="{label}">{columns}</ol></li>'
    )
