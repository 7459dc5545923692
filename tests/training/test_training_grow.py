"""Growing a model: the wide one computes what the narrow one did, and its copies can part."""

import pytest
import torch

from hf_simultaneous import SimultaneousConfig, SimultaneousMTModel
from training.checked import InputError
from training.grow import deepen, grow, main
from training.tokenizer import train_tokenizer


@pytest.fixture
def narrow() -> SimultaneousMTModel:
    torch.manual_seed(3)
    config = SimultaneousConfig.preset(
        "tiny", vocab_size=320, d_model=16, encoder_layers=2, decoder_layers=2, wait_k=3
    )
    model = SimultaneousMTModel(config).eval().double()
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data += 0.1 * torch.randn_like(weight)  # norms and biases too
    return model


def logits(model: SimultaneousMTModel) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    source, target = (torch.randint(3, 320, (2, n), generator=generator) for n in (9, 7))
    with torch.no_grad():
        return model(input_ids=source, decoder_input_ids=target, wait_k=2).logits


@pytest.mark.parametrize("factor", [2, 3])
def test_with_the_positions_of_the_narrow_model_the_wide_one_is_the_same_function(narrow, factor):
    wide = grow(narrow, factor).double()
    assert wide.config.d_model == 16 * factor
    for side in ("encoder", "decoder"):
        table = getattr(narrow.model, side).embed_positions.weight
        positions = getattr(wide.model, side).embed_positions
        positions.weight.data = table.data.repeat_interleave(factor, -1)
    torch.testing.assert_close(logits(wide), logits(narrow))


def test_sines_of_another_width_move_it_little(narrow):
    assert (logits(grow(narrow, 2).double()) - logits(narrow)).std() < 0.5 * logits(narrow).std()


def test_copies_part_in_training(narrow):
    wide = grow(narrow, 2)
    ids = torch.randint(3, 320, (2, 6))
    wide.float().train()(input_ids=ids, labels=ids).loss.backward()
    rows = wide.model.encoder.layers[0].fc1.weight.grad
    assert not torch.allclose(rows[0::2], rows[1::2])


def test_a_deeper_model_is_nearly_the_same_function_and_its_layers_learn(narrow):
    narrow.model.encoder.layers[-1].final_layer_norm.weight.data.mul_(4)
    deep = deepen(narrow, 4)
    assert len(deep.model.encoder.layers) == deep.config.encoder_layers == 4
    moved = (logits(deep) - logits(narrow)).std()
    assert moved < 0.2 * logits(narrow).std()
    for layer in deep.model.encoder.layers[2:]:
        layer.final_layer_norm.weight.data.fill_(1)  # as new layers have it
    assert (logits(deep) - logits(narrow)).std() > 3 * moved
    ids = torch.randint(3, 320, (2, 6))
    deep.float().train()(input_ids=ids, labels=ids).loss.backward()
    for layer in deep.model.encoder.layers[2:]:
        assert layer.fc2.weight.grad.abs().sum() > 0
        assert layer.self_attn.out_proj.weight.grad.abs().sum() > 0


def test_the_table_stays_one_table(narrow):
    wide = grow(narrow, 2)
    assert wide.lm_head.weight is wide.model.encoder.embed_tokens.weight


def test_the_command_leaves_a_folder_that_loads(tmp_path, capsys, narrow):
    tokenizer = train_tokenizer(["eins zwei drei"])
    narrow.float().save_pretrained(tmp_path / "narrow")
    tokenizer.save_pretrained(tmp_path / "narrow")
    model = ["--model", str(tmp_path / "narrow")]
    arguments = [*model, "--factor", "2", "--output", str(tmp_path / "wide")]
    assert main(arguments) == 0
    wide = SimultaneousMTModel.from_pretrained(tmp_path / "wide")
    assert wide.config.d_model == 32
    assert wide.config.wait_k == 3
    assert (tmp_path / "wide" / "tokenizer.json").is_file()
    assert main(arguments) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main([*model, "--encoder-layers", "3", "--output", str(tmp_path / "deep")]) == 0
    assert "width 16, 3 encoder layers" in capsys.readouterr().out
    assert len(SimultaneousMTModel.from_pretrained(tmp_path / "deep").model.encoder.layers) == 3


def test_what_cannot_be_grown_is_refused(tmp_path, capsys, narrow):
    with pytest.raises(InputError, match="--factor must be at least 2; got 1"):
        grow(narrow, 1)
    with pytest.raises(InputError, match="--encoder-layers must be above 2, which it has; got 2"):
        deepen(narrow, 2)
    wide = ["--factor", "2", "--output", str(tmp_path / "wide")]
    assert main(["--model", str(tmp_path), *wide]) == 2
    assert "cannot be loaded" in capsys.readouterr().err
