r"""Sorts the sentences of an experiment by word order, so that each kind has a report of its own.

    python -m training.strata --experiment runs/europarl/experiment --alignments test.wa \
        --output runs/europarl/strata

Knows word alignments and logs; decodes nothing. Each stratum is an experiment of fewer sentences
below `--output`: `late`, where the last word of the source is needed early in the translation, as
a German verb often is, and `others`."""

import json
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hf_simultaneous.evaluation.anticipation import Alignment, read_alignments
from hf_simultaneous.evaluation.logs import LoggedSentence, read_log, write_log, write_text
from hf_simultaneous.evaluation.report import FACTS, load_experiment, log_path, write_report
from hf_simultaneous.words import source_words

from .checked import InputError
from .command import command_line, exit_code


LATE, OTHERS = "late", "others"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the command line asks for. A sentence is late if at least `words` words of its reference
    follow one that needs the last word of the source."""

    experiment: Path
    alignments: Path
    output: Path
    words: int = 3

    def __post_init__(self) -> None:
        if self.words < 1:
            raise InputError(f"--words must be at least 1; got {self.words}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return exit_code(lambda: print(split(parse(arguments))))


def parse(arguments: Sequence[str] | None) -> Plan:
    parser = command_line("strata", __doc__)
    parser.add_argument("--experiment", required=True, type=Path, help="a folder with logs")
    parser.add_argument(
        "--alignments",
        required=True,
        type=Path,
        help="a line a sentence, 0-0 2-1: source word and reference word, as spaces part them",
    )
    parser.add_argument("--output", required=True, type=Path, help="folder for the strata")
    parser.add_argument(
        "--words", type=int, default=3, help="that must follow what the last source word is for"
    )
    return Plan(**vars(parser.parse_args(arguments)))


def split(plan: Plan) -> str:
    """Write both strata; returns how many sentences each has."""
    experiment = load_experiment(plan.experiment)
    alignments = read_alignments(plan.alignments)
    lines = read_log(experiment.runs[0].log)
    if len(alignments) != len(lines):
        raise InputError(
            f"{plan.alignments} has {len(alignments)} lines, and the experiment {len(lines)} "
            f"sentences; align the sentences it was run on"
        )
    late = {
        line.index
        for line, alignment in zip(lines, alignments, strict=True)
        if is_late(line.source, line.reference, alignment, plan.words)
    }
    strata = {LATE: late, OTHERS: {line.index for line in lines} - late}
    empty = [name for name, members in strata.items() if len(members) < 2]
    if empty:
        raise InputError(f"no two sentences are {empty[0]!r}; choose another --words")
    for name, members in strata.items():
        folder = plan.output / name
        facts = {**experiment.facts, "test": f"{experiment.facts['test']}, {name}"}
        write_text(folder / FACTS, json.dumps({**facts, "sentences": len(members)}, indent=1))
        for run in experiment.runs:
            write_log(log_path(folder, run.method, run.setting), _only(read_log(run.log), members))
        write_report(folder)
    return ", ".join(f"{name}: {len(members)} sentences" for name, members in strata.items())


def is_late(source: str, reference: str, alignment: Alignment, words: int) -> bool:
    """Does a word of the reference with so many words after it need the last word of the
    source?"""
    last = len(source_words(source)) - 1
    while last > 0 and not re.search(r"\w", source_words(source)[last]):
        last -= 1
    needing = [place for place, latest in alignment.items() if latest >= last]
    spoken = [place for place, word in enumerate(reference.split()) if re.search(r"\w", word)]
    return bool(needing) and sum(place > min(needing) for place in spoken) >= words


def _only(lines: Sequence[LoggedSentence], members: Collection[int]) -> list[LoggedSentence]:
    """Some sentences, counted anew."""
    kept = [line for line in lines if line.index in members]
    return [replace(line, index=index, corpus_size=len(kept)) for index, line in enumerate(kept)]


if __name__ == "__main__":
    sys.exit(main())
