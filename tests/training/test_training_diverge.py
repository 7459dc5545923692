"""Starts of their own for members that come from one model."""

import pytest
import torch

from hf_simultaneous import SimultaneousConfig, SimultaneousMTModel
from training.diverge import diverge, main
from training.starting import load_trained
from training.tokenizer import TokenizerOptions, train_tokenizer


@pytest.fixture
def tokenizer():
    return train_tokenizer(["Haus und Hof, Hund und Katze"] * 5, TokenizerOptions(vocab_size=330))


@pytest.fixture
def model(tokenizer):
    torch.manual_seed(5)
    config = SimultaneousConfig.preset("tiny", vocab_size=len(tokenizer), d_model=64, init_std=0.1)
    return SimultaneousMTModel(config).eval()


def weights(model):
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def alike(one, other):
    return torch.cosine_similarity(one.flatten(), other.flatten(), dim=0).item()


def test_each_part_keeps_its_share_and_every_matrix_its_size(model):
    before = weights(model)
    diverge(model, seed=1, encoder=0.5, decoder=0.0)
    for name, after in weights(model).items():
        if ".layers." not in name or after.ndim == 1:
            torch.testing.assert_close(after, before[name])
            continue
        assert alike(after, before[name]) == pytest.approx(0.5 * (".encoder." in name), abs=0.1)
        assert (after.std() / before[name].std()).item() == pytest.approx(1, abs=0.1)


def test_another_seed_is_another_start_and_the_same_one_the_same(model):
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    starts = []
    for seed in (1, 2, 1):
        model.load_state_dict(before)
        diverge(model, seed, encoder=0.0, decoder=0.0)
        starts.append(weights(model))
    name = "model.encoder.layers.0.fc1.weight"
    assert abs(alike(starts[0][name], starts[1][name])) < 0.1
    for name, weight in starts[0].items():
        assert torch.equal(weight, starts[2][name])


def test_where_all_is_kept_nothing_changes(model):
    before = weights(model)
    diverge(model, seed=1, encoder=1.0, decoder=1.0)
    for name, after in weights(model).items():
        assert torch.equal(after, before[name])


def test_the_command_makes_a_folder_that_loads(model, tokenizer, tmp_path, capsys):
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "base")
    base = ["--model", str(tmp_path / "base"), "--seed", "3"]
    assert main([*base, "--encoder", "2", "--output", str(tmp_path / "start")]) == 2
    assert "--encoder is the share that is kept, 0 to 1; got 2.0" in capsys.readouterr().err
    assert not (tmp_path / "start").exists()
    assert main([*base, "--output", str(tmp_path / "start")]) == 0
    assert "0.5 of the encoder kept, 0 of the decoder" in capsys.readouterr().out
    diverge(model, 3, 0.5, 0.0)
    found, _ = load_trained(str(tmp_path / "start"))
    for name, weight in weights(found).items():
        torch.testing.assert_close(weight, dict(model.named_parameters())[name].detach())
    assert main([*base, "--output", str(tmp_path / "start")]) == 2
    assert "start" in capsys.readouterr().err
