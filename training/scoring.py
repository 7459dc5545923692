"""Decodes a split with a model in training and scores it: BLEU for quality, AL for latency.

Knows how to call the decoder and the metrics, and nothing of training.
"""

from dataclasses import dataclass

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from hf_simultaneous import AdaptiveWaitKGenerator, FullSentence, SimultaneousMTModel, WaitK
from hf_simultaneous.metrics import Sentence, corpus_bleu, corpus_latency


SENTENCES_AT_ONCE = 100


@dataclass(frozen=True)
class Scores:
    """BLEU and Average Lagging of a split, with the signatures that say how they were computed."""

    bleu: float
    al: float
    sentences: int
    bleu_signature: str
    al_signature: str

    def __str__(self) -> str:
        return f"BLEU {self.bleu:.1f}, AL {self.al:.2f}"


@torch.no_grad()
def score(
    model: SimultaneousMTModel,
    tokenizer: PreTrainedTokenizerBase,
    split: Dataset,
    k: int | None,
    sentences: int | None = None,
) -> Scores:
    """Translate a split greedily under wait-k, `None` for full sentences, and score what comes out."""
    rows = split.select(range(min(sentences or len(split), len(split))))
    sources, references = list(rows["input_ids"]), list(rows["target"])
    training = model.training
    engine = AdaptiveWaitKGenerator(models={k: model}, tokenizer=tokenizer)  # sets eval mode
    policy = FullSentence() if k is None else WaitK(k)
    order = sorted(range(len(rows)), key=lambda index: len(sources[index]))
    hypotheses = [""] * len(rows)
    delays: list[list[int]] = [[]] * len(rows)
    for start in range(0, len(order), SENTENCES_AT_ONCE):
        batch = order[start : start + SENTENCES_AT_ONCE]
        longest = len(sources[batch[-1]])
        limit = min(2 * longest + 20, model.config.max_position_embeddings - 1)
        output = engine.generate(
            [sources[index] for index in batch], policy=policy, max_new_tokens=limit, return_dict_in_generate=True
        )
        texts = tokenizer.batch_decode(output.sequences, skip_special_tokens=True)
        for index, text, delay in zip(batch, texts, output.delays, strict=True):
            hypotheses[index], delays[index] = text, delay
    model.train(training)
    bleu = corpus_bleu(hypotheses, [references])
    pairs = zip(delays, sources, strict=True)
    al = corpus_latency([Sentence(delay, len(source) - 1) for delay, source in pairs])  # </s> is not counted
    return Scores(round(bleu.value, 2), round(al.value, 3), len(rows), bleu.signature, al.signature)
