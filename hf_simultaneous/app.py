"""The page: type or paste a text and watch its translation appear while you type, under several policies at once.

Wires Gradio to `page.py`; also usable as a Space (`build(generator).launch()`). It translates nothing itself.
"""

import time
from collections.abc import Iterator
from typing import Any

import gradio as gr

from .generation import AdaptiveWaitKGenerator
from .page import CAUTION, CSS, Desk, policies_for


EXAMPLES = [
    "Ich habe gestern mit meinem alten Freund ein kleines Haus am See gekauft.",
    "Der Lehrer hat das neue Buch vor dem Haus gesucht.",
    "Am 3. Mai fährt Frau Dr. Weber z. B. nach Köln. Kommst du mit?",
]
CHOICES = [("Adaptive", "adaptive"), ("Wait-k", "wait-k"), ("Full sentence", "full")]
INTRO = """# Simultaneous translation
Words appear while the sentence is still being typed, and nothing once written is ever taken back.
Above each word written stands the word it waited for."""


def build(generator: AdaptiveWaitKGenerator, examples: list[str] | None = None) -> gr.Blocks:
    """The page for one set. Each visitor has a desk of their own in `gr.State`."""

    def desk_for(chosen: list[str], caution: int, k: int, point: str | None) -> Desk:
        return Desk(generator, policies_for(generator, chosen, int(caution), int(k), point or None))

    def typed(text: str, desk: Desk | None, *settings: Any) -> tuple[str, Desk]:
        desk = desk or desk_for(*settings)
        desk.hear(text)
        return desk.html(), desk

    def changed(text: str, *settings: Any) -> tuple[str, Desk]:
        return typed(text, None, *settings)

    def finished(text: str, *settings: Any) -> tuple[str, Desk | None]:
        desk = desk_for(*settings)
        desk.hear(text, over=True)
        return desk.html(), None

    def played(text: str, rate: float, *settings: Any) -> Iterator[str]:
        desk, heard = desk_for(*settings), ""
        for word in text.split():
            heard += f"{word} "
            desk.hear(heard)
            yield desk.html()
            time.sleep(1 / rate)
        desk.hear(heard, over=True)
        yield desk.html()

    with gr.Blocks(title="Simultaneous translation", analytics_enabled=False) as page:
        gr.Markdown(INTRO)
        desk = gr.State(None, time_to_live=3600)
        box = gr.Textbox(label="German", lines=3, autofocus=True, placeholder="Tippen Sie hier …", elem_id="source")
        with gr.Row():
            play = gr.Button("Play", variant="primary", min_width=90, elem_id="play")
            stop = gr.Button("Stop", min_width=60, elem_id="stop")
            end = gr.Button("End sentence", min_width=90, elem_id="end")
        shown = gr.HTML(elem_id="shown", label="Translations")
        with gr.Accordion("Settings", open=True):
            caution = gr.Slider(
                1, len(CAUTION), value=8, step=1, label="Caution of the adaptive policy: quick to careful"
            )
            points = sorted(generator.latencies)
            point = gr.Dropdown(["", *points], value="", label="Operating point (instead)", visible=bool(points))
            k = gr.Slider(1, 10, value=3, step=1, label="k of wait-k, in tokens")
            rate = gr.Slider(1, 8, value=3, step=0.5, label="Speaking rate, in words a second")
            chosen = gr.CheckboxGroup(CHOICES, value=["adaptive", "wait-k", "full"], label="Policies side by side")
        offered = gr.Examples(examples or EXAMPLES, box, label="Examples, played at speaking rate")

        settings = [chosen, caution, k, point]
        playing = play.click(played, [box, rate, *settings], shown, show_progress="hidden", api_name="play")
        example = offered.load_input_event.then(
            played, [box, rate, *settings], shown, show_progress="hidden", api_name=False
        )
        running = [playing, example]
        quick: dict[str, Any] = {"show_progress": "hidden", "trigger_mode": "always_last", "cancels": running}
        box.input(typed, [box, desk, *settings], [shown, desk], api_name="typed", **quick)
        end.click(finished, [box, *settings], [shown, desk], api_name="translate", **quick)
        stop.click(lambda: None, None, None, cancels=running, api_name=False)
        for setting in settings:
            setting.change(changed, [box, *settings], [shown, desk], api_name=False, **quick)
    return page


def launch(
    generator: AdaptiveWaitKGenerator, *, host: str = "127.0.0.1", port: int | None = None, **options: Any
) -> Any:
    """Serve the page; returns when it is stopped, unless `prevent_thread_lock=True`."""
    options = {"quiet": True, "ssr_mode": False, "css": CSS, **options}
    return build(generator).launch(server_name=host, server_port=port, **options)
