"""What a policy sees and what it answers: `State` and `Prediction` in, `Read` or `Write` out.

Values only: nothing here decides anything, and nothing here holds a tensor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, SupportsFloat, SupportsIndex

from .schedule import check_catchup, lag


@dataclass(frozen=True, slots=True)
class Read:
    """Take one more source token."""


@dataclass(frozen=True, slots=True)
class Write:
    """Commit `token` to the target, for good."""

    token: int
    context: int | None = None
    """How much of the source the token was chosen with, where a policy looked at less than was read."""


Action = Read | Write


@dataclass(frozen=True, slots=True)
class Prediction:
    """The most probable next token, its probability, and the distribution it comes from."""

    token: int
    probability: float
    distribution: Sequence[SupportsFloat | SupportsIndex] | None = field(default=None, repr=False, compare=False)

    def probability_of(self, token: int) -> float:
        """The probability of any token, under the same distribution."""
        if token == self.token:
            return self.probability
        if self.distribution is None:
            raise ValueError(f"this prediction kept only its top token {self.token}; asked for token {token}")
        return float(self.distribution[token])


@dataclass(slots=True)
class State:
    """Where a translation stands. The decoding loop is the only one to change it."""

    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    ended: bool = False
    """True once the source's `</s>` was read: there is nothing left to wait for."""
    catchup: int | None = None
    context: int = 0
    """The `context` of the last WRITE that named one."""

    def __post_init__(self) -> None:
        check_catchup(self.catchup)

    @property
    def lag(self) -> int:
        """The k of the wait-k policy that is level with this state."""
        return lag(len(self.source), len(self.target), self.catchup)


class Predict(Protocol):
    """P(M, x, y): what the models say comes next after `state.target`.

    `predict(k)` forces the models through the target under wait-k; `predict(context=s)` lets every position see the
    first s source tokens. `models` names the members to average (`None` in it is the full-sentence model) instead of
    those the generator keeps for that k. Asking twice is free: the answer is kept until the next WRITE.
    """

    def __call__(
        self, k: int | None = None, *, context: int | None = None, models: tuple[int | None, ...] | None = None
    ) -> Prediction: ...


class Policy(Protocol):
    """Read or write? Any callable of this shape is a policy.

    It must be a function of its arguments alone: when rows are decoded in a batch, a policy that asked for a
    prediction not yet made is simply called again once it is there.
    """

    def __call__(self, state: State, predict: Predict) -> Action: ...
