"""g(t), the source a wait-k policy shows to target step t, and its inverse, the lag.

Counts tokens only: it knows nothing of what they are, nor of models. Steps and tokens count from 1.
"""

from typing import Any


def reach(step: Any, k: Any, catchup: int | None = None) -> Any:
    """g_k(t) before the end of the source clips it: `t + k - 1`, plus one for every `catchup` steps behind us.

    Plain arithmetic, so integer tensors work as well as integers: the attention masks are made by this same line.
    """
    forward = step + k - 1
    return forward if catchup is None else forward + (step - 1) // catchup


def visible(step: int, k: int | None, source_len: int, catchup: int | None = None) -> int:
    """How many source tokens target step `step` may look at under wait-k: g_k(t) of the paper.

    `k=None` is the full sentence. `source_len` is |x|; while a source is still growing it is what has been read.
    """
    check_at_least_one("step", step)
    check_k(k)
    check_catchup(catchup)
    if source_len < 0:
        raise ValueError(f"source_len counts tokens and cannot be negative; got {source_len}")
    return source_len if k is None else min(source_len, reach(step, k, catchup))


def lag(source_len: int, target_len: int, catchup: int | None = None) -> int:
    """The k of the wait-k policy that stands where we stand: `visible` solved for k.

    Zero or negative where even wait-1 would have to read first.
    """
    check_catchup(catchup)
    if source_len < 0 or target_len < 0:
        raise ValueError(f"lengths count tokens and cannot be negative; got source {source_len}, target {target_len}")
    return source_len - (reach(target_len + 1, 1, catchup) - 1)


def check_k(k: int | None) -> None:
    """Refuse a k that no wait-k policy can have."""
    if k is not None:
        check_at_least_one("k", k)


def check_catchup(catchup: int | None) -> None:
    """Refuse a catch-up that would read for ever."""
    if catchup is not None and (isinstance(catchup, bool) or not isinstance(catchup, int) or catchup < 1):
        raise ValueError(
            f"catchup is the number of WRITEs between two extra READs: 1 or more, or None; got {catchup!r}"
        )


def check_at_least_one(name: str, value: int) -> None:
    """Refuse what is not a counting number (True is an int to Python, and no count)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be an integer of 1 or more; got {value!r}")
