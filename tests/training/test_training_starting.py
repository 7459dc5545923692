from typing import Any

import pytest
import torch

from training import starting
from training.data import prepare
from training.options import parse_config
from training.starting import make_model


@pytest.mark.parametrize("std", [0.02, 0.08])
def test_embeddings_are_spread_whatever_the_layers_are(settings: dict[str, Any], std: float) -> None:
    config = parse_config({**settings, "model": {**settings["model"], "init_std": std}}, "x.yaml")
    tokenizer = prepare(config.data, config.tokenizer).tokenizer
    torch.manual_seed(0)
    model = make_model(config, 3, tokenizer, None)
    table = model.get_input_embeddings().weight
    assert table.std().item() == pytest.approx(32**-0.5, rel=0.05)
    assert not table[tokenizer.pad_token_id].any()
    assert table.data_ptr() == model.lm_head.weight.data_ptr()  # still tied
    assert model.model.encoder.layers[0].fc1.weight.std().item() == pytest.approx(std, rel=0.1)


def test_memory_is_left_alone_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting.sys, "platform", "darwin")
    monkeypatch.setattr(starting.ctypes, "CDLL", lambda _: pytest.fail("not here"))
    starting.keep_freed_memory()
