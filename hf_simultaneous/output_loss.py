"""The loss of the output layer, from the decoder's states to the gradients in one pass over pieces
that fit the cache.

Scores over a vocabulary are the largest thing a step of training makes, and on a CPU writing them
to memory and reading them back takes longer than computing them. Knows states, a weight and labels;
nothing of models. Ships inside checkpoints."""

from typing import Any

import torch


ROWS = 256
"""Tokens whose scores stand in memory at a time."""
IGNORED = -100


def output_loss(
    states: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    labels: torch.Tensor,
    smoothing: float = 0.0,
) -> torch.Tensor:
    """`cross_entropy(states @ weight.T + bias, labels, label_smoothing=smoothing,
    reduction="sum")`; the bias is not trained."""
    autocast = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if autocast else states.dtype
    with torch.autocast("cpu", enabled=False):
        return _OutputLoss.apply(
            states.flatten(0, -2).to(dtype), weight, bias, labels.flatten(), smoothing
        )


class _OutputLoss(torch.autograd.Function):
    """Makes the gradients on the way forward, where the scores are at hand."""

    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        labels: torch.Tensor,
        smoothing: float,
    ) -> torch.Tensor:
        table = weight.to(states.dtype)
        counted = (labels != IGNORED).nonzero().squeeze(1)
        to_states, to_weight = torch.zeros_like(states), torch.zeros_like(weight)
        total = weight.new_zeros(())
        for rows in counted.split(ROWS):
            piece = states[rows]
            scores = (piece @ table.t()).to(weight.dtype) + bias
            total += _loss_to_gradient(scores, labels[rows], smoothing)
            gradient = scores.to(states.dtype)
            to_states[rows] = gradient @ table
            to_weight += gradient.t() @ piece
        ctx.save_for_backward(to_states, to_weight)
        return total

    @staticmethod
    def backward(ctx: Any, *incoming: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        to_states, to_weight = ctx.saved_tensors
        return to_states * incoming[0].to(to_states.dtype), to_weight * incoming[0], *[None] * 3


def _loss_to_gradient(scores: torch.Tensor, labels: torch.Tensor, smoothing: float) -> torch.Tensor:
    """The summed loss; its gradient takes the place of the scores."""
    right = labels[:, None]
    top = scores.amax(-1, keepdim=True)
    aim = (1 - smoothing) * scores.gather(-1, right) + smoothing * scores.mean(-1, keepdim=True)
    sums = scores.sub_(top).exp_().sum(-1, keepdim=True)
    loss = (sums.log() + top - aim).sum()
    scores.div_(sums).sub_(smoothing / scores.shape[-1])
    scores.scatter_add_(-1, right, scores.new_full(right.shape, smoothing - 1))
    return loss
