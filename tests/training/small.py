"""A small training: its configuration, and the command that runs it."""

from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import yaml

from training.train_wait_k import main


def small_settings(text: Path) -> dict[str, Any]:
    """A configuration that trains a few steps a second, as YAML would hold it."""
    files = {
        split: [str(text / f"{split}.de"), str(text / f"{split}.en")] for split in ("train", "dev")
    }
    small = {
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
    }
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    return {
        "data": {**files, "cache": str(text / "cache")},
        "tokenizer": {"vocab_size": 500},
        "model": {**small, **heads, "dropout": 0.1, "max_position_embeddings": 128},
        "training": {
            "max_steps": 12,
            "learning_rate": 5e-3,
            "warmup_steps": 4,
            "batch_tokens": 400,
            "batches_per_step": 2,
            "evaluate_every": 5,
        },
        "finetune": {"max_steps": 4},
    }


def run_training(
    folder: Path, values: dict[str, Any], k: int | str, output: Path, *more: str
) -> int:
    """The command, in this process, its configuration written into `folder`; gives its exit
    code."""
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(values))
    return main(["--config", str(config), "--k", str(k), "--output", str(output), *more])


def run_here(command: list[str], **_: Any) -> CompletedProcess[str]:
    """Stands in for subprocess.run: the command that trains a model, but in this process."""
    arguments = command[command.index("training.train_wait_k") + 1 :]
    return CompletedProcess(command, main(arguments))
