"""Which models fit together, and which of them speak at each k."""

import random

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
)

from hf_simultaneous import AdaptiveWaitKGenerator, SimultaneousMTModel, linear_thresholds
from hf_simultaneous.ensembles import check_models, check_scored, choose_models, nearest
from hf_simultaneous.policies import Adaptive, LocalAgreement
from hf_simultaneous.schedule import FULL
from tests.reference import random_model
from tests.tiny import SIZES, TOKENS


def model(seed: int = 0, **overrides) -> SimultaneousMTModel:
    return random_model(
        random.Random(seed), overrides.pop("catchup", None), torch.float32, **overrides
    )


@pytest.fixture(scope="module")
def one():
    return model()


def test_members_are_sorted_the_full_sentence_model_last(one):
    assert list(check_models({5: one, FULL: one, 1: one})) == [1, 5, FULL]


def test_members_are_put_in_eval_mode():
    training = model().train()
    assert not check_models({1: training})[1].training


def test_a_single_model_is_named_by_its_own_k(one):
    assert list(check_models(one)) == [FULL]
    assert list(check_models(model(wait_k=3))) == [3]


def test_a_plain_marian_model_becomes_ours_and_shares_its_weights():
    marian = MarianMTModel(MarianConfig(**SIZES, **TOKENS))
    (ours,) = check_models(marian).values()
    assert type(ours) is SimultaneousMTModel
    assert ours.config.encoder_attention == "prefix"
    assert ours.lm_head.weight.data_ptr() == marian.lm_head.weight.data_ptr()


def test_sizes_encoders_and_positions_may_differ(one):
    other = model(
        1, d_model=32, max_position_embeddings=16, encoder_attention="causal", decoder_layers=3
    )
    assert len(check_models({1: one, 2: other})) == 2


def test_no_model_is_no_set():
    with pytest.raises(ValueError, match="a set needs at least one model; got none"):
        check_models({})


@pytest.mark.parametrize("key", [0, -1, True, "3", 2.0])
def test_models_are_named_by_their_k(one, key):
    with pytest.raises(
        ValueError,
        match=f"named by the k they were trained with, 1 to 1000, or 'full' for .*; got {key!r}",
    ):
        check_models({key: one})


@pytest.mark.parametrize(
    ("name", "value"),
    [("vocab_size", 25), ("eos_token_id", 3), ("pad_token_id", 1), ("catchup", 2)],
)
def test_models_of_a_set_share_one_tokenizer_and_one_schedule(one, name, value):
    message = f"share one tokenizer and one schedule, but {name} differs: {{1: .*, 4: {value}}}"
    with pytest.raises(ValueError, match=message):
        check_models({1: one, 4: model(1, **{"decoder_vocab_size": 24, name: value})})


def test_a_decoder_with_other_words_does_not_fit(one):
    with pytest.raises(ValueError, match="decoder_vocab_size differs: {1: 24, 2: 30}"):
        check_models({1: one, 2: model(1, decoder_vocab_size=30)})


@pytest.mark.parametrize("nonsense", ["opus-mt-de-en", None, 3])
def test_what_is_no_model_at_all_is_refused(nonsense):
    given = type(nonsense).__name__
    message = f"must be models of transformers; got {given}.*from_pretrained"
    with pytest.raises(ValueError, match=message):
        check_models(nonsense)
    with pytest.raises(ValueError, match=message):
        check_models({1: nonsense})


def test_other_ensembles_leave_the_policy_as_it_is():
    torch.manual_seed(0)
    stock = BartForConditionalGeneration(BartConfig(**SIZES, **TOKENS))
    generator = AdaptiveWaitKGenerator(stock)
    assert type(generator.usual_policy) is LocalAgreement
    assert type(generator.with_ensembles("all").usual_policy) is LocalAgreement
    chosen = generator.with_thresholds({1: 0.5}).with_ensembles("all")
    assert chosen.usual_policy == Adaptive({1: 0.5})


def test_thresholds_may_go_further_than_the_ensembles(one):
    generator = AdaptiveWaitKGenerator({1: one, 9: one}, None, {1: 0.9, 2: 0.1}, "all")
    further = generator.with_thresholds(linear_thresholds(1, 0, 1, 12))
    assert dict(further.ensembles) == {k: generator.ensembles.models_for(k) for k in range(1, 13)}
    with pytest.raises(ValueError, match="a threshold is a probability"):
        generator.with_thresholds({1: 2.0})


def test_the_best_are_not_known_without_scores():
    check_scored("top-3", [3, FULL], None)
    check_scored("all", [1, 3], None)
    with pytest.raises(ValueError, match="this set has no dev grid. Make it with python -m"):
        check_scored("top-3", [1, 3], None)


def test_the_nearest_k_is_the_larger_of_two_equally_near():
    assert nearest(4, [1, 3, 5, 9]) == [5, 3, 1, 9]
    assert nearest(4, [1, 4, 7]) == [4, 7, 1]


KS = range(1, 7)


def test_single_takes_the_nearest():
    chosen = choose_models("single", [1, 3, 5, FULL], KS, None)
    assert chosen == {1: (1,), 2: (3,), 3: (3,), 4: (5,), 5: (5,), 6: (5,)}


def test_all_leaves_the_full_sentence_model_out():
    assert choose_models("all", [1, 3, FULL], KS, None) == dict.fromkeys(KS, (1, 3))


@pytest.mark.parametrize("ensembles", ["single", "top-3", "all"])
def test_a_full_sentence_model_alone_speaks_at_every_k(ensembles):
    assert choose_models(ensembles, [FULL], KS, None) == dict.fromkeys(KS, (FULL,))


def test_top_3_without_scores_takes_the_three_nearest():
    chosen = choose_models("top-3", [1, 2, 3, 6, FULL], KS, None)
    assert chosen == {
        1: (1, 2, 3),
        2: (1, 2, 3),
        3: (1, 2, 3),
        4: (2, 3, 6),
        5: (2, 3, 6),
        6: (2, 3, 6),
    }
    assert choose_models("top-3", [1, 2], [1], None) == {1: (1, 2)}


def test_top_3_takes_the_best_under_each_policy():
    scores = {1: {1: 9.0, 2: 8.0, 3: 2.0, 4: 3.0}, 2: {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}}
    assert choose_models("top-3", [1, 2, 3, 4, FULL], [1, 2], scores) == {
        1: (1, 2, 4),
        2: (2, 3, 4),
    }


@pytest.mark.parametrize("scores", [{1: {1: 3.0, 2: 4.0}}, {1: {1: 3.0, 2: 4.0}, 2: {1: 3.0}}])
def test_scores_must_be_complete(scores):
    with pytest.raises(
        ValueError,
        match=r"every model a score under every policy; for k=2 got .*models are \[1, 2\]",
    ):
        choose_models("top-3", [1, 2], [1, 2], scores)


def test_ensembles_may_be_given():
    given = {1: [1, FULL], 2: [3], 9: [1]}
    assert choose_models(given, [1, 3, FULL], [1, 2], None) == {1: (1, FULL), 2: (3,), 9: (1,)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({1: [1]}, r"must name models for every k in thresholds; nothing for \[2\]"),
        ({1: [1], 2: [4]}, r"name models of the set, \[1, 3\], each once; got \[4\] for k=2"),
        ({1: [1], 2: []}, r"each once; got \[\] for k=2"),
        ({1: [1, 1], 2: [1]}, r"each once; got \[1, 1\] for k=1"),
        ("top-4", "ensembles must be 'single', 'top-3', 'all' or a mapping; got 'top-4'"),
    ],
)
def test_ensembles_that_do_not_fit_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        choose_models(given, [1, 3], [1, 2], None)
