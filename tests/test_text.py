"""Text in, tokens out, and back: how a text is cut must not matter, and neither may its length."""

import gc
import json
import re
import time
import tracemalloc
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_simultaneous.sentences import CLOSERS, SentenceSplitting
from hf_simultaneous.target_text import TargetText, Word
from hf_simultaneous.text import (
    Piece,
    SourceText,
    as_read,
    vocabulary_starts,
    whole_sentences,
)
from hf_simultaneous.transcripts import SourceRevised
from hf_simultaneous.words import UNSPACED_CLASS
from tests.guard import cheaply


pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
calm = settings(deadline=None)  # on a busy machine a slow example is no failure

CORPUS = [
    "Das Haus ist am 3. Mai verkauft worden, z. B. an Herrn Müller.",
    "Ein kleiner Test mit vielen Wörtern und Zeichen! Wirklich? Ja.",
    "der Hund und die Katze laufen durch das große Haus der Familie",
    "the house was sold and the dogs were running home",
    "中国人民银行今天宣布。中国人很多，银行也很多！人民今天在家。",
    "我们今天学习中文。学习中文很有意思，中文老师很好。",
    "Hausaufgaben Hausboot Hundehaus Katzenhaus verkaufen verkauft läuft laufen",
]


def fast_tokenizer(eos_token: str | None = "</s>"):
    """BPE with bytes for what it does not know: Chinese words may become one token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special, octets = ["<pad>", "</s>", "<unk>"], [f"<0x{octet:02X}>" for octet in range(256)]
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    learner.train_from_iterator(
        CORPUS * 3, trainers.BpeTrainer(vocab_size=220, show_progress=False)
    )
    learned = json.loads(learner.to_str())["model"]
    vocab = {entry: i for i, entry in enumerate([*special, *octets, *learned["vocab"]])}
    merges = [tuple(pair) for pair in learned["merges"]]
    backend = Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True)
    )
    backend.add_special_tokens(special)
    backend.pre_tokenizer = learner.pre_tokenizer
    backend.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")]
    )
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    names = {"eos_token": eos_token} if eos_token else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>", **names
    )


def marian_tokenizer(folder):
    """Sentencepiece unigram, slow, with a language code."""
    sentencepiece = pytest.importorskip("sentencepiece")
    from transformers import MarianTokenizer

    model = folder / "source.spm"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 20),
        model_prefix=str(folder / "source"),
        vocab_size=200,
        character_coverage=1.0,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    (folder / "source.model").rename(model)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    entries = [processor.id_to_piece(i) for i in range(processor.get_piece_size())] + [
        ">>de<<",
        "<pad>",
    ]
    entries.remove(
        "今天"
    )  # in real ones, too, the list that splits holds entries that the list that numbers does not
    (folder / "vocab.json").write_text(
        json.dumps({entry: i for i, entry in enumerate(entries)}), encoding="utf-8"
    )
    return MarianTokenizer(str(model), str(model), str(folder / "vocab.json"))


def byte_level_tokenizer():
    """GPT-2's kind: the first word of a text has no space in front, and tokens may hold parts of
    characters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=450, special_tokens=["</s>"], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(CORPUS * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")


def trained_tokenizer():
    """The kind our own models have: each Chinese character is a token."""
    from training.tokenizer import SMALLEST_VOCABULARY, TokenizerOptions, train_tokenizer

    return train_tokenizer(CORPUS * 3, TokenizerOptions(vocab_size=SMALLEST_VOCABULARY + 200))


def contrary_tokenizer():
    """A BPE in which 甲乙丙 is 甲+乙丙, but 甲乙丙丁 is 甲乙+丙丁: what follows changes what
    lies two tokens back."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    entries = ["</s>", "▁", *"甲乙丙丁家", "丙丁", "乙丙", "甲乙"]
    merges = [("丙", "丁"), ("乙", "丙"), ("甲", "乙")]
    backend = Tokenizer(
        models.BPE(vocab={entry: i for i, entry in enumerate(entries)}, merges=merges)
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")


def word_tokenizer(entries):
    """A word, or a WordPiece, is a token, and no entry marks the space."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocab = {entry: i for i, entry in enumerate(["</s>", *entries])}
    kind = models.WordPiece if "##en" in entries else models.WordLevel
    backend = Tokenizer(kind(vocab, unk_token="</s>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.WordPiece(cleanup=False)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")


KINDS = ["trained", "fast", "marian", "bytes"]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    return {
        "trained": trained_tokenizer(),
        "fast": fast_tokenizer(),
        "marian": marian_tokenizer(tmp_path_factory.mktemp("marian")),
        "bytes": byte_level_tokenizer(),
    }


@pytest.fixture(params=KINDS)
def tokenizer(request, tokenizers):
    return tokenizers[request.param]


@pytest.fixture(scope="module")
def fast(tokenizers):
    return tokenizers["fast"]


def tokens_of(pieces):
    return [token for piece in pieces for token in piece.tokens]


def sentences_of(pieces, eos):
    """The text of each sentence that the pieces end."""
    found, words = [], []
    for piece in pieces:
        words.append(piece.text)
        if piece.ends_sentence:
            assert piece.tokens == (eos,)
            found.append(" ".join(words[:-1]))
            words = []
    assert not words
    return found


def stream(source, fragments):
    return [
        piece for fragment in fragments for piece in source.push_text(fragment)
    ] + source.flush()


def encode(tokenizer, text):
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)[
        "input_ids"
    ]


def naive_sentences(text, rules):
    """The sentences of a text that lies there whole."""
    gone = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff"
    text = re.sub(f"[{gone}]", "", text).replace("▁", " ")
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    stops, closers = "。！？｡", re.escape(CLOSERS)
    behind = rf"(?![!?{closers}])(?:$|(?=(?![{stops}]){UNSPACED_CLASS}))"
    stop = rf"[{stops}][{stops}{closers}]*|(?<={UNSPACED_CLASS})[!?][!?{closers}]*{behind}"
    sentences, current = [], ""
    for word in text.split():
        parts = re.findall(rf".*?(?:{stop})|.+", word)
        current, part_word = current + " " * bool(current), ""
        for i, part in enumerate(parts):
            current, part_word = current + part, part_word + part
            ends = rules.ends(part_word) if i == len(parts) - 1 else True
            if ends and any(map(str.isalnum, current)):
                sentences.append(current)
                current, part_word = "", ""
    return [sentence for sentence in [*sentences, current] if sentence]


# fmt: off
WORDS = ["Haus", "das", "verkauft", "3.", "z.", "B.", "z.B.", "Ende.", "Was?",
         "ja!", '"Ja."', "...", ".", "1990."]
ODD = ["</s>", "<pad>", "<unk>", ">>de<<", "▁", "<0x41>", "\x00", "a\x07b", "\ufeff", "\ud800",
       "e\u0301", "☃", "😀", "o\u0308stl.", "…", "\u2011", "\u200b", "\u00ad"]
CHINESE = ["!", "?", "中国", "银行", "今天", "学习中文", "很", "龘", "。", "！", "，", "」。",
           "Ｈａｕｓ", "Python"]
# fmt: on
SPACES = [" ", "  ", "\n", "\t", "\u00a0", "\u3000", "\r\n", ""]
BITS = st.sampled_from(WORDS + ODD + CHINESE + SPACES * 4) | st.text(max_size=5)
TEXTS = st.lists(BITS, max_size=25).map("".join)


def cut(text, places):
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in zip(edges, edges[1:], strict=False)]


CUTS = st.lists(st.integers(0, 300), max_size=30)
RULES = st.builds(
    SentenceSplitting,
    max_tokens=st.sampled_from([1, 5, 100]),
    max_word=st.sampled_from([1, 4, 100]),
)


@settings(deadline=None, max_examples=200)
@given(text=TEXTS, places=CUTS, rules=RULES, name=st.sampled_from(KINDS))
def test_how_a_text_is_cut_does_not_matter(tokenizers, text, places, rules, name):
    whole = stream(SourceText(tokenizers[name], rules), [text])
    for fragments in (cut(text, places), list(text)):
        assert stream(SourceText(tokenizers[name], rules), fragments) == whole


@settings(deadline=None, max_examples=300)
@given(text=TEXTS, places=CUTS, name=st.sampled_from(KINDS))
def test_the_tokens_are_those_of_each_sentence_tokenised_whole(tokenizers, text, places, name):
    tokenizer, rules = tokenizers[name], SentenceSplitting(max_tokens=10_000, max_word=10_000)
    expected = []
    for sentence in naive_sentences(text, rules):
        tokens = encode(tokenizer, as_read(sentence, tokenizer))
        expected += [*tokens, tokenizer.eos_token_id] if tokens else []
    assert tokens_of(stream(SourceText(tokenizer, rules), cut(text, places))) == expected


@calm
@given(
    data=st.binary(max_size=40) | TEXTS.map(lambda text: text.encode("utf-8", "replace")),
    places=CUTS,
)
def test_bytes_may_be_cut_inside_a_character(fast, data, places):
    expected = stream(SourceText(fast), [data.decode("utf-8", "replace")])
    assert stream(SourceText(fast), cut(data, places)) == expected


@calm
@given(words=st.lists(st.sampled_from([*WORDS, "</s>", "Müller,"]), max_size=20))
def test_words_pushed_one_by_one_are_the_text_they_make(fast, words):
    source = SourceText(fast)
    pushed = [piece for word in words for piece in source.push_word(word)] + source.flush()
    assert pushed == stream(SourceText(fast), [" ".join(words)])


def test_inside_a_word_nothing_is_decided_nor_before_the_end_of_a_sentence(fast):
    source = SourceText(fast)
    pieces = source.push_text("Krankenhaus Haus Krankenhaus. ")
    first, second, third, end = pieces
    size, last = len(first.tokens), len(third.tokens)
    assert size > 2, "some word has several tokens"
    assert [*first.undecided] == [*range(1, size)]
    assert [*second.undecided] == [*range(1, len(second.tokens))]
    assert [*third.undecided] == [*range(1, last + 1)], "its full stop ends the sentence"
    assert [*end.undecided] == []
    [(tokens, undecided)] = whole_sentences(pieces)
    assert tokens == [token for piece in pieces for token in piece.tokens]
    ends = {size, size + len(second.tokens), len(tokens)}
    assert undecided == [place for place in range(1, len(tokens)) if place not in ends]


def test_what_becomes_final_at_one_moment_arrives_at_once(fast):
    """A character that has several tokens too; but an end that nobody announced may be late."""
    chinese = SourceText(fast)
    pieces = [*chinese.push_text("豆我Krankenhaus家 "), *chinese.flush()]
    assert max(len(piece.tokens) for piece in pieces) > 2
    for piece in pieces:
        assert [*piece.undecided] == [*range(1, len(piece.tokens))]
    source = SourceText(fast)
    [word, _] = [*source.push_word("Krankenhaus"), *source.flush()]
    assert len(word.tokens) > 2
    assert [*word.undecided] == [*range(1, len(word.tokens))]


@pytest.mark.parametrize("text", ["家我家我家我", "Haus Haus Haus Haus "])
def test_a_sentence_that_is_full_ends_with_what_filled_it(fast, text):
    source = SourceText(fast, SentenceSplitting(max_tokens=3))
    pieces = [piece for char in text for piece in source.push_text(char)]
    ends = [place for place, piece in enumerate(pieces) if piece.ends_sentence]
    assert ends
    for place in ends:
        before = pieces[place - 1]
        assert [*before.undecided] == [*range(1, len(before.tokens) + 1)]


def test_sentences_that_are_not_over_are_not_whole(fast):
    assert not [*whole_sentences(SourceText(fast).push_text("Das Haus "))]


@pytest.mark.parametrize("word", [b"Haus", None, 3, ["Haus"]])
def test_what_is_no_word_is_refused(fast, word):
    source = SourceText(fast)
    with pytest.raises(TypeError, match=re.escape(f"a word is a str; got {word!r}. Bytes go to")):
        source.push_word(word)
    assert source.flush() == []


def test_a_word_is_final_at_once_and_a_fragment_at_the_space(tokenizer):
    source = SourceText(tokenizer)
    haus = tuple(encode(tokenizer, "Das Haus")[len(encode(tokenizer, "Das")) :])
    assert [piece.text for piece in source.push_word("Das")] == ["Das"]
    assert source.push_text("Ha") == source.push_text("us") == []
    assert source.push_text(" ") == [Piece(haus, "Haus", 2)]
    assert source.push_text("is") == []
    assert [piece.text for piece in source.push_word("t")] == ["is", "t"]


def test_pieces_count_the_words_that_have_arrived(fast):
    pieces = stream(SourceText(fast), ["Das Haus. Der ", "Hund"])
    assert [(piece.text, piece.words) for piece in pieces] == [
        ("Das", 1),
        ("Haus.", 2),
        ("", 2),
        ("Der", 1),
        ("Hund", 2),
        ("", 2),
    ]


@pytest.mark.parametrize("name", ["fast", "marian"])
def test_chinese_streams_character_by_character(tokenizers, name):
    tokenizer = tokenizers[name]
    starts = vocabulary_starts(tokenizer)
    assert all(start in starts for start in ("今", "学习中")), (
        "this vocabulary would hold nothing back"
    )
    source, out = SourceText(tokenizer), []
    for char in "我们今天学习中文很有意思":
        out.append(source.push_text(char))
    assert sum(map(bool, out)) >= 4, "nothing came before the sentence was over"
    pieces = [piece for pieces in out for piece in pieces] + source.push_text("。今")
    assert "".join(piece.text for piece in pieces) == "我们今天学习中文很有意思。"
    assert tokens_of(pieces) == [
        *encode(tokenizer, "我们今天学习中文很有意思。"),
        tokenizer.eos_token_id,
    ]
    assert max(piece.words for piece in pieces) == 13


def test_what_may_still_merge_is_held_back_and_nothing_else(fast):
    ids = fast.get_vocab()
    source = SourceText(fast)
    source.push_word("Das")
    assert [piece.text for piece in source.push_text("家")] == [
        "家"
    ]  # nothing in the vocabulary goes on from here
    assert source.push_text("今") == []
    assert source.push_text("天") == [Piece((ids["今天"],), "今天", 4)]
    assert source.push_text("今") == []
    assert source.push_text("家") == [Piece((ids["今"], ids["家"]), "今家", 6)]
    assert source.push_text("今") == []
    assert source.flush()[0] == Piece((ids["今"],), "今", 7)


@pytest.mark.parametrize(
    "text", ["甲乙丙家", "甲乙丙丁", "甲乙家", "乙丙丁家", "丙乙丙甲乙丙丁甲乙丙家"]
)
def test_what_is_out_holds_even_where_later_characters_reach_far_back(text):
    tokenizer = contrary_tokenizer()
    assert tokens_of(stream(SourceText(tokenizer), text)) == [
        *encode(tokenizer, text),
        tokenizer.eos_token_id,
    ]


@pytest.mark.parametrize("kind", ["marian", "fast"])
def test_full_width_letters_may_be_folded_by_the_tokenizer(tokenizers, kind):
    tokenizer = tokenizers[kind]
    pieces = stream(SourceText(tokenizer), "Ｈａｕｓ")
    assert tokens_of(pieces) == [*encode(tokenizer, "Ｈａｕｓ"), tokenizer.eos_token_id]
    assert (encode(tokenizer, "Ｈａｕｓ") == encode(tokenizer, "Haus")) == (kind == "marian")


@calm
@given(text=st.text("中国人民银行今天学习文很好，家", max_size=60), limit=st.integers(1, 12))
def test_a_full_sentence_ends_inside_a_script_without_spaces(fast, text, limit):
    pieces = stream(SourceText(fast, SentenceSplitting(max_tokens=limit)), text)
    assert "".join(piece.text for piece in pieces) == text
    sentence, tokens = "", []
    for piece in pieces:
        if piece.ends_sentence:
            assert tokens == encode(fast, sentence)
            assert len(tokens) < limit + 8
            sentence, tokens = "", []
        else:
            sentence, tokens = sentence + piece.text, [*tokens, *piece.tokens]


def test_with_a_token_for_each_character_nothing_is_held_back(tokenizers):
    source = SourceText(tokenizers["trained"])
    for count, char in enumerate("中国人民，今天", 1):
        assert [(piece.text, piece.words) for piece in source.push_text(char)] == [(char, count)]


def test_a_byte_level_vocabulary_waits_for_the_space(tokenizers):
    assert vocabulary_starts(tokenizers["bytes"]).longest == 0
    source = SourceText(tokenizers["bytes"])
    assert source.push_text("今天很好") == []
    assert [piece.text for piece in source.push_text(" ")] == ["今天很好"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Er kam am 3. Mai an. Dann ging er.", ["Er kam am 3. Mai an.", "Dann ging er."]),
        ("Das gilt z. B. hier. Ja!", ["Das gilt z. B. hier.", "Ja!"]),
        ("Das gilt z.B. hier, d.h. dort, usw. Gut?", ["Das gilt z.B. hier, d.h. dort, usw. Gut?"]),
        ("Dr. Müller und Prof. Dr. Maier (vgl. S. 5) gehen. Wer?", None),
        ("Es war 1990. Dann kam er.", ["Es war 1990.", "Dann kam er."]),
        ("Am 3.5. beginnt es. Um 20.15 Uhr.", ["Am 3.5. beginnt es.", "Um 20.15 Uhr."]),
        ("Ludwig XIV. war König. Ja.", ["Ludwig XIV. war König.", "Ja."]),
        ("Im 19. Jahrhundert, im 100. Jahr.", ["Im 19. Jahrhundert, im 100. Jahr."]),
        ('Er sagte: "Ja." Dann ging er.', ['Er sagte: "Ja."', "Dann ging er."]),
        (
            "„Gehst du?“ fragte er. »Nein!« »Doch.«",
            ["„Gehst du?“", "fragte er.", "»Nein!«", "»Doch.«"],
        ),
        ("Na ja ... ich weiß nicht... vielleicht", ["Na ja ... ich weiß nicht... vielleicht"]),
        ("Das Haus . Der Hund", ["Das Haus .", "Der Hund"]),
        ("das haus ist verkauft der hund läuft", ["das haus ist verkauft der hund läuft"]),
        ("Erstens: ja; zweitens: nein", ["Erstens: ja; zweitens: nein"]),
        ("(Dipl.-Ing. Maier)", ["(Dipl.-Ing. Maier)"]),
        ("中文。「很好。」今天！？是", ["中文。", "「很好。」", "今天！？", "是"]),
        ("你好!你好吗?「很好!」是", ["你好!", "你好吗?", "「很好!」", "是"]),
        ("Yahoo!中国 2?3 中国!0", ["Yahoo!中国 2?3 中国!0"]),
        ("यह घर है। वह कौन है? ॐ॥ हाँ", ["यह घर है।", "वह कौन है?", "ॐ॥", "हाँ"]),
        ("من أنت؟ أنا هنا. نعم", ["من أنت؟", "أنا هنا.", "نعم"]),
        ("یہ گھر ہے۔ ہاں", ["یہ گھر ہے۔", "ہاں"]),
        ("Սա տուն է։ Այո", ["Սա տուն է։", "Այո"]),
        ("ይህ ቤት ነው። አዎ", ["ይህ ቤት ነው።", "አዎ"]),
        ("Ποιος είναι\u037e Εγώ; Ναι", ["Ποιος είναι\u037e", "Εγώ; Ναι"]),
    ],
)
def test_sentences_end_where_they_end(fast, text, expected):
    expected = expected or ["Dr. Müller und Prof. Dr. Maier (vgl. S. 5) gehen.", "Wer?"]
    pieces = stream(SourceText(fast), [text])
    found = sentences_of(pieces, fast.eos_token_id)
    assert [sentence.replace(" ", "") for sentence in found] == [
        sentence.replace(" ", "") for sentence in expected
    ]


def test_a_sentence_ends_without_waiting_for_the_next(fast):
    source = SourceText(fast)
    assert source.push_word("Haus.")[-1].ends_sentence
    source.push_text("很")
    assert not any(piece.ends_sentence for piece in source.push_text("。"))
    assert source.push_text("\n")[-1].ends_sentence


def test_abbreviations_can_be_replaced(fast):
    rules = SentenceSplitting(abbreviations=frozenset({"haus"}))
    found = sentences_of(stream(SourceText(fast, rules), ["Haus. Dr. Ja"]), fast.eos_token_id)
    assert found == ["Haus. Dr.", "Ja"]


@calm
@given(
    words=st.lists(st.sampled_from(["Haus", "verkauft", "die", "中国人民"]), max_size=40),
    limit=st.integers(1, 30),
)
def test_text_without_punctuation_is_cut_by_length(fast, words, limit):
    pieces = stream(SourceText(fast, SentenceSplitting(max_tokens=limit)), [" ".join(words)])
    lengths, length, longest = [], 0, max((len(encode(fast, word)) for word in words), default=0)
    for piece in pieces:
        if piece.ends_sentence:
            lengths.append(length)
            length = 0
        else:
            length += len(piece.tokens)
    assert all(limit <= length < limit + longest for length in lengths[:-1])
    assert "".join(piece.text for piece in pieces) == "".join(words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("das Haus das Haus und das Boot", ["das Haus das Haus", "und das Boot"]),
        ("das Haus das Haus, das Boot", ["das Haus das Haus,", "das Boot"]),
        ("und das Haus", ["und das Haus"]),
        ("das, Haus", ["das, Haus"]),
    ],
)
def test_a_long_sentence_is_cut_where_a_clause_ends(fast, text, expected):
    limit = 2 * len(encode(fast, "das Haus das Haus"))
    pieces = stream(SourceText(fast, SentenceSplitting(max_tokens=limit)), [text])
    assert sentences_of(pieces, fast.eos_token_id) == expected
    counts = [piece.words for piece in pieces if piece.ends_sentence]
    assert counts == [len(sentence.split()) for sentence in expected]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_silence_ends_a_sentence(fast):
    clock = Clock()
    source = SourceText(fast, SentenceSplitting(silence=2.0), clock=clock)
    source.push_text("das Ha")
    clock.now = 1.5
    source.push_text("us")
    clock.now = 3.4
    assert source.poll() == []
    clock.now = 3.5
    assert [piece.text for piece in source.poll()] == ["Haus", ""]
    assert source.poll() == []
    source.push_text("der Hund")
    clock.now = 6.0
    late = source.push_text("die ")
    assert [piece.text for piece in late] == ["Hund", "", "die"]
    assert [piece.words for piece in late] == [2, 2, 1]


def test_without_a_time_out_silence_means_nothing(fast):
    clock = Clock()
    source = SourceText(fast, clock=clock)
    source.push_text("das Haus")
    clock.now = 1e9
    assert source.poll() == []
    assert [piece.text for piece in source.push_text(" ist ")] == ["Haus", "ist"]


def test_a_transcript_gives_what_its_last_state_gives(tokenizer):
    source, text, pieces = SourceText(tokenizer), "Das Haus ist am 3. Mai verkauft. 中国 ja", []
    for end in range(len(text) + 1):
        pieces += source.push_transcript(text[:end])
    pieces += source.flush()
    assert tokens_of(pieces) == tokens_of(stream(SourceText(tokenizer), [text]))


def test_the_last_word_of_a_transcript_may_still_change(fast):
    source = SourceText(fast)
    assert [piece.text for piece in source.push_transcript("das Hau")] == ["das"]
    assert source.push_transcript("das Hund") == []
    assert source.push_transcript("das ") == []
    assert [piece.text for piece in source.push_transcript("das Boot ja")] == ["Boot"]
    assert [piece.text for piece in source.flush()] == ["ja", ""]


def test_a_source_that_revises_what_it_sent_is_refused(fast):
    source = SourceText(fast)
    source.push_transcript("Das Haus ist ")
    with pytest.raises(
        SourceRevised,
        match="changed what it had sent: 'Das Haus ist ' became 'Das Hund ist da', at char",
    ):
        source.push_transcript("Das Hund ist da")
    with pytest.raises(SourceRevised, match=r"at character 4\. .* flush\(\) begins a new"):
        source.push_transcript("Das ")
    assert [piece.text for piece in source.push_transcript("Das Haus ist da ")] == ["da"]


@pytest.mark.parametrize("stable", [1, 2])
def test_what_a_revision_takes_back_before_it_was_read_is_never_read(fast, stable):
    source, read = SourceText(fast), []
    for text in [*["ich habe heute"] * stable, "ich hatte gestern keine"]:
        try:
            read += source.push_transcript(text, stable=stable)
        except SourceRevised:
            read += source.flush()
    assert [piece.text for piece in read] == ["ich", "habe", ""]
    assert [piece.text for piece in source.push_transcript("und ja")] == ["und"]


def test_texts_before_a_revision_are_not_counted_as_agreeing(fast):
    source = SourceText(fast)
    for text in ["das Haus", "das Haus ist"]:
        source.push_transcript(text, stable=2)
    with pytest.raises(SourceRevised):
        source.push_transcript("die Katze", stable=2)
    assert source.push_transcript("das Haus ist alt", stable=2) == []
    assert [p.text for p in source.push_transcript("das Haus ist alt", stable=2)] == ["ist"]


def test_a_long_text_is_cut_visibly_where_it_is_told_of(fast):
    source = SourceText(fast)
    source.push_transcript("ja " * 9 + "das Haus ist alt und schön und gross ")
    with pytest.raises(SourceRevised) as told:
        source.push_transcript("ja " * 9 + "das Hund ist alt und schön und gross ")
    assert "'…ja ja ja ja ja das Haus ist alt und schö…' became '…ja " in str(told.value)
    assert "Hund ist alt und schö…', at character 32." in str(told.value)


def test_flush_begins_a_new_transcript(fast):
    source = SourceText(fast)
    source.push_transcript("Das Haus ist da und")
    source.flush()
    assert [piece.text for piece in source.push_transcript("Und das Boot")] == ["Und", "das"]


def test_only_what_several_transcripts_agree_on_is_read(fast):
    source = SourceText(fast)
    sent = ["Ich", "Ich habe", "Ich hatte heute", "Ich hatte heute keine", "Ich hatte heute kein"]
    read = [[piece.text for piece in source.push_transcript(text, stable=2)] for text in sent]
    assert read == [[], ["Ich"], [], ["hatte", "heute"], []]
    assert [piece.text for piece in source.flush()] == ["kein", ""]
    with pytest.raises(ValueError, match="stable must be an integer of 1 or more; got 0"):
        source.push_transcript("Ich", stable=0)


@calm
@given(
    texts=st.lists(st.lists(st.sampled_from(["Ich", "habe", "heute"]), max_size=5), max_size=8),
    stable=st.integers(1, 3),
)
def test_a_stable_transcript_reads_a_prefix_of_every_text_that_is_not_refused(fast, texts, stable):
    source, read = SourceText(fast), []
    for words in texts:
        try:
            read += [piece.text for piece in source.push_transcript(" ".join(words), stable=stable)]
        except SourceRevised:
            assert words[: len(read)] != read or len(words) == len(read)
        else:
            assert words[: len(read)] == read


@pytest.mark.parametrize("stable", [1, 2])
def test_a_recogniser_that_repeats_itself_is_silent(fast, stable):
    clock = Clock()
    source = SourceText(fast, SentenceSplitting(silence=1.0), clock=clock)
    source.push_transcript("das Ha", stable=stable)
    ended = []
    for _ in range(8):
        clock.now += 0.25
        read = source.push_transcript("das Haus", stable=stable) + source.poll()
        ended += [clock.now for piece in read if piece.ends_sentence]
    assert ended == [1.25], "a second after the text last changed, and once"
    assert [piece.text for piece in source.push_transcript("das Haus ist da")] == ["ist"]


def test_a_transcript_revised_after_a_silence_is_refused(fast):
    clock = Clock()
    source = SourceText(fast, SentenceSplitting(silence=1.0), clock=clock)
    source.push_transcript("das Hau")
    clock.now = 3.0
    with pytest.raises(SourceRevised, match="changed what it had sent"):
        source.push_transcript("das Hund")
    assert [piece.text for piece in source.flush()] == ["Hau", ""]


def test_a_transcript_without_spaces_is_used_as_it_grows(fast):
    source = SourceText(fast)
    assert [piece.text for piece in source.push_transcript("家")] == ["家"]
    with pytest.raises(SourceRevised, match="'家' became '国', at character 0"):
        source.push_transcript("国")


def test_other_text_settles_a_transcript(fast):
    source = SourceText(fast)
    source.push_transcript("das Hau")
    assert [piece.text for piece in source.push_text("s ")] == ["Haus"]


@pytest.mark.parametrize("nothing", ["", " \n\t", "\x00\x01", "\ufeff", "▁"])
def test_an_empty_stream_gives_nothing(tokenizer, nothing):
    source = SourceText(tokenizer)
    assert (
        source.flush()
        == source.push_text(nothing)
        == source.push_text(b"")
        == source.push_word("")
        == []
    )
    assert source.flush() == source.flush() == []


def test_only_punctuation_is_one_sentence(tokenizer):
    text = ". ! ?! 。 ..."
    pieces = stream(SourceText(tokenizer), [text])
    assert tokens_of(pieces) == [*encode(tokenizer, text), tokenizer.eos_token_id]
    assert tokens_of(stream(SourceText(tokenizer), ["! ja. !"])).count(tokenizer.eos_token_id) == 2


@calm
@given(text=st.text(st.sampled_from("für ÄÖÜ würde … e\u0301가각 öä."), max_size=30))
def test_decomposed_letters_are_read_as_composed_ones(fast, text):
    """Files of a Mac and PDFs write u and a mark for ü; vocabularies know ü."""
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]
    composed, decomposed = (stream(SourceText(fast), [form]) for form in forms)
    assert tokens_of(composed) == tokens_of(decomposed)
    read = ["".join(piece.text for piece in pieces) for pieces in (composed, decomposed)]
    assert read == ["".join(form.split()) for form in forms], "told as it was sent"


def test_a_decomposed_abbreviation_is_one(fast):
    text = unicodedata.normalize("NFD", "Das ist südl. und nördl. davon. Ja")
    pieces = stream(SourceText(fast), [text])
    assert [piece.words for piece in pieces if piece.ends_sentence] == [6, 1]


@pytest.mark.parametrize("invisible", "\u00ad\u200b\u200e\u200f\u2060\ufeff\u202a\u202e")
def test_invisible_characters_are_dropped(tokenizer, invisible):
    text = "Das Haus. Der Hund"
    strewn = invisible + invisible.join(text) + invisible
    assert stream(SourceText(tokenizer), [strewn]) == stream(SourceText(tokenizer), [text])


@pytest.mark.parametrize("needed", "\u200c\u200d")
def test_joiners_that_scripts_need_are_kept(fast, needed):
    assert [piece.text for piece in stream(SourceText(fast), [f"a{needed}b"])][0] == f"a{needed}b"


def test_signs_that_a_vocabulary_does_not_have_are_read_as_plain_ones(fast):
    for sign, plain in (("E\u2011Mail", "E-Mail"), ("E\u2010Mail", "E-Mail"), ("ja…", "ja...")):
        assert as_read(sign, fast) == plain
        pieces = stream(SourceText(fast), [sign])
        assert tokens_of(pieces)[:-1] == encode(fast, plain)
        assert pieces[0].text == sign
    assert as_read("ja…", word_tokenizer(["…"])) == "ja…"


def test_control_characters_are_dropped_and_odd_spaces_are_spaces(tokenizer):
    odd = "\ufeffdas\x00\u00a0Ha\x07us\x0b\u2028▁ist\x7f"
    assert tokens_of(stream(SourceText(tokenizer), [odd])) == tokens_of(
        stream(SourceText(tokenizer), ["das Haus ist"])
    )


def test_invalid_utf8_becomes_a_replacement_character(tokenizer):
    expected = tokens_of(stream(SourceText(tokenizer), ["das \ufffd Haus\ufffd"]))
    assert tokens_of(stream(SourceText(tokenizer), [b"das \xff Ha", b"us\xc3"])) == expected
    mixed = SourceText(tokenizer)
    assert (
        tokens_of(mixed.push_text(b"das \xc3") + mixed.push_text(" Haus\ud800") + mixed.flush())
        == expected
    )


def test_a_word_of_ten_thousand_characters_is_cut(tokenizer):
    with cheaply():
        pieces = stream(SourceText(tokenizer), ["x" * 10_000 + " ja"])
    assert "".join(piece.text for piece in pieces) == "x" * 10_000 + "ja"
    assert max(len(piece.text) for piece in pieces) == 100
    spaced = " ".join(["x" * 100] * 100) + " ja"
    assert tokens_of(pieces) == tokens_of(stream(SourceText(tokenizer), [spaced]))


def test_ten_thousand_characters_without_a_space_or_a_stop(fast):
    source = SourceText(fast)
    with cheaply(seconds=30):
        pieces = [piece for _ in range(1000) for piece in source.push_text("中国人民银行今天很好")]
    assert sum(piece.ends_sentence for piece in pieces) > 20


def test_special_tokens_in_a_text_are_text(tokenizer):
    pieces = stream(SourceText(tokenizer), ["das </s> Haus <pad>"])
    assert tokens_of(pieces).count(tokenizer.eos_token_id) == 1
    assert tokens_of(pieces)[-1] == tokenizer.eos_token_id


def test_a_language_code_counts_only_at_the_beginning(tokenizers):
    marian = tokenizers["marian"]
    code = marian.get_vocab()[">>de<<"]
    tokens = tokens_of(stream(SourceText(marian), [">>de<< das >>de<< Haus"]))
    assert tokens[0] == code
    assert code not in tokens[1:]


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"max_word": 0}, {"max_word": 1.5}])
def test_rules_refuse_what_is_no_count(wrong):
    with pytest.raises(
        ValueError, match=f"{next(iter(wrong))} must be an integer of 1 or more; got"
    ):
        SentenceSplitting(**wrong)


@pytest.mark.parametrize("silence", [0, -1.0, float("nan")])
def test_rules_refuse_a_silence_that_is_none(silence):
    with pytest.raises(ValueError, match="above 0, or None for no time-out; got"):
        SentenceSplitting(silence=silence)


def test_a_tokenizer_without_an_end_is_refused():
    with pytest.raises(ValueError, match="no eos_token"):
        SourceText(fast_tokenizer(eos_token=None))


def test_a_long_stream_stays_as_small_and_as_quick_as_a_short_one(fast):
    source, target = SourceText(fast), TargetText(fast)
    words = ["das", "Haus", "ist", "verkauft", "und", "der", "Hund", "läuft", "durch", "Wörter."]

    def pump(count):
        began = time.process_time()
        for i in range(count):
            for piece in source.push_text(words[i % 10] + " "):
                for token in piece.tokens:
                    target.push(token, piece.words)
        return time.process_time() - began

    def held():
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    pump(1000)
    tracemalloc.start()
    early, before = [pump(300) for _ in range(4)], held()
    pump(5000)
    late, after = [pump(300) for _ in range(4)], held()
    tracemalloc.stop()
    assert after - before < 20_000
    assert min(late) < 3 * min(early), "of several, those that nobody interrupted"


def shown(words):
    return "".join(" " * word.spaced + word.text for word in words)


def retell(tokenizer, tokens):
    target = TargetText(tokenizer)
    return [word for i, token in enumerate(tokens) for word in target.push(token, i)] + target.end(
        len(tokens)
    )


GOOD_TEXTS = st.lists(
    st.sampled_from([*WORDS, "é", "☃", "😀", "ﬁ", *CHINESE, *[" "] * 20]), max_size=25
).map("".join)


@settings(deadline=None, max_examples=200)
@given(text=GOOD_TEXTS, name=st.sampled_from(KINDS))
def test_the_words_shown_are_the_whole_text_decoded(tokenizers, text, name):
    tokenizer = tokenizers[name]
    tokens = tokenizer(text)["input_ids"]
    options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    expected = " ".join(tokenizer.decode(tokens, **options).split())
    assert shown(retell(tokenizer, tokens)) == expected


@calm
@given(st.lists(st.integers(0, 400), max_size=30))
def test_any_tokens_make_some_words(fast, tokens):
    words = retell(fast, [token for token in tokens if token < len(fast)])
    assert all(word.text and not re.search(r"\s\s|^\s|\s$", word.text) for word in words)
    assert [word.delay for word in words] == sorted(word.delay for word in words)


def test_a_word_is_shown_when_the_next_begins_or_the_sentence_ends(tokenizer):
    first, both = encode(tokenizer, "verkauft"), encode(tokenizer, "verkauft Haus")
    target = TargetText(tokenizer)
    assert [word for token in first for word in target.push(token, 1)] == []
    assert target.push(both[len(first)], 3) == [Word("verkauft", 3, spaced=False)]
    assert [word for token in both[len(first) + 1 :] for word in target.push(token, 4)] == []
    assert target.push(tokenizer.eos_token_id, 5) == [Word("Haus", 5, spaced=True)]
    assert target.end(6) == []
    assert [word for token in first for word in target.push(token, 1)] + target.end(2) == [
        Word("verkauft", 2, spaced=False)
    ]


def test_chinese_words_are_shown_as_they_are_written(fast):
    words = retell(fast, encode(fast, "今天很好 ja 龘龘"))
    assert "".join(word.text for word in words) == "今天很好ja龘龘"
    assert [word.text for word in words][-3:] == ["ja", "龘", "龘"]
    assert [word.spaced for word in words][-3:] == [True, True, False]


def test_vocabularies_that_do_not_mark_the_space_are_understood():
    level = word_tokenizer(["Haus", "Boot"])
    assert [word.text for word in retell(level, encode(level, "Haus Boot Haus"))] == [
        "Haus",
        "Boot",
        "Haus",
    ]
    pieces = word_tokenizer(["Haus", "Boot", "##en"])
    assert shown(retell(pieces, encode(pieces, "Haus Booten Haus"))) == "Haus Booten Haus"
    assert tokens_of(stream(SourceText(level), ["Haus Bo", "ot"])) == [1, 2, 0]


def test_special_tokens_show_nothing(tokenizers):
    fast = tokenizers["fast"]
    assert retell(fast, [fast.pad_token_id, fast.unk_token_id]) == []
    haus = encode(fast, "Haus")
    assert [word.text for word in retell(fast, [fast.pad_token_id, *haus])] == ["Haus"]
