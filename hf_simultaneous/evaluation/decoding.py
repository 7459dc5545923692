"""How a corpus is decoded: batches, beams, how sentences may end and who writes their tails.

Knows the options and what they are called in words; decoding itself is `corpus`' business."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from ..actions import Models
from ..generation import AdaptiveWaitKGenerator
from ..schedule import K, check_at_least_one
from ..sets import saved_k


TOKEN, WORD = "token", "word"
"""What may arrive at once."""


@dataclass(frozen=True)
class Decoding:
    """How a corpus is decoded.

    `beams` above 1 is beam search over finished sentences, for the full-sentence policy only.
    `timed` sentences, spread over the corpus, are decoded once more one by one with a clock
    running. How sentences end (`early_stop`) and who writes their tails (`tail_beams`, `tail`) is
    the set's own unless it is told: `tail_beams=1, tail=None` is the paper's, and that of
    `generate`. `reads` is what arrives at once, and is read before anything is decided: a token,
    as in the paper, or a word, as in sessions of text."""

    _: KW_ONLY
    batch_size: int = 128
    beams: int = 1
    timed: int = 20
    progress: bool = True
    tail_beams: int | None = None
    tail: K | Sequence[K] | Literal["own"] | None = "own"
    early_stop: bool | None = None
    reads: str = TOKEN

    def __post_init__(self) -> None:
        check_at_least_one("batch_size", self.batch_size)
        check_at_least_one("beams", self.beams)
        if self.tail_beams is not None:
            check_at_least_one("tail_beams", self.tail_beams)
        if self.reads not in (TOKEN, WORD):
            raise ValueError(f"reads must be {TOKEN} or {WORD}; got {self.reads!r}")
        if self.timed < 0:
            raise ValueError(f"timed must be 0 or more; got {self.timed}")
        searched = self.tail_beams not in (None, 1) or self.tail not in ("own", None)
        if self.beams > 1 and searched:
            raise ValueError(
                f"beams={self.beams} searches whole sentences, which have no tail; leave out beams "
                f"or the tail: got tail_beams={self.tail_beams}, tail={self.tail!r}"
            )

    def of(self, generator: AdaptiveWaitKGenerator) -> "Decoding":
        """The same with nothing left open about tails: this set's own, where none was told. A
        search over whole sentences has none."""
        if self.beams > 1:
            return replace(self, tail_beams=1, tail=None)
        beams = generator.tail_beams if self.tail_beams is None else self.tail_beams
        return replace(
            self, tail_beams=beams, tail=generator.tail if self.tail == "own" else self.tail
        )

    @property
    def together(self) -> int:
        """Sentences of a batch, so that their beams fill it."""
        return max(1, self.batch_size // max(self.beams, self.tail_beams or 1))

    @property
    def options(self) -> dict[str, Any]:
        """As `generate` and `session` take them."""
        ends = {} if self.early_stop is None else {"early_stop": self.early_stop}
        return {"tail_beams": self.tail_beams, "tail": self.tail, **ends}

    def signature(self, generator: AdaptiveWaitKGenerator) -> str:
        """How sentences end and how their tails are written, with this set: scores with different
        ones do not compare."""
        rules = generator.decoding_rules(**self.of(generator).options)
        ends = "early" if rules.early_stop else "read-on"
        if self.beams > 1:  # searched once all of it is read, however it arrived
            return f"ends:{ends}|beam{self.beams}"
        reads = "" if self.reads == TOKEN else f"|reads:{self.reads}"
        return f"ends:{ends}|{rules.tail}{reads}"


DEFAULT_DECODING = Decoding()


def text_decoding(generator: AdaptiveWaitKGenerator, **options: Any) -> Decoding:
    """As text sessions decode with this set, those given on top; but token by token, the unit of
    Average Lagging, and without their guard against loops, which looks at every row in turn."""
    return Decoding(**{"early_stop": False, **options}).of(generator)


def tail_named(name: str, generator: AdaptiveWaitKGenerator) -> Models | None:
    """Who writes the tail, in a word: `k_max` (whoever the policy asks), `full`, `all`, or members
    such as `1,3`."""
    if name == "k_max":
        return None
    if name == "all":
        return tuple(generator.models)
    try:
        return tuple(saved_k(member.strip()) for member in name.split(","))
    except ValueError:
        raise ValueError(
            f"a tail is k_max, full, all or members of the set such as 1,3; got {name!r}"
        ) from None
