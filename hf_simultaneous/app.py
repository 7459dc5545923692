"""The page: type or paste a text and watch its translation appear while you type, under several policies at once.

Wires Gradio to `page.py`; also usable as a Space (`launch(generator)`). It translates nothing itself.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from .generation import AdaptiveWaitKGenerator
from .page import CAUTION, CSS, Desk, policies_for
from .translation import operating_points


EXAMPLES = [
    "Ich habe gestern am See ein kleines Haus gekauft.",
    "Sie sagt, dass sie den Schlüssel nicht gefunden hat.",
    "Am 3. Mai fährt Frau Dr. Weber nach Köln. Kommst du mit?",
]
CHOICES = [("Adaptive", "adaptive"), ("Wait-k", "wait-k"), ("Full sentence", "full")]
DEFAULT_CAUTION, DEFAULT_K = 8, 3
AT_ONCE = 20  # visitors whose requests of one kind are worked on together; the others wait in line
INTRO = """# Simultaneous translation
Words appear while the sentence is still being typed, and nothing once written is ever taken back.
The line steps right for every word read and down for every word written."""


@dataclass(frozen=True)
class _Acts:
    """What happens when something on the page is used. It keeps nothing: each visitor's desk is in `gr.State`."""

    generator: AdaptiveWaitKGenerator

    def desk(self, chosen: list[str], caution: int, k: int, point: str | None) -> Desk:
        return Desk(self.generator, policies_for(self.generator, chosen, int(caution), int(k), point or None))

    def typed(self, text: str, desk: Desk | None, *settings: Any) -> tuple[str, Desk]:
        desk = desk or self.desk(*settings)
        desk.hear(text)
        return desk.html(), desk

    def changed(self, text: str, *settings: Any) -> tuple[str, Desk]:
        return self.typed(text, None, *settings)

    def finished(self, text: str, *settings: Any) -> tuple[str, Desk | None]:
        desk = self.desk(*settings)
        desk.hear(text, over=True)
        return desk.html(), None

    def played(self, text: str, rate: float, *settings: Any) -> Iterator[str]:
        desk, heard = self.desk(*settings), ""
        for word in text.split():
            heard += f"{word} "
            desk.hear(heard)
            yield desk.html()
            time.sleep(1 / rate)
        desk.hear(heard, over=True)
        yield desk.html()


def build(generator: AdaptiveWaitKGenerator, examples: list[str] | None = None) -> gr.Blocks:
    """The page for one set."""
    acts = _Acts(generator)
    with gr.Blocks(title="Simultaneous translation", analytics_enabled=False) as page:
        gr.Markdown(INTRO, elem_id="intro")
        box = _source_box()
        offered = gr.Examples(examples or EXAMPLES, box, label="Examples, played at one click", elem_id="examples")
        buttons = _buttons()
        shown = gr.HTML(elem_id="shown", label="Translations")
        settings, rate = _settings(operating_points(generator))
        shown.value = acts.desk(*(setting.value for setting in settings)).html()
        _wire(acts, box, offered, buttons, shown, settings, rate)
    # By default Gradio would let one visitor play while all the others wait.
    return page.queue(default_concurrency_limit=AT_ONCE)


def _source_box() -> gr.Textbox:
    return gr.Textbox(
        label="German",
        lines=3,
        autofocus=True,
        placeholder="Tippen Sie hier …",
        elem_id="source",
        html_attributes=gr.InputHTMLAttributes(lang="de", spellcheck=False),
    )


def _buttons() -> dict[str, gr.Button]:
    with gr.Row():
        return {
            "play": gr.Button("Play", variant="primary", size="md", min_width=80, elem_id="play"),
            "stop": gr.Button("Stop", size="md", min_width=80, elem_id="stop"),
            "end": gr.Button("Finish", size="md", min_width=80, elem_id="end"),
        }


def _settings(points: list[str]) -> tuple[list[Any], gr.Slider]:
    """What makes the policies, in the order `_Acts.desk` takes it; and the speaking rate."""
    with gr.Accordion("Settings", open=True):
        chosen = gr.CheckboxGroup(CHOICES, value=[name for _, name in CHOICES], label="Policies side by side")
        point = gr.Radio(
            [*points, ("by the slider", "")],
            value=points[len(points) // 2] if points else "",
            label="Latency of the adaptive policy",
            visible=bool(points),
        )
        with gr.Row():
            caution = gr.Slider(
                1, len(CAUTION), value=DEFAULT_CAUTION, step=1, label="Adaptive: quick to careful", buttons=[]
            )
            k = gr.Slider(1, 10, value=DEFAULT_K, step=1, label="Wait-k: k, in tokens", buttons=[])
            rate = gr.Slider(1, 8, value=3, step=0.5, label="Playing: words a second", buttons=[])
    return [chosen, caution, k, point], rate


def _wire(
    acts: _Acts,
    box: gr.Textbox,
    offered: gr.Examples,
    buttons: dict[str, gr.Button],
    shown: gr.HTML,
    settings: list[Any],
    rate: gr.Slider,
) -> None:
    desk = gr.State(None, time_to_live=3600)
    hidden: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    speech = [box, rate, *settings]
    playing = [
        buttons["play"].click(acts.played, speech, shown, show_progress="hidden", api_name="play"),
        offered.load_input_event.then(acts.played, speech, shown, **hidden),
    ]
    quick: dict[str, Any] = {"show_progress": "hidden", "trigger_mode": "always_last", "cancels": playing}
    box.input(acts.typed, [box, desk, *settings], [shown, desk], api_name="typed", **quick)
    buttons["end"].click(acts.finished, [box, *settings], [shown, desk], api_name="translate", **quick)
    buttons["stop"].click(None, cancels=playing, **hidden)
    for setting in settings:
        setting.change(acts.changed, [box, *settings], [shown, desk], **{**quick, **hidden})


def _theme() -> gr.Theme:
    """Calm and readable: dark enough to be read everywhere, and fonts of the machine, so that nothing is fetched."""
    theme = gr.themes.Default(primary_hue="indigo", neutral_hue="slate", font=["system-ui", "sans-serif"])
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
    generator: AdaptiveWaitKGenerator, *, host: str | None = None, port: int | None = None, **options: Any
) -> Any:
    """Serve the page, to this machine unless `host` says otherwise.

    Returns when it is stopped, or at once with `prevent_thread_lock=True`.
    """
    looks = {"css": CSS, "theme": _theme(), "footer_links": ["api", "gradio"], "run_history": False}
    options = {"quiet": True, "ssr_mode": False, **looks, **options}
    return build(generator).launch(server_name=host, server_port=port, **options)
