"""Every policy against the law it must keep, a naive version of itself, and the paper's
settings."""

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_simultaneous.actions import Prediction, Read, State, Write
from hf_simultaneous.policies import (
    PAPER_SETTINGS,
    Adaptive,
    AlignAtt,
    FullSentence,
    HoldN,
    LocalAgreement,
    PsFuture,
    TestTimeWaitK,
    WaitIfDiff,
    WaitIfWorse,
    WaitK,
    check_thresholds,
    linear_thresholds,
    make_policy,
)
from hf_simultaneous.schedule import FULL, visible
from tests.simulator import EOS, Run, look, sentence, simulate


LENGTHS = st.integers(0, 20)
SEEDS = st.integers(0, 10**6)
KS = st.integers(1, 8)
CATCHUPS = st.none() | st.integers(1, 7)
PROBABILITIES = st.floats(0, 1)
COMPARISONS = ["diff", "worse", "worse-top"]
calm = settings(deadline=None)  # on a busy machine a slow example is no failure


@st.composite
def adaptives(draw):
    k_min = draw(KS)
    rhos = draw(st.lists(PROBABILITIES, min_size=1, max_size=8))
    return Adaptive(dict(enumerate(rhos, k_min)))


def wait_if(kind: str, start: int, delta: int) -> WaitIfDiff | WaitIfWorse:
    if kind == "diff":
        return WaitIfDiff(start, delta)
    return WaitIfWorse(start, delta, compare="top" if kind == "worse-top" else "same")


ANY_POLICY = st.one_of(
    st.builds(WaitK, KS),
    st.builds(TestTimeWaitK, KS),
    st.just(FullSentence()),
    adaptives(),
    st.builds(wait_if, st.sampled_from(COMPARISONS), KS, KS),
    st.builds(LocalAgreement, KS, KS),
    st.builds(HoldN, KS),
    st.builds(AlignAtt, KS),
    st.builds(PsFuture, PROBABILITIES),
)


@calm
@given(ANY_POLICY, LENGTHS, SEEDS, CATCHUPS)
def test_every_policy_terminates_and_never_goes_back(policy, length, seed, catchup):
    run = simulate(policy, sentence(length), seed, catchup=catchup, max_length=25)
    assert run.target[-1] == EOS or len(run.target) == 25
    assert len(run.actions) <= length + 1 + 25  # the simulator refuses a READ past the end
    assert run.delays == sorted(run.delays)
    assert all(1 <= delay <= length + 1 for delay in run.delays)


@calm
@given(ANY_POLICY, LENGTHS, SEEDS, CATCHUPS)
def test_a_policy_is_a_function_of_its_arguments(policy, length, seed, catchup):
    once = simulate(policy, sentence(length), seed, catchup=catchup)
    assert simulate(policy, sentence(length), seed, catchup=catchup) == once


@calm
@given(KS, LENGTHS, SEEDS, CATCHUPS)
def test_wait_k_follows_the_schedule(k, length, seed, catchup):
    run = simulate(WaitK(k), sentence(length), seed, catchup=catchup)
    assert run.delays == [visible(t, k, length + 1, catchup) for t in range(1, len(run.delays) + 1)]
    assert all(lag == k for lag, is_open in zip(run.lags, run.open, strict=True) if is_open)
    assert set(run.asked) == {(k, None)}


def test_wait_k_actions_in_full():
    always_two = lambda k=None, **_: Prediction(2, 0.1)  # noqa: E731
    state, actions = State(), []
    for _ in range(6):
        actions.append(WaitK(2)(state, always_two))
        (state.source if actions[-1] == Read() else state.target).append(2)
    assert actions == [Read(), Read(), Write(2), Read(), Write(2), Read()]
    state.source_ended = True
    assert WaitK(2)(state, always_two) == Write(2)


@calm
@given(LENGTHS, SEEDS, CATCHUPS)
def test_the_full_sentence_is_read_before_anything_is_written(length, seed, catchup):
    run = simulate(FullSentence(), sentence(length), seed, catchup=catchup)
    assert run.actions[: length + 1] == [Read()] * (length + 1)
    assert set(run.delays) == {length + 1}
    assert set(run.asked) == {(None, length + 1)}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (WaitK(1), None),
        (WaitK(1, models=(3, 5)), (3, 5)),
        (TestTimeWaitK(1), (FULL,)),
        (FullSentence(), None),
        (FullSentence(models=(FULL,)), (FULL,)),
        (WaitIfDiff(1, 1, models=(2,)), (2,)),
        (WaitIfWorse(1, 1), None),
        (WaitIfWorse(1, 1, models=(FULL, 9)), (FULL, 9)),
        (LocalAgreement(), None),
        (HoldN(2, models=(FULL,)), (FULL,)),
        (AlignAtt(1, models=(3, 5)), (3, 5)),
        (PsFuture(0.5, models=(3,)), (3,)),
    ],
)
def test_a_policy_asks_the_models_it_names(policy, expected):
    asked = []

    def predict(k=None, *, models=None, **_):
        asked.append(models)
        return Prediction(1, 0.5, [0.5, 0.5], attention=(0.5, 0.5))

    policy(State(source=[4, 5, EOS], source_ended=True), predict)
    policy(State(source=[4, 5, EOS], target=[1], source_ended=True), predict)
    policy(State(source=[4] * 20), predict)
    assert set(asked) == {expected}


@calm
@given(adaptives(), LENGTHS, SEEDS, CATCHUPS)
def test_adaptive_writes_only_at_lags_it_may(policy, length, seed, catchup):
    run = simulate(policy, sentence(length), seed, catchup=catchup)
    for lag, is_open in zip(run.lags, run.open, strict=True):
        if is_open:
            assert policy.k_min <= lag <= policy.k_max


@calm
@given(KS, PROBABILITIES, LENGTHS, SEEDS, CATCHUPS)
def test_adaptive_of_one_k_is_wait_k(k, rho, length, seed, catchup):
    adaptive = simulate(Adaptive({k: rho}), sentence(length), seed, catchup=catchup)
    assert adaptive == simulate(WaitK(k), sentence(length), seed, catchup=catchup)


@calm
@given(KS, st.integers(0, 7), LENGTHS, SEEDS, CATCHUPS)
def test_adaptive_with_no_thresholds_is_wait_k_min_until_the_source_ends(
    k_min, more, length, seed, catchup
):
    eager = Adaptive(linear_thresholds(0, 0, k_min, k_min + more))
    adaptive = simulate(eager, sentence(length), seed, catchup=catchup)
    fixed = simulate(WaitK(k_min), sentence(length), seed, catchup=catchup)
    written = sum(adaptive.open)
    assert sum(fixed.open) == written
    reads_and_writes = written + min(length + 1, max(adaptive.delays[: written + 1], default=0))
    assert adaptive.actions[:reads_and_writes] == fixed.actions[:reads_and_writes]
    tail = [k for k, _ in adaptive.asked[written:]]
    assert set(tail) <= {eager.k_max}


@calm
@given(adaptives(), LENGTHS, SEEDS, CATCHUPS)
def test_adaptive_is_algorithm_1(policy, length, seed, catchup):
    run = simulate(policy, sentence(length), seed, catchup=catchup)

    def as_printed(state, predict):
        if state.source and state.source[-1] == EOS:
            return Write(predict(policy.k_max).token)
        k = len(state.source) - len(state.target) - (len(state.target) // catchup if catchup else 0)
        if k < policy.k_min:  # there is no M_0 to ask, and the answer would not matter
            return Read()
        top = predict(k)
        return (
            Write(top.token)
            if k >= policy.k_max or top.probability >= policy.thresholds[k]
            else Read()
        )

    assert simulate(as_printed, sentence(length), seed, catchup=catchup) == run


@pytest.mark.parametrize(("probability", "expected"), [(0.6, Write(1)), (0.6 - 1e-9, Read())])
def test_a_probability_that_equals_its_threshold_is_enough(probability, expected):
    policy = Adaptive({1: 0.6, 2: 0.0})
    assert policy(State(source=[5]), lambda k: Prediction(1, probability)) == expected


def test_adaptive_asks_nobody_below_k_min_and_caps_its_question_at_k_max():
    def nobody(*_, **__):
        raise AssertionError("no model was to be asked")

    policy = Adaptive({2: 1.0, 3: 1.0})
    assert policy(State(), nobody) == policy(State(source=[5]), nobody) == Read()
    assert policy(State(source=[5] * 9), lambda k: Prediction(k, 0.0)) == Write(3)
    assert policy(
        State(source=[5], target=[1] * 4, source_ended=True), lambda k: Prediction(k, 0.0)
    ) == Write(3)


def cho_and_esipova(
    kind: str, start: int, delta: int, source: list[int], seed: object, max_length: int = 30
) -> Run:
    """The loop as they print it: C and C' are variables, and reading ahead is part of comparing."""
    run, state = Run(), State()
    context, read = min(start, len(source)), 0
    while EOS not in state.target and len(state.target) < max_length:
        candidate = min(context + delta, len(source))
        read = max(read, candidate)
        state.source = source[:read]
        here, further = look(seed, state, context), look(seed, state, candidate)
        worse = further.probability if kind == "worse-top" else further.distribution[here.token]
        doubt = here.token != further.token if kind == "diff" else worse < here.probability
        if doubt and context < len(source):
            context = candidate
            continue
        state.target.append(here.token)
        run.delays.append(read)
        run.contexts.append(context)
    run.target = state.target
    return run


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(COMPARISONS), KS, KS, LENGTHS, SEEDS)
def test_wait_if_is_the_loop_that_keeps_its_context(kind, start, delta, length, seed):
    ours = simulate(wait_if(kind, start, delta), sentence(length), seed)
    naive = cho_and_esipova(kind, start, delta, sentence(length), seed)
    assert (ours.target, ours.delays, ours.contexts) == (naive.target, naive.delays, naive.contexts)


@calm
@given(st.sampled_from(COMPARISONS), KS, KS, LENGTHS, SEEDS)
def test_wait_if_reads_exactly_as_far_as_it_looks(kind, start, delta, length, seed):
    run = simulate(wait_if(kind, start, delta), sentence(length), seed)
    for delay, context in zip(run.delays, run.contexts, strict=True):
        assert delay == min(context + delta, length + 1)
    assert run.contexts == sorted(run.contexts)


def test_the_two_readings_of_wait_if_worse_differ():
    here, further = Prediction(1, 0.5, [0.1, 0.5, 0.4]), Prediction(2, 0.6, [0.1, 0.3, 0.6])
    assert WaitIfWorse(1, 1).wait(here, further)
    assert not WaitIfWorse(1, 1, compare="top").wait(here, further)
    assert WaitIfDiff(1, 1).wait(here, further)
    assert not WaitIfWorse(1, 1).wait(here, here)  # as probable is not worse


@pytest.mark.parametrize("policy", [WaitK, TestTimeWaitK])
@pytest.mark.parametrize("k", [0, -2, 1.5, "3", True, None])
def test_a_wait_k_below_one_is_refused(policy, k):
    with pytest.raises(ValueError, match=r"k must be an integer of 1 or more; got"):
        policy(k)


@pytest.mark.parametrize("policy", [WaitIfDiff, WaitIfWorse])
def test_wait_if_refuses_what_is_no_count(policy):
    with pytest.raises(ValueError, match="start must be .* got 0"):
        policy(0, 1)
    with pytest.raises(ValueError, match="delta must be .* got 0"):
        policy(1, 0)


def test_wait_if_worse_refuses_an_unknown_comparison():
    with pytest.raises(ValueError, match="compare must be 'same' or 'top'; got 'both'"):
        WaitIfWorse(1, 1, compare="both")


@pytest.mark.parametrize(
    "thresholds", [{}, {0: 0.5}, {-1: 0.5, 0: 0.5, 1: 0.5}, {1.0: 0.5}, {"1": 0.5}, {True: 0.5}]
)
def test_thresholds_without_counting_ks_are_refused(thresholds):
    for check in (check_thresholds, Adaptive):
        with pytest.raises(
            ValueError, match="at least one k; got none|every k in thresholds must be"
        ):
            check(thresholds)


def test_thresholds_with_gaps_are_refused():
    message = r"without gaps; got \[1, 3, 6\]. Add 2, 4, 5, or use linear_thresholds\(\)"
    for check in (check_thresholds, Adaptive):
        with pytest.raises(ValueError, match=message):
            check({3: 0.5, 6: 0.5, 1: 0.5})


@pytest.mark.parametrize("rho", [-0.001, 1.001, float("nan")])
def test_thresholds_that_are_no_probabilities_are_refused(rho):
    for call in (lambda: Adaptive({1: 0.5, 2: rho}), lambda: linear_thresholds(rho, 0.5, 1, 2)):
        with pytest.raises(ValueError, match=f"0 to 1; got {rho} for k="):
            call()


@calm
@given(PROBABILITIES, PROBABILITIES, KS, st.integers(0, 12))
def test_linear_thresholds_go_from_first_to_last_in_equal_steps(first, last, k_min, more):
    rho = linear_thresholds(first, last, k_min, k_min + more)
    assert list(rho) == list(range(k_min, k_min + more + 1))
    assert rho[k_min] == first
    if more:
        assert rho[k_min + more] == last
        steps = [rho[k] - rho[k + 1] for k in range(k_min, k_min + more)]
        assert steps == pytest.approx([(first - last) / more] * more)


def test_linear_thresholds_by_hand():
    assert linear_thresholds(1, 0, 3, 5) == {3: 1, 4: 0.5, 5: 0}
    assert linear_thresholds(0.25, 0.75, 1, 2) == {1: 0.25, 2: 0.75}
    assert linear_thresholds(0.3, 0.9, 4, 4) == {4: 0.3}
    assert list(linear_thresholds(0.5, 0)) == list(range(1, 11))


def test_linear_thresholds_refuse_a_range_that_is_none():
    with pytest.raises(ValueError, match="k_min must not be above k_max; got k_min=5, k_max=4"):
        linear_thresholds(1, 0, 5, 4)
    with pytest.raises(ValueError, match="k_min must be an integer of 1 or more; got 0"):
        linear_thresholds(1, 0, 0, 4)
    with pytest.raises(ValueError, match="k_max must be an integer of 1 or more; got 4.5"):
        linear_thresholds(1, 0, 1, 4.5)


PAPER = [(first / 10, 0.0) for first in range(2, 10)] + [(1.0, last / 10) for last in range(10)]


def test_the_papers_18_settings_by_name():
    assert list(PAPER_SETTINGS) == [f"rho1={first:g},rho10={last:g}" for first, last in PAPER]
    assert len(PAPER_SETTINGS) == 18
    assert "rho1=0.4,rho10=0" in PAPER_SETTINGS
    assert "rho1=1,rho10=0.9" in PAPER_SETTINGS


@pytest.mark.parametrize(("first", "last"), PAPER)
def test_the_papers_18_settings_by_value(first, last):
    d = (first - last) / 9
    expected = {i: first - d * (i - 1) for i in range(1, 11)}
    rho = PAPER_SETTINGS[f"rho1={first:g},rho10={last:g}"]
    assert dict(rho) == pytest.approx(expected, abs=1e-12)
    assert (rho[1], rho[10]) == (first, last)
    policy = Adaptive(rho)
    assert (policy.k_min, policy.k_max) == (1, 10)


def test_the_papers_settings_cannot_be_changed():
    with pytest.raises(TypeError):
        PAPER_SETTINGS["mine"] = {}
    with pytest.raises(TypeError):
        PAPER_SETTINGS["rho1=1,rho10=0"][1] = 0.0


EXAMPLES = [
    WaitK(3),
    TestTimeWaitK(3),
    FullSentence(),
    Adaptive({2: 0.5, 1: 0.75}),
    WaitIfDiff(4, 2),
    WaitIfWorse(1, 1, compare="top"),
    LocalAgreement(3, 2),
    HoldN(2),
    AlignAtt(2, close=True),
    PsFuture(0.25),
]


@pytest.mark.parametrize("policy", EXAMPLES, ids=lambda policy: type(policy).__name__)
def test_policies_are_values(policy):
    for twin in (copy.copy(policy), copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert twin == policy
        assert hash(twin) == hash(policy)
        assert type(twin) is type(policy)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.models = (1,)


def test_different_policies_are_different_values():
    assert (
        len({*EXAMPLES, WaitK(4), WaitIfDiff(4, 3), WaitIfWorse(1, 1), Adaptive({1: 0.75})})
        == len(EXAMPLES) + 4
    )
    assert WaitK(3) != TestTimeWaitK(3)


def test_adaptive_keeps_its_own_thresholds():
    mine = {1: 0.5, 2: 0.25}
    policy = Adaptive(mine)
    mine[1] = 0.0
    assert dict(policy.thresholds) == {1: 0.5, 2: 0.25}
    with pytest.raises(TypeError):
        policy.thresholds[1] = 0.0


@pytest.mark.parametrize(
    ("name", "options", "policy"),
    [
        ("wait-k", {"k": 3}, WaitK(3)),
        ("test-time-wait-k", {"k": 2}, TestTimeWaitK(2)),
        ("wait-if-diff", {"start": 6, "delta": 4}, WaitIfDiff(6, 4)),
        ("wait-if-worse", {}, WaitIfWorse(4, 2)),
        ("adaptive", {"rho": (1.0, 0.0), "k_max": 4}, Adaptive(linear_thresholds(1.0, 0.0, 1, 4))),
        ("full", {}, FullSentence()),
        ("full", {"k": None, "rho": None, "k_min": 2}, FullSentence()),
        ("local-agreement", {}, LocalAgreement(2, 1)),
        ("local-agreement", {"n": 3, "step": 2, "close": True}, LocalAgreement(3, 2, close=True)),
        ("hold-n", {"n": 0}, HoldN(0)),
        ("align-att", {"border": 4, "layer": 0}, AlignAtt(4, 0)),
        ("ps-future", {"threshold": 0.5}, PsFuture(0.5)),
    ],
)
def test_policies_by_name(name, options, policy):
    assert make_policy(name, **options) == policy


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("godot", {}, "policy must be one of adaptive, wait-k, .*; got 'godot'"),
        ("wait-k", {}, "wait-k takes k; got none"),
        ("full", {"k": 3}, "full takes no options; got k=3"),
        ("adaptive", {}, "adaptive takes rho; got none"),
        ("adaptive", {"rho": (0.5,)}, "rho is two thresholds"),
        ("full", {"rho": (1, 0)}, r"full takes no options; got rho=\(1, 0\)"),
        ("wait-if-diff", {"k": 3, "delta": 1}, "takes start and delta; got k=3, delta=1"),
        ("hold-n", {"border": 1}, "hold-n takes n and close; got border=1"),
        ("align-att", {"n": 1}, "align-att takes border and layer and close; got n=1"),
    ],
)
def test_policies_that_cannot_be_made(name, options, message):
    with pytest.raises(ValueError, match=message):
        make_policy(name, **options)
