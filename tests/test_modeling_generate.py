"""`generate` under wait-k: the same as whole forward passes, one per token, whatever the search and
the cache."""

import copy
import io
from contextlib import redirect_stdout

import pytest
import torch
from transformers import (
    EncoderDecoderCache,
    GenerationConfig,
    TextStreamer,
)

from hf_simultaneous.masks import packed_width
from tests.tiny import (
    EOS,
    PAD,
    TALKATIVE,
    VOCABULARY,
    batch,
    tiny_model,
    words,
)


pytestmark = pytest.mark.usefixtures("no_gradients")


def greedy(model, source, mask, k, steps):
    """Greedy decoding by whole forward passes: no cache, no generate."""
    target = torch.full((len(source), 1), PAD)
    ended = torch.zeros(len(source), dtype=torch.bool)
    while target.shape[1] <= steps and not ended.all():
        logits = model(source, attention_mask=mask, decoder_input_ids=target, wait_k=k).logits[
            :, -1
        ]
        token = torch.where(ended, PAD, logits.argmax(-1))
        target = torch.cat([target, token[:, None]], dim=1)
        ended |= token == EOS
    return target


def log_probability(model, source, mask, k, target):
    """Of each step of `target`, by one forward pass."""
    logits = model(source, attention_mask=mask, decoder_input_ids=target[:, :-1], wait_k=k).logits
    return logits.log_softmax(-1).gather(-1, target[:, 1:, None]).squeeze(-1)


def beam(model, source, k, beams, steps):
    """Beam search over one source by whole forward passes, for targets that never end: the best one
    and its score."""
    target, scores = torch.full((1, 1), PAD), torch.zeros(1)
    for _ in range(steps):
        logits = model(source.expand(len(target), -1), decoder_input_ids=target, wait_k=k).logits[
            :, -1
        ]
        logits = logits.log_softmax(-1)
        logits[:, EOS] = -torch.inf
        scores, order = (scores[:, None] + logits).flatten().topk(beams)
        target = torch.cat([target[order // VOCABULARY], order[:, None] % VOCABULARY], dim=1)
    return target[0], scores[0]


def ending(model):
    """A copy that ends its sentences now and then."""
    model = copy.deepcopy(model)
    model.final_logits_bias[:, EOS] += 5.0
    return model


@pytest.mark.parametrize("k", [1, 3, torch.tensor([1, 2, 4, 8, 3, 5])])
def test_generate_equals_a_loop_of_whole_forwards(model, k):
    model = ending(model)
    source, mask = batch(9, 6, 8, 1, 9, 7)
    target = model.generate(
        source, attention_mask=mask, wait_k=k, max_new_tokens=14, do_sample=False, num_beams=1
    )
    assert target.tolist() == greedy(model, source, mask, k, 14).tolist()
    ends = (target == EOS).any(1)
    assert ends.any()
    full = model.generate(source, attention_mask=mask, wait_k="full", max_new_tokens=14)
    assert full.tolist() != target.tolist()


@pytest.mark.parametrize("k", [1, 3])
def test_beam_search_equals_a_loop_of_whole_forwards(exact, k):
    source = words(12, 8, seed=3)
    found = exact.generate(
        source,
        wait_k=k,
        num_beams=3,
        max_new_tokens=6,
        min_new_tokens=6,
        length_penalty=0.0,
        return_dict_in_generate=True,
        output_scores=True,
    )
    different = 0
    for row, target, score in zip(source, found.sequences, found.sequences_scores, strict=True):
        expected, expected_score = beam(exact, row[None], k, 3, 6)
        assert target.tolist() == expected.tolist()
        assert score.item() == pytest.approx(expected_score.item(), abs=1e-5)
        different += greedy(exact, row[None], None, k, 6)[0].tolist() != target.tolist()
    assert different  # or the beam found nothing that greedy did not


@pytest.mark.parametrize("k", [2, torch.tensor([1, 4, 2])])
def test_the_scores_of_beam_search_are_those_of_a_whole_forward(model, k):
    model = ending(model)
    source, mask = batch(9, 6, 8)
    found = model.generate(
        source,
        attention_mask=mask,
        wait_k=k,
        num_beams=4,
        num_return_sequences=4,
        max_new_tokens=10,
        length_penalty=1.0,
        return_dict_in_generate=True,
        output_scores=True,
    )
    repeated = k if isinstance(k, int) else k.repeat_interleave(4)
    each = log_probability(
        model,
        source.repeat_interleave(4, 0),
        mask.repeat_interleave(4, 0),
        repeated,
        found.sequences,
    )
    ends = (found.sequences[:, 1:] == EOS).long()
    written = (
        ends.cumsum(1) - ends == 0
    )  # up to the first </s> (transformers fills up with that where PAD is 0)
    assert len({int(length) for length in written.sum(1)}) > 1
    expected = (each * written).sum(1) / written.sum(1)
    torch.testing.assert_close(found.sequences_scores, expected, rtol=0, atol=1e-4)
    if not isinstance(k, int):
        for row, own in enumerate(k):
            alone = model.generate(
                source[row : row + 1],
                attention_mask=mask[row : row + 1],
                wait_k=own,
                num_beams=4,
                max_new_tokens=10,
            )
            length = int(written[4 * row].sum()) + 1
            assert alone[0, :length].tolist() == found.sequences[4 * row, :length].tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"cache_implementation": "static"},
        {"use_cache": False},
        {"num_beams": 3, "cache_implementation": "static"},
        {"num_beams": 3, "use_cache": False},
    ],
    ids=str,
)
def test_the_kind_of_cache_does_not_matter(model, options):
    source, mask = batch(7, 4)
    inputs = {"attention_mask": mask, "wait_k": 2, "max_new_tokens": 8}
    expected = model.generate(source, **inputs, num_beams=options.get("num_beams", 1))
    assert model.generate(source, **inputs, **options).tolist() == expected.tolist()


@pytest.mark.parametrize("beams", [1, 3])
def test_generate_takes_states_and_embeddings(model, beams):
    source, mask = batch(7, 4)
    encoder = model.get_encoder()
    for k in (None, 2, torch.tensor([3, 1])):
        inputs = {"attention_mask": mask, "wait_k": k, "max_new_tokens": 8, "num_beams": beams}
        expected = model.generate(source, **inputs).tolist()
        states = encoder(source, attention_mask=mask, wait_k=k)
        assert model.generate(encoder_outputs=states, **inputs).tolist() == expected
        embeddings = encoder.embed_tokens(source) * encoder.embed_scale
        assert model.generate(inputs_embeds=embeddings, **inputs).tolist() == expected


def test_generate_goes_on_from_a_given_target(model):
    source, mask = batch(7, 6)
    whole = model.generate(source, attention_mask=mask, wait_k=2, max_new_tokens=9)
    rest = model.generate(
        source, attention_mask=mask, wait_k=2, decoder_input_ids=whole[:, :4], max_new_tokens=6
    )
    assert rest.tolist() == whole.tolist()


def test_sampling_and_beam_sampling_run(model):
    source, mask = batch(7, 4)
    for options in ({}, {"num_beams": 3}):
        torch.manual_seed(0)
        sampled = model.generate(
            source,
            attention_mask=mask,
            wait_k=torch.tensor([1, 3]),
            do_sample=True,
            num_return_sequences=2,
            max_new_tokens=5,
            **options,
        )
        assert sampled.shape[0] == 4


def test_one_number_in_a_tensor_serves_every_beam(model):
    source, mask = batch(7, 4)
    inputs = {"attention_mask": mask, "num_beams": 3, "max_new_tokens": 8}
    expected = model.generate(source, wait_k=2, **inputs)
    assert model.generate(source, wait_k=torch.tensor(2), **inputs).tolist() == expected.tolist()


def test_a_wait_3_model_decodes_under_wait_3_unless_told_otherwise(encoder_attention):
    trained = tiny_model(encoder_attention=encoder_attention, wait_k=3, **TALKATIVE)
    untrained = tiny_model(encoder_attention=encoder_attention, **TALKATIVE)
    source, mask = batch(9, 6, 8)
    inputs = {"input_ids": source, "attention_mask": mask, "max_new_tokens": 10}
    by_default = trained.generate(**inputs).tolist()
    assert by_default == untrained.generate(**inputs, wait_k=3).tolist()
    assert by_default != untrained.generate(**inputs).tolist()
    assert (
        trained.generate(**inputs, wait_k="full").tolist() == untrained.generate(**inputs).tolist()
    )
    assert (
        trained.generate(**inputs, wait_k=1).tolist()
        == untrained.generate(**inputs, wait_k=1).tolist()
    )


def test_a_keyword_beats_the_generation_config_and_that_beats_the_config(model):
    model = copy.deepcopy(model)
    source, mask = batch(9, 6, 8)
    inputs = {"input_ids": source, "attention_mask": mask, "max_new_tokens": 10}
    expected = {k: model.generate(**inputs, wait_k=k).tolist() for k in (1, 2, 4, "full")}
    assert len({str(target) for target in expected.values()}) == 4
    model.config.wait_k = 4
    assert model.generate(**inputs).tolist() == expected[4]
    model.generation_config.wait_k = 2
    assert model.generate(**inputs).tolist() == expected[2]
    for k in (1, 4, "full"):
        assert model.generate(**inputs, wait_k=k).tolist() == expected[k]
    assert model.generate(**inputs, wait_k=torch.tensor([1, 1, 1])).tolist() == expected[1]
    assert model.generate(**inputs, wait_k=None).tolist() == expected[4]
    one_call = GenerationConfig(max_new_tokens=10, wait_k=1)
    del inputs["max_new_tokens"]
    assert model.generate(**inputs, generation_config=one_call).tolist() == expected[1]
    assert (
        model.generate(**inputs, generation_config=GenerationConfig(max_new_tokens=10)).tolist()
        == expected[2]
    )
    assert model.generation_config.wait_k == 2  # no call changes the model's own


def test_a_text_streamer_hears_every_word(model, tokenizer):
    source, _ = batch(9)
    heard = io.StringIO()
    with redirect_stdout(heard):
        target = model.generate(
            source,
            wait_k=2,
            max_new_tokens=8,
            streamer=TextStreamer(tokenizer, skip_special_tokens=True),
        )
    assert heard.getvalue().split() == tokenizer.decode(target[0], skip_special_tokens=True).split()
    assert len(heard.getvalue().split()) == 8


def test_generate_returns_what_it_is_asked_for(encoder_attention):
    model = tiny_model(encoder_attention=encoder_attention, attn_implementation="eager")
    source, mask = batch(6, 4)
    outputs = model.generate(
        source,
        attention_mask=mask,
        wait_k=2,
        max_new_tokens=5,
        return_dict_in_generate=True,
        output_attentions=True,
        output_hidden_states=True,
        output_logits=True,
    )
    width = 6 if encoder_attention == "causal" else packed_width(6)
    assert len(outputs.cross_attentions) == len(outputs.logits) == 5
    assert {layer.shape for step in outputs.cross_attentions for layer in step} == {
        (2, 2, 1, width)
    }
    assert isinstance(outputs.past_key_values, EncoderDecoderCache)
