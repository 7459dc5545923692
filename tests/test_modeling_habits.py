"""What users of transformers expect of any model; and what bad input is told."""

import copy
import inspect

import pytest
import torch
from transformers import (
    EncoderDecoderCache,
    MarianMTModel,
    StaticCache,
)
from transformers.modeling_outputs import BaseModelOutput

from hf_simultaneous import SimultaneousMTModel
from hf_simultaneous.masks import packed_prefixes, packed_width
from hf_simultaneous.schedule import visible
from tests.tiny import (
    TALKATIVE,
    VOCABULARY,
    batch,
    tiny_config,
    tiny_model,
    words,
)


pytestmark = pytest.mark.usefixtures("no_gradients")


def test_forward_has_marians_arguments_and_wait_k():
    ours = list(inspect.signature(SimultaneousMTModel.forward).parameters)
    theirs = list(inspect.signature(MarianMTModel.forward).parameters)
    assert [name for name in ours if name in theirs] == theirs
    assert set(ours) - set(theirs) == {"wait_k", "num_items_in_batch", "loss_only"}


@pytest.mark.parametrize("k", ["full", 2])
def test_attentions_have_the_usual_shapes_and_end_where_reading_ended(encoder_attention, k):
    model = tiny_model(encoder_attention=encoder_attention, attn_implementation="eager")
    source, mask = batch(7, 4)
    target = words(2, 6, seed=1)
    outputs = model(
        source, attention_mask=mask, decoder_input_ids=target, wait_k=k, output_attentions=True
    )
    packed = encoder_attention == "prefix" and k != "full"
    width = packed_width(7) if packed else 7
    assert [a.shape for a in outputs.decoder_attentions] == [(2, 2, 6, 6)] * 2
    assert [a.shape for a in outputs.cross_attentions] == [(2, 2, 6, width)] * 2
    assert len(outputs.encoder_attentions) == 2
    if not packed:
        assert [a.shape for a in outputs.encoder_attentions] == [(2, 2, 7, 7)] * 2
    for row, length in enumerate((7, 4)):
        for step in range(1, 7):
            read = visible(step, k, length)
            shown = (
                packed_prefixes(width, mask.device) == read
                if packed
                else torch.arange(width) < read
            )
            for layer in outputs.cross_attentions:
                weights = layer[row, :, step - 1]
                assert (weights[:, ~shown] == 0).all()
                torch.testing.assert_close(weights[:, shown].sum(-1), torch.ones(2))
    if encoder_attention == "causal":
        assert all((layer.triu(1) == 0).all() for layer in outputs.encoder_attentions)


@pytest.mark.parametrize("k", ["full", 2])
def test_hidden_states_have_the_usual_shapes(model, k):
    source, target = words(2, 7), words(2, 6, seed=1)
    outputs = model(source, decoder_input_ids=target, wait_k=k, output_hidden_states=True)
    assert [h.shape for h in outputs.decoder_hidden_states] == [(2, 6, 16)] * 3
    assert len(outputs.encoder_hidden_states) == 3
    assert torch.equal(outputs.encoder_hidden_states[-1], outputs.encoder_last_hidden_state)
    if k == "full" or model.config.encoder_attention == "causal":
        assert [h.shape for h in outputs.encoder_hidden_states] == [(2, 7, 16)] * 3


def test_a_mask_over_the_target_hides_its_padding(model):
    source, target = words(2, 7), words(2, 6, seed=1)
    expected = model(source, decoder_input_ids=target, wait_k=2)
    ones = model(
        source, decoder_input_ids=target, decoder_attention_mask=torch.ones(2, 6), wait_k=2
    )
    assert torch.equal(ones.logits, expected.logits)
    padded = torch.nn.functional.pad(target, (0, 2))
    mask = torch.nn.functional.pad(torch.ones(2, 6), (0, 2))
    hidden = model(source, decoder_input_ids=padded, decoder_attention_mask=mask, wait_k=2)
    torch.testing.assert_close(hidden.logits[:, :6], expected.logits, rtol=0, atol=1e-4)


def test_a_cache_is_returned_unless_it_is_not_wanted(model):
    source, target = words(2, 7), words(2, 6, seed=1)
    assert model(source, decoder_input_ids=target).past_key_values.get_seq_length() == 6
    assert model(source, decoder_input_ids=target, use_cache=False).past_key_values is None
    assert model(source, labels=target).past_key_values is None


def test_weights_are_initialised_by_the_config():
    model = SimultaneousMTModel(tiny_config(init_std=1e-9))
    for name, weight in model.named_parameters():
        if "embed_positions" not in name:
            assert round(weight.mean().item(), 6) in (0.0, 1.0), name
    assert (model.final_logits_bias == 0).all()


def test_position_tables_are_marians():
    ours, theirs = (
        SimultaneousMTModel(tiny_config()).state_dict(),
        MarianMTModel(tiny_config()).state_dict(),
    )
    assert {name: weight.shape for name, weight in ours.items()} == {
        name: w.shape for name, w in theirs.items()
    }
    tables = [name for name in ours if "embed_positions" in name]
    assert len(tables) == 2
    for name in tables:
        assert torch.equal(ours[name], theirs[name])


def test_shared_embeddings_are_one_tensor_and_others_are_not():
    shared = tiny_model().model
    assert (
        shared.encoder.embed_tokens.weight
        is shared.decoder.embed_tokens.weight
        is shared.shared.weight
    )
    assert tiny_model().lm_head.weight.shape == (VOCABULARY, 16)
    model = tiny_model()
    assert model.lm_head.weight is model.model.shared.weight
    apart = tiny_model(share_encoder_decoder_embeddings=False, decoder_vocab_size=30)
    assert apart.model.encoder.embed_tokens.weight.shape == (VOCABULARY, 16)
    assert apart.lm_head.weight is apart.model.decoder.embed_tokens.weight
    assert apart(words(2, 5), decoder_input_ids=words(2, 4) % 30).logits.shape == (2, 4, 30)
    untied = tiny_model(**TALKATIVE)
    assert untied.lm_head.weight is not untied.model.decoder.embed_tokens.weight


@pytest.mark.parametrize("size", [55, 30])
def test_embeddings_can_be_resized(encoder_attention, size):
    model = tiny_model(encoder_attention=encoder_attention)
    source, target = words(2, 7) % 30, words(2, 6, seed=1) % 30
    before = model(source, decoder_input_ids=target, wait_k=2).logits
    model.resize_token_embeddings(size)
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (size, size)
    assert model.lm_head.weight is model.model.shared.weight is model.get_input_embeddings().weight
    outputs = model(source, decoder_input_ids=target, wait_k=2, labels=target)
    assert outputs.logits.shape == (2, 6, size)
    assert torch.equal(outputs.logits[..., :30], before[..., :30])
    assert model.generate(source, wait_k=2, max_new_tokens=4).shape == (2, 5)


def test_separate_embeddings_are_resized_each_on_its_own():
    model = tiny_model(share_encoder_decoder_embeddings=False)
    model.resize_decoder_token_embeddings(50)
    outputs = model(words(2, 7), decoder_input_ids=words(2, 6, seed=1), wait_k=2)
    assert outputs.logits.shape == (2, 6, 50)
    assert model.get_input_embeddings().weight.shape == (VOCABULARY, 16)


def test_a_deep_copy_is_a_model_of_its_own(model):
    source, target = words(2, 7), words(2, 6, seed=1)
    before = model(source, decoder_input_ids=target, wait_k=2).logits
    other = copy.deepcopy(model)
    assert torch.equal(other(source, decoder_input_ids=target, wait_k=2).logits, before)
    other.lm_head.weight.zero_()
    assert torch.equal(model(source, decoder_input_ids=target, wait_k=2).logits, before)


@pytest.mark.parametrize("name", ["flash_attention_2", "flex_attention"])
def test_attention_that_takes_no_mask_is_refused(name):
    with pytest.raises((ValueError, ImportError), match="SimultaneousMTModel does not support"):
        SimultaneousMTModel(tiny_config(attn_implementation=name))


def test_a_compiled_step_under_a_static_cache_is_one_graph():
    model, k = tiny_model(encoder_attention="prefix"), torch.tensor([1, 3])
    source, mask = batch(6, 4)
    target = words(2, 5, seed=1)
    states = model.get_encoder()(source, attention_mask=mask, wait_k=k)
    caches = (
        StaticCache(config=model.config, max_cache_len=length) for length in (8, states[0].shape[1])
    )
    inputs = {"encoder_outputs": states, "attention_mask": mask, "wait_k": k}
    inputs["past_key_values"] = EncoderDecoderCache(*caches)
    logits = [model(decoder_input_ids=target[:, :1], **inputs).logits]
    compiled = torch.compile(model.forward, backend="eager", fullgraph=True)
    logits += [
        compiled(decoder_input_ids=target[:, step : step + 1], **inputs).logits
        for step in range(1, 5)
    ]
    whole = model(source, attention_mask=mask, decoder_input_ids=target, wait_k=k).logits
    torch.testing.assert_close(torch.cat(logits, dim=1), whole, rtol=0, atol=1e-4)


# Bad input: each call, and what the error must say


SOURCE, TARGET = words(2, 7), words(2, 6, seed=1)


def states_for(model, k, source=SOURCE):
    return model.get_encoder()(source, wait_k=k)


BAD_CALLS = {
    "no source": (
        lambda m: m(decoder_input_ids=TARGET),
        "either input_ids or inputs_embeds; got none",
    ),
    "two sources": (
        lambda m: m(SOURCE, inputs_embeds=torch.zeros(2, 7, 16), decoder_input_ids=TARGET),
        "either input_ids or inputs_embeds; got both",
    ),
    "no target": (
        lambda m: m(SOURCE),
        "either decoder_input_ids or decoder_inputs_embeds; got none",
    ),
    "two targets": (
        lambda m: m(SOURCE, decoder_input_ids=TARGET, decoder_inputs_embeds=torch.zeros(2, 6, 16)),
        "either decoder_input_ids or decoder_inputs_embeds; got both",
    ),
    "empty source": (
        lambda m: m(SOURCE[:, :0], decoder_input_ids=TARGET),
        "the source is empty; give at least one",
    ),
    "empty source, generate": (
        lambda m: m.generate(SOURCE[:, :0]),
        "the source is empty; give at least one",
    ),
    "long source": (
        lambda m: m(words(1, 65), decoder_input_ids=TARGET[:1]),
        r"source has 65 tokens, but this model has positions for 64 "
        r"\(max_position_embeddings\). Split",
    ),
    "long source, wait-k": (
        lambda m: m.generate(words(1, 65), wait_k=2),
        "source has 65 tokens, .* positions for 64",
    ),
    "long target": (
        lambda m: m(SOURCE, decoder_input_ids=words(2, 65)),
        r"target has 65 tokens, but this model has positions for 64 .* Set a lower max_new_tokens",
    ),
    "long target, generate": (
        lambda m: m.generate(SOURCE[:1], max_new_tokens=80, min_new_tokens=80, wait_k=2),
        "target has 65 tokens, .* positions for 64",
    ),
    "long target, static cache": (
        lambda m: m.generate(
            SOURCE[:1], max_new_tokens=80, min_new_tokens=80, cache_implementation="static"
        ),
        "target has 65 tokens, .* positions for 64",
    ),
    "all masked": (
        lambda m: m(
            SOURCE, attention_mask=torch.tensor([[1] * 7, [0] * 7]), decoder_input_ids=TARGET
        ),
        r"hides every source token of sentence \[1\]; each needs at least one",
    ),
    "all masked, generate": (
        lambda m: m.generate(SOURCE, attention_mask=torch.zeros(2, 7), wait_k=1),
        r"hides every source token of sentence \[0, 1\]",
    ),
    "left padding": (
        lambda m: m(
            SOURCE, attention_mask=torch.tensor([[1] * 7, [0] + [1] * 6]), decoder_input_ids=TARGET
        ),
        "pad sources on the right: attention_mask has a 0 before a 1. Set "
        "tokenizer.padding_side='right'",
    ),
    "a hole in the mask": (
        lambda m: m(
            SOURCE,
            attention_mask=torch.tensor([[1, 0, 1, 1, 1, 1, 1]] * 2),
            decoder_input_ids=TARGET,
        ),
        "pad sources on the right",
    ),
    "mask of other length": (
        lambda m: m(SOURCE, attention_mask=torch.ones(2, 5), decoder_input_ids=TARGET),
        r"must have the source's shape, \(2, 7\); got \(2, 5\)",
    ),
    "mask of other batch": (
        lambda m: m(SOURCE, attention_mask=torch.ones(1, 7), decoder_input_ids=TARGET, wait_k=2),
        r"must have the source's shape, \(2, 7\); got \(1, 7\)",
    ),
    "mask of one dimension": (
        lambda m: m(SOURCE[:1], attention_mask=torch.ones(7), decoder_input_ids=TARGET[:1]),
        r"must have the source's shape, \(1, 7\); got \(7,\)",
    ),
    "too many k": (
        lambda m: m(SOURCE, decoder_input_ids=TARGET, wait_k=torch.tensor([1, 2, 3])),
        r"one k for each of the 2 sentences, or for each of their steps.*; got \(3,\)",
    ),
    "a path of other length": (
        lambda m: m(SOURCE, decoder_input_ids=TARGET, wait_k=torch.ones(2, 5, dtype=torch.long)),
        r"for each of their steps, 6; got \(2, 5\)",
    ),
    "a path, generate": (
        lambda m: m.generate(SOURCE, wait_k=torch.ones(2, 6, dtype=torch.long), max_new_tokens=3),
        r"for each of their steps, 1; got \(2, 6\)",
    ),
    "too many k, generate": (
        lambda m: m.generate(SOURCE, wait_k=torch.tensor([1, 2, 3]), num_beams=2),
        r"one k for each of the 2 sentences, or for each of their steps.*; got \(3,\)",
    ),
    "k zero among others": (
        lambda m: m(SOURCE, decoder_input_ids=TARGET, wait_k=torch.tensor([1, 0])),
        r"every k in wait_k must be an integer of 1 or more; got \[1, 0\]",
    ),
    "fractions among k": (
        lambda m: m(SOURCE, decoder_input_ids=TARGET, wait_k=torch.tensor([1.0, 2.0])),
        r"every k in wait_k must be an integer of 1 or more; got \[1.0, 2.0\]",
    ),
    "truth values for k": (
        lambda m: m(SOURCE, decoder_input_ids=TARGET, wait_k=torch.tensor([True, True])),
        r"every k in wait_k must be an integer of 1 or more; got \[True, True\]",
    ),
    "misspelt argument": (lambda m: m.generate(SOURCE, waitk=3), "not used by the model: .*waitk"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input_is_named(model, case):
    call, message = BAD_CALLS[case]
    with pytest.raises(ValueError, match=message):
        call(model)


@pytest.mark.parametrize(
    "k", [0, -1, 2.0, True, "3", "Full", [1, 2], torch.tensor(0), torch.tensor(2.0)], ids=repr
)
def test_a_k_that_no_policy_has_is_refused(model, k):
    allowed = (
        "wait_k must be an integer of 1 or more, a tensor with one for each sentence, "
        "or 'full'; got "
    )
    with pytest.raises(ValueError, match=allowed):
        model(SOURCE, decoder_input_ids=TARGET, wait_k=k)
    with pytest.raises(ValueError, match=allowed):
        model.generate(SOURCE, wait_k=k)


def test_states_made_for_another_layout_are_refused():
    model, mask = tiny_model(encoder_attention="prefix"), torch.ones(2, 7)
    packed, plain = states_for(model, 2), states_for(model, None)
    with pytest.raises(
        ValueError, match="one for each source token; got 28 states, and attention_mask covers 7"
    ):
        model(encoder_outputs=packed, attention_mask=mask, decoder_input_ids=TARGET)
    with pytest.raises(
        ValueError, match="one for each token of every prefix; got 7 states, .* the same .* wait_k"
    ):
        model(encoder_outputs=plain, attention_mask=mask, decoder_input_ids=TARGET, wait_k=2)
    with pytest.raises(ValueError, match="one for each token of every prefix; got 7 states. Give"):
        model(encoder_outputs=plain, decoder_input_ids=TARGET, wait_k=2)
    causal = tiny_model(encoder_attention="causal")
    states = states_for(causal, 2)
    with pytest.raises(
        ValueError, match="one for each source token; got 7 states, and attention_mask covers 5"
    ):
        causal(
            encoder_outputs=states, attention_mask=mask[:, :5], decoder_input_ids=TARGET, wait_k=2
        )


def test_states_may_come_as_a_tuple(model):
    expected = model(SOURCE, decoder_input_ids=TARGET, wait_k=2).logits
    states = states_for(model, 2)
    for given in ((states[0],), BaseModelOutput(states[0])):
        assert torch.equal(
            model(encoder_outputs=given, decoder_input_ids=TARGET, wait_k=2).logits, expected
        )


def test_a_decoder_without_a_source_runs_as_marians_does():
    model = tiny_model(encoder_attention="prefix", wait_k=2)
    ours, theirs = (m.get_decoder()(TARGET).last_hidden_state for m in (model, model.to_marian()))
    assert torch.equal(ours, theirs)
