"""The loss of the output layer in pieces: what torch's own cross-entropy and its gradients are."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from hf_simultaneous import SimultaneousConfig, SimultaneousMTModel
from hf_simultaneous.output_loss import IGNORED, ROWS, output_loss


def drawn(rows: int, ignored: float, seed: int = 3) -> tuple[torch.Tensor, ...]:
    """States, weight, bias, labels."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(2, rows, 8, generator=generator, dtype=torch.float64)
    weight = torch.randn(37, 8, generator=generator, dtype=torch.float64)
    bias = torch.randn(1, 37, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 37, (2, rows), generator=generator)
    labels[torch.rand(2, rows, generator=generator) < ignored] = IGNORED
    return states.requires_grad_(), weight.requires_grad_(), bias, labels


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("rows", [1, 5, ROWS // 2, ROWS + 3])
@pytest.mark.parametrize("ignored", [0.0, 0.3, 1.0])
def test_loss_and_gradients_are_those_of_cross_entropy(smoothing, rows, ignored):
    states, weight, bias, labels = drawn(rows, ignored)
    ours = output_loss(states, weight, bias, labels, smoothing)
    found = torch.autograd.grad(3 * ours, [states, weight])
    scores = (states @ weight.t() + bias).flatten(0, 1)
    theirs = cross_entropy(scores, labels.flatten(), label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(found, torch.autograd.grad(3 * theirs, [states, weight]), strict=True):
        torch.testing.assert_close(one, other)


def test_scores_far_from_zero_do_not_overflow():
    states, weight, bias, labels = drawn(4, 0.0)
    loss = output_loss(states * 1e4, weight, bias, labels)
    assert loss.isfinite()
    assert all(g.isfinite().all() for g in torch.autograd.grad(loss, [states, weight]))


@pytest.mark.precision("bfloat16")
def test_under_autocast_products_are_in_half_and_sums_are_not():
    states, weight, bias, labels = (
        value.float() if value.is_floating_point() else value for value in drawn(200, 0.2)
    )
    states, weight = (value.detach().requires_grad_() for value in (states, weight))
    exact = output_loss(states, weight, bias, labels, 0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = output_loss(states, weight, bias, labels, 0.1)
    assert rough.dtype == torch.float32
    assert rough != exact
    torch.testing.assert_close(rough, exact, rtol=1e-2, atol=0)
    found, right = (torch.autograd.grad(loss, [states, weight]) for loss in (rough, exact))
    for one, other in zip(found, right, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.02 * other.norm()


@pytest.mark.parametrize("count", [None, 5])
def test_the_model_gives_the_same_loss_with_logits_and_without(count):
    torch.manual_seed(1)
    config = SimultaneousConfig.preset(
        "tiny", vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, wait_k=2
    )
    model = SimultaneousMTModel(config).double()
    model.final_logits_bias.normal_()
    ids = torch.randint(3, 50, (3, 7))
    labels = ids.masked_fill(torch.rand(3, 7) < 0.3, IGNORED)
    gradients = []
    for loss_only in (False, True):
        output = model.eval()(
            input_ids=ids, labels=labels, num_items_in_batch=count, loss_only=loss_only
        )
        assert (output.logits is None) == loss_only
        model.zero_grad()
        output.loss.backward()
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        gradients.append([output.loss, *(weight.grad.clone() for weight in trained)])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
