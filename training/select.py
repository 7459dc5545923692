"""Keeps the pairs that an experiment is about: short enough, German, and translated whole.

    python -m training.select --source test.de --reference test.en --max-words 20 --output test20

Of Europarl's sentences of 2011 one in four is in the speaker's own language, untranslated. German
is known by its function words, which make up a third of a text. A translation much shorter than its
source leaves something out, or belongs to another sentence; a model trained on such pairs is short
too, so `--min-ratio` is for text to train on. Knows words only."""

import sys
from collections.abc import Iterable, Iterator, Sequence

from .aligned import keep_pairs
from .command import command_line
from .mixing import Pair


# Those left out (in, des, so, ...) are words of a neighbour too.
GERMAN = """
aber auch auf aus bei bin bitte damit dann das dass dem denn der die dies diese diesem diesen
dieser dieses doch dort durch ein eine einem einen einer eines er etwas euch für gegen habe
haben hat hatte herr hier ich ihm ihn ihnen ihr ihre ihrem ihren ist jetzt kann kein keine
können mehr mein meine meinen mich mir mit müssen nach nicht nichts noch nun nur oder ohne sehr
sein seine sich sie sind sollte sondern und uns unser unsere unter viel vielen vom von vor war
warum weil wenn werden wie wir wird wo wurde zu zum zur zwischen über
"""
FUNCTION_WORDS = frozenset(GERMAN.split())
SHARE = 0.1
"""Of the words of a German sentence, so many at least are function words."""


def is_german(text: str) -> bool:
    """By its function words: names and headings may be missed."""
    words = [word.strip(".,;:!?()\"'–-").lower() for word in text.split()]
    return bool(words) and sum(word in FUNCTION_WORDS for word in words) >= SHARE * len(words)


def kept(
    pairs: Iterable[Pair], max_words: int | None = None, min_ratio: float = 0.0
) -> Iterator[Pair]:
    """The pairs whose source is German and has at most so many words, and whose target has so many
    for each of them, in their order."""
    for source, target in pairs:
        words = len(source.split())
        whole = len(target.split()) >= min_ratio * words
        if whole and (max_words is None or words <= max_words) and is_german(source):
            yield source, target


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = command_line("select", __doc__)
    parser.add_argument("--max-words", type=int, help="of the German sentence")
    parser.add_argument(
        "--min-ratio", type=float, default=0.0, help="of its translation's words to its own"
    )
    return keep_pairs(
        parser,
        lambda given, pairs: kept(pairs, given.max_words, given.min_ratio),
        "is German, short enough and translated whole",
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
