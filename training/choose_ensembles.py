"""Which models speak at which k, and which write the tail: dev BLEU of every model under every
wait-k policy, then of tails under the set's own policy, kept in the set.

    python -m training.choose_ensembles --set runs/toy/set --dev dev.de dev.en

Knows the grid and where it is kept; the top-n of it are chosen by the package.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hf_simultaneous import AdaptiveWaitKGenerator, WaitK
from hf_simultaneous.actions import Policy
from hf_simultaneous.ensembles import choose_models
from hf_simultaneous.evaluation import (
    Decoding,
    decode_corpus,
    is_main_process,
    read_sentences,
    tail_named,
    text_decoding,
)
from hf_simultaneous.evaluation.fingerprints import fingerprint
from hf_simultaneous.evaluation.logs import write_text
from hf_simultaneous.evaluation.scores import texts
from hf_simultaneous.metrics import corpus_bleu
from hf_simultaneous.schedule import FULL, K
from hf_simultaneous.sets import policy_name, read_set_config, update_set_config
from hf_simultaneous.sharing.cards import renew_card

from .checked import InputError
from .command import command_line, exit_code
from .starting import keep_freed_memory


Grid = dict[int, dict[int, float]]
"""Policy k -> model -> dev BLEU."""

Tails = dict[tuple[str, int], float]
"""Who writes the tail, and with how many beams -> dev BLEU."""

BEAMS = (1, 5)
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
            raise InputError(
                f"--dev is a source file and one or more references; got {len(self.dev)} file"
            )
        if self.limit is not None and self.limit < 1:
            raise InputError(f"--limit must be at least 1; got {self.limit}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    keep_freed_memory()
    return exit_code(lambda: choose(parse(arguments)), interrupted="the same command goes on")


def parse(arguments: Sequence[str] | None) -> Plan:
    parser = command_line("choose_ensembles", __doc__)
    parser.add_argument("--set", required=True, type=Path, help="a folder with a set of models")
    parser.add_argument(
        "--dev", required=True, nargs="+", type=Path, help="source file, then its references"
    )
    parser.add_argument(
        "--ensembles", choices=("single", "top-3", "all"), default="top-3", help="used from then on"
    )
    parser.add_argument("--limit", type=int, help="only the first sentences")
    parser.add_argument("--batch-size", type=int, default=128)
    return Plan(**vars(parser.parse_args(arguments)))


def choose(plan: Plan) -> tuple[Grid, Tails]:
    """Fill the grid, then try tails with the ensembles that follow from it; write both into the
    set."""
    source, *references = (read_sentences(path, plan.limit) for path in plan.dev)
    generator = AdaptiveWaitKGenerator.from_pretrained(plan.set)
    trained = [k for k in generator.models if k != FULL]
    if not trained:
        raise InputError(
            f"{plan.set} has a full-sentence model only; a grid needs models trained with some k"
        )
    dev = _Dev(plan, source, references)
    decoding = Decoding(batch_size=plan.batch_size, timed=0, tail_beams=1, tail=None)
    grid: Grid = {
        k: {m: dev.bleu(generator, decoding, WaitK(k, models=(m,)), f"{k}/{m}") for m in trained}
        for k in generator.thresholds
    }
    ensembles = choose_models(
        plan.ensembles, list(generator.models), list(generator.thresholds), grid
    )
    tails = _try_tails(plan, dev, ensembles)
    if is_main_process():
        _keep(plan.set, grid, ensembles, generator, tails)
        dev.forget()
        print(table(grid))
        print(tail_table(tails))
    return grid, tails


class _Dev:
    """Dev BLEU of one way of decoding after another; what was measured before a run was cut off is
    not measured again."""

    def __init__(self, plan: Plan, source: list[str], references: Sequence[list[str]]):
        self._set = plan.set
        self._texts = (source, list(references))
        self._kept = plan.set / UNFINISHED
        self._known = json.loads(self._kept.read_text()) if self._kept.exists() else {}
        self._weights = fingerprint(plan.set, self._texts)

    def bleu(
        self,
        generator: AdaptiveWaitKGenerator,
        decoding: Decoding,
        policy: Policy | None,
        name: str,
    ) -> float:
        cell = f"{name}/{self._weights}"
        if cell not in self._known:
            lines = decode_corpus(generator, *self._texts, policy, decoding)
            self._known[cell] = corpus_bleu(*texts(lines)).value
            if is_main_process():  # of several that share the sentences
                write_text(self._kept, json.dumps(self._known))
        return float(self._known[cell])

    def forget(self) -> None:
        self._kept.unlink(missing_ok=True)


def _try_tails(plan: Plan, dev: _Dev, ensembles: Mapping[int, Sequence[K]]) -> Tails:
    """Tails are for text sessions, so the rest is decoded as they do: reading on, under the set's
    own thresholds."""
    generator = AdaptiveWaitKGenerator.from_pretrained(plan.set, ensembles=ensembles)
    names = ["k_max", "full", "all"] if FULL in generator.models else ["k_max", "all"]
    chosen = json.dumps([list(ensembles.items()), list(generator.thresholds.items())])
    tails: Tails = {}
    for name in names:
        for beams in BEAMS:
            decoding = text_decoding(
                generator,
                tail=tail_named(name, generator),
                tail_beams=beams,
                batch_size=plan.batch_size,
                timed=0,
            )
            cell = f"tail/{name}/{beams}/{chosen}"
            tails[name, beams] = dev.bleu(generator, decoding, None, cell)
    return tails


def best_tail(tails: Tails) -> tuple[str, int]:
    """The best on dev; of equals the first, which is the paper's."""
    return max(tails, key=lambda tail: tails[tail])


def _keep(
    folder: Path,
    grid: Grid,
    ensembles: Mapping[int, Sequence[K]],
    generator: AdaptiveWaitKGenerator,
    tails: Tails,
) -> None:
    name, beams = best_tail(tails)
    members = tail_named(name, generator)
    before = read_set_config(folder)
    update_set_config(
        folder,
        dev_scores={str(k): {str(m): bleu for m, bleu in row.items()} for k, row in grid.items()},
        ensembles={str(k): [str(m) for m in chosen] for k, chosen in ensembles.items()},
        tail_beams=beams,
        tail=None if members is None else [str(member) for member in members],
    )
    renew_card(folder, before)


def tail_table(tails: Tails) -> str:
    """Who writes the tail down, beams across; the best is marked."""
    best = best_tail(tails)
    lines = ["tail   " + "".join(f"{f'beam {beams}':>9}" for beams in BEAMS)]
    for name in dict.fromkeys(name for name, _ in tails):
        cells = [f"{tails[name, n]:>8.2f}{'*' if (name, n) == best else ' '}" for n in BEAMS]
        lines.append(f"{name:<7}" + "".join(cells))
    return "\n".join(lines)


def table(grid: Grid) -> str:
    """Policies down, models across; the best three of each policy are marked."""
    models = list(next(iter(grid.values())))
    lines = ["policy " + "".join(f"{f'M{m}':>9}" for m in models)]
    for k, row in grid.items():
        best = sorted(row, key=lambda model: -row[model])[:3]
        lines.append(
            f"{policy_name(k):<7}"
            + "".join(f"{row[m]:>8.2f}{'*' if m in best else ' '}" for m in models)
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
