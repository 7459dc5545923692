"""The attention masks: golden pictures, and the law that they show what `schedule.visible`
counts."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_simultaneous.masks import (
    for_attention,
    packed_cross_mask,
    packed_prefixes,
    packed_source_len,
    packed_width,
    plain_cross_mask,
    visible_counts,
)
from hf_simultaneous.schedule import visible


CATCHUPS = st.none() | st.integers(1, 7)
ROWS = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 20)), min_size=1, max_size=5
)  # (k, source length)
calm = settings(deadline=None, max_examples=60)


def picture(mask: torch.Tensor) -> list[str]:
    """One row per target step, `#` where it may look."""
    return ["".join(".#"[int(seen)] for seen in row) for row in mask]


@calm
@given(ROWS, st.integers(1, 15), CATCHUPS)
def test_counts_are_those_of_the_schedule(rows, steps, catchup):
    ks, lengths = torch.tensor(rows).T
    expected = [[visible(t, k, length, catchup) for t in range(1, steps + 1)] for k, length in rows]
    counts = visible_counts(torch.arange(1, steps + 1), ks, lengths, catchup)
    assert counts.tolist() == expected
    one_k = visible_counts(torch.arange(1, steps + 1), rows[0][0], lengths, catchup)
    assert one_k.tolist() == [
        [visible(t, rows[0][0], n, catchup) for t in range(1, steps + 1)] for _, n in rows
    ]


@calm
@given(ROWS, st.integers(1, 15), CATCHUPS, st.data())
def test_rows_may_stand_at_different_steps(rows, steps, catchup, data):
    starts = data.draw(st.lists(st.integers(1, 9), min_size=len(rows), max_size=len(rows)))
    ks, lengths = torch.tensor(rows).T
    counts = visible_counts(
        torch.tensor(starts)[:, None] + torch.arange(steps), ks, lengths, catchup
    )
    for row, start, (k, length) in zip(counts.tolist(), starts, rows, strict=True):
        assert row == [visible(start + step, k, length, catchup) for step in range(steps)]


def test_the_plain_mask_of_wait_2():
    visible = visible_counts(torch.arange(1, 6), 2, torch.tensor([5, 3]))
    mask = plain_cross_mask(visible, 5)
    assert mask.shape == (2, 1, 5, 5)
    assert picture(mask[0, 0]) == ["##...", "###..", "####.", "#####", "#####"]
    assert picture(mask[1, 0]) == ["##...", "###..", "###..", "###..", "###.."]


def test_the_plain_mask_of_wait_1_catching_up_after_every_second_write():
    visible = visible_counts(torch.arange(1, 5), 1, torch.tensor([6]), catchup=2)
    assert picture(plain_cross_mask(visible, 6)[0, 0]) == ["#.....", "##....", "####..", "#####."]


def test_the_packed_mask_of_wait_1():
    visible = visible_counts(torch.arange(1, 5), 1, torch.tensor([3, 2]))
    mask = packed_cross_mask(visible, packed_width(3))
    assert mask.shape == (2, 1, 4, 6)
    assert picture(mask[0, 0]) == ["#.....", ".##...", "...###", "...###"]
    assert picture(mask[1, 0]) == ["#.....", ".##...", ".##...", ".##..."]


@calm
@given(ROWS, st.integers(1, 15), CATCHUPS)
def test_the_packed_mask_shows_one_prefix_whole(rows, steps, catchup):
    ks, lengths = torch.tensor(rows).T
    counts = visible_counts(torch.arange(1, steps + 1), ks, lengths, catchup)
    width = packed_width(int(lengths.max()))
    mask, prefixes = (
        packed_cross_mask(counts, width)[:, 0],
        packed_prefixes(width, torch.device("cpu")),
    )
    assert torch.equal(mask.sum(-1), counts)
    assert torch.equal((mask * prefixes).amax(-1), counts)
    assert torch.equal((mask * prefixes).sum(-1), counts**2)


@given(st.integers(0, 5000))
def test_packed_widths_are_told_apart_from_other_numbers(length):
    width = packed_width(length)
    assert packed_source_len(width) == length
    between = range(width + 1, packed_width(length + 1))
    assert all(packed_source_len(other) is None for other in between[:50])


def test_prefixes_lie_one_after_another():
    assert packed_prefixes(10, torch.device("cpu")).tolist() == [1, 2, 2, 3, 3, 3, 4, 4, 4, 4]


def test_a_width_that_no_source_packs_to_is_refused():
    with pytest.raises(ValueError, match=r"have 1, 3, 6, 10, \.\.\. states together; got 7"):
        packed_prefixes(7, torch.device("cpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_each_attention_gets_the_form_it_wants(dtype):
    allowed = torch.tensor([[[[True, False]]]])
    assert for_attention(allowed, SimpleNamespace(_attn_implementation="sdpa"), dtype) is allowed
    added = for_attention(allowed, SimpleNamespace(_attn_implementation="eager"), dtype)
    assert added.dtype == dtype
    assert added.flatten().tolist() == [0.0, torch.finfo(dtype).min]
