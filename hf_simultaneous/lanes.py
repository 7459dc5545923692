"""P_k, fast: what every model says comes next, from decoder states that are computed once and never revised.

Knows models and tensors, not policies.

Under wait-k the decoder's state at position t depends on y_<t and x_<=g_k(t) alone. The target is never revised and
the source only grows, so such a state stays right whatever happens next. Each model keeps one append-only *lane* of
states per sentence and k, and a prediction runs only the positions its lane has not seen. The source's cross-attention
keys and values are kept once per model and shared by its lanes.

Every position to be run is one *query*, with its own lane, position and view of the source. That one form serves a
single live stream, a batch whose rows stand at different steps and lags, and both encoders.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .caches import Store, Windows
from .masks import for_attention
from .packing import packed
from .schedule import reach
from .sources import CausalSource, PrefixSource, Row


HISTORIES = ("forced", "path")


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
        self._all, self._options = models, (catchup, history)
        self._models: dict[int | None, _ModelLanes] = {}
        self._expected: list[Row] = []

    def expect(self, rows: Sequence[Row]) -> None:
        """Announce complete sources that will be decoded together: each model encodes all of them in one call."""
        self._expected += rows

    def _lanes_of(self, key: int | None) -> "_ModelLanes":
        """A model that is never asked costs nothing."""
        if key not in self._models:
            self._models[key] = _ModelLanes(packed(self._all[key]), *self._options)
            self._models[key].expect(self._expected)
        return self._models[key]

    @torch.inference_mode()
    def predict(self, asked: Sequence[tuple[Row, Question]]) -> torch.Tensor:
        """The mean distribution over the models of each question, (questions, vocabulary); at most one per row."""
        for row, question in asked:
            _check(row, question)
        mean: torch.Tensor | None = None
        for key in dict.fromkeys(key for _, question in asked for key in question.models):
            picked = [index for index, (_, question) in enumerate(asked) if key in question.models]
            share = self._lanes_of(key).predict([asked[index] for index in picked])
            if len(picked) == len(asked) and mean is None:
                mean = share
            else:
                mean = share.new_zeros(len(asked), share.shape[1]) if mean is None else mean
                mean.index_add_(0, torch.tensor(picked, device=share.device), share.to(mean))
        assert mean is not None
        sizes = [len(question.models) for _, question in asked]
        return mean if set(sizes) == {1} else mean / torch.tensor(sizes, device=mean.device)[:, None]

    def forget(self, row: Row) -> None:
        """Give back what a finished sentence held."""
        self._expected = [other for other in self._expected if other is not row]
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
        self._lanes = Store(config, model)
        self._source = (CausalSource if config.encoder_attention == "causal" else PrefixSource)(model)
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
            past_key_values=Windows(own, cross),
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
