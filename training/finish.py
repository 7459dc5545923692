"""Leaves a finished run as a folder anyone can load: weights, tokeniser, a card with the facts, the facts as JSON.

Knows what a checkpoint folder looks like to Hugging Face; nothing of how the model was trained.
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_simultaneous import cards, hub

from .checked import InputError
from .scoring import Scores


FACTS = cards.TRAINING
CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Facts:
    """What is known of a finished run."""

    k: int | str
    steps: int
    best_step: int
    dev_loss: float
    seed: int
    init_from: str | None
    parameters: int
    seconds: float
    data: str
    cleaning: dict[str, str]
    scores: dict[str, dict[str, Scores]]
    """By split, then by policy: `wait-3`, `full`."""
    history: list[dict[str, Any]]
    config: dict[str, Any]
    stopped_early: bool = False


def read_facts(folder: Path) -> dict[str, Any] | None:
    """The facts of a finished run; None while there is none."""
    try:
        return json.loads((folder / FACTS).read_text())
    except (FileNotFoundError, ValueError):
        return None


def save_finished(
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    facts: Facts,
    state_dict: dict[str, Any] | None = None,
) -> None:
    """Write everything beside, then move it in; the facts last, because they say that the rest is there."""
    beside = folder / "finished.tmp"
    shutil.rmtree(beside, ignore_errors=True)
    model.save_pretrained(beside, state_dict=state_dict)
    tokenizer.save_pretrained(beside)
    (beside / FACTS).write_text(json.dumps(asdict(facts), indent=2, ensure_ascii=False))
    if not cards.hand_edited(folder):
        cards.write_card(beside)
    names = sorted(os.listdir(beside), key=lambda name: name == FACTS)
    (folder / FACTS).unlink(missing_ok=True)
    for name in names:
        os.replace(beside / name, folder / name)
    beside.rmdir()


def push(folder: Path, name: str) -> str:
    """Share a finished folder, as `hf-simultaneous push` does; returns where it is."""
    try:
        return hub.push(hub.Request(folder=folder, repo=name))[-1]
    except (ValueError, OSError) as error:
        raise InputError(f"{folder} is finished, but was not shared: {error}") from error
