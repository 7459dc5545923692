"""What a word is: which characters part words, which do not count, and which scripts are written
without spaces.

Knows characters only; no tokenizer, no sentence and no model. Streams, logs and the tokenizers that
training makes all count by what is written here."""

import re
import unicodedata
from collections.abc import Container


SPACE = "▁"  # how vocabularies write the space before a word

# Not U+200C and U+200D, which some scripts need.
INVISIBLE = "\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff"
CONTROLS = re.compile(rf"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f{INVISIBLE}]")
SPACES = re.compile(rf"[\s{SPACE}]")
PLAIN = {"\u2010": "-", "\u2011": "-", "…": "..."}
SURROGATES = re.compile("[\ud800-\udfff]")

# Ranges and nothing else, so that every engine of regular expressions reads the same class.
_RANGES = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
    "\u2e80-\u312f\u3190-\u9fff\uf900-\ufaff"  # Chinese, Japanese
    "\ufe30-\ufe4f"  # their punctuation in columns
    "\uff00-\uffef"  # full-width forms
    "\U00016fe0-\U00016fff\U0001aff0-\U0001b16f"  # their rare signs, historic kana
    "\U0001f200-\U0001f2ff"  # squared kana and Chinese characters
    "\U00020000-\U0003ffff"
)
UNSPACED_CLASS = f"[{_RANGES}]"
UNSPACED = re.compile(UNSPACED_CLASS)
_SPACED_RUN = re.compile(rf"[^{_RANGES}]+")
_WORD = re.compile(rf"[^\s{_RANGES}]+|(?!\s){UNSPACED_CLASS}")


def normal(text: str) -> str:
    """The text as it is tokenised and counted: every white space (U+2581 is one too) a space,
    without control characters and what is invisible, half a surrogate pair as U+FFFD."""
    return SURROGATES.sub("\ufffd", SPACES.sub(" ", CONTROLS.sub("", text)))


def composed(text: str) -> str:
    """The text in NFC, as vocabularies spell it: u and U+0308 are ü.

    Not in scripts without spaces, where a character may be read before its mark arrives."""
    return _SPACED_RUN.sub(lambda run: unicodedata.normalize("NFC", run[0]), text)


def plain_signs(entries: Container[str]) -> dict[int, str]:
    """What stands for a sign that is no entry of a vocabulary; for `str.translate`."""
    return {
        ord(sign): plain
        for sign, plain in PLAIN.items()
        if sign not in entries and SPACE + sign not in entries
    }


def source_words(text: str) -> list[str]:
    """What stands between spaces; in scripts that are written without them, every character."""
    return _WORD.findall(normal(text))
