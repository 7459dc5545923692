from itertools import pairwise

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from training.batches import WHOLE_SOURCE, Batches, Draw, Step
from training.tokenizer import TokenizerOptions, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(["a few words"], TokenizerOptions(vocab_size=300))


@pytest.fixture(scope="module")
def split() -> Dataset:
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 30, size=(200, 2))
    return Dataset.from_dict(
        {
            "input_ids": [[7] * s for s, _ in sizes.tolist()],
            "labels": [[8] * t for _, t in sizes.tolist()],
        }
    )


def rows(steps: list[Step]) -> list[int]:
    return [row for step in steps for batch in step.batches for row, _ in batch]


def test_an_epoch_holds_every_sentence_within_the_limit(
    split: Dataset, tokenizer: PreTrainedTokenizerFast
) -> None:
    batches = Batches(split, tokenizer, batch_tokens=200)
    steps = batches.epoch(0)
    assert sorted(rows(steps)) == list(range(len(split)))
    for (padded,) in batches.load(steps):
        assert max(padded["input_ids"].numel(), padded["labels"].numel()) <= 200
    padded_tokens = sum(b["input_ids"].numel() for step in batches.load(steps) for b in step)
    assert padded_tokens < 1.1 * batches.source_lengths.sum()  # neighbours in length share a batch


def test_a_sentence_longer_than_a_batch_is_a_batch(
    split: Dataset, tokenizer: PreTrainedTokenizerFast
) -> None:
    steps = Batches(split, tokenizer, batch_tokens=5).epoch(0)
    assert sorted(rows(steps)) == list(range(len(split)))


def test_the_order_depends_on_seed_and_epoch_alone(
    split: Dataset, tokenizer: PreTrainedTokenizerFast
) -> None:
    def order(seed: int, epoch: int) -> list[int]:
        torch.manual_seed(np.random.randint(100))
        return rows(Batches(split, tokenizer, batch_tokens=200, seed=seed).epoch(epoch))

    assert order(1, 3) == order(1, 3)
    assert order(1, 3) != order(1, 4)
    assert order(1, 3) != order(2, 3)


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_processes_share_each_step(
    split: Dataset, tokenizer: PreTrainedTokenizerFast, processes: int
) -> None:
    batches = Batches(split, tokenizer, batch_tokens=150, batches_per_step=4)
    steps = batches.epoch(0)
    shares = [list(batches.load(steps, rank, processes)) for rank in range(processes)]
    for index, step in enumerate(steps):
        together = [batch for share in shares for batch in share[index]]
        assert len(together) == 4
        assert sum(int((batch["labels"] != -100).sum()) for batch in together) == step.tokens


def test_the_last_step_is_filled_up(split: Dataset, tokenizer: PreTrainedTokenizerFast) -> None:
    steps = Batches(split, tokenizer, batch_tokens=10_000, batches_per_step=7).epoch(0)
    assert [len(step.batches) for step in steps] == [7] * len(steps)
    assert set(rows(steps)) == set(range(len(split)))


def test_padding(split: Dataset, tokenizer: PreTrainedTokenizerFast) -> None:
    batches = Batches(split, tokenizer, batch_tokens=300)
    ((batch,), *_) = batches.load(batches.epoch(0))
    assert set(batch) == {"input_ids", "attention_mask", "labels"}
    assert torch.equal(batch["attention_mask"] == 0, batch["input_ids"] == tokenizer.pad_token_id)
    assert set(batch["labels"].unique().tolist()) <= {8, -100}


def test_loading_leaves_the_random_state_alone(
    split: Dataset, tokenizer: PreTrainedTokenizerFast
) -> None:
    batches = Batches(split, tokenizer, batch_tokens=300)
    before = torch.get_rng_state()
    list(batches.load(batches.epoch(0)))
    assert torch.equal(before, torch.get_rng_state())


def test_k_is_drawn_for_every_sentence(split: Dataset, tokenizer: PreTrainedTokenizerFast) -> None:
    batches = Batches(
        split, tokenizer, batch_tokens=300, draw=Draw(ks=[1, 3, "full"], per="sentence")
    )
    steps = batches.epoch(0)
    drawn = [k for step in steps for batch in step.batches for _, k in batch]
    assert {drawn.count(k) > 30 for k in (1, 3, WHOLE_SOURCE)} == {True}
    assert drawn == [k for step in batches.epoch(0) for batch in step.batches for _, k in batch]
    ((batch,), *_) = batches.load(steps)
    assert batch["wait_k"].tolist() == [k for _, k in steps[0].batches[0]]


def test_or_for_every_batch(split: Dataset, tokenizer: PreTrainedTokenizerFast) -> None:
    steps = Batches(
        split, tokenizer, batch_tokens=300, draw=Draw(ks=[1, 3, "full"], per="batch")
    ).epoch(0)
    drawn = [{k for _, k in batch} for step in steps for batch in step.batches]
    assert all(len(ks) == 1 for ks in drawn)
    assert len(set.union(*drawn)) > 1


def test_or_along_a_path(split: Dataset, tokenizer: PreTrainedTokenizerFast) -> None:
    ks = [1, 3, 7, "full"]
    batches = Batches(
        split, tokenizer, batch_tokens=300, draw=Draw(ks=ks, per="sentence", paths=0.5)
    )
    steps = batches.epoch(0)
    drawn = [one for step in steps for batch in step.batches for one in batch]
    paths = [(row, k) for row, k in drawn if isinstance(k, list)]
    assert 70 < len(paths) < 130
    assert {k for _, k in drawn if isinstance(k, int)} == {1, 3, 7, WHOLE_SOURCE}
    for row, path in paths:
        assert len(path) == batches.target_lengths[row]
        assert {1, 2, 3, 4, 5, 6, 7}.issuperset(path)
        assert all(after >= before - 1 for before, after in pairwise(path)), "it has been read"
    assert sum(len(set(path)) > 1 for _, path in paths) > len(paths) / 2
    ((batch,), *_) = batches.load(steps)
    assert batch["wait_k"].shape == batch["labels"].shape
    for padded, (_, k) in zip(batch["wait_k"].tolist(), steps[0].batches[0], strict=True):
        path = k if isinstance(k, list) else [k]
        assert padded == path + path[-1:] * (len(padded) - len(path))


def test_another_way_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="per 'sentence' or 'batch'; got 'word'"):
        Draw(ks=[1], per="word")
