"""In 8 bits: near the floating-point model, exact in itself, a quarter of the memory, and kept by a
set."""

import json
import random
from collections.abc import Callable

import pytest
import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.families import adapter_for
from hf_simultaneous.quantization import (
    FBGEMM,
    LARGEST_IN,
    Int8Embedding,
    Int8Linear,
    Multiply,
    fbgemm_product,
    float_weights,
    int8_linear,
    quantize_model,
    quantized,
    rounded,
    scaled,
    whole_product,
)
from tests.reference import random_set
from tests.test_lanes import batched, check, live
from tests.tiny import EOS, tiny_model, words


torch.set_num_threads(1)
IDS = torch.tensor([[5, 9, 14, 20, 7, EOS]])


def whole(weight: torch.Tensor, scale: torch.Tensor) -> Multiply:
    return scaled(whole_product(weight), scale)


WAYS = [(whole, torch.float32), (whole, torch.float64)]
if FBGEMM:
    WAYS.append((fbgemm_product, torch.float32))


def product(
    way: Callable[..., Multiply],
    rows: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    return int8_linear(rows, way(*rounded(weight)), bias)


@pytest.mark.parametrize("count", [1, 2, 7, 40])
@pytest.mark.parametrize(("way", "dtype"), WAYS)
def test_products_are_near_and_know_no_neighbours(way, dtype, count):
    torch.manual_seed(count)
    rows = torch.randn(count, 64, dtype=dtype) * torch.rand(count, 1, dtype=dtype) * 100
    weight = torch.randn(96, 64, dtype=dtype)
    bias = torch.randn(96, dtype=dtype)
    found = product(way, rows, weight, bias)
    wanted = torch.nn.functional.linear(rows, weight, bias)
    assert (found - wanted).norm() < 0.02 * wanted.norm()
    for index in range(count):
        assert torch.equal(product(way, rows[index : index + 1], weight, bias)[0], found[index])


@pytest.mark.skipif(not FBGEMM, reason="this CPU has VNNI")
@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.parametrize("sizes", [(24, 64), (33, 17), (512, 2048)])
@pytest.mark.parametrize("extreme", [None, (1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_fbgemm_multiplies_whole_numbers_exactly(count, sizes, extreme):
    rng = torch.Generator().manual_seed(count)
    rows = torch.randint(-LARGEST_IN, LARGEST_IN + 1, (count, sizes[1]), generator=rng)
    weight = torch.randint(-127, 128, sizes, generator=rng)
    if extreme:  # what would not fit into 16 bits would be cut off
        rows, weight = (
            torch.full_like(rows, extreme[0] * LARGEST_IN),
            weight * 0 + extreme[1] * 127,
        )
    found = fbgemm_product(weight.char(), torch.full(sizes[:1], float(LARGEST_IN)))(rows.float())
    wanted = rows @ weight.t()
    assert torch.equal(found.long(), wanted)
    assert torch.equal(whole_product(weight.char())(rows.char()).long(), wanted)


def test_wide_products_are_exact_where_a_float_would_round():
    weight = torch.full((2, 4096), 127)
    rows = torch.full((3, 4096), LARGEST_IN)
    rows[:, 0] -= 1  # an odd sum, above 2**24
    found = whole_product(weight.char())(rows.char())
    assert torch.equal(found.long(), rows @ weight.t())


def test_in_bfloat16_no_weight_changes_its_sign():
    torch.manual_seed(0)
    weight = torch.randn(500, 64).bfloat16()
    whole, scale = rounded(weight)
    assert whole.min() >= -127
    near = whole.float() * scale.float()[:, None]
    assert (near - weight.float()).abs().max() < 0.03 * weight.float().abs().max()


def test_float16_is_refused():
    with pytest.raises(ValueError, match="its sums do not fit into float16. Leave dtype out"):
        quantize_model(tiny_model().half())


def test_packing_leaves_torchs_engine_as_it_was():
    before = torch.backends.quantized.engine
    adapter_for(quantize_model(tiny_model()))
    assert torch.backends.quantized.engine == before


@pytest.mark.parametrize(("way", "dtype"), WAYS)
def test_rows_of_zeros_stay_zeros(way, dtype):
    rows, weight = torch.randn(2, 8, dtype=dtype), torch.randn(4, 8, dtype=dtype)
    bias = torch.randn(4, dtype=dtype)
    assert not product(way, rows * 0, weight, None).any()
    assert not product(way, rows, weight * 0, None).any()
    assert torch.equal(product(way, rows * 0, weight, bias), bias.expand(2, 4))


def test_a_model_takes_a_quarter_and_tied_weights_stay_tied():
    model = tiny_model(d_model=128, encoder_ffn_dim=256, decoder_ffn_dim=256)

    def size() -> int:
        skip = "embed_positions"  # these are computed, and saved by nobody
        state = {name: one for name, one in model.state_dict().items() if skip not in name}
        return sum({one.data_ptr(): one.nbytes for one in state.values()}.values())

    before = size()
    assert quantize_model(model) is model
    assert size() < 0.28 * before
    assert quantized(model)
    words_in, words_out = model.model.decoder.embed_tokens, model.lm_head
    assert isinstance(words_in, Int8Embedding)
    assert isinstance(words_out, Int8Linear)
    assert words_in.weight.data_ptr() == words_out.weight.data_ptr()
    assert not any(isinstance(module, torch.nn.Linear) for module in model.modules())


def test_saved_weights_become_the_same_bits_again():
    model = quantize_model(tiny_model())
    again = tiny_model(seed=1)
    again.load_state_dict(float_weights(model))
    quantize_model(again)
    source = words(2, 5)
    with torch.inference_mode():
        one, other = (m(source, decoder_input_ids=source).logits for m in (model, again))
    assert torch.equal(one, other)


def test_other_families_keep_the_scale_of_their_embeddings():
    torch.manual_seed(0)
    sizes = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 32)
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = M2M100Config(vocab_size=40, scale_embedding=True, **sizes, **layers, **heads)
    model = M2M100ForConditionalGeneration(config).eval()
    source = words(2, 5)
    with torch.inference_mode():
        before = model(source, decoder_input_ids=source).logits
        after = quantize_model(model)(source, decoder_input_ids=source).logits
    assert (after - before).norm() < 0.05 * before.norm()


def test_the_engine_says_what_the_same_bits_say_from_scratch():
    rng = random.Random(17)
    for _ in range(3):
        one = random_set(rng)
        for model in one.generator.models.values():
            quantize_model(model)
        cases, expected, _ = one.cases(rng, 12, margin=1e-9)
        for sentence, right in zip(batched(one, cases), expected, strict=True):
            check(sentence, right)
        for case, right in list(zip(cases, expected, strict=True))[::5]:
            if case[1][-1] == EOS:
                check(live(one, *case), right)


def test_a_set_keeps_it_and_the_caller_may_choose(tmp_path):
    AdaptiveWaitKGenerator({1: tiny_model(), 3: tiny_model(1)}).save_pretrained(tmp_path / "float")
    assert "quantize" not in json.loads((tmp_path / "float/adaptive_config.json").read_text())
    small = AdaptiveWaitKGenerator.from_pretrained(tmp_path / "float", quantize="int8")
    assert small.quantize == "int8"
    small.save_pretrained(tmp_path / "int8")
    again = AdaptiveWaitKGenerator.from_pretrained(tmp_path / "int8")
    assert again.quantize == "int8"
    assert torch.equal(small.generate(IDS, max_new_tokens=9), again.generate(IDS, max_new_tokens=9))
    plain = AdaptiveWaitKGenerator.from_pretrained(tmp_path / "int8", quantize="none")
    assert plain.quantize == "none"
    assert plain.with_ensembles("all").quantize == "none"


@pytest.mark.parametrize("quantize", ["int4", 8, True])
def test_other_ways_are_refused(quantize):
    with pytest.raises(ValueError, match=f"one of int8, none; got {quantize!r}"):
        AdaptiveWaitKGenerator.from_pretrained(quantize=quantize)


def test_it_runs_on_the_cpu_only():
    with pytest.raises(ValueError, match="runs on the CPU only; got meta"):
        quantize_model(tiny_model().to("meta"))
    with pytest.raises(ValueError, match="Use quantize='none' there"):
        AdaptiveWaitKGenerator(quantize_model(tiny_model())).to("meta")
