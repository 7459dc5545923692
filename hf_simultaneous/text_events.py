"""What a live translation tells: text events, made from what happens to tokens.

Knows words and events; it translates nothing, and pushes nothing anywhere."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from .actions import Write
from .target_text import Growth, TargetText, Word
from .text import Piece
from .words import UNSPACED


if TYPE_CHECKING:
    from .actions import Event
    from .generation import AdaptiveWaitKGenerator


TextAction = Literal["READ", "PIECE", "WRITE", "END"]


@dataclass(frozen=True, slots=True)
class TextEvent:
    """A source word that was read, a target word that is finished or a piece it grew by, or the
    end of a sentence; final, whichever it is.

    WRITE and PIECE: `k` is the lag its first token was predicted with, `probability` the product
    over its tokens. READ: `k` is the lag before it, `probability` that of the token that was not
    sure enough to be written, if one was asked for. END: `text` is the translation of the whole
    sentence. The pieces of a sentence, joined, are its words, joined."""

    action: TextAction
    text: str
    k: int | None
    probability: float | None
    time: float
    """Seconds since the session was opened."""
    delay: int
    """Words of this source sentence that had arrived by then."""
    delay_tokens: int
    """Tokens of this source sentence that had been read by then; `</s>` is not counted."""
    spaced: bool = False
    """Does a space stand before it? Not before the first of a sentence, nor between Chinese
    characters."""
    tokens: tuple[int, ...] = ()
    """WRITE, PIECE: the tokens it is made of, which force the same text if the sentence is begun
    anew."""
    sentence: int = 0
    """Which sentence of the session this belongs to, and which event of the session it is; both
    count from 1."""
    event: int = 0

    def __str__(self) -> str:
        """The text as it is joined to what came before in its sentence."""
        return f" {self.text}" if self.spaced else self.text

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TextEvent":
        """The event again, out of JSON."""
        return cls(**{**values, "tokens": tuple(values.get("tokens", ()))})


class TextEvents:
    """What one speaker's sentences have to tell, from what happens to their tokens.

    Whoever pushes the tokens takes a piece part by part (`parts`), gives every event of a part to
    `take`, and calls `end` after the part that ends a sentence."""

    def __init__(
        self,
        generator: "AdaptiveWaitKGenerator",
        clock: Callable[[], float] = time.monotonic,
        *,
        pieces: bool = False,
    ):
        tokenizer: Any = generator.tokenizer
        self._target = TargetText(tokenizer)
        self._eos: int = tokenizer.eos_token_id
        self._limit = generator.position_limit - 1
        self._clock = clock
        self._opened = clock()
        self._read = 0
        self._told: Piece | None = None
        self._word: list[Event] = []
        self._wanted_pieces = pieces
        self._untold: list[Event] = []  # tokens that are in no piece yet
        self._translation = ""
        self._sentences = 0  # that are over
        self._count = 0

    @property
    def owes(self) -> bool:
        """Was something read of a sentence that is not over?"""
        return self._read > 0

    def parts(self, piece: Piece) -> Iterator[Piece]:
        """The piece; a word of more tokens than there are places ends the sentence in its middle.

        Each part is made when the one before has been read."""
        while not piece.ends_sentence and self._read + len(piece.tokens) > self._limit:
            room = self._limit - self._read
            if room:
                yield replace(piece, tokens=piece.tokens[:room], last=True)
                piece = replace(piece, tokens=piece.tokens[room:], text="")
            yield Piece((self._eos,), "", piece.words, ends_sentence=True)
        yield piece

    def take(self, event: "Event", piece: Piece) -> Iterator[TextEvent]:
        """An event that the tokens of a part gave rise to."""
        if isinstance(event.action, Write):
            for word in self._target.push(event.token, piece.words):
                yield from self._written(word)
            self._word.append(event)
            if self._wanted_pieces:
                self._untold.append(event)
                yield from self._grown(self._target.grown(), piece.words)
        elif not piece.ends_sentence:
            self._read += 1
            if piece.text and piece is not self._told:
                self._told = piece
                spaced = self._read > 1 and not UNSPACED.match(piece.text)
                yield self._event("READ", piece.text, [event], piece.words, spaced)

    def end(self, piece: Piece) -> Iterator[TextEvent]:
        """The sentence is over: its last word, and that."""
        for word in self._target.end(piece.words):
            yield from self._written(word)
        self._word, self._untold = [], []
        translation, self._translation = self._translation, ""
        yield self._event("END", translation, [], piece.words, False)
        self._read = 0
        self._sentences += 1

    def _written(self, word: Word) -> Iterator[TextEvent]:
        if self._wanted_pieces:
            yield from self._grown(word.unseen, word.delay)
        tokens, self._word = self._word, []
        written = self._event("WRITE", word.text, tokens, word.delay, word.spaced)
        self._translation += str(written)
        yield written

    def _grown(self, growth: Growth | None, delay: int) -> Iterator[TextEvent]:
        if growth is not None:
            tokens, self._untold = self._untold, []
            yield self._event("PIECE", growth.text, tokens, delay, growth.spaced)

    def _event(
        self,
        action: TextAction,
        text: str,
        tokens: "list[Event]",
        delay: int,
        spaced: bool,
    ) -> TextEvent:
        self._count += 1
        known = [event.probability for event in tokens if event.probability is not None]
        return TextEvent(
            action,
            text,
            k=tokens[0].k if tokens else None,
            probability=math.prod(known) if known and len(known) == len(tokens) else None,
            time=self._clock() - self._opened,
            delay=delay,
            delay_tokens=self._read,
            spaced=spaced,
            tokens=tuple(event.token for event in tokens) if action != "READ" else (),
            sentence=self._sentences + 1,
            event=self._count,
        )
