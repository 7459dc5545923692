"""The command line: sub-commands only; each imports what it needs when it runs, so that `--help` is
quick."""

import os
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from .options import Force, Limit, Model, Quiet, References, Version
from .own_policy import fault
from .parameters import taken_apart
from .requests import (
    DEFAULT_LANGUAGES,
    CompareRequest,
    EvaluateRequest,
    Languages,
    TranslateRequest,
)
from .serve import serve


P = ParamSpec("P")

app = typer.Typer(
    name="hf-simultaneous",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def every_command(version: Version = False) -> None:
    """Simultaneous translation: words out before the sentence is over."""


def command(name: str | None = None) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """The one way to add a command, so that each of them ends as `_guarded` says; a request that
    it takes is an option a field."""
    return lambda function: app.command(name)(_guarded(taken_apart(function)))


def _guarded(function: Callable[P, None]) -> Callable[P, None]:
    """Ctrl-C, and a reader that has had enough (`| head`), are not errors. What the user got wrong
    is said in a line; a traceback is for what we got wrong."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # Or Python would complain when it closes standard output.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(0) from None
        except Exception as error:
            said = fault(error) or (str(error) if isinstance(error, ValueError | OSError) else None)
            if said is None:
                raise
            typer.echo(f"error: {said}", err=True)
            raise typer.Exit(2) from None

    return guarded


@command()
def demo(
    pause: Annotated[float, typer.Option(min=0.0, help="Seconds between two actions.")] = 0.15,
    model: Annotated[
        str | None, typer.Option(help="A set of models; by default the one in the package.")
    ] = None,
) -> None:
    """Watch German sentences being translated while they arrive."""
    from .demo import main as play_all

    play_all(pause, model)


@command()
def translate(request: TranslateRequest) -> None:
    """Translate text, or standard input while the other side is still typing. Ctrl-D ends it."""
    from .translate import run

    run(request)


@command()
def info(
    model: Annotated[
        str | None, typer.Argument(help="A folder, or user/name; by default the set that ships.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Say what a set is made of."""
    import json

    from ..sets import set_or_builtin
    from .doctor import describe_set, in_words

    facts = describe_set(set_or_builtin(model))
    typer.echo(json.dumps(facts, indent=2) if as_json else in_words(facts))


@command("app")
def page(
    model: Model = None,
    languages: Languages = DEFAULT_LANGUAGES,
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where the page is served.")] = 7860,
    server: Annotated[
        str | None,
        typer.Option(metavar="ws://HOST:PORT", help="Let a server translate, not this machine."),
    ] = None,
) -> None:
    """Serve the page: type and watch several policies translate while you type. With --server, a
    page that talks to a server itself."""
    from .ahead import waiting_for
    from .doctor import require
    from .translate import load

    if server:
        if model or languages != DEFAULT_LANGUAGES:
            raise ValueError(
                f"--server {server} has its own models and languages; leave out --model, --from "
                f"and --to"
            )
        _serve_live_page(server, host, port)
        return
    require("app", "gradio")
    from ..app import check_port

    check_port(host, port)
    generator, _ = load(TranslateRequest(model=model, languages=languages))
    with waiting_for("loading the page"):
        from ..app import launch
    typer.echo(f"http://{host}:{port}  (Ctrl-C stops it)")
    launch(generator, host=host, port=port)


def _serve_live_page(server: str, host: str, port: int) -> None:
    from ..app import check_port
    from ..app.live_page import live_page

    check_port(host, port)
    with live_page(server, host, port) as page:
        typer.echo(f"http://{host}:{port}  (Ctrl-C stops it)")
        typer.echo(f"the server must let it in: serve --origin http://{host}:{port}", err=True)
        page.serve_forever()


command()(serve)


@command()
def doctor() -> None:
    """Say what is installed, which device and precisions there are, and which models ship.
    Exit code 1 if something is missing."""
    from .ahead import waiting_for
    from .doctor import examine

    with waiting_for("looking around"):
        examination = examine()
    typer.echo("\n".join(examination.lines))
    raise typer.Exit(0 if examination.healthy else 1)


@command()
def evaluate(request: EvaluateRequest, quiet: Quiet = False, force: Force = False) -> None:
    """Translate a corpus under a policy and score it: BLEU, chrF, latency, time per token."""
    from .doctor import require

    require("eval", "sacrebleu")
    from ..evaluation import is_main_process
    from . import evaluate as work

    facts = work.run(request, quiet=quiet, force=force)
    if is_main_process():  # several may share a corpus, under accelerate
        typer.echo(work.summary(facts))
        typer.echo(f"written to {request.output}")


@command()
def compare(request: CompareRequest, quiet: Quiet = False) -> None:
    """Translate a corpus under several policies, and write tables and curves of what each gives at
    which latency. What was cut off goes on; a further policy joins those that are there."""
    from .doctor import require

    require("eval", "sacrebleu", "matplotlib")
    from .compare import run

    typer.echo(run(request, typer.echo, quiet=quiet))


@command()
def calibrate(
    source: Annotated[Path, typer.Option(help="Dev set: text file, one sentence on each line.")],
    references: References,
    model: Annotated[
        str | None,
        typer.Option(
            help="The folder of the set, where the thresholds are kept; or, with --output, any "
            "model, by default the set that ships."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a new set whose default they become: a copy of the set, with its "
            "card; of a model on the hub, settings that name it."
        ),
    ] = None,
    languages: Languages = DEFAULT_LANGUAGES,
    al: Annotated[float, typer.Option(help="The Average Lagging to meet, in tokens.")] = 4.0,
    name: Annotated[
        str | None, typer.Option(help="Name of the operating point; by default al-4 and so on.")
    ] = None,
    limit: Limit = None,
    budget: Annotated[
        int, typer.Option(min=3, help="How many times each line may translate the dev set.")
    ] = 12,
    lines: Annotated[
        int,
        typer.Option(
            min=1, max=4, help="Lines of thresholds: to the largest k, to three quarters of it, ..."
        ),
    ] = 3,
    quiet: Quiet = False,
) -> None:
    """Find thresholds for a latency, and keep them in the set: from_pretrained(...,
    latency="al-4"). The dev set is translated as text sessions translate: read on where models
    want to end early, the set's own tail."""
    from .doctor import require

    require("eval", "sacrebleu")
    from .evaluate import calibrate_files

    found = calibrate_files(
        model,
        source,
        references,
        al,
        name,
        limit,
        budget=budget,
        lines=lines,
        output=output,
        languages=languages,
        tell=None if quiet else partial(typer.echo, err=True),
    )
    kept = f"--model {output or model} --latency {found.name}"
    default = f" (the default of {output} now)" if output else ""
    typer.echo(f"{found}\nkept: hf-simultaneous translate {kept}{default}")


@command()
def report(
    experiment: Annotated[
        Path, typer.Argument(help="A folder that compare or training.run_experiment has filled.")
    ],
) -> None:
    """Make tables and figures of an experiment again, from its logs alone."""
    from .doctor import require

    require("eval", "sacrebleu", "matplotlib")
    from ..evaluation.report import write_report

    typer.echo(write_report(experiment))


@command()
def card(
    folder: Annotated[Path, typer.Argument(help="A set of models or a checkpoint.")],
    facts: Annotated[
        Path | None,
        typer.Option(
            help="YAML with what the files do not say: licence, data, attribution, scores, ..."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over the README.md that is there.")
    ] = False,
) -> None:
    """Write the card of a set or checkpoint, README.md, from what is known of it."""
    from .. import sets
    from ..sharing.cards import CARD, write_card
    from ..sharing.facts import read_stated

    place = Path(sets.set_or_builtin(folder))
    if place == sets.BUILTIN:
        raise ValueError(
            f"the set in the package stays as it is, and has a card: {place / CARD}. For one of "
            f"your own, make a copy: AdaptiveWaitKGenerator.from_pretrained().save_pretrained(...)"
        )
    typer.echo(write_card(place, read_stated(facts) if facts else None, overwrite=force))


@command()
def push(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A set of models, a checkpoint, or a metric module; builtin is the set that ships."
        ),
    ],
    repo: Annotated[str, typer.Option(help="The repository, as user/name.")],
    private: Annotated[bool, typer.Option("--private", help="Only you can see it.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be sent.")
    ] = False,
    separate: Annotated[
        bool,
        typer.Option(
            "--separate", help="Members in repositories of their own, user/name-wait-1 and so on."
        ),
    ] = False,
    space: Annotated[
        bool, typer.Option("--space", help="And a Space of the same name that shows it.")
    ] = False,
    kind: Annotated[
        str | None, typer.Option(help="set, checkpoint or metric; by default the folder tells.")
    ] = None,
) -> None:
    """Share it on the hub: weights, tokenizer, code and card; nothing else in the folder is
    sent."""
    from ..sets import set_or_builtin
    from ..sharing import hub
    from ..sharing.complete import complete

    asked = hub.PushRequest(
        folder=Path(set_or_builtin(folder)),
        repo=repo,
        kind=kind,
        private=private or None,
        separate=separate,
        space=space,
        dry_run=dry_run,
    )
    with complete(asked) as request:
        said = [*map(str, hub.plan(request)), "nothing was sent"] if dry_run else hub.push(request)
    typer.echo("\n".join(said))


def main() -> None:
    """The console command."""
    app()
