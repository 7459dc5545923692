"""The source as one model sees it: encoded as it arrives, its cross-attention keys and values kept
for every lane.

Knows the two encoders, not what is decoded from them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from .actions import State
from .adapters import Adapter
from .caches import Store
from .encoder_decoder import chunks
from .framing import Framing


@dataclass(eq=False)
class Row:
    """One sentence: where it stands, and the source tokens there are to encode, read by the policy
    or not."""

    state: State
    source: list[int] = field(default_factory=list)
    source_complete: bool = False
    """True once `source` holds all there will ever be."""
    origin: "Row | None" = None
    """Whose source this is, for the beams of one sentence: it is encoded once for all of them."""


class Prefix(NamedTuple):
    """What a position sees of the source: its first `size` tokens, and an end mark behind them if
    `closed`."""

    size: int
    closed: bool = False


class _Source:
    """What both encoders share: the tokens that are encoded for a prefix, framed."""

    def __init__(self, model: Adapter, framing: Framing, store: Store | None = None):
        self._model = model
        self._framing = framing
        self.store = store or model.store()

    def places(self, row: Row, prefix: Prefix) -> int:
        """How many places of the encoder a prefix takes."""
        ends = prefix.closed or row.source[prefix.size - 1] == self._model.end
        around = len(self._framing.before) + len(self._framing.after) * ends
        return around + prefix.size + prefix.closed

    def _tokens(self, row: Row, prefix: Prefix) -> list[int]:
        tokens = row.source[: prefix.size]
        if prefix.closed:
            tokens.append(self._model.end)
        return self._framing.put_on(tokens, ended=tokens[-1] == self._model.end)

    def _all_tokens(self, row: Row) -> list[int]:
        return self._tokens(row, Prefix(len(row.source)))

    def _encode(self, sources: Sequence[Sequence[int]], slots: Sequence[int]) -> None:
        """Encode whole token sequences in one call, and keep what the decoder will look at."""
        states = self._model.encode(sources)  # (sources, longest, width)
        rows = [row for row, source in enumerate(sources) for _ in source]
        places = [place for source in sources for place in range(len(source))]
        real = states[rows, places] if len(sources) > 1 else states[0]  # (positions, width)
        self.store.write([slots[row] for row in rows], places, self._model.projected(real))


class _Added(NamedTuple):
    """One more token of a source, and the place the encoder gives it."""

    row: Row
    place: int
    token: int


class CausalSource(_Source):
    """The source under a causal encoder: encoded once, token by token as it comes or all at once if
    it is there."""

    def __init__(self, model: Adapter, framing: Framing):
        super().__init__(model, framing)
        self._past = model.past()
        # An end mark is not followed by more source: what it closes is encoded apart.
        self._closed = PrefixSource(model, framing, self.store)
        self._encoded: dict[Row, int] = {}
        self._expected: dict[Row, None] = {}

    def announce(self, rows: Sequence[Row]) -> None:
        self._expected.update(dict.fromkeys(rows))

    def slot(self, row: Row, prefix: Prefix) -> int:
        return self._closed.slot(row, prefix) if prefix.closed else self.store.slot(row)

    def encode(self, wanted: Sequence[tuple[Row, Iterable[Prefix]]]) -> None:
        """Have the keys and values of these prefixes ready."""
        seen = [(row, prefix) for row, prefixes in wanted for prefix in prefixes]
        closed = [(row, [prefix]) for row, prefix in seen if prefix.closed]
        if closed:
            self._closed.encode(closed)
        behind = dict.fromkeys(
            row
            for row, prefix in seen
            if not prefix.closed and prefix.size > self._encoded.get(row, 0)
        )
        whole = [row for row in behind if row.source_complete and row not in self._encoded]
        if whole:
            self._encode_whole(list(dict.fromkeys([*whole, *self._expected])))
            self._expected.clear()
        grown = [row for row in behind if self._encoded.get(row, 0) < len(row.source)]
        for group in self._groups(grown):
            self._extend(group)

    def _encode_whole(self, rows: list[Row]) -> None:
        """Sources that are complete need no encoder cache and share one padded call."""
        self._encode(
            [self._all_tokens(row) for row in rows], [self.store.slot(row) for row in rows]
        )
        self._encoded.update({row: len(row.source) for row in rows})

    def _groups(self, rows: list[Row]) -> Iterator[list["_Added"]]:
        """What is to be encoded in one call: every new token of some rows, in order. What a call
        sees of several rows is a copy for each token, so that is bounded; one row needs none."""
        group: list[_Added] = []
        longest = 0
        for row in rows:
            tokens = self._all_tokens(row)
            done = self.places(row, Prefix(self._encoded[row])) if row in self._encoded else 0
            added = [_Added(row, place, tokens[place]) for place in range(done, len(tokens))]
            longest = max(longest, len(tokens))
            if group and (len(group) + len(added)) * longest > self._model.positions_per_call:
                yield group
                group, longest = [], len(tokens)
            group += added
        if group:
            yield group

    def _extend(self, added: list["_Added"]) -> None:
        """Every new token is a query, as in the decoder."""
        rows, places, tokens = zip(*added, strict=True)
        slots = [self._past.slot(row) for row in rows]
        past = self._past.window(slots, places, [place + 1 for place in places])
        states = self._model.extend(
            torch.tensor(tokens, device=self._model.device)[:, None],
            torch.tensor(places, device=self._model.device)[:, None],
            past,
        )
        slots = [self.store.slot(row) for row in rows]
        self.store.write(slots, places, self._model.projected(states))
        self._encoded.update({row: len(row.source) for row in rows})

    def release(self, row: Row) -> None:
        self._expected.pop(row, None)
        self._past.release(row)
        self._closed.release(row)
        if self._encoded.pop(row, None) is not None:
            self.store.release(row)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + self._past.nbytes


class PrefixSource(_Source):
    """The source under a bidirectional encoder: every prefix that a position looks at is encoded
    once."""

    def __init__(self, model: Adapter, framing: Framing, store: Store | None = None):
        super().__init__(model, framing, store)
        self._prefixes: dict[Row, set[Prefix]] = {}

    def announce(self, rows: Sequence[Row]) -> None:
        """Nothing to gain: which prefixes will be looked at shows only as it happens."""

    def slot(self, row: Row, prefix: Prefix) -> int:
        return self.store.slot((row, prefix))

    def encode(self, wanted: Sequence[tuple[Row, Iterable[Prefix]]]) -> None:
        """Have the keys and values of these prefixes ready."""
        new = dict.fromkeys(
            (row, prefix)
            for row, prefixes in wanted
            for prefix in prefixes
            if prefix not in self._prefixes.setdefault(row, set())
        )
        missing = sorted(new, key=lambda pair: self.places(*pair))  # short prefixes share a call
        if not missing:
            return
        limit = self._model.positions_per_call
        for chunk in chunks([self.places(*pair) for pair in missing], limit):
            sources = [self._tokens(*pair) for pair in missing[chunk]]
            self._encode(sources, [self.slot(*pair) for pair in missing[chunk]])
        for row, prefix in missing:
            self._prefixes[row].add(prefix)

    def release(self, row: Row) -> None:
        for prefix in self._prefixes.pop(row, ()):
            self.store.release((row, prefix))

    @property
    def nbytes(self) -> int:
        return self.store.nbytes
