"""Keys and values of many sequences that grow each at its own pace, in the shape transformers' attention asks for.

Knows slots and places; not what the sequences are.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from transformers import EncoderDecoderCache


class Store:
    """Keys and values of many sequences, each in a slot of its own, for every decoder layer."""

    def __init__(self, config: Any, model: Any):
        self._model = model
        self._layers: int = config.decoder_layers
        self._heads: int = config.decoder_attention_heads
        self._head_dim: int = config.d_model // config.decoder_attention_heads
        self._slots: dict[Any, int] = {}
        self._free: list[int] = []
        self.data: list[tuple[torch.Tensor, torch.Tensor]] = [(self._new(0, 0), self._new(0, 0))] * self._layers

    def _new(self, slots: int, length: int) -> torch.Tensor:
        # (slot, place, head, dim): what one call appends lies together, and a head is a stride away.
        return torch.zeros(
            slots, length, self._heads, self._head_dim, dtype=self._model.dtype, device=self._model.device
        )

    def slot(self, key: Any) -> int:
        """The slot of this sequence; a new one if it has none yet."""
        if key not in self._slots:
            self._slots[key] = self._free.pop() if self._free else len(self._slots)
        return self._slots[key]

    def free(self, key: Any) -> None:
        self._free.append(self._slots.pop(key))

    def reserve(self, length: int) -> None:
        """Make room for every slot in use at this length, doubling so that growing stays cheap."""
        have_slots, have_length = self.data[0][0].shape[:2]
        slots = len(self._slots) + len(self._free)
        if slots <= have_slots and length <= have_length:
            return
        shape = (
            have_slots if slots <= have_slots else max(slots, 2 * have_slots),
            have_length if length <= have_length else max(length, 2 * have_length, 16),
        )
        self.data = [(self._grown(keys, *shape), self._grown(values, *shape)) for keys, values in self.data]

    def _grown(self, old: torch.Tensor, slots: int, length: int) -> torch.Tensor:
        new = self._new(slots, length)
        new[: old.shape[0], : old.shape[1]] = old
        return new

    def window(self, slots: Sequence[int], positions: Sequence[int] | None, width: int) -> "Window":
        """The first `width` places of these slots; what a call writes goes to `positions`."""
        self.reserve(width)
        return Window(self, slots, positions, width)

    def project(self, states: torch.Tensor, slots: list[int], start: int) -> None:
        """Write the cross-attention keys and values of encoder states (rows, places, width) from place `start`."""
        self.reserve(start + states.shape[1])
        shape = (*states.shape[:2], self._heads, self._head_dim)
        rows = slice(slots[0], slots[0] + 1) if len(slots) == 1 else torch.tensor(slots, device=states.device)
        for layer, (keys, values) in zip(self._model.model.decoder.layers, self.data, strict=True):
            attention = layer.encoder_attn
            keys[rows, start : start + states.shape[1]] = attention.k_proj(states).view(shape)
            values[rows, start : start + states.shape[1]] = attention.v_proj(states).view(shape)

    @property
    def nbytes(self) -> int:
        return sum(keys.nbytes + values.nbytes for keys, values in self.data)


class KeysValues(NamedTuple):
    keys: torch.Tensor
    values: torch.Tensor


class Window:
    """What one call sees of a store, in the shape of a transformers cache: `update` writes, `layers[i]` only reads."""

    def __init__(self, store: Store, slots: Sequence[int], positions: Sequence[int] | None, width: int):
        self._store, self.width = store, width
        device = store.data[0][0].device
        first = slots[0]
        self._one = first if all(slot == first for slot in slots) else None
        self._count = len(slots)
        if self._one is None:
            self._slots = torch.tensor(slots, device=device)
        if positions is not None:
            consecutive = self._one is not None and positions[-1] - positions[0] == len(positions) - 1
            self._places: Any = slice(positions[0], positions[-1] + 1) if consecutive else torch.tensor(positions)

    @property
    def layers(self) -> "Window":
        return self

    def __getitem__(self, layer: int) -> KeysValues:
        keys, values = self._store.data[layer]
        return KeysValues(self._read(keys), self._read(values))

    def _read(self, stored: torch.Tensor) -> torch.Tensor:
        if self._one is not None:  # all queries look at one sequence: no copy
            rows = stored[self._one : self._one + 1, : self.width].expand(self._count, -1, -1, -1)
        else:
            rows = stored[:, : self.width].index_select(0, self._slots)
        return rows.transpose(1, 2)

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int) -> KeysValues:
        """Write (queries, heads, 1, dim), then return what the queries may attend to."""
        rows = self._one if self._one is not None else self._slots
        for stored, new in zip(self._store.data[layer], (keys, values), strict=True):
            stored[rows, self._places] = new[:, :, 0]
        return self[layer]


class Windows(EncoderDecoderCache):
    """Both windows of a call, as the one cache Marian's attention asks for; the source needs no update."""

    def __init__(self, own: Window, cross: Window):
        self.self_attention_cache, self.cross_attention_cache = own, cross
        self.is_updated = _Always()


class _Always(dict[int, bool]):
    def get(self, key: int, default: Any = None) -> Any:
        return True
