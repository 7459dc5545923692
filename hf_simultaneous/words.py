"""What a word is: which characters part words, and which scripts are written without spaces.

Knows characters only; no tokenizer, no sentence and no model. Streams, logs and the tokenizers that
training makes all count by what is written here."""

import re


SPACE = "▁"  # how vocabularies write the space before a word

CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")
SPACES = re.compile(rf"[\s{SPACE}]")
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
_WORD = re.compile(rf"[^\s{_RANGES}]+|(?!\s){UNSPACED_CLASS}")


def normal(text: str) -> str:
    """The text as it is tokenised and counted: every white space (U+2581 is one too) a space,
    without control characters and U+FEFF, half a surrogate pair as U+FFFD."""
    return SURROGATES.sub("\ufffd", SPACES.sub(" ", CONTROLS.sub("", text)))


def source_words(text: str) -> list[str]:
    """What stands between spaces; in scripts that are written without them, every character."""
    return _WORD.findall(normal(text))
