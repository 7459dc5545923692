"""Pairs German sentences that Tatoeba has no English for with translations made for this project.

    python -m training.translated --source german-only.de --output runs/translated

The German is not here: `translations/` has the English alone, each line after the digest of the
sentence it translates, so that any copy of Tatoeba's German finds its own. Knows words only."""

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from unicodedata import normalize

from .aligned import add_output, read_lines, write_aligned
from .checked import InputError
from .command import command_line, exit_code
from .mixing import Pair


TRANSLATIONS = Path(__file__).with_name("translations") / "tatoeba.tsv"
DIGITS = 12
"""Of a digest, enough to tell millions of sentences apart."""


def digest(german: str) -> str:
    """What stands for a sentence, however its umlauts are composed."""
    return sha256(normalize("NFC", german.strip()).encode()).hexdigest()[:DIGITS]


def read_translations(file: Path) -> dict[str, str]:
    """The English of every digest in the file."""
    found = {}
    for number, line in enumerate(read_lines(file), start=1):
        key, tab, english = line.partition("\t")
        if not tab or len(key) != DIGITS or not english.strip():
            raise InputError(
                f"{file} line {number} is {line[:40]!r}; a line is a digest of {DIGITS} "
                f"characters, a tab and a translation"
            )
        found[key] = english
    return found


def translated(sentences: Iterable[str], known: Mapping[str, str]) -> Iterator[Pair]:
    """The sentences that have a translation, with it, in their order and each once."""
    for german in dict.fromkeys(sentences):
        if (english := known.get(digest(german))) is not None:
            yield german.strip(), english


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("translated", __doc__)
    parser.add_argument("--source", required=True, type=Path, help="German, a sentence a line")
    parser.add_argument(
        "--translations",
        type=Path,
        default=TRANSLATIONS,
        help="digests and English; by default the project's own",
    )
    add_output(parser)
    given = parser.parse_args(arguments)
    return exit_code(lambda: print(_paired(given)))


def _paired(given: Namespace) -> str:
    known = read_translations(given.translations)
    pairs = list(translated(read_lines(given.source), known))
    if not pairs:
        raise InputError(
            f"no sentence of {given.source} is among the {len(known)} of {given.translations}; "
            f"give Tatoeba's German sentences, one a line"
        )
    write_aligned(given.output, pairs, force=given.force)
    return f"{len(pairs)} pairs, of {len(known)} translations"


if __name__ == "__main__":
    sys.exit(main())
