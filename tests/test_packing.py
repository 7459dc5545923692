"""Every layout gives the same product; what is made of a model follows its weights and listeners,
and does not outlive it."""

import gc
import weakref
from functools import partial

import pytest
import torch

from hf_simultaneous import packing, quantization
from hf_simultaneous.families import adapter_for
from hf_simultaneous.packing import (
    FREE,
    LAYOUT_VARIABLE,
    LAYOUTS,
    TRIED_ROWS,
    UP_TO,
    WHOLE_LAYOUTS,
    fastest,
    packed,
    product,
)
from hf_simultaneous.quantization import quantize_model
from tests.tiny import tiny_model


torch.set_num_threads(1)
ROWS = [*UP_TO, *(last + 1 for last in UP_TO), 40]


@pytest.fixture
def model():
    return tiny_model().eval()


@pytest.fixture
def trying(monkeypatch):
    """As it is for users: the environment names no layout."""
    monkeypatch.delenv(LAYOUT_VARIABLE)
    fastest.cache_clear()
    yield
    fastest.cache_clear()


@pytest.fixture(params=LAYOUTS)
def layout(request, monkeypatch):
    """The only one, whichever would be fastest."""
    monkeypatch.setenv(LAYOUT_VARIABLE, request.param)
    fastest.cache_clear()
    yield request.param
    fastest.cache_clear()


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("size_out", [24, 96, 256])  # no block, one, and more of them
def test_layouts_give_the_same_for_any_number_of_rows(name, rows, biased, size_out):
    torch.manual_seed(rows)
    weight, bias = torch.randn(size_out, 16), torch.randn(size_out) if biased else None
    hidden = torch.randn(rows, 16)
    with torch.inference_mode():
        found = LAYOUTS[name](weight, bias)(hidden)
    assert found.is_contiguous()
    wanted = torch.nn.functional.linear(hidden, weight, bias)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", WHOLE_LAYOUTS)
@pytest.mark.parametrize("fbgemm", [True, False])
def test_products_of_whole_numbers_are_exact(monkeypatch, fbgemm, name, rows):
    monkeypatch.setattr(quantization, "FBGEMM", fbgemm)
    torch.manual_seed(rows)
    weight, whole = (torch.randint(-127, 128, (size, 64)).char() for size in (24, rows))
    found = WHOLE_LAYOUTS[name](weight)(whole)
    assert found.is_contiguous()
    assert torch.equal(found.long(), whole.long() @ weight.long().t())


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(
    "choice", [("own",) * 4, ("columns",) * 4, ("own", "turned", "columns", "own")]
)
def test_layers_with_one_input_are_one_product(monkeypatch, rows, choice):
    monkeypatch.setattr(packing, "fastest", lambda *_: choice)
    layers = [torch.nn.Linear(16, size) for size in (8, 24)]
    hidden = torch.randn(rows, 16)
    with torch.inference_mode():
        found = product(*layers)(hidden)
        wanted = torch.cat([layer(hidden) for layer in layers], 1)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("trying")
@pytest.mark.parametrize(
    ("dtype", "layouts"), [(torch.float32, LAYOUTS), (torch.int8, WHOLE_LAYOUTS)]
)
def test_the_layout_is_one_of_those_there_are_and_tried_once(dtype, layouts):
    first = fastest(40, 24, 1, dtype)
    assert {*first} <= {*layouts}
    tried = fastest.cache_info().misses
    assert fastest(40, 24, 1, dtype) == first
    assert fastest.cache_info().misses == tried


@pytest.mark.usefixtures("trying")
def test_where_time_runs_out_it_is_torchs_own(monkeypatch):
    monkeypatch.setattr(packing, "TRIED_SECONDS", 0.0)
    assert fastest(41, 24, 1, torch.float32) == ("own",) * 4


def chosen(**times):
    return packing._chosen(
        {name: dict(zip(TRIED_ROWS, found, strict=True)) for name, found in times.items()}
    )


def test_every_number_of_rows_has_its_own_layout():
    found = chosen(own=(2, 4, 4, 4), turned=(2.5, 3, 6, 6), columns=(1, 4, 2, 5))
    assert found == ("columns", "turned", "columns", "own")


def test_the_environment_may_name_the_layout(monkeypatch, layout):
    monkeypatch.setattr(packing, "_tried", lambda *_: pytest.fail("there is nothing to try"))
    assert fastest(42, 24, 1, torch.float32) == (layout,) * 4


def test_a_layout_that_there_is_not_is_refused(monkeypatch):
    monkeypatch.setenv(LAYOUT_VARIABLE, "diagonal")
    with pytest.raises(ValueError, match="own, turned, blocked, columns.*; got 'diagonal'"):
        fastest(43, 24, 1, torch.float32)


def test_a_copy_must_be_worth_it():
    free = {"own": (1, 2, 3, 4), "turned": (2, 1, 4, 5)}
    assert chosen(**free, columns=(0.95, 1, 3, 4)) == ("own", "turned", "own", "own")
    assert chosen(**free, columns=(0.5, 1, 3, 4)) == ("columns", "turned", "own", "own")


def test_there_is_never_more_than_one_copy_and_one_row_counts_most():
    times = {"own": (2, 2, 2, 2), "turned": (2, 2, 2, 2)}
    found = chosen(**times, columns=(1, 2, 2, 2), onednn=(2, 2, 1.2, 2))
    assert found == ("columns", "own", "own", "own")
    assert len({*found} - {*FREE}) == 1


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("in_8_bits", [False, True])
def test_the_twin_says_what_the_model_says(model, rows, in_8_bits):
    twin = packed(quantize_model(model) if in_8_bits else model)
    hidden = torch.randn(rows, 1, model.config.d_model)
    with torch.inference_mode():
        torch.testing.assert_close(
            twin.lm_head(hidden), model.lm_head(hidden), atol=1e-5, rtol=1e-5
        )


def test_only_where_there_is_a_choice():
    training = tiny_model().train()
    assert packed(training) is training
    double = tiny_model().eval().double()
    assert packed(double) is double


def test_an_adapter_is_made_once(model):
    assert adapter_for(model) is adapter_for(model)


@pytest.mark.parametrize(
    "change", ["optimizer", "data", "replaced", "bias", "bias data", "norm", "embedding"]
)
def test_changed_weights_make_a_new_adapter(model, change):
    before = adapter_for(model)
    layer = model.model.decoder.layers[0]
    weight = layer.fc1.weight
    if change == "optimizer":
        with torch.no_grad():
            weight.mul_(2)
    elif change == "data":  # as moving averages do it; torch does not count this change
        weight.data.mul_(2)
    elif change == "replaced":
        layer.fc1.weight = torch.nn.Parameter(weight * 2)
    elif change == "bias":
        with torch.no_grad():
            layer.self_attn.q_proj.bias.add_(1)
    elif change == "bias data":
        layer.self_attn.q_proj.bias.data.add_(1)
    elif change == "norm":
        layer.final_layer_norm.weight = torch.nn.Parameter(layer.final_layer_norm.weight * 2)
    else:
        embedding = model.model.decoder.embed_tokens
        embedding.weight = torch.nn.Parameter(embedding.weight * 2)
    assert adapter_for(model) is not before


def test_changed_weights_in_8_bits_make_a_new_adapter(model):
    private = quantize_model(model)
    before = adapter_for(private)
    assert adapter_for(private) is before, "joining its weights is no change"
    private.model.decoder.layers[0].fc1.weight.neg_()
    assert adapter_for(private) is not before


def test_a_model_that_is_let_go_is_freed():
    private = tiny_model().eval()
    private.generate = partial(id, private)  # a trusted set puts such a reference on its model
    adapter_for(private)
    gone = weakref.ref(private)
    del private
    gc.collect()
    assert gone() is None


def test_a_model_made_in_inference_mode_is_served():
    with torch.inference_mode():
        private = tiny_model().eval()
        hidden = torch.randn(2, private.config.d_model)
        wanted = private.lm_head(hidden) + private.final_logits_bias
        torch.testing.assert_close(adapter_for(private).logits(hidden), wanted)
