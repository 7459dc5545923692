import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from training import starting, train_all, train_wait_k
from training.checked import InputError
from training.data import prepare
from training.finish import read_facts
from training.options import parse_config
from training.starting import check_folder, make_model


@pytest.mark.parametrize("std", [0.02, 0.08])
def test_embeddings_are_spread_whatever_the_layers_are(
    settings: dict[str, Any], std: float
) -> None:
    config = parse_config({**settings, "model": {**settings["model"], "init_std": std}}, "x.yaml")
    tokenizer = prepare(config.data, config.tokenizer).tokenizer
    torch.manual_seed(0)
    model = make_model(config, 3, tokenizer, None)
    table = model.get_input_embeddings().weight
    assert table.std().item() == pytest.approx(32**-0.5, rel=0.05)
    assert not table[tokenizer.pad_token_id].any()
    assert table.data_ptr() == model.lm_head.weight.data_ptr()  # still tied
    assert model.model.encoder.layers[0].fc1.weight.std().item() == pytest.approx(std, rel=0.1)


def test_all_that_is_trained_of_a_loaded_model_gets_a_gradient(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """Processes that share a model wait for the gradient of everything that asks for one."""
    config = parse_config(settings, "x.yaml")
    tokenizer = prepare(config.data, config.tokenizer).tokenizer
    make_model(config, 3, tokenizer, None).save_pretrained(tmp_path)
    model = make_model(config, 2, tokenizer, str(tmp_path))
    ids = torch.tensor([[5, 6, tokenizer.eos_token_id]])
    model(input_ids=ids, labels=ids).loss.backward()
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    assert [name for name, weight in trained.items() if weight.grad is None] == []
    assert len(trained) > 10


def test_memory_is_left_alone_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting.sys, "platform", "darwin")
    monkeypatch.setattr(starting.ctypes, "CDLL", lambda _: pytest.fail("not here"))
    starting.keep_freed_memory()


@pytest.mark.parametrize(
    ("schedule", "steps", "refused"),
    [("cosine", 20, True), ("cosine", 10, False), ("inverse_sqrt", 20, False)],
)
def test_another_last_step_is_another_run_where_the_rate_falls_towards_it(
    tmp_path: Path, schedule: str, steps: int, refused: bool
) -> None:
    def identity(max_steps: int) -> dict[str, Any]:
        training = {"schedule": schedule, "max_steps": max_steps}
        return {"config": {"training": training}, "k": 3, "init_from": None}

    (tmp_path / "checkpoints" / "step-00000001").mkdir(parents=True)
    (tmp_path / "run.json").write_text(json.dumps(identity(10)))
    if not refused:
        check_folder(tmp_path, identity(steps), resume=True)
        return
    with pytest.raises(InputError, match="training.max_steps was 10 and is now 20, towards which"):
        check_folder(tmp_path, identity(steps), resume=True)


@pytest.mark.parametrize("command", [train_wait_k, train_all])
def test_what_is_no_folder_is_no_output(
    settings: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], command: Any
) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    (tmp_path / "file").write_text("mine")
    k = ["--k", "3"] if command is train_wait_k else []
    given = ["--config", str(tmp_path / "config.yaml"), *k, "--output"]
    for output in (tmp_path / "file", tmp_path / "file" / "run"):
        assert command.main([*given, str(output)]) == 2
        said = capsys.readouterr().err
        assert f"--output {output} must be a folder, and {tmp_path / 'file'} is a file" in said
    assert (tmp_path / "file").read_text() == "mine"


def test_what_cannot_be_read_or_used_is_said_in_one_line(
    settings: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "latin1.yaml").write_bytes("data: schön".encode("latin-1"))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    rest = ["--k", "3", "--output", str(tmp_path / "out")]
    for config in (tmp_path, tmp_path / "latin1.yaml"):
        assert train_wait_k.main(["--config", str(config), *rest]) == 2
        assert f"error: {config} cannot be read as a configuration" in capsys.readouterr().err
    given = ["--config", str(tmp_path / "config.yaml"), *rest, "--seed", "-1"]
    assert train_wait_k.main(given) == 2
    assert "--seed must be at least 0; got -1" in capsys.readouterr().err


DAMAGED = ["", "[]", "{}", "null", "[" * 100_000]


@pytest.mark.parametrize("text", [*DAMAGED, '{"config": []}'])
def test_a_damaged_run_is_said_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "checkpoints" / "step-00000001").mkdir(parents=True)
    (tmp_path / "run.json").write_text(text)
    identity = {"config": {"model": {}}, "k": 3, "init_from": None}
    with pytest.raises(InputError, match=f"{tmp_path}/run.json is damaged, .* another folder"):
        check_folder(tmp_path, identity, resume=True)
    (tmp_path / "run.json").write_text(json.dumps(identity))
    check_folder(tmp_path, identity, resume=True)


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_facts_are_none(tmp_path: Path, text: str) -> None:
    assert read_facts(tmp_path) is None
    (tmp_path / "training.json").write_text(text)
    assert read_facts(tmp_path) is None
