"""`AdaptiveWaitKGenerator.generate` as transformers users expect it, any policy in it, and what it
refuses."""

import copy
import random
import re
import warnings
from threading import Thread

import numpy as np
import pytest
import torch
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    MarianConfig,
    MarianMTModel,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    TextIteratorStreamer,
    TextStreamer,
)
from transformers.generation.streamers import BaseStreamer
from transformers.utils import ModelOutput

from hf_simultaneous import (
    ActionStreamer,
    AdaptiveWaitKGenerator,
    TextSession,
    linear_thresholds,
)
from hf_simultaneous.actions import Event, Read, State, Write
from hf_simultaneous.families import adapter_for
from hf_simultaneous.live_sentence import LiveSentence
from hf_simultaneous.outputs import SimultaneousOutput
from hf_simultaneous.policies import Adaptive, FullSentence, TestTimeWaitK, WaitIfDiff, WaitK
from hf_simultaneous.schedule import FULL
from tests.guard import PATIENCE
from tests.reference import forced, padded, random_model, word_tokenizer
from tests.tiny import EOS, PAD, SIZES, TOKENS


torch.set_num_threads(1)

SOURCES = [[5, 9, 14, 20, 7, EOS], [11, 6, EOS], [8, 8, 21, 4, 13, 17, 10, EOS], [23, EOS]]
IDS, MASK = padded(SOURCES), padded([[1] * len(source) for source in SOURCES])
THRESHOLDS = linear_thresholds(0.9, 0.2, 1, 5)


def model(seed: int, encoder: str = "causal", **overrides):
    return random_model(
        random.Random(seed), None, torch.float32, encoder_attention=encoder, **overrides
    )


@pytest.fixture(scope="module")
def models():
    return {1: model(1), 3: model(2, "prefix"), 4: model(4)}


@pytest.fixture
def generator(models):
    return AdaptiveWaitKGenerator(models, word_tokenizer(), THRESHOLDS)


@pytest.fixture(scope="module", params=["causal", "prefix"])
def talker(request):
    """A model that has something to say."""
    return model(3, request.param, decoder_layers=2)


def path(actions) -> str:
    return "".join("R" if isinstance(action, Read) else "W" for action in actions)


# As transformers does it


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_wait_k_is_what_model_generate_does(talker, k):
    expected = talker.generate(IDS, attention_mask=MASK, wait_k=k, max_new_tokens=9)
    found = AdaptiveWaitKGenerator(talker).generate(
        IDS, attention_mask=MASK, policy=WaitK(k), max_new_tokens=9
    )
    assert torch.equal(found, expected)
    assert len(set(found.flatten().tolist())) > 4


class Stop(StoppingCriteria):
    """After three tokens, or after an odd one."""

    def __call__(self, input_ids, scores, **kwargs):
        return (input_ids[:, -1] % 2 == 1) | torch.tensor([input_ids.shape[1] > 3])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_new_tokens": 1},
        {"max_length": 6},
        {"bad_words_ids": [[7], [14], [20], [22], [3, 8]]},
        {"no_repeat_ngram_size": 1},
        {"min_length": 5},
        {"min_new_tokens": 7},
        {"forced_bos_token_id": 9},
        {"forced_eos_token_id": EOS},
        {"suppress_tokens": [EOS, 1, 22]},
        {"eos_token_id": [EOS, 1, 22]},
        {"sequence_bias": [[[EOS], 3.0]]},
        {"stopping_criteria": [Stop()]},
        {"generation_config": GenerationConfig(max_new_tokens=3)},
    ],
    ids=lambda settings: " ".join(settings) or "none",
)
def test_the_full_sentence_is_what_model_generate_does(talker, settings):
    if "max" not in " ".join(settings) and "generation_config" not in settings:
        settings = {"max_new_tokens": 9, **settings}
    expected = talker.generate(IDS, attention_mask=MASK, wait_k="full", **settings)
    generator = AdaptiveWaitKGenerator(talker)
    found = generator.generate(IDS, attention_mask=MASK, policy=FullSentence(), **settings)
    assert torch.equal(found, expected)


def test_a_repetition_penalty_works_on_the_log_of_the_mean_probability():
    models, members = {1: model(16), 4: model(18)}, (1, 4)
    source, target, turned = SOURCES[2], [], 0
    penalty = RepetitionPenaltyLogitsProcessor(3.0)
    while EOS not in target and len(target) < 8:
        mean = sum(forced(models[k], source, target, None) for k in members) / 2
        target.append(int(penalty(torch.tensor([[PAD, *target]]), mean.log()[None]).argmax()))
        turned += target[-1] != int(mean.argmax())
    assert turned > 1, "or nothing is tested"
    generator, settings = (
        AdaptiveWaitKGenerator(models),
        {"policy": FullSentence(models=members), "max_new_tokens": 8},
    )
    assert (
        generator.generate([source], repetition_penalty=3.0, **settings)[0, 1:].tolist() == target
    )
    processors = LogitsProcessorList([penalty])
    assert (
        generator.generate([source], logits_processor=processors, **settings)[0, 1:].tolist()
        == target
    )


def test_the_threshold_compares_the_unprocessed_probability_of_the_chosen_token(models):
    first = forced(models[1], SOURCES[0][:1], [], 1)
    (high, low), (top, second) = (values.tolist() for values in first.topk(2))

    def run(rho, **settings):
        generator = AdaptiveWaitKGenerator({1: models[1]}, thresholds={1: rho, 2: 0.0})
        return generator.generate(
            [SOURCES[0]], max_new_tokens=1, return_dict_in_generate=True, **settings
        )

    between, banned = (high + low) / 2, {"bad_words_ids": [[top]]}
    assert run(between).actions[0] == [Read(), Write(top)]
    assert path(run(between, **banned).actions[0]) == "RRW"
    written = run(low * 0.99, **banned)
    assert written.actions[0] == [Read(), Write(second)]
    assert written.probabilities[0] == [pytest.approx(low, abs=1e-6)]


def test_lengths_come_from_the_generation_config_of_the_member_at_the_root(models):
    models = {k: copy.copy(one) for k, one in models.items()}
    for k, one in models.items():
        one.generation_config = copy.deepcopy(one.generation_config)
        one.generation_config.max_new_tokens = k
    generator = AdaptiveWaitKGenerator(models)
    assert generator.root == 4
    assert generator.model is models[4]
    assert generator.generate(IDS, MASK).shape[1] <= 5
    assert generator.generate(IDS, MASK, max_new_tokens=2).shape[1] <= 3


def test_without_a_length_twice_the_source_and_a_little_is_allowed(models):
    generator = AdaptiveWaitKGenerator(models)
    found = generator.generate([[5, 6, EOS]], eos_token_id=1, suppress_tokens=[1], policy=WaitK(1))
    assert found.shape[1] == 1 + 2 * 3 + 20
    last = copy.copy(models[4])
    last.generation_config = copy.deepcopy(last.generation_config)
    last.generation_config.max_length = 60
    capped = AdaptiveWaitKGenerator({**models, 4: last})
    again = capped.generate([[5, 6, EOS]], eos_token_id=1, suppress_tokens=[1], policy=WaitK(1))
    assert torch.equal(again, found), "what a checkpoint has for all sources is no bound for one"


@pytest.mark.parametrize("wanted", [True, False])
def test_a_generation_config_may_ask_for_all_there_is_to_return(models, wanted):
    generator = AdaptiveWaitKGenerator(models)
    config = GenerationConfig(return_dict_in_generate=wanted, max_new_tokens=2)
    found = generator.generate(IDS, MASK, generation_config=config)
    assert isinstance(found, SimultaneousOutput if wanted else torch.Tensor)
    other = {"return_dict_in_generate": not wanted}
    found = generator.generate(IDS, MASK, generation_config=config, **other)
    assert isinstance(found, torch.Tensor if wanted else SimultaneousOutput)


@pytest.mark.parametrize(
    "kind", [np.array, torch.tensor, lambda ids: [torch.tensor(row) for row in ids]]
)
def test_sources_may_come_in_arrays_and_tensors(models, kind):
    generator = AdaptiveWaitKGenerator(models)
    sources = [[5, 6, EOS], [7, 8, EOS]]
    found = generator.generate(kind(sources), max_new_tokens=4)
    assert torch.equal(found, generator.generate(sources, max_new_tokens=4))
    with pytest.raises(ValueError, match="input_ids has two dimensions, sentences and tokens"):
        generator.generate(kind(sources[0]))


@pytest.mark.parametrize("most", [1, 12, 1000])
def test_no_call_of_the_encoder_is_larger_than_is_allowed(monkeypatch, most):
    generator = AdaptiveWaitKGenerator(model(6), thresholds=THRESHOLDS)
    expected = generator.generate(IDS, MASK, max_new_tokens=4)
    adapter, areas = adapter_for(generator.model), []

    def encode(sources):
        areas.append(len(sources) * max(map(len, sources)))
        return type(adapter).encode(adapter, sources)

    monkeypatch.setattr(adapter, "positions_per_call", most)
    monkeypatch.setattr(adapter, "encode", encode)
    assert torch.equal(generator.generate(IDS, MASK, max_new_tokens=4), expected)
    assert max(areas) <= max(most, max(map(len, SOURCES)))


def test_the_position_limit_ends_a_sentence(models):
    generator = AdaptiveWaitKGenerator({**models, 2: model(5, max_position_embeddings=10)})
    assert generator.position_limit == 10
    found = generator.generate([[5, 6, EOS]], eos_token_id=1, suppress_tokens=[1], policy=WaitK(1))
    assert found.shape[1] == 1 + 10


def test_a_plain_marian_model_serves_every_k():
    torch.manual_seed(3)
    marian = MarianMTModel(
        MarianConfig(**SIZES, **TOKENS, init_std=0.5, scale_embedding=True)
    ).eval()
    torch.nn.init.normal_(marian.final_logits_bias)
    generator = AdaptiveWaitKGenerator(marian, thresholds=linear_thresholds(0.9, 0.1, 1, 8))
    ids = IDS % 40
    expected = marian.generate(ids, attention_mask=MASK, max_new_tokens=9)
    assert torch.equal(
        generator.generate(ids, MASK, policy=FullSentence(), max_new_tokens=9), expected
    )
    ours = generator.models[FULL]
    for k in range(1, 13):
        found = generator.generate(ids, MASK, policy=WaitK(k), max_new_tokens=9)
        assert torch.equal(
            found, ours.generate(ids, attention_mask=MASK, wait_k=k, max_new_tokens=9)
        )
    adaptive = generator.generate(ids, MASK, max_new_tokens=9, return_dict_in_generate=True)
    assert len(set(adaptive.lags[0]) | set(adaptive.lags[2])) > 1


def test_double_precision(models):
    models = {k: copy.deepcopy(one) for k, one in models.items()}
    generator = AdaptiveWaitKGenerator(models)
    single = generator.generate(
        [SOURCES[0]], policy=WaitK(3), max_new_tokens=4, return_dict_in_generate=True
    )
    assert generator.to(dtype=torch.float64) is generator
    assert {one.dtype for one in models.values()} == {torch.float64}
    double = generator.generate(
        [SOURCES[0]], policy=WaitK(3), max_new_tokens=4, return_dict_in_generate=True
    )
    exact = float(forced(models[3], SOURCES[0][:3], [], 3).max())
    assert double.probabilities[0][0] == pytest.approx(exact, abs=1e-12)
    assert single.probabilities[0][0] == pytest.approx(exact, abs=1e-5)
    assert single.probabilities[0][0] != double.probabilities[0][0]
    assert generator.to("cpu").device == torch.device("cpu")


@pytest.mark.precision("bfloat16")
def test_half_precision_keeps_probabilities_whole(models):
    generator = AdaptiveWaitKGenerator({k: copy.deepcopy(one) for k, one in models.items()}).to(
        dtype=torch.bfloat16
    )
    found = generator.generate(IDS, MASK, max_new_tokens=5, return_dict_in_generate=True)
    rounded = [torch.tensor(p).bfloat16().item() for row in found.probabilities for p in row]
    assert rounded != [p for row in found.probabilities for p in row]


def test_weights_changed_after_the_first_call_are_seen(models):
    one = copy.deepcopy(models[1])
    generator = AdaptiveWaitKGenerator({1: one})
    before = generator.generate(IDS, MASK, policy=WaitK(2), max_new_tokens=6)
    with torch.no_grad():
        one.lm_head.weight.mul_(-1)
    after = generator.generate(IDS, MASK, policy=WaitK(2), max_new_tokens=6)
    assert not torch.equal(before, after)
    assert torch.equal(after, one.generate(IDS, attention_mask=MASK, wait_k=2, max_new_tokens=6))


# What comes back


def test_sequences_alone_or_everything(generator):
    output = generator.generate(
        IDS, attention_mask=MASK, max_new_tokens=6, return_dict_in_generate=True
    )
    assert isinstance(output, ModelOutput)
    assert torch.equal(
        generator.generate(IDS, attention_mask=MASK, max_new_tokens=6), output["sequences"]
    )
    assert (output.sequences[:, 0] == PAD).all()
    for index, source in enumerate(SOURCES):
        row = output.sequences[index, 1:].tolist()
        written = [action.token for action in output.actions[index] if isinstance(action, Write)]
        assert row == written + [PAD] * (len(row) - len(written))
        words = [token for token in written if token != EOS]
        for name in ("delays", "contexts", "lags", "probabilities"):
            assert len(output[name][index]) == len(words)
        reads = [
            path(output.actions[index])[:place].count("R")
            for place in range(len(output.actions[index]))
        ]
        delays = [
            read
            for read, action in zip(reads, output.actions[index], strict=True)
            if isinstance(action, Write)
        ]
        assert output.delays[index] == [
            min(delay, len(source) - 1) for delay in delays[: len(words)]
        ]
        assert output.early_stops[index] == (
            EOS in written and path(output.actions[index]).count("R") < len(source)
        )


def test_an_early_stop_is_reported_and_can_be_read_over(models):
    eager = copy.deepcopy(models[1])
    eager.final_logits_bias[0, EOS] += 20
    generator = AdaptiveWaitKGenerator({1: eager})
    found = generator.generate(IDS, MASK, policy=WaitK(1), return_dict_in_generate=True)
    assert found.sequences.tolist() == [[PAD, EOS]] * 4
    assert found.early_stops == [True] * 4
    assert found.delays == [[]] * 4
    patient = generator.generate(
        IDS, MASK, policy=WaitK(1), early_stop=False, return_dict_in_generate=True
    )
    assert patient.early_stops == [False] * 4
    assert [path(actions) for actions in patient.actions] == [
        "R" * len(source) + "W" for source in SOURCES
    ]
    assert patient.sequences.tolist() == [[PAD, EOS]] * 4, "nothing is written in its stead"
    assert AdaptiveWaitKGenerator({1: eager}, early_stop=False).generate(
        IDS, MASK, policy=WaitK(1)
    ).shape == (4, 2)


def test_after_reading_on_every_position_sees_what_was_read(talker):
    """At a given step wait-1 sees no more when the source grows, so it would end for ever."""

    def policy(state, predict):
        return Write(EOS) if len(state.source) < 4 else WaitK(1)(state, predict)

    source = [5, 6, 7, 8, 9, 10, EOS]
    output = AdaptiveWaitKGenerator(talker, early_stop=False).generate(
        [source], policy=policy, return_dict_in_generate=True, max_new_tokens=6
    )
    assert path(output.actions[0])[:10] == "RRRRWWWWRW", "it catches up, then reads and writes on"
    first = forced(talker, source[:4], [], None)
    assert output.probabilities[0][0] == pytest.approx(float(first.max()))
    assert set(output.lags[0]) == {1}, "what it is asked with is what it was trained with"


@pytest.mark.parametrize("undecided", [[], [[1], [2]], [1], [[0]], [[1.5]], torch.tensor([1])])
def test_places_where_nothing_is_decided_are_checked(generator, undecided):
    with pytest.raises(ValueError, match="undecided has a list of numbers of tokens, 1 or more"):
        generator.generate([[5, 6, 2]], undecided=undecided)


def test_a_source_need_not_end_in_an_end_token(generator):
    found = generator.generate(
        [[5, 6, 7]], policy=FullSentence(), max_new_tokens=2, return_dict_in_generate=True
    )
    assert found.delays[0] == [3] * len(found.delays[0])
    assert path(found.actions[0]).startswith("RRRW")


def test_lists_and_tensors_padded_or_not(generator):
    expected = generator.generate(IDS, attention_mask=MASK, max_new_tokens=6)
    assert torch.equal(generator.generate(IDS, max_new_tokens=6), expected)
    assert torch.equal(generator.generate(SOURCES, max_new_tokens=6), expected)
    assert torch.equal(generator.generate(IDS, MASK.bool(), max_new_tokens=6), expected)


def test_padding_that_is_the_end_token_is_told_by_the_mask_alone(models):
    twin = copy.copy(models[1])
    twin.config = copy.deepcopy(models[1].config)
    twin.config.pad_token_id = EOS
    generator = AdaptiveWaitKGenerator({1: twin})
    settings = {"policy": FullSentence(), "max_new_tokens": 3}
    expected = AdaptiveWaitKGenerator(models[1]).generate([[5, 6, EOS]], **settings)
    assert torch.equal(generator.generate([[5, 6, EOS]], **settings), expected)


@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [
        ([5, 6], None, r"input_ids has two dimensions, sentences and tokens; got \[5, 6\]"),
        (torch.tensor([5, 6]), None, "input_ids has two dimensions"),
        (["ein Haus"], None, "input_ids has two dimensions, sentences and tokens; got .'ein Haus'"),
        ([], None, r"input_ids has two dimensions, sentences and tokens; got \[\]"),
        ([[5], []], None, "sources must have 1 to 32 tokens; sentence 1 has 0"),
        ([[PAD, PAD]], None, "sources must have 1 to 32 tokens; sentence 0 has 0"),
        ([[5, 6]], torch.tensor([[0, 0]]), "sources must have 1 to 32 tokens; sentence 0 has 0"),
        ([[5] * 33], None, "sources must have 1 to 32 tokens; sentence 0 has 33"),
        (
            [[PAD, 5]],
            torch.tensor([[0, 1]]),
            "pad sources on the right: attention_mask has a 0 before a 1",
        ),
        ([[5, 6]], torch.tensor([[1]]), "attention_mask must have the shape of input_ids"),
        (
            [[5, 6]],
            torch.tensor([[1, 1], [1, 1]]),
            "attention_mask must have the shape of input_ids",
        ),
    ],
)
def test_sources_that_are_none(generator, ids, mask, message):
    with pytest.raises(ValueError, match=message):
        generator.generate(ids, mask)


def test_sources_without_their_end_are_warned_of_once(generator):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generator.generate([[5, 6, EOS], [7, EOS, PAD]])
    with pytest.warns(
        UserWarning, match="2 of 3 sources .* first sentence 1; .* append it"
    ) as told:
        generator.generate([[5, 6, EOS], [7, 8, PAD], [9]])
    assert [warning.filename for warning in told] == [__file__]


def test_the_name_of_a_policy_is_not_a_policy(generator):
    message = re.escape("such as WaitK(3) or Adaptive(...); got 'wait-k'. policies.make_policy(")
    with pytest.raises(ValueError, match=message):
        generator.generate([[5, EOS]], policy="wait-k")
    with pytest.raises(ValueError, match=message):
        list(generator.session(policy="wait-k").push(5))
    with pytest.raises(ValueError, match=message):
        list(TextSession(generator, policy="wait-k").push_word("w5"))


# Streamers


class Notes(BaseStreamer):
    """Everything a streamer is told."""

    def __init__(self):
        self.told = []

    def put(self, value):
        self.told.append(value.tolist())

    def end(self):
        self.told.append("end")


def test_any_streamer_is_told_what_transformers_tells_it(generator, talker):
    ours, theirs = Notes(), Notes()
    settings = {"max_new_tokens": 6, "attention_mask": MASK[:1]}
    AdaptiveWaitKGenerator(talker).generate(IDS[:1], streamer=ours, policy=WaitK(3), **settings)
    talker.generate(IDS[:1], streamer=theirs, wait_k=3, **settings)
    assert ours.told == theirs.told


def test_a_text_streamer_prints(generator, capsys):
    tokenizer = generator.tokenizer
    found = generator.generate(
        [SOURCES[0]], max_new_tokens=5, streamer=TextStreamer(tokenizer, skip_special_tokens=True)
    )
    text = tokenizer.decode(found[0], skip_special_tokens=True)
    assert capsys.readouterr().out.strip() == text
    assert text


def test_a_text_iterator_streamer_in_a_thread(generator):
    streamer = TextIteratorStreamer(generator.tokenizer, skip_special_tokens=True, timeout=PATIENCE)
    settings = {"max_new_tokens": 5, "streamer": streamer}
    thread = Thread(target=generator.generate, args=([SOURCES[0]],), kwargs=settings)
    thread.start()
    text = "".join(streamer)
    thread.join()
    found = generator.generate([SOURCES[0]], max_new_tokens=5)
    assert text.strip() == generator.tokenizer.decode(found[0], skip_special_tokens=True)


def test_an_action_streamer_sees_reads_too(generator):
    streamer = ActionStreamer()
    output = generator.generate(
        [SOURCES[0]], max_new_tokens=5, streamer=streamer, return_dict_in_generate=True
    )
    assert streamer.actions == output.actions[0]
    assert Read() in streamer.actions


def test_a_streamer_follows_one_sentence(generator):
    with pytest.raises(ValueError, match="a streamer follows one sentence; got a batch of 4"):
        generator.generate(IDS, MASK, streamer=Notes())


def test_the_error_of_a_streamer_reaches_the_caller(generator):
    class Broken(Notes):
        def put(self, value):
            super().put(value)
            if len(self.told) == 3:
                raise OSError("the pipe is broken")

    broken, whole = Broken(), Notes()
    with pytest.raises(OSError, match="the pipe is broken"):
        generator.generate([SOURCES[0]], max_new_tokens=5, streamer=broken)
    generator.generate([SOURCES[0]], max_new_tokens=5, streamer=whole)
    assert broken.told == whole.told[:3]


# Policies


class Calm:
    """Write as soon as looking one token further changes nothing."""

    def __call__(self, state, predict):
        read = len(state.source)
        if state.source_ended:
            return Write(predict(context=read).token)
        if read < 2 or predict(context=read).token != predict(context=read - 1).token:
            return Read()
        return Write(predict(context=read).token)


def test_a_policy_of_ones_own_in_a_batch_and_live(generator):
    output = generator.generate(
        IDS, MASK, policy=Calm(), max_new_tokens=6, return_dict_in_generate=True
    )
    for index, source in enumerate(SOURCES):
        alone = generator.generate(
            [source], policy=Calm(), max_new_tokens=6, return_dict_in_generate=True
        )
        assert alone.actions[0] == output.actions[index]
        events = list(generator.stream(source[:-1], policy=Calm(), max_new_tokens=6))
        assert [event.action for event in events] == output.actions[index]
    assert len({path(actions).lstrip("R") for actions in output.actions}) > 1


def test_a_policy_may_catch_errors_and_write_what_it_likes(generator):
    def stubborn(state, predict):
        if not state.source:
            return Read()
        if state.target:
            return Write(9)
        try:
            return Write(predict(1).token)
        except Exception:  # must not swallow that an answer is still to be made
            return Write(4)

    output = generator.generate([[5, 6, EOS]], policy=stubborn, return_dict_in_generate=True)
    first = forced(generator.models[1], [5], [], 1)
    assert output.actions[0][:2] == [Read(), Write(int(first.argmax()))]
    assert output.actions[0][2:] == [Write(9)] * (len(output.actions[0]) - 2)
    assert output.probabilities[0][1:] == [None] * (len(output.probabilities[0]) - 1)


def test_a_written_token_that_is_not_on_top_has_its_own_probability(generator):
    def second(state, predict):
        if not state.source:
            return Read()
        top = predict(1)
        return Write(int(torch.as_tensor(top.distribution).topk(2).indices[1]))

    output = generator.generate(
        [[5, 6, EOS]], policy=second, max_new_tokens=1, return_dict_in_generate=True
    )
    values = forced(generator.models[1], [5], [], 1).topk(2).values
    assert output.probabilities[0] == [pytest.approx(values[1].item(), abs=1e-6)]


def test_a_read_tells_of_the_token_that_was_not_sure_enough(generator):
    events = list(
        generator.stream([5, 6, 7], policy=Adaptive({2: 1.0, 3: 1.0, 4: 0.0}), max_new_tokens=3)
    )
    reads = [event for event in events if isinstance(event.action, Read)]
    assert [event.token for event in reads] == [5, 6, 7, EOS]
    assert [event.k for event in reads] == [0, 1, 2, 3]
    assert [event.probability for event in reads[:2]] == [None, None]
    assert reads[2].probability == pytest.approx(
        float(forced(generator.models[3], [5, 6], [], 2).max()), abs=1e-6
    )
    assert reads[3].probability == pytest.approx(
        float(forced(generator.models[3], [5, 6, 7], [], 3).max()), abs=1e-6
    )


def test_a_read_that_asked_nothing_tells_nothing(generator):
    events = list(generator.stream([5, 6, 7, 8, 9], policy=WaitIfDiff(1, 2), max_new_tokens=3))
    asked = [event.probability is not None for event in events if isinstance(event.action, Read)]
    assert asked[:3] == [False, False, False]


def test_the_end_may_be_written_after_it_was_forbidden(models):
    """Once the source has ended, an answer kept from before must not keep its ban on `</s>`."""
    eager = copy.deepcopy(models[1])
    eager.final_logits_bias[0, EOS] += 20
    generator = AdaptiveWaitKGenerator(
        {1: eager}, thresholds={1: 1.0, 2: 1.0, 3: 1.0}, early_stop=False
    )

    def asks_k_1(state, predict):
        if len(state.source) < 1:
            return Read()
        top = predict(1)
        return Write(top.token) if state.source_ended else Read()

    assert generator.generate([[5, 6, EOS]], policy=asks_k_1).tolist() == [[PAD, EOS]]


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (
            lambda state, predict: None,
            TypeError,
            r"a policy returns Read\(\) or Write\(token\); .*lambda.* None",
        ),
        (lambda state, predict: "READ", TypeError, "returned 'READ'"),
        (lambda state, predict: Read, TypeError, "returned <class"),
        (
            lambda state, predict: Read(),
            ValueError,
            "the source has ended and there is nothing left to READ; .*WRITE",
        ),
        (lambda state, predict: Write(24), ValueError, "tokens are 0 to 23; .*lambda.* wrote 24"),
        (lambda state, predict: Write(-1), ValueError, "tokens are 0 to 23; .* wrote -1"),
        (
            lambda state, predict: predict(),
            ValueError,
            "a k or a context, one of the two; got k=None, context=None",
        ),
        (
            lambda state, predict: predict(1, context=1),
            ValueError,
            "one of the two; got k=1, context=1",
        ),
        (
            lambda state, predict: predict(1),
            ValueError,
            "a prediction needs at least one source token",
        ),
        (
            lambda state, predict: predict(5) if state.source else Read(),
            ValueError,
            "k must be 1 to 1, .* got 5",
        ),
        (
            lambda state, predict: predict(1, models=()),
            ValueError,
            r"names models of the set, .*once; got \(\)",
        ),
        (lambda state, predict: predict(1, models=(1, 1)), ValueError, r"each once; got \(1, 1\)"),
        (
            TestTimeWaitK(2),
            ValueError,
            r"names models of the set, \[1, 3, 4\], each once; got \('full',\)",
        ),
        (lambda state, predict: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
)
def test_nonsense_from_a_policy(generator, policy, error, message):
    with pytest.raises(error, match=message):
        generator.generate([[5, 6, EOS]], policy=policy)


# The generator itself


def test_default_thresholds_reach_ten_or_the_largest_model(models):
    assert AdaptiveWaitKGenerator(models).thresholds == linear_thresholds(1.0, 0.0, 1, 10)
    assert AdaptiveWaitKGenerator({12: models[1]}).thresholds == linear_thresholds(1.0, 0.0, 1, 12)


def test_members_of_every_k(models):
    generator = AdaptiveWaitKGenerator(models, thresholds=THRESHOLDS, ensembles="all")
    assert generator.ensembles.models_for(5) == generator.ensembles.models_for(None) == (1, 3, 4)
    assert generator.ensembles.models_for(9) == (4,)
    assert generator.ensembles.models_for(9, (3, 1)) == (3, 1)
    assert list(generator.ensembles) == [1, 2, 3, 4, 5], "asking changes nothing"
    with_full = AdaptiveWaitKGenerator({**models, FULL: models[1]}, thresholds=THRESHOLDS)
    assert with_full.ensembles.models_for(None) == (FULL,)
    assert with_full.root == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thresholds": {}}, "thresholds must name at least one k"),
        ({"thresholds": {1: 0.5, 3: 0.2}}, "thresholds must cover k_min..k_max without gaps"),
        ({"thresholds": {1: 1.5}}, "a threshold is a probability"),
        ({"thresholds": {0: 0.5}}, "every k in thresholds must be an integer of 1 or more; got 0"),
        ({"latencies": {"low": {1: 0.5, 3: 0.2}}}, "without gaps"),
        ({"ensembles": "best"}, "ensembles must be 'single', 'top-3', 'all' or a mapping"),
        (
            {"thresholds": {1: 0.5, 2: 0.2}, "ensembles": {1: [1]}},
            r"for every k in thresholds; nothing for \[2\]",
        ),
        ({"history": "rumour"}, "history must be one of forced, path; got 'rumour'"),
        (
            {"ensembles": "top-3", "dev_scores": {}},
            "dev_scores must give every model a score under every policy",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(models, options, message):
    with pytest.raises(ValueError, match=message):
        AdaptiveWaitKGenerator(models, **options)


def test_models_with_different_vocabularies_are_refused(models):
    with pytest.raises(
        ValueError, match="share one tokenizer and one schedule, but vocab_size differs"
    ):
        AdaptiveWaitKGenerator({**models, 2: model(9, vocab_size=30, decoder_vocab_size=24)})


def test_an_unknown_history_or_argument_of_one_call_is_refused(generator):
    with pytest.raises(ValueError, match="history must be one of forced, path; got 'rumour'"):
        generator.generate(IDS, history="rumour")
    with pytest.raises(ValueError, match="unknown arguments: wait_k. .*policy=WaitK"):
        generator.generate(IDS, wait_k=3)
    with pytest.raises(ValueError, match="simultaneous decoding is greedy"):
        generator.generate(IDS, num_beams=3)
    with pytest.raises(ValueError, match="`max_new_tokens` must be greater than 0"):
        generator.generate(IDS, max_new_tokens=0)


def test_the_path_history_needs_models_that_speak_at_every_k(models):
    message = "history='path' needs models that predict at every k; .*ensembles='all'"
    with pytest.raises(ValueError, match=message):
        AdaptiveWaitKGenerator(models, thresholds=THRESHOLDS, history="path")
    generator = AdaptiveWaitKGenerator(models, thresholds=THRESHOLDS)
    with pytest.raises(ValueError, match=message):
        generator.generate(IDS, history="path")
    with pytest.raises(ValueError, match=message):
        generator.session(history="path")
    together = AdaptiveWaitKGenerator(
        models, thresholds=THRESHOLDS, ensembles="all", history="path"
    )
    assert together.generate(IDS, max_new_tokens=2).shape[1] <= 3


def test_a_call_inside_inference_mode(generator):
    expected = generator.generate(IDS, max_new_tokens=4, early_stop=False)
    with torch.inference_mode():
        assert torch.equal(generator.generate(IDS, max_new_tokens=4, early_stop=False), expected)


def test_an_event_is_a_value():
    assert Event(Write(3), 3, 1, 0.5) == Event(Write(3), 3, 1, 0.5)


def test_a_sentence_that_is_over_does_nothing_more(generator):
    rules = generator.decoding_rules(max_new_tokens=1)
    sentence = LiveSentence(lambda state, predict: Write(3), rules, generator.ensembles, source=[5])
    assert sentence.act() == Event(Write(3), 3, 0, None)
    assert sentence.act() is None
    assert sentence.state == State(target=[3])
