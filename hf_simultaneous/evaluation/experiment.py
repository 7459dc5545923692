"""An experiment: methods, each in several settings, all on the same sentences; then the report.

Knows which settings there are, and the folder they are logged in: each is decoded once, and what
was cut off goes on. Decoding, scores and the report are made elsewhere."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..actions import Policy
from ..generation import AdaptiveWaitKGenerator
from ..policies import Adaptive, make_policy
from ..schedule import FULL, K
from ..text_session import operating_points
from .corpus import decode_corpus, encoder_of_models
from .decoding import Decoding
from .logs import write_log, write_text
from .processes import is_main_process
from .report import ADAPTIVE, FACTS, FULL_MODEL, log_path, scored, write_report
from .report import METHODS as METHODS
from .report import PAPER as PAPER


STEEP = "steep"
LINES = ("paper", STEEP)
"""Families of thresholds, see `_lines`."""


@dataclass(frozen=True)
class Setting:
    """One row of a table: its name there, its policy, the beams of full-sentence search, and
    whether the report's table of times shows it."""

    name: str
    policy: Policy
    beams: int = 1
    in_time_table: bool = False


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is compared, on which sentences, and where the logs go.

    `single`, `top-3` and `all` are made of the generator; every other method takes it as it is.
    Methods in `anew` are decoded although there is a log: what they are may have changed."""

    output: Path
    generator: AdaptiveWaitKGenerator
    methods: Mapping[str, Sequence[Setting]]
    source: Sequence[str]
    references: Sequence[Sequence[str]]
    decoding: Decoding
    names: tuple[str, str]
    """Of the set and of the test, for the report."""
    fingerprint: str
    anew: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        needing = [method for method in self.methods if method in FULL_MODEL]
        if needing and FULL not in self.generator.models:
            rest = ", ".join(method for method in self.methods if method not in FULL_MODEL)
            raise ValueError(
                f"{', '.join(needing)} need a full-sentence model, and the set has none. Train "
                f"one, or leave them out: that leaves {rest or 'nothing'}"
            )

    def decoder(self, method: str) -> AdaptiveWaitKGenerator:
        return self.generator.with_ensembles(method) if method in ADAPTIVE else self.generator

    def decoding_of(self, method: str, setting: Setting) -> Decoding:
        """The same tail for every method but `full`, whose rows are searches of their own."""
        if method != "full":
            return self.decoding
        return replace(self.decoding, beams=setting.beams, tail_beams=1, tail=None)


def run(trial: Trial, tell: Callable[[str], None] = print) -> str:
    """Decode what is missing, tell each result, and write the report; returns what it says
    first."""
    decoders = {method: trial.decoder(method) for method in trial.methods}
    _claim_folder(trial)
    rows = [(method, setting) for method, settings in trial.methods.items() for setting in settings]
    for number, (method, setting) in enumerate(rows, start=1):
        log = log_path(trial.output, method, setting.name)
        if method in trial.anew or not log.exists():
            how = trial.decoding_of(method, setting)
            lines = decode_corpus(
                decoders[method], trial.source, trial.references, setting.policy, how
            )
            if is_main_process():  # of several that share the sentences
                write_log(log, lines)
        if is_main_process():
            scores = scored(log)
            place = f"{number}/{len(rows)} {method} {setting.name}"
            tell(f"{place}: BLEU {scores['bleu']:.2f}, AL {scores['al']:.3f} tokens")
    return write_report(trial.output) if is_main_process() else ""


def settings_of(
    method: str, generator: AdaptiveWaitKGenerator, beams: int = 10, lines: str = LINES[0]
) -> list[Setting]:
    """The settings of a method, for the ks of this set: those of the paper if the method is in it,
    or of its thresholds the other `LINES`. `adaptive` is the set as it is, at its operating
    points."""
    if method == "adaptive" and generator.latencies:
        return [
            Setting(name, Adaptive(generator.latencies[name]), in_time_table=True)
            for name in operating_points(generator)
        ]
    if method in (*ADAPTIVE, "adaptive"):
        return _lines(generator, lines)
    if method == "full":
        return [
            Setting("greedy", make_policy("full"), in_time_table=True),
            Setting(f"beam={beams}", make_policy("full"), beams),
        ]
    if method in ("wait-k", "test-time-wait-k"):
        ks = range(generator.policy.k_min, generator.policy.k_max + 1)
        return [Setting(f"k={k}", make_policy(method, k=k), in_time_table=k == 3) for k in ks]
    return [
        Setting(
            ",".join(f"{name}={value}" for name, value in options.items()),
            make_policy(method, **options),
        )
        for options in OPTIONS[method]
    ]


CLOSED = {"close": True}
"""With an end mark behind every prefix: hold-n needs it, and the others are better for it, but for
ps-future, which looks at both anyway (docs/policies.md)."""
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "wait-if-diff": [{"start": s, "delta": d} for d in (2, 4) for s in (4, 6)],
    "wait-if-worse": [{"start": s, "delta": d} for d in (1, 2) for s in (1, 2, 4, 6)],
    "local-agreement": [
        *({"n": 2, "step": step, **CLOSED} for step in (1, 2, 3, 4)),
        {"n": 3, "step": 1, **CLOSED},
    ],
    "hold-n": [{"n": n, **CLOSED} for n in range(7)],
    "align-att": [{"border": border, **CLOSED} for border in range(1, 7)],
    "ps-future": [{"threshold": tenths / 10} for tenths in (9, 7, 5, 3, 2, 1, 0.5)],
}


def _lines(generator: AdaptiveWaitKGenerator, lines: str) -> list[Setting]:
    """Thresholds that fall in a line from the set's k_min: the paper's, all to the set's k_max; or
    those from 1 to 0 at each k up to it, a wait-k that writes sooner where it is sure."""
    start, end = generator.policy.k_min, generator.policy.k_max
    falling = [(tenth / 10, 0.0, end) for tenth in range(2, 10)]
    falling += [(1.0, tenth / 10, end) for tenth in range(10)]
    if lines == STEEP:
        falling = [(1.0, 0.0, k) for k in range(start + 2, end + 1)]
    return [
        Setting(
            f"rho{start}={first:g},rho{k}={last:g}",
            make_policy("adaptive", rho=(first, last), k_min=start, k_max=k),
            in_time_table=first == 0.4,
        )
        for first, last, k in falling
    ]


def _claim_folder(trial: Trial) -> None:
    """Write down what is run here; a folder that holds another experiment is refused."""
    models = trial.generator.models
    wait_k: dict[K, Any] = {k: model for k, model in models.items() if k != FULL}
    settings = trial.methods.items()
    facts: dict[str, Any] = {
        "set": trial.names[0],
        "test": trial.names[1],
        "sentences": len(trial.source),
        "encoder": encoder_of_models(wait_k or models),
        "full_encoder": encoder_of_models({FULL: models[FULL]}) if FULL in models else "none",
        "decoding": trial.decoding.signature(trial.generator),
        "fingerprint": trial.fingerprint,
        "dev_scores": trial.generator.dev_scores,
        "settings": {method: [row.name for row in rows] for method, rows in settings},
        "time_table": {
            method: [row.name for row in rows if row.in_time_table] for method, rows in settings
        },
    }
    path = trial.output / FACTS
    if (trial.output / "scores.json").exists():
        raise ValueError(
            f"{trial.output} holds a result of hf-simultaneous evaluate; give another --output"
        )
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["fingerprint"] != facts["fingerprint"]:
            raise ValueError(
                f"{trial.output} holds an experiment with other models, languages, "
                f"sentences or tails; give another --output"
            )
        for name in ("settings", "time_table"):
            facts[name] = {**known.get(name, {}), **facts[name]}
    if is_main_process():
        write_text(path, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
