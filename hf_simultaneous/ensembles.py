"""Which models make up a set, and which of them speak at each k: `single`, `top-3`, `all`.

Knows the keys and the shapes of models; runs none of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .actions import Models
from .families import check_family
from .schedule import FULL, MAX_K, K, is_at_least_one


class Ensembles(Mapping[int, Models]):
    """Who speaks at each k: `{k: models}`, and `models_for` where that says nothing."""

    def __init__(self, chosen: Mapping[int, Models], have: Models, k_max: int):
        self._chosen = dict(chosen)
        self._have = have
        self._k_max = k_max

    def models_for(self, k: int | None, named: Models | None = None) -> Models:
        """The models averaged at this k; for `None`, a whole context, the full-sentence model if
        there is one.

        A policy may name others, which must be in the set.
        """
        if named is not None:
            if not named or set(named) - set(self._have) or len(set(named)) < len(named):
                raise ValueError(
                    f"a policy names models of the set, {list(self._have)}, each once; got {named}"
                )
            return tuple(named)
        if k is None:
            return (FULL,) if FULL in self._have else self._chosen[self._k_max]
        return self._chosen.get(k) or choose_models("single", self._have, [k], None)[k]

    def __getitem__(self, k: int) -> Models:
        return self._chosen[k]

    def __iter__(self) -> Iterator[int]:
        return iter(self._chosen)

    def __len__(self) -> int:
        return len(self._chosen)

    def __repr__(self) -> str:
        return repr(self._chosen)


def check_models(models: Mapping[K, Any] | Any) -> dict[K, Any]:
    """The models by the k they were trained with, plain Marian turned into ours; refused where they
    do not fit."""
    if not isinstance(models, Mapping):
        models = {getattr(getattr(models, "config", None), "wait_k", None) or FULL: models}
    if not models:
        raise ValueError("a set needs at least one model; got none")
    for k in models:
        if k != FULL and not (is_at_least_one(k) and k <= MAX_K):
            raise ValueError(
                f"models are named by the k they were trained with, 1 to {MAX_K}, or {FULL!r} "
                f"for full sentences; got {k!r}"
            )
    checked = {k: _ours(model).eval() for k, model in sorted(models.items(), key=_by_k)}
    for k, model in checked.items():
        trained = getattr(model.config, "wait_k", None)
        if trained not in (None, k):
            raise ValueError(
                f"models are named by the k they were trained with; the one named {k!r} was "
                f"trained with {trained}"
            )
    for name in (
        "decoder_vocab_size",
        "vocab_size",
        "eos_token_id",
        "pad_token_id",
        "decoder_start_token_id",
        "catchup",
    ):
        values = {k: getattr(model.config, name, None) for k, model in checked.items()}
        if len({str(value) for value in values.values()}) > 1:
            raise ValueError(
                f"the models of a set share one tokenizer and one schedule, but {name} differs: "
                f"{values}"
            )
    return checked


def _by_k(item: tuple[K, Any]) -> tuple[bool, K]:
    """The full-sentence model last."""
    return item[0] == FULL, item[0]


def _ours(model: Any) -> Any:
    kind = getattr(getattr(model, "config", None), "model_type", None)
    if kind == "marian":
        from .modeling_simultaneous import SimultaneousMTModel

        return SimultaneousMTModel.from_marian(model)
    check_family(model)
    return model


def choose_models(
    ensembles: str | Mapping[int, Sequence[K]],
    have: Sequence[K],
    ks: Sequence[int],
    dev_scores: Mapping[int, Mapping[int, float]] | None,
) -> dict[int, Models]:
    """The models to average at each k. A full-sentence model speaks only where it is named, or
    alone."""
    trained = [k for k in have if k != FULL]
    if isinstance(ensembles, Mapping):
        return _given(ensembles, have, ks)
    if ensembles not in ("single", "top-3", "all"):
        raise ValueError(
            f"ensembles must be 'single', 'top-3', 'all' or a mapping; got {ensembles!r}"
        )
    if not trained:
        return dict.fromkeys(ks, (FULL,))
    if ensembles == "all":
        return dict.fromkeys(ks, tuple(trained))
    if ensembles == "single":
        return {k: (nearest(k, trained)[0],) for k in ks}
    return {k: tuple(sorted(_best(k, trained, dev_scores)[:3])) for k in ks}


def check_scored(ensembles: str, have: Sequence[K], dev_scores: Mapping[int, Any] | None) -> None:
    """Refuse the best models on dev data where there are several and nobody knows which."""
    if ensembles == "top-3" and dev_scores is None and len([k for k in have if k != FULL]) > 1:
        raise ValueError(
            "top-3 takes the three best models on dev data, but this set has no dev grid. Make it "
            "with python -m training.choose_ensembles, or use single or all"
        )


def nearest(k: int, trained: Sequence[int]) -> list[int]:
    """The trained ks by their distance from k, the larger of two equally near first."""
    return sorted(trained, key=lambda other: (abs(other - k), -other))


def _best(
    k: int, trained: Sequence[int], dev_scores: Mapping[int, Mapping[int, float]] | None
) -> list[int]:
    if dev_scores is None:
        return nearest(k, trained)
    if k not in dev_scores or set(trained) - set(dev_scores[k]):
        raise ValueError(
            f"dev_scores must give every model a score under every policy; for k={k} got "
            f"{dict(dev_scores.get(k, {}))}, the models are {list(trained)}"
        )
    return sorted(trained, key=lambda model: -dev_scores[k][model])


def _given(
    ensembles: Mapping[int, Sequence[K]], have: Sequence[K], ks: Sequence[int]
) -> dict[int, Models]:
    missing = [k for k in ks if k not in ensembles]
    if missing:
        raise ValueError(
            f"ensembles must name models for every k in thresholds; nothing for {missing}"
        )
    for k, members in ensembles.items():
        unknown = [member for member in members if member not in have]
        if unknown or not members or len(set(members)) < len(members):
            raise ValueError(
                f"ensembles name models of the set, {list(have)}, each once; got {list(members)} "
                f"for k={k}"
            )
    return {k: tuple(members) for k, members in ensembles.items()}
