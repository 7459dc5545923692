"""The soak test of the server: speakers for ten minutes, and for each minute how long a word took
and how much memory the server held. The last minute must be as the second was."""

import argparse
import threading
import time
from dataclasses import asdict
from typing import Any

from benchmarks.load_runs import Served, ask, percentile, served
from benchmarks.speakers import Heard, Plan


STEADY = 1.2
"""The last minute's 95th percentile over that of the second, at most."""


def by_minute(heard: list[Heard], minutes: int) -> list[float]:
    """The 95th percentile of each minute, in milliseconds."""
    found: list[list[float]] = [[] for _ in range(minutes)]
    for one in heard:
        for due, wait in zip(one.dues, one.waits, strict=True):
            found[min(minutes - 1, int(due // 60))].append(wait)
    return [percentile(waits, 95) for waits in found]


def watch(server: Served, minutes: int, memory: list[float]) -> None:
    for _ in range(minutes):
        time.sleep(60)
        memory.append(server.process.memory_info().rss / 2**20)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--speakers", type=int, default=16, help="the capacity `make load` prints")
    arguments = parser.parse_args()
    memory: list[float] = []
    with served("--max-streams", str(arguments.speakers)) as server:
        watcher: Any = threading.Thread(target=watch, args=(server, arguments.minutes, memory))
        watcher.start()
        seconds = 60.0 * arguments.minutes
        plan = Plan(url=server.stream, speakers=arguments.speakers, warm=0.0, seconds=seconds)
        heard = [Heard(**one) for one in ask("speakers", asdict(plan))]
        watcher.join()
    times = by_minute(heard, arguments.minutes)
    print(f"{'minute':>6}  {'p95 ms':>8}  {'MiB resident':>12}")
    for minute, (p95, held) in enumerate(zip(times, memory, strict=True), 1):
        print(f"{minute:6}  {p95:8.1f}  {held:12.1f}")
    if arguments.minutes > 2:
        ratio = times[-1] / times[1]
        verdict = "steady" if ratio <= STEADY else f"NOT steady: at most {STEADY} is"
        print(f"the last minute over the second: {ratio:.2f}, {verdict}")


if __name__ == "__main__":
    main()
