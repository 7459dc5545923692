"""The page: type or paste a text and watch its translation appear while you type, under several
policies at once.

Wires Gradio to `desk.py`; also usable as a Space (`launch(generator)`). It translates nothing
itself."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from ..generation import AdaptiveWaitKGenerator
from ..sets import GERMAN_ENGLISH, SpokenLanguages, languages_of
from ..text_session import operating_points, warm_up
from .desk import CAUTION, CSS, Desk, ends_sentence, policies_for
from .ports import check_port


# In the first, who waits for the verb is right, and who does not is not.
EXAMPLES = [
    "Obwohl er sehr müde war, hat er die ganze Nacht gearbeitet.",
    "Mein Bruder hat gestern ein neues Auto gekauft.",
    "Ich weiß nicht, ob er heute kommt. Was denkst du?",
]
CHOICES = [
    ("Adaptive", "adaptive"),
    ("Wait-k", "wait-k"),
    ("Local agreement", "local-agreement"),
    ("Hold-n", "hold-n"),
    ("AlignAtt", "align-att"),
    ("PsFuture", "ps-future"),
    ("Full sentence", "full"),
]
DEFAULT_CAUTION, DEFAULT_K = 8, 3
AT_ONCE = 20  # visitors whose requests of one kind are worked on together; the others wait in line
REST = 1.0  # seconds without typing after which a sentence that ends in a full stop is over
HIDDEN: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
INTRO = "Translated as you type; nothing is ever taken back."


@dataclass
class _Visitor:
    """What is kept of one visitor between two events, in `gr.State`."""

    desk: Desk | None = None
    """What was typed so far goes on here; `None` begins anew."""
    playing: str | None = None
    """The text that is being played, or was played last."""
    turn: int = 0
    """Playing stops when this has moved on."""

    def begin(self, playing: str | None = None) -> int:
        """Something new happens: whatever is being played stops."""
        self.desk = None
        self.playing = playing
        self.turn += 1
        return self.turn


@dataclass(frozen=True)
class _Acts:
    """What happens when something on the page is used. It keeps nothing itself."""

    generator: AdaptiveWaitKGenerator

    def desk(self, chosen: list[str], caution: int, k: int, point: str | None) -> Desk:
        return Desk(
            self.generator,
            policies_for(self.generator, chosen, int(caution), int(k), point or None),
        )

    def typed(self, text: str, visitor: _Visitor, *settings: Any) -> tuple[Any, Any, Any]:
        """The box has changed, by whatever means: the translation, and whether there is something
        to play and to finish."""
        there = gr.update(interactive=bool(text.strip()))
        if text == visitor.playing:  # an example was put into the box to be played
            return gr.skip(), there, there
        if visitor.desk is None:
            visitor.begin()
            visitor.desk = self.desk(*settings)
        visitor.desk.hear(text)
        return visitor.desk.html(), there, there

    def rested(self, text: str, visitor: _Visitor) -> Any:
        """Who stops typing at the end of a sentence waits for its translation. And all is drawn
        again: a picture of an example that still played may have come to the page last."""
        desk = visitor.desk
        if desk is not None and ends_sentence(text):
            time.sleep(REST)
            if desk is visitor.desk:
                desk.rest(text)
        return gr.skip() if visitor.desk is None else visitor.desk.html()

    def changed(self, text: str, visitor: _Visitor, *settings: Any) -> Any:
        visitor.begin()
        return self.typed(text, visitor, *settings)[0]

    def finished(self, text: str, visitor: _Visitor, *settings: Any) -> str:
        visitor.begin()
        visitor.desk = self.desk(*settings)
        visitor.desk.hear(text, over=True)
        return visitor.desk.html()

    def stopped(self, visitor: _Visitor) -> None:
        visitor.turn += 1

    def arrived(
        self, text: str, example: str, visitor: _Visitor, rate: float, *settings: Any
    ) -> Iterator[Any]:
        """Something to look at while the box is still empty. This may come after what the visitor
        did, and `text` may be older than that."""
        if visitor.desk is not None:
            yield visitor.desk.html(), gr.skip()
        elif text:
            yield self.typed(text, visitor, *settings)[0], gr.skip()
        elif visitor.turn == 0:
            yield from self._play(example, visitor, visitor.begin(), rate, *settings)

    def played(self, text: str, visitor: _Visitor, rate: float, *settings: Any) -> Iterator[Any]:
        yield from self._play(text, visitor, visitor.begin(text), rate, *settings)

    def example(self, sample: list[str], visitor: _Visitor, *speech: Any) -> Iterator[Any]:
        """An example is put into the box and played; `visitor` knows of it before the box does."""
        for shown, stop in self.played(sample[0], visitor, *speech):
            yield sample[0], shown, stop

    def _play(
        self, text: str, visitor: _Visitor, turn: int, rate: float, *settings: Any
    ) -> Iterator[Any]:
        """A text word by word, and whether there is something to stop."""
        desk = self.desk(*settings)
        heard = ""
        for word in text.split():
            heard += f"{word} "
            desk.hear(heard)
            if visitor.turn != turn:
                break
            yield desk.html(), gr.update(interactive=True)
            time.sleep(1 / rate)
        if visitor.turn == turn:
            desk.hear(heard, over=True)
        shown = desk.html() if visitor.turn == turn else gr.skip()
        yield shown, gr.update(interactive=False)

    def enabled(self, chosen: list[str], point: str | None) -> tuple[Any, Any, Any]:
        """Which of the settings do something: latency, thresholds and k."""
        adaptive = "adaptive" in chosen
        return (
            gr.update(interactive=adaptive),
            gr.update(interactive=adaptive and not point),
            gr.update(interactive="wait-k" in chosen),
        )


def build(generator: AdaptiveWaitKGenerator, examples: list[str] | None = None) -> gr.Blocks:
    """The page for one set; without examples, those of the set in the package or none. What is
    looked at while typing comes first: a phone's keyboard hides the rest."""
    acts = _Acts(generator)
    languages = languages_of(generator)
    examples = examples or (EXAMPLES if languages == GERMAN_ENGLISH else [])
    with gr.Blocks(title="Simultaneous translation", analytics_enabled=False) as page:
        gr.Markdown(INTRO, elem_id="intro")
        box = _source_box(languages)
        shown = gr.HTML(elem_id="shown", label="Translations")
        buttons = _buttons()
        offered = gr.Dataset(
            components=[box],
            samples=[[text] for text in examples],
            label="Examples: one click plays them",
            elem_id="examples",
            visible=bool(examples),
        )
        settings, rate = _settings(operating_points(generator))
        shown.value = acts.desk(*(setting.value for setting in settings)).html()
        visitor = gr.State(_Visitor(), time_to_live=3600)
        speech = [visitor, rate, *settings]
        drawn = [shown, buttons["stop"]]
        if examples:
            page.load(acts.arrived, [box, gr.State(examples[0]), *speech], drawn, **HIDDEN)
        offered.click(acts.example, [offered, *speech], [box, *drawn], **HIDDEN)
        buttons["play"].click(
            acts.played, [box, *speech], drawn, show_progress="hidden", api_name="play"
        )
        _wire(acts, box, buttons, shown, visitor, settings)
    # By default Gradio would let one visitor play while all the others wait.
    return page.queue(default_concurrency_limit=AT_ONCE)


def _source_box(languages: SpokenLanguages) -> gr.Textbox:
    german = languages == GERMAN_ENGLISH
    return gr.Textbox(
        label="German" if german else languages.source or "Source",
        lines=2,
        autofocus=True,
        placeholder="Tippen Sie hier …" if german else "Type here …",
        elem_id="source",
        html_attributes=gr.InputHTMLAttributes(lang=languages.source, spellcheck=False),
    )


def _buttons() -> dict[str, gr.Button]:
    names = {"play": "Play", "stop": "Stop", "end": "The sentence is over"}
    with gr.Row():
        return {
            name: gr.Button(
                title,
                variant="primary" if name == "play" else "secondary",
                size="md",
                min_width=80,
                elem_id=name,
                interactive=False,
            )
            for name, title in names.items()
        }


def _settings(points: list[str]) -> tuple[list[Any], gr.Slider]:
    """What makes the policies, in the order `_Acts.desk` takes it; and the speaking rate."""
    with gr.Accordion("Settings", open=True):
        chosen = gr.CheckboxGroup(
            CHOICES, value=["adaptive", "wait-k", "full"], label="Policies side by side"
        )
        point = gr.Radio(
            [*points, ("by the slider", "")],
            value=points[len(points) // 2] if points else "",
            label="Latency of the adaptive policy",
            visible=bool(points),
        )
        with gr.Row():
            caution = gr.Slider(
                1,
                len(CAUTION),
                value=DEFAULT_CAUTION,
                step=1,
                label="Adaptive: quick to careful",
                buttons=[],
                interactive=not points,
            )
            k = gr.Slider(1, 10, value=DEFAULT_K, step=1, label="Wait-k: k, in tokens", buttons=[])
            rate = gr.Slider(1, 8, value=3, step=0.5, label="Playing: words a second", buttons=[])
    return [chosen, caution, k, point], rate


def _wire(
    acts: _Acts,
    box: gr.Textbox,
    buttons: dict[str, gr.Button],
    shown: gr.HTML,
    visitor: gr.State,
    settings: list[Any],
) -> None:
    """What a visitor does ends what is being played. `change` hears all that changes the box;
    `input` hears key presses only."""
    chosen, caution, k, point = settings
    now = [box, visitor, *settings]
    quick: dict[str, Any] = {"show_progress": "hidden", "trigger_mode": "always_last"}
    able = [shown, buttons["play"], buttons["end"]]
    for told in (
        box.change(acts.typed, now, able, api_name="typed", **quick),
        buttons["end"].click(acts.finished, now, shown, api_name="translate", **quick),
    ):
        told.then(acts.rested, now[:2], shown, **quick, api_visibility="private")
    buttons["stop"].click(acts.stopped, visitor, None, **HIDDEN)
    for setting in settings:
        setting.change(acts.changed, now, shown, **quick, api_visibility="private")
    for setting in (chosen, point):
        setting.change(acts.enabled, [chosen, point], [point, caution, k], **HIDDEN)


def _theme() -> gr.Theme:
    """Calm and readable: dark enough to be read everywhere, and fonts of the machine, so that
    nothing is fetched."""
    theme = gr.themes.Default(
        primary_hue="indigo", neutral_hue="slate", font=["system-ui", "sans-serif"]
    )
    return theme.set(
        body_background_fill="*neutral_50",
        body_text_color_subdued="*neutral_600",
        block_title_text_color="*neutral_800",
        block_title_text_weight="600",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        slider_color="*primary_700",
        checkbox_background_color_selected="*primary_700",
    )


def launch(
    generator: AdaptiveWaitKGenerator,
    *,
    host: str | None = None,
    port: int | None = None,
    examples: list[str] | None = None,
    **options: Any,
) -> Any:
    """Serve the page, to this machine unless `host` says otherwise, with examples to play.

    Returns when it is stopped, or at once with `prevent_thread_lock=True`.
    """
    if port is not None:
        check_port(host or "127.0.0.1", port)
    warm_up(generator)
    looks = {"css": CSS, "theme": _theme(), "footer_links": ["api", "gradio"], "run_history": False}
    options = {"quiet": True, "ssr_mode": False, **looks, **options}
    return build(generator, examples).launch(server_name=host, server_port=port, **options)
