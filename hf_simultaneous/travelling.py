"""The code that travels with a set, so that it works where this package is not installed.

Knows which files that is and where transformers looks for them; nothing of what is in them."""

import json
import shutil
from pathlib import Path


# What `custom_generate` needs where this package is not installed.
CODE = (
    "actions",
    "adapters",
    "adapters_t5",
    "attention",
    "caches",
    "checks",
    "configuration_simultaneous",
    "custom_generation",
    "decoding_rules",
    "encoder_decoder",
    "ensembles",
    "families",
    "framing",
    "generation",
    "inputs",
    "lanes",
    "languages",
    "lean",
    "lean_t5",
    "live_sentence",
    "loading",
    "loop",
    "masks",
    "members",
    "modeling_simultaneous",
    "output_loss",
    "outputs",
    "packing",
    "places",
    "policies",
    "probe",
    "quantization",
    "quiet",
    "schedule",
    "sessions",
    "sets",
    "source_ids",
    "sources",
    "tail",
    "travelling",
)
# `pipeline` looks for its code in the root of the set, and for what it is called in config.json.
PIPELINE_CODE = (
    *CODE,
    "pauses",
    "pipelines",
    "sentences",
    "target_text",
    "text",
    "text_events",
    "text_session",
    "transcripts",
    "words",
)
CUSTOM_PIPELINES = {
    "simultaneous-translation": {
        "impl": "pipelines.SimultaneousTranslationPipeline",
        "pt": ["AutoModelForSeq2SeqLM"],
        "type": "text",
    }
}


def _copy_code(modules: tuple[str, ...], folder: Path) -> None:
    for module in modules:
        shutil.copy(Path(__file__).with_name(f"{module}.py"), folder / f"{module}.py")


def save_pipeline_code(folder: Path) -> None:
    """Put beside a set's config what `pipeline` needs, and name it there."""
    if not Path(__file__).with_name("pipelines.py").exists():
        return  # this file came here with `custom_generate`, which needs no pipeline
    _copy_code(PIPELINE_CODE, folder)
    path = folder / "config.json"
    config = {**json.loads(path.read_text(encoding="utf-8")), "custom_pipelines": CUSTOM_PIPELINES}
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def save_code(folder: Path) -> None:
    """Make `folder` the code of `custom_generate`."""
    folder.mkdir(exist_ok=True)
    _copy_code(CODE, folder)
    (folder / "generate.py").write_text(
        '"""The set\'s policy as `model.generate(custom_generate=...)`; '
        'the code beside it is hf_simultaneous."""\n\n'
        "from .custom_generation import generate\n",
        encoding="utf-8",
    )
