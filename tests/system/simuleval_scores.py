"""Scores read/write paths with SimulEval's own scorers; run by the interpreter of
`.venv-simuleval`, JSON in and out.

It knows nothing of hf_simultaneous: the two share no environment, only the numbers.

stdin: `[{"delays": [...], "source_len": n, "reference_len": m}, ...]`; stdout: `{"version",
"scores", "corpus"}`. A variant is named `AL/reference` or `AL/hypothesis`; `scores` has one value
per path (null if the hypothesis is empty) and `corpus` SimulEval's mean."""

import json
import sys
from importlib.metadata import version
from typing import Any

from simuleval.evaluator.instance import TextToTextInstance
from simuleval.evaluator.scorers.latency_scorer import LATENCY_SCORERS_DICT


def instance(index: int, path: dict[str, Any]) -> TextToTextInstance:
    made = TextToTextInstance(index, None, None)
    made.latency_unit = "word"
    made.source = ["x"] * path["source_len"]
    made.reference = " ".join(["y"] * path["reference_len"])
    made.delays = path["delays"]
    return made


def main() -> None:
    instances = {index: instance(index, path) for index, path in enumerate(json.load(sys.stdin))}
    scores, corpus = {}, {}
    for name in ("AL", "LAAL", "AP", "DAL"):
        for use_ref_len in (True, False):
            variant = f"{name}/{'reference' if use_ref_len else 'hypothesis'}"
            corpus[variant] = LATENCY_SCORERS_DICT[name](use_ref_len=use_ref_len)(instances)
            scores[variant] = [made.metrics.get(name) for made in instances.values()]
    json.dump({"version": version("simuleval"), "scores": scores, "corpus": corpus}, sys.stdout)


if __name__ == "__main__":
    main()
