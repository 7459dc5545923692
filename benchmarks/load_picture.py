"""The picture of the load test: word-to-done over the number of speakers."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.load_runs import Outcome
from hf_simultaneous.evaluation.plots import COLOURS, DASHES, MARKERS


def draw(points: Sequence[Outcome], gap: float, others: float, file: Path) -> None:
    """p50, p95 and p99 in milliseconds; the line is the gap between two words."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    speakers = [point.speakers for point in points]
    for place, name in enumerate(("p50", "p95", "p99")):
        values = [getattr(point, name) for point in points]
        style = {"color": COLOURS[place], "marker": MARKERS[place], "linestyle": DASHES[place]}
        axes.plot(speakers, values, label=name, **style)
    axes.axhline(gap, color="0.4", linewidth=1)
    note = {"color": "0.3", "fontsize": 9}
    axes.text(speakers[0], gap * 1.05, f"the next word comes ({gap:g} ms)", **note)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(speakers, [str(count) for count in speakers])
    axes.set_xlabel("speakers of 150 words a minute")
    axes.set_ylabel("word to done, ms")
    busy = f"; other programs kept {others:.1f} cores busy" if others > 0.2 else ""
    void = "; speakers late" if any(point.void for point in points) else ""
    axes.set_title(f"Built-in set, one process{busy}{void}", fontsize=10)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)
