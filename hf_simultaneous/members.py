"""Which models make up a set, and which of them speak at each k: `single`, `top-3`, `all`.

Knows the keys and the shapes of models; runs none of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any


Members = tuple[int | None, ...]


def check_members(models: Mapping[int | None, Any] | Any) -> dict[int | None, Any]:
    """The models by the k they were trained with, plain Marian turned into ours; refused where they do not fit."""
    if not isinstance(models, Mapping):
        models = {getattr(getattr(models, "config", None), "wait_k", None): models}
    if not models:
        raise ValueError("a set needs at least one model; got none")
    for k in models:
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
            raise ValueError(
                f"models are named by the k they were trained with, or None for full sentences; got {k!r}"
            )
    checked = {k: _ours(model).eval() for k, model in sorted(models.items(), key=lambda item: item[0] or 10**9)}
    for name in (
        "decoder_vocab_size",
        "vocab_size",
        "eos_token_id",
        "pad_token_id",
        "decoder_start_token_id",
        "catchup",
    ):
        values = {k: getattr(model.config, name) for k, model in checked.items()}
        if len({str(value) for value in values.values()}) > 1:
            raise ValueError(f"the models of a set share one tokenizer and one schedule, but {name} differs: {values}")
    return checked


def _ours(model: Any) -> Any:
    kind = getattr(getattr(model, "config", None), "model_type", None)
    if kind == "marian":
        from .modeling_simultaneous import SimultaneousMTModel

        return SimultaneousMTModel.from_marian(model)
    if kind != "simultaneous-mt":
        raise ValueError(
            f"models must be SimultaneousMTModel or MarianMTModel; got {type(model).__name__}. "
            "Folders and repositories are loaded with from_pretrained()"
        )
    return model


def choose_members(
    ensembles: str | Mapping[int, Sequence[int | None]],
    have: Sequence[int | None],
    ks: Sequence[int],
    dev_scores: Mapping[int, Mapping[int, float]] | None,
) -> dict[int, Members]:
    """The models to average at each k. A full-sentence model speaks only where it is named, or alone."""
    trained = [k for k in have if k is not None]
    if isinstance(ensembles, Mapping):
        return _given(ensembles, have, ks)
    if ensembles not in ("single", "top-3", "all"):
        raise ValueError(f"ensembles must be 'single', 'top-3', 'all' or a mapping; got {ensembles!r}")
    if not trained:
        return dict.fromkeys(ks, (None,))
    if ensembles == "all":
        return dict.fromkeys(ks, tuple(trained))
    if ensembles == "single":
        return {k: (nearest(k, trained)[0],) for k in ks}
    return {k: tuple(sorted(_best(k, trained, dev_scores)[:3])) for k in ks}


def nearest(k: int, trained: Sequence[int]) -> list[int]:
    """The trained ks by their distance from k, the larger of two equally near first."""
    return sorted(trained, key=lambda other: (abs(other - k), -other))


def _best(k: int, trained: Sequence[int], dev_scores: Mapping[int, Mapping[int, float]] | None) -> list[int]:
    if dev_scores is None:
        return nearest(k, trained)
    if k not in dev_scores or set(trained) - set(dev_scores[k]):
        raise ValueError(
            f"dev_scores must give every model a score under every policy; for k={k} got "
            f"{dict(dev_scores.get(k, {}))}, the models are {list(trained)}"
        )
    return sorted(trained, key=lambda model: -dev_scores[k][model])


def _given(
    ensembles: Mapping[int, Sequence[int | None]], have: Sequence[int | None], ks: Sequence[int]
) -> dict[int, Members]:
    missing = [k for k in ks if k not in ensembles]
    if missing:
        raise ValueError(f"ensembles must name models for every k in thresholds; nothing for {missing}")
    for k, members in ensembles.items():
        unknown = [member for member in members if member not in have]
        if unknown or not members or len(set(members)) < len(members):
            raise ValueError(
                f"ensembles name models of the set, {list(have)}, each once; got {list(members)} for k={k}"
            )
    return {k: tuple(members) for k, members in ensembles.items()}
