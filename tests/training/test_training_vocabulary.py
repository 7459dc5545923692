"""Another vocabulary for a trained model: what both have stays, what is new begins near its old
spelling."""

import pytest
import torch

from hf_simultaneous import SimultaneousConfig, SimultaneousMTModel
from training.tokenizer import TokenizerOptions, train_tokenizer
from training.vocabulary import main, respell


OLD = ["Haus und Hof, Hund und Katze"] * 5
NEW = ["Haus und Hof, Haustür und Hundekatze, Hausboot"] * 5


@pytest.fixture
def old():
    return train_tokenizer(OLD, TokenizerOptions(vocab_size=330))


@pytest.fixture
def model(old):
    torch.manual_seed(5)
    config = SimultaneousConfig.preset(
        "tiny", vocab_size=len(old), d_model=16, encoder_layers=1, decoder_layers=1, wait_k=3
    )
    return SimultaneousMTModel(config).eval()


@pytest.fixture
def folder(model, old, tmp_path):
    model.save_pretrained(tmp_path / "old")
    old.save_pretrained(tmp_path / "old")
    return str(tmp_path / "old")


def test_tokens_that_both_have_keep_their_rows_and_new_ones_get_a_mean(model, old):
    new = train_tokenizer(NEW, TokenizerOptions(vocab_size=360, split_punctuation=True))
    before = model.get_input_embeddings().weight.detach().clone()
    respell(model, old, new)
    after = model.get_input_embeddings().weight.detach()
    assert len(after) == len(new) == model.config.vocab_size == model.config.decoder_vocab_size
    assert model.lm_head.weight is model.get_input_embeddings().weight
    known, fresh = old.get_vocab(), 0
    for token, row in new.get_vocab().items():
        if token in known:
            torch.testing.assert_close(after[row], before[known[token]])
        else:
            fresh += 1
            pieces = [piece.id for piece in old.backend_tokenizer.model.tokenize(token)]
            mean = before[pieces].mean(0)
            assert torch.cosine_similarity(after[row], mean, dim=0) > 0.999
            torch.testing.assert_close(after[row].norm(), before[pieces].norm(dim=-1).mean())
    assert fresh > 5


def test_with_the_vocabulary_it_has_it_stays_the_same_function(model, old):
    ids = torch.tensor([old("Hund und Haus").input_ids])
    with torch.no_grad():
        before = model(input_ids=ids, labels=ids).logits
        respell(model, old, old)
        torch.testing.assert_close(model(input_ids=ids, labels=ids).logits, before)


def test_the_command_makes_members_that_share_a_vocabulary(folder, tmp_path):
    text = tmp_path / "text"
    text.write_text("\n".join(NEW) + "\n", "utf-8")
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert main(["--model", folder, "--text", str(text), "--size", "350", "--output", first]) == 0
    assert main(["--model", folder, "--like", first, "--output", second]) == 0
    names = (f"{name}/tokenizer.json" for name in (first, second))
    assert len({(tmp_path / name).read_text("utf-8") for name in names}) == 1
    assert SimultaneousMTModel.from_pretrained(second).config.vocab_size <= 350


def test_what_cannot_be_is_refused_and_nothing_written(folder, tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text(" \n", "utf-8")
    arguments = ["--model", folder, "--text", str(text), "--output", str(tmp_path / "new")]
    assert main([*arguments, "--size", "20"]) == 2
    assert "--text, --size: vocab_size must be at least" in capsys.readouterr().err
    assert main(arguments) == 2
    assert "every line given was empty" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert main([*arguments[:-1], folder]) == 2
    assert "is not empty" in capsys.readouterr().err
