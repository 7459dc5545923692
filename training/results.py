"""Fills the tables and figures of a page of results from the logs they were measured in; its prose
stays as it is.

    python -m training.results docs/results.md
    python -m training.results docs/results.md --only runs/europarl

A page marks what is filled in with comments, `<!-- runs/x/experiment: findings -->` to `<!-- end
-->`: the folder of an experiment, relative to where the command is run, and a part. Knows parts;
numbers come from the package."""

import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hf_simultaneous.evaluation.logs import write_text
from hf_simultaneous.evaluation.report import (
    ADAPTIVE,
    COMPARED,
    REPORT,
    Experiment,
    Run,
    load_experiment,
    markdown,
    resampled,
    table,
    times,
)
from hf_simultaneous.evaluation.significance import (
    EqualLatency,
    MeanGain,
    compare_settings,
    signature,
)
from hf_simultaneous.places import is_set
from hf_simultaneous.sets import policy_name, saved_k

from .checked import InputError
from .command import command_line, exit_code
from .finish import read_facts


BLOCK = re.compile(r"(<!-- (?P<folder>\S+): (?P<part>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
FIGURES = "figures"
# The paper's German tables against its wait-k at equal AL, put through the same computation: the
# mean over latencies, in BLEU.
PAPER = {
    "single": "+1.17, at most +1.90",
    "top-3": "+1.96, at most +2.64",
    "all": "+0.43, at most +2.13",
    "test-time-wait-k": "-3.22",
    "wait-if-diff": "-4.31",
    "wait-if-worse": "-3.40",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("results", __doc__)
    parser.add_argument("page", type=Path, help="a Markdown file with marked parts")
    parser.add_argument(
        "--only", default="", help="only parts of this folder and those below it, as runs/europarl"
    )
    given = parser.parse_args(arguments)
    return exit_code(lambda: print(fill(given.page, given.only)))


def fill(page: Path, only: str = "") -> str:
    """Write every marked part anew, or nothing at all; with `only`, the parts of one folder: the
    logs of others may lie elsewhere."""
    filled = 0

    def block(match: re.Match[str]) -> str:
        nonlocal filled
        if not Path(match["folder"]).is_relative_to(only):
            return match[0]
        filled += 1
        return f"{match[1]}\n{_part(page, Path(match['folder']), match['part'])}\n\n{match[4]}"

    text = BLOCK.sub(block, page.read_text(encoding="utf-8"))
    if not filled:
        raise InputError(
            f"{page} marks nothing to fill in{f' of {only}' if only else ''}; a part begins with "
            f"<!-- runs/x/experiment: findings -->"
        )
    write_text(page, text)
    return f"{page}: {filled} parts"


def _part(page: Path, folder: Path, part: str) -> str:
    if part not in PARTS:
        raise InputError(f"{page}: parts are {', '.join(PARTS)}; got {part!r}")
    if part == "models":
        return _models(folder)
    if part in ("curves", "grid"):
        return _figure(page, folder, part)
    return PARTS[part](load_experiment(folder))


def _models(folder: Path) -> str:
    """What was trained, and what each model scores under its own policy."""
    places = [path.parent for path in sorted(folder.glob("*/training.json"))]
    found = {place.name: read_facts(place) for place in places if not is_set(place)}
    rows = [
        (
            name,
            facts["config"]["model"].get("encoder_attention", "causal"),
            Path(facts["init_from"]).name if facts["init_from"] else "random weights",
            str(facts["seed"]),
            str(facts["steps"]),
            f"{facts['seconds'] / 60:.0f} min",
            *(_own_scores(facts, split) for split in ("dev", "test")),
        )
        for name, facts in sorted(found.items(), key=lambda item: (len(item[0]), item[0]))
        if facts is not None
    ]
    if not rows:
        raise InputError(
            f"{folder} holds no finished model; train them with python -m training.train_all"
        )
    head = (
        "model",
        "encoder",
        "started from",
        "seed",
        "steps",
        "one core",
        "dev BLEU / AL",
        "test BLEU / AL",
    )
    return markdown(head, rows)


def _own_scores(facts: dict[str, Any], split: str) -> str:
    return "; ".join(
        f"{s['bleu']:.1f} / {s['al']:.1f}" for s in facts["scores"].get(split, {}).values()
    )


def _figure(page: Path, folder: Path, part: str) -> str:
    """A figure of the report, copied beside the page."""
    drawn = folder / REPORT / f"{part}.svg"
    if not drawn.is_file():
        raise InputError(
            f"{drawn} is missing; make the report with hf-simultaneous report {folder}"
        )
    name = f"{folder.parent.name}-{part}.svg"
    (page.parent / FIGURES).mkdir(exist_ok=True)
    shutil.copy(drawn, page.parent / FIGURES / name)
    facts = load_experiment(folder).facts
    return f"![{part} of {facts['test']}, encoder {facts['encoder']}]({FIGURES}/{name})"


def _setup(experiment: Experiment) -> str:
    facts, signatures = experiment.facts, experiment.runs[0].scores["signatures"]
    return (
        f"{facts['test']}, {facts['sentences']} sentences, {len(experiment.runs)} settings. "
        f"Encoder: {facts['encoder']}; full-sentence baseline: {facts['full_encoder']}.\n\n"
        f"`{signatures['bleu']}`  \n`{signatures['al']}`  \n`{signature()}`"
    )


def _findings(experiment: Experiment) -> str:
    """The paper's findings, one by one, beside ours."""
    rows = []
    for method, claims in experiment.claims().items():
        if not claims:
            rows.append((method, PAPER.get(method, ""), "no latency in common with wait-k", "", ""))
            continue
        best = max(claims, key=lambda row: row.difference)
        above = sum(row.low > 0 for row in claims)
        below = sum(row.high < 0 for row in claims)
        counts = f"above at {above}, below at {below} of {len(claims)}"
        mean = experiment.mean_gain(method)
        rows.append(
            (
                method,
                PAPER.get(method, ""),
                f"{_signed(best)} at AL {best.al:.1f}",
                _signed(mean) if mean else "–",  # of a single point there is none
                counts,
            )
        )
    head = ("method", "paper", "most, against wait-k at equal AL", "mean", "clear of 0 (95%)")
    return "\n\n".join([markdown(head, rows), *_against_full(experiment)])


def _against_full(experiment: Experiment) -> list[str]:
    """The best setting of each ensemble beside full-sentence search."""
    best = [
        max(experiment.of(m), key=lambda run: run["bleu"]) for m in ADAPTIVE if experiment.of(m)
    ]
    rows = [
        (
            run.method,
            run.setting,
            f"{run['al']:.1f}",
            full.setting,
            f"{full['al']:.1f}",
            _pair(full, run),
        )
        for run in best
        for full in experiment.of("full")
    ]
    head = ("method", "its best setting", "AL", "full sentence", "AL", "BLEU above it")
    return [markdown(head, rows)] if rows else []


def _pair(first: Run, second: Run) -> str:
    return _signed(compare_settings(resampled(first.log), resampled(second.log)))


def _equal_al(experiment: Experiment) -> str:
    """BLEU against wait-k at every latency of wait-k, with intervals."""
    claims = {method: {row.al: row for row in rows} for method, rows in experiment.claims().items()}
    runs = sorted(experiment.of("wait-k"), key=lambda run: run["al"])
    shown = [method for method in COMPARED if claims.get(method)]
    rows = [
        (
            run.setting,
            f"{run['al']:.2f}",
            f"{run['bleu']:.2f}",
            *(_cell(claims[method], run["al"]) for method in shown),
        )
        for run in runs
    ]
    return markdown(("wait-k", "AL", "BLEU", *shown), rows)


def _cell(rows: dict[float, EqualLatency], al: float) -> str:
    near = [row for at, row in rows.items() if abs(at - al) < 1e-6]
    return _signed(near[0]) if near else "–"


def _signed(row: EqualLatency | MeanGain) -> str:
    return f"{row.difference:+.2f} [{row.low:+.2f}, {row.high:+.2f}]"


def _best_models(experiment: Experiment) -> str:
    """The dev grid: which model is best under which policy."""
    grid = experiment.facts.get("dev_scores")
    if not grid:
        raise InputError(
            f"{experiment.folder}: its set has no dev grid; run python -m training.choose_ensembles"
        )
    models = list(next(iter(grid.values())))
    rows = []
    for k, scores in grid.items():
        best = sorted(scores, key=lambda model: -scores[model])[:3]
        rows.append(
            (
                policy_name(saved_k(k)),
                *(f"**{scores[m]:.1f}**" if m in best else f"{scores[m]:.1f}" for m in models),
            )
        )
    return markdown(("policy", *(f"model {m}" for m in models)), rows)


def _tables(experiment: Experiment) -> str:
    return "\n\n".join(
        table(method, experiment)
        for method in experiment.facts["settings"]
        if experiment.of(method)
    )


def _times(experiment: Experiment) -> str:
    return times(experiment).split("\n\n", 1)[1]


PARTS: dict[str, Callable[..., str]] = {
    "setup": _setup,
    "models": _models,
    "findings": _findings,
    "equal-al": _equal_al,
    "best-models": _best_models,
    "curves": _figure,
    "grid": _figure,
    "times": _times,
    "tables": _tables,
}


if __name__ == "__main__":
    sys.exit(main())
