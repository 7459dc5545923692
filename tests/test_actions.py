"""The values policies speak in: equality, immutability, what a state derives and what is
refused."""

import dataclasses
import pickle

import pytest

from hf_simultaneous.actions import Prediction, Read, State, Write
from hf_simultaneous.schedule import lag


def test_actions_are_values():
    assert Read() == Read()
    assert Write(3) == Write(3, None) != Write(4)
    assert Write(3, 2) != Write(3)
    assert Read() != Write(0)
    assert len({Read(), Read(), Write(1), Write(1)}) == 2
    assert pickle.loads(pickle.dumps([Read(), Write(5, 2)])) == [Read(), Write(5, 2)]


@pytest.mark.parametrize(
    ("value", "name"), [(Write(1), "token"), (Prediction(1, 0.5), "probability")]
)
def test_values_are_frozen(value, name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, name, 7)


def test_a_prediction_knows_every_probability_it_kept():
    prediction = Prediction(2, 0.7, [0.1, 0.2, 0.7])
    assert [prediction.probability_of(token) for token in range(3)] == [0.1, 0.2, 0.7]
    assert isinstance(Prediction(0, 1.0, [1, 0]).probability_of(1), float)


def test_a_prediction_without_its_distribution_answers_for_its_own_token_only():
    prediction = Prediction(2, 0.7)
    assert prediction.probability_of(2) == 0.7
    with pytest.raises(ValueError, match="kept only its top token 2; asked for token 5"):
        prediction.probability_of(5)


def test_a_prediction_is_compared_and_shown_without_its_distribution():
    assert Prediction(1, 0.5, [0.5, 0.5]) == Prediction(1, 0.5)
    assert "distribution" not in repr(Prediction(1, 0.5, [0.5, 0.5]))


def test_the_focus_is_the_token_looked_at_most():
    assert Prediction(1, 0.5, attention=(0.2, 0.5, 0.3)).focus == 1
    assert Prediction(1, 0.5, attention=(0.4, 0.4)).focus == 0
    assert Prediction(1, 0.5, attention=(0.4, 0.6)) == Prediction(1, 0.5)


@pytest.mark.parametrize("attention", [None, ()])
def test_a_prediction_nobody_asked_the_attention_of_has_no_focus(attention):
    with pytest.raises(ValueError, match=r"no attention .*predict\(\.\.\., attention=layer\)"):
        Prediction(1, 0.5, attention=attention).focus  # noqa: B018


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ([0.5, 0.5], [0.5, 0.5], 0.0),
        ([1, 0], [0, 1], 1.0),
        ([1, 0], [0.5, 0.5], 1 - 0.5**0.5),
        ([0.6, 0.8, 0], [0.6, 0, 0.8], 1 - 0.36),
    ],
)
def test_the_distance_between_distributions(one, other, distance):
    torch = pytest.importorskip("torch")
    here, there = Prediction(0, 0.5, one), Prediction(0, 0.5, other)
    assert here.distance(there) == there.distance(here) == pytest.approx(distance)
    tensors = [Prediction(0, 0.5, torch.tensor(row, dtype=torch.float64)) for row in (one, other)]
    assert tensors[0].distance(tensors[1]) == pytest.approx(distance)
    assert here.distance(here) >= 0


def test_a_distance_needs_both_distributions():
    with pytest.raises(ValueError, match="one of them was not kept"):
        Prediction(0, 0.5, [0.5, 0.5]).distance(Prediction(0, 0.5))


def test_two_states_share_nothing():
    one, other = State(), State()
    one.source.append(4)
    one.target.append(5)
    assert other.source == other.target == []
    assert (other.source_ended, other.catchup, other.context) == (False, None, 0)


@pytest.mark.parametrize("catchup", [None, 1, 6])
def test_the_lag_of_a_state_follows_its_lengths(catchup):
    state = State(catchup=catchup)
    assert state.lag == 0
    for _ in range(9):
        state.source.append(1)
        assert state.lag == lag(len(state.source), len(state.target), catchup)
        state.target.append(1)
        assert state.lag == lag(len(state.source), len(state.target), catchup)


@pytest.mark.parametrize("catchup", [0, -1, True, 2.0])
def test_a_state_refuses_a_catchup_below_one(catchup):
    with pytest.raises(ValueError, match=f"1 or more, or None; got {catchup!r}"):
        State(catchup=catchup)
