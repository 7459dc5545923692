from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.tokenizer import (
    SMALLEST_VOCABULARY,
    SPECIAL_TOKENS,
    TokenizerOptions,
    train_tokenizer,
)
from training.toy import toy_pairs


CHINESE = ["两名建筑工人正乘坐在一台设备上。", "几个人骑着自行车。", "一个男孩正在穿戴护肩。"] * 4
TEXTS = [text for pair in toy_pairs(300, seed=1) for text in (pair.source, pair.target)]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(TEXTS, TokenizerOptions(vocab_size=600))


@pytest.mark.parametrize(
    "text",
    [
        "der schöne Hund hat Äpfel, Öl und Süßes",  # some of it never seen
        "你好，世界。",
        "ein 🙂 und 👩‍👩‍👧 Emoji",
        "two  spaces",
        " leading",
        "   more leading",
        "trailing ",
        "tab\tand\nline end and\u00a0another",
        "e\u0301 decomposed",
        "<0x41> is not a byte",
        "",
    ],
)
def test_every_text_comes_back_as_it_was(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    ids = tokenizer(text).input_ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer.unk_token_id not in ids


def test_the_block_that_stands_for_a_space_becomes_one(tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer.decode(tokenizer("a\u2581b").input_ids, skip_special_tokens=True) == "a b"


@pytest.mark.parametrize("text", [*TEXTS[:40], "Zwölf Boxkämpfer jagen 🙂 quer", "你好 世界"])
def test_a_sentence_is_its_words_one_after_the_other(
    tokenizer: PreTrainedTokenizerFast, text: str
) -> None:
    by_word = [
        token
        for word in text.split()
        for token in tokenizer(word, add_special_tokens=False).input_ids
    ]
    assert tokenizer(text).input_ids == [*by_word, tokenizer.eos_token_id]


def test_special_tokens_come_first_and_only_the_end_is_added(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    assert tokenizer.convert_ids_to_tokens([0, 1, 2, 3]) == list(SPECIAL_TOKENS)
    named = (tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token)
    assert named == SPECIAL_TOKENS
    encoded = tokenizer("das Kind", text_target="the child")
    assert encoded["input_ids"][-1] == encoded["labels"][-1] == 2
    assert set(encoded) == {"input_ids", "attention_mask", "labels"}


def test_characters_of_a_script_without_spaces_are_tokens() -> None:
    split = train_tokenizer(CHINESE, TokenizerOptions(vocab_size=500))
    assert split.tokenize("一个男孩") == ["▁", "一", "个", "男", "孩"]
    merged = train_tokenizer(CHINESE, TokenizerOptions(vocab_size=500, split_characters=False))
    assert len(merged.tokenize("一个男孩")) < 4
    for tokenizer in (split, merged):
        assert (
            tokenizer.decode(tokenizer(CHINESE[0]).input_ids, skip_special_tokens=True)
            == CHINESE[0]
        )


def test_a_word_before_a_comma_is_spelled_as_elsewhere() -> None:
    texts = ["Er ist da, sie ist da.", "Ist er da? (Ja, er ist da!)"] * 4
    apart = train_tokenizer(texts, TokenizerOptions(vocab_size=400, split_punctuation=True))
    assert apart.tokenize("da,") == [*apart.tokenize("da"), ","]
    assert apart.tokenize("da!)") == [*apart.tokenize("da"), "!", ")"]
    for text in ["(da)?", "don't", "E-Mail, 3,5", "„da“, sagt er", " da . "]:
        assert apart.decode(apart(text).input_ids, skip_special_tokens=True) == text
    together = train_tokenizer(texts, TokenizerOptions(vocab_size=400))
    assert together.tokenize("da,") == ["▁da,"]


@pytest.mark.parametrize("word", ["don't", "E-Mail"])
def test_apostrophes_and_hyphens_stay_in_their_words(word: str) -> None:
    apart = train_tokenizer([word] * 9, TokenizerOptions(vocab_size=400, split_punctuation=True))
    assert apart.tokenize(word) == [f"▁{word}"]


def test_it_loads_as_any_other(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "  das schöne Kind 🙂 "
    assert loaded(text).input_ids == tokenizer(text).input_ids
    assert loaded.decode(loaded(text).input_ids, skip_special_tokens=True) == text
    assert loaded.padding_side == "right"


def test_a_vocabulary_that_cannot_hold_the_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match=f"at least {SMALLEST_VOCABULARY}.*got 100"):
        TokenizerOptions(vocab_size=100)


def test_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="every line given was empty"):
        train_tokenizer(["", "  "])
