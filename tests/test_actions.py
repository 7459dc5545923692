"""The values policies speak in: equality, immutability, what a state derives and what is refused."""

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


@pytest.mark.parametrize(("value", "name"), [(Write(1), "token"), (Prediction(1, 0.5), "probability")])
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


def test_two_states_share_nothing():
    one, other = State(), State()
    one.source.append(4)
    one.target.append(5)
    assert other.source == other.target == []
    assert (other.ended, other.catchup, other.context) == (False, None, 0)


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
