"""Latency of simultaneous translation as an `evaluate` module: AL, LAAL, AP, DAL, CW, each with its
signature.

A thin cover over `hf_simultaneous.metrics`, which has the formulas.
"""

import datasets
import evaluate

from hf_simultaneous.metrics import Metric, Sentence, corpus_latency


DESCRIPTION = """Latency of simultaneous translation, from delays: the number of source units that
had been read when each target unit was written."""

INPUTS = """
Args:
    predictions: for each sentence the delays of its target units, in source units, never falling.
    references: for each sentence the length of the reference, in target units.
    source_lengths: for each sentence the length of the source.
    unit: "token", "word" or "char", what was counted; printed in the signatures.
Returns:
    al, al_ref, laal, ap, dal, cw, and `signatures` with what each of them is.
"""

METRICS = {
    "al": ("AL", "hypothesis"),
    "al_ref": ("AL", "reference"),
    "laal": ("LAAL", None),
    "ap": ("AP", None),
    "dal": ("DAL", None),
    "cw": ("CW", None),
}


class SimultaneousLatency(evaluate.Metric):
    """`evaluate.load("<this folder>")`, then
    `.compute(predictions=delays, references=lengths, source_lengths=[...])`."""

    def _info(self):
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=datasets.Features(
                {
                    "predictions": datasets.Sequence(datasets.Value("int64")),
                    "references": datasets.Value("int64"),
                }
            ),
        )

    def _compute(self, predictions, references, source_lengths, unit="token"):
        if len(source_lengths) != len(predictions):
            raise ValueError(
                "source_lengths must have one length for each of the "
                f"{len(predictions)} sentences; got {len(source_lengths)}"
            )
        rows = zip(predictions, source_lengths, references, strict=True)
        sentences = [Sentence(delays, source, reference) for delays, source, reference in rows]
        scores = {
            name: corpus_latency(sentences, Metric(metric, length=length, unit=unit))
            for name, (metric, length) in METRICS.items()
        }
        values = {name: score.value for name, score in scores.items()}
        return {**values, "signatures": {name: score.signature for name, score in scores.items()}}
