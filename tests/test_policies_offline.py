"""The policies over ordinary full-sentence models: against whole hypotheses as they were published,
against one another, and by hand."""

from os.path import commonprefix

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_simultaneous.actions import Prediction, Read, State, Write
from hf_simultaneous.policies import AlignAtt, HoldN, LocalAgreement, PsFuture, WaitIfDiff
from tests.simulator import EOS, Run, look, sentence, simulate


LENGTHS = st.integers(0, 20)
SEEDS = st.integers(0, 10**6)
calm = settings(deadline=None)  # on a busy machine a slow example is no failure
OFFLINE = st.one_of(
    st.builds(LocalAgreement, st.integers(1, 4), st.integers(1, 3), close=st.booleans()),
    st.builds(HoldN, st.integers(0, 4), close=st.booleans()),
    st.builds(AlignAtt, st.integers(1, 5), st.integers(-2, 2), close=st.booleans()),
    st.builds(PsFuture, st.floats(0, 1), close=st.booleans()),
)


@calm
@given(OFFLINE, LENGTHS, SEEDS)
def test_no_policy_over_full_sentences_ends_before_the_source(policy, length, seed):
    run = simulate(policy, sentence(length), seed, max_length=60)
    ends = [token == EOS for token in run.target]
    assert not any(end and is_open for end, is_open in zip(ends, run.open, strict=True))
    assert run.target[-1] != EOS or run.delays[-1] == length + 1


@settings(deadline=None, max_examples=300)
@given(LENGTHS, SEEDS)
def test_local_agreement_of_two_is_wait_if_diff_but_for_the_end(length, seed):
    ours = simulate(LocalAgreement(2, 1), sentence(length), seed)
    theirs = simulate(WaitIfDiff(1, 1), sentence(length), seed)
    if theirs.target[-1] == EOS and theirs.open[-1]:
        before = len(theirs.target) - 1
        assert ours.target[:before] == theirs.target[:before]
        assert ours.actions[: len(theirs.actions)] == [
            *(Write(one.token) if isinstance(one, Write) else one for one in theirs.actions[:-1]),
            Read(),
        ]
    else:
        assert (ours.target, ours.delays) == (theirs.target, theirs.delays)


def said_by(seed: object, state: State, context: int, close: bool, length: int) -> list[int]:
    """A whole greedy hypothesis, forced through the target; cut off at `length` more tokens."""
    ahead: list[int] = []
    while len(ahead) < length and EOS not in ahead:
        ahead.append(look(seed, state, context, close=close, after=tuple(ahead)).token)
    return ahead


def retranslated(commit, source: list[int], seed: object, close: bool, max_length: int) -> Run:
    """As published: after each token of the source a whole hypothesis is made, and a part of it is
    committed; the rest when the source has ended."""
    run, state = Run(), State()
    for read in range(1, len(source) + 1):
        state.source = source[:read]
        ended = read == len(source)
        new = said_by(seed, state, read, close, 40) if ended else commit(state, read)
        for token in new:
            if len(state.target) < max_length and EOS not in state.target:
                state.target.append(token)
                run.delays.append(read)
    run.target = state.target
    return run


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 4), st.booleans(), st.integers(0, 9), SEEDS)
def test_local_agreement_commits_the_common_prefix_of_whole_hypotheses(n, close, length, seed):
    def commit(state, read):
        if read < n:
            return []
        rows = [said_by(seed, state, read - back, close, 40) for back in range(n)]
        return [token for token in commonprefix(rows) if token != EOS]

    ours = simulate(LocalAgreement(n, close=close), sentence(length), seed, max_length=20)
    theirs = retranslated(commit, sentence(length), seed, close, 20)
    assert (ours.target, ours.delays) == (theirs.target, theirs.delays)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 4), st.booleans(), st.integers(0, 9), SEEDS)
def test_hold_n_commits_all_but_the_last_n_of_a_hypothesis(n, close, length, seed):
    def commit(state, read):
        said = said_by(seed, state, read, close, 60)
        whole = [token for token in said if token != EOS]
        return whole[: max(0, len(whole) - n)] if EOS in said else whole

    ours = simulate(HoldN(n, close=close), sentence(length), seed, max_length=20)
    theirs = retranslated(commit, sentence(length), seed, close, 20)
    assert (ours.target, ours.delays) == (theirs.target, theirs.delays)


def by_the_table(rows):
    """A `predict` that looks its answers up by what was asked."""

    def predict(k=None, **asked):
        return next(answer for wanted, answer in rows if wanted.items() <= asked.items())

    return predict


@pytest.mark.parametrize(
    ("attention", "border", "action"),
    [
        ((0.1, 0.6, 0.2, 0.1), 2, Write(7)),  # on the second of four, and two are the border
        ((0.1, 0.2, 0.6, 0.1), 2, Read()),
        ((0.1, 0.2, 0.6, 0.1), 1, Write(7)),
        ((0.1, 0.2, 0.1, 0.6), 1, Read()),
        ((0.6, 0.2, 0.1, 0.1), 3, Write(7)),
        ((0.6, 0.2, 0.1, 0.1), 4, Read()),  # no token is outside the border
    ],
)
def test_align_att_by_hand(attention, border, action):
    predict = by_the_table([({"attention": 1}, Prediction(7, 0.5, attention=attention))])
    assert AlignAtt(border, layer=1)(State(source=[4, 5, 6, 7]), predict) == action


@pytest.mark.parametrize(
    ("closed", "threshold", "action"),
    [
        ([0.6, 0.8, 0], 0.01, Write(1)),
        ([0.6, 0, 0.8], 0.65, Write(1)),
        ([0.6, 0, 0.8], 0.64, Read()),  # as far as the threshold is too far
        ([0.6, 0.8, 0], 0, Read()),
    ],
)
def test_ps_future_by_hand(closed, threshold, action):
    predict = by_the_table(
        [
            ({"close": True}, Prediction(2, 0.8, closed)),
            ({"close": False}, Prediction(1, 0.8, [0.6, 0.8, 0])),
        ]
    )
    assert PsFuture(threshold)(State(source=[4]), predict) == action


def test_what_a_policy_over_full_sentences_writes_depends_on_close():
    predict = by_the_table(
        [
            ({"close": True}, Prediction(2, 0.5, [0, 0.5, 0.5])),
            ({"close": False}, Prediction(1, 0.5, [0, 0.5, 0.5])),
        ]
    )
    for close, token in ((False, 1), (True, 2)):
        for policy in (LocalAgreement(1, close=close), HoldN(0, close=close)):
            assert policy(State(source=[4]), predict) == Write(token)
        assert PsFuture(1, close=close)(State(source=[4]), predict) == Write(token)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LocalAgreement(0), "n must be an integer of 1 or more; got 0"),
        (lambda: LocalAgreement(2, 0), "step must be an integer of 1 or more; got 0"),
        (lambda: HoldN(-1), "n must be an integer of 0 or more; got -1"),
        (lambda: HoldN(True), "n must be an integer of 0 or more; got True"),
        (lambda: AlignAtt(0), "border must be an integer of 1 or more; got 0"),
        (lambda: AlignAtt(2, "last"), "layer must be an integer; got 'last'"),
        (lambda: AlignAtt(2, True), "layer must be an integer; got True"),
        (lambda: PsFuture(-0.1), "threshold is a distance, 0 to 1; got -0.1"),
        (lambda: PsFuture(1.5), "threshold is a distance, 0 to 1; got 1.5"),
        (lambda: PsFuture(float("nan")), "0 to 1; got nan"),
        (lambda: PsFuture("much"), "0 to 1; got 'much'"),
    ],
)
def test_policies_over_full_sentences_refuse_what_is_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()
