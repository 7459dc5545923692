"""The options that several commands take, and that of all: --version.

Knows their names and help; what is done with them is the commands' business."""

from pathlib import Path
from typing import Annotated

import typer

from ..version import __version__


Model = Annotated[
    str | None, typer.Option(help="A set of models or a checkpoint: a folder, or user/name.")
]
SetOfModels = Annotated[
    str | None, typer.Option(help="A set of models; by default the one that ships.")
]
Quantize = Annotated[
    str | None,
    typer.Option(
        help="int8: weights in 8 bits, on the CPU; or none. By default what the set was saved with."
    ),
]
SourceLanguage = Annotated[
    str | None,
    typer.Option("--from", help="Language of the source, for models of many: deu_Latn, de, ..."),
]
TargetLanguage = Annotated[
    str | None, typer.Option("--to", help="Language to translate into, for models of many.")
]
Source = Annotated[Path, typer.Option(help="Text file, one sentence on each line.")]
References = Annotated[
    list[Path],
    typer.Option("--reference", help="Its translations, line by line; repeat it for more of them."),
]
Limit = Annotated[int | None, typer.Option(help="Only the first sentences.")]
BatchSize = Annotated[int, typer.Option(help="Sentences decoded together.")]
Timed = Annotated[
    int,
    typer.Option(
        min=0, help="Sentences decoded once more, alone, for the time per token; 0 for none."
    ),
]
TailBeams = Annotated[
    int | None,
    typer.Option(
        help="Beams that search the rest once the source has ended; by default the set's own."
    ),
]
Tail = Annotated[
    str | None,
    typer.Option(
        help="Who writes that rest: k_max (whoever the policy asks), full, all, or members such as "
        "1,3; by default the set's own."
    ),
]
EarlyStop = Annotated[
    bool | None,
    typer.Option(
        "--early-stop/--read-on",
        help="May models end a sentence before its source ends, or do they read on? By default the "
        "set's own.",
        show_default=False,
    ),
]
Reads = Annotated[
    str,
    typer.Option(
        help="What arrives at once and is read before anything is decided: token, as in the paper, "
        "or word, as in live text."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
Force = Annotated[
    bool, typer.Option("--force", help="Write over a result of other settings in the folder.")
]


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hf-simultaneous {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version."),
]
