"""Pictures: the READ/WRITE path of a sentence, quality against latency, and the models x policies
grid.

Knows numbers and words, not where they come from. Curves differ in marker and dash as well as in
colour, and the colours can be told apart by people who do not see red and green apart."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from ..words import source_words
from .logs import LoggedSentence, write_text


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
DASHES = ("-", "--", "-.", ":")
FORMATS = (".svg", ".png", ".pdf")


@dataclass(frozen=True)
class Path2D:
    """What a sentence's picture shows: source across, target down, and how far was read when each
    word was written."""

    source: Sequence[str]
    target: Sequence[str]
    delays: Sequence[int]
    title: str = ""

    def __post_init__(self) -> None:
        if len(self.target) != len(self.delays):
            raise ValueError(
                f"each target word needs a delay; got {len(self.target)} and {len(self.delays)}"
            )
        if max(self.delays, default=0) > len(self.source):
            raise ValueError(
                f"delays must not exceed the {len(self.source)} source words; got "
                f"{list(self.delays)}"
            )


def path_of(line: LoggedSentence, title: str = "") -> Path2D:
    """The path of a line of a log, in words."""
    if line.word_delays is None:
        raise ValueError(f"sentence {line.index} has no delays in words to draw")
    return Path2D(source_words(line.source), line.hypothesis.split(), line.word_delays, title)


def draw_path(path: Path2D, file: str | Path) -> None:
    """The picture as SVG or PNG: shaded is what had been read, the line is the order of READs and
    WRITEs."""
    rows, columns = max(1, len(path.target)), max(1, len(path.source))
    figure = Figure(figsize=(1.6 + 0.55 * columns, 1.3 + 0.32 * rows), layout="constrained")
    axes = figure.subplots()
    for row, delay in enumerate(path.delays):
        axes.barh(row + 0.5, delay, height=1.0, color="#d9d9d9", edgecolor="none")
    axes.plot(*_staircase(path.delays), color="black", linewidth=2, clip_on=False, zorder=3)
    axes.plot(
        path.delays,
        [row + 0.5 for row in range(len(path.delays))],
        "o",
        color="black",
        markersize=5,
        clip_on=False,
        zorder=4,
    )
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    axes.set_xticks(
        [column + 0.5 for column in range(len(path.source))], path.source, rotation=45, ha="left"
    )
    axes.set_yticks([row + 0.5 for row in range(len(path.target))], path.target)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for column in range(columns + 1):
        axes.axvline(column, color="#aaaaaa", linewidth=0.5)
    for row in range(rows + 1):
        axes.axhline(row, color="#aaaaaa", linewidth=0.5)
    if path.title:
        axes.set_title(path.title, loc="left", fontsize=10)
    _save(figure, file)


def _staircase(delays: Sequence[int]) -> tuple[list[float], list[float]]:
    """Right for a READ, down for a WRITE."""
    across, down = [0.0], [0.0]
    for row, delay in enumerate(delays):
        across += [delay, delay]
        down += [row, row + 1.0]
    return across, down


def write_paths_html(
    paths: Sequence[Path2D], file: str | Path, title: str = "READ and WRITE"
) -> None:
    """One page that needs nothing else: a table for each path, the mark ● where a word was
    written."""
    body = "\n".join(_table(path) for path in paths)
    note = "Grey: read by then. ● : written there. One row for each word of the translation."
    write_text(
        file,
        '<!DOCTYPE html>\n<html lang="en">\n'
        f'<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n<p>{note}</p>\n{body}\n</body>\n</html>\n",
    )


STYLE = (
    "body{font:15px/1.4 sans-serif;margin:2em;color:#000;background:#fff}"
    "table{border-collapse:collapse;margin:0 0 "
    "2em}caption{text-align:left;font-weight:bold;padding:.4em 0}"
    "th{font-weight:normal;padding:.15em .5em}tbody th{text-align:right}"
    "td{border:1px solid #888;text-align:right;padding:0 "
    ".2em;min-width:1.2em}td.read{background:#d9d9d9}"
)


def _table(path: Path2D) -> str:
    head = "".join(f'<th scope="col">{escape(word)}</th>' for word in path.source)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(word)}</th>{_cells(delay, len(path.source))}</tr>'
        for word, delay in zip(path.target, path.delays, strict=True)
    )
    caption = f"<caption>{escape(path.title)}</caption>"
    columns = f"<thead><tr><td></td>{head}</tr></thead>"
    return f"<table>{caption}\n{columns}\n<tbody>\n{rows}\n</tbody></table>"


def _cells(delay: int, columns: int) -> str:
    cells = [
        f'<td class="read">{"●" if column == delay else ""}</td>' for column in range(1, delay + 1)
    ]
    return "".join(cells + ["<td></td>"] * (columns - delay))


Series = Mapping[str, Sequence[tuple[float, float]]]
"""By name: points of latency and quality."""


def draw_curves(
    series: Series,
    file: str | Path,
    *,
    levels: Mapping[str, float] | None = None,
    apart: Sequence[str] = (),
    labels: tuple[str, str] = ("Average Lagging (tokens)", "BLEU"),
    title: str = "",
) -> None:
    """Quality against latency, a curve for each method; `levels` are drawn as horizontal lines.

    The settings of a method in `apart` lie on no curve and are drawn as points only.
    """
    figure = Figure(figsize=(7, 4.8), layout="constrained")
    axes = figure.subplots()
    _curves(axes, series, apart)
    for (name, value), dash in zip((levels or {}).items(), cycle(DASHES[1:]), strict=False):
        axes.axhline(
            value, color="#555555", linestyle=dash, linewidth=1, label=f"{name}: {value:.1f}"
        )
    _finish(axes, labels, title)
    _save(figure, file)


def draw_grid(
    dev_scores: Mapping[int, Mapping[int, float]], file: str | Path, title: str = ""
) -> None:
    """The paper's Figure 3: a line for each model, its dev BLEU under every wait-k policy."""
    if not dev_scores:
        raise ValueError(
            "there is no dev grid to draw; make it with python -m training.choose_ensembles"
        )
    models = sorted({model for row in dev_scores.values() for model in row})
    series = {
        f"model wait-{m}": [(float(k), row[m]) for k, row in sorted(dev_scores.items()) if m in row]
        for m in models
    }
    draw_curves(series, file, labels=("policy: wait-k", "dev BLEU"), title=title)


def _curves(axes: Any, series: Series, apart: Sequence[str]) -> None:
    styles = zip(cycle(COLOURS), cycle(MARKERS), cycle(DASHES), strict=False)
    for (name, points), (colour, marker, style) in zip(series.items(), styles, strict=False):
        dash = "none" if name in apart else style
        across, up = zip(*sorted(points), strict=True) if points else ((), ())
        axes.plot(
            across,
            up,
            color=colour,
            marker=marker,
            linestyle=dash,
            markersize=5,
            linewidth=1.3,
            label=name,
        )


def _finish(axes: Any, labels: tuple[str, str], title: str) -> None:
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(fontsize=8, loc="best", handlelength=3.5)
    if title:
        axes.set_title(title, loc="left", fontsize=10)


def _save(figure: Figure, file: str | Path) -> None:
    place = Path(file)
    if place.suffix not in FORMATS:
        raise ValueError(f"pictures are written as {', '.join(FORMATS)}; got {place.name!r}")
    place.parent.mkdir(parents=True, exist_ok=True)
    # Without a date and with fixed ids the same numbers give the same file.
    metadata = {"Date": None} if place.suffix == ".svg" else None
    with (
        matplotlib.rc_context({"svg.hashsalt": "hf_simultaneous", "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        if (
            place.suffix == ".svg"
        ):  # letters stay letters there, and whoever shows the picture has the font
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(place, dpi=150, metadata=metadata)
