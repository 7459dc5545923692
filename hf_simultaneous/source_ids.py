"""Sources as `generate` is given them, to lists of tokens: without padding, without a frame.

Knows ids and masks; no model, and nothing of what is done with them."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .framing import Framing


def source_lists(
    input_ids: torch.Tensor | Sequence[Sequence[int]],
    attention_mask: torch.Tensor | None,
    config: Any,
    framing: Framing,
    limit: int,
) -> list[list[int]]:
    """The real tokens of each source, padding on the right or none."""
    ids = [_plain(row) for row in _plain(input_ids)]
    if not ids or not all(isinstance(row, Sequence) and not isinstance(row, str) for row in ids):
        raise ValueError(f"input_ids has two dimensions, sentences and tokens; got {ids!r}")
    kept = [framing.taken_off(row) for row in _unpadded(ids, attention_mask, config)]
    for index, row in enumerate(kept):
        if not 1 <= len(row) <= limit:
            raise ValueError(
                f"sources must have 1 to {limit} tokens; sentence {index} has {len(row)}"
            )
    _warn_of_open_ends(kept, config.eos_token_id)
    return kept


def undecided_places(
    undecided: Sequence[Iterable[int]] | None, sources: Sequence[Sequence[int]]
) -> list[list[int]]:
    """For each source after how many of its tokens, a frame not counted, the next is read at
    once."""
    if undecided is None:
        return [[] for _ in sources]
    places = [_plain(row) for row in _plain(undecided)]
    if len(places) != len(sources) or not all(
        isinstance(row, Iterable) and all(isinstance(place, int) and place > 0 for place in row)
        for row in places
    ):
        raise ValueError(
            f"undecided has a list of numbers of tokens, 1 or more, for each of {len(sources)} "
            f"sources; got {undecided!r}"
        )
    return [list(row) for row in places]


def _plain(ids: Any) -> Any:
    """Out of a tensor or an array."""
    return ids.tolist() if hasattr(ids, "tolist") else ids


def _unpadded(ids: list[Any], attention_mask: torch.Tensor | None, config: Any) -> list[list[int]]:
    if attention_mask is None:
        pad = config.pad_token_id if config.pad_token_id != config.eos_token_id else None
        return [[token for token in row if token != pad] for row in ids]
    mask = torch.as_tensor(attention_mask).long().tolist()
    if [len(row) for row in ids] != [len(keep) for keep in mask]:
        raise ValueError(f"attention_mask must have the shape of input_ids; got {mask} for {ids}")
    if any(0 in keep[: sum(keep)] for keep in mask):
        raise ValueError("pad sources on the right: attention_mask has a 0 before a 1")
    return [list(row[: sum(keep)]) for row, keep in zip(ids, mask, strict=True)]


def _warn_of_open_ends(sources: list[list[int]], eos: int | Sequence[int] | None) -> None:
    """A source that does not end with `</s>` is translated, but not as the models learnt to."""
    ends = {eos} if isinstance(eos, int) else {*(eos or ())}
    without = [index for index, source in enumerate(sources) if source[-1] not in ends]
    if ends and without:
        warnings.warn(
            f"{len(without)} of {len(sources)} sources in input_ids do not end with </s> "
            f"({min(ends)}), first sentence {without[0]}; the models expect it and translate worse "
            "without. Take tokenizer(text).input_ids, which adds it, or append it",
            stacklevel=4,
        )
