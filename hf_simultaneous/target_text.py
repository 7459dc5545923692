"""Written tokens to words, each when it is finished, and to pieces of words as they grow.

Knows a tokenizer it is given; nothing of models, nor of when to read and when to write."""

import re
from dataclasses import dataclass, field
from typing import Any

from .text import TextTokenizer
from .words import SPACE, UNSPACED


WORD_STARTS = (SPACE, "Ġ")  # sentencepiece and Metaspace; byte-level BPE
WORD_GOES_ON = "##"  # WordPiece marks the other tokens; where a word is a token, none is marked
BYTE = re.compile("<0x[0-9A-F]{2}>")
HALF_A_CHARACTER = "\ufffd"  # what a tokenizer decodes bytes to, as long as some are missing


@dataclass(frozen=True, slots=True)
class Growth:
    """What an unfinished word has grown by: final, as all that is written."""

    text: str
    spaced: bool


@dataclass(frozen=True, slots=True)
class Word:
    """A finished word of the translation."""

    text: str
    delay: int
    """Words of the source that had arrived when this word was finished and could be shown."""
    spaced: bool
    """Does a space stand before it? Not before the first of a sentence, nor between Chinese
    characters."""
    unseen: Growth | None = field(default=None, compare=False)
    """The part of it that `grown` has not given yet."""


class TargetText:
    """Turns written tokens into words, each when the next begins or the sentence ends.

    In scripts without spaces a word is a token or, where one character is spelled in bytes, that
    character."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._marked = any(entry.startswith(WORD_STARTS) for entry in tokenizer.get_vocab())
        self._tokens: list[int] = []
        self._first = True
        self._spaced = False
        self._shown = ""  # what `grown` has given of the unfinished word
        self._complete = False  # the last token ended a character of a script without spaces

    def push(self, token: int, delay: int) -> list[Word]:
        """A token written when `delay` source words had arrived (`Piece.words`); `</s>` ends the
        sentence."""
        if token == self._tokenizer.eos_token_id:
            return self.end(delay)
        entry = str(self._tokenizer.convert_ids_to_tokens(token))
        begins = (
            entry.startswith(WORD_STARTS) if self._marked else not entry.startswith(WORD_GOES_ON)
        )
        words = self._finish(delay) if begins or self._complete else []
        self._spaced = self._spaced or begins
        self._tokens.append(token)
        last = self._text()[-1:] if BYTE.fullmatch(entry) else entry[-1:]
        self._complete = UNSPACED.match(last) is not None
        return words

    def grown(self) -> Growth | None:
        """What the unfinished word has grown by since this was last asked, if anything."""
        text = self._text()
        return None if text.endswith(HALF_A_CHARACTER) else self._grow(text)

    def _grow(self, text: str) -> Growth | None:
        more = text.removeprefix(self._shown)
        if not more or not text.startswith(self._shown):
            return None
        spaced = self._spaced and not self._first and not self._shown
        self._shown = text
        return Growth(more, spaced)

    def end(self, delay: int) -> list[Word]:
        """The sentence is over, with or without `</s>`: its last word."""
        words = self._finish(delay)
        self._first, self._spaced, self._complete = True, False, False
        return words

    def _finish(self, delay: int) -> list[Word]:
        text, self._tokens = self._text(), []
        if not text:  # a lone space, or special tokens: the space still stands before what follows
            return []
        unseen = self._grow(text)
        word = Word(text, delay, self._spaced and not self._first, unseen)
        self._first = self._spaced = False
        self._shown = ""
        return [word]

    def _text(self) -> str:
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        return " ".join(str(self._tokenizer.decode(self._tokens, **options)).split())


def target_ids(tokenizer: Any, texts: list[str], **options: Any) -> list[list[int]]:
    """The tokens of translations, and nothing around them."""
    # Some of Marian's split a target in another way. Others only name its language, and those of
    # M2M100 fail where nobody told them which.
    side = "text" if hasattr(tokenizer, "tgt_lang") else "text_target"
    ids = tokenizer(**{side: texts}, **options, add_special_tokens=False)["input_ids"]
    return list(ids)
