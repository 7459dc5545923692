"""Which models speak at which k: dev BLEU of every model under every wait-k policy, kept in the set.

    python -m training.choose_ensembles --set runs/toy/set --dev dev.de dev.en

Knows the grid and where it is kept; the top-n of it are chosen by the package.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hf_simultaneous import AdaptiveWaitKGenerator, WaitK
from hf_simultaneous.calibration import update_config
from hf_simultaneous.evaluation import Decoding, decode_corpus, is_main_process
from hf_simultaneous.experiments import fingerprint
from hf_simultaneous.logs import write_text
from hf_simultaneous.members import choose_members
from hf_simultaneous.metrics import corpus_bleu
from hf_simultaneous.reporting import read_sentences
from hf_simultaneous.scores import texts

from .checked import InputError
from .command import exit_code
from .starting import keep_freed_memory


Grid = dict[int, dict[int, float]]
"""Policy k -> model -> dev BLEU."""

UNFINISHED = "dev_grid.json"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the command line asks for. `ensembles` is what the set uses from then on."""

    set: Path
    dev: list[Path]
    ensembles: str = "top-3"
    limit: int | None = None
    batch_size: int = 128

    def __post_init__(self) -> None:
        if len(self.dev) < 2:
            raise InputError(f"--dev is a source file and one or more references; got {len(self.dev)} file")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    keep_freed_memory()
    return exit_code(lambda: choose(parse(arguments)), interrupted="the same command goes on")


def parse(arguments: Sequence[str] | None) -> Plan:
    parser = argparse.ArgumentParser(prog="python -m training.choose_ensembles", description=__doc__.splitlines()[0])
    parser.add_argument("--set", required=True, type=Path, help="a folder with a set of models")
    parser.add_argument("--dev", required=True, nargs="+", type=Path, help="source file, then its references")
    parser.add_argument("--ensembles", choices=("single", "top-3", "all"), default="top-3", help="used from then on")
    parser.add_argument("--limit", type=int, help="only the first sentences")
    parser.add_argument("--batch-size", type=int, default=128)
    return Plan(**vars(parser.parse_args(arguments)))


def choose(plan: Plan) -> Grid:
    """Fill the grid and write it, and the ensembles that follow from it, into the set."""
    source, *references = (read_sentences(path, plan.limit) for path in plan.dev)
    generator = AdaptiveWaitKGenerator.from_pretrained(plan.set)
    trained = [k for k in generator.models if k is not None]
    if not trained:
        raise InputError(f"{plan.set} has a full-sentence model only; a grid needs models trained with some k")
    decoding = Decoding(batch_size=plan.batch_size, timed=0)
    kept, grid = plan.set / UNFINISHED, Grid()
    known = json.loads(kept.read_text()) if kept.exists() else {}
    made_with = fingerprint(plan.set, [source, references])
    for k in generator.thresholds:
        for model in trained:
            cell = f"{k}/{model}/{made_with}"
            if cell not in known:
                lines = decode_corpus(generator, source, references, WaitK(k, models=(model,)), decoding)
                known[cell] = corpus_bleu(*texts(lines)).value
                if is_main_process():  # of several that share the sentences
                    write_text(kept, json.dumps(known))
            grid.setdefault(k, {})[model] = known[cell]
    ensembles = choose_members(plan.ensembles, list(generator.models), list(generator.thresholds), grid)
    if is_main_process():
        _keep(plan.set, grid, ensembles)
        kept.unlink(missing_ok=True)
        print(table(grid))
    return grid


def _keep(folder: Path, grid: Grid, ensembles: Mapping[int, Sequence[int | None]]) -> None:
    update_config(
        folder,
        dev_scores={str(k): {str(m): bleu for m, bleu in row.items()} for k, row in grid.items()},
        ensembles={str(k): [str(m) for m in members] for k, members in ensembles.items()},
    )


def table(grid: Grid) -> str:
    """Policies down, models across; the best three of each policy are marked."""
    models = list(next(iter(grid.values())))
    lines = ["policy " + "".join(f"{f'M{m}':>9}" for m in models)]
    for k, row in grid.items():
        best = sorted(row, key=lambda model: -row[model])[:3]
        lines.append(f"wait-{k:<2}" + "".join(f"{row[m]:>8.2f}{'*' if m in best else ' '}" for m in models))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
