"""What the tests of the training scripts share: a small data set on disk, a small configuration,
and quick runs."""

import os


os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
import yaml

from training.toy import toy_pairs
from training.train_wait_k import main


@pytest.fixture(scope="session", autouse=True)
def quiet() -> None:
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    logging.getLogger("datasets").setLevel(logging.ERROR)


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Aligned files of the toy language: train.de, train.en, dev.de, dev.en; `cache` beside
    them."""
    folder = tmp_path_factory.mktemp("text")
    pairs = toy_pairs(412, seed=7)
    for split, rows in (("train", pairs[:400]), ("dev", pairs[400:])):
        (folder / f"{split}.de").write_text(
            "".join(f"{pair.source}\n" for pair in rows), encoding="utf-8"
        )
        (folder / f"{split}.en").write_text(
            "".join(f"{pair.target}\n" for pair in rows), encoding="utf-8"
        )
    return folder


@pytest.fixture
def settings(text: Path) -> dict[str, Any]:
    """A configuration that trains a few steps a second, as YAML would hold it; tests change what
    they are about."""
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


@pytest.fixture
def config_file(tmp_path: Path) -> Callable[[dict[str, Any]], str]:
    def write(values: dict[str, Any]) -> str:
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(values))
        return str(path)

    return write


@pytest.fixture
def train(config_file: Callable[[dict[str, Any]], str]) -> Callable[..., int]:
    """The command, in this process: `train(settings, k, folder, "--max-steps", "3")` gives its exit
    code."""

    def run(values: dict[str, Any], k: int | str, output: Path, *more: str) -> int:
        return main(
            ["--config", config_file(values), "--k", str(k), "--output", str(output), *more]
        )

    return run
