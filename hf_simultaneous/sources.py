"""The source as one model sees it: encoded as it arrives, its cross-attention keys and values kept
for every lane.

Knows the two encoders, not what is decoded from them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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


class CausalEncoder:
    """What a causal encoder makes of sources, token by token as they come or all at once if they
    are there: once for all members that have this encoder."""

    def __init__(self, model: Adapter):
        self._model = model
        self._past = model.past()
        self._states: dict[Row, list[torch.Tensor]] = {}

    def states(self, row: Row, done: int) -> list[torch.Tensor]:
        """Of the places of a row from `done` on, (width,) each."""
        return self._states[row][done:]

    def encode(self, sources: Mapping[Row, list[int]]) -> None:
        """Have the states of these tokens ready; what was there before stands first."""
        new = [row for row in sources if row.source_complete and row not in self._states]
        if len(new) > 1:
            self._encode_whole({row: sources[row] for row in new})
        for group in self._groups(sources):
            self._extend(group)

    def _encode_whole(self, sources: Mapping[Row, list[int]]) -> None:
        """Sources that are complete need no encoder cache: those of like length share a padded
        call."""
        rows = sorted(sources, key=lambda row: len(sources[row]))
        lengths = [len(sources[row]) for row in rows]
        for chunk in chunks(lengths, self._model.positions_per_call):
            padded = self._model.encode([sources[row] for row in rows[chunk]])
            for row, states in zip(rows[chunk], padded, strict=True):
                self._states[row] = [*states[: len(sources[row])]]

    def _groups(self, sources: Mapping[Row, list[int]]) -> Iterator[list["_Added"]]:
        """What is to be encoded in one call: every new token of some rows, in order. What a call
        sees of several rows is a copy for each token, so that is bounded; one row needs none."""
        group: list[_Added] = []
        longest = 0
        for row, tokens in sources.items():
            done = len(self._states.setdefault(row, []))
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
        states = self._model.extend(
            torch.tensor(tokens, device=self._model.device)[:, None],
            torch.tensor(places, device=self._model.device)[:, None],
            self._past.window(slots, places, [place + 1 for place in places]),
        )
        for row, state in zip(rows, states, strict=True):
            self._states[row].append(state)

    def release(self, row: Row) -> None:
        self._states.pop(row, None)
        self._past.release(row)

    @property
    def nbytes(self) -> int:
        kept = sum(len(states) * states[0].nbytes for states in self._states.values() if states)
        return self._past.nbytes + kept


class CausalSource(_Source):
    """The source under a causal encoder: encoded once, and its keys and values made of that."""

    def __init__(self, model: Adapter, framing: Framing, encoder: CausalEncoder | None = None):
        super().__init__(model, framing)
        self._encoder = encoder or CausalEncoder(model)
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
            if not prefix.closed and self.places(row, prefix) > self._encoded.get(row, 0)
        )
        if any(row in self._expected for row in behind):
            behind.update(self._expected)
            self._expected.clear()
        if behind:
            self._catch_up({row: self._all_tokens(row) for row in behind})

    def _catch_up(self, sources: Mapping[Row, list[int]]) -> None:
        self._encoder.encode(sources)
        new = {row: range(self._encoded.get(row, 0), len(sources[row])) for row in sources}
        states = [one for row in new for one in self._encoder.states(row, new[row].start)]
        self.store.write(
            [self.store.slot(row) for row in new for _ in new[row]],
            [place for places in new.values() for place in places],
            self._model.projected(torch.stack(states)),
        )
        self._encoded.update({row: places.stop for row, places in new.items()})

    def release(self, row: Row) -> None:
        self._expected.pop(row, None)
        self._encoder.release(row)
        self._closed.release(row)
        if self._encoded.pop(row, None) is not None:
            self.store.release(row)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes


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
