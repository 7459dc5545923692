"""What a policy sees and what it answers: `State` and `Prediction` in, `Read` or `Write` out.

Values only: nothing here decides anything, and nothing here holds a tensor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Protocol, SupportsFloat, SupportsIndex, TypeAlias

from .schedule import K, check_catchup, lag


Models: TypeAlias = tuple[K, ...]
"""Members of a set, by the k they were trained with, whose predictions are averaged."""

Besides: TypeAlias = tuple[tuple[int, bool], ...]
"""Contexts, each with or without an end mark behind it."""


@dataclass(frozen=True, slots=True)
class Read:
    """Take one more source token."""


@dataclass(frozen=True, slots=True)
class Write:
    """Commit `token` to the target, for good."""

    token: int
    context: int | None = None
    """How much of the source the token was chosen with, where a policy looked at less than was
    read."""


Action = Read | Write


@dataclass(frozen=True, slots=True)
class Event:
    """One action as it happened: a source token read, or a target token written, for good."""

    action: Action
    token: int
    k: int
    """WRITE: the k the token was predicted with. READ: the lag before it."""
    probability: float | None = None
    """WRITE: of the token. READ: of the token that was not sure enough to be written, if one was
    asked for."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The most probable next token, its probability, and the distribution it comes from."""

    token: int
    probability: float
    distribution: Sequence[SupportsFloat | SupportsIndex] | None = field(
        default=None, repr=False, compare=False
    )
    ends: bool = False
    """Would the models end the sentence here?"""
    attention: tuple[float, ...] | None = field(default=None, repr=False, compare=False)
    """How much the position that predicts looks at each source token, `</s>` left out; None where
    nobody asked."""

    def probability_of(self, token: int) -> float:
        """The probability of any token, under the same distribution."""
        if token == self.token:
            return self.probability
        if self.distribution is None:
            raise ValueError(
                f"this prediction kept only its top token {self.token}; asked for token {token}"
            )
        return float(self.distribution[token])

    @property
    def focus(self) -> int:
        """The source token that the prediction looks at most, counted from 0."""
        if not self.attention:
            raise ValueError(
                "this prediction has no attention to a source token; ask for it with "
                "predict(..., attention=layer)"
            )
        return max(range(len(self.attention)), key=self.attention.__getitem__)

    def distance(self, other: "Prediction") -> float:
        """1 - cosine of the two distributions: 0 if they are alike, 1 if they share no token."""
        if self.distribution is None or other.distribution is None:
            raise ValueError("a distance needs both distributions, and one of them was not kept")
        here, there = self.distribution, other.distribution
        cosine = _dot(here, there) / sqrt(_dot(here, here) * _dot(there, there))
        return max(0.0, 1 - cosine)  # rounding may leave less than nothing


def _dot(here: Any, there: Any) -> float:
    """The dot product; tensors compute their own: a vocabulary is too long for a Python loop."""
    if hasattr(here, "__matmul__"):
        return float(here @ there)
    return sum(float(a) * float(b) for a, b in zip(here, there, strict=True))


@dataclass(slots=True)
class State:
    """Where a translation stands. The decoding loop is the only one to change it."""

    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    source_ended: bool = False
    """True once the source's `</s>` was read: there is nothing left to wait for."""
    catchup: int | None = None
    context: int = 0
    """The `context` of the last WRITE that named one."""
    read_on: dict[int, int] = field(default_factory=dict)
    """Where the models wanted to end while the source was open, and the loop READ on instead: from
    the number of target tokens written by then to the number of source tokens that every position
    from there on sees at least."""

    def __post_init__(self) -> None:
        check_catchup(self.catchup)

    @property
    def lag(self) -> int:
        """The k of the wait-k policy that is level with this state."""
        return lag(len(self.source), len(self.target), self.catchup)

    def floor(self, position: int) -> int:
        """How many source tokens the target position (from 0) sees, however small its k: what was
        read on for it or before it."""
        if not self.read_on:  # as nearly always, and this is asked for every position
            return 0
        return max((seen for start, seen in self.read_on.items() if start <= position), default=0)


class Predict(Protocol):
    """P(M, x, y): what the models say comes next after `state.target`.

    `predict(k)` forces the models through the target under wait-k; `predict(context=s)` lets every
    position see the first s source tokens. `models` names the members to average instead of those
    the generator keeps for that k. Asking twice is free: the answer is kept until the next WRITE.

    There is more to ask for. `close=True` shows the context with an end mark behind it, as
    if the source ended there. `after=(t, ...)` imagines that these tokens had been written too.
    Both need a context. `attention=layer` brings `Prediction.attention`: that decoder layer's,
    averaged over its heads; layers count from 0, or back from -1.

    `besides=((s, close), ...)` names other contexts, each with or without an end mark, that the
    policy will ask for in the same way: they are predicted in the same call of the models.
    """

    def __call__(
        self,
        k: int | None = None,
        *,
        context: int | None = None,
        models: Models | None = None,
        close: bool = False,
        after: tuple[int, ...] = (),
        attention: int | None = None,
        besides: Besides = (),
    ) -> Prediction: ...


class Policy(Protocol):
    """Read or write? Any callable of this shape is a policy.

    It must be a function of its arguments alone: when rows are decoded in a batch, a policy that
    asked for a prediction not yet made is simply called again once it is there."""

    def __call__(self, state: State, predict: Predict) -> Action: ...
