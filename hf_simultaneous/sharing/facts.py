"""What is known of a model or a set: what people state in `card.yaml`, what its run wrote down,
what an evaluation found.

Knows those files and how a value looks in a table; not the cards that are made of them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml


UNKNOWN = "not stated"
METRICS = {"bleu": ("BLEU", 2), "chrf": ("chrF", 2), "al": ("AL", 3), "laal": ("LAAL", 3)}


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
    """By what was translated, such as `Tatoeba test`: the `scores.json` of `hf-simultaneous
    evaluate`."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "scores" and value is not None and not isinstance(value, str):
                raise ValueError(f"{name} must be text; got {value!r}")
        if not _names_files(self.scores):
            raise ValueError(f"scores must be names and files; got {self.scores!r}")


def _names_files(scores: Any) -> bool:
    return isinstance(scores, Mapping) and all(
        isinstance(part, str) for entry in scores.items() for part in entry
    )


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
        return [cell(value) for value in (self.data, self.policy, *numbers, self.sentences)]


def read_stated(path: str | Path) -> Stated:
    """What a YAML (or JSON) file says; the files it names are looked for beside it."""
    path = Path(path)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no file {path}; it may hold {', '.join(_names())}"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {error}") from None
    unknown = (
        [name for name in values if name not in _names()] if isinstance(values, dict) else [values]
    )
    if unknown:
        raise ValueError(f"{path} may hold {', '.join(_names())}; got {unknown[0]!r}")
    try:
        stated = Stated(**{name: value for name, value in values.items() if value is not None})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return replace(
        stated, scores={name: str(path.parent / place) for name, place in stated.scores.items()}
    )


def _names() -> list[str]:
    return [one.name for one in fields(Stated)]


def completed(stated: Stated, training: Mapping[str, Any]) -> Stated:
    """What people did not say, from the facts of a run."""
    data = training.get("config", {}).get("data", {})
    known = {
        "source_language": data.get("source_language"),
        "target_language": data.get("target_language"),
        "data": training.get("data"),
        "data_licence": data.get("licence"),
        "attribution": data.get("attribution"),
    }
    return replace(
        stated, **{name: value for name, value in known.items() if getattr(stated, name) is None}
    )


def training_results(training: Mapping[str, Any]) -> list[Result]:
    """The scores a run ends with."""
    return [
        _result(split, policy, scores)
        for split, policies in training.get("scores", {}).items()
        for policy, scores in policies.items()
    ]


def evaluated_results(stated: Stated) -> list[Result]:
    """What `hf-simultaneous evaluate` has found."""
    found = []
    for data, place in stated.scores.items():
        scores = read_facts(Path(place), needed=("bleu", "al", "sentences", "signatures"))
        found.append(_result(data, scores.get("policy", UNKNOWN), scores))
    return found


def _result(data: str, policy: str, scores: Mapping[str, Any]) -> Result:
    values = {name: scores[name] for name in METRICS if name in scores}
    # The facts of a run once had a signature beside each score, under a name of its own.
    known = scores.get("signatures") or {
        name: scores[f"{name}_signature"] for name in values if f"{name}_signature" in scores
    }
    signatures = {name: known.get(name, UNKNOWN) for name in values}
    return Result(data, policy, scores["sentences"], values, signatures)


def cells(rows: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(name, cell(value)) for name, value in rows]


def cell(value: Any) -> str:
    """A value in a table, whose bars and line ends would break it."""
    return UNKNOWN if value is None else " ".join(str(value).split()).replace("|", "\\|")


def _number(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


def read_facts(path: Path, needed: Sequence[str] = ()) -> dict[str, Any]:
    """The facts in a JSON file; none where there is no such file and none are needed."""
    if not path.exists() and not needed:
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        missing = [name for name in needed if name not in values]
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no file {path}; hf-simultaneous evaluate writes scores.json"
        ) from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} holds no facts: {error}") from None
    if missing or not isinstance(values, dict):
        raise ValueError(
            f"{path} holds no facts of the kind that is wanted; {', '.join(missing) or 'names'} "
            f"missing"
        )
    return values
