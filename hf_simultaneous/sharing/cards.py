"""Fills the cards: what the files of a model or set say of it, as text for people and as metadata
for the hub.

Knows what `facts` found and the templates in `hub_cards/`, nothing of models. What no file says is
"not stated"."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from ..places import CONFIG_NAME as SET
from ..places import is_set
from ..sets import policy_name, read_set_config, saved_k
from ..version import __version__
from .facts import (
    METRICS,
    UNKNOWN,
    Result,
    Stated,
    cell,
    cells,
    completed,
    evaluated_results,
    read_facts,
    read_stated,
    training_results,
)


NAME = "user/name"
"""Stands for the repository until a card is pushed to one."""
CARD = "README.md"
STATED = "card.yaml"
TRAINING = "training.json"
OURS = "simultaneous-mt"
SMALL = 100_000_000  # parameters; the paper's models have 61 million
TAGS = ["simultaneous-translation", "wait-k"]


def write_card(
    folder: str | Path, stated: Stated | None = None, *, overwrite: bool = False
) -> Path:
    """Write the card of a set or checkpoint into its folder; one that was edited stays, unless
    `overwrite` is set."""
    path = Path(folder) / CARD
    if not overwrite and hand_edited(Path(folder), stated):
        raise FileExistsError(f"{path} has edits that would be lost; --force writes it anew")
    card_of(folder, stated).save(path)
    return path


def renew_card(folder: str | Path, before: Mapping[str, Any]) -> None:
    """Let the card of a set, if it has one, tell the thresholds of now where it told those of the
    config `before`; whatever else stands in it, people may have written."""
    path = Path(folder) / CARD
    if not path.exists():
        return
    text = path.read_text(encoding="utf-8")
    told, true = (cells(_policy_facts(saved)) for saved in (before, read_set_config(folder)))
    for (name, old), (_, new) in zip(told, true, strict=True):
        text = text.replace(f"| {name} | {old} |\n", f"| {name} | {new} |\n")
    path.write_text(text, encoding="utf-8")


def hand_edited(folder: Path, stated: Stated | None = None) -> bool:
    """Is there a card that the facts in the folder would not give, nor these with them?"""
    path = folder / CARD
    try:
        if not path.exists():
            return False
        made = [card_of(folder), card_of(folder, stated)]
        return path.read_text(encoding="utf-8") not in map(str, made)
    except (ValueError, OSError):
        return True  # nobody can tell


def card_of(folder: str | Path, stated: Stated | None = None) -> ModelCard:
    """The card of a set or a checkpoint."""
    folder = Path(folder)
    if stated is None:
        stated = read_stated(folder / STATED) if (folder / STATED).exists() else Stated()
    if is_set(folder):
        return _set_card(folder, stated)
    if not (folder / "config.json").exists():
        raise FileNotFoundError(
            f"{folder} holds neither a set ({SET}) nor a checkpoint (config.json)"
        )
    return _model_card(folder, stated)


def space_files(repo: str) -> dict[str, bytes]:
    """A Space that shows the set of this name."""
    return {
        name: _render(f"space/{name}", set=repo).encode()
        for name in (CARD, "app.py", "requirements.txt")
    }


def _model_card(folder: Path, stated: Stated) -> ModelCard:
    config, training = read_facts(folder / "config.json"), read_facts(folder / TRAINING)
    stated = completed(stated, training)
    k = training.get("k", config.get("wait_k"))
    title = _title(stated, None if k is None else _policy(k))
    results = [*training_results(training), *evaluated_results(stated)]
    facts = [("trained for", _policy(k)), *_shape(config), *_run(training)]
    return ModelCard.from_template(
        _metadata(stated, title, results),
        template_str=_template("model_card.md"),
        title=title,
        pair=_pair(stated),
        k=config.get("wait_k"),
        facts=cells(facts),
        common=_common(stated, results, [training]),
    )


def _set_card(folder: Path, stated: Stated) -> ModelCard:
    saved = read_set_config(folder)
    places = {name: place.get("folder") for name, place in saved["members"].items()}
    named = _named(saved)
    stated = replace(
        stated,
        source_language=stated.source_language or saved.get("source_language"),
        target_language=stated.target_language or saved.get("target_language"),
    )
    members = {name: folder / place for name, place in places.items() if place is not None}
    trainings = {name: read_facts(place / TRAINING) for name, place in members.items()}
    for training in trainings.values():
        stated = completed(stated, training)
    configs = {name: read_facts(place / "config.json") for name, place in members.items()}
    title, results = _title(stated, "adaptive wait-k"), evaluated_results(stated)
    root = read_facts(folder / "config.json")
    facts = [*_policy_facts(saved), *(() if named else _shape(root))]
    code = not named and root.get("model_type", OURS) == OURS  # which brings it along
    return ModelCard.from_template(
        _metadata(
            stated,
            title,
            results,
            ["custom_generate"] if code else [],
            base_model=sorted(
                {place["repo"] for place in saved["members"].values() if "repo" in place}
            ),
        ),
        template_str=_template("set_card.md"),
        named=named,
        code=code,
        title=title,
        pair=_pair(stated),
        custom_generate=_render("custom_generate.md"),
        members=[_member(name, configs.get(name, {}), trainings.get(name, {})) for name in places],
        facts=cells(facts),
        common=_common(stated, results, list(trainings.values()), members=True),
    )


def _named(saved: Mapping[str, Any]) -> dict[str, str]:
    """The commit of each model that a set names instead of holding it, by repository; none where it
    holds one."""
    places = saved["members"].values()
    if any("repo" not in place for place in places):
        return {}
    return {place["repo"]: place.get("revision", "main") for place in places}


def _policy(k: int | str | None) -> str:
    """What a model was trained for; that a checkpoint names no k may mean full sentences, every k,
    or nothing."""
    names: dict[int | str | None, str] = {
        None: UNKNOWN,
        "full": "full sentences",
        "multi": "every k at once",
    }
    return names[k] if k in names else policy_name(saved_k(str(k)))


def _title(stated: Stated, what: str | None) -> str:
    pair = f"{stated.source_language}-{stated.target_language}" if stated.source_language else None
    return stated.title or ", ".join(
        part for part in ("Simultaneous translation", pair, what) if part
    )


def _pair(stated: Stated) -> str:
    return (
        f" from {stated.source_language} to {stated.target_language}"
        if stated.source_language
        else ""
    )


def _shape(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    layers = [config.get(f"{side}_layers") for side in ("encoder", "decoder")]
    return [
        ("encoder", config.get("encoder_attention")),
        (
            "layers",
            f"{layers[0]} in the encoder, {layers[1]} in the decoder" if all(layers) else None,
        ),
        ("width", config.get("d_model")),
        ("vocabulary", config.get("vocab_size")),
        ("catch-up", config.get("catchup") or "off"),
    ]


def _run(training: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """How one model was trained."""
    best = "{steps}, best at {best_step} by dev loss ({dev_loss:.4f})"
    averaged = len(training.get("averaged", []))
    if averaged or training.get("ema"):
        of = f"{averaged} checkpoints" if averaged else "all weights, {ema} a step"
        best = f"{{steps}}, the mean of {of}"
    return [
        ("parameters", _said("{parameters:,}", training)),
        ("steps", _said(best, training) or training.get("steps")),
        ("seed", training.get("seed")),
        ("started from", _start(training)),
        ("time", _said("{seconds:.0f} seconds", training)),
    ]


def _said(text: str, facts: Mapping[str, Any]) -> str | None:
    """The text with its facts, if all of them are known."""
    try:
        return text.format_map(facts)
    except KeyError:
        return None


def _start(training: Mapping[str, Any]) -> str | None:
    if "init_from" not in training:
        return None
    return _place(training["init_from"]) if training["init_from"] else "random weights"


def _origin(stated: Stated, training: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs = training.get("cleaning", {}).items()
    return [
        ("training data", stated.data),
        *((f"{split} set", kept) for split, kept in pairs),
        ("licence of the data", stated.data_licence),
        ("attribution", stated.attribution),
        ("licence of the weights", stated.licence),
    ]


def _place(name: str) -> str:
    """A repository by its name, a folder by its last part: where it lies is the business of whoever
    trained it."""
    return name if name.count("/") == 1 and not Path(name).exists() else Path(name).name


def _policy_facts(saved: Mapping[str, Any]) -> list[tuple[str, Any]]:
    points = "; ".join(f"{name} ({_thresholds(rhos)})" for name, rhos in saved["latencies"].items())
    averaged = "; ".join(f"k={k}: {', '.join(models)}" for k, models in saved["ensembles"].items())
    return [
        ("thresholds", _thresholds(saved["thresholds"])),
        ("operating points", points or "none"),
        ("models asked at k", averaged),
        ("early stops", "allowed" if saved["early_stop"] else "not allowed"),
        ("history", saved["history"]),
    ]


def _thresholds(rhos: Mapping[str, float] | None) -> str:
    if rhos is None:
        return "none: local agreement unless a policy is named"
    return ", ".join(f"{k}: {rho:.3g}" for k, rho in rhos.items())


def _member(name: str, config: Mapping[str, Any], training: Mapping[str, Any]) -> list[str]:
    scores = [
        f"{r.data}, {r.policy}: BLEU {r.row[2]}, AL {r.row[4]}" for r in training_results(training)
    ]
    told = {**training, "start": _start(training)}
    values = (
        policy_name(saved_k(name)),
        config.get("encoder_attention"),
        _said("{parameters:,}", training),
        _said("{steps} steps from {start}", told),
        "; ".join(scores) or None,
    )
    return [cell(value) for value in values]


def _metadata(
    stated: Stated,
    title: str,
    results: Sequence[Result],
    tags: Iterable[str] = (),
    base_model: Sequence[str] = (),
) -> ModelCardData:
    codes = [code for code in (stated.source_language, stated.target_language) if code]
    languages = [code.split("_")[0] for code in codes]  # the hub knows deu, not deu_Latn
    evaluations = [one for result in results for one in _evaluations(result)]
    return ModelCardData(
        language=languages or None,
        license=stated.licence,
        base_model=list(base_model) or None,
        library_name="hf_simultaneous",
        pipeline_tag="translation",
        tags=[*TAGS, *tags],
        model_name=title if evaluations else None,
        eval_results=evaluations or None,
        metrics=["bleu"] if evaluations else None,
    )


def _evaluations(result: Result) -> list[EvalResult]:
    # The hub tells corpora apart by type, config and split; ours are seldom datasets of the hub,
    # hence the config.
    return [
        EvalResult(
            task_type="translation",
            task_name="Simultaneous translation",
            dataset_type="custom",
            dataset_name=result.data,
            dataset_config=result.data,
            metric_type=name,
            metric_name=f"{METRICS[name][0]} ({result.policy})",
            metric_value=round(value, METRICS[name][1]),
            metric_args={"signature": result.signatures[name]},
        )
        for name, value in result.values.items()
        if math.isfinite(value)
    ]


def _common(
    stated: Stated,
    results: Sequence[Result],
    trainings: Sequence[Mapping[str, Any]],
    *,
    members: bool = False,
) -> str:
    sizes = [training["parameters"] for training in trainings if "parameters" in training]
    return _render(
        "common.md",
        results=[result.row for result in results],
        signatures=list(
            dict.fromkeys(
                signature for result in results for signature in result.signatures.values()
            )
        ),
        origin=cells(_origin(stated, next(iter(trainings), {}))),
        intended_use=stated.intended_use,
        limits=stated.limits,
        size=f"{max(sizes):,}" if sizes and max(sizes) < SMALL else None,
        members=members,
        version=__version__,
    )


def _template(name: str) -> str:
    return files("hf_simultaneous.hub_cards").joinpath(*name.split("/")).read_text(encoding="utf-8")


def _render(name: str, **values: Any) -> str:
    from jinja2 import Template

    return str(Template(_template(name)).render(**values))
