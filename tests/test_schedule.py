"""g(t) and its inverse: golden values, the law that ties them, and what they refuse."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_simultaneous.schedule import (
    FULL,
    check_at_least_one,
    check_catchup,
    check_k,
    lag,
    reach,
    visible,
)


STEPS = st.integers(1, 500)
KS = st.integers(1, 40)
CATCHUPS = st.none() | st.integers(1, 12)
calm = settings(deadline=None)  # on a busy machine a slow example is no failure


@pytest.mark.parametrize(
    ("k", "catchup", "source_len", "expected"),
    [
        (1, None, 6, [1, 2, 3, 4, 5, 6]),
        (3, None, 6, [3, 4, 5, 6, 6, 6]),
        (FULL, None, 6, [6, 6, 6, 6, 6, 6]),
        (FULL, 2, 6, [6, 6, 6, 6, 6, 6]),
        (9, None, 6, [6, 6, 6, 6, 6, 6]),
        (1, 6, 14, [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13]),
        (3, 6, 14, [3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 14]),
        (1, 1, 9, [1, 3, 5, 7, 9, 9]),
        (2, None, 0, [0, 0, 0]),
        (FULL, None, 0, [0, 0, 0]),
    ],
)
def test_visible_golden(k, catchup, source_len, expected):
    assert [visible(t, k, source_len, catchup) for t in range(1, len(expected) + 1)] == expected


@calm
@given(STEPS, KS, CATCHUPS, st.integers(1, 600))
def test_lag_undoes_visible_while_the_source_lasts(step, k, catchup, source_len):
    seen = visible(step, k, source_len, catchup)
    if reach(step, k, catchup) <= source_len:
        assert lag(seen, step - 1, catchup) == k
    else:
        assert seen == source_len
        assert lag(seen, step - 1, catchup) < k


@calm
@given(STEPS, KS, CATCHUPS, st.integers(0, 600))
def test_visible_never_goes_back_nor_past_the_source(step, k, catchup, source_len):
    now, then = visible(step, k, source_len, catchup), visible(step + 1, k, source_len, catchup)
    assert 0 <= now <= then <= source_len
    assert then - now <= (1 if catchup is None else 2)
    assert now <= visible(step, k + 1, source_len, catchup) <= now + 1


@calm
@given(st.integers(0, 300), st.integers(0, 300), CATCHUPS)
def test_reading_adds_one_to_the_lag_and_writing_takes_one_off(source_len, target_len, catchup):
    here = lag(source_len, target_len, catchup)
    assert lag(source_len + 1, target_len, catchup) == here + 1
    owed = 1 if catchup is not None and (target_len + 1) % catchup == 0 else 0
    assert lag(source_len, target_len + 1, catchup) == here - 1 - owed


def test_lag_golden():
    assert lag(3, 0) == 3
    assert lag(0, 0) == 0
    assert lag(2, 5) == -3
    assert [lag(12, target_len, 6) for target_len in (5, 6, 11, 12)] == [7, 5, 0, -2]


@calm
@given(STEPS, KS, CATCHUPS)
def test_reach_is_the_same_arithmetic_for_arrays(step, k, catchup):
    torch = pytest.importorskip("torch")
    assert reach(torch.tensor([step]), torch.tensor([k]), catchup).tolist() == [
        reach(step, k, catchup)
    ]


@pytest.mark.parametrize("k", [0, -1, 1.0, "3", True])
def test_a_k_below_one_or_no_count_is_refused(k):
    with pytest.raises(ValueError, match=r"k must be an integer of 1 or more; got"):
        visible(1, k, 5)
    with pytest.raises(ValueError, match="k must be"):
        check_k(k)


@pytest.mark.parametrize("step", [0, -3, 2.5, True])
def test_steps_count_from_one(step):
    with pytest.raises(ValueError, match="step must be an integer of 1 or more; got"):
        visible(step, 1, 5)


@pytest.mark.parametrize("catchup", [0, -6, 1.5, "6", True])
def test_a_catchup_below_one_is_refused(catchup):
    for call in (
        lambda: visible(1, 1, 5, catchup),
        lambda: lag(3, 1, catchup),
        lambda: check_catchup(catchup),
    ):
        with pytest.raises(ValueError, match="1 or more, or None; got"):
            call()


def test_negative_lengths_are_refused():
    with pytest.raises(ValueError, match="source_len .* got -1"):
        visible(1, 1, -1)
    with pytest.raises(ValueError, match="got source -1, target 0"):
        lag(-1, 0)
    with pytest.raises(ValueError, match="got source 0, target -1"):
        lag(0, -1)


def test_an_error_names_the_argument_and_repeats_the_value():
    with pytest.raises(ValueError, match=r"beams must be an integer of 1 or more; got 'two'"):
        check_at_least_one("beams", "two")
    check_k(FULL)
    check_catchup(None)
    check_at_least_one("beams", 1)
