"""g(t), the source a wait-k policy shows to target step t, and its inverse, the lag.

Counts tokens only: it knows nothing of what they are, nor of models. Steps and tokens count from 1.
"""

from typing import Any, Final, Literal, TypeAlias


FULL: Final = "full"
"""The full sentence, wherever a k may stand: as the key of a set, an argument, in JSON and on the
command line."""

MAX_K: Final = 1_000
"""The largest k of a model or a threshold. Sentences are shorter; and a few bytes of a file must
not ask for a billion thresholds."""

K: TypeAlias = int | Literal["full"]
"""What a model was trained with: wait-k for this k, or full sentences."""


def reach(step: Any, k: Any, catchup: int | None = None) -> Any:
    """g_k(t) before the end of the source clips it: `t + k - 1`, plus one for every `catchup` steps
    behind us.

    Plain arithmetic, so integer tensors work as well as integers: the attention masks are made by
    this same line."""
    forward = step + k - 1
    return forward if catchup is None else forward + (step - 1) // catchup


def visible(step: int, k: K, source_len: int, catchup: int | None = None) -> int:
    """How many source tokens target step `step` may look at under wait-k: g_k(t) of the paper.

    With `FULL` that is all of it. `source_len` is |x|; while a source is still growing it is what
    has been read."""
    check_at_least_one("step", step)
    check_k(k)
    check_catchup(catchup)
    if source_len < 0:
        raise ValueError(f"source_len counts tokens and cannot be negative; got {source_len}")
    return source_len if k == FULL else min(source_len, reach(step, k, catchup))


def lag(source_len: int, target_len: int, catchup: int | None = None) -> int:
    """The k of the wait-k policy that stands where we stand: `visible` solved for k.

    Zero or negative where even wait-1 would have to read first.
    """
    check_catchup(catchup)
    if source_len < 0 or target_len < 0:
        raise ValueError(
            f"lengths count tokens and cannot be negative; got source {source_len}, target "
            f"{target_len}"
        )
    return source_len - (reach(target_len + 1, 1, catchup) - 1)


def check_k(k: K, name: str = "k") -> None:
    """Refuse what is neither a k that a wait-k policy can have nor the full sentence."""
    if k == FULL:
        return
    check_at_least_one(name, k)
    if k > MAX_K:
        raise ValueError(f"{name} must be {MAX_K} or less; got {k}. Full sentences are {FULL!r}")


def check_catchup(catchup: int | None) -> None:
    """Refuse a catch-up that would read for ever."""
    if catchup is not None and not is_at_least_one(catchup):
        raise ValueError(
            f"catchup is the number of WRITEs between two extra READs: 1 or more, or None; got "
            f"{catchup!r}"
        )


def is_at_least_one(value: object) -> bool:
    """Is it a counting number? True is an int to Python, but not a count."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def check_at_least_one(name: str, value: int) -> None:
    """Refuse what is not a counting number."""
    if not is_at_least_one(value):
        raise ValueError(f"{name} must be an integer of 1 or more; got {value!r}")
