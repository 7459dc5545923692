"""`make load`: how many live speakers does this machine carry? An open-loop load test of the real
server with the built-in set, speakers and server in processes of their own.

Prints the figures and the capacity, and writes load.json and a picture. What must hold is written
in `REQUIRED`, as ratios within one part, so that machines can be compared. `--only` runs some of
the `PARTS` and keeps what load.json has of the others."""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.bench import machine, versions
from benchmarks.load_picture import draw
from benchmarks.load_runs import BUSY, Others, Outcome, ask, percentile, run, served
from benchmarks.speakers import Heard, Plan


OUT = Path(__file__).parent / "out"
GAP = 0.4
"""Seconds from word to word at 150 words a minute."""
ROOMY = ("--max-streams", "1024")
STEPS = (1, 8, 32, 64, 128, 256)
UTILISATION = 0.7
"""Of a core, when its speakers are counted by its computing time alone."""

PARTS = ("batching", "curve", "flooded", "overloaded", "killed", "ray", "ray_killed")
"""What can be run by itself."""
NEED_CAPACITY = {"flooded", "overloaded"}
"""They need to know what `curve` finds out."""

# name: (what it is, what must hold, at least or at most)
REQUIRED: dict[str, tuple[str, float, str]] = {
    "batching_adaptive": ("words/s, 32 busy streams over 1, adaptive", 5.0, "≥"),
    "batching_wait3": ("words/s, 32 busy streams over 1, wait-3", 4.0, "≥"),
    "p95_at_32": ("p95 at 32 speakers over the gap between words", 1.0, "≤"),
    "p95_over_alone": ("p95 at 1 speaker over TextSession in process", 1.5, "≤"),
    "overload_p95": ("p95 of the admitted at twice capacity over p95 at capacity", 2.0, "≤"),
    "refusal_ms": ("milliseconds to be refused, p95", 200.0, "≤"),
    "slowest_stream": ("mean wait of the slowest stream over the median stream's", 2.0, "≤"),
    "flooded_p95": ("p95 of the others beside a stream that floods", 1.3, "≤"),
    "equal": ("share of sentences with the actions of TextSession", 0.999, "≥"),
    "killed_equal": ("server killed: share of streams with the same words", 1.0, "≥"),
    "killed_pause": ("server killed: longest pause in seconds", 2.0, "≤"),
    "ray_rate": ("Ray: words/s of a replica over embedded", 0.9, "≥"),
    "ray_added_ms": ("Ray: milliseconds added to p50", 10.0, "≤"),
    "ray_killed_equal": ("Ray, replica killed: share of streams with the same words", 1.0, "≥"),
    "ray_killed_pause": ("Ray, replica killed: longest pause in seconds", 2.0, "≤"),
}


@dataclass(frozen=True)
class Times:
    """How long each part takes."""

    warm: float = 10.0
    seconds: float = 60.0

    def plan(self, url: str, speakers: int, **more: Any) -> Plan:
        given = {"gap": GAP, "warm": self.warm, "seconds": self.seconds, **more}
        return Plan(url=url, speakers=speakers, **given)


class Load:
    """The runs, one after another; figures are kept as they come, so that a run that is broken off
    has something to show."""

    def __init__(self, times: Times, console: Console):
        self._times = times
        self._console = console
        self.rows: dict[str, float] = {}
        self.void: set[str] = set()
        """Rows whose times mean nothing: others used the machine, or the speakers were late."""
        self.runs: dict[str, Any] = {}
        self.parts: dict[str, Any] = {}
        """How each part was run."""
        self.curve: list[Outcome] = []
        self.capacity = 0
        self._session: dict[str, Any] = {}

    def restore(self, found: dict[str, Any]) -> None:
        """Go on from the load.json of an earlier run."""
        self.rows = {name: row["value"] for name, row in found["rows"].items()}
        self.void = {name for name, row in found["rows"].items() if row["void"]}
        self.runs = dict(found["runs"])
        self.parts = dict(found["parts"])
        points = [self.runs[name] for name in self.runs if _is_point(name)]
        self.curve = [Outcome(**{"others": 0.0, **point}) for point in points]
        self.capacity = found["capacity"]

    def run(self, parts: Sequence[str]) -> None:
        """Each part with servers of its own."""
        for part in PARTS:
            if part in NEED_CAPACITY and not self.capacity:
                continue
            if part in parts:
                others = Others()
                getattr(self, f"_{part}")()
                self.parts[part] = {**asdict(self._times), "others": others.cores()}

    def _run(self, name: str, server: Any, plan: Plan) -> tuple[Outcome, list[Heard]]:
        outcome, heard = run(server, plan)
        self.runs[name] = asdict(outcome)
        late = f"{outcome.lateness_p99:.0f} ms late, others used {outcome.others:g} cores"
        void = f"  VOID: {late}" if outcome.void else ""
        beside = f" + {outcome.beside_per_word:.1f}" if outcome.beside_per_word else ""
        self._console.print(
            f"{name:24} {outcome.words_per_second:7.1f} words/s  p50 {outcome.p50:7.1f}  p95 "
            f"{outcome.p95:7.1f}  p99 {outcome.p99:7.1f} ms  cpu {outcome.cpu_per_word:5.1f}"
            f"{beside} ms/word{void}",
            highlight=False,
        )
        return outcome, heard

    def _keep(self, name: str, value: float, *void: bool) -> None:
        """A figure; void if one of the runs that it rests on is."""
        self.rows[name] = value
        self.void.discard(name)
        if any(void):
            self.void.add(name)

    def _alone(self, seconds: float = 0.0) -> dict[str, Any]:
        """A `TextSession` in process; its times too, if it is given any."""
        if not self._session or seconds:
            warm = min(self._times.warm, seconds)
            self._session = ask("alone", {"gap": GAP, "warm": warm, "seconds": seconds})
        return self._session

    def _batching(self) -> None:
        """Streams that always have a word ready."""
        busy: dict[str, dict[int, Outcome]] = {"adaptive": {}, "wait3": {}}
        with served(*ROOMY) as server:
            for name, start in (("adaptive", {}), ("wait3", {"k": 3})):
                for speakers in (1, 32):
                    plan = self._times.plan(server.stream, speakers, gap=0.0, start=start)
                    busy[name][speakers], _ = self._run(f"busy {name} {speakers}", server, plan)
        for name, found in busy.items():
            rates = found[32].words_per_second, found[1].words_per_second
            self._keep(f"batching_{name}", rates[0] / rates[1], found[1].void, found[32].void)
            self.rows[f"batching_{name}_cpu"] = found[1].cpu_per_word / found[32].cpu_per_word
            speakers_per_core = UTILISATION * GAP * 1000 / found[32].cpu_per_word
            self.rows[f"speakers_per_core_{name}"] = speakers_per_core

    def _curve(self) -> None:
        """More and more speakers, until a word takes longer than the gap; then between."""
        self.curve = []
        self.runs = {name: run for name, run in self.runs.items() if not _is_point(name)}
        alone = self._alone(self._times.seconds)
        self.runs["alone"] = {f"p{p}": percentile(alone["waits"], p) for p in (50, 95, 99)}
        with served(*ROOMY) as server:
            for speakers in STEPS:
                outcome = self._point(server, speakers)
                if speakers > 32 and outcome.p95 > 1000 * GAP:
                    break
            for _ in range(2):
                if (between := self._between()) is not None:
                    self._point(server, between)
        good = [point.speakers for point in self.curve if point.p95 <= 1000 * GAP]
        self.capacity = max(good, default=0)
        by = {point.speakers: point for point in self.curve}
        self._keep("p95_at_32", by[32].p95 / (1000 * GAP), by[32].void)
        self._keep("p95_over_alone", by[1].p95 / percentile(alone["waits"], 95), by[1].void)
        self._keep("slowest_stream", by[32].slowest_over_median, by[32].void)

    def _point(self, server: Any, speakers: int) -> Outcome:
        plan = self._times.plan(server.stream, speakers, keep=speakers == 32)
        outcome, heard = self._run(f"{speakers} speakers", server, plan)
        self.curve.append(outcome)
        if plan.keep:
            said = _whole_sentences(heard)
            self.rows["equal"] = _share_equal(self._alone()["actions"], said)
        return outcome

    def _between(self) -> int | None:
        """Where to look for the capacity next."""
        good = [point.speakers for point in self.curve if point.p95 <= 1000 * GAP]
        bad = [point.speakers for point in self.curve if point.p95 > 1000 * GAP]
        if not good or not bad or min(bad) - max(good) < 2:
            return None
        return (min(bad) + max(good)) // 2

    def _flooded(self) -> None:
        """Half the capacity, with and without a stream that sends all it may."""
        speakers = max(1, self.capacity // 2)
        with served(*ROOMY) as server:
            calm, _ = self._run("calm", server, self._times.plan(server.stream, speakers))
            plan = self._times.plan(server.stream, speakers, flooders=1)
            flooded, _ = self._run("beside a flood", server, plan)
        self._keep("flooded_p95", flooded.p95 / calm.p95, calm.void, flooded.void)

    def _overloaded(self) -> None:
        """Twice as many as there is room for, half of whom try again and again."""
        room = self.capacity
        with served("--max-streams", str(room)) as server:
            at, _ = self._run("at capacity", server, self._times.plan(server.stream, room))
            plan = self._times.plan(server.stream, room, too_many=room)
            over, _ = self._run("twice capacity", server, plan)
        self._keep("overload_p95", over.p95 / at.p95, at.void, over.void)
        if over.refusals_p95 is not None:
            self._keep("refusal_ms", over.refusals_p95, over.void)

    def _killed(self) -> None:
        """One of two servers goes, in the middle of a sentence."""
        with served(port=18771) as first, served(port=18772) as second:
            plan = {"urls": [first.url, second.url], "pid": first.process.pid}
            self._outlive("killed", plan)

    def _ray(self) -> None:
        """The same runs on a replica of Ray Serve and on a server of its own."""
        found: dict[str, list[Outcome]] = {}
        for engine, options in (("embedded", ()), ("ray", ("--engine", "ray"))):
            with served(*ROOMY, *options, port=18773) as server:
                busy = self._times.plan(server.stream, 32, gap=0.0)
                calm = self._times.plan(server.stream, 8)
                found[engine] = [
                    self._run(f"{engine}, {name}", server, plan)[0]
                    for name, plan in (("busy 32", busy), ("8 of them", calm))
                ]
        (full, few), (ray_full, ray_few) = found["embedded"], found["ray"]
        rate = ray_full.words_per_second / full.words_per_second
        self._keep("ray_rate", rate, full.void, ray_full.void)
        self.rows["ray_rate_cpu"] = full.cpu_per_word / ray_full.cpu_per_word
        self._keep("ray_added_ms", ray_few.p50 - few.p50, few.void, ray_few.void)

    def _ray_killed(self) -> None:
        """One of two replicas goes."""
        with served("--engine", "ray", "--replicas", "2", port=18774) as server:
            plan = {"urls": [server.url], "pid": server.workers[0].pid}
            self._outlive("ray_killed", plan)

    def _outlive(self, name: str, plan: dict[str, Any]) -> None:
        others = Others()
        found = ask("outlive", {**plan, "speakers": 8, "gap": GAP})
        busy = others.cores() > BUSY
        self._keep(f"{name}_equal", _share_equal(self._alone()["actions"], found["told"]))
        self._keep(f"{name}_pause", max(found["pauses"]), busy)


def _is_point(name: str) -> bool:
    """Is this run one of the curve?"""
    return name.endswith(" speakers")


def _whole_sentences(heard: list[Heard]) -> Iterator[tuple[str, list[str]]]:
    """Every sentence that was heard to its end, by its words."""
    for one in heard:
        for told in one.sentences:
            source = [action[5:] for action in told if action.startswith("READ ")]
            yield " ".join(source), told


def _share_equal(expected: dict[str, list[str]], told: Any) -> float:
    equal = [expected[sentence] == actions for sentence, actions in told]
    return sum(equal) / len(equal) if equal else 0.0


def holds(name: str, value: float) -> bool:
    _, bound, sign = REQUIRED[name]
    return value >= bound if sign == "≥" else value <= bound


def print_table(rows: dict[str, float], void: set[str], console: Console) -> None:
    table = Table(title="What must hold")
    for column in ("", "measured", "must", "holds"):
        table.add_column(column, justify="left" if not column else "right")
    for name, (what, bound, sign) in REQUIRED.items():
        value = rows.get(name)
        shown = "not run" if value is None else f"{value:.3g}"
        table.add_row(what, shown, f"{sign} {bound:g}", _verdict(name, value, void))
    console.print(table)


def _verdict(name: str, value: float | None, void: set[str]) -> str:
    if value is None:
        return ""
    if name in void:
        return "void"
    return "yes" if holds(name, value) else "NO"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make load", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="eight seconds a run")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, metavar="PART", help=f"some of {', '.join(PARTS)}"
    )
    parser.add_argument("--capacity", type=int, help="take it as given, not from `curve`")
    parser.add_argument("--output", type=Path, default=OUT)
    arguments = parser.parse_args()
    console = Console()
    seconds = 8.0 if arguments.quick else arguments.seconds
    load = Load(Times(warm=min(10.0, seconds / 4), seconds=seconds), console)
    before = arguments.output / "load.json"
    if arguments.only and before.exists():
        load.restore(json.loads(before.read_text()))
    load.capacity = arguments.capacity or load.capacity
    only = set(arguments.only or PARTS)
    if NEED_CAPACITY & only and "curve" not in only and not load.capacity:
        parser.error(
            f"{', '.join(sorted(NEED_CAPACITY))} need the capacity: run `curve` first, or say "
            "--capacity"
        )
    try:
        load.run(arguments.only or PARTS)
    finally:
        print_table(load.rows, load.void, console)
        _write(load, arguments.output)
    console.print(
        f"capacity: {load.capacity} speakers of 150 words a minute with p95 ≤ {1000 * GAP:g} ms",
        highlight=False,
    )
    if "speakers_per_core_adaptive" in load.rows:
        per_core = load.rows["speakers_per_core_adaptive"]
        told = f"by computing time alone {per_core:.0f} a core at {UTILISATION:.0%} load"
        console.print(told, highlight=False)


def _write(load: Load, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        "machine": machine(),
        "versions": versions(),
        "parts": load.parts,
        "capacity": load.capacity,
        "rows": {
            name: {
                "value": value,
                "void": name in load.void,
                "holds": holds(name, value) if name in REQUIRED and name not in load.void else None,
            }
            for name, value in load.rows.items()
        },
        "runs": load.runs,
    }
    (folder / "load.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if load.curve:
        points = sorted(load.curve, key=lambda point: point.speakers)
        others = load.parts.get("curve", {}).get("others", 0.0)
        draw(points, 1000 * GAP, others, folder / "load.png")


if __name__ == "__main__":
    main()
