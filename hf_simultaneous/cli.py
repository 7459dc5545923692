"""The command line: sub-commands only; each imports what it needs when it runs, so that `--help` is quick."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer


app = typer.Typer(
    name="hf-simultaneous",
    help="Simultaneous translation: words out before the sentence is over.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def demo(
    pause: Annotated[float, typer.Option(min=0.0, help="Seconds between two actions.")] = 0.15,
    model: Annotated[str | None, typer.Option(help="A set of models; by default the one in the package.")] = None,
) -> None:
    """Watch German sentences being translated while they arrive."""
    with _plain_errors(), _quiet_ends():
        from .demo import main as play_all

        play_all(pause, model)


@app.command()
def translate(
    text: Annotated[
        list[str] | None, typer.Argument(help="What to translate; without it, standard input, while it arrives.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Translate this text file instead.")] = None,
    model: Annotated[str | None, typer.Option(help="A set of models or a checkpoint: a folder, or user/name.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="adaptive (the default), wait-k, test-time-wait-k or full.")
    ] = None,
    k: Annotated[int | None, typer.Option(help="Tokens that wait-k waits for; alone it means wait-k.")] = None,
    rho: Annotated[
        tuple[float, float] | None, typer.Option(metavar="FIRST LAST", help="Thresholds of the adaptive policy.")
    ] = None,
    latency: Annotated[str | None, typer.Option(help="An operating point of the set: low, medium, high, ...")] = None,
    show: Annotated[bool, typer.Option("--show", help="Watch both lines, READ and WRITE, grow.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="A JSON object a line for every event.")] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Every line is a sentence; else an empty line ends one.")
    ] = False,
    silence: Annotated[
        float | None, typer.Option(help="Seconds without input after which a sentence is over.")
    ] = None,
) -> None:
    """Translate text, or standard input while the other side is still typing. Ctrl-D ends it."""
    with _plain_errors(), _quiet_ends():
        from .live import Request, run

        request = Request(
            text=text,
            file=file,
            model=model,
            policy=policy,
            k=k,
            rho=rho,
            latency=latency,
            show=show,
            jsonl=jsonl,
            lines=lines,
            silence=silence,
        )
        run(request)


@app.command()
def info(
    model: Annotated[str, typer.Argument(help="A set of models or a checkpoint: a folder, or user/name.")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Say what a set is made of."""
    with _plain_errors():
        import json

        from .doctor import describe_set

        facts = describe_set(model)
        plain = [f"{name:12}{value}" for name, value in facts.items()]
        typer.echo(json.dumps(facts, indent=2) if as_json else "\n".join(plain))


@app.command("app")
def page(
    model: Annotated[str | None, typer.Option(help="A set of models or a checkpoint: a folder, or user/name.")] = None,
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where the page is served.")] = 7860,
) -> None:
    """Serve the page: type and watch several policies translate while you type."""
    with _plain_errors(), _quiet_ends():
        from .doctor import installed
        from .live import Request, load

        if installed("gradio") is None:
            raise ValueError("the page needs gradio, which is not installed: pip install 'hf_simultaneous[app]'")
        generator, _ = load(Request(model=model))
        from .app import launch

        typer.echo(f"http://{host}:{port}  (Ctrl-C stops it)")
        launch(generator, host=host, port=port)


@app.command()
def doctor() -> None:
    """Say what is installed, which device there is, and which models ship. Exit code 1 if something is missing."""
    from .doctor import examine

    examination = examine()
    typer.echo("\n".join(examination.lines))
    raise typer.Exit(0 if examination.healthy else 1)


@contextmanager
def _quiet_ends() -> Iterator[None]:
    """Ctrl-C, and a reader that has had enough (`| head`), are no errors."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python would complain when it closes standard output
        raise typer.Exit(0) from None


@contextmanager
def _plain_errors() -> Iterator[None]:
    """What the user got wrong is said in a line; a traceback is for what we got wrong."""
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


@app.command()
def evaluate(
    source: Annotated[Path, typer.Option(help="Text file, a sentence a line.")],
    reference: Annotated[list[Path], typer.Option(help="Its translations, line by line; again for further ones.")],
    output: Annotated[Path, typer.Option(help="Folder for scores.json, log.jsonl and instances.log.")],
    model: Annotated[str | None, typer.Option(help="A set of models; by default the one that ships.")] = None,
    policy: Annotated[
        str, typer.Option(help="wait-k, test-time-wait-k, wait-if-diff, wait-if-worse, adaptive or full.")
    ] = "adaptive",
    k: Annotated[int | None, typer.Option(help="Of the two wait-k policies.")] = None,
    rho: Annotated[
        tuple[float, float] | None, typer.Option(help="First and last threshold; by default the set's own.")
    ] = None,
    latency: Annotated[str | None, typer.Option(help="An operating point of the set: low, al-4, ...")] = None,
    ensembles: Annotated[str | None, typer.Option(help="single, top-3 or all; by default the set's own.")] = None,
    beams: Annotated[int, typer.Option(help="Beam search, for --policy full.")] = 1,
    limit: Annotated[int | None, typer.Option(help="Only the first sentences.")] = None,
    start: Annotated[int, typer.Option(help="Tokens read first by the wait-if policies.")] = 4,
    delta: Annotated[int, typer.Option(help="How much further they look.")] = 2,
    alignments: Annotated[Path | None, typer.Option(help="Word alignments (0-0 2-1), for anticipation.")] = None,
    batch_size: Annotated[int, typer.Option(help="Sentences decoded together.")] = 128,
) -> None:
    """Translate a corpus under a policy and score it: BLEU, chrF, latency, time per token."""
    with _plain_errors():
        from . import evaluation, reporting
        from .doctor import set_or_builtin

        request = reporting.Request(
            source,
            reference,
            set_or_builtin(model),
            output,
            policy=policy,
            k=k,
            rho=rho,
            latency=latency,
            ensembles=ensembles,
            beams=beams,
            limit=limit,
            start=start,
            delta=delta,
            alignments=alignments,
            batch_size=batch_size,
        )
        facts = reporting.run(request)
        if evaluation.is_main_process():  # several may share a corpus, under accelerate
            typer.echo(reporting.summary(facts))


@app.command()
def calibrate(
    source: Annotated[Path, typer.Option(help="Dev set: text file, a sentence a line.")],
    reference: Annotated[list[Path], typer.Option(help="Its translations, line by line; again for further ones.")],
    model: Annotated[str, typer.Option(help="The folder of the set; the thresholds are kept in it.")],
    al: Annotated[float, typer.Option(help="The Average Lagging to meet.")] = 4.0,
    name: Annotated[str | None, typer.Option(help="Name of the operating point; by default al-4 and so on.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first sentences.")] = None,
    budget: Annotated[int, typer.Option(help="How many times the dev set may be translated.")] = 40,
) -> None:
    """Find thresholds for a latency, and keep them in the set: from_pretrained(..., latency="al-4")."""
    with _plain_errors():
        from . import calibration

        typer.echo(calibration.calibrate_files(model, source, reference, al, name, limit, budget))


@app.command()
def report(
    experiment: Annotated[Path, typer.Argument(help="A folder that training.run_experiment has filled.")],
) -> None:
    """Make tables and figures of an experiment again, from its logs alone."""
    with _plain_errors():
        from .experiments import write_report

        typer.echo(write_report(experiment))


@app.command()
def card(
    folder: Annotated[Path, typer.Argument(help="A set of models or a checkpoint.")],
    facts: Annotated[
        Path | None, typer.Option(help="YAML with what the files do not say: licence, data, attribution, scores, ...")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over the README.md that is there.")] = False,
) -> None:
    """Write the card of a set or checkpoint, README.md, from what is known of it."""
    with _plain_errors():
        from .cards import read_stated, write_card

        typer.echo(write_card(folder, read_stated(facts) if facts else None, overwrite=force))


@app.command()
def push(
    folder: Annotated[Path, typer.Argument(help="A set of models, a checkpoint, or a metric module.")],
    repo: Annotated[str, typer.Option(help="Where to, as user/name.")],
    private: Annotated[bool, typer.Option("--private", help="For your eyes only.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be sent.")] = False,
    separate: Annotated[
        bool, typer.Option("--separate", help="Members in repositories of their own, user/name-wait-1 and so on.")
    ] = False,
    space: Annotated[bool, typer.Option("--space", help="And a Space of the same name that shows it.")] = False,
    kind: Annotated[str | None, typer.Option(help="set, checkpoint or metric; else the folder tells.")] = None,
) -> None:
    """Share it on the hub: weights, tokenizer, code and card; nothing else in the folder is sent."""
    with _plain_errors(), _quiet_ends():
        from . import hub

        request = hub.Request(
            folder=folder, repo=repo, kind=kind, private=private or None, separate=separate, space=space
        )
        if dry_run:
            typer.echo("\n".join([*map(str, hub.plan(request)), "nothing was sent"]))
        else:
            typer.echo("\n".join(hub.push(request)))


def main() -> None:
    """The console command."""
    app()
