"""When to READ and when to WRITE: the paper's adaptive policy (Algorithm 1) and the policies it is compared with.

Each is a frozen value called with a `State` and a `predict` function. None knows what makes the predictions.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from .actions import Action, Predict, Prediction, Read, State, Write
from .schedule import check_at_least_one


Models = tuple[int | None, ...]


@dataclass(frozen=True)
class WaitK:
    """Read k tokens, then write one and read one in turn (Ma et al. 2019).

    `models` names the members that predict; by default those the generator keeps for this k.
    """

    k: int
    models: Models | None = None

    def __post_init__(self) -> None:
        check_at_least_one("k", self.k)

    def __call__(self, state: State, predict: Predict) -> Action:
        if not state.ended and state.lag < self.k:
            return Read()
        return Write(predict(self.k, models=self.models).token)


@dataclass(frozen=True)
class TestTimeWaitK(WaitK):
    """Wait-k with a model that was trained on full sentences: a mismatch, kept for comparison."""

    __test__ = False  # the paper's name for it; pytest need not collect it

    models: Models | None = (None,)


@dataclass(frozen=True)
class FullSentence:
    """Read everything, then write everything."""

    models: Models | None = None

    def __call__(self, state: State, predict: Predict) -> Action:
        if not state.ended:
            return Read()
        return Write(predict(context=len(state.source), models=self.models).token)


@dataclass(frozen=True)
class Adaptive:
    """Algorithm 1: at lag k write the top token of P_k if its probability reaches rho_k, else read.

    `thresholds` maps every k from k_min to k_max to its rho_k. At k_max it writes whatever the probability; below
    k_min it reads without asking. After the source has ended it writes with P_{k_max}.
    """

    thresholds: Mapping[int, float]
    k_min: int = field(init=False)
    k_max: int = field(init=False)

    def __post_init__(self) -> None:
        check_thresholds(self.thresholds)
        # A frozen value must not change when the caller's dict does.
        object.__setattr__(self, "thresholds", MappingProxyType(dict(sorted(self.thresholds.items()))))
        object.__setattr__(self, "k_min", min(self.thresholds))
        object.__setattr__(self, "k_max", max(self.thresholds))

    def __call__(self, state: State, predict: Predict) -> Action:
        if state.ended:
            return Write(predict(self.k_max).token)
        k = min(state.lag, self.k_max)
        if k < self.k_min:
            return Read()
        top = predict(k)
        if k >= self.k_max or top.probability >= self.thresholds[k]:
            return Write(top.token)
        return Read()

    def __hash__(self) -> int:
        return hash(tuple(self.thresholds.items()))

    def __reduce__(self) -> tuple[type["Adaptive"], tuple[dict[int, float]]]:
        return Adaptive, (dict(self.thresholds),)  # a mapping proxy does not pickle


@dataclass(frozen=True)
class _WaitIf(ABC):
    """Cho & Esipova (2016): keep a context C, look `delta` tokens further (C'), and wait if that changes the answer.

    C' has to be read before it can be looked at, so a token written is as late as C'; `Write.context` keeps |C|.
    """

    start: int
    delta: int
    models: Models | None = None

    def __post_init__(self) -> None:
        check_at_least_one("start", self.start)
        check_at_least_one("delta", self.delta)

    def __call__(self, state: State, predict: Predict) -> Action:
        # The state remembers |C| of the last WRITE only: the contexts given up since are walked through again, which
        # costs nothing, because each prediction is kept until the next WRITE.
        read = len(state.source)
        context = max(state.context, self.start)
        while not (state.ended and context >= read):
            if not state.ended and read < context + self.delta:
                return Read()
            further = min(read, context + self.delta)
            here = predict(context=context, models=self.models)
            if not self.wait(here, predict(context=further, models=self.models)):
                return Write(here.token, context)
            context = further
        return Write(predict(context=read, models=self.models).token, read)

    @abstractmethod
    def wait(self, here: Prediction, further: Prediction) -> bool:
        """Is the answer under C (`here`) put in doubt by the answer under C' (`further`)?"""


@dataclass(frozen=True)
class WaitIfDiff(_WaitIf):
    """Wait while looking further changes the most probable token."""

    def wait(self, here: Prediction, further: Prediction) -> bool:
        return here.token != further.token


@dataclass(frozen=True)
class WaitIfWorse(_WaitIf):
    """Wait while looking further makes the token less probable.

    `compare="same"` follows the token chosen under C into C' (Cho & Esipova); `"top"` compares the two top
    probabilities whatever their tokens, the other reading of the paper's sentence.
    """

    compare: str = "same"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compare not in ("same", "top"):
            raise ValueError(f"compare must be 'same' or 'top'; got {self.compare!r}")

    def wait(self, here: Prediction, further: Prediction) -> bool:
        after = further.probability if self.compare == "top" else further.probability_of(here.token)
        return after < here.probability


NAMES = ("adaptive", "wait-k", "test-time-wait-k", "wait-if-diff", "wait-if-worse", "full")


def make_policy(
    name: str,
    *,
    k: int | None = None,
    rho: Sequence[float] | None = None,
    k_min: int = 1,
    k_max: int = 10,
    start: int = 4,
    delta: int = 2,
) -> "WaitK | FullSentence | Adaptive | WaitIfDiff | WaitIfWorse":
    """A policy by the name that commands and tables use.

    The two wait-k need `k`; adaptive needs `rho`, its thresholds at k_min and k_max; wait-if-* take `start`, `delta`.
    """
    if name not in NAMES:
        raise ValueError(f"policy must be one of {', '.join(NAMES)}; got {name!r}")
    if (k is not None) != name.endswith("wait-k"):
        raise ValueError(f"k goes with wait-k and test-time-wait-k, and they need one; got {name} with k={k}")
    if (rho is not None) != (name == "adaptive") or (rho is not None and len(rho) != 2):
        raise ValueError(f"rho is two thresholds, the ends, for adaptive, which needs them; got {name}, rho={rho}")
    if rho is not None:
        return Adaptive(linear_thresholds(rho[0], rho[1], k_min, k_max))
    if k is not None:
        return WaitK(k) if name == "wait-k" else TestTimeWaitK(k)
    if name == "full":
        return FullSentence()
    return (WaitIfDiff if name == "wait-if-diff" else WaitIfWorse)(start, delta)


def linear_thresholds(first: float, last: float, k_min: int = 1, k_max: int = 10) -> dict[int, float]:
    """rho_k falling (or rising) in equal steps from `first` at k_min to `last` at k_max."""
    check_at_least_one("k_min", k_min)
    check_at_least_one("k_max", k_max)
    if k_min > k_max:
        raise ValueError(f"k_min must not be above k_max; got k_min={k_min}, k_max={k_max}")
    check_thresholds({1: first, 2: last})
    step = (first - last) / (k_max - k_min) if k_max > k_min else 0.0
    thresholds = {k: first - step * (k - k_min) for k in range(k_min, k_max + 1)}
    if k_max > k_min:
        thresholds[k_max] = last  # not `first - step * n`, which may miss it by a rounding error
    return thresholds


def check_thresholds(thresholds: Mapping[int, float]) -> None:
    """Refuse thresholds that leave a lag without one, or that are no probabilities."""
    if not thresholds:
        raise ValueError("thresholds must name at least one k; got none. Use linear_thresholds()")
    for k in thresholds:
        check_at_least_one("every k in thresholds", k)
    ks = sorted(thresholds)
    missing = sorted(set(range(ks[0], ks[-1] + 1)) - set(ks))
    if missing:
        raise ValueError(
            f"thresholds must cover k_min..k_max without gaps; got {ks}. "
            f"Add {', '.join(map(str, missing))}, or use linear_thresholds()"
        )
    for k, rho in thresholds.items():
        if not (isinstance(rho, (int, float)) and 0 <= rho <= 1):
            raise ValueError(f"a threshold is a probability, 0 to 1; got {rho!r} for k={k}")


def _setting(first: float, last: float) -> tuple[str, MappingProxyType[int, float]]:
    return f"rho1={first:g},rho10={last:g}", MappingProxyType(linear_thresholds(first, last))


PAPER_SETTINGS: Mapping[str, Mapping[int, float]] = MappingProxyType(
    dict(
        [_setting(tenths / 10, 0.0) for tenths in range(2, 10)] + [_setting(1.0, tenths / 10) for tenths in range(10)]
    )
)
"""The 18 threshold settings of the paper's experiments, k from 1 to 10, in the order of its tables."""
