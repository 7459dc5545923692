"""What the load test is made of: a server in its own process, speakers in another, and the figures
of one run.

Knows processes and percentiles; which runs there are, and what they must show, is `load.py`'s."""

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from benchmarks.speakers import Heard, Plan


LATE = 0.02
"""Seconds that the speakers themselves may be late; a run in which they were later says nothing."""
BUSY = 0.2
"""Cores that others may use; a run beside more than that says nothing of times."""
PATIENCE = 300.0
FIRST = (1, 16)
BRIEF = {"gap": 0.0, "warm": 0.0, "seconds": 1.5}
"""Who speaks before anything is measured: a process finds out the layouts that are fastest here for
one row and for many when they are first asked for."""


@dataclass(frozen=True)
class Served:
    """A server that is ready."""

    url: str
    process: psutil.Process

    @property
    def stream(self) -> str:
        return f"{self.url}/v1/stream"

    @property
    def workers(self) -> list[psutil.Process]:
        """The processes that hold models: Ray's replicas, or the server itself."""
        below = self.process.children(recursive=True)
        return [p for p in below if "ServeReplica" in " ".join(p.cmdline())] or [self.process]

    @property
    def cpu_seconds(self) -> float:
        return _seconds(self.workers)

    @property
    def beside_seconds(self) -> float:
        """Of the processes that hold no models: Ray's own, and what stands before its replicas."""
        everybody = {self.process, *self.process.children(recursive=True)}
        return _seconds(everybody - {*self.workers})


def _seconds(processes: Iterable[psutil.Process]) -> float:
    """Of a core, so far."""
    found = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            found += sum(process.cpu_times()[:2])
    return found


@contextmanager
def served(*options: str, port: int = 18770, threads: int = 1) -> Iterator[Served]:
    """`hf-simultaneous serve` with the built-in set."""
    command = [sys.executable, "-c", "from hf_simultaneous.cli import main; main()", "serve"]
    command += ["--port", str(port), "--threads", str(threads), "--drain", "1", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        while "ws://" not in (line := process.stdout.readline()):
            if not line:
                raise RuntimeError(f"{' '.join(command)} ended with {process.wait()}")
        served = Served(line.split("/v1/")[0].strip(), psutil.Process(process.pid))
        _wait_until_ready(served.url)
        for speakers in FIRST:
            ask("speakers", asdict(Plan(url=served.stream, speakers=speakers, **BRIEF)))
        yield served
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(url: str) -> None:
    from urllib.request import urlopen

    over = time.monotonic() + PATIENCE
    while time.monotonic() < over:
        try:
            with urlopen(f"{url.replace('ws', 'http', 1)}/readyz"):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"no server at {url}")


class Others:
    """How much of the machine is used by others than this process and those below it."""

    def __init__(self) -> None:
        self._began, self._used = time.monotonic(), self._seconds()

    def cores(self) -> float:
        """On average since this was made."""
        passed = max(time.monotonic() - self._began, 1e-3)
        return round(max(0.0, self._seconds() - self._used) / passed, 2)

    def _seconds(self) -> float:
        machine = psutil.cpu_times()._asdict()
        idle = ("idle", "iowait", "guest", "guest_nice")  # guests are counted as user, too
        return sum(spent for name, spent in machine.items() if name not in idle) - _ours()


def _ours() -> float:
    """Seconds of a core that we have used, those of children that are over included."""
    me = psutil.Process()
    found = 0.0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            found += sum(process.cpu_times()[:4])  # user and system, its own and its children's
    return found


def ask(module: str, plan: dict[str, Any]) -> Any:
    """Run a module of the benchmarks in its own process, and read what it prints."""
    command = [sys.executable, "-m", f"benchmarks.{module}", json.dumps(plan)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@dataclass(frozen=True)
class Outcome:
    """The figures of one run; times in milliseconds."""

    speakers: int
    admitted: int
    words: int
    words_per_second: float
    p50: float
    p95: float
    p99: float
    cpu_per_word: float
    """Of the server's process: what does not depend on who else uses the machine."""
    slowest_over_median: float
    """The mean wait of the slowest stream over that of the median stream."""
    refusals_p95: float | None
    failed: int
    lateness_p99: float
    others: float
    """Cores that others used meanwhile."""
    void: bool
    """Do the times mean nothing, because others used the machine or the speakers were late?"""
    beside_per_word: float = 0.0
    """Milliseconds of the server's processes that hold no models; most of it is there without
    words, too."""


def run(server: Served, plan: Plan) -> tuple[Outcome, list[Heard]]:
    """Let them speak."""
    before, beside, others = server.cpu_seconds, server.beside_seconds, Others()
    heard = [Heard(**one) for one in ask("speakers", asdict(plan))]
    cpu, beside = server.cpu_seconds - before, server.beside_seconds - beside
    return outcome(plan, heard, cpu, others.cores(), beside), heard


def outcome(
    plan: Plan, heard: Sequence[Heard], cpu: float, others: float, beside: float = 0.0
) -> Outcome:
    done = max(1, sum(one.done for one in heard))
    admitted = [one for one in heard if one.waits or one.failed]
    waits = [wait for one in admitted for wait in one.waits]
    means = [statistics.mean(one.waits) for one in admitted if one.waits]
    lateness = percentile([late for one in admitted for late in one.lateness], 99)
    refusals = [after for one in heard for after in one.refusals]
    return Outcome(
        speakers=plan.speakers + plan.too_many,
        admitted=len(admitted),
        words=len(waits),
        words_per_second=round(len(waits) / plan.seconds, 2),
        p50=percentile(waits, 50),
        p95=percentile(waits, 95),
        p99=percentile(waits, 99),
        cpu_per_word=round(1000 * cpu / done, 2),
        slowest_over_median=round(max(means) / statistics.median(means), 2) if means else math.nan,
        refusals_p95=percentile(refusals, 95) if refusals else None,
        failed=sum(one.failed is not None for one in heard),
        lateness_p99=lateness,
        others=others,
        void=others > BUSY or (plan.gap > 0 and lateness > 1000 * LATE),
        beside_per_word=round(1000 * beside / done, 2),
    )


def percentile(seconds: Sequence[float], share: float) -> float:
    """In milliseconds; the smallest value that is not below so many percent."""
    if not seconds:
        return math.nan
    place = max(0, math.ceil(share / 100 * len(seconds)) - 1)
    return round(1000 * sorted(seconds)[place], 1)
