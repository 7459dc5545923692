"""The engine against the reference decoder, on random models, sources and policies; and what the
lanes refuse."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.actions import Action, Policy, Predict, Read, State, Write
from hf_simultaneous.lanes import Lanes, Question, _ModelLanes
from hf_simultaneous.live_sentence import LiveSentence
from hf_simultaneous.loop import decode
from hf_simultaneous.policies import Adaptive, FullSentence, WaitIfDiff, WaitK, linear_thresholds
from hf_simultaneous.schedule import FULL
from hf_simultaneous.sources import Row
from tests.reference import (
    EOS,
    RandomSet,
    Translation,
    along,
    forced,
    random_model,
    random_set,
    random_source,
    read_on,
)
from tests.reference_tail import random_tail
from tests.tiny import tiny_model


torch.set_num_threads(1)


def check(sentence: LiveSentence, expected: Translation, tolerance: float = 1e-5) -> None:
    writes = [
        event
        for event in sentence.events
        if not isinstance(event.action, Read) and event.token != EOS
    ]
    assert sentence.state.target == expected.target
    assert [event.action for event in sentence.events] == expected.actions
    assert sentence.delays == expected.delays
    assert sentence.contexts == expected.contexts
    assert [event.k for event in writes] == expected.lags
    assert [event.probability for event in writes] == pytest.approx(
        expected.probabilities, abs=tolerance
    )
    assert sentence.stopped_early == expected.early_stop


def batched(
    one: RandomSet, cases: list, history: str = "forced", announced: bool = True
) -> list[LiveSentence]:
    """All cases in one batch, each with its own policy: at any moment rows stand at different steps
    and lags."""
    generator = one.generator
    rules, lanes = (
        generator.decoding_rules(**one.options),
        generator.lanes(history),
    )
    sentences = [
        LiveSentence(
            policy,
            rules,
            generator.ensembles,
            catchup=generator.catchup,
            source=source,
            source_complete=True,
            history=history,
        )
        for policy, source in cases
    ]
    if announced:
        lanes.announce_sources([sentence.row for sentence in sentences])
    for _ in decode(sentences, lanes, rules):
        pass
    assert not held(lanes)
    return sentences


def held(lanes: Lanes) -> int:
    """How many sequences the lanes still keep, and how many rows they know of."""
    return sum(
        len(one._lanes._slots) + len(one._source.store._slots) + len(one._forced)
        for one in lanes._models.values()
    )


def live(one: RandomSet, policy, source) -> LiveSentence:
    """One case alone, its source arriving token by token."""
    with one.generator.session(policy=policy, **one.options) as session:
        events = [event for token in source[:-1] for event in session.push(token)]
        sentence = session._sentence
        events += session.flush()
        assert events == sentence.events
        return sentence


@pytest.mark.slow
def test_a_thousand_random_cases_equal_the_reference(record_property):
    rng, ends, kinds, paths, tokens, ties = (
        random.Random(4),
        Counter(),
        Counter(),
        set(),
        Counter(),
        0,
    )
    for number in range(20):
        one = random_set(rng)
        if number % 3 == 2:
            one = replace(one, tail=random_tail(rng, list(one.generator.models)))
        cases, expected, redrawn = one.cases(rng, 50, margin=1e-9)
        ties += redrawn
        sentences = batched(one, cases)
        for index, (case, sentence, right) in enumerate(
            zip(cases, sentences, expected, strict=True)
        ):
            check(sentence, right)
            if index % 8 == 0:
                check(batched(one, [case], announced=index % 16 == 0)[0], right)
            if index % 8 == 4 and case[1][-1] == EOS:
                check(live(one, *case), right)
            ends[
                "early" if right.early_stop else "normal" if EOS in right.target else "length"
            ] += 1
            kinds[type(case[0]).__name__] += 1
            paths.add("".join("R" if isinstance(action, Read) else "W" for action in right.actions))
            tokens.update(right.target)
            ends["read on"] += right.read_on > 0
            ends["found by a search"] += right.surprising
    record_property("redrawn", ties)
    assert sum(kinds.values()) == 1000
    assert ties < 20, (
        "in double precision only an attention that ignores a token altogether makes a tie"
    )
    # Equality means something only if the cases differ.
    assert len(paths) > 300
    assert min(ends.values()) > 50, ends
    assert set(kinds) == {
        "Adaptive",
        "WaitK",
        "TestTimeWaitK",
        "FullSentence",
        "WaitIfDiff",
        "WaitIfWorse",
    }
    assert len(tokens) > 15
    assert tokens.most_common(1)[0][1] < 0.2 * tokens.total()


def test_in_single_precision_near_ties_are_redrawn(record_property):
    rng, redrawn = random.Random(5), 0
    for _ in range(4):
        one = random_set(rng, torch.float32)
        cases, expected, ties = one.cases(rng, 30, margin=1e-4)
        redrawn += ties
        for sentence, right in zip(batched(one, cases), expected, strict=True):
            check(sentence, right)
        for case, right in list(zip(cases, expected, strict=True))[::10]:
            if case[1][-1] == EOS:
                check(live(one, *case), right)
    record_property("redrawn", redrawn)
    assert redrawn < 40


@dataclass(frozen=True)
class Whole:
    """Does what another policy does, but reads where there is nothing to decide."""

    policy: Policy
    undecided: frozenset[int]

    def __call__(self, state: State, predict: Predict) -> Action:
        read = len(state.source)
        if read in self.undecided and not state.source_ended:
            return Read()
        return self.policy(state, predict)


def test_where_nothing_is_decided_the_next_token_is_read():
    """Together and live, as if the policy itself had read on."""
    rng, decided = random.Random(7), 0
    for _ in range(4):
        one = random_set(rng)
        drawn, _, _ = one.cases(rng, 12, margin=1e-9)
        drawn = [(policy, source) for policy, source in drawn if source[-1] == EOS]
        places = [
            frozenset(rng.sample(range(1, len(source)), rng.randrange(len(source))))
            for _, source in drawn
        ]
        wrapped = [
            (Whole(policy, undecided), source)
            for (policy, source), undecided in zip(drawn, places, strict=True)
        ]
        for case, undecided, expected in zip(drawn, places, batched(one, wrapped), strict=True):
            policy, source = case
            output = one.generator.generate(
                [source],
                policy=policy,
                undecided=[undecided],
                return_dict_in_generate=True,
                **one.options,
            )
            assert output.actions == [[event.action for event in expected.events]]
            assert output.delays == [expected.delays]
            with one.generator.session(policy=policy, **one.options) as session:
                events = [
                    event
                    for number, token in enumerate(source, start=1)
                    for event in session.push(token, more=number in undecided)
                ]
            assert [event.action for event in events] == output.actions[0]
            decided += [event.action for event in events] != [
                event.action for event in batched(one, [case])[0].events
            ]
    assert decided > 10, "it must make a difference"


def test_on_a_path_an_answer_holds_until_the_next_read():
    """There the last position sees all that was read, whatever k is asked with."""
    rng = random.Random(8)
    model = random_model(rng, None, torch.float64, encoder_attention="causal")
    generator = AdaptiveWaitKGenerator({1: model}, history="path")
    source, told = [5, 6, 7, 8, EOS], {}

    def curious(state: State, predict: Predict) -> Action:
        if not state.source:
            return Read()
        answer = predict(1)
        told[len(state.source)] = answer.probability
        return Write(answer.token) if state.source_ended else Read()

    generator.generate([source], policy=curious, max_new_tokens=1)
    expected = {
        count: float(along(model, source[:count], [], [count]).max()) for count in range(1, 6)
    }
    assert told == pytest.approx(expected)
    assert len({round(probability, 6) for probability in told.values()}) > 1


def test_the_reference_answers_the_same_one_by_one():
    rng = random.Random(6)
    one = random_set(rng)
    cases, expected, _ = one.cases(rng, 4, margin=1e-9)

    def alone(source, target, k, context, models, seen, floors):
        members = models or one.generator.ensembles.models_for(k)
        read = source if context is None else source[:context]
        ask = forced if k is None or not any(floors) else partial(read_on, floors=floors)
        return sum(ask(one.generator.models[key], read, target, k) for key in members) / len(
            members
        )

    for case, right in zip(cases, expected, strict=True):
        again = one.job(*case)(alone)
        assert again.actions == right.actions
        assert again.probabilities == pytest.approx(right.probabilities, abs=1e-9)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("encoder", ["causal", "prefix"])
def test_either_attention_gives_the_same(encoder, attention):
    rng = random.Random(7)
    one = random_set(rng, encoder_attention=encoder, decoder_layers=2)
    cases, expected, _ = one.cases(rng, 6, margin=1e-9)
    for model in one.generator.models.values():
        model.set_attn_implementation(attention)
    for sentence, right in zip(batched(one, cases), expected, strict=True):
        check(sentence, right)


class Logged:
    """A policy that does what another does, and notes every prediction it was given: (row, target
    so far, k)."""

    def __init__(self, policy: Policy):
        self.policy, self.answers = policy, []

    def __call__(self, state, predict):
        def logged(k=None, **kwargs):
            answer = predict(k, **kwargs)
            self.answers.append((id(state), len(state.target), k))
            return answer

        return self.policy(state, logged)


@contextmanager
def positions_of(*models) -> Iterator[list[int]]:
    """How many target positions went through the decoder, call by call."""
    calls: list[int] = []

    def count(layer, args):
        calls.append(args[0].shape[:-1].numel())

    hooks = [model.model.decoder.layers[0].register_forward_pre_hook(count) for model in models]
    yield calls
    for hook in hooks:
        hook.remove()


def multi_path(rng: random.Random, encoder: str, **generator_options) -> RandomSet:
    """One model for every k; of two layers, because in the first a position does not know what
    others saw."""
    model = random_model(
        rng, rng.choice((None, 2)), torch.float64, encoder_attention=encoder, decoder_layers=2
    )
    thresholds = linear_thresholds(0.9, 0.1, 1, 6)
    generator = AdaptiveWaitKGenerator(model, thresholds=thresholds, **generator_options)
    return RandomSet(generator, "single", True, 10)


@pytest.mark.parametrize("encoder", ["causal", "prefix"])
def test_no_position_is_forced_twice(encoder):
    rng = random.Random(8)
    one = multi_path(rng, encoder)
    policy = Logged(Adaptive(linear_thresholds(0.9, 0.1, 2, 6)))
    with positions_of(*one.generator.models.values()) as calls:
        batched(one, [(policy, random_source(rng)) for _ in range(8)])
    lanes: dict[tuple[int, int], int] = {}
    for row, written, k in policy.answers:
        lanes[row, k] = max(lanes.get((row, k), 0), written + 1)
    assert sum(calls) == sum(lanes.values())
    assert len(calls) < len(set(policy.answers)) / 2, "rows share calls"
    assert min(k for _, _, k in policy.answers) == 2, "nothing is asked below k_min"
    assert len({k for _, _, k in policy.answers}) > 2


@pytest.mark.parametrize("encoder", ["causal", "prefix"])
def test_wait_k_runs_one_position_per_token(encoder):
    rng = random.Random(9)
    one = multi_path(rng, encoder)
    with positions_of(*one.generator.models.values()) as calls:
        (sentence,) = batched(one, [(WaitK(3), random_source(rng))])
    assert calls == [1] * len(sentence.state.target)


@pytest.mark.parametrize("encoder", ["causal", "prefix"])
def test_path_history_keeps_each_position_as_it_was_written(encoder):
    rng, different = random.Random(10), 0
    for _ in range(3):
        one = multi_path(rng, encoder)
        (model,) = one.generator.models.values()

        def direct(source, target, k, context, models, seen, floors, model=model):
            if context is not None:
                return forced(model, source[:context], target, None)
            return along(model, source, target, seen)

        policies = [Adaptive({k: rng.random() for k in range(1, 6)}) for _ in range(6)]
        policies += [WaitK(2), FullSentence(), WaitIfDiff(2, 1)]
        cases = [(policy, random_source(rng)) for policy in policies]
        expected = [one.job(*case)(direct) for case in cases]
        for sentence, right, other in zip(
            batched(one, cases, history="path"), expected, batched(one, cases), strict=True
        ):
            check(sentence, right)
            different += [event.probability for event in sentence.events] != [
                e.probability for e in other.events
            ]
    assert different > 8, "or nothing was tested that the forced history does not do as well"


def test_path_history_of_an_ensemble_that_always_speaks_together():
    rng = random.Random(11)
    models = {k: random_model(rng, None, torch.float64, decoder_layers=2) for k in (2, 5)}
    generator = AdaptiveWaitKGenerator(
        models, thresholds=linear_thresholds(0.6, 0.1, 1, 5), ensembles="all"
    )
    one, source = RandomSet(generator, "all", True, 10), random_source(rng)
    right = one.job(generator.policy, source)(
        lambda source, target, k, context, models, seen, floors: (
            sum(along(model, source, target, seen) for model in generator.models.values()) / 2
        )
    )
    check(batched(one, [(generator.policy, source)], history="path")[0], right)


@pytest.mark.parametrize("encoder", ["causal", "prefix"])
def test_path_history_runs_one_position_per_prediction(encoder):
    rng = random.Random(12)
    one = multi_path(rng, encoder, history="path")
    policy = Logged(Adaptive(linear_thresholds(0.99, 0.3, 1, 8)))
    (model,) = one.generator.models.values()
    with (
        positions_of(model) as calls,
        one.generator.session(policy=policy, max_new_tokens=10) as session,
    ):
        events = [event for token in random_source(rng)[:-1] for event in session.push(token)]
        events += session.flush()
    assert set(calls) == {1}
    assert len(calls) > sum(not isinstance(event.action, Read) for event in events), (
        "some predictions were refused"
    )


def question(k=None, context=None):
    return Question(k, context, (FULL,))


@pytest.mark.parametrize(
    ("state", "asked", "message"),
    [
        (State(), question(k=1), "a prediction needs at least one source token; read one first"),
        (
            State(source=[5, 6]),
            question(context=3),
            "context must be 1 to 2, the source tokens read so far; got 3",
        ),
        (State(source=[5, 6]), question(context=0), "context must be 1 to 2, .*got 0"),
        (
            State(source=[5, 6], target=[7]),
            question(k=2),
            "k must be 1 to 1, the current lag, .*is open; got 2",
        ),
        (State(source=[5, 6], source_ended=True), question(k=0), "k must be 1 .*got 0"),
        (
            State(source=[5], target=[7] * 32, source_ended=True),
            question(k=1),
            "has reached the model's 32 positions",
        ),
    ],
)
def test_what_cannot_be_predicted_is_refused(state, asked, message):
    lanes = Lanes({FULL: random_model(random.Random(13), None, torch.float32)})
    with pytest.raises(ValueError, match=message):
        lanes.predict([(Row(state, list(state.source)), asked)])


def test_an_unknown_history_is_refused():
    with pytest.raises(ValueError, match="history must be one of forced, path; got 'hearsay'"):
        Lanes({}, history="hearsay")


def test_a_k_above_the_lag_is_fine_once_the_source_has_ended():
    model = random_model(random.Random(14), None, torch.float64)
    row = Row(
        State(source=[5, 6, EOS], target=[7], source_ended=True), [5, 6, EOS], source_complete=True
    )
    (answer,) = Lanes({FULL: model}).predict([(row, question(k=9))])
    assert torch.allclose(answer, forced(model, [5, 6, EOS], [7], 9), atol=1e-9)


def test_memory_is_counted_and_given_back():
    model = random_model(random.Random(15), None, torch.float64)
    lanes = Lanes({FULL: model})
    assert lanes.nbytes == 0
    rows = [Row(State(source=[5, 6, 7]), [5, 6, 7]) for _ in range(3)]
    lanes.predict([(row, question(k=3)) for row in rows])
    used = lanes.nbytes
    for row in rows:
        lanes.release(row)
        lanes.release(row)  # as a session does when it goes on after the end
    assert held(lanes) == 0
    for _ in range(10):
        again = Row(State(source=[8, 9]), [8, 9])
        lanes.predict([(again, question(k=2))])
        lanes.release(again)
    assert 0 < lanes.nbytes <= used


@pytest.mark.parametrize("layer", [99, -1])
def test_a_question_that_fails_leaves_nothing_behind(monkeypatch, layer):
    """A layer that is not there is refused first; what fails later has a lane by then."""

    def fail(*_):
        raise ValueError("no memory")

    monkeypatch.setattr(_ModelLanes, "_decode", fail)
    lanes = Lanes({1: tiny_model()})
    row = Row(State(source=[5, 6]), [5, 6])
    with pytest.raises(ValueError, match="0 to 1, or -2 to -1|no memory"):
        lanes.answer([(row, Question(None, 2, (1,), attention=layer))])
    lanes.release(row)
    assert not lanes._models[1]._lanes._slots
