"""The command line: sub-commands only; each imports what it needs when it runs, so that `--help` is quick."""

from typing import Annotated

import typer


app = typer.Typer(
    name="hf-simultaneous",
    help="Simultaneous translation: words out before the sentence is over.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def root() -> None:
    """Keeps `demo` a sub-command while it is the only one."""


@app.command()
def demo(
    pause: Annotated[float, typer.Option(min=0.0, help="Seconds between two actions.")] = 0.15,
) -> None:
    """Watch one sentence under three policies (scripted predictions, no model)."""
    from .demo import main as play_all

    play_all(pause)


def main() -> None:
    """The console command."""
    app()
