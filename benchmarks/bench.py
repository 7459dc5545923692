"""`make bench`: the cost of every way of decoding, as ratios inside one run, in a table and in
JSON.

Repeats are interleaved and ratios taken within a repeat, so that a noisy machine disturbs both
sides alike."""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from benchmarks.corpus import cache_bytes, growth, streams, throughput
from benchmarks.families import family_jobs
from benchmarks.jobs import Job, make_models, standard_jobs
from benchmarks.training_loop import training_speed_ratio
from benchmarks.yardstick import ctranslate2_job


# name in the JSON: time per token of one job over that of another
RATIOS = {
    "wait3_vs_marian_greedy": ("wait3_known", "marian_greedy"),
    "wait3_live_vs_marian_greedy": ("wait3", "marian_greedy"),
    "single_live_vs_marian_greedy": ("single", "marian_greedy"),
    "int8_wait3_vs_marian_greedy": ("int8_wait3_known", "marian_greedy"),
    "int8_single_live_vs_marian_greedy": ("int8_single", "marian_greedy"),
    "int8_top3_live_vs_marian_greedy": ("int8_top3", "marian_greedy"),
    "single_vs_wait3": ("single", "wait3"),
    "top3_vs_wait3": ("top3", "wait3"),
    "single_one_encoder_vs_wait3": ("single_shared", "wait3"),
    "top3_one_encoder_vs_wait3": ("top3_shared", "wait3"),
    "all_vs_wait3": ("all", "wait3"),
    "path_vs_wait3": ("path", "wait3"),
    "tail_search_vs_wait3": ("tail", "wait3"),
    "scratch_pass_vs_single": ("scratch_pass", "single"),
    "scratch_steps_vs_single": ("scratch_steps", "single"),
}
QUICK = {name for pair in RATIOS.values() for name in pair} - {"all", "scratch_steps", "tail"}
"""The jobs of the short version."""
BUSY = 0.25
"""How much longer than its shortest the longest repeat of a job may take, in the median over jobs,
on a machine that does nothing else."""
SHARE = 0.9
"""How much of the time a core must have been ours."""


def seconds(run: Callable[[], Any]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def time_jobs(jobs: dict[str, Job], repeats: int, label: str) -> dict[str, list[float]]:
    """Seconds per written token of every job in every repeat, after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    with tqdm(total=(repeats + 1) * len(jobs), desc=label) as progress:
        for repeat in range(repeats + 1):
            for name, job in jobs.items():
                taken = seconds(job.run) / job.tokens
                if repeat:
                    times[name].append(taken)
                progress.update()
    return times


def ratios_of(times: dict[str, list[float]]) -> dict[str, float]:
    """Every ratio of the table, the median over repeats."""
    return {
        name: statistics.median(a / b for a, b in zip(times[above], times[below], strict=True))
        for name, (above, below) in RATIOS.items()
        if above in times and below in times
    }


def spread_of(times: dict[str, list[float]]) -> float:
    """How far the repeats of a job lie apart, in the median over jobs: 0.1 is a tenth."""
    return statistics.median(max(found) / min(found) - 1 for found in times.values())


def rows_of(
    jobs: dict[str, Job], times: dict[str, list[float]], size: str, threads: int
) -> list[dict[str, Any]]:
    """A row per job: milliseconds per token and per prediction, and its ratio to wait-3 live."""
    rows = []
    for name, job in jobs.items():
        per_token = statistics.median(times[name])
        ratio = statistics.median(a / b for a, b in zip(times[name], times["wait3"], strict=True))
        rows.append(
            {
                "name": name,
                "what": job.name,
                "size": size,
                "threads": threads,
                "ms_per_token": 1000 * per_token,
                "ms_per_prediction": 1000 * per_token * job.tokens / job.predictions,
                "vs_wait3_live": ratio,
            }
        )
    return rows


def print_rows(rows: list[dict[str, Any]], console: Console) -> None:
    """The table a person reads."""
    table = Table(title=f"{rows[0]['size']}, {rows[0]['threads']} threads, 28 tokens")
    table.add_column("")
    for column in ("ms / token", "ms / prediction", "/ wait-3 live"):
        table.add_column(column, justify="right")
    for row in rows:
        numbers = (row["ms_per_token"], row["ms_per_prediction"], row["vs_wait3_live"])
        table.add_row(row["what"], *(f"{number:.2f}" for number in numbers))
    console.print(table)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = next(
        (line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")),
        "unknown",
    )
    return {
        "cpu": cpu,
        "cores": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def versions() -> dict[str, str | None]:
    """Of the libraries that matter for speed."""
    found: dict[str, str | None] = {}
    for name in ("torch", "transformers", "hf_simultaneous", "ctranslate2"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def run(size: str, quick: bool, console: Console) -> dict[str, Any]:
    """Everything, as the dictionary that is written to bench.json."""
    cores = torch.get_num_threads()
    repeats = 2 if quick else 5
    models = make_models(size)
    jobs = {
        name: job for name, job in standard_jobs(models, 28).items() if not quick or name in QUICK
    }
    result: dict[str, Any] = {
        "machine": machine(),
        "versions": versions(),
        "size": size,
        "rows": [],
    }
    for threads in (
        (cores,) if quick or cores == 1 else (1, cores)
    ):  # the machine's own number last: it sets the ratios
        torch.set_num_threads(threads)
        began = time.perf_counter(), time.process_time()
        times = time_jobs(jobs, repeats, f"{size}, {threads} threads")
        taken = time.perf_counter() - began[0]
        result["share"] = round((time.process_time() - began[1]) / taken, 2)
        rows = rows_of(jobs, times, size, threads)
        print_rows(rows, console)
        result["rows"] += rows
        result["ratios"] = ratios_of(times)
        result["spread"] = round(spread_of(times), 3)
    result["busy"] = result["spread"] > BUSY or result["share"] < SHARE
    result["cache_bytes"] = cache_bytes(models)
    result["growth"] = growth(models, quick)
    if not quick:
        result["ratios"]["training_speed_vs_marian"] = training_speed_ratio(size, repeats * 3)
    for one in {size, "tiny"}:
        result["ratios"].update(family_ratios(one, repeats))
    result["throughput"] = throughput(quick)
    result["ratios"].update(result["throughput"].pop("ratios"))
    result["live_streams"] = streams(quick)
    result["ratios"]["live32_vs_live1"] = result["live_streams"][32] / result["live_streams"][1]
    result["ctranslate2_ms_per_token"] = yardstick(models, repeats)
    if (theirs := result["ctranslate2_ms_per_token"]["int8"]) is not None:
        ours = next(row for row in rows if row["name"] == "int8_wait3_known")
        result["ratios"]["int8_wait3_vs_ctranslate2_int8"] = ours["ms_per_token"] / theirs
    return result


def family_ratios(size: str, repeats: int) -> dict[str, float]:
    """Stock models of other families, live test-time wait-3 over their own `generate`."""
    times = time_jobs(family_jobs(size), repeats, f"{size}, other families")
    families = [name.removesuffix("_wait3") for name in times if name.endswith("_wait3")]
    suffix = "" if size == "base" else f"_{size}"
    return {
        f"{name}_wait3_live_vs_generate{suffix}": statistics.median(
            a / b for a, b in zip(times[f"{name}_wait3"], times[f"{name}_generate"], strict=True)
        )
        for name in families
    }


def yardstick(models: dict[int | None, Any], repeats: int) -> dict[str, float | None]:
    """CTranslate2's times, after all others: its threads spin on after a call and would slow down
    what follows. None where it is not installed."""
    found: dict[str, float | None] = {}
    for precision in ("float32", "int8"):
        job = ctranslate2_job(models, 28, precision)
        found[precision] = None
        if job is not None:
            times = time_jobs({"": job}, repeats, job.name)[""]
            found[precision] = 1000 * statistics.median(times)
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--size", choices=("base", "tiny"), default="base")
    parser.add_argument(
        "--quick", action="store_true", help="two minutes at most: every ratio, fewer repeats"
    )
    parser.add_argument("--output", type=Path, default=Path("benchmarks/out/bench.json"))
    arguments = parser.parse_args()
    console = Console()
    result = run(arguments.size, arguments.quick, console)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    console.print(
        f"\ncache per stream: "
        f"{ {k: f'{v / 2**20:.1f} MiB' for k, v in result['cache_bytes'].items()} }"
    )
    console.print(f"ms per token by length (single, live): {result['growth']}")
    console.print(f"sentences per second: {result['throughput']}")
    console.print(f"tokens per second of live streams: {result['live_streams']}\n")
    for precision, taken in result["ctranslate2_ms_per_token"].items():
        told = "skipped, not installed" if taken is None else f"{taken:.2f} ms per token"
        console.print(f"CTranslate2 {precision}, full sentence: {told}")
    console.print(f"\n{result['machine']}, versions {result['versions']}")
    if result["busy"]:
        console.print(
            f"busy: repeats differ by {result['spread']:.0%} and a core was ours "
            f"{result['share']:.0%} of the time, so another load disturbed this run; measure again"
        )
    for name, ratio in sorted(result["ratios"].items()):
        console.print(f"{name:32} {ratio:6.2f}")
    console.print(f"\nwritten to {arguments.output}")


if __name__ == "__main__":
    main()
