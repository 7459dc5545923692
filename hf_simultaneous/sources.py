"""The source as one model sees it: encoded as it arrives, its cross-attention keys and values kept for every lane.

Knows the two encoders, not what is decoded from them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache

from .actions import State
from .caches import Store
from .masks import for_attention
from .modeling_simultaneous import chunks


@dataclass(eq=False)
class Row:
    """One sentence: where it stands, and the source tokens there are to encode, read by the policy or not."""

    state: State
    source: list[int] = field(default_factory=list)
    complete: bool = False
    """True once `source` holds all there will ever be."""


class CausalSource:
    """The source under a causal encoder: encoded once, token by token as it comes or all at once if it is there."""

    def __init__(self, model: Any):
        self._model, self._device, self._dtype = model, model.device, model.dtype
        self.store = Store(model.config, model)
        self._encoded: dict[Row, int] = {}
        self._caches: dict[Row, DynamicCache] = {}
        self._expected: dict[Row, None] = {}

    def expect(self, rows: Sequence[Row]) -> None:
        self._expected.update(dict.fromkeys(rows))

    def slot(self, row: Row, visible: int) -> int:
        return self.store.slot(row)

    def encode(self, wanted: Iterable[tuple[Row, list[int]]]) -> None:
        behind = [row for row, visible in wanted if self._encoded.get(row, 0) < max(visible)]
        whole = [row for row in behind if row.complete and row not in self._encoded]
        if whole:
            self._encode_whole(list(dict.fromkeys([*whole, *self._expected])))
            self._expected.clear()
        for row in behind:
            if row not in self._encoded or self._encoded[row] < len(row.source):
                self._extend(row)

    def _encode_whole(self, rows: list[Row]) -> None:
        """Sources that are complete need no encoder cache and share one padded call."""
        states = _encode_padded(self._model, [row.source for row in rows])
        self.store.project(states, [self.slot(row, 0) for row in rows], 0)
        self._encoded.update({row: len(row.source) for row in rows})

    def _extend(self, row: Row) -> None:
        done, total = self._encoded.get(row, 0), len(row.source)
        encoder = self._model.model.encoder
        device = self._device
        positions = torch.arange(done, total, device=device)[:, None]
        mask = (torch.arange(total, device=device) <= positions)[None, None]
        states = encoder(
            input_ids=torch.tensor([row.source[done:]], device=device),
            attention_mask=for_attention(mask, self._model.config, self._dtype),
            position_ids=positions.T,
            past_key_values=self._caches.setdefault(row, DynamicCache()),
        ).last_hidden_state
        self.store.project(states, [self.slot(row, 0)], done)
        self._encoded[row] = total

    def forget(self, row: Row) -> None:
        self._expected.pop(row, None)
        self._caches.pop(row, None)
        if self._encoded.pop(row, None) is not None:
            self.store.free(row)

    @property
    def nbytes(self) -> int:
        layers = [layer for cache in self._caches.values() for layer in cache.layers]
        return self.store.nbytes + sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)


class PrefixSource:
    """The source under a bidirectional encoder: every prefix that a position looks at is encoded once."""

    def __init__(self, model: Any):
        self._model = model
        self.store = Store(model.config, model)
        self._prefixes: dict[Row, set[int]] = {}

    def expect(self, rows: Sequence[Row]) -> None:
        """Nothing to gain: which prefixes will be looked at shows only as it happens."""

    def slot(self, row: Row, visible: int) -> int:
        return self.store.slot((row, visible))

    def encode(self, wanted: Iterable[tuple[Row, list[int]]]) -> None:
        missing = [
            (row, size)
            for row, visible in wanted
            for size in sorted(set(visible) - self._prefixes.setdefault(row, set()))
        ]
        if not missing:
            return
        missing.sort(key=lambda pair: pair[1])
        limit = self._model.model.encoder.prefix_positions_per_call
        for chunk in chunks([size for _, size in missing], limit):
            states = _encode_padded(self._model, [row.source[:size] for row, size in missing[chunk]])
            self.store.project(states, [self.slot(row, size) for row, size in missing[chunk]], 0)
        for row, size in missing:
            self._prefixes[row].add(size)

    def forget(self, row: Row) -> None:
        for size in self._prefixes.pop(row, ()):
            self.store.free((row, size))

    @property
    def nbytes(self) -> int:
        return self.store.nbytes


def _encode_padded(model: Any, sources: list[list[int]]) -> torch.Tensor:
    """The encoder's states of several whole token sequences, padded on the right."""
    longest = max(map(len, sources))
    padded = torch.full((len(sources), longest), model.config.pad_token_id)
    mask = torch.zeros_like(padded)
    for index, source in enumerate(sources):
        padded[index, : len(source)] = torch.tensor(source)
        mask[index, : len(source)] = 1
    return model.model.encoder(
        input_ids=padded.to(model.device), attention_mask=mask.to(model.device), wait_k="full"
    ).last_hidden_state
