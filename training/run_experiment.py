"""The paper's protocol on any test set: every method, every setting, each decoded once; then the report.

    python -m training.run_experiment --set runs/toy/set --test test.de test.en --output runs/toy/experiment

Knows which settings there are; a run that was cut off goes on where it stopped. The report is the package's business.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.actions import Policy
from hf_simultaneous.calibration import read_config
from hf_simultaneous.evaluation import Decoding, decode_corpus, encoder_of, is_main_process
from hf_simultaneous.experiments import ADAPTIVE, FACTS, FULL_MODEL, fingerprint, log_path, scored, write_report
from hf_simultaneous.logs import write_log, write_text
from hf_simultaneous.policies import make_policy
from hf_simultaneous.reporting import read_sentences, with_ensembles

from .checked import InputError
from .command import exit_code
from .starting import keep_freed_memory


METHODS = (*ADAPTIVE, "wait-k", "test-time-wait-k", "wait-if-diff", "wait-if-worse", "full")


@dataclass(frozen=True)
class Setting:
    """One row of a table: its name there, its policy, and the beams of full-sentence search."""

    name: str
    policy: Policy
    beams: int = 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the command line asks for."""

    set: Path
    test: list[Path]
    output: Path
    methods: tuple[str, ...] = METHODS
    limit: int | None = None
    batch_size: int = 128
    beams: int = 10
    timed: int = 20

    def __post_init__(self) -> None:
        if len(self.test) < 2:
            raise InputError(f"--test is a source file and one or more references; got {len(self.test)} file")
        unknown = [name for name in self.methods if name not in METHODS]
        if unknown or not self.methods:
            raise InputError(f"--methods are {', '.join(METHODS)}; got {', '.join(unknown) or 'none'}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    keep_freed_memory()
    return exit_code(lambda: print(run_experiment(parse(arguments))), interrupted="the same command goes on")


def parse(arguments: Sequence[str] | None) -> Plan:
    parser = argparse.ArgumentParser(prog="python -m training.run_experiment", description=__doc__.splitlines()[0])
    parser.add_argument("--set", required=True, type=Path, help="a folder with a set of models")
    parser.add_argument("--test", required=True, nargs="+", type=Path, help="source file, then its references")
    parser.add_argument("--output", required=True, type=Path, help="folder for logs and report")
    parser.add_argument("--methods", nargs="+", default=METHODS, help="by default all of the paper's")
    parser.add_argument("--limit", type=int, help="only the first sentences")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--beams", type=int, default=10, help="of full-sentence beam search")
    parser.add_argument("--timed", type=int, default=20, help="sentences decoded live, for the time per token")
    given = vars(parser.parse_args(arguments))
    return Plan(**{**given, "methods": tuple(given["methods"])})


def run_experiment(plan: Plan) -> str:
    """Decode what is missing, then write the report; returns what it says first."""
    source, *references = (read_sentences(path, plan.limit) for path in plan.test)
    generator = AdaptiveWaitKGenerator.from_pretrained(plan.set)
    settings = {method: settings_of(method, generator, plan.beams) for method in METHODS if method in plan.methods}
    _check_members(generator, settings)
    generators = {method: with_ensembles(generator, method) for method in settings if method in ADAPTIVE}
    _claim_folder(plan, generator, settings, [source, *references])
    for method, rows in settings.items():
        for number, row in enumerate(rows, start=1):
            decoder = generators.get(method) or with_ensembles(generator, "single")
            log = log_path(plan.output, method, row.name)
            if not log.exists():
                decoding = Decoding(batch_size=plan.batch_size, beams=row.beams, timed=plan.timed)
                lines = decode_corpus(decoder, source, references, row.policy, decoding)
                if is_main_process():  # of several that share the sentences
                    write_log(log, lines)
            if is_main_process():
                scores = scored(log)
                place = f"{method} {number}/{len(rows)} {row.name}"
                print(f"{place}: BLEU {scores['bleu']:.2f}, AL {scores['al']:.3f}", flush=True)
    return write_report(plan.output) if is_main_process() else ""


def settings_of(method: str, generator: AdaptiveWaitKGenerator, beams: int = 10) -> list[Setting]:
    """The paper's settings of a method, for the ks of this set."""
    k_min, k_max = generator.policy.k_min, generator.policy.k_max
    if method in ("wait-k", "test-time-wait-k"):
        return [Setting(f"k={k}", make_policy(method, k=k)) for k in range(k_min, k_max + 1)]
    if method == "wait-if-diff":
        pairs = [(start, delta) for delta in (2, 4) for start in (4, 6)]
        return [Setting(f"start={s},delta={d}", make_policy(method, start=s, delta=d)) for s, d in pairs]
    if method == "wait-if-worse":
        pairs = [(start, delta) for delta in (1, 2) for start in (1, 2, 4, 6)]
        return [Setting(f"start={s},delta={d}", make_policy(method, start=s, delta=d)) for s, d in pairs]
    if method == "full":
        return [Setting("greedy", make_policy("full")), Setting(f"beam={beams}", make_policy("full"), beams)]
    lines = [(tenth / 10, 0.0) for tenth in range(2, 10)] + [(1.0, tenth / 10) for tenth in range(10)]
    return [
        Setting(f"rho{k_min}={a:g},rho{k_max}={b:g}", make_policy("adaptive", rho=(a, b), k_min=k_min, k_max=k_max))
        for a, b in lines
    ]


def _check_members(generator: AdaptiveWaitKGenerator, settings: dict[str, list[Setting]]) -> None:
    needing = [method for method in settings if method in FULL_MODEL]
    if needing and None not in generator.models:
        rest = " ".join(method for method in settings if method not in FULL_MODEL)
        raise InputError(
            f"{', '.join(needing)} need a full-sentence model, and the set has none. Train one, or leave them out: "
            f"--methods {rest}"
        )


def _claim_folder(
    plan: Plan, generator: AdaptiveWaitKGenerator, settings: dict[str, list[Setting]], texts: list[list[str]]
) -> None:
    """Write down what is run here; a folder that holds another experiment is refused."""
    full = generator.models.get(None)
    wait_k = {k: model for k, model in generator.models.items() if k is not None}
    facts = {
        "set": plan.set.name,
        "test": plan.test[0].stem,
        "sentences": len(texts[0]),
        "encoder": encoder_of(AdaptiveWaitKGenerator(wait_k or generator.models)),
        "full_encoder": full.config.encoder_attention if full is not None else "none",
        "fingerprint": _fingerprint(plan, texts),
        "dev_scores": generator.dev_scores,
        "settings": {method: [row.name for row in rows] for method, rows in settings.items()},
    }
    path = plan.output / FACTS
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["fingerprint"] != facts["fingerprint"]:
            raise InputError(
                f"{plan.output} holds an experiment with other models or sentences; give another --output"
            )
        facts["settings"] = {**known["settings"], **facts["settings"]}
    if is_main_process():
        write_text(path, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


def _fingerprint(plan: Plan, texts: list[list[str]]) -> str:
    """Changes with the models' weights, with what the set says of them, and with the sentences."""
    config = read_config(plan.set)
    return fingerprint(plan.set, [texts, *(config[name] for name in ("dev_scores", "early_stop", "history"))])


if __name__ == "__main__":
    sys.exit(main())
