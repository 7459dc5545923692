"""Fills the cards: what the files of a model or set say of it, as text for people and as metadata for the hub.

Knows those files and the templates in `hub_cards/`, nothing of models. What no file says is "not stated".
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData

from .sets import CONFIG_NAME as SET
from .version import __version__


NAME = "user/name"
"""Stands for the repository until a card is pushed to one."""
UNKNOWN = "not stated"
CARD, STATED, TRAINING = "README.md", "card.yaml", "training.json"
METRICS = {"bleu": ("BLEU", 2), "chrf": ("chrF", 2), "al": ("AL", 3), "laal": ("LAAL", 3)}
SMALL = 100_000_000  # parameters; the paper's models have 61 million
TAGS = ["simultaneous-translation", "wait-k"]


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What people say of a model, in `card.yaml`; it beats what its files say."""

    title: str | None = None
    source_language: str | None = None
    target_language: str | None = None
    licence: str | None = None
    """Of the weights: one of the hub's identifiers, such as apache-2.0 or cc-by-4.0."""
    data: str | None = None
    data_licence: str | None = None
    attribution: str | None = None
    """Whom the licence of the data asks to be named."""
    intended_use: str | None = None
    limits: str | None = None
    scores: Mapping[str, str] = field(default_factory=dict)
    """By what was translated, such as `Tatoeba test`: the `scores.json` of `hf-simultaneous evaluate`."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            wanted = Mapping if name == "scores" else str
            if value is not None and not isinstance(value, wanted):
                raise ValueError(f"{name} must be {'names and files' if name == 'scores' else 'text'}; got {value!r}")


@dataclass(frozen=True)
class Result:
    """One row of the results; `values` and `signatures` by the names in `METRICS`."""

    data: str
    policy: str
    sentences: int | None
    values: Mapping[str, float]
    signatures: Mapping[str, str]

    @property
    def row(self) -> list[str]:
        numbers = [_number(self.values.get(name), digits) for name, (_, digits) in METRICS.items()]
        return [_cell(value) for value in (self.data, self.policy, *numbers, self.sentences)]


def write_card(folder: str | Path, stated: Stated | None = None, *, overwrite: bool = False) -> Path:
    """Write the card of a set or checkpoint into its folder."""
    path = Path(folder) / CARD
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} is there already, maybe with edits; --force writes it anew")
    card_of(folder, stated).save(path)
    return path


def hand_edited(folder: Path) -> bool:
    """Is there a card that these facts alone would not give?"""
    path = folder / CARD
    try:
        return path.exists() and path.read_text(encoding="utf-8") != str(card_of(folder))
    except (ValueError, OSError):
        return True  # nobody can tell


def card_of(folder: str | Path, stated: Stated | None = None) -> ModelCard:
    """The card of a set or a checkpoint."""
    folder = Path(folder)
    if stated is None:
        stated = read_stated(folder / STATED) if (folder / STATED).exists() else Stated()
    if (folder / SET).exists():
        return _set_card(folder, stated)
    if not (folder / "config.json").exists():
        raise FileNotFoundError(f"{folder} holds neither a set ({SET}) nor a checkpoint (config.json)")
    return _model_card(folder, stated)


def read_stated(path: str | Path) -> Stated:
    """What a YAML (or JSON) file says; the files it names are looked for beside it."""
    path = Path(path)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}; it may hold {', '.join(_names())}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {error}") from None
    unknown = [name for name in values if name not in _names()] if isinstance(values, dict) else [values]
    if unknown:
        raise ValueError(f"{path} may hold {', '.join(_names())}; got {unknown[0]!r}")
    try:
        stated = Stated(**values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return replace(stated, scores={name: str(path.parent / place) for name, place in stated.scores.items()})


def space_files(repo: str) -> dict[str, bytes]:
    """A Space that shows the set of this name."""
    return {name: _render(f"space/{name}", set=repo).encode() for name in (CARD, "app.py", "requirements.txt")}


def _names() -> list[str]:
    return [one.name for one in fields(Stated)]


def _model_card(folder: Path, stated: Stated) -> ModelCard:
    config, training = _read(folder / "config.json"), _read(folder / TRAINING)
    stated = _completed(stated, training)
    k = training.get("k", config.get("wait_k"))
    title = _title(stated, None if k is None else _policy(k))
    results = [*_training_results(training), *_results(stated)]
    facts = [("trained for", _policy(k)), *_shape(config), *_run(training)]
    return ModelCard.from_template(
        _metadata(stated, title, results),
        template_str=_template("model_card.md"),
        title=title,
        pair=_pair(stated),
        k=config.get("wait_k"),
        facts=_cells(facts),
        common=_common(stated, results, [training]),
    )


def _set_card(folder: Path, stated: Stated) -> ModelCard:
    saved = _read(folder / SET)
    places = {name: place.get("folder") for name, place in saved["members"].items()}
    members = {name: folder / place for name, place in places.items() if place is not None}
    trainings = {name: _read(place / TRAINING) for name, place in members.items()}
    for training in trainings.values():
        stated = _completed(stated, training)
    configs = {name: _read(place / "config.json") for name, place in members.items()}
    title, results = _title(stated, "adaptive wait-k"), _results(stated)
    root = _read(folder / "config.json")
    facts = [*_policy_facts(saved), *_shape(root)]
    return ModelCard.from_template(
        _metadata(stated, title, results, ["custom_generate"]),
        template_str=_template("set_card.md"),
        title=title,
        pair=_pair(stated),
        custom_generate=_render("custom_generate.md"),
        members=[_member(name, configs.get(name, {}), trainings.get(name, {})) for name in places],
        facts=_cells(facts),
        common=_common(stated, results, list(trainings.values()), members=True),
    )


def _completed(stated: Stated, training: Mapping[str, Any]) -> Stated:
    """What people did not say, from the facts of a run."""
    data = training.get("config", {}).get("data", {})
    known = {
        "source_language": data.get("source_language"),
        "target_language": data.get("target_language"),
        "data": training.get("data"),
        "data_licence": data.get("licence"),
        "attribution": data.get("attribution"),
    }
    return replace(stated, **{name: value for name, value in known.items() if getattr(stated, name) is None})


def _policy(k: int | str | None) -> str:
    """What a model was trained for; that a checkpoint names no k may mean full sentences, every k, or nothing."""
    names: dict[int | str | None, str] = {None: UNKNOWN, "full": "full sentences", "multi": "every k at once"}
    return names.get(k, f"wait-{k}")


def _title(stated: Stated, what: str | None) -> str:
    pair = f"{stated.source_language}-{stated.target_language}" if stated.source_language else None
    return stated.title or ", ".join(part for part in ("Simultaneous translation", pair, what) if part)


def _pair(stated: Stated) -> str:
    return f" from {stated.source_language} to {stated.target_language}" if stated.source_language else ""


def _shape(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    layers = [config.get(f"{side}_layers") for side in ("encoder", "decoder")]
    return [
        ("encoder", config.get("encoder_attention")),
        ("layers", f"{layers[0]} in the encoder, {layers[1]} in the decoder" if all(layers) else None),
        ("width", config.get("d_model")),
        ("vocabulary", config.get("vocab_size")),
        ("catch-up", config.get("catchup") or "off"),
    ]


def _run(training: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """How one model was trained."""
    best = "{steps}, best at {best_step} by dev loss ({dev_loss:.4f})"
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
    """A repository by its name, a folder by its last part: where it lies is the business of whoever trained it."""
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


def _thresholds(rhos: Mapping[str, float]) -> str:
    return ", ".join(f"{k}: {rho:.3g}" for k, rho in rhos.items())


def _member(name: str, config: Mapping[str, Any], training: Mapping[str, Any]) -> list[str]:
    scores = [f"{r.data}, {r.policy}: BLEU {r.row[2]}, AL {r.row[4]}" for r in _training_results(training)]
    told = {**training, "start": _start(training)}
    values = (
        name if name == "full" else f"wait-{name}",
        config.get("encoder_attention"),
        _said("{parameters:,}", training),
        _said("{steps} steps from {start}", told),
        "; ".join(scores) or None,
    )
    return [_cell(value) for value in values]


def _training_results(training: Mapping[str, Any]) -> list[Result]:
    """The scores a run ends with."""
    found = []
    for split, policies in training.get("scores", {}).items():
        for policy, s in policies.items():
            signatures = {"bleu": s["bleu_signature"], "al": s["al_signature"]}
            found.append(Result(split, policy, s["sentences"], {"bleu": s["bleu"], "al": s["al"]}, signatures))
    return found


def _results(stated: Stated) -> list[Result]:
    """What `hf-simultaneous evaluate` has found."""
    found = []
    for data, place in stated.scores.items():
        scores = _read(Path(place), needed=("bleu", "al", "sentences", "signatures"))
        values = {name: scores[name] for name in METRICS if name in scores}
        signatures = {name: scores["signatures"].get(name, UNKNOWN) for name in values}
        found.append(Result(data, scores.get("policy", UNKNOWN), scores["sentences"], values, signatures))
    return found


def _metadata(stated: Stated, title: str, results: Sequence[Result], tags: Iterable[str] = ()) -> ModelCardData:
    languages = [code for code in (stated.source_language, stated.target_language) if code]
    evaluations = [one for result in results for one in _evaluations(result)]
    return ModelCardData(
        language=languages or None,
        license=stated.licence,
        library_name="hf_simultaneous",
        pipeline_tag="translation",
        tags=[*TAGS, *tags],
        model_name=title if evaluations else None,
        eval_results=evaluations or None,
        metrics=["bleu"] if evaluations else None,
    )


def _evaluations(result: Result) -> list[EvalResult]:
    # The hub tells corpora apart by type, config and split; ours are seldom datasets of the hub, hence the config.
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
    stated: Stated, results: Sequence[Result], trainings: Sequence[Mapping[str, Any]], *, members: bool = False
) -> str:
    sizes = [training["parameters"] for training in trainings if "parameters" in training]
    return _render(
        "common.md",
        results=[result.row for result in results],
        signatures=list(dict.fromkeys(signature for result in results for signature in result.signatures.values())),
        origin=_cells(_origin(stated, next(iter(trainings), {}))),
        intended_use=stated.intended_use,
        limits=stated.limits,
        size=f"{max(sizes):,}" if sizes and max(sizes) < SMALL else None,
        members=members,
        version=__version__,
    )


def _cells(rows: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(name, _cell(value)) for name, value in rows]


def _cell(value: Any) -> str:
    """A value in a table, whose bars and line ends would break it."""
    return UNKNOWN if value is None else " ".join(str(value).split()).replace("|", "\\|")


def _number(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


def _read(path: Path, needed: Sequence[str] = ()) -> dict[str, Any]:
    """The facts in a JSON file; none where there is no such file and none are needed."""
    if not path.exists() and not needed:
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        missing = [name for name in needed if name not in values]
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}; hf-simultaneous evaluate writes scores.json") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} holds no facts: {error}") from None
    if missing or not isinstance(values, dict):
        raise ValueError(f"{path} holds no facts of the kind that is wanted; {', '.join(missing) or 'names'} missing")
    return values


def _template(name: str) -> str:
    return files(f"{__package__}.hub_cards").joinpath(*name.split("/")).read_text(encoding="utf-8")


def _render(name: str, **values: Any) -> str:
    from jinja2 import Template

    return str(Template(_template(name)).render(**values))
