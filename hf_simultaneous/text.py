"""Arriving text to tokens that can no longer change.

Knows words, sentences and a tokenizer it is given; knows nothing of models, nor of when to read and
when to write."""

import codecs
import time
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from .schedule import check_at_least_one
from .sentences import SentenceSplitting, ends_behind, stop_after
from .transcripts import Transcript
from .words import SPACE, UNSPACED, composed, normal, plain_signs


class TextTokenizer(Hashable, Protocol):
    """What is used of a transformers tokenizer, fast or slow."""

    @property
    def eos_token_id(self) -> int | None: ...

    def __call__(self, text: str, **options: Any) -> Any: ...

    def decode(self, token_ids: list[int], **options: Any) -> Any: ...

    def convert_ids_to_tokens(self, ids: int) -> Any: ...

    def get_vocab(self) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens that can no longer change from the same moment on: a word, or characters of a script
    without spaces. A sentence's `</s>` is a piece of its own."""

    tokens: tuple[int, ...]
    text: str
    words: int
    """Words of this sentence that had arrived by then: the delay, in words, of what is written
    next."""
    ends_sentence: bool = False
    last: bool = False
    """Does it end its sentence by itself, so that `</s>` arrives with it?"""

    @property
    def undecided(self) -> range:
        """After how many of its tokens there is nothing to decide: the next is here already."""
        return range(1, len(self.tokens) + self.last)


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
    stop: str = ""
    """The full stop that the word has come to in a script without spaces; only more of them and
    closing quotes may follow."""

    def take_word(self) -> tuple[str, int, int]:
        word = self.word, self.emitted, self.shown
        self.word, self.emitted, self.shown, self.stop = "", 0, 0, ""
        return word


class SourceText:
    """Turns arriving text into tokens, each as soon as nothing that follows can change it.

    However a text is cut into fragments, the tokens are those of each of its sentences tokenised
    whole, once white space is normal: every run of white space (U+2581 is white space too) is one
    space, none at either end; control characters and invisible ones are gone, and half a surrogate
    pair is U+FFFD; words are spelled as vocabularies do (`spelled`), and one above `max_word`
    characters is cut as by spaces. Names of special tokens (`</s>`) in a text are ordinary text.
    This is exact for BPE and unigram tokenizers whose tokens do not reach over a space; in scripts
    without spaces, for composed (NFKC) characters.

    A word is final at the space behind it. A character of a script without spaces is final once no
    entry of the vocabulary could join it with characters still to come."""

    def __init__(
        self,
        tokenizer: TextTokenizer,
        rules: SentenceSplitting | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if tokenizer.eos_token_id is None:
            raise ValueError(
                "the tokenizer has no eos_token, and a sentence must end with one. Set "
                "tokenizer.eos_token"
            )
        self.rules = rules or SentenceSplitting()
        self._eos = tokenizer.eos_token_id
        self._tokenizer = tokenizer
        self._clock = clock
        self._heard = clock()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._transcript = Transcript()
        self._ready: list[Piece] = []
        self._open = _Open()

    def push_word(self, word: str) -> list[Piece]:
        """A whole word, final at once. (Characters of a script without spaces go to
        `push_text`.)"""
        if not isinstance(word, str):
            raise TypeError(
                f"a word is a str; got {word!r}. Bytes go to push_text, or to stream() with "
                "fragments=True"
            )
        return self.push_text(f" {word} ")

    def push_text(self, fragment: str | bytes) -> list[Piece]:
        """A fragment of any size; bytes are UTF-8, what is invalid in them becomes U+FFFD."""
        self._hear()
        self._push_tail()
        self._feed(self._decoded(fragment))
        return self._drain()

    def push_transcript(self, text: str, *, stable: int = 1) -> list[Piece]:
        """The whole text so far, from a source that sends it again and again, until `flush`.

        Read are words that the latest `stable` texts agree on, less the last word of the newest
        (characters of a script without spaces are read at once); only what was read must not change
        any more."""
        check_at_least_one("stable", stable)
        # A recogniser may repeat itself while nobody speaks.
        self._hear(speech=not self._transcript.repeats(text))
        self._feed(self._transcript.hear(text, stable))
        return self._drain()

    def listen(self) -> None:
        """Silence begins now: the time it took to translate the last words does not count."""
        self._heard = self._clock()

    def poll(self) -> list[Piece]:
        """To be called while nothing arrives: ends the sentence when the silence has lasted long
        enough."""
        if self.rules.silence is not None and self._clock() - self._heard >= self.rules.silence:
            self._flush()
        return self._drain()

    def flush(self) -> list[Piece]:
        """Ends the sentence: what was held back, and `</s>`. Nothing at all where no sentence was
        begun. The next transcript is a new one."""
        self._flush()
        self._transcript = Transcript()
        return self._drain()

    @property
    def owes(self) -> bool:
        """Has something arrived of a sentence that is not over?"""
        return bool(self._open.tokens or self._open.word or self._transcript.tail)

    def _hear(self, *, speech: bool = True) -> None:
        """Text that comes after a silence belongs to a new sentence, whether or not anybody
        polled."""
        self._ready = self.poll()
        if speech:
            self.listen()

    def _flush(self) -> None:
        self._push_tail()
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

    def _push_tail(self) -> None:
        self._feed(self._transcript.settle())

    def _feed(self, text: str) -> None:
        # One character at a time: that is why it cannot matter how the text was cut.
        for char in normal(text):
            self._take(char)

    def _take(self, char: str) -> None:
        if self._open.stop and ends_behind(self._open.stop, char):
            self._finish_word()
        if char == " " or len(self._open.word) >= self.rules.max_word:
            self._finish_word()
        if char == " ":
            return
        now = self._open
        before, unspaced = now.word[-1:], UNSPACED.match(char) is not None
        if unspaced or not before or UNSPACED.match(before):
            now.words += 1
        now.word += char
        now.spoken = now.spoken or char.isalnum()
        now.stop = stop_after(now.stop, char, before) if now.spoken else ""
        if unspaced and not now.stop:
            self._emit_final_characters()

    def _finish_word(self) -> None:
        word, emitted, shown = self._open.take_word()
        if not word:
            return
        if not emitted and self._is_long() and self.rules.pauses_before(word):
            self._open.words -= 1  # the word belongs to the next sentence
            self._end_sentence()
            self._open = _Open(words=1, spoken=True)
        tokens = self._encode(word)
        if self._open.first is None:
            self._open.first, self._open.first_tokens = word, len(tokens)
        self._emit(tokens[emitted:], word[shown:])
        if (
            self._open.tokens >= self.rules.max_tokens
            or (self._open.spoken and self.rules.ends(word))
            or (self._is_long() and self.rules.pauses_after(word))
        ):
            self._end_by_rule(tokens[emitted:])

    def _is_long(self) -> bool:
        return self.rules.is_long(self._open.tokens)

    def _emit_final_characters(self) -> None:
        """Emit what is final of a word in a script without spaces; a sentence that is full ends
        there."""
        now = self._open
        cut, final = self._final_part(now.word)
        if cut <= now.shown:
            return
        new = final[now.emitted :]
        self._emit(new, now.word[now.shown : cut])
        now.emitted, now.shown = len(final), cut
        if now.tokens >= self.rules.max_tokens:
            rest = now.word[cut:]
            self._end_by_rule(new)
            self._feed(rest)

    def _final_part(self, word: str) -> tuple[int, list[int]]:
        """How many characters of an unfinished word are final, and their tokens.

        In the tokens of the whole text, let p be the last boundary inside what has arrived. The
        token after p starts with all that arrived after p: that must be how some entry of the
        vocabulary starts, or be nothing. And up to a boundary, BPE and unigram tokenise a text as
        they do its beginning alone. So the tokens up to the earliest such p are final if the tokens
        up to every later one begin with them."""
        starts = vocabulary_starts(self._tokenizer)
        written = SPACE + word
        nearest = max(0, len(written) - starts.longest)
        cuts = [
            cut - 1
            for cut in range(nearest, len(written))
            if _may_grow(spelled(written[cut:], self._tokenizer), starts)
        ] + [len(word)]
        if not starts.longest or cuts[0] < 1:
            return 0, []
        final, *longer = (self._encode(word[:cut]) for cut in cuts)
        agreed = all(tokens[: len(final)] == final for tokens in longer)
        return (cuts[0], final) if agreed else (0, [])

    def _emit(self, tokens: list[int], text: str) -> None:
        self._open.tokens += len(tokens)
        if tokens:
            self._ready.append(Piece(tuple(tokens), text, self._open.words))

    def _end_by_rule(self, emitted: list[int]) -> None:
        """The text itself ends the sentence, with what was emitted just now, if anything was."""
        if emitted:
            self._ready[-1] = replace(self._ready[-1], last=True)
        self._end_sentence()

    def _end_sentence(self) -> None:
        if self._open.tokens:
            self._ready.append(Piece((self._eos,), "", self._open.words, ends_sentence=True))
        self._open = _Open()

    def _encode(self, word: str) -> list[int]:
        """The tokens of `word` where it stands: a tokenizer may treat the first word of a text
        unlike the others."""
        first = self._open.first
        return (
            self._tokens(word)
            if first is None
            else self._tokens(f"{first} {word}")[self._open.first_tokens :]
        )

    def _tokens(self, text: str) -> list[int]:
        options = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        return list(self._tokenizer(spelled(text, self._tokenizer), **options)["input_ids"])


def whole_sentences(pieces: Iterable[Piece]) -> Iterator[tuple[list[int], list[int]]]:
    """The tokens of each sentence that is over, `</s>` included, and after how many of them there
    was nothing to decide: for those who translate it once all of it is there."""
    tokens, undecided = list[int](), list[int]()
    for piece in pieces:
        undecided += [len(tokens) + number for number in piece.undecided]
        tokens += piece.tokens
        if piece.ends_sentence:
            yield tokens, undecided
            tokens, undecided = [], []


class Starts:
    """Every beginning of an entry that is not all of it. Looked up among the sorted entries: a
    list of all beginnings would grow with the square of the longest entry."""

    def __init__(self, entries: Iterable[str]):
        self._entries = sorted(entries)
        self.longest = max(map(len, self._entries), default=1) - 1

    def __contains__(self, text: str) -> bool:
        after = bisect_right(self._entries, text)
        return after < len(self._entries) and self._entries[after].startswith(text)


def _may_grow(text: str, starts: Starts) -> bool:
    # Many tokenizers fold characters (full-width letters, say) before they look into their
    # vocabulary.
    return text in starts or unicodedata.normalize("NFKC", text) in starts


def spelled(text: str, tokenizer: TextTokenizer) -> str:
    """A text as this tokenizer can read it: letters composed, and plain signs for those it does
    not know."""
    return composed(text).translate(_plain(tokenizer))


def as_read(text: str, tokenizer: TextTokenizer) -> str:
    """What a stream reads of a sentence, for those who tokenise it whole."""
    return spelled(" ".join(normal(text).split()), tokenizer)


@lru_cache(maxsize=4)
def _plain(tokenizer: TextTokenizer) -> dict[int, str]:
    return plain_signs(tokenizer.get_vocab())


@lru_cache(maxsize=4)
def vocabulary_starts(tokenizer: TextTokenizer) -> Starts:
    """How the entries of a vocabulary may begin.

    Empty for a byte-level vocabulary, whose entries may hold parts of characters: there only a
    space settles a word."""
    entries = set(tokenizer.get_vocab())
    # Marian and M2M100 split with one list of entries and number them with another.
    pieces = getattr(tokenizer, "spm_source", None) or getattr(tokenizer, "sp_model", None)
    if pieces is not None:
        entries |= {pieces.id_to_piece(i) for i in range(pieces.get_piece_size())}
    if not any(entry.startswith(SPACE) for entry in entries):
        return Starts(())
    return Starts(entries)
