"""Policies in words, for tables and logs.

Knows the policies there are; nothing of how they are run."""

from ..actions import Policy
from ..policies import (
    Adaptive,
    AlignAtt,
    FullSentence,
    HoldN,
    LocalAgreement,
    PsFuture,
    TestTimeWaitK,
    WaitIfDiff,
    WaitIfWorse,
    WaitK,
)
from ..sets import policy_name


def describe(policy: Policy) -> str:
    """A policy in a few words, for tables."""
    match policy:
        case TestTimeWaitK(k):
            return f"test-time {policy_name(k)}"
        case WaitK(k):
            return policy_name(k)
        case WaitIfDiff(start, delta) | WaitIfWorse(start, delta):
            name = "wait-if-diff" if isinstance(policy, WaitIfDiff) else "wait-if-worse"
            return f"{name}, start {start}, delta {delta}"
        case Adaptive():
            return "adaptive, " + " ".join(f"{k}:{rho:.3g}" for k, rho in policy.thresholds.items())
        case FullSentence():
            return "full sentence"
        case LocalAgreement() | HoldN() | AlignAtt() | PsFuture():
            return _describe_offline(policy) + (", closed" if policy.close else "")
    # A function's own name; its address, which its repr has, would be another in every run.
    return str(getattr(policy, "__name__", repr(policy)))


def _describe_offline(policy: LocalAgreement | HoldN | AlignAtt | PsFuture) -> str:
    match policy:
        case LocalAgreement(n, step):
            return f"local agreement of {n}, step {step}"
        case HoldN(n):
            return f"hold-{n}"
        case AlignAtt(border, layer):
            return f"align-att, border {border}, layer {layer}"
        case PsFuture(threshold):
            return f"ps-future, threshold {threshold:g}"
