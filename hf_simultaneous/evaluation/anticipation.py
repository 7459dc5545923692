"""How often a word was written before the source word it translates was read, told by word
alignments made by hand.

Knows logs and alignment files; nothing of models or policies.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from ..words import source_words
from .logs import LoggedSentence


Alignment = Mapping[int, int]
"""Reference word -> the last source word it is aligned to, both counted from 0."""


@dataclass(frozen=True)
class Anticipation:
    """Of the `judged` words of the translations, `anticipated` came before the source word they
    translate.

    A word is judged where it stands in the reference too, in the same order, and is aligned there.
    """

    anticipated: int
    judged: int
    words: int

    @property
    def rate(self) -> float | None:
        """None where no word can be judged."""
        return self.anticipated / self.judged if self.judged else None

    @property
    def signature(self) -> str:
        return f"anticipation|unit:word|match:in-order-lowercase|judged:{self.judged}/{self.words}"


def read_alignments(path: str | Path) -> list[Alignment]:
    """A line a sentence, `0-0 2-1`: source word and reference word, counted from 0."""
    lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    return [_alignment(line, f"{path} line {number}") for number, line in enumerate(lines, start=1)]


def _alignment(line: str, place: str) -> Alignment:
    last: dict[int, int] = {}
    for pair in line.split():
        if not re.fullmatch(r"\d+-\d+", pair):
            raise ValueError(
                f"{place}: an alignment is written as 0-0 2-1, source word and target word; got "
                f"{pair!r}"
            )
        source, target = map(int, pair.split("-"))
        last[target] = max(source, last.get(target, 0))
    return last


def check_alignments(sentences: int, alignments: Sequence[Alignment]) -> None:
    """Refuse alignments of another corpus; this can be told before it is decoded."""
    if sentences != len(alignments):
        raise ValueError(
            f"there must be an alignment for each of the {sentences} sentences; got "
            f"{len(alignments)}"
        )


def anticipation(lines: Sequence[LoggedSentence], alignments: Sequence[Alignment]) -> Anticipation:
    """A word that is aligned to several source words needs all of them, as in Ma et al. (2019)."""
    check_alignments(len(lines), alignments)
    pairs = list(zip(lines, alignments, strict=True))
    fitting = [_inside(line, alignment) for line, alignment in pairs]
    links, lost = sum(map(len, alignments)), sum(map(len, alignments)) - sum(map(len, fitting))
    if lost > links / 20:
        raise ValueError(
            f"{lost} of {links} aligned words are outside their sentences. Check that the files "
            f"belong together and "
            "were split into words alike"
        )
    verdicts = [
        verdict
        for (line, _), kept in zip(pairs, fitting, strict=True)
        for verdict in _judge(line, kept)
    ]
    return Anticipation(
        sum(verdicts), len(verdicts), sum(len(line.word_delays or ()) for line in lines)
    )


def _inside(line: LoggedSentence, alignment: Alignment) -> Alignment:
    """Without the slips of hand-made alignments: words that the sentence does not have."""
    source, target = len(source_words(line.source)), len(line.reference.split())
    return {word: last for word, last in alignment.items() if word < target and last < source}


def _judge(line: LoggedSentence, alignment: Alignment) -> list[bool]:
    if line.word_delays is None:
        raise ValueError(
            f"sentence {line.index} has no delays in words, which word alignments need"
        )
    written, reference = line.hypothesis.lower().split(), line.reference.lower().split()
    blocks = SequenceMatcher(None, written, reference, autojunk=False).get_matching_blocks()
    matched = [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]
    return [
        line.word_delays[own] < alignment[there] + 1 for own, there in matched if there in alignment
    ]
