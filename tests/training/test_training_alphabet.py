"""Another script for a trained model: what it knew stays, and the new characters are tokens."""

import pytest
import torch

from hf_simultaneous import SimultaneousConfig, SimultaneousMTModel
from training.alphabet import characters, learn, main
from training.tokenizer import train_tokenizer


TEXT = ["ein Satz und noch ein Satz", "one sentence and another sentence"]
CHINESE = ["我喜欢猫。", "我喜欢你。", "他来了"]


@pytest.fixture
def known():
    tokenizer = train_tokenizer(TEXT)
    torch.manual_seed(1)
    config = SimultaneousConfig.preset("tiny", vocab_size=len(tokenizer), d_model=16, wait_k=3)
    return SimultaneousMTModel(config).eval(), tokenizer


def test_characters_come_by_their_number_and_letters_do_not():
    assert characters(["aa我我我bb猫猫。", "一"], at_least=2) == ["我", "猫"]
    assert characters(["abc äöü"], at_least=1) == []


def test_each_new_character_is_one_token_and_old_text_keeps_its_tokens(known):
    model, tokenizer = known
    wider = learn(model, tokenizer, characters(CHINESE, at_least=1))
    assert wider.tokenize("我喜欢猫。")[1:] == list("我喜欢猫。")
    for text in TEXT:
        assert wider(text).input_ids == tokenizer(text).input_ids
    for text in [*TEXT, *CHINESE]:
        assert wider.decode(wider(text).input_ids, skip_special_tokens=True) == text


def test_what_the_model_says_of_old_tokens_does_not_change(known):
    model, tokenizer = known
    inputs = tokenizer(TEXT, return_tensors="pt", padding=True)
    given = {**inputs, "decoder_input_ids": inputs["input_ids"]}
    with torch.no_grad():
        before = model(**given).logits
        learn(model, tokenizer, characters(CHINESE, at_least=1))
        after = model(**given).logits
    torch.testing.assert_close(after[..., : before.shape[-1]], before)
    table = model.get_input_embeddings().weight
    assert model.lm_head.weight is table
    new = table[before.shape[-1] :]
    assert new.std() > 0.5 * table[: before.shape[-1]].std()
    assert not torch.equal(new[0], new[1])


def test_the_command_leaves_a_folder_that_loads(tmp_path, capsys, known):
    for part in known:
        part.save_pretrained(tmp_path / "known")
    text = tmp_path / "train.zh"
    text.write_text("\n".join(CHINESE), encoding="utf-8")
    arguments = ["--model", str(tmp_path / "known"), "--text", str(text)]
    assert main([*arguments, "--output", str(tmp_path / "wider")]) == 0
    wider = SimultaneousMTModel.from_pretrained(tmp_path / "wider")
    assert wider.config.vocab_size == wider.config.decoder_vocab_size == len(known[1]) + 4
    assert wider.config.wait_k == 3
    assert main([*arguments, "--output", str(tmp_path / "wider")]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_what_cannot_be_learned_is_refused(tmp_path, capsys):
    text = tmp_path / "train.de"
    text.write_text("ein Satz", encoding="utf-8")
    given = ["--model", str(tmp_path), "--text", str(text), "--output", str(tmp_path / "wider")]
    assert main(given) == 2
    assert "no character of a script without spaces occurs 2 times" in capsys.readouterr().err
    text.write_text("我我", encoding="utf-8")
    assert main(given) == 2
    assert "cannot be loaded" in capsys.readouterr().err
    assert not (tmp_path / "wider").exists()
