"""P_k, fast: what every model says comes next, from decoder states that are computed once and never
revised.

Knows models and tensors, not policies.

Under wait-k the decoder's state at position t depends on y_<t and x_<=g_k(t) alone. The target is
never revised and the source only grows, so such a state stays right whatever happens next. Each
model keeps one append-only *lane* of states per sentence and k, and a prediction runs only the
positions its lane has not seen. The source's cross-attention keys and values are kept once per
model and shared by its lanes.

Every position to be run is one *query*, with its own lane, position and view of the source. That
one form serves a single live stream, a batch whose rows stand at different steps and lags, and both
encoders.

A lane may run ahead of the target, on tokens that are only imagined. It knows which tokens it was
forced through: those that come true stay, the others are written over."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .actions import Models
from .adapters import Adapter
from .attention import cross_weights, listening
from .caches import Windows
from .families import adapter_for
from .framing import Framing
from .schedule import K, reach
from .sources import CausalEncoder, CausalSource, Prefix, PrefixSource, Row


HISTORIES = ("forced", "path")

Forced = tuple[list[int], int]
"""The tokens a lane was forced through, and how much source the last of them saw."""
NOTHING: Forced = ([], 0)


class Question(NamedTuple):
    """What `predict` was asked: a k, or a context every position may see; the models to average;
    and what else it was asked for (`actions.Predict`)."""

    k: int | None
    context: int | None
    models: Models
    close: bool = False
    after: tuple[int, ...] = ()
    attention: int | None = None


class Answers(NamedTuple):
    """What the models say to some questions, in their order."""

    distributions: torch.Tensor
    """(questions, vocabulary)"""
    attention: list[tuple[float, ...] | None]
    """Over the source tokens of the context, `</s>` left out; None where nobody asked."""


class Lanes:
    """All the models of a set, and all they remember about the sentences being decoded."""

    def __init__(
        self,
        models: Mapping[K, Any],
        catchup: int | None = None,
        history: str = "forced",
        framing: Framing | None = None,
    ):
        if history not in HISTORIES:
            raise ValueError(f"history must be one of {', '.join(HISTORIES)}; got {history!r}")
        self._all, self._options = models, (catchup, history, framing)
        self._models: dict[K, _ModelLanes] = {}
        self._encoders: dict[int, CausalEncoder] = {}
        self._expected: list[Row] = []

    def announce_sources(self, rows: Sequence[Row]) -> None:
        """Announce complete sources that will be decoded together: each model encodes all of them
        in one call."""
        self._expected += rows

    def _lanes_of(self, key: K) -> "_ModelLanes":
        """A model that is never asked costs nothing."""
        if key not in self._models:
            model = adapter_for(self._all[key])
            encoder = self._encoder(self._all[key], model) if model.causal else None
            self._models[key] = _ModelLanes(model, encoder, *self._options)
            self._models[key].announce(self._expected)
        return self._models[key]

    def _encoder(self, model: Any, adapter: Adapter) -> CausalEncoder:
        """Members that hold one encoder have one memory of what it said."""
        own = id(model.get_encoder())
        if own not in self._encoders:
            self._encoders[own] = CausalEncoder(adapter)
        return self._encoders[own]

    def predict(self, asked: Sequence[tuple[Row, Question]]) -> torch.Tensor:
        """The distributions of `answer`, (questions, vocabulary)."""
        return self.answer(asked).distributions

    @torch.inference_mode()
    def answer(self, asked: Sequence[tuple[Row, Question]]) -> Answers:
        """The mean over the models of each question; at most one question per lane."""
        for row, question in asked:
            _check(row, question)
        sizes = [len(question.models) for _, question in asked]
        mean: torch.Tensor | None = None
        looks: list[torch.Tensor | None] = [None] * len(asked)
        for key in dict.fromkeys(key for _, question in asked for key in question.models):
            picked = [index for index, (_, question) in enumerate(asked) if key in question.models]
            share, rows = self._lanes_of(key).answer([asked[index] for index in picked])
            for index, row_of in rows.items():
                one = row_of / sizes[picked[index]]
                known = looks[picked[index]]
                looks[picked[index]] = one if known is None else known + one.to(known)
            if len(picked) == len(asked):
                mean = share if mean is None else mean.add_(share.to(mean))
            else:
                mean = share.new_zeros(len(asked), share.shape[1]) if mean is None else mean
                mean.index_add_(0, torch.tensor(picked, device=share.device), share.to(mean))
        assert mean is not None
        if set(sizes) != {1}:
            mean.div_(torch.tensor(sizes, device=mean.device)[:, None])
        if mean[:, 0].isnan().any():  # a softmax is all of numbers, or none of it is
            raise ValueError(
                "the models give probabilities that are not numbers (NaN): their weights are "
                "damaged, or too large for this precision; try float32"
            )
        return Answers(mean, [None if one is None else tuple(one.tolist()) for one in looks])

    @torch.inference_mode()
    def fork(
        self, question: Question, rows: Sequence[Row], heirs: Sequence[tuple[Row, Row]]
    ) -> None:
        """Give the lanes that these rows were asked in to their heirs, pairs of a row and one that
        goes on from it; a row without heirs loses its own."""
        for key in question.models:
            self._models[key].fork(question, rows, heirs)

    def release(self, row: Row) -> None:
        """Give back what a finished sentence held."""
        self._expected = [other for other in self._expected if other is not row]
        for model in self._models.values():
            model.release(row)

    @property
    def nbytes(self) -> int:
        """Memory of all lanes and source states, in bytes."""
        lanes = sum(model.nbytes for model in self._models.values())
        return lanes + sum(encoder.nbytes for encoder in self._encoders.values())


def _check(row: Row, question: Question) -> None:
    read, state = len(row.state.source), row.state
    if read == 0:
        raise ValueError("a prediction needs at least one source token; read one first")
    if question.context is not None and not 1 <= question.context <= read:
        raise ValueError(
            f"context must be 1 to {read}, the source tokens read so far; got {question.context}"
        )
    if question.context is None and (question.close or question.after):
        raise ValueError(
            f"close and after need a context, not a k; got k={question.k}, close={question.close}, "
            f"after={question.after}"
        )
    if question.k is not None and (
        question.k < 1 or (question.k > state.lag and not state.source_ended)
    ):
        # While the source grows, g would be cut off at what happens to have been read, and the lane
        # would be wrong.
        raise ValueError(
            f"k must be 1 to {state.lag}, the current lag, while the source is open; got "
            f"{question.k}"
        )


class _Query(NamedTuple):
    """One decoder position to run."""

    token: int
    position: int
    lane: int
    source: int
    visible: int


class _View(NamedTuple):
    """The positions a question needs run: in which of its row's lanes, the first, the token at
    each, and what each position from the first on sees of the source."""

    lane: Any
    first: int
    said: list[int]
    prefixes: list[Prefix]


class _ModelLanes:
    """One model's share: its lanes, its source states, and the call that extends them."""

    def __init__(
        self,
        model: Adapter,
        encoder: CausalEncoder | None,
        catchup: int | None,
        history: str,
        framing: Framing | None,
    ):
        self._model = model
        self._catchup = catchup
        self._path = history == "path"
        self._lanes = model.store()
        self._framing = framing or Framing((model.start,))
        self._source = (
            CausalSource(model, self._framing, encoder)
            if model.causal
            else PrefixSource(model, self._framing)
        )
        self._forced: dict[Row, dict[Any, Forced]] = {}

    def announce(self, rows: Sequence[Row]) -> None:
        self._source.announce(rows)

    def answer(
        self, asked: Sequence[tuple[Row, Question]]
    ) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
        """The distributions for these questions, (questions, vocabulary); and by its place the
        attention of each that asked for it, (source tokens,)."""
        queries: list[_Query] = []
        last: list[int] = []
        views = [self._view(row, question) for row, question in asked]
        read = [row.origin or row for row, _ in asked]
        self._source.encode([(row, view.prefixes) for row, view in zip(read, views, strict=True)])
        layers = [None if q.attention is None else self._layer(q.attention) for _, q in asked]
        for (row, _), source, view in zip(asked, read, views, strict=True):
            lane = self._lanes.slot((row, view.lane))
            # Known from here on, so that its slot is given back whatever happens next.
            self._forced.setdefault(row, {}).setdefault(view.lane, NOTHING)
            for position, prefix in enumerate(view.prefixes, start=view.first):
                seen = self._source.slot(source, prefix), self._source.places(source, prefix)
                queries.append(_Query(view.said[position], position, lane, *seen))
            last.append(len(queries) - 1)
        wanted = {
            place: layer for place, layer in zip(last, layers, strict=True) if layer is not None
        }
        states, looks = self._decode(queries, wanted)
        for (row, _), view in zip(asked, views, strict=True):
            self._forced[row][view.lane] = view.said, view.prefixes[-1].size
        logits = self._model.logits(states if len(last) == len(queries) else states[last])
        # Half precision would round probabilities that thresholds are compared with.
        dtype = torch.promote_types(logits.dtype, torch.float32)
        distributions = logits.softmax(-1, dtype=dtype)
        return distributions, {
            index: looks[place][self._words(asked[index][0], views[index].prefixes[-1].size)]
            for index, place in enumerate(last)
            if place in looks
        }

    def _layer(self, layer: int) -> int:
        count = self._model.layers
        if not -count <= layer < count:
            raise ValueError(
                f"attention is asked for by decoder layer, 0 to {count - 1}, or -{count} to -1 "
                f"from the last; got {layer}"
            )
        return layer % count

    def _words(self, row: Row, size: int) -> slice:
        """Where the first `size` source tokens lie, less the end mark."""
        first = len(self._framing.before)
        return slice(first, first + size - (row.state.source[size - 1] == self._model.end))

    def _lane(self, row: Row, question: Question) -> Any:
        if question.context is not None:
            return self._prefix(row, question.context, question.close)
        return "path" if self._path else question.k

    def _prefix(self, row: Row, size: int, close: bool) -> Prefix:
        """What is closed already needs no other end mark."""
        prefix = Prefix(size, close and row.state.source[size - 1] != self._model.end)
        if self._source.places(row.origin or row, prefix) > self._model.limit:
            raise ValueError(
                f"the source has reached the model's {self._model.limit} positions, and there is "
                f"none left for an end mark; end the sentence before, or leave out close"
            )
        return prefix

    def _view(self, row: Row, question: Question) -> _View:
        said = [*self._framing.prompt, *row.state.target, *question.after]
        steps, read = len(said), len(row.state.source)
        if steps > self._model.limit:
            raise ValueError(
                f"the target has reached the model's {self._model.limit} positions; end the "
                f"sentence before"
            )
        lane = self._lane(row, question)
        forced, seen = self._forced.get(row, {}).get(lane, NOTHING)
        run = _common(forced, said)
        # The last position is run again when it is asked for again: on the actual path it may see
        # more by then.
        first = min(run, steps - 1)
        if question.context is not None:
            return _View(lane, first, said, [lane] * (steps - first))
        if self._path:
            return _View(lane, first, said, [Prefix(read)] * (steps - first))
        k, state = question.k, row.state
        assert k is not None

        def visible(position: int) -> int:
            # The prompt sees what the first target token does.
            written = max(0, position + 1 - len(self._framing.prompt))
            return max(min(read, reach(written + 1, k, self._catchup)), state.floor(written))

        if 0 < run == first and visible(run - 1) > seen:  # the models read on before it was written
            first -= 1
        return _View(lane, first, said, [Prefix(visible(one)) for one in range(first, steps)])

    def _decode(
        self, queries: list[_Query], wanted: Mapping[int, int]
    ) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
        """Run the queries through the decoder as a batch of one position each: (queries, width).

        `wanted` names a layer for some queries: their attention there, (source places,) each.
        """
        model, device = self._model, self._model.device
        tokens, positions, lanes, sources, visible = zip(*queries, strict=True)
        own = self._lanes.window(lanes, positions, [position + 1 for position in positions])
        windows = Windows(own, self._source.store.window(sources, None, visible))
        attentions = {one: model.cross_attention(one) for one in wanted.values()}
        with listening(attentions, windows) as heard:
            states = model.decode(
                torch.tensor(tokens, device=device)[:, None],
                torch.tensor(positions, device=device)[:, None],
                windows,
            )
        looks: dict[int, torch.Tensor] = {}
        for layer, hidden in heard.items():
            picked = [place for place, one in wanted.items() if one == layer]
            source = self._source.store.window(
                [sources[place] for place in picked], None, [visible[place] for place in picked]
            )
            query = model.cross_query(layer, hidden[picked])
            weights = cross_weights(query, source[layer].keys, source.mask)
            looks.update(zip(picked, weights, strict=True))
        return states, looks

    def fork(
        self, question: Question, rows: Sequence[Row], heirs: Sequence[tuple[Row, Row]]
    ) -> None:
        lanes = {row: (row, self._lane(row, question)) for row in rows}
        children = [
            (lanes[parent], (child, self._lane(child, question))) for parent, child in heirs
        ]
        forced = {lane: self._forced[lane[0]].pop(lane[1]) for lane in lanes.values()}
        for row in rows:
            if not self._forced[row]:
                del self._forced[row]
        for parent, (child, lane) in children:
            self._forced.setdefault(child, {})[lane] = forced[parent]
        length = max(len(said) for said, _ in forced.values())
        self._lanes.fork(list(lanes.values()), children, length)

    def release(self, row: Row) -> None:
        self._source.release(row)
        for lane in self._forced.pop(row, ()):
            self._lanes.release((row, lane))

    @property
    def nbytes(self) -> int:
        return self._lanes.nbytes + self._source.nbytes


def _common(forced: Sequence[int], said: Sequence[int]) -> int:
    """How many tokens two sequences share from the first on."""
    pairs = enumerate(zip(forced, said, strict=False))
    unlike = (place for place, (one, other) in pairs if one != other)
    return next(unlike, min(len(forced), len(said)))
