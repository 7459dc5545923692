"""Keys and values of many sequences that grow each at its own pace, in the shape transformers'
attention asks for.

Knows slots and places; not what the sequences are.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from transformers import EncoderDecoderCache

from .masks import up_to


class Store:
    """Keys and values of many sequences, each in a slot of its own, for every layer."""

    def __init__(
        self, layers: int, heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
    ):
        self._slots: dict[Any, int] = {}
        self._free: list[int] = []
        # (layer, slot, place, keys and values, head, dim): what one call appends lies together, and
        # a head is a stride away.
        self.data = torch.zeros(layers, 0, 0, 2, heads, head_dim, dtype=dtype, device=device)

    def slot(self, key: Any) -> int:
        """The slot of this sequence; a new one if it has none yet."""
        if key not in self._slots:
            self._slots[key] = self._free.pop() if self._free else len(self._slots)
        return self._slots[key]

    def release(self, key: Any) -> None:
        if key in self._slots:
            self._free.append(self._slots.pop(key))

    def fork(self, keys: Sequence[Any], heirs: Sequence[tuple[Any, Any]], length: int) -> None:
        """Each heir goes on from the sequence it is paired with: the first takes its slot, others
        a copy of its first `length` places. A sequence without heirs gives its slot back."""
        old = {key: self._slots.pop(key) for key in keys}
        left = dict(old)
        copies = []
        for parent, child in heirs:
            if parent in left:
                self._slots[child] = left.pop(parent)
            else:
                copies.append((old[parent], child))
        self._free += left.values()
        copied = [(slot, self.slot(child)) for slot, child in copies]
        self.reserve(length)
        for source, target in copied:  # one by one: indexing with tensors goes number by number
            self.data[:, target, :length] = self.data[:, source, :length]

    def reserve(self, length: int) -> None:
        """Make room for every slot in use at this length, doubling so that growing stays cheap."""
        have_slots, have_length = self.data.shape[1:3]
        slots = len(self._slots) + len(self._free)
        if slots <= have_slots and length <= have_length:
            return
        new = self.data.new_zeros(
            self.data.shape[0],
            have_slots if slots <= have_slots else max(slots, 2 * have_slots),
            have_length if length <= have_length else max(length, 2 * have_length, 16),
            *self.data.shape[3:],
        )
        new[:, :have_slots, :have_length] = self.data
        self.data = new

    def window(
        self, slots: Sequence[int], positions: Sequence[int] | None, counts: Sequence[int]
    ) -> "Window":
        """The first places of these slots, as many as each query counts; what a call writes goes
        to `positions`."""
        self.reserve(max(counts))
        return Window(self, slots, positions, counts)

    def write(self, slots: Sequence[int], places: Sequence[int], projected: torch.Tensor) -> None:
        """Keys and values of every layer, (positions, layers, 2, heads * dim), each position to its
        slot and place."""
        self.reserve(max(places) + 1)
        window = Window(self, slots, places, [0])
        shape = (*projected.shape[:3], *self.data.shape[4:])
        window.write(self.data, projected.view(shape).transpose(0, 1))

    @property
    def nbytes(self) -> int:
        return self.data.nbytes


class KeysValues(NamedTuple):
    keys: torch.Tensor
    values: torch.Tensor


class Window:
    """What one call sees of a store, in the shape of a transformers cache: `update` writes,
    `layers[i]` only reads."""

    def __init__(
        self,
        store: Store,
        slots: Sequence[int],
        positions: Sequence[int] | None,
        counts: Sequence[int],
    ):
        self._store = store
        self._counts = counts
        self.width = max(counts)
        self._count = len(slots)
        self.one = slots[0] if slots.count(slots[0]) == len(slots) else None
        """The slot that all queries look at, if it is one."""
        device = store.data.device
        self._rows: Any = torch.tensor(slots, device=device) if self.one is None else self.one
        if positions is not None:
            first, last = positions[0], positions[-1]
            if self.one is not None and last - first == len(positions) - 1:
                self._places: Any = slice(first, last + 1)
            else:
                self._places = torch.tensor(positions, device=device)

    @property
    def layers(self) -> "Window":
        return self

    @property
    def mask(self) -> torch.Tensor:
        """True where a query looks: (queries, 1, 1, width)."""
        counts = torch.tensor(self._counts, device=self._store.data.device)[:, None]
        return up_to(counts, self.width)

    def added_mask(self) -> torch.Tensor | None:
        """The same to be added to scores; (1, queries, width) where all look at one sequence. None
        where every query sees all there is."""
        if min(self._counts) == self.width:
            return None
        kind = self._store.data.dtype
        seen = self.mask if self.one is None else self.mask[None, :, 0, 0]
        return torch.zeros(seen.shape, dtype=kind, device=seen.device).masked_fill_(
            ~seen, torch.finfo(kind).min
        )

    @cached_property
    def sequences(self) -> list[KeysValues]:
        """Each layer's part of the one sequence that all queries look at, (heads, width, dim) each;
        no copy."""
        stored = self._store.data[:, self.one, : self.width]  # (layers, width, 2, heads, dim)
        keys, values = stored.transpose(1, 3).unbind(2)
        return list(map(KeysValues, keys.unbind(), values.unbind()))

    @cached_property
    def _room(self) -> Sequence[torch.Tensor] | None:
        """Where each layer writes, (queries, 2 * heads * dim), if that is one piece of memory."""
        if not isinstance(self._places, slice):
            return None
        return self._store.data[:, self.one, self._places].flatten(2).unbind()

    def __getitem__(self, layer: int) -> KeysValues:
        """What the queries may attend to, (queries, heads, width, dim) each."""
        stored = self._store.data[layer, :, : self.width]  # (slots, width, 2, heads, dim)
        if self.one is None:
            rows = stored.index_select(0, self._rows)
        else:
            rows = stored[self.one].expand(self._count, *stored.shape[1:])
        keys, values = rows.transpose(1, 3).unbind(2)
        return KeysValues(keys, values)

    def append(self, layer: int, new: torch.Tensor) -> None:
        """Write keys and values, (queries, 2 * heads * dim)."""
        if self._room is not None:
            self._room[layer].copy_(new)
        else:
            shape = (-1, *self._store.data.shape[3:])
            self.write(self._store.data[layer], new.reshape(shape))

    def write(self, stored: torch.Tensor, new: torch.Tensor) -> None:
        """New keys and values, (..., queries, 2, heads, dim), into (..., slots, places, 2, heads,
        dim)."""
        stored[..., self._rows, self._places, :, :, :] = new

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int) -> KeysValues:
        """Write (queries, heads, 1, dim), then return what the queries may attend to."""
        self.write(self._store.data[layer], torch.stack((keys[:, :, 0], values[:, :, 0]), 1))
        return self[layer]


class Windows(EncoderDecoderCache):
    """Both windows of a call, as the one cache that stock attention asks for; the source needs no
    update."""

    def __init__(self, own: Window, source: Window):
        self.own = own
        self.source = source
        self.self_attention_cache, self.cross_attention_cache = own, source
        self.is_updated = _Always()

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """The position of a call, which T5 makes its bias of. A call of ours has many positions and
        brings their bias along. For a position as far away as this one T5's own bias is the same
        for all places, and so changes nothing in a softmax."""
        return 1 << 40


class _Always(dict[int, bool]):
    def get(self, key: int, default: Any = None) -> Any:
        return True
