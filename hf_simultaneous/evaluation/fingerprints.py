"""What tells one experiment from another: its models and what they are given, as one number.

Knows the files of a set; not what they mean, nor what is done with the number."""

import hashlib
import json
from pathlib import Path
from typing import Any

from ..places import CONFIG_NAME
from ..sets import saved_config


DECODING = (".json", ".safetensors", ".spm", ".model")
"""Files that may change what is decoded, but for `BESIDE`: what was told of a run or is kept for
choosing ensembles, and the set's own config, of which an experiment says what it depends on."""
BESIDE = (CONFIG_NAME, "training.json", "run.json", "dev_grid.json")


def fingerprint(folder: Path, inputs: Any) -> str:
    """Changes with the models of a set, whether it holds or names them, with their configs, weights
    and tokenizers, and with what they are given."""
    saved = saved_config(folder)
    members = {str(k): place for k, place in saved["members"].items()}
    given = [inputs, members, saved["quantize"]]
    digest = hashlib.sha256(json.dumps(given, sort_keys=True).encode())
    held = {place["folder"] for place in members.values() if "folder" in place}
    for place in sorted({".", *held}):
        for path in sorted((folder / place).iterdir()):
            if path.suffix in DECODING and path.name not in BESIDE:
                digest.update(f"{place}/{path.name}".encode() + path.read_bytes())
    return digest.hexdigest()
