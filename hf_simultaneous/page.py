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
.gradio-container { max-width: 72rem !important; margin: 0 auto; }
#intro h1 { margin: .4rem 0 .2rem; }
#intro p { margin: 0; font-size: 1.05rem; }
#shown { padding: 0; }
#examples .gallery-item { text-align: left; white-space: normal; }
.min_value, .max_value { color: var(--body-text-color-subdued) !important; }
.desk { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); }
.track { background: var(--block-background-fill, #fff); border: 1px solid var(--border-color-primary, #ccc);
  border-top: 4px solid var(--hue); border-radius: .8rem; padding: .9rem 1rem 1rem; min-width: 0; }
.track { --hue: #3730a3; --tint: #eef2ff; }
.track:nth-child(2) { --hue: #92400e; --tint: #fef3c7; }
.track:nth-child(3) { --hue: #115e59; --tint: #d5f5f0; }
.dark .track { --hue: #a5b4fc; --tint: #312e6b; }
.dark .track:nth-child(2) { --hue: #fcd34d; --tint: #56330f; }
.dark .track:nth-child(3) { --hue: #5eead4; --tint: #134e4a; }
.track h2 { margin: 0 0 .5rem; display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem;
  font-size: 1rem; font-weight: 700; }
.track .lag { font-weight: 400; font-variant-numeric: tabular-nums; }
.track .lag abbr { text-decoration: underline dotted; cursor: help; }
.track .said, .path li { overflow-wrap: anywhere; }
.track .said { font-size: 1.2rem; line-height: 1.5; min-height: 1.8rem; margin: 0 0 .7rem; }
.track .said:empty::before { content: "…"; opacity: .6; }
.stairs { display: block; width: 100%; height: 4.5rem; margin: 0 0 .8rem; border-radius: .4rem;
  background: var(--tint); }
.stairs path { fill: none; stroke: var(--hue); stroke-width: 2.5px; vector-effect: non-scaling-stroke; }
.path { display: flex; flex-wrap: wrap; gap: .5rem .2rem; list-style: none; margin: 0; padding: 0; font-size: .85rem; }
.path li { margin: 0; min-width: 1.6rem; max-width: 100%; }
.path .read, .path .write { display: block; padding: 0 .35rem; border-radius: .3rem; }
.path .write { font-weight: 600; color: var(--hue); min-height: 1.4em; }
.path .write:not(:empty) { background: var(--tint); }
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
    def words(self) -> list[str]:
        """Every word written, with the space before it if there is one."""
        sentences = [[str(event) for event in sentence if event.action == "WRITE"] for sentence in self.sentences]
        first, *later = [words for words in sentences if words] or [[]]
        return [*first, *(word for words in later for word in (f" {words[0]}", *words[1:]))]

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
        # One voice is enough for a screen reader: the first policy speaks.
        cards = [_card(title, track, live=not place) for place, (title, track) in enumerate(self.tracks.items())]
        return f'<div class="desk">{"".join(cards)}</div>'


def _card(title: str, track: Track, *, live: bool) -> str:
    return (
        f'<section class="track" aria-label="{escape(title)}"><h2>{escape(title)} {_lag(track)}</h2>'
        f'<p class="said" lang="en" aria-live="{"polite" if live else "off"}">{_said(track)}</p>{_stairs(track)}'
        f'<ol class="path" aria-label="each word read, and what was written after it">{_columns(track)}</ol></section>'
    )


def _lag(track: Track) -> str:
    title = "Average Lagging: how far behind the speaker the words were written"
    known = track.lagging is not None
    return f'<span class="lag"><abbr title="{title}">AL</abbr> {track.lagging:.1f} words</span>' if known else ""


def _said(track: Track) -> str:
    """Each word in an element of its own: those that are there stay, and only new ones are read aloud."""
    return "".join(f"<span>{escape(word)}</span>" for word in track.words)


def _stairs(track: Track) -> str:
    """The path of the latest sentence: a step to the right for every word read, one down for every word written."""
    sentence = next((sentence for sentence in reversed(track.sentences) if sentence), [])
    steps = [{"READ": "h1", "WRITE": "v1"}.get(event.action, "") for event in sentence]
    width, height = max(10, steps.count("h1")), max(10, steps.count("v1"))
    view = f'viewBox="-.2 -.6 {width + 0.4:g} {height + 1.2:g}" preserveAspectRatio="none"'  # room for half a line
    return f'<svg class="stairs" {view} aria-hidden="true"><path d="M0 0{"".join(steps)}"/></svg>'


def _columns(track: Track) -> str:
    return "".join(
        f'<li><span class="read" lang="de">{escape(word)}</span><span class="write">{escape(written)}</span></li>'
        for word, written in track.path()
    )
