"""The soak test of the server: speakers for ten minutes, and for each minute how long a word took,
on the clock and of a core, and how much memory the server held. The last minute must be as the
second was; where others use the machine, only the core's time can tell."""

import argparse
import threading
import time
from collections import Counter
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple

from benchmarks.load_runs import BUSY, Others, Served, ask, percentile, served
from benchmarks.speakers import Heard, Plan


STEADY = 1.2
"""The last minute's 95th percentile over that of the second, at most."""


def by_minute(heard: list[Heard], minutes: int) -> list[list[float]]:
    """How long the words of each minute took, in seconds."""
    found: list[list[float]] = [[] for _ in range(minutes)]
    for one in heard:
        for due, wait in zip(one.dues, one.waits, strict=True):
            found[min(minutes - 1, int(due // 60))].append(wait)
    return found


def done_by_minute(heard: list[Heard], minutes: int) -> list[int]:
    """How many words were done in each minute, whenever they were due."""
    both = [pair for one in heard for pair in zip(one.dues, one.waits, strict=True)]
    found = Counter(int((due + wait) // 60) for due, wait in both)
    return [found[minute] for minute in range(minutes)]


class Held(NamedTuple):
    """What the server had used by the end of a minute, and how many cores others used in it."""

    cpu_seconds: float
    mebibytes: float
    others: float


def watch(server: Served, minutes: int, held: list[Held]) -> None:
    for _ in range(minutes):
        others = Others()
        time.sleep(60)
        resident = server.process.memory_info().rss / 2**20
        held.append(Held(server.cpu_seconds, resident, others.cores()))


def steady(name: str, values: list[float]) -> str:
    ratio = values[-1] / values[1]
    verdict = "steady" if ratio <= STEADY else f"NOT steady: at most {STEADY} is"
    return f"{name}, the last minute over the second: {ratio:.2f}, {verdict}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--speakers", type=int, default=16, help="the capacity `make load` prints")
    arguments = parser.parse_args()
    held: list[Held] = []
    with served("--max-streams", str(arguments.speakers)) as server:
        before = server.cpu_seconds
        watcher: Any = threading.Thread(target=watch, args=(server, arguments.minutes, held))
        watcher.start()
        seconds = 60.0 * arguments.minutes
        plan = Plan(url=server.stream, speakers=arguments.speakers, warm=0.0, seconds=seconds)
        heard = [Heard(**one) for one in ask("speakers", asdict(plan))]
        watcher.join()
    waits = by_minute(heard, arguments.minutes)
    used = [now - then for then, now in pairwise([before, *(now.cpu_seconds for now in held)])]
    times = [percentile(one, 95) for one in waits]
    done = done_by_minute(heard, arguments.minutes)
    costs = [1000 * cpu / max(1, words) for cpu, words in zip(used, done, strict=True)]
    heads = ("minute", "done", "p95 ms", "core ms/word", "MiB resident", "others' cores")
    print("  ".join(heads))
    rows = zip(done, times, costs, held, strict=True)
    for minute, (words, p95, cost, now) in enumerate(rows, 1):
        cells = (minute, words, f"{p95:.1f}", f"{cost:.2f}", f"{now.mebibytes:.1f}", now.others)
        sized = zip(cells, heads, strict=True)
        print("  ".join(f"{cell:>{len(head)}}" for cell, head in sized))
    if arguments.minutes > 2:
        busy = max(now.others for now in held) > BUSY
        print("p95 is VOID: others used the machine" if busy else steady("p95", times))
        print(steady("computing", costs))


if __name__ == "__main__":
    main()
