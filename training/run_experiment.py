r"""The paper's protocol on any test set: every method, every setting, each decoded once; then the
report.

    python -m training.run_experiment --set runs/toy/set --test test.de test.en \
        --output runs/toy/experiment

Knows the command line and the paper's rules for it; experiments are the package's business, and a
run that was cut off goes on where it stopped."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.evaluation import Decoding, read_sentences, tail_named
from hf_simultaneous.evaluation.experiment import (
    LINES,
    METHODS,
    PAPER,
    Setting,
    Trial,
    run,
    settings_of,
)
from hf_simultaneous.evaluation.fingerprints import fingerprint
from hf_simultaneous.evaluation.report import ADAPTIVE, OFFLINE
from hf_simultaneous.sets import read_set_config

from .checked import InputError
from .command import command_line, exit_code
from .starting import keep_freed_memory


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the command line asks for. The tail is that of every method but `full`, whose rows are
    searches of their own."""

    set: Path
    test: list[Path]
    output: Path
    methods: tuple[str, ...] = PAPER
    limit: int | None = None
    batch_size: int = 128
    beams: int = 10
    timed: int = 20
    tail_beams: int = 1
    tail: str = "k_max"
    every: int = 1
    lines: str = LINES[0]

    def __post_init__(self) -> None:
        if len(self.test) < 2:
            raise InputError(
                f"--test is a source file and one or more references; got {len(self.test)} file"
            )
        if self.limit is not None and self.limit < 1:
            raise InputError(f"--limit must be at least 1; got {self.limit}")
        unknown = [name for name in self.methods if name not in METHODS]
        if unknown or not self.methods:
            raise InputError(
                f"--methods are {', '.join(METHODS)}; got {', '.join(unknown) or 'none'}"
            )
        if self.every < 1:
            raise InputError(f"--every must be at least 1; got {self.every}")

    def settings(self, method: str, generator: AdaptiveWaitKGenerator) -> list[Setting]:
        """A method's settings; of the adaptive ones, which are many, perhaps only every second."""
        found = settings_of(method, generator, self.beams, self.lines)
        return found[:: self.every] if method in ADAPTIVE else found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    keep_freed_memory()
    return exit_code(
        lambda: print(run_experiment(parse(arguments))), interrupted="the same command goes on"
    )


def parse(arguments: Sequence[str] | None) -> Plan:
    parser = command_line("run_experiment", __doc__)
    parser.add_argument("--set", required=True, type=Path, help="a folder with a set of models")
    parser.add_argument(
        "--test", required=True, nargs="+", type=Path, help="source file, then its references"
    )
    parser.add_argument("--output", required=True, type=Path, help="folder for logs and report")
    parser.add_argument(
        "--methods",
        nargs="+",
        default=PAPER,
        help=f"by default all of the paper's; besides: {', '.join(OFFLINE)}",
    )
    parser.add_argument("--limit", type=int, help="only the first sentences")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--beams", type=int, default=10, help="of full-sentence beam search")
    parser.add_argument(
        "--timed", type=int, default=20, help="sentences decoded live, for the time per token"
    )
    parser.add_argument(
        "--tail-beams", type=int, default=1, help="that search every method's tail; 1 is greedy"
    )
    parser.add_argument(
        "--tail", default="k_max", help="who writes it: k_max, full, all, or members such as 1,3"
    )
    parser.add_argument(
        "--every", type=int, default=1, help="2: every second of the thresholds' settings"
    )
    parser.add_argument(
        "--lines",
        choices=LINES,
        default=LINES[0],
        help="of the thresholds: the paper's 18, all to k_max; or steep, from 1 to 0 at every k",
    )
    given = vars(parser.parse_args(arguments))
    return Plan(**{**given, "methods": tuple(given["methods"])})


def run_experiment(plan: Plan) -> str:
    """Decode what is missing, then write the report; returns what it says first."""
    source, *references = (read_sentences(path, plan.limit) for path in plan.test)
    generator = AdaptiveWaitKGenerator.from_pretrained(plan.set).with_ensembles("single")
    trial = Trial(
        output=plan.output,
        generator=generator,
        methods={
            method: plan.settings(method, generator) for method in METHODS if method in plan.methods
        },
        source=source,
        references=references,
        decoding=Decoding(
            batch_size=plan.batch_size,
            timed=plan.timed,
            tail_beams=plan.tail_beams,
            tail=tail_named(plan.tail, generator),
        ),
        names=(plan.set.name, plan.test[0].stem),
        fingerprint=_fingerprint(plan, [source, *references]),
    )
    return run(trial, tell=partial(print, flush=True))


def _fingerprint(plan: Plan, texts: list[list[str]]) -> str:
    """Changes with the models, with what the set says of them, with the sentences, and with the
    tail where it is not the paper's."""
    config = read_set_config(plan.set)
    told = ("dev_scores", "early_stop", "history", "source_language", "target_language")
    given = [texts, *(config.get(name) for name in told)]
    tail = (plan.tail_beams, plan.tail)
    return fingerprint(plan.set, given if tail == (1, "k_max") else [*given, tail])


if __name__ == "__main__":
    sys.exit(main())
