"""Quality and latency of simultaneous translation together, as an `evaluate` module: BLEU and AL,
LAAL, AP, DAL, CW.

A thin cover over `hf_simultaneous.metrics`, which has the formulas; BLEU is sacreBLEU's.
"""

import datasets
import evaluate

from hf_simultaneous.metrics import Bleu, Metric, Sentence, corpus_bleu, corpus_latency


DESCRIPTION = """BLEU and latency of simultaneous translation: a number for how good it is means
little without one for how late it came."""

INPUTS = """
Args:
    predictions: the translations.
    references: for each a reference, or a list of them.
    delays: for each translation the source units read when each of its target units was written.
    source_lengths: for each the length of its source, in the same unit.
    reference_lengths: for each the length of its (first) reference in target units;
        by default its words.
    unit: "token", "word" or "char", what the delays count; printed in the signatures.
    tokenize: sacreBLEU's tokenizer.
Returns:
    bleu, al, laal, ap, dal, cw, and `signatures` with what each of them is.
"""

TEXT = datasets.Value("string")


class SimultaneousTranslation(evaluate.Metric):
    """`evaluate.load("<this folder>")`, then
    `.compute(predictions=..., references=..., delays=..., source_lengths=...)`."""

    def _info(self):
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=[
                datasets.Features({"predictions": TEXT, "references": datasets.Sequence(TEXT)}),
                datasets.Features({"predictions": TEXT, "references": TEXT}),
            ],
        )

    def _compute(
        self,
        predictions,
        references,
        delays,
        source_lengths,
        reference_lengths=None,
        unit="word",
        tokenize="13a",
    ):
        several = [[text] if isinstance(text, str) else list(text) for text in references]
        if reference_lengths is None:
            reference_lengths = [len(texts[0].split()) for texts in several]
        counts = {
            "delays": delays,
            "source_lengths": source_lengths,
            "reference_lengths": reference_lengths,
        }
        for name, given in counts.items():
            if len(given) != len(predictions):
                raise ValueError(
                    f"{name} must have one for each of the {len(predictions)} sentences; "
                    f"got {len(given)}"
                )
        if len({len(texts) for texts in several}) > 1:
            raise ValueError("every sentence must have the same number of references")
        sentences = [
            Sentence(*row) for row in zip(delays, source_lengths, reference_lengths, strict=True)
        ]
        names = ("AL", "LAAL", "AP", "DAL", "CW")
        scores = {
            name.lower(): corpus_latency(sentences, Metric(name, unit=unit)) for name in names
        }
        scores["bleu"] = corpus_bleu(
            predictions, [list(stream) for stream in zip(*several, strict=True)], Bleu(tokenize)
        )
        values = {name: score.value for name, score in scores.items()}
        return {**values, "signatures": {name: score.signature for name, score in scores.items()}}
