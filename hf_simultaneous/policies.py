"""When to READ and when to WRITE: the paper's adaptive policy (Algorithm 1), the policies it is
compared with, and four that need nothing but an ordinary full-sentence model.

Each is a frozen value called with a `State` and a `predict` function. None knows what makes the
predictions."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from .actions import Action, Models, Predict, Prediction, Read, State, Write
from .schedule import FULL, check_at_least_one, check_k


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
        if not state.source_ended and state.lag < self.k:
            return Read()
        return Write(predict(self.k, models=self.models).token)


@dataclass(frozen=True)
class TestTimeWaitK(WaitK):
    """Wait-k with a model that was trained on full sentences: a mismatch, kept for comparison."""

    __test__ = False  # the paper's name for it; pytest need not collect it

    models: Models | None = (FULL,)


@dataclass(frozen=True)
class FullSentence:
    """Read everything, then write everything."""

    models: Models | None = None

    def __call__(self, state: State, predict: Predict) -> Action:
        if not state.source_ended:
            return Read()
        return Write(predict(context=len(state.source), models=self.models).token)


@dataclass(frozen=True)
class Adaptive:
    """Algorithm 1: at lag k write the top token of P_k if its probability reaches rho_k, else read.

    `thresholds` maps every k from k_min to k_max to its rho_k. At k_max it writes whatever the
    probability; below k_min it reads without asking. After the source has ended it writes with
    P_{k_max}."""

    thresholds: Mapping[int, float]
    k_min: int = field(init=False)
    k_max: int = field(init=False)

    def __post_init__(self) -> None:
        check_thresholds(self.thresholds)
        # A frozen value must not change when the caller's dict does.
        object.__setattr__(
            self, "thresholds", MappingProxyType(dict(sorted(self.thresholds.items())))
        )
        object.__setattr__(self, "k_min", min(self.thresholds))
        object.__setattr__(self, "k_max", max(self.thresholds))

    def __call__(self, state: State, predict: Predict) -> Action:
        if state.source_ended:
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
    """Cho & Esipova (2016): keep a context C, look `delta` tokens further (C'), and wait if that
    changes the answer.

    C' has to be read before it can be looked at, so a token written is as late as C';
    `Write.context` keeps |C|."""

    start: int
    delta: int
    models: Models | None = None

    def __post_init__(self) -> None:
        check_at_least_one("start", self.start)
        check_at_least_one("delta", self.delta)

    def __call__(self, state: State, predict: Predict) -> Action:
        # The state remembers |C| of the last WRITE only: the contexts given up since are walked
        # through again, which costs nothing, because each prediction is kept until the next WRITE.
        read = len(state.source)
        context = max(state.context, self.start)
        while not (state.source_ended and context >= read):
            if not state.source_ended and read < context + self.delta:
                return Read()
            further = min(read, context + self.delta)
            both = ((further, False),)
            here = predict(context=context, models=self.models, besides=both)
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

    `compare="same"` follows the token chosen under C into C' (Cho & Esipova); `"top"` compares the
    two top probabilities whatever their tokens, the other reading of the paper's sentence."""

    compare: str = "same"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compare not in ("same", "top"):
            raise ValueError(f"compare must be 'same' or 'top'; got {self.compare!r}")

    def wait(self, here: Prediction, further: Prediction) -> bool:
        after = further.probability if self.compare == "top" else further.probability_of(here.token)
        return after < here.probability


@dataclass(frozen=True)
class _Offline(ABC):
    """A policy over an ordinary full-sentence model: WRITE what it says about the source so far if
    that is `sure` to last, else READ. None of them ends a sentence before its source has ended.

    `close` shows the model every prefix with an end mark behind it, as it saw whole sentences in
    training. `models` names the members that predict; by default the full-sentence one."""

    close: bool = field(default=False, kw_only=True)
    models: Models | None = field(default=None, kw_only=True)

    def __call__(self, state: State, predict: Predict) -> Action:
        if not state.source or not (state.source_ended or self.sure(state, predict)):
            return Read()
        top = self.look(state, predict)
        return Read() if top.ends and not state.source_ended else Write(top.token)

    def look(self, state: State, predict: Predict, **other: Any) -> Prediction:
        """What comes next by all that was read, unless an `other` context or option is given."""
        usual = {"context": len(state.source), "close": self.close, "models": self.models}
        return predict(**{**usual, **other})

    @abstractmethod
    def sure(self, state: State, predict: Predict) -> bool:
        """May the top token be written while the source is open?

        The prediction it comes from is asked for last: events tell its probability."""


@dataclass(frozen=True)
class LocalAgreement(_Offline):
    """WRITE what the last `n` contexts, `step` source tokens apart, agree on (Liu et al. 2020)."""

    n: int = 2
    step: int = 1

    def __post_init__(self) -> None:
        check_at_least_one("n", self.n)
        check_at_least_one("step", self.step)

    def sure(self, state: State, predict: Predict) -> bool:
        read = len(state.source)
        first = read - (self.n - 1) * self.step
        if first < 1:
            return False
        contexts = range(first, read + 1, self.step)
        all_of_them = {"besides": tuple((one, self.close) for one in contexts)}
        looks = [self.look(state, predict, context=one, **all_of_them) for one in contexts]
        return len({look.token for look in looks}) == 1


@dataclass(frozen=True)
class HoldN(_Offline):
    """WRITE all but the last `n` tokens of what the model would make of the source so far (Liu et
    al. 2020). With 0: write until the model has nothing to say."""

    n: int

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 0:
            raise ValueError(f"n must be an integer of 0 or more; got {self.n!r}")

    def sure(self, state: State, predict: Predict) -> bool:
        top = self.look(state, predict)
        ahead: tuple[int, ...] = ()
        while len(ahead) < self.n and not top.ends:
            ahead = (*ahead, top.token)
            top = self.look(state, predict, after=ahead)
        return not top.ends


@dataclass(frozen=True)
class AlignAtt(_Offline):
    """WRITE unless the model's attention is on one of the last `border` source tokens (Papi et al.
    2023).

    `layer` is the decoder layer whose heads are averaged; layers count from 0, or back from -1."""

    border: int
    layer: int = -1

    def __post_init__(self) -> None:
        check_at_least_one("border", self.border)
        if isinstance(self.layer, bool) or not isinstance(self.layer, int):
            raise ValueError(f"layer must be an integer; got {self.layer!r}")

    def sure(self, state: State, predict: Predict) -> bool:
        last = len(state.source) - self.border
        return last > 0 and self.look(state, predict).focus < last

    def look(self, state: State, predict: Predict, **other: Any) -> Prediction:
        # Once the source has ended nothing hangs on the attention any more.
        layer = None if state.source_ended else self.layer
        return super().look(state, predict, attention=layer, **other)


@dataclass(frozen=True)
class PsFuture(_Offline):
    """WRITE if the model says much the same whether or not the source ends here: then what is still
    to come does not matter. `threshold` bounds `Prediction.distance` between the two.

    `close` chooses which of the two is written."""

    threshold: float

    def __post_init__(self) -> None:
        if not (isinstance(self.threshold, (int, float)) and 0 <= self.threshold <= 1):
            raise ValueError(f"threshold is a distance, 0 to 1; got {self.threshold!r}")

    def sure(self, state: State, predict: Predict) -> bool:
        both = ((len(state.source), self.close),)
        other = self.look(state, predict, close=not self.close, besides=both)
        return self.look(state, predict).distance(other) < self.threshold


AnyPolicy = WaitK | FullSentence | Adaptive | _WaitIf | _Offline
_NEEDED = object()
_MAKERS: Mapping[str, tuple[Callable[..., AnyPolicy], Mapping[str, Any]]] = MappingProxyType(
    {
        "adaptive": (lambda rho, **ks: Adaptive(linear_thresholds(*rho, **ks)), {"rho": _NEEDED}),
        "wait-k": (WaitK, {"k": _NEEDED}),
        "test-time-wait-k": (TestTimeWaitK, {"k": _NEEDED}),
        "wait-if-diff": (WaitIfDiff, {"start": 4, "delta": 2}),
        "wait-if-worse": (WaitIfWorse, {"start": 4, "delta": 2}),
        "local-agreement": (LocalAgreement, {"n": 2, "step": 1, "close": False}),
        "hold-n": (HoldN, {"n": 1, "close": False}),
        "align-att": (AlignAtt, {"border": 2, "layer": -1, "close": False}),
        "ps-future": (PsFuture, {"threshold": 0.08, "close": False}),
        "full": (FullSentence, {}),
    }
)
"""How each is made: what makes it, the options it takes, and their usual values."""

_EXAMPLES = {"rho": "--rho 0.9 0.1, or rho=(0.9, 0.1)", "k": "--k 3, or k=3"}
"""Of the options that have no usual value, on the command line and in Python."""

NAMES = tuple(_MAKERS)


def meant(name: object, known: Sequence[str]) -> str:
    """The end of a refusal: the name that is near to a wrong one, if there is one."""
    near = get_close_matches(str(name), known, n=1)
    return f". Did you mean {near[0]}?" if near else ""


def make_policy(name: str, *, k_min: int = 1, k_max: int = 10, **options: Any) -> AnyPolicy:
    """A policy by the name that commands and tables use; an option that is None counts as not
    given.

    The two wait-k need `k`; adaptive needs `rho`, its thresholds at k_min and k_max. wait-if-* take
    `start`, `delta`; local-agreement `n`, `step`; hold-n `n`; align-att `border`, `layer`;
    ps-future `threshold`; these four also `close`."""
    if name not in NAMES:
        known = ", ".join(NAMES)
        raise ValueError(f"policy must be one of {known}; got {name!r}{meant(name, NAMES)}")
    make, usual = _MAKERS[name]
    given = {option: value for option, value in options.items() if value is not None}
    chosen = {**usual, **given}
    if len(chosen) > len(usual) or _NEEDED in chosen.values():
        takes = " and ".join(usual) or "no options"
        got = ", ".join(f"{option}={value!r}" for option, value in given.items()) or "none"
        hint = "" if given else f". Give {' and '.join(_EXAMPLES[option] for option in usual)}"
        raise ValueError(f"{name} takes {takes}; got {got}{hint}")
    if name == "adaptive":
        if len(chosen["rho"]) != 2:
            raise ValueError(f"rho is two thresholds, at k_min and k_max; got {chosen['rho']}")
        chosen.update(k_min=k_min, k_max=k_max)
    return make(**chosen)


def linear_thresholds(
    first: float, last: float, k_min: int = 1, k_max: int = 10
) -> dict[int, float]:
    """rho_k falling (or rising) in equal steps from `first` at k_min to `last` at k_max."""
    _check_threshold_k("k_min", k_min)
    _check_threshold_k("k_max", k_max)
    if k_min > k_max:
        raise ValueError(f"k_min must not be above k_max; got k_min={k_min}, k_max={k_max}")
    check_thresholds({1: first, 2: last})
    step = (first - last) / (k_max - k_min) if k_max > k_min else 0.0
    thresholds = {k: first - step * (k - k_min) for k in range(k_min, k_max + 1)}
    if k_max > k_min:
        thresholds[k_max] = last  # not `first - step * n`, which may miss it by a rounding error
    return thresholds


def check_thresholds(thresholds: Mapping[int, float]) -> None:
    """Refuse thresholds that leave a lag without one, or that are not probabilities."""
    if not thresholds:
        raise ValueError("thresholds must name at least one k; got none. Use linear_thresholds()")
    for k in thresholds:
        _check_threshold_k("every k in thresholds", k)
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


def _check_threshold_k(name: str, k: int) -> None:
    check_at_least_one(name, k)  # which the full sentence is not
    check_k(k, name)


def _setting(first: float, last: float) -> tuple[str, MappingProxyType[int, float]]:
    return f"rho1={first:g},rho10={last:g}", MappingProxyType(linear_thresholds(first, last))


PAPER_SETTINGS: Mapping[str, Mapping[int, float]] = MappingProxyType(
    dict(
        [_setting(tenths / 10, 0.0) for tenths in range(2, 10)]
        + [_setting(1.0, tenths / 10) for tenths in range(10)]
    )
)
"""The 18 threshold settings of the paper's experiments, k from 1 to 10, in the order of its
tables."""
