"""The report of an experiment, made from its logs: tables, figures, examples, and what is said at
equal latency.

Knows the folder that `experiment.run` fills: `experiment.json` and
`runs/<method>/<setting>.jsonl`. It decodes nothing; what was scored once is kept beside its log.
"""

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .logs import LoggedSentence, read_log, write_text
from .scores import score
from .significance import (
    Curve,
    EqualLatency,
    MeanGain,
    Resampled,
    compare_at_equal_al,
    curve,
    doubts,
    mean_gain,
    signature,
)


FACTS = "experiment.json"
REPORT = "report"
BASELINE = "wait-k"
ADAPTIVE = ("single", "top-3", "all")
OFFLINE = ("local-agreement", "hold-n", "align-att", "ps-future")
BY_FULL_MODEL = ("test-time-wait-k", "wait-if-diff", "wait-if-worse", *OFFLINE)
COMPARED = (*ADAPTIVE, *BY_FULL_MODEL)
FULL_MODEL = (*BY_FULL_MODEL, "full")
"""The methods that need a full-sentence model."""
PAPER = (*ADAPTIVE, "wait-k", "test-time-wait-k", "wait-if-diff", "wait-if-worse", "full")
METHODS = (*PAPER, *OFFLINE)
"""Those that can be compared, the paper's first."""
COLUMNS = (
    "bleu",
    "al",
    "laal",
    "ap",
    "dal",
    "chrf",
    "length_ratio",
    "early_stops",
    "time_per_token",
    "al_ca",
)


@dataclass(frozen=True)
class Run:
    """One setting of one method: where its log is, and its scores."""

    method: str
    setting: str
    log: Path
    scores: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.scores.get(name)


@dataclass(frozen=True)
class Experiment:
    """What was run, in the order of the protocol, and on what."""

    folder: Path
    facts: Mapping[str, Any]
    runs: Sequence[Run]

    def of(self, method: str) -> list[Run]:
        return [run for run in self.runs if run.method == method]

    def curve(self, method: str) -> Curve | None:
        """None where there are no settings to draw a line between, or no sentences to resample."""
        runs = self.of(method)
        enough = len(runs) > (method in COMPARED or method == BASELINE)
        drawn = enough and self.facts["sentences"] > 1
        return curve([resampled(run.log) for run in runs]) if drawn else None

    def mean_gain(self, method: str) -> MeanGain | None:
        """What a method gains over wait-k in the mean over the latencies they share."""
        base, found = self.curve(BASELINE), self.curve(method)
        return None if base is None or found is None else mean_gain(base, found)

    def claims(self) -> dict[str, list[EqualLatency]]:
        """Every method that can be against wait-k: those that are curves at the ALs of wait-k, and
        chosen points, such as operating points and policies of one's own, at their own."""
        base = self.curve(BASELINE)
        if base is None:
            return {}
        curves = {
            method: self.curve(method)
            for method in self.facts["settings"]
            if method not in (BASELINE, "full")
        }
        return {
            method: compare_at_equal_al(
                base, found, None if method in COMPARED else sorted(found.al)
            )
            for method, found in curves.items()
            if found is not None
        }


def log_path(folder: Path, method: str, setting: str) -> Path:
    return folder / "runs" / method / f"{setting}.jsonl"


def scored(log: Path) -> dict[str, Any]:
    """The scores of a log."""
    return dict(_kept(log)["scores"])


def resampled(log: Path) -> Resampled:
    """The scores of a log on every resample."""
    found = _kept(log)["resamples"]
    if found is None:
        raise ValueError(f"{log} has a single sentence, which cannot be resampled; evaluate more")
    return Resampled(**found)


def _kept(log: Path) -> dict[str, Any]:
    """What was made of a log: kept beside it, with the log's digest, so that it is made again of a
    changed log."""
    digest = hashlib.sha256(log.read_bytes()).hexdigest()
    kept = log.with_suffix(".scores.json")
    if kept.exists():
        known: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        if known.get("log") == digest and "resamples" in known:
            return known
    scores = score(read_log(log))
    resamples = asdict(scores.resampled) if scores.resampled else None
    made = {"log": digest, "scores": scores.as_dict(), "resamples": resamples}
    write_text(kept, json.dumps(made, indent=1) + "\n")
    return made


def load_experiment(folder: str | Path) -> Experiment:
    """All settings of an experiment whose logs are there."""
    place = Path(folder)
    if not (place / FACTS).is_file():
        raise FileNotFoundError(
            f"{place} holds no experiment ({FACTS}); make one with hf-simultaneous compare"
        )
    facts = json.loads((place / FACTS).read_text(encoding="utf-8"))
    wanted = [
        (method, setting) for method, settings in facts["settings"].items() for setting in settings
    ]
    found = [(m, s, log_path(place, m, s)) for m, s in wanted if log_path(place, m, s).exists()]
    if not found:
        raise ValueError(f"{place} has no logs yet; run hf-simultaneous compare first")
    return Experiment(
        place, facts, [Run(method, setting, log, scored(log)) for method, setting, log in found]
    )


def write_report(folder: str | Path) -> str:
    """Write `report/` and return its first lines."""
    experiment = load_experiment(folder)
    claims = experiment.claims()
    report = experiment.folder / REPORT
    _draw(experiment, report)
    examples = _write_examples(experiment, report)
    write_text(report / "scores.csv", _csv(experiment.runs))
    write_text(report / "equal_al.csv", _claims_csv(claims))
    head = doubts(experiment.facts["sentences"]) + [
        line
        for method, rows in claims.items()
        if method not in BY_FULL_MODEL
        for line in _said(method, rows)
    ]
    text = (
        "\n\n".join([_intro(experiment), *head, *_tables(experiment), times(experiment), *examples])
        + "\n"
    )
    write_text(report / "README.md", text)
    return "\n".join([*head, f"report: {report}"])


def _intro(experiment: Experiment) -> str:
    facts = experiment.facts
    wanted = sum(map(len, facts["settings"].values()))
    lines = [
        f"# {facts['test']}",
        f"Set {facts['set']}, {facts['sentences']} sentences. Encoder: {facts['encoder']}; "
        f"full-sentence baseline: "
        f"{facts['full_encoder']}. {len(experiment.runs)} of {wanted} settings.",
        _signatures(experiment),
        "![quality and latency](curves.svg)",
    ]
    if facts["full_encoder"] == "causal":
        lines.insert(
            2, "**The full-sentence baseline has a causal encoder, which makes it an easy rival.**"
        )
    return "\n\n".join(lines)


def _signatures(experiment: Experiment) -> str:
    """What the scores are; those of full sentences are searches of their own, and say so."""
    full = experiment.of("full")
    others = [run for run in experiment.runs if run.method != "full"]
    common = (others or full)[0]["signatures"]
    lines = [common["bleu"], common["al"], signature()]
    own = dict.fromkeys(run["signatures"]["bleu"] for run in full)
    told = "  \n".join(f"`{line}`" for line in lines)
    if not others or {*own} <= {common["bleu"]}:
        return told
    rows = ", ".join(f"`{line}`" for line in own)
    return f"{told}  \nThe rows of full, by the full-sentence model alone: {rows}"


def _tables(experiment: Experiment) -> list[str]:
    return [
        table(method, experiment)
        for method in experiment.facts["settings"]
        if experiment.of(method)
    ]


def table(method: str, experiment: Experiment) -> str:
    """In the form of the paper's appendix: hyper-parameters, BLEU, AL; then what it does not
    print."""
    encoder = experiment.facts["full_encoder" if method in FULL_MODEL else "encoder"]
    head = ("hyper-parameters", "BLEU", "95%", "AL", "LAAL", "length", "early stops")
    rows = [
        (
            run.setting,
            f"{run['bleu']:.2f}",
            "{:.1f}–{:.1f}".format(*run["intervals"]["bleu"]) if run["intervals"] else "",
            f"{run['al']:.3f}",
            f"{run['laal']:.3f}",
            f"{run['length_ratio']:.3f}",
            str(run["early_stops"]),
        )
        for run in experiment.of(method)
    ]
    return f"## {method} (encoder: {encoder})\n\n" + markdown(head, rows)


def times(experiment: Experiment) -> str:
    """The paper's efficiency table: time to predict a token, live, and against wait-3. Which
    settings it shows is written in `experiment.json`; all others are in the CSV."""
    chosen = experiment.facts.get("time_table", experiment.facts["settings"])
    shown = [run for run in experiment.runs if run.setting in chosen.get(run.method, ())]
    timed = [run for run in shown if run["time_per_token"] is not None]
    base = next((run for run in timed if (run.method, run.setting) == (BASELINE, "k=3")), None)
    rows = [
        (
            f"{run.method}, {run.setting}",
            f"{run['time_per_token'] * 1000:.1f} ms",
            f"{run['time_per_token'] / base['time_per_token']:.1f}" if base else "",
            f"{run['al_ca']:.3f}",
        )
        for run in timed
    ]
    head = ("method", "time per token", "times wait-3", "AL, computing included")
    return f"## Time per token (encoder: {experiment.facts['encoder']})\n\n" + markdown(head, rows)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _csv(runs: Sequence[Run]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "setting", *COLUMNS])
    writer.writerows([run.method, run.setting, *(run[name] for name in COLUMNS)] for run in runs)
    return text.getvalue()


def _said(method: str, rows: Sequence[EqualLatency]) -> list[str]:
    """Of a curve what it says near AL 4; of points what each says."""
    if not rows:
        return [
            f"{method} and wait-k have no latency in common, "
            "so they cannot be compared at equal AL."
        ]
    if method in COMPARED:
        rows = [min(rows, key=lambda one: abs(one.al - 4.0))]
    return [
        f"At equal AL ({row.al:.2f}), {method} {'over' if row.difference >= 0 else 'below'} wait-k "
        f"by {abs(row.difference):.2f} BLEU (difference {row.low:+.2f} to {row.high:+.2f}, 95%, "
        f"paired bootstrap)."
        for row in rows
    ]


def _claims_csv(claims: Mapping[str, Sequence[EqualLatency]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "al", "wait-k", "bleu", "difference", "low", "high"])
    for method, rows in claims.items():
        writer.writerows(
            (method, r.al, r.first, r.second, r.difference, r.low, r.high) for r in rows
        )
    return text.getvalue()


def _draw(experiment: Experiment, report: Path) -> None:
    from .plots import draw_curves, draw_grid

    curves = {
        m: [(run["al"], run["bleu"]) for run in experiment.of(m)]
        for m in experiment.facts["settings"]
    }
    full = curves.pop("full", [])
    levels = {f"full, {run.setting}": run["bleu"] for run in experiment.of("full")} if full else {}
    title = f"{experiment.facts['test']}, encoder {experiment.facts['encoder']}"
    drawn = {method: points for method, points in curves.items() if points}
    grid = experiment.facts.get("dev_scores")
    for kind in ("svg", "png"):
        draw_curves(
            drawn,
            report / f"curves.{kind}",
            levels=levels,
            apart=("wait-if-diff", "wait-if-worse"),
            title=title,
        )
        if grid:
            scores = {int(k): {int(m): bleu for m, bleu in row.items()} for k, row in grid.items()}
            draw_grid(
                scores, report / f"grid.{kind}", title=f"dev, encoder {experiment.facts['encoder']}"
            )


def _write_examples(experiment: Experiment, report: Path, count: int = 3) -> list[str]:
    """The same few sentences under a fixed and an adaptive policy of about the same latency."""
    from .plots import draw_path, path_of, write_paths_html

    pair = _alike(experiment)
    if pair is None:
        return []
    lines = [read_log(run.log) for run in pair]
    chosen = _telling(lines[0], lines[1], count)
    text, paths = ["## Examples"], []
    for index in chosen:
        text.append(f"source: {lines[0][index].source}  \nreference: {lines[0][index].reference}")
        for run, log in zip(pair, lines, strict=True):
            title = f"{run.method} {run.setting}"
            paths.append(path_of(log[index], f"{title}, sentence {index + 1}"))
            picture = f"example-{index + 1}-{run.method}.svg"
            draw_path(paths[-1], report / picture)
            text.append(f"{title}: {log[index].hypothesis}\n\n![READ and WRITE]({picture})")
    write_paths_html(paths, report / "examples.html", "Examples: READ and WRITE")
    return ["\n\n".join(text)] if chosen else []


def _alike(experiment: Experiment) -> tuple[Run, Run] | None:
    """wait-3, or what there is of wait-k, and the adaptive setting that is nearest to its
    latency."""
    fixed = sorted(experiment.of(BASELINE), key=lambda run: run.setting != "k=3")
    adaptive = [run for method in ("adaptive", *ADAPTIVE) for run in experiment.of(method)]
    if not fixed or not adaptive:
        return None
    return fixed[0], min(adaptive, key=lambda run: abs(run["al"] - fixed[0]["al"]))


def _telling(
    first: Sequence[LoggedSentence], second: Sequence[LoggedSentence], count: int
) -> list[int]:
    """The first sentences of middle length that the two translate differently; chosen by rule, not
    by taste."""
    fits = [
        one.index
        for one, other in zip(first, second, strict=True)
        if one.word_delays
        and other.word_delays
        and one.hypothesis != other.hypothesis
        and 6 <= one.source_length <= 25
    ]
    return fits[:count]
