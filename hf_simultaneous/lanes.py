"""P_k, fast: what every model says comes next, from decoder states that are computed once and never revised.

Knows models and tensors, not policies.

Under wait-k the decoder's state at position t depends on y_<t and x_<=g_k(t) alone. The target is never revised and
the source only grows, so such a state stays right whatever happens next. Each model keeps one append-only *lane* of
states per sentence and k, and a prediction runs only the positions its lane has not seen. The source's cross-attention
keys and values are kept once per model and shared by its lanes.

Every position to be run is one *query*, with its own lane, position and view of the source. That one form serves a
single live stream, a batch whose rows stand at different steps and lags, and both encoders.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache, EncoderDecoderCache

from .actions import State
from .masks import for_attention
from .packing import packed
from .schedule import reach


HISTORIES = ("forced", "path")


@dataclass(eq=False)
class Row:
    """One sentence: where it stands, and the source tokens there are to encode, read by the policy or not."""

    state: State
    source: list[int] = field(default_factory=list)
    complete: bool = False
    """True once `source` holds all there will ever be."""


class Question(NamedTuple):
    """What `predict` was asked: a k, or a context every position may see; and the models to average."""

    k: int | None
    context: int | None
    models: tuple[int | None, ...]


class Lanes:
    """All the models of a set, and all they remember about the sentences being decoded."""

    def __init__(self, models: Mapping[int | None, Any], catchup: int | None = None, history: str = "forced"):
        if history not in HISTORIES:
            raise ValueError(f"history must be one of {', '.join(HISTORIES)}; got {history!r}")
        self._models = {key: _ModelLanes(packed(model), catchup, history) for key, model in models.items()}

    def expect(self, rows: Sequence[Row]) -> None:
        """Announce complete sources that will be decoded together: each model encodes all of them in one call."""
        for model in self._models.values():
            model.expect(rows)

    @torch.inference_mode()
    def predict(self, asked: Sequence[tuple[Row, Question]]) -> torch.Tensor:
        """The mean distribution over the models of each question, (questions, vocabulary); at most one per row."""
        for row, question in asked:
            _check(row, question)
        mean: torch.Tensor | None = None
        for key in dict.fromkeys(key for _, question in asked for key in question.models):
            picked = [index for index, (_, question) in enumerate(asked) if key in question.models]
            share = self._models[key].predict([asked[index] for index in picked])
            if len(picked) == len(asked) and mean is None:
                mean = share
            else:
                mean = share.new_zeros(len(asked), share.shape[1]) if mean is None else mean
                mean.index_add_(0, torch.tensor(picked, device=share.device), share.to(mean.device))
        assert mean is not None
        sizes = [len(question.models) for _, question in asked]
        return mean if set(sizes) == {1} else mean / torch.tensor(sizes, device=mean.device)[:, None]

    def forget(self, row: Row) -> None:
        """Give back what a finished sentence held."""
        for model in self._models.values():
            model.forget(row)

    @property
    def nbytes(self) -> int:
        """Memory of all lanes and source states, in bytes."""
        return sum(model.nbytes for model in self._models.values())


def _check(row: Row, question: Question) -> None:
    read, state = len(row.state.source), row.state
    if read == 0:
        raise ValueError("a prediction needs at least one source token; read one first")
    if question.context is not None and not 1 <= question.context <= read:
        raise ValueError(f"context must be 1 to {read}, the source tokens read so far; got {question.context}")
    if question.k is not None and (question.k < 1 or (question.k > state.lag and not state.ended)):
        # While the source grows, g would be cut off at what happens to have been read, and the lane would be wrong.
        raise ValueError(f"k must be 1 to {state.lag}, the current lag, while the source is open; got {question.k}")


class _Query(NamedTuple):
    """One decoder position to run."""

    token: int
    position: int
    lane: int
    source: int
    visible: int


class _ModelLanes:
    """One model's share: its lanes, its source states, and the call that extends them."""

    def __init__(self, model: Any, catchup: int | None, history: str):
        self._model, self._catchup, self._path = model, catchup, history == "path"
        self._device, self._dtype = model.device, model.dtype  # asking the model for them walks all its parameters
        config = model.config
        self._start: int = config.decoder_start_token_id
        self._limit: int = config.max_position_embeddings
        self._lanes = _Store(config, model)
        self._source = (_CausalSource if config.encoder_attention == "causal" else _PrefixSource)(model)
        self._forced: dict[tuple[Row, Any], int] = {}

    def expect(self, rows: Sequence[Row]) -> None:
        self._source.expect(rows)

    def predict(self, asked: Sequence[tuple[Row, Question]]) -> torch.Tensor:
        """The distributions for these questions, in their order."""
        queries: list[_Query] = []
        last: list[int] = []
        views = [self._view(row, question) for row, question in asked]
        self._source.encode([(row, visible) for (row, _), (_, visible) in zip(asked, views, strict=True)])
        for (row, question), (first, visible) in zip(asked, views, strict=True):
            key = self._lane_key(row, question)
            lane, target = self._lanes.slot(key), row.state.target
            for position, seen in enumerate(visible, start=first):
                token = target[position - 1] if position else self._start
                queries.append(_Query(token, position, lane, self._source.slot(row, seen), seen))
            last.append(len(queries) - 1)
            self._forced[key] = len(target) + 1
        states = self._decode(queries)
        logits = self._model.lm_head(states if len(last) == len(queries) else states[last])
        # Half precision would round probabilities that thresholds are compared with.
        dtype = torch.promote_types(logits.dtype, torch.float32)
        return (logits + self._model.final_logits_bias).softmax(-1, dtype=dtype)

    def _lane_key(self, row: Row, question: Question) -> tuple[Row, Any]:
        if question.context is not None:
            return row, ("context", question.context)
        return row, "path" if self._path else question.k

    def _view(self, row: Row, question: Question) -> tuple[int, list[int]]:
        """The first position this lane has not run, and how much source each position from there on may see."""
        steps, read = len(row.state.target) + 1, len(row.state.source)
        if steps > self._limit:
            raise ValueError(f"the target has reached the model's {self._limit} positions; end the sentence before")
        # The last position is run again when it is asked for again: on the actual path it may see more by then.
        first = min(self._forced.get(self._lane_key(row, question), 0), steps - 1)
        if question.context is not None:
            return first, [question.context] * (steps - first)
        if self._path:
            return first, [read] * (steps - first)
        assert question.k is not None
        return first, [min(read, reach(step, question.k, self._catchup)) for step in range(first + 1, steps + 1)]

    def _decode(self, queries: list[_Query]) -> torch.Tensor:
        """Run the queries through the decoder as a batch of one position each; (queries, width)."""
        config, device, dtype = self._model.config, self._device, self._dtype
        tokens, positions, lanes, sources, visible = zip(*queries, strict=True)
        own = self._lanes.window(lanes, positions, max(positions) + 1)
        cross = self._source.store.window(sources, None, max(visible))
        position_ids = torch.tensor(positions, device=device)[:, None]
        counts = torch.tensor(visible, device=device)[:, None]
        outputs = self._model.model.decoder(
            input_ids=torch.tensor(tokens, device=device)[:, None],
            attention_mask=for_attention(_up_to(position_ids + 1, own.width), config, dtype),
            encoder_hidden_states=_ALREADY_PROJECTED,
            encoder_attention_mask=for_attention(_up_to(counts, cross.width), config, dtype),
            past_key_values=_Windows(own, cross),
            position_ids=position_ids,
        )
        return outputs.last_hidden_state[:, 0]

    def forget(self, row: Row) -> None:
        self._source.forget(row)
        for key in [key for key in self._forced if key[0] is row]:
            del self._forced[key]
            self._lanes.free(key)

    @property
    def nbytes(self) -> int:
        return self._lanes.nbytes + self._source.nbytes


# Marian asks for the encoder's states to know that there is a source at all; our keys and values are ready.
_ALREADY_PROJECTED = torch.empty(0)


def _up_to(counts: torch.Tensor, width: int) -> torch.Tensor:
    """True on the first `counts` of `width` places: (N, 1) -> (N, 1, 1, width)."""
    return (torch.arange(width, device=counts.device) < counts)[:, None, None]


class _CausalSource:
    """The source under a causal encoder: encoded once, token by token as it comes or all at once if it is there."""

    def __init__(self, model: Any):
        self._model, self._device, self._dtype = model, model.device, model.dtype
        self.store = _Store(model.config, model)
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
        states = encode_padded(self._model, [row.source for row in rows])
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


class _PrefixSource:
    """The source under a bidirectional encoder: every prefix that a position looks at is encoded once."""

    def __init__(self, model: Any):
        self._model = model
        self.store = _Store(model.config, model)
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
        states = encode_padded(self._model, [row.source[:size] for row, size in missing])
        self.store.project(states, [self.slot(row, size) for row, size in missing], 0)
        for row, size in missing:
            self._prefixes[row].add(size)

    def forget(self, row: Row) -> None:
        for size in self._prefixes.pop(row, ()):
            self.store.free((row, size))

    @property
    def nbytes(self) -> int:
        return self.store.nbytes


def encode_padded(model: Any, sources: list[list[int]]) -> torch.Tensor:
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


class _Store:
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

    def window(self, slots: Sequence[int], positions: Sequence[int] | None, width: int) -> "_Window":
        """The first `width` places of these slots; what a call writes goes to `positions`."""
        self.reserve(width)
        return _Window(self, slots, positions, width)

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


class _KeysValues(NamedTuple):
    keys: torch.Tensor
    values: torch.Tensor


class _Window:
    """What one call sees of a store, in the shape of a transformers cache: `update` writes, `layers[i]` only reads."""

    def __init__(self, store: _Store, slots: Sequence[int], positions: Sequence[int] | None, width: int):
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
    def layers(self) -> "_Window":
        return self

    def __getitem__(self, layer: int) -> _KeysValues:
        keys, values = self._store.data[layer]
        return _KeysValues(self._read(keys), self._read(values))

    def _read(self, stored: torch.Tensor) -> torch.Tensor:
        if self._one is not None:  # all queries look at one sequence: no copy
            rows = stored[self._one : self._one + 1, : self.width].expand(self._count, -1, -1, -1)
        else:
            rows = stored[:, : self.width].index_select(0, self._slots)
        return rows.transpose(1, 2)

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int) -> _KeysValues:
        """Write (queries, heads, 1, dim), then return what the queries may attend to."""
        rows = self._one if self._one is not None else self._slots
        for stored, new in zip(self._store.data[layer], (keys, values), strict=True):
            stored[rows, self._places] = new[:, :, 0]
        return self[layer]


class _Windows(EncoderDecoderCache):
    """Both windows of a call, as the one cache Marian's attention asks for; the source needs no update."""

    def __init__(self, own: _Window, cross: _Window):
        self.self_attention_cache, self.cross_attention_cache = own, cross
        self.is_updated = _Always()


class _Always(dict[int, bool]):
    def get(self, key: int, default: Any = None) -> Any:
        return True
