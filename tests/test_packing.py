"""The packed twin says what the model says, follows its weights, and does not outlive it."""

import gc
import weakref
from functools import partial

import pytest
import torch

from hf_simultaneous.packing import MANY, packed
from tests.tiny import tiny_model


@pytest.fixture
def model():
    return tiny_model().eval()


def lm_head(part, rows: int) -> torch.Tensor:
    torch.manual_seed(rows)
    with torch.inference_mode():
        return part.lm_head(torch.randn(rows, 1, part.config.d_model))


@pytest.mark.parametrize("rows", [1, 2, 7, 8, MANY - 1, MANY, 40])
def test_products_are_the_same_for_any_number_of_rows(model, rows):
    assert packed(model) is not model
    torch.testing.assert_close(lm_head(packed(model), rows), lm_head(model, rows), atol=1e-5, rtol=1e-5)


def test_the_twin_is_made_once(model):
    assert packed(model) is packed(model)


@pytest.mark.parametrize("change", ["optimizer", "data", "replaced"])
def test_changed_weights_make_a_new_twin(model, change):
    before = packed(model)
    weight = model.model.decoder.layers[0].fc1.weight
    if change == "optimizer":
        with torch.no_grad():
            weight.mul_(2)
    elif change == "data":  # as moving averages do it; torch does not count this change
        weight.data.mul_(2)
    else:
        model.model.decoder.layers[0].fc1.weight = torch.nn.Parameter(weight * 2)
    after = packed(model)
    assert after is not before
    hidden = torch.randn(1, 1, model.config.d_model)
    with torch.inference_mode():
        wanted = model.model.decoder.layers[0].fc1(hidden)
        torch.testing.assert_close(after.model.decoder.layers[0].fc1(hidden), wanted, atol=1e-5, rtol=1e-5)


def test_a_model_that_is_let_go_is_freed(model):
    private = tiny_model().eval()
    private.generate = partial(id, private)  # a trusted set puts such a reference on its model
    packed(private)
    gone = weakref.ref(private)
    del private
    gc.collect()
    assert gone() is None


def test_hooks_on_linear_layers_are_heard(model):
    private = tiny_model().eval()
    packed(private)
    heard = []
    private.lm_head.register_forward_hook(lambda *_: heard.append(1))
    lm_head(packed(private), 1)
    assert heard


def test_a_model_made_in_inference_mode_is_packed():
    with torch.inference_mode():
        private = tiny_model().eval()
        torch.testing.assert_close(lm_head(packed(private), 2), lm_head(private, 2), atol=1e-5, rtol=1e-5)


def test_only_where_it_pays(model):
    training = tiny_model().train()
    assert packed(training) is training
    double = tiny_model().eval().double()
    assert packed(double) is double
