"""The cross-entropy of a model in training, and what is added to it.

Knows scores over a vocabulary, and nothing of models.
"""

import torch
from torch.nn.functional import cross_entropy, kl_div


def summed(logits: torch.Tensor, labels: torch.Tensor, smoothing: float = 0.0) -> torch.Tensor:
    """Over the tokens; labels of -100 do not count."""
    return cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing, reduction="sum"
    )


def r_drop(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """How far two predictions of the same tokens differ, summed over the tokens.

    The rows are a batch twice, one after the other. Kullback-Leibler divergence, the mean of both
    directions; labels of -100 do not count."""
    first, second = logits.float().log_softmax(-1).chunk(2)
    there = kl_div(first, second, reduction="none", log_target=True)
    back = kl_div(second, first, reduction="none", log_target=True)
    counted = labels.chunk(2)[0] != -100
    return (there + back).sum(-1)[counted].sum() / 2
