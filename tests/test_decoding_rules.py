"""Which token is chosen and when a sentence is over, next to what transformers' own `generate`
would do."""

import copy
import math
import random

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    MaxTimeCriteria,
    PreTrainedTokenizerFast,
    StoppingCriteria,
)

from hf_simultaneous.actions import Prediction, State
from hf_simultaneous.decoding_rules import DecodingRules, NoLoops, rules_from
from tests.reference import random_model
from tests.tiny import EOS, PAD


VOCABULARY = 6


def rules(**options) -> DecodingRules:
    return DecodingRules(
        **{
            "eos": (EOS,),
            "prompt": (PAD,),
            "vocabulary": VOCABULARY,
            "position_limit": 100,
            **options,
        }
    )


@pytest.fixture(scope="module")
def shared_model():
    return random_model(random.Random(0), None, torch.float32)


@pytest.fixture
def model(shared_model):
    """Its generation config may be changed: the next test gets another."""
    twin = copy.copy(shared_model)
    twin.generation_config = copy.deepcopy(shared_model.generation_config)
    return twin


def from_model(model, **options) -> DecodingRules:
    return rules_from(model, **{"position_limit": 32, "prompt": (PAD,), **options})


class Favour(LogitsProcessor):
    """Puts one token first, and remembers what it was given."""

    def __init__(self, token: int):
        self.token, self.seen = token, []

    def __call__(self, input_ids, scores):
        self.seen.append((input_ids.tolist(), scores.clone()))
        scores[:, self.token] = 1.0
        return scores


class StopAt(StoppingCriteria):
    """Ends a sentence after one token, and remembers what it was given."""

    def __init__(self, token: int):
        self.token, self.seen = token, []

    def __call__(self, input_ids, scores, **kwargs):
        self.seen.append((input_ids.tolist(), scores))
        return input_ids[:, -1] == self.token


DISTRIBUTIONS = torch.tensor([[0.0, 0.1, 0.5, 0.3, 0.1, 0.0], [0.0, 0.1, 0.2, 0.3, 0.4, 0.0]])


def test_the_top_token_and_its_probability():
    answers = rules().choose(DISTRIBUTIONS, [State(), State()])
    assert answers == [Prediction(EOS, 0.5, ends=True), Prediction(4, pytest.approx(0.4))]
    assert answers[1].probability_of(3) == pytest.approx(0.3)


def test_an_end_is_said_to_be_one_and_read_on_only_while_the_source_is_open():
    end, word = rules(eos=(EOS, 3)).choose(DISTRIBUTIONS, [State(), State()])
    assert (end.token, end.ends, word.ends) == (EOS, True, False)
    strict = rules(eos=(EOS, 3), early_stop=False)
    assert [strict.reads_on(token, State()) for token in (EOS, 3, 4)] == [True, True, False]
    assert not strict.reads_on(EOS, State(source_ended=True))
    assert not rules().reads_on(EOS, State())


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("written", [21, 22, 99, 100])
def test_more_source_is_read_where_it_makes_room(early_stop, written):
    strict = rules(early_stop=early_stop)
    longer = State(source=[5], target=[4] * written)
    assert strict.reads_on(4, longer) is (not early_stop and 22 <= written < 100)
    longer.source_ended = True
    assert not strict.reads_on(4, longer)


def test_processors_see_log_probabilities_and_the_answer_keeps_the_unprocessed_one():
    processor = Favour(1)
    chosen = rules(processors=LogitsProcessorList([processor])).choose(
        DISTRIBUTIONS, [State(target=[5]), State()]
    )
    assert [(answer.token, answer.probability) for answer in chosen] == [
        (1, pytest.approx(0.1))
    ] * 2
    (ids, scores), (other_ids, _) = processor.seen
    assert ids == [[PAD, 5]]
    assert other_ids == [[PAD]]
    assert torch.equal(scores, DISTRIBUTIONS[:1].log())


def test_a_token_forced_at_the_length_limit_beats_early_stop(model):
    forcing = from_model(model, max_new_tokens=3, forced_eos_token_id=EOS, early_stop=False)
    flat = torch.full((1, 24), 1 / 24)
    assert forcing.choose(flat, [State(target=[5])])[0].token == 0
    assert forcing.choose(flat, [State(target=[5, 6])])[0].token == EOS


@pytest.mark.parametrize(
    ("options", "state", "over"),
    [
        ({}, State(source=[5], target=[4, EOS]), True),
        ({}, State(source=[5], target=[EOS, 4]), False),
        ({"eos": (EOS, 4)}, State(source=[5], target=[4]), True),
        ({"max_new_tokens": 2}, State(source=[5], target=[4]), False),
        ({"max_new_tokens": 2}, State(source=[5], target=[4, 4]), True),
        ({"max_new_tokens": 200}, State(source=[5], target=[4] * 99), False),
        ({"max_new_tokens": 200}, State(source=[5], target=[4] * 100), True),
        ({}, State(source=[5] * 10, target=[4] * 39), False),
        ({}, State(source=[5] * 10, target=[4] * 40), True),
        ({}, State(source=[5] * 60, target=[4] * 100), True),
        ({"ceiling": 30}, State(source=[5], target=[4] * 21), False),
        ({"ceiling": 30}, State(source=[5], target=[4] * 22), True),
        ({"ceiling": 30}, State(source=[5] * 10, target=[4] * 29), False),
        ({"ceiling": 30}, State(source=[5] * 10, target=[4] * 30), True),
        ({"ceiling": 30, "max_new_tokens": 50}, State(source=[5], target=[4] * 49), False),
        ({"early_stop": False}, State(source=[5] * 10, target=[4] * 40), False),
        ({"early_stop": False}, State([5] * 10, [4] * 40, source_ended=True), True),
        ({"early_stop": False}, State(source=[5] * 60, target=[4] * 100), True),
        ({"early_stop": False, "ceiling": 40}, State(source=[5] * 10, target=[4] * 40), True),
        ({"early_stop": False, "max_new_tokens": 2}, State(source=[5], target=[4, 4]), True),
    ],
)
def test_when_a_sentence_is_over(options, state, over):
    assert rules(**options).over(state, None) is over


def test_stopping_criteria_see_what_transformers_shows_them(model):
    criterion = StopAt(4)
    stopping = from_model(model, stopping_criteria=[criterion])
    distribution = torch.full((24,), 1 / 24)
    assert not stopping.over(State(source=[5], target=[3]), Prediction(3, 1 / 24, distribution))
    assert stopping.over(State(source=[5], target=[3, 4]), Prediction(4, 1 / 24, distribution))
    (ids, scores), _ = criterion.seen
    assert ids == [[PAD, 3]]
    assert scores[-1].softmax(-1)[0, 3].item() == pytest.approx(1 / 24)
    assert stopping.over(State(source=[5], target=[4]), None)
    assert criterion.seen[-1] == ([[PAD, 4]], None)


def test_a_length_below_one_is_refused():
    with pytest.raises(ValueError, match="max_new_tokens must be an integer of 1 or more; got 0"):
        rules(max_new_tokens=0)


@pytest.mark.parametrize(
    ("own", "given", "keywords", "length", "ceiling"),
    [
        ({}, None, {}, None, None),
        ({"max_length": 9}, None, {}, None, 8),
        ({"max_length": 9, "max_new_tokens": 5}, None, {}, None, 5),
        ({"max_length": 9}, {"max_new_tokens": 3}, {}, 3, 8),
        ({"max_length": 9}, {"min_length": 3}, {}, None, 8),
        ({"max_new_tokens": 5}, {"max_length": 3}, {"max_length": 7}, 6, 5),
        ({"max_length": 9}, None, {"max_new_tokens": 2}, 2, 8),
        ({}, None, {"max_length": 1}, 1, None),
    ],
)
def test_lengths_come_from_the_keywords_or_the_given_config_and_the_models_own_is_a_ceiling(
    model, own, given, keywords, length, ceiling
):
    model.generation_config.update(**own)
    config = GenerationConfig(**given) if given else None
    made = from_model(model, generation_config=config, **keywords)
    assert (made.max_new_tokens, made.ceiling) == (length, ceiling)


def test_processors_are_those_of_transformers(model):
    settings = {
        "repetition_penalty": 1.3,
        "no_repeat_ngram_size": 2,
        "bad_words_ids": [[5]],
        "min_length": 3,
        "forced_bos_token_id": 7,
        "forced_eos_token_id": 2,
        "max_length": 9,
        "suppress_tokens": [6],
    }
    names = [type(processor).__name__ for processor in from_model(model, **settings).processors]
    assert names == [
        "RepetitionPenaltyLogitsProcessor",
        "NoRepeatNGramLogitsProcessor",
        "NoBadWordsLogitsProcessor",
        "MinLengthLogitsProcessor",
        "ForcedBOSTokenLogitsProcessor",
        "ForcedEOSTokenLogitsProcessor",
        "SuppressTokensLogitsProcessor",
    ]
    assert not from_model(model).processors
    assert not from_model(model, forced_eos_token_id=2).processors, (
        "without a limit there is nothing to force it at"
    )


def test_ends_and_limits_of_the_model(model):
    made = from_model(model, eos_token_id=[2, 5], early_stop=False)
    assert (made.eos, made.prompt, made.vocabulary, made.position_limit) == ((2, 5), (PAD,), 24, 32)
    assert not made.early_stop
    assert not made.stopping, "the end and the length are looked after here"


def test_a_time_limit_is_kept(model):
    (criterion,) = from_model(model, max_time=3.0).stopping
    assert isinstance(criterion, MaxTimeCriteria)


def test_stop_strings_need_a_tokenizer(model):
    with pytest.raises(ValueError, match="could not locate a tokenizer"):
        from_model(model, stop_strings=["ab"])
    letters = {letter: index for index, letter in enumerate(sorted(ByteLevel.alphabet()))}
    backend = Tokenizer(BPE(vocab=letters, merges=[]))
    backend.pre_tokenizer, backend.decoder = ByteLevel(add_prefix_space=False), ByteLevelDecoder()
    stopping = from_model(
        model, stop_strings=["ab"], tokenizer=PreTrainedTokenizerFast(tokenizer_object=backend)
    )
    assert stopping.over(State(source=[5], target=[letters["a"], letters["b"]]), None)
    assert not stopping.over(State(source=[5], target=[letters["b"], letters["a"]]), None)


@pytest.mark.parametrize(
    "search", [{"num_beams": 4}, {"do_sample": True}, {"num_return_sequences": 2, "num_beams": 2}]
)
def test_there_is_nothing_to_search(model, search):
    message = (
        "simultaneous decoding is greedy: nothing written is taken back. "
        "Leave out num_beams, do_sample and"
    )
    with pytest.raises(ValueError, match=message):
        from_model(model, **search)
    with pytest.raises(ValueError, match=message):
        from_model(model, generation_config=GenerationConfig(**search))


@pytest.mark.parametrize(
    "name", ["output_scores", "output_logits", "output_attentions", "output_hidden_states"]
)
def test_what_is_not_returned_is_refused(model, name):
    message = f"does not return what {name} asks for. Leave it out: return_dict_in_generate=True"
    with pytest.raises(ValueError, match=message):
        from_model(model, **{name: True})
    with pytest.raises(ValueError, match=message):
        from_model(model, generation_config=GenerationConfig(**{name: True}))
    from_model(model, **{name: False})


def test_a_checkpoint_may_have_beams_by_default(model):
    model.generation_config.num_beams = 6
    assert from_model(model).max_new_tokens is None


@pytest.mark.parametrize(
    "unknown", [{"wait_k": 3}, {"temprature": 0.3}, {"decoder_input_ids": torch.ones(1, 1)}]
)
def test_unknown_arguments_are_refused(model, unknown):
    (name,) = unknown
    with pytest.raises(
        ValueError, match=f"unknown arguments: {name}. Allowed are those of GenerationConfig, and"
    ):
        from_model(model, **unknown)


def test_a_default_wait_k_of_the_model_is_left_to_the_policy(model):
    model.generation_config.wait_k = 3
    assert from_model(model).eos == (EOS,)


def test_a_model_that_cannot_end_is_refused(model):
    model.generation_config.eos_token_id = None
    with pytest.raises(
        ValueError, match="the models have no eos_token_id, so no sentence would ever end"
    ):
        from_model(model)


def test_a_probability_of_zero_is_no_obstacle():
    (answer,) = rules(processors=LogitsProcessorList([Favour(0)])).choose(
        DISTRIBUTIONS[:1], [State()]
    )
    assert (answer.token, answer.probability) == (0, 0.0)
    assert math.isfinite(answer.probability)


@pytest.mark.parametrize(
    ("written", "forbidden"),
    [
        ([4] * 8, {4}),
        ([4] * 7, set()),
        ([5, 4, 5, 4, 5, 4, 5, 4, 5], {4}),
        ([5, 4, 5, 4, 5, 4, 5], set()),
        ([3, 4, 5, 3, 4, 5, 3, 4, 5, 3, 4], {5}),
        ([1, 3, 4, 5, 3, 4, 5, 3, 4, 5, 3, 4], {5}),
        ([3, 4, 5, 3, 4, 5, 3, 4, 5, 3], set()),
        ([3, 4, 5, 3, 4, 1, 3, 4, 5, 3, 4], set()),
    ],
)
def test_a_phrase_does_not_go_on_for_ever(written, forbidden):
    scores = torch.zeros(1, 6)
    guarded = NoLoops()(torch.tensor([[PAD, *written]]), scores)
    assert {token for token in range(6) if guarded[0, token] == -torch.inf} == forbidden
    assert not scores.any(), "what it was given is left alone"


def test_our_own_guard_forbids_the_same_for_many_rows_as_for_each():
    guarded = rules(processors=LogitsProcessorList([NoLoops()]))
    distributions = DISTRIBUTIONS[[1, 1, 0]]
    states = [State(target=[4] * 8), State(target=[4] * 7), State()]
    for_each = [
        guarded.processors(torch.tensor([[PAD, *state.target]]), row.log()[None])[0]
        for row, state in zip(distributions, states, strict=True)
    ]
    assert torch.equal(guarded.scores(distributions, states), torch.stack(for_each))
    assert [answer.token for answer in guarded.choose(distributions, states)] == [3, 4, EOS]
    assert torch.equal(distributions, DISTRIBUTIONS[[1, 1, 0]]), "what it was given is left alone"
