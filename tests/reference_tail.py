"""The tail to be equal to: beam search in plain lists, each hypothesis predicted from scratch.

Ends as transformers' own search does: once a full set of hypotheses is finished and the best open
one is not better than the worst of them. Before that, open ones are given up that would be no
better than the best finished one with AHEAD certain tokens more."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from hf_simultaneous.actions import Policy, State
from hf_simultaneous.decoding_rules import Tail
from hf_simultaneous.schedule import FULL, K
from hf_simultaneous.tail import AHEAD
from tests.tiny import EOS


class Hypothesis(NamedTuple):
    """Its score is the sum of logarithms; of a finished one, their mean."""

    score: float
    tokens: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    surprising: bool = False
    """Does it hold a token that was not the most probable one?"""


def search(
    after: Callable[[Sequence[tuple[int, ...]]], list[torch.Tensor]], beams: int, room: int
) -> Hypothesis:
    """The best continuation of at most `room` tokens; `after` gives what comes next after each."""
    going, finished = [Hypothesis(0.0)], []
    while True:
        distributions = after([one.tokens for one in going])
        longer = [
            Hypothesis(
                one.score + math.log(p),
                (*one.tokens, token),
                (*one.probabilities, p),
                one.surprising or p < float(distribution.max()),
            )
            for one, distribution in zip(going, distributions, strict=True)
            for token, p in enumerate(distribution.tolist())
        ]
        best = sorted(longer, reverse=True)[: 2 * beams]
        done = [one for one in best[:beams] if one.tokens[-1] == EOS or len(one.tokens) == room]
        finished += [one._replace(score=one.score / len(one.tokens)) for one in done]
        finished = sorted(finished, reverse=True)[:beams]
        going = [one for one in best if one.tokens[-1] != EOS and len(one.tokens) < room][:beams]
        found = finished[0].score if finished else -math.inf
        going = [one for one in going if one.score / (len(one.tokens) + AHEAD) > found]
        hope = max((one.score / len(one.tokens) for one in going), default=-math.inf)
        if len(finished) == beams and hope <= finished[-1].score or not going:
            return finished[0]


class _Asked(BaseException):
    """What a policy asks first."""


def tail_question(policy: Policy, state: State, tail: Tail) -> tuple[Any, ...]:
    """k, context and models: the policy's own, but for the members that the tail names and the
    context, which is then the whole source."""
    if tail.members == (FULL,):
        return None, len(state.source), tail.members

    def first(k=None, *, context=None, models=None, besides=()):
        whole = None if context is None else len(state.source)
        raise _Asked(k, whole, tail.members or models)

    try:
        policy(state, first)
    except _Asked as asked:
        return asked.args
    raise AssertionError("the policies of the reference ask before they write")


def random_tail(rng: random.Random, have: Sequence[K]) -> Tail:
    """Two or three beams, or one by other members than the policy asks."""
    named = tuple(rng.sample(list(have), rng.randint(1, len(have))))
    whole = (FULL,) if FULL in have else None
    members = rng.choice((None, named, whole))
    return Tail(beams=rng.randint(2, 3) if members is None else rng.randint(1, 3), members=members)
