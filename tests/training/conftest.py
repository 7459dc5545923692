"""What the tests of the training scripts share: a small data set on disk, a small configuration,
and quick runs."""

import os


os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
import yaml

from tests.training.small import run_training, small_settings
from training.toy import toy_pairs


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
    """`small_settings`; tests change what they are about."""
    return small_settings(text)


@pytest.fixture
def config_file(tmp_path: Path) -> Callable[[dict[str, Any]], str]:
    def write(values: dict[str, Any]) -> str:
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(values))
        return str(path)

    return write


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., int]:
    """The command, in this process: `train(settings, k, folder, "--max-steps", "3")` gives its exit
    code."""
    return partial(run_training, tmp_path)


@pytest.fixture
def aligned(tmp_path: Path) -> Callable[[Sequence[tuple[str, str]]], list[str]]:
    """Pairs in two files, as the options of a command that reads them."""

    def write(pairs: Sequence[tuple[str, str]]) -> list[str]:
        options = []
        for side, option in enumerate(("source", "reference")):
            file = tmp_path / option
            file.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
            options += [f"--{option}", str(file)]
        return options

    return write
