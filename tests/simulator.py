"""Runs any policy over a source with made-up predictions, and records what it did.

Stands in for the decoding loop and the models: a prediction is a function of what it may see and
nothing else."""

import hashlib
import random
from dataclasses import dataclass, field, replace

from hf_simultaneous.actions import Action, Besides, Models, Policy, Prediction, Read, State, Write
from hf_simultaneous.schedule import visible


EOS = 0
VOCABULARY = 6


@dataclass
class Run:
    """What a policy did with one source."""

    target: list[int] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    """Source tokens read before each WRITE, `</s>` among them."""
    lags: list[int] = field(default_factory=list)
    open: list[bool] = field(default_factory=list)
    """For each WRITE: was the source's `</s>` still to come?"""
    contexts: list[int | None] = field(default_factory=list)
    asked: list[tuple[int | None, int | None]] = field(default_factory=list)
    """The (k, context) of every prediction asked for, in order."""


def sentence(length: int) -> list[int]:
    """A source of `length` tokens and its `</s>`."""
    return [*range(1, length + 1), EOS]


def invent(seed: object, *seen: object) -> Prediction:
    """A prediction that anyone who sees the same gets again."""
    digest = hashlib.blake2b(repr((seed, seen)).encode(), digest_size=8).digest()
    source = random.Random(digest)
    sharpness = source.choice((1, 4, 16))
    weights = [source.random() ** sharpness + 1e-9 for _ in range(VOCABULARY)]
    weights[EOS] /= 4  # so that most targets have some length
    distribution = [weight / sum(weights) for weight in weights]
    token = max(range(VOCABULARY), key=distribution.__getitem__)
    return Prediction(token, distribution[token], distribution, ends=token == EOS)


def look(
    seed: object,
    state: State,
    context: int,
    models: object = None,
    *,
    close: bool = False,
    after: tuple[int, ...] = (),
) -> Prediction:
    """What is predicted when every position sees the first `context` source tokens, perhaps closed
    with `</s>`, and `after` was written too."""
    source = state.source[:context]
    closed = [*source, EOS] if close and source[-1] != EOS else source
    return invent(seed, [*state.target, *after], closed, models)


def attended(seed: object, state: State, context: int, layer: int) -> tuple[float, ...]:
    """What a layer looks at, `</s>` left out."""
    words = [token for token in state.source[:context] if token != EOS]
    rng = random.Random(repr((seed, "attention", layer, state.target, words)))
    return tuple(rng.random() for _ in words)


def simulate(
    policy: Policy,
    source: list[int],
    seed: object = 0,
    *,
    catchup: int | None = None,
    max_length: int = 30,
) -> Run:
    """Drive `policy` until it writes `</s>` or the target is `max_length` long."""
    state, run = State(catchup=catchup), Run()

    def predict(
        k: int | None = None,
        *,
        context: int | None = None,
        models: Models | None = None,
        close: bool = False,
        after: tuple[int, ...] = (),
        attention: int | None = None,
        besides: Besides = (),
    ) -> Prediction:
        assert (k is None) != (context is None), "a prediction is asked for by k or by context"
        run.asked.append((k, context))
        if context is not None:
            assert 1 <= context <= len(state.source), (
                f"looked at {context} of {len(state.source)} tokens"
            )
            answer = look(seed, state, context, models, close=close, after=after)
            row = None if attention is None else attended(seed, state, context, attention)
            return replace(answer, attention=row)
        assert (close, after) == (False, ()), "these need a context"
        assert state.source_ended or k <= state.lag, (
            f"asked for k={k} at lag {state.lag}: the source would clip it"
        )
        seen = [
            visible(step, k, len(state.source), catchup) for step in range(1, len(state.target) + 2)
        ]
        return invent(seed, state.target, state.source, seen, models)

    while EOS not in state.target and len(state.target) < max_length:
        action = policy(state, predict)
        run.actions.append(action)
        match action:
            case Read():
                assert not state.source_ended, "read past the end of the source"
                state.source.append(source[len(state.source)])
                state.source_ended = state.source[-1] == EOS
            case Write(token, context):
                run.delays.append(len(state.source))
                run.lags.append(state.lag)
                run.open.append(not state.source_ended)
                run.contexts.append(context)
                state.context = state.context if context is None else context
                state.target.append(token)
    run.target = state.target
    return run
