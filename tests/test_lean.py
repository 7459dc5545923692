"""The lean step says what the model's own layers say, and steps aside where somebody listens."""

from functools import partial

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
)

from hf_simultaneous import packing
from hf_simultaneous.actions import State
from hf_simultaneous.adapters import BartLike, Ours
from hf_simultaneous.adapters_t5 import T5Like
from hf_simultaneous.families import adapter_for
from hf_simultaneous.lanes import Lanes, Question
from hf_simultaneous.lean import LeanBart, LeanOurs
from hf_simultaneous.lean_t5 import LeanT5
from hf_simultaneous.packing import LAYOUTS
from hf_simultaneous.quantization import quantize_model
from hf_simultaneous.sources import Row
from tests.stock import T5_LIKE, stock_model
from tests.tiny import SIZES, TOKENS, tiny_model


torch.set_num_threads(1)


def stock(kind, config) -> torch.nn.Module:
    torch.manual_seed(3)
    return kind(config(**SIZES, **TOKENS, init_std=0.5)).double().eval()


def ours(encoder: str = "causal", **sizes) -> torch.nn.Module:
    return tiny_model(3, torch.float64, encoder_attention=encoder, **sizes)


MODELS = {
    "causal": ours,
    "prefix": lambda: ours("prefix"),
    "swish": lambda: ours(activation_function="swish", encoder_attention_heads=4),
    "int8": lambda: quantize_model(ours()),
    "marian": lambda: stock(MarianMTModel, MarianConfig),
    "bart": lambda: stock(BartForConditionalGeneration, BartConfig),
    "m2m_100": lambda: stock(M2M100ForConditionalGeneration, M2M100Config),
    **{kind: partial(stock_model, kind) for kind in T5_LIKE},
    "t5, int8": lambda: quantize_model(stock_model("t5")),
}
STOCK = dict.fromkeys(("marian", "bart", "m2m_100"), (BartLike, LeanBart))
STOCK |= dict.fromkeys((*T5_LIKE, "t5, int8"), (T5Like, LeanT5))


def said(model: torch.nn.Module) -> torch.Tensor:
    """Some rows, each at its own place, asked twice; the sources grow in between."""
    lanes = Lanes({1: model})
    rows = [Row(State(source=[5, 6, 7][:size]), [5, 6, 7][:size]) for size in (1, 2, 3)]
    question = Question(1, None, (1,))
    answers = []
    for more in (8, 9):
        answers.append(lanes.predict([(row, question) for row in rows]))
        for row in rows[1:]:
            row.source.append(more)
            row.state.source.append(more)
            row.state.target.append(more + 1)
    return torch.cat([*answers, lanes.predict([(rows[2], question)])])


@pytest.mark.parametrize("kind", MODELS)
def test_it_says_what_the_models_own_layers_say(kind):
    model, (own, lean) = MODELS[kind](), STOCK.get(kind, (Ours, LeanOurs))
    assert type(adapter_for(model)) is lean
    found = said(model)
    heard = []
    decoder = model.get_decoder()
    layer = decoder.block[0] if own is T5Like else decoder.layers[0]
    hook = layer.register_forward_hook(lambda *_: heard.append(1))
    assert type(adapter_for(model)) is own
    torch.testing.assert_close(said(model), found, atol=1e-9, rtol=0)
    assert heard
    hook.remove()
    assert type(adapter_for(model)) is lean


@pytest.mark.parametrize("kind", ["int8", "t5, int8"])
def test_in_single_precision_8_bits_say_it_too(kind):
    """Without VNNI these are FBGEMM's products."""
    model = quantize_model(
        tiny_model(3, encoder_attention="causal")
        if kind == "int8"
        else stock_model("t5", dtype=torch.float32)
    )
    found = said(model)
    layer = model.get_decoder().get_submodule("layers.0" if kind == "int8" else "block.0")
    layer.register_forward_hook(lambda *_: None)  # its own layers
    torch.testing.assert_close(said(model), found, atol=1e-3, rtol=0)


@pytest.mark.parametrize("kind", T5_LIKE)
def test_beyond_the_longest_distance_all_are_one(kind):
    model = stock_model(kind)
    lanes, source = Lanes({1: model}), [5, 9, 14, 7] * 8
    assert len(source) > 2 * model.config.relative_attention_max_distance
    row = Row(State(source=source, target=source), source)
    found = lanes.predict([(row, Question(None, len(source), (1,)))])
    start = model.config.decoder_start_token_id
    with torch.inference_mode():
        right = model(torch.tensor([source]), decoder_input_ids=torch.tensor([[start, *source]]))
    torch.testing.assert_close(found, right.logits[:, -1].softmax(-1), atol=1e-9, rtol=0)


def test_in_single_precision_t5_says_it_too():
    found = said(stock_model("mt5", dtype=torch.float32))
    torch.testing.assert_close(found.double(), said(stock_model("mt5")), atol=1e-3, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_single_precision_every_layout_says_it(monkeypatch, layout):
    monkeypatch.setattr(packing, "fastest", lambda *_: (layout, layout))
    found = said(tiny_model(3, encoder_attention="causal"))
    torch.testing.assert_close(found.double(), said(ours()), atol=1e-4, rtol=0)


def in_training(model):
    model.train()


def in_half_precision(model):
    model.half()


def in_bfloat16(model):
    model.bfloat16()


def with_another_layer(model):
    model.model.decoder.layers[0].fc1 = torch.nn.Sequential(model.model.decoder.layers[0].fc1)


def in_mixed_precision(model):
    model.model.decoder.layers[0].fc2.float()


def listened_to(model):
    model.model.encoder.layers[0].self_attn.q_proj.register_forward_pre_hook(lambda *_: None)


@pytest.mark.parametrize(
    "change",
    [
        in_training,
        in_half_precision,
        in_bfloat16,
        in_mixed_precision,
        with_another_layer,
        listened_to,
    ],
)
def test_a_model_it_does_not_know_runs_its_own_layers(change):
    model = ours()
    change(model)
    assert type(adapter_for(model)) is Ours


def test_where_a_position_looks_is_told_and_nothing_else_changes():
    lanes = Lanes({1: ours()})
    row = Row(State(source=[5, 6, 7]), [5, 6, 7])
    asked = Question(None, 3, (1,))
    plain = lanes.answer([(row, asked)])
    told = lanes.answer([(row, asked._replace(attention=-1))])
    torch.testing.assert_close(told.distributions, plain.distributions, atol=1e-9, rtol=0)
    assert plain.attention == [None]
    assert sum(told.attention[0]) == pytest.approx(1)
