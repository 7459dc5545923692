"""Leaves a finished run as a folder anyone can load: weights, tokeniser, a card with the facts, the facts as JSON.

Knows what a checkpoint folder looks like to Hugging Face; nothing of how the model was trained.
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, ModelCard, ModelCardData
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .scoring import Scores


FACTS = "training.json"
CHECKPOINTS = "checkpoints"

CARD = """---
{{ card_data }}
---

# {{ title }}

Simultaneous translation, {{ source }} to {{ target }}, made with
`python -m training.train_wait_k --k {{ k }}` of hf_simultaneous. This card holds the facts of the run; say here what
the model is for, and what it is not.

| | |
|---|---|
{% for name, value in facts %}| {{ name }} | {{ value }} |
{% endfor %}
| split | policy | BLEU | AL | sentences |
|---|---|---|---|---|
{% for split, policy, s in scores %}| {{ split }} | {{ policy }} | {{ s.bleu }} | {{ s.al }} | {{ s.sentences }} |
{% endfor %}
{% for signature in signatures %}`{{ signature }}`
{% endfor %}
```python
from hf_simultaneous import AdaptiveWaitKGenerator

translator = AdaptiveWaitKGenerator.from_pretrained("{{ name }}")
```
"""


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

    def table(self) -> list[tuple[str, Any]]:
        """The rows of the card."""
        kept = [(f"{split} data", text) for split, text in self.cleaning.items()]
        return [
            ("data", self.data),
            *kept,
            ("steps", f"{self.steps}, best at {self.best_step} by dev loss ({self.dev_loss:.4f})"),
            ("seed", self.seed),
            ("started from", self.init_from or "random weights"),
            ("parameters", f"{self.parameters:,}"),
            ("time", f"{self.seconds / 60:.1f} minutes"),
        ]


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
    _card(folder, facts).save(beside / "README.md")
    (beside / FACTS).write_text(json.dumps(asdict(facts), indent=2, ensure_ascii=False))
    names = sorted(os.listdir(beside), key=lambda name: name == FACTS)
    (folder / FACTS).unlink(missing_ok=True)
    for name in names:
        os.replace(beside / name, folder / name)
    beside.rmdir()


def push(folder: Path, name: str) -> str:
    """Share a finished folder, its checkpoints left out; returns where it is."""
    api = HfApi()
    repo = api.create_repo(name, exist_ok=True)
    api.upload_folder(repo_id=repo.repo_id, folder_path=folder, ignore_patterns=[f"{CHECKPOINTS}/*", "run.json"])
    return str(repo)


def _card(folder: Path, facts: Facts) -> ModelCard:
    data = facts.config["data"]
    languages = [data["source_language"], data["target_language"]]
    card_data = ModelCardData(
        language=languages,
        library_name="hf_simultaneous",
        pipeline_tag="translation",
        tags=["simultaneous-translation"],
    )
    scores = [(split, policy, s) for split, found in facts.scores.items() for policy, s in found.items()]
    signatures = dict.fromkeys(name for _, _, s in scores for name in (s.bleu_signature, s.al_signature))
    return ModelCard.from_template(
        card_data,
        template_str=CARD,
        title=f"{languages[0]}-{languages[1]}, {facts.k if isinstance(facts.k, str) else f'wait-{facts.k}'}",
        source=languages[0],
        target=languages[1],
        k=facts.k,
        name=folder.name,
        facts=facts.table(),
        scores=scores,
        signatures=list(signatures),
    )
