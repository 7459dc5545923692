"""Leaves a finished run as a folder anyone can load: weights, tokeniser, a card with the facts, the
facts as JSON.

Knows what a checkpoint folder looks like to Hugging Face; nothing of how the model was trained.
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.sharing import cards, hub

from .checked import InputError
from .options import TrainedK
from .stock import is_stock


FACTS = cards.TRAINING
CHECKPOINTS = "checkpoints"
NEEDED = {"scores", "steps", "seconds"}
"""Facts without these are damaged."""


@dataclass(frozen=True)
class Facts:
    """What is known of a finished run."""

    k: TrainedK
    steps: int
    best_step: int
    dev_loss: float
    seed: int
    init_from: str | None
    parameters: int
    seconds: float
    data: str
    cleaning: dict[str, str]
    scores: dict[str, dict[str, dict[str, Any]]]
    """By split, then by policy (`wait-3`, `full`): what `hf-simultaneous evaluate` would write."""
    history: list[dict[str, Any]]
    config: dict[str, Any]
    stopped_early: bool = False
    averaged: list[int] = field(default_factory=list)
    """The steps whose mean the weights are; empty for the weights of one step."""
    ema: float | None = None
    """Set where the weights are an exponential mean."""


def read_facts(folder: Path) -> dict[str, Any] | None:
    """The facts of a finished run; None while there is none, or where they are damaged: the run
    then finishes again from its last checkpoint."""
    try:
        facts = json.loads((folder / FACTS).read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) and facts.keys() >= NEEDED else None


def save_finished(
    folder: Path,
    generator: AdaptiveWaitKGenerator,
    facts: Facts,
    state_dict: dict[str, Any] | None = None,
) -> None:
    """Write everything beside, then move it in; the facts last, because they say that the rest is
    there. A checkpoint of another family than ours says of itself neither its k nor its languages,
    so it is left as a set of one."""
    beside = folder / "finished.tmp"
    shutil.rmtree(beside, ignore_errors=True)
    if is_stock(generator.model.config):
        generator.save_pretrained(beside, state_dict=state_dict)
    else:
        generator.model.save_pretrained(beside, state_dict=state_dict)
        assert generator.tokenizer is not None
        generator.tokenizer.save_pretrained(beside)
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
        return hub.push(hub.PushRequest(folder=folder, repo=name))[-1]
    except (ValueError, OSError) as error:
        raise InputError(f"{folder} is finished, but was not shared: {error}") from error
