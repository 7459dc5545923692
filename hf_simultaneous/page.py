"""What the page shows: one visitor's sessions, several policies side by side on the same words, drawn as HTML.

Knows sessions, events and HTML; not Gradio, which `app.py` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from .actions import Policy
from .metrics import Metric, Sentence, corpus_latency
from .policies import PAPER_SETTINGS, Adaptive, FullSentence, WaitK, linear_thresholds
from .translation import TextEvent, TextSession


if TYPE_CHECKING:
    from .generation import AdaptiveWaitKGenerator


KEPT = 12  # sentences that stay on the page
CAUTION = [(rhos[1], rhos[10]) for rhos in PAPER_SETTINGS.values()]
"""First and last thresholds, from quick to careful: the settings of the paper."""

CSS = """
.desk { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); }
.track { border: 1px solid var(--border-color-primary, #ccc); border-radius: .8rem; padding: .9rem; min-width: 0; }
.track h3 { margin: 0 0 .4rem; display: flex; justify-content: space-between; gap: 1rem; font-size: 1rem; }
.track .lag { font-weight: 400; opacity: .8; font-variant-numeric: tabular-nums; }
.track .said, .path li { overflow-wrap: anywhere; }
.track .said { font-size: 1.15rem; line-height: 1.5; min-height: 1.7rem; margin: 0 0 .8rem; }
.path { display: flex; flex-wrap: wrap; row-gap: .6rem; list-style: none; margin: 0; padding: 0; font-size: .85rem; }
.path li { border-left: 2px solid var(--border-color-primary, #ccc); margin: 0; padding: 0 .45rem; }
.path .read { display: block; opacity: .8; }
.path .write { display: block; font-weight: 600; color: #0a6b3d; min-height: 1.2em; }
.dark .path .write { color: #6fdca5; }
"""


def policies_for(
    generator: "AdaptiveWaitKGenerator", chosen: list[str], caution: int, k: int, point: str | None = None
) -> dict[str, Policy]:
    """The policies to be compared, by their titles: thresholds from the slider, or a named operating point."""
    if not 1 <= caution <= len(CAUTION):
        raise ValueError(f"caution is 1 (quick) to {len(CAUTION)} (careful); got {caution}")
    first, last = CAUTION[caution - 1]
    own = generator.policy
    thresholds = generator.latencies[point] if point else linear_thresholds(first, last, own.k_min, own.k_max)
    title = f"Adaptive, {point}" if point else f"Adaptive, ρ {first:g} to {last:g}"
    offers: dict[str, tuple[str, Policy]] = {
        "adaptive": (title, Adaptive(thresholds)),
        "wait-k": (f"Wait-{k}", WaitK(k)),
        "full": ("Full sentence", FullSentence()),
    }
    return {offers[name][0]: offers[name][1] for name in offers if name in chosen}


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
    def text(self) -> str:
        said = ["".join(str(event) for event in sentence if event.action == "WRITE") for sentence in self.sentences]
        return " ".join(sentence for sentence in said if sentence)

    @property
    def lagging(self) -> float | None:
        """Average Lagging, in words, over the sentences that are over."""
        over = [
            Sentence(tuple(event.delay for event in sentence if event.action == "WRITE"), sentence[-1].delay)
            for sentence in self.sentences
            if sentence and sentence[-1].action == "END"
        ]
        return corpus_latency(over, Metric("AL", unit="word")).value if over else None

    def path(self) -> list[tuple[str, str]]:
        """Each source word, and what was written before the next was read."""
        columns: list[tuple[str, str]] = []
        for event in (event for sentence in self.sentences for event in sentence):
            if event.action == "READ":
                columns.append((event.text, ""))
            elif event.action == "WRITE" and columns:
                word, written = columns[-1]
                columns[-1] = (word, f"{written} {event.text}".strip())
        return columns


class Desk:
    """One visitor: the same words to every policy chosen. Desks share the models and nothing else."""

    def __init__(self, generator: "AdaptiveWaitKGenerator", policies: Mapping[str, Policy]):
        self._generator, self._policies = generator, dict(policies)
        self._restart()

    def _restart(self) -> None:
        self.tracks = {
            title: Track(TextSession(self._generator, policy=policy)) for title, policy in self._policies.items()
        }

    def hear(self, text: str, *, over: bool = False) -> None:
        """The whole text so far. Where it changed what was heard before, everything begins anew."""
        try:
            self._pass_on(text, over)
        except ValueError:
            self._restart()
            self._pass_on(text, over)

    def _pass_on(self, text: str, over: bool) -> None:
        for track in self.tracks.values():
            for event in track.session.push_transcript(text):
                track.take(event)
            for event in track.session.flush() if over else ():
                track.take(event)

    def html(self) -> str:
        """Every policy's card. What anybody typed is escaped."""
        return f'<div class="desk">{"".join(_card(title, track) for title, track in self.tracks.items())}</div>'


def _card(title: str, track: Track) -> str:
    lag = "" if track.lagging is None else f"AL {track.lagging:.1f} words"
    columns = "".join(
        f'<li><span class="read">{escape(word)}</span><span class="write">{escape(written)}</span></li>'
        for word, written in track.path()
    )
    return (
        f'<section class="track" aria-label="{escape(title)}"><h3>{escape(title)} <span class="lag">{lag}</span></h3>'
        f'<p class="said" lang="en" aria-live="polite">{escape(track.text)}</p>'
        f'<ol class="path" aria-label="each word read, and what was written after it">{columns}</ol></section>'
    )
