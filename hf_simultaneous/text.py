"""Arriving text to tokens that can no longer change (`SourceText`), and tokens to finished words (`TargetText`).

Knows words, sentences and a tokenizer it is given; knows nothing of models, nor of when to read and when to write.
"""

import codecs
import re
import time
import unicodedata
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from .schedule import check_at_least_one


SPACE = "▁"  # how vocabularies write the space before a word
WORD_STARTS = (SPACE, "Ġ")  # sentencepiece and Metaspace; byte-level BPE
WORD_GOES_ON = "##"  # WordPiece marks the other tokens; where a word is a token, none is marked

CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")
SPACES = re.compile(rf"[\s{SPACE}]")
SURROGATES = re.compile("[\ud800-\udfff]")
BYTE = re.compile("<0x[0-9A-F]{2}>")
# Thai, Lao; Myanmar; Khmer; Chinese and Japanese with their punctuation and full-width forms.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u31f0-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)

STOPS = "。！？｡"
CLOSERS = "\"'”“’‘»«›‹)]}」』）］】》〉"
OPENERS = CLOSERS + "„‚([{¿¡「『（［【《〈"
LETTERS_WITH_DOTS = re.compile(r"[^\W\d_](\.[^\W\d_])*")  # z. B. / z.B. / J. S. Bach
ORDINAL = re.compile(r"(\d{1,2}\.)?\d{1,3}|[IVXLCDM]+")  # am 3. Mai / am 3.5. / Ludwig XIV.; a year ends a sentence
SHORTENED = """abb abs abt allg apr aufl aug bd betr bspw bzgl bzw ca chr co dez dgl dipl dipl.-ing dr dt ebd eigtl
engl etc ev evtl feb ff geb gegr gest ggf hl hr hrsg inc ing inkl jan jh jhd jr jul jun jur kath lat ltd mio mr mrd mrs
ms nov nr okt östl nördl prof rd röm sep sept sog sr st std str südl tägl tel urspr usw verh versch vgl vs westl wg zw
zzgl"""
ABBREVIATIONS = frozenset(SHORTENED.split())


class TextTokenizer(Hashable, Protocol):
    """What is used of a transformers tokenizer, fast or slow."""

    @property
    def eos_token_id(self) -> int | None: ...

    def __call__(self, text: str, **options: Any) -> Any: ...

    def decode(self, token_ids: list[int], **options: Any) -> Any: ...

    def convert_ids_to_tokens(self, ids: int) -> Any: ...

    def get_vocab(self) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceRules:
    """When a stream starts a new sentence, besides `flush()`."""

    max_tokens: int = 100
    """A sentence ends after the word that brings it to this many tokens."""
    max_word: int = 100
    """A word of more characters is cut into words of this many."""
    silence: float | None = None
    """Seconds without text after which the sentence is over; `None` waits for ever."""
    abbreviations: frozenset[str] = ABBREVIATIONS
    """Words whose full stop ends no sentence: lower case, without that stop."""

    def __post_init__(self) -> None:
        check_at_least_one("max_tokens", self.max_tokens)
        check_at_least_one("max_word", self.max_word)
        if self.silence is not None and not self.silence > 0:
            raise ValueError(f"silence is a number of seconds above 0, or None for no time-out; got {self.silence!r}")

    def ends(self, word: str) -> bool:
        """Does a sentence end with this word? Where a full stop leaves doubt, it does not.

        Joining two sentences costs little; cutting one in two spoils both halves.
        """
        bare = word.rstrip(CLOSERS)
        if not bare.endswith("."):
            return bare.endswith((*STOPS, "!", "?"))
        stem = bare[:-1].lstrip(OPENERS)
        doubtful = LETTERS_WITH_DOTS.fullmatch(stem) or ORDINAL.fullmatch(stem) or stem.lower() in self.abbreviations
        return not (doubtful or stem.endswith("."))  # two stops and more are a pause


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens that can no longer change. A sentence's `</s>` is a piece of its own."""

    tokens: tuple[int, ...]
    text: str
    words: int
    """Words of this sentence that had arrived by then: the delay, in words, of what is written next."""
    ends_sentence: bool = False


@dataclass(slots=True)
class _Open:
    """The sentence that is arriving, and its unfinished word."""

    tokens: int = 0
    words: int = 0
    first: str | None = None
    """Its first word, once that is finished, and how many tokens that has."""
    first_tokens: int = 0
    spoken: bool = False
    """There was a letter or a digit: punctuation alone ends no sentence."""
    word: str = ""
    emitted: int = 0
    shown: int = 0
    """Tokens and characters of the unfinished word that are out already."""
    stopped: bool = False
    """The word has come to a full stop of a script without spaces; only closing quotes may follow."""

    def take_word(self) -> tuple[str, int, int]:
        word = self.word, self.emitted, self.shown
        self.word, self.emitted, self.shown, self.stopped = "", 0, 0, False
        return word


class SourceText:
    """Turns arriving text into tokens, each as soon as nothing that follows can change it.

    However a text is cut into fragments, the tokens are those of each of its sentences tokenised whole, once white
    space is normal: every run of white space (U+2581 is white space too) is one space, none at either end; control
    characters and U+FEFF are gone, and half a surrogate pair is U+FFFD; a word above `max_word` characters is cut as
    by spaces. Names of special tokens (`</s>`) in a text are ordinary text. This is exact for BPE and unigram
    tokenizers whose tokens do not reach over a space; in scripts without spaces, for composed (NFKC) characters.

    A word is final at the space behind it. A character of a script without spaces is final once no entry of the
    vocabulary could join it with characters still to come.
    """

    def __init__(
        self,
        tokenizer: TextTokenizer,
        rules: SentenceRules | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if tokenizer.eos_token_id is None:
            raise ValueError(
                "the tokenizer has no eos_token, and a sentence must end with one. Set tokenizer.eos_token"
            )
        self.rules = rules or SentenceRules()
        self._eos = tokenizer.eos_token_id
        self._tokenizer = tokenizer
        self._clock = clock
        self._heard = clock()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._settled = self._tail = ""  # of a transcript: what may not change any more, and what may
        self._ready: list[Piece] = []
        self._open = _Open()

    def push_word(self, word: str) -> list[Piece]:
        """A whole word, final at once. (Characters of a script without spaces go to `push_text`.)"""
        return self.push_text(f" {word} ")

    def push_text(self, fragment: str | bytes) -> list[Piece]:
        """A fragment of any size; bytes are UTF-8, what is invalid in them becomes U+FFFD."""
        self._hear()
        self._settle_tail()
        self._feed(self._decoded(fragment))
        return self._drain()

    def push_transcript(self, text: str) -> list[Piece]:
        """The whole text so far, from a source that sends it again and again. Only its last word may still change."""
        self._hear()
        if not text.startswith(self._settled):
            raise ValueError(_revised(self._settled, text))
        end = len(text)
        while end > len(self._settled) and not (SPACES.match(text[end - 1]) or UNSPACED.match(text[end - 1])):
            end -= 1
        self._feed(text[len(self._settled) : end])
        self._settled, self._tail = text[:end], text[end:]
        return self._drain()

    def poll(self) -> list[Piece]:
        """To be called while nothing arrives: ends the sentence when the silence has lasted long enough."""
        if self.rules.silence is not None and self._clock() - self._heard >= self.rules.silence:
            self._flush()
        return self._drain()

    def flush(self) -> list[Piece]:
        """Ends the sentence: what was held back, and `</s>`. Nothing at all where no sentence was begun."""
        self._flush()
        return self._drain()

    def _hear(self) -> None:
        """Text that comes after a silence belongs to a new sentence, whether or not anybody polled."""
        self._ready = self.poll()
        self._heard = self._clock()

    def _flush(self) -> None:
        self._settle_tail()
        self._feed(self._decoded(""))
        self._finish_word()
        self._end_sentence()

    def _drain(self) -> list[Piece]:
        ready, self._ready = self._ready, []
        return ready

    def _decoded(self, fragment: str | bytes) -> str:
        if isinstance(fragment, bytes):
            return self._decoder.decode(fragment)
        return self._decoder.decode(b"", final=True) + fragment

    def _settle_tail(self) -> None:
        tail, self._tail = self._tail, ""
        self._settled += tail
        self._feed(tail)

    def _feed(self, text: str) -> None:
        # One character at a time: that is why it cannot matter how the text was cut.
        for char in SURROGATES.sub("\ufffd", SPACES.sub(" ", CONTROLS.sub("", text))):
            self._take(char)

    def _take(self, char: str) -> None:
        if self._open.stopped and char not in STOPS + CLOSERS:
            self._finish_word()
        if char == " " or len(self._open.word) >= self.rules.max_word:
            self._finish_word()
        if char == " ":
            return
        now = self._open
        unspaced = UNSPACED.match(char) is not None
        if unspaced or not now.word or UNSPACED.match(now.word[-1]):
            now.words += 1
        now.word += char
        now.spoken = now.spoken or char.isalnum()
        now.stopped = now.spoken and (char in STOPS or now.stopped)
        if unspaced and not now.stopped:
            self._settle()

    def _finish_word(self) -> None:
        word, emitted, shown = self._open.take_word()
        if not word:
            return
        tokens = self._encode(word)
        if self._open.first is None:
            self._open.first, self._open.first_tokens = word, len(tokens)
        self._emit(tokens[emitted:], word[shown:])
        if self._open.tokens >= self.rules.max_tokens or (self._open.spoken and self.rules.ends(word)):
            self._end_sentence()

    def _settle(self) -> None:
        """Emit what is final of a word in a script without spaces; a sentence that is full ends there."""
        now = self._open
        cut, final = self._final_part(now.word)
        if cut <= now.shown:
            return
        self._emit(final[now.emitted :], now.word[now.shown : cut])
        now.emitted, now.shown = len(final), cut
        if now.tokens >= self.rules.max_tokens:
            rest = now.word[cut:]
            self._end_sentence()
            self._feed(rest)

    def _final_part(self, word: str) -> tuple[int, list[int]]:
        """How many characters of an unfinished word are final, and their tokens.

        In the tokens of the whole text, let p be the last boundary inside what has arrived. The token after p starts
        with all that arrived after p: that must be how some entry of the vocabulary starts, or be nothing. And up to
        a boundary, BPE and unigram tokenise a text as they do its beginning alone. So the tokens up to the earliest
        such p are final if the tokens up to every later one begin with them.
        """
        starts, longest = vocabulary_starts(self._tokenizer)
        written = SPACE + word
        nearest = max(0, len(written) - longest)
        cuts = [cut - 1 for cut in range(nearest, len(written)) if _may_grow(written[cut:], starts)] + [len(word)]
        if not starts or cuts[0] < 1:
            return 0, []
        final, *longer = (self._encode(word[:cut]) for cut in cuts)
        agreed = all(tokens[: len(final)] == final for tokens in longer)
        return (cuts[0], final) if agreed else (0, [])

    def _emit(self, tokens: list[int], text: str) -> None:
        self._open.tokens += len(tokens)
        if tokens:
            self._ready.append(Piece(tuple(tokens), text, self._open.words))

    def _end_sentence(self) -> None:
        if self._open.tokens:
            self._ready.append(Piece((self._eos,), "", self._open.words, ends_sentence=True))
        self._open = _Open()

    def _encode(self, word: str) -> list[int]:
        """The tokens of `word` where it stands: a tokenizer may treat the first word of a text unlike the others."""
        first = self._open.first
        return self._tokens(word) if first is None else self._tokens(f"{first} {word}")[self._open.first_tokens :]

    def _tokens(self, text: str) -> list[int]:
        options = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        return list(self._tokenizer(text, **options)["input_ids"])


def _may_grow(text: str, starts: frozenset[str]) -> bool:
    # Many tokenizers fold characters (full-width letters, say) before they look into their vocabulary.
    return text in starts or unicodedata.normalize("NFKC", text) in starts


def _revised(settled: str, text: str) -> str:
    same = next(
        (i for i, (a, b) in enumerate(zip(settled, text, strict=False)) if a != b), min(len(settled), len(text))
    )
    begin = max(0, same - 20)
    return (
        f"the source changed what it had sent: {settled[begin : same + 20]!r} became {text[begin : same + 20]!r}, at "
        f"character {same}. Only the last word may still change: send text that stays, or start a new SourceText"
    )


@lru_cache(maxsize=4)
def vocabulary_starts(tokenizer: TextTokenizer) -> tuple[frozenset[str], int]:
    """Every beginning of a vocabulary entry that is not all of it, and the length of the longest.

    Empty for a byte-level vocabulary, whose entries may hold parts of characters: there only a space settles a word.
    """
    entries = set(tokenizer.get_vocab())
    pieces = getattr(tokenizer, "spm_source", None)
    if pieces is not None:  # Marian splits with one list of entries and numbers them with another
        entries |= {pieces.id_to_piece(i) for i in range(pieces.get_piece_size())}
    if not any(entry.startswith(SPACE) for entry in entries):
        return frozenset(), 0
    starts = frozenset(entry[:end] for entry in entries for end in range(1, len(entry)))
    return starts, max(map(len, starts), default=0)


@dataclass(frozen=True, slots=True)
class Word:
    """A finished word of the translation."""

    text: str
    delay: int
    """Words of the source that had arrived when this word was finished and could be shown."""
    spaced: bool
    """Does a space stand before it? Not before the first of a sentence, nor between Chinese characters."""


class TargetText:
    """Turns written tokens into words, each when the next begins or the sentence ends.

    In scripts without spaces a word is a token or, where one character is spelled in bytes, that character.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._marked = any(entry.startswith(WORD_STARTS) for entry in tokenizer.get_vocab())
        self._tokens: list[int] = []
        self._first = True
        self._spaced = False
        self._complete = False  # the last token ended a character of a script without spaces

    def push(self, token: int, delay: int) -> list[Word]:
        """A token written when `delay` source words had arrived (`Piece.words`); `</s>` ends the sentence."""
        if token == self._tokenizer.eos_token_id:
            return self.end(delay)
        entry = str(self._tokenizer.convert_ids_to_tokens(token))
        begins = entry.startswith(WORD_STARTS) if self._marked else not entry.startswith(WORD_GOES_ON)
        words = self._finish(delay) if begins or self._complete else []
        self._spaced = self._spaced or begins
        self._tokens.append(token)
        last = self._text()[-1:] if BYTE.fullmatch(entry) else entry[-1:]
        self._complete = UNSPACED.match(last) is not None
        return words

    def end(self, delay: int) -> list[Word]:
        """The sentence is over, with or without `</s>`: its last word."""
        words = self._finish(delay)
        self._first, self._spaced, self._complete = True, False, False
        return words

    def _finish(self, delay: int) -> list[Word]:
        text, self._tokens = self._text(), []
        if not text:  # a lone space, or special tokens: the space still stands before what follows
            return []
        word = Word(text, delay, self._spaced and not self._first)
        self._first = self._spaced = False
        return [word]

    def _text(self) -> str:
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        return " ".join(str(self._tokenizer.decode(self._tokens, **options)).split())
