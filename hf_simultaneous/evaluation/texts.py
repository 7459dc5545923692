"""Text files of a corpus: a sentence a line.

Knows files; nothing of models, so what is wrong with a file is said before any is loaded."""

import codecs
from collections.abc import Sequence
from pathlib import Path

from ..words import source_words


def read_sentences(path: str | Path, limit: int | None = None) -> list[str]:
    """A sentence a line; lines end at `\\n` alone, because text may hold other characters that look
    like line ends."""
    try:
        data = Path(path).read_bytes()
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no file {path}; give a text file with a sentence on each line"
        ) from None
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        found = "is UTF-16, not UTF-8" if wide else f"line {line} is not UTF-8"
        given = "utf-16" if wide else "latin1"
        raise ValueError(
            f"{path} {found} (byte {data[error.start]:#x} at place {error.start}); convert the "
            f"file, as in: iconv -f {given} -t utf-8"
        ) from None
    if not text.strip():
        raise ValueError(f"{path} is empty; give a text file with a sentence on each line")
    lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    return lines[:limit]


def read_corpus(
    source: Path, references: Sequence[Path], limit: int | None = None
) -> tuple[list[str], list[list[str]]]:
    """Source and references, which go together."""
    texts = read_sentences(source, limit), [read_sentences(path, limit) for path in references]
    check_texts(*texts)
    return texts


def check_texts(source: list[str], streams: list[list[str]]) -> None:
    """Refuse a source and references that do not go together."""
    for number, stream in enumerate(streams, start=1):
        if len(stream) != len(source):
            raise ValueError(
                f"source and references must have the same number of sentences; got {len(source)} "
                f"and {len(stream)} in reference {number}. Check that the files belong together"
            )
    for name, texts in (("source", source), *(("reference", stream) for stream in streams)):
        empty = next((index for index, text in enumerate(texts) if not text.strip()), None)
        if empty is not None:
            raise ValueError(f"{name} sentence {empty + 1} is empty; leave that pair out")
        wordless = next((index for index, text in enumerate(texts) if not source_words(text)), None)
        if wordless is not None:
            raise ValueError(
                f"{name} sentence {wordless + 1} has no word in it, only {texts[wordless]!r}; "
                f"leave that pair out"
            )
