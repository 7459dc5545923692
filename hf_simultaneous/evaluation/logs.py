"""One line a sentence: what was read, written and when, as JSONL, so that every score can be
computed again.

Knows what a log holds and how it is written and read; computes no score and runs no model.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..words import source_words


@dataclass(frozen=True, kw_only=True)
class LoggedSentence:
    """One translated sentence. Lengths and delays are in tokens, `</s>` not counted, unless they
    say words.

    `actions` has an R for every READ and a W for every WRITE, `</s>` among them. `delays`,
    `contexts`, `lags` and `probabilities` have a value for each written token, as in
    `SimultaneousOutput`. `costs`, seconds before each action, is there for sentences that were
    timed; `word_delays` where tokens can be told apart into words."""

    index: int
    corpus_size: int
    """Sentences in the whole corpus, so that a log that was cut is noticed."""
    source: str
    references: tuple[str, ...]
    hypothesis: str
    actions: str
    delays: tuple[int, ...]
    contexts: tuple[int, ...]
    lags: tuple[int, ...]
    probabilities: tuple[float | None, ...]
    source_length: int
    reference_length: int
    """Of the first reference."""
    early_stop: bool = False
    word_delays: tuple[int, ...] | None = None
    costs: tuple[float, ...] | None = None
    decoding: str | None = None
    """How sentences end and tails are written (`Decoding.signature`); older logs do not say."""

    def __post_init__(self) -> None:
        for name in _LISTS:
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        counts = {
            name: len(getattr(self, name))
            for name in ("delays", "contexts", "lags", "probabilities")
        }
        if len(set(counts.values())) > 1:
            raise ValueError(
                f"sentence {self.index}: one value for each written token is needed; got {counts}"
            )
        if (
            list(self.delays)
            != read_before_writes(self.actions, self.source_length)[: len(self.delays)]
        ):
            raise ValueError(
                f"sentence {self.index}: delays {list(self.delays)} do not follow from "
                f"{self.actions!r}"
            )
        if self.costs is not None and len(self.costs) != len(self.actions):
            raise ValueError(
                f"sentence {self.index}: costs must have a time for each of the "
                f"{len(self.actions)} actions; "
                f"got {len(self.costs)}"
            )

    @property
    def reference(self) -> str:
        return self.references[0]

    def as_json(self) -> str:
        values = {key: value for key, value in asdict(self).items() if value is not None}
        return json.dumps(
            {"index": self.index, "reference": self.reference, **values}, ensure_ascii=False
        )


_LISTS = ("references", "delays", "contexts", "lags", "probabilities", "word_delays", "costs")
_NAMES = {field.name for field in fields(LoggedSentence)}
_OPTIONAL = {"early_stop", "word_delays", "costs", "decoding"}


def read_before_writes(actions: str, source_length: int) -> list[int]:
    """Source tokens read before each W; `</s>`, which is read too, is not counted."""
    read, delays = 0, []
    for action in actions:
        if action == "R":
            read += 1
        elif action == "W":
            delays.append(min(read, source_length))
        else:
            raise ValueError(f"actions are written with R and W; got {action!r} in {actions!r}")
    return delays


def write_log(path: str | Path, lines: Iterable[LoggedSentence]) -> None:
    """Write a log. It gets its name when it is complete, so a log of that name is never cut."""
    write_text(path, "".join(f"{line.as_json()}\n" for line in lines))


def write_text(path: str | Path, text: str) -> None:
    """A file that is either the old or the new one, never half of it."""
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f"{place.name}.tmp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(place)


def read_log(path: str | Path) -> list[LoggedSentence]:
    """The lines of a log, in the order of the corpus; refused if it is damaged or not all of it is
    there."""
    with open(path, encoding="utf-8") as file:
        lines = [_line(text, f"{path} line {number}") for number, text in enumerate(file, start=1)]
    if not lines:
        raise ValueError(f"{path} is empty; a log has one line for each sentence. Evaluate again")
    expected = lines[0].corpus_size
    if [line.index for line in lines] != list(range(expected)):
        raise ValueError(
            f"{path} must hold sentences 0 to {expected - 1}, each once and in order; got "
            f"{len(lines)} lines, the "
            f"last of sentence {lines[-1].index}. It was cut or mixed up: evaluate again"
        )
    return lines


def _line(text: str, place: str) -> LoggedSentence:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"{place} is not JSON ({error}): the log was cut or changed. Evaluate again"
        ) from None
    if isinstance(values, dict) and "sentences" in values:
        values["corpus_size"] = values.pop("sentences")  # its name in older logs
    missing = _NAMES - _OPTIONAL - set(values) if isinstance(values, Mapping) else _NAMES
    if missing:
        raise ValueError(
            f"{place} lacks {', '.join(sorted(missing))}; a log is written by evaluate()"
        )
    try:
        return LoggedSentence(**{name: value for name, value in values.items() if name in _NAMES})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from error


def write_instances(path: str | Path, lines: Sequence[LoggedSentence]) -> None:
    """`instances.log` as SimulEval and OmniSTEval read it: delays, lengths and predictions in
    words."""
    write_text(
        path, "".join(f"{json.dumps(_instance(line), ensure_ascii=False)}\n" for line in lines)
    )


def _instance(line: LoggedSentence) -> dict[str, Any]:
    if line.word_delays is None:
        raise ValueError(
            f"sentence {line.index} has no delays in words: its tokenizer or script does not tell "
            f"words apart"
        )
    return {
        "index": line.index,
        "prediction": line.hypothesis,
        "delays": list(line.word_delays),
        "elapsed": list(
            line.word_delays
        ),  # text has no clock of its own: what arrives, arrives with its word
        "prediction_length": len(line.word_delays),
        "reference": " ".join(line.reference.split()),
        "source": source_words(line.source),
        "source_length": len(source_words(line.source)),
    }
