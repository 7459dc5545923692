"""`SimultaneousMTModel.forward`: what a step may see, and the ways of computing it that must
agree."""

import copy

import pytest
import torch
from transformers import (
    DynamicCache,
)

from hf_simultaneous.encoder_decoder import chunks
from hf_simultaneous.masks import plain_cross_mask, visible_counts
from hf_simultaneous.schedule import visible
from tests.tiny import (
    EOS,
    VOCABULARY,
    batch,
    from_first_principles,
    tiny_model,
    words,
)


pytestmark = pytest.mark.usefixtures("no_gradients")
KS = range(1, 11)
SOURCE_LEN, TARGET_LEN = 13, 15


# What a step may see


def changed_one_by_one(source):
    """A batch of the same source, row s with another token in place s (from 0), and as many rows of
    the original."""
    original = source.repeat(source.shape[1], 1)
    changed = original.clone()
    changed.diagonal().copy_((source[0] - EOS) % (VOCABULARY - EOS - 1) + EOS + 1)
    assert (original != changed).sum() == source.shape[1]
    return original, changed


def moved(logits, source, target):
    """(place, step): does the logit at `step` change, by a single bit, when the source changes in
    that place?"""
    original, changed = changed_one_by_one(source)
    target = target.repeat(len(original), 1)
    return (logits(original, target) != logits(changed, target)).any(-1)


def may_move(k, catchup=None):
    seen = torch.tensor(
        [visible(step, k, SOURCE_LEN, catchup) for step in range(1, TARGET_LEN + 1)]
    )
    return torch.arange(SOURCE_LEN)[:, None] < seen


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("catchup", [None, 2, 6])
def test_a_step_sees_the_source_up_to_g_and_not_one_token_more(encoder_attention, k, catchup):
    model = tiny_model(encoder_attention=encoder_attention, catchup=catchup)
    found = moved(
        lambda source, target: model(source, decoder_input_ids=target, wait_k=k).logits,
        words(1, SOURCE_LEN),
        words(1, TARGET_LEN, seed=1),
    )
    assert torch.equal(found, may_move(k, catchup))


@pytest.mark.parametrize("k", [1, 4])
def test_eager_attention_does_not_leak_either(encoder_attention, k):
    model = tiny_model(encoder_attention=encoder_attention, attn_implementation="eager")
    found = moved(
        lambda source, target: model(source, decoder_input_ids=target, wait_k=k).logits,
        words(1, SOURCE_LEN),
        words(1, TARGET_LEN, seed=1),
    )
    assert torch.equal(found, may_move(k))


def test_a_model_sees_what_it_was_trained_to_see(encoder_attention):
    model = tiny_model(encoder_attention=encoder_attention, wait_k=3, catchup=4)
    source, target = words(1, SOURCE_LEN), words(1, TARGET_LEN, seed=1)
    by_default = moved(lambda x, y: model(x, decoder_input_ids=y).logits, source, target)
    assert torch.equal(by_default, may_move(3, 4))
    full = moved(lambda x, y: model(x, decoder_input_ids=y, wait_k="full").logits, source, target)
    assert full.all()


def masked_over_one_pass(model, source, target, k):
    """The control: one bidirectional pass, and g(t) only as a mask over it."""
    states = model.get_encoder()(source, wait_k="full").last_hidden_state
    counts = visible_counts(
        torch.arange(1, target.shape[1] + 1), k, torch.full((len(source),), source.shape[1])
    )
    decoded = model.get_decoder()(
        target,
        encoder_hidden_states=states,
        encoder_attention_mask=plain_cross_mask(counts, source.shape[1]),
    )
    return model.lm_head(decoded.last_hidden_state) + model.final_logits_bias


@pytest.mark.parametrize("k", KS)
def test_the_control_leaks(k):
    source, target = words(1, SOURCE_LEN), words(1, TARGET_LEN, seed=1)
    leaky = tiny_model(encoder_attention="prefix")
    found = moved(lambda x, y: masked_over_one_pass(leaky, x, y, k), source, target)
    assert (found & ~may_move(k)).sum() == (~may_move(k)).sum() > 0
    # The same mask over a causal encoder is the real thing, so it is the encoder that leaks and not
    # the control.
    tight = tiny_model(encoder_attention="causal")
    assert torch.equal(
        moved(lambda x, y: masked_over_one_pass(tight, x, y, k), source, target), may_move(k)
    )
    assert torch.equal(
        masked_over_one_pass(tight, source, target, k),
        tight(source, decoder_input_ids=target, wait_k=k).logits,
    )


def test_with_the_librarys_own_weights_an_ordinary_tolerance_would_miss_the_leak():
    leaky = tiny_model(encoder_attention="prefix", init_std=0.02, scale_embedding=False)
    original, changed = changed_one_by_one(words(1, SOURCE_LEN))
    target = words(1, TARGET_LEN, seed=1).repeat(SOURCE_LEN, 1)
    gap = masked_over_one_pass(leaky, original, target, 1) - masked_over_one_pass(
        leaky, changed, target, 1
    )
    first_step = gap[1:, 0].abs().max()
    assert 0 < first_step < 1e-5


# Ways to compute it that must agree


@pytest.mark.parametrize("k", ["full", *KS])
@pytest.mark.parametrize("catchup", [None, 3])
def test_one_forward_equals_encoding_anew_before_every_step(encoder_attention, k, catchup):
    model = tiny_model(dtype=torch.float64, encoder_attention=encoder_attention, catchup=catchup)
    source, target = words(3, 9), words(3, 12, seed=1)
    logits = model(source, decoder_input_ids=target, wait_k=k).logits
    torch.testing.assert_close(
        logits, from_first_principles(model, source, target, k), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("catchup", [None, 3])
def test_k_may_change_from_step_to_step(encoder_attention, catchup):
    model = tiny_model(dtype=torch.float64, encoder_attention=encoder_attention, catchup=catchup)
    source, target = words(3, 9), words(3, 8, seed=1)
    paths = [[1, 1, 4, 3, 2, 6, 5, 4], [3, 2, 1, 1, 1, 1, 1, 1], [2] * 8]
    logits = model(source, decoder_input_ids=target, wait_k=torch.tensor(paths)).logits
    for row, path in enumerate(paths):
        alone = slice(row, row + 1)
        expected = from_first_principles(model, source[alone], target[alone], path)
        torch.testing.assert_close(logits[alone], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("pieces", [[1] * 12, [5, 1, 4, 2]])
@pytest.mark.parametrize("k", [None, 1, 3, torch.tensor([1, 7, 2])])
@pytest.mark.parametrize(
    ("dtype", "init_std", "tolerance"), [(torch.float64, 0.5, 1e-10), (torch.float32, 0.1, 1e-5)]
)
def test_cached_steps_equal_one_forward(encoder_attention, dtype, init_std, tolerance, k, pieces):
    model = tiny_model(dtype=dtype, encoder_attention=encoder_attention, init_std=init_std)
    source, mask = batch(9, 6, 8)
    target = words(3, 12, seed=1)
    whole = model(source, attention_mask=mask, decoder_input_ids=target, wait_k=k).logits
    past, steps = None, []
    states = model.get_encoder()(source, attention_mask=mask, wait_k=k)
    for piece in target.split(pieces, dim=1):
        outputs = model(
            encoder_outputs=states,
            attention_mask=mask,
            decoder_input_ids=piece,
            past_key_values=past,
            wait_k=k,
        )
        past = outputs.past_key_values
        steps.append(outputs.logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, rtol=0, atol=tolerance)


@pytest.mark.parametrize("k", [None, 1, 3])
def test_padding_a_batch_changes_nothing(exact, k):
    source, mask = batch(11, 4, 1, 8)
    target = words(4, 10, seed=1)
    together = exact(source, attention_mask=mask, decoder_input_ids=target, wait_k=k).logits
    more = torch.nn.functional.pad(source, (0, 3), value=7), torch.nn.functional.pad(mask, (0, 3))
    torch.testing.assert_close(
        exact(more[0], attention_mask=more[1], decoder_input_ids=target, wait_k=k).logits,
        together,
        rtol=0,
        atol=1e-10,
    )
    for row, length in enumerate([11, 4, 1, 8]):
        alone = exact(
            source[row : row + 1, :length], decoder_input_ids=target[row : row + 1], wait_k=k
        ).logits
        torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=1e-10)


def test_what_the_padding_is_does_not_matter_to_a_bit(model):
    source, mask = batch(11, 4, 1, 8)
    target, other = words(4, 10, seed=1), torch.where(mask.bool(), source, words(4, 11, seed=2))
    for k in (None, 1, 3):
        one, two = (
            model(x, attention_mask=mask, decoder_input_ids=target, wait_k=k).logits
            for x in (source, other)
        )
        assert torch.equal(one, two)


@pytest.mark.parametrize("mask_type", [torch.long, torch.bool, torch.float32])
def test_a_mask_may_be_of_any_type(model, mask_type):
    source, mask = batch(7, 4)
    target = words(2, 5, seed=1)
    for k in (None, 2):
        expected = model(source, attention_mask=mask, decoder_input_ids=target, wait_k=k).logits
        got = model(
            source, attention_mask=mask.to(mask_type), decoder_input_ids=target, wait_k=k
        ).logits
        assert torch.equal(got, expected)


def test_every_sentence_may_have_a_k_of_its_own(exact):
    source, mask = batch(9, 6, 8, 9)
    target, ks = words(4, 12, seed=1), [1, 7, 3, 99]
    together = exact(
        source, attention_mask=mask, decoder_input_ids=target, wait_k=torch.tensor(ks)
    ).logits
    for row, k in enumerate(ks):
        rows = slice(row, row + 1)
        alone = exact(
            source[rows], attention_mask=mask[rows], decoder_input_ids=target[rows], wait_k=k
        ).logits
        torch.testing.assert_close(together[rows], alone, rtol=0, atol=1e-10)
    full = exact(source, attention_mask=mask, decoder_input_ids=target, wait_k="full").logits
    torch.testing.assert_close(together[3], full[3], rtol=0, atol=1e-10)


def test_a_tensor_of_one_number_is_that_number(model):
    source, target = words(2, 7), words(2, 5, seed=1)
    expected = model(source, decoder_input_ids=target, wait_k=2).logits
    assert torch.equal(
        model(source, decoder_input_ids=target, wait_k=torch.tensor(2)).logits, expected
    )
    assert torch.equal(
        model(source, decoder_input_ids=target, wait_k=torch.tensor([2, 2])).logits, expected
    )


@pytest.mark.parametrize("k", [None, 1, 3])
def test_eager_equals_sdpa(exact, k):
    source, mask = batch(9, 6, 8)
    target = words(3, 12, seed=1)
    eager = copy.deepcopy(exact)
    eager.set_attn_implementation("eager")
    assert (eager.config._attn_implementation, exact.config._attn_implementation) == (
        "eager",
        "sdpa",
    )
    for given in (mask, None):
        torch.testing.assert_close(
            eager(source, attention_mask=given, decoder_input_ids=target, wait_k=k).logits,
            exact(source, attention_mask=given, decoder_input_ids=target, wait_k=k).logits,
            rtol=0,
            atol=1e-10,
        )


@pytest.mark.parametrize("positions", [1, 7, 20, 60])
def test_prefixes_encoded_in_small_calls_are_the_same(positions):
    model = tiny_model(dtype=torch.float64, encoder_attention="prefix")
    source, mask = batch(9, 5, 7)
    target, k = words(3, 12, seed=1), torch.tensor([2, 1, 3])
    at_once = model(source, attention_mask=mask, decoder_input_ids=target, wait_k=k).logits
    calls = []
    model.model.encoder.layers[0].register_forward_hook(
        lambda _, inputs, __: calls.append(inputs[0].shape[:2])
    )
    model.model.encoder.prefix_positions_per_call = positions
    in_pieces = model(source, attention_mask=mask, decoder_input_ids=target, wait_k=k).logits
    torch.testing.assert_close(in_pieces, at_once, rtol=0, atol=1e-12)
    assert len(calls) > 1
    assert all(rows * length <= max(positions, 9) for rows, length in calls)
    assert sum(rows for rows, _ in calls) == (9 - 2 + 1) + (5 - 1 + 1) + (
        7 - 3 + 1
    )  # no prefix below g(1)


def test_chunks_cover_everything_once_and_stay_within_the_limit():
    sizes = [1, 1, 2, 3, 3, 3, 5, 8, 8, 13]
    for limit in range(1, 150):
        cut = [sizes[chunk] for chunk in chunks(sizes, limit)]
        assert sum(cut, []) == sizes
        assert all(len(chunk) == 1 or len(chunk) * chunk[-1] <= limit for chunk in cut)


def test_the_encoder_goes_by_the_config_it_has_now():
    model = tiny_model(encoder_attention="prefix")
    source, target = words(2, 7), words(2, 5, seed=1)
    model.config.encoder_attention = "causal"
    causal = tiny_model(encoder_attention="causal")
    for k in (None, 2):
        ours = model(source, decoder_input_ids=target, wait_k=k).logits
        assert torch.equal(ours, causal(source, decoder_input_ids=target, wait_k=k).logits)


def test_embeddings_may_be_given_instead_of_tokens(model):
    source, mask = batch(7, 5)
    target = words(2, 6, seed=1)
    encoder, decoder = model.get_encoder(), model.get_decoder()
    for k in (None, 2):
        expected = model(source, attention_mask=mask, decoder_input_ids=target, wait_k=k).logits
        embedded = model(
            inputs_embeds=encoder.embed_tokens(source) * encoder.embed_scale,
            attention_mask=mask,
            decoder_inputs_embeds=decoder.embed_tokens(target),
            wait_k=k,
        ).logits
        assert torch.equal(embedded, expected)


def test_the_decoder_takes_positions_row_by_row(exact):
    """A row that starts elsewhere is masked as the step it stands at."""
    source, target = words(2, 9), words(2, 8, seed=1)
    whole = exact(
        source, decoder_input_ids=target, wait_k=2, output_hidden_states=True
    ).decoder_hidden_states[-1]
    states = exact.get_encoder()(source, wait_k=2).last_hidden_state
    positions = torch.arange(8).expand(2, 8)
    decoded = exact.get_decoder()(
        target, encoder_hidden_states=states, position_ids=positions, wait_k=2
    )
    torch.testing.assert_close(decoded.last_hidden_state, whole, rtol=0, atol=1e-12)


def test_a_causal_encoder_goes_on_where_it_stopped():
    model = tiny_model(dtype=torch.float64, encoder_attention="causal")
    source, encoder = words(2, 9), model.get_encoder()
    past, pieces = DynamicCache(), []
    for start, end in [(0, 4), (4, 5), (5, 9)]:
        allowed = torch.ones(end, end, dtype=torch.bool).tril()[start:].expand(2, 1, -1, -1)
        positions = torch.arange(start, end).expand(2, -1)
        outputs = encoder(
            source[:, start:end],
            attention_mask=allowed,
            position_ids=positions,
            past_key_values=past,
        )
        pieces.append(outputs.last_hidden_state)
    torch.testing.assert_close(
        torch.cat(pieces, 1), encoder(source).last_hidden_state, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (torch.float64, 1e-4),
        pytest.param(torch.bfloat16, 0.5, marks=pytest.mark.precision("bfloat16")),
    ],
)
def test_other_precisions(model, dtype, tolerance):
    source, mask = batch(7, 5)
    target = words(2, 6, seed=1)
    other = copy.deepcopy(model).to(dtype)
    for k in (None, 2):
        logits = other(source, attention_mask=mask, decoder_input_ids=target, wait_k=k).logits
        assert logits.dtype == dtype
        expected = model(source, attention_mask=mask, decoder_input_ids=target, wait_k=k).logits
        assert (logits.float() - expected).abs().mean() < tolerance
