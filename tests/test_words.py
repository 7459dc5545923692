"""One definition of a word: streams, logs and tokenizers count the same."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from hf_simultaneous import FullSentence
from hf_simultaneous.evaluation import Decoding, decode_corpus
from hf_simultaneous.sentences import SentenceSplitting
from hf_simultaneous.text import SourceText
from hf_simultaneous.text_session import TextSession
from hf_simultaneous.words import UNSPACED, UNSPACED_CLASS, normal, source_words
from tests.babble import babble_tokenizer, babbler
from training.tokenizer import SMALLEST_VOCABULARY, TokenizerOptions, train_tokenizer


THAI = "ฉันรักคุณ มาก"
EVERY_CHARACTER = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
SCRIPTS = ("THAI ", "LAO ", "MYANMAR ", "KHMER ", "CJK ", "HIRAGANA ", "KATAKANA ", "BOPOMOFO ")
SPACED = ("LATIN ", "GREEK ", "CYRILLIC ", "ARABIC ", "HEBREW ", "DEVANAGARI ", "HANGUL SYLLABLE ")


@given(st.text())
def test_words_stand_between_spaces(text):
    spaced = UNSPACED.sub("x", text)
    assert source_words(spaced) == normal(spaced).split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("有两个人。", ["有", "两", "个", "人", "。"]),
        ("他有 iPhone 12。", ["他", "有", "iPhone", "12", "。"]),
        ("すし\u3000！", ["す", "し", "！"]),
        (THAI, list(THAI.replace(" ", ""))),
        ("a\u2581b\ufeffc \x00 d", ["a", "bc", "d"]),
    ],
)
def test_without_spaces_every_character_is_a_word(text, words):
    assert source_words(text) == words


def test_whole_scripts_are_in_or_out():
    names = {char: unicodedata.name(char, "") for char in EVERY_CHARACTER[:0x40000]}
    left_out = [
        c for c, name in names.items() if name.startswith(SCRIPTS) and not UNSPACED.match(c)
    ]
    taken = [c for c, name in names.items() if name.startswith(SPACED) and UNSPACED.match(c)]
    assert (left_out, taken) == ([], [])


def test_both_engines_of_regular_expressions_mean_the_same_characters():
    kept = Split(Regex(UNSPACED_CLASS), "removed").pre_tokenize_str(EVERY_CHARACTER)
    assert "".join(text for text, _ in kept) == UNSPACED.sub("", EVERY_CHARACTER)


def test_a_tokenizer_we_train_splits_what_a_stream_counts():
    options = TokenizerOptions(vocab_size=SMALLEST_VOCABULARY + 60)
    tokenizer = train_tokenizer([THAI, "中文㐀㇀"] * 9, options)
    for text in (*THAI.split(), "中文㐀㇀"):
        pieces = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(f" {text}")
        assert [piece for piece, _ in pieces if piece != "▁"] == source_words(text)


@settings(deadline=None)
@example("中!0")
@example("中!?」国!")
@given(st.text() | st.text(st.sampled_from("ab 中。ก\u3000\u2581\x00\ufeff\u200b!.")))
def test_a_stream_counts_the_words_of_a_log(text):
    splitting = SentenceSplitting(max_tokens=10_000, max_word=10_000)
    source = SourceText(babble_tokenizer(), splitting)
    pieces = [*source.push_text(text), *source.flush()]
    assert sum(piece.words for piece in pieces if piece.ends_sentence) == len(source_words(text))


def test_a_corpus_is_read_as_a_stream_is():
    """Decomposed, with a soft hyphen and odd spaces: a log counts the tokens of the plain text."""
    odd, plain = "Die\u00a0Ka\u00adtze  la\u0308uft\u200b", "Die Katze läuft"
    generator, options = babbler(), Decoding(progress=False)
    lines = decode_corpus(generator, [odd, plain], ["x", "x"], FullSentence(), options)
    assert lines[0].actions == lines[1].actions
    assert lines[0].hypothesis == lines[1].hypothesis
    assert lines[0].word_delays == lines[1].word_delays
    assert [line.source for line in lines] == [odd, plain], "the log keeps what was given"
    *_, end = TextSession(generator, policy=FullSentence()).stream(odd)
    assert (end.delay, end.delay_tokens) == (3, lines[0].source_length)


def test_a_thai_sentence_has_as_many_words_live_as_in_the_log():
    text = "รัก มาก"
    generator = babbler()
    *_, end = TextSession(generator, policy=FullSentence()).stream(text)
    (line,) = decode_corpus(generator, [text], ["x"], FullSentence(), Decoding(progress=False))
    assert end.action == "END"
    assert end.delay == len(source_words(line.source)) == 6
