"""Words in, words out: arriving text through a generator's session to finished words, told as text events.

Joins `text.py` to `generation.py`. It tokenises nothing itself, decides nothing and holds no tensors.
"""

import math
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from .actions import Policy, Write
from .policies import make_policy
from .text import UNSPACED, Piece, SentenceRules, SourceText, TargetText, Word


if TYPE_CHECKING:
    from .generation import AdaptiveWaitKGenerator
    from .loop import Event


@dataclass(frozen=True, slots=True)
class TextEvent:
    """A source word that was read, a target word that is finished, or the end of a sentence; final, whichever it is.

    WRITE: `k` is the lag its first token was predicted with, `probability` the product over its tokens. READ: `k` is
    the lag before it, `probability` that of the token that was not sure enough to be written, if one was asked for.
    """

    action: Literal["READ", "WRITE", "END"]
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
    """Does a space stand before it? Not before the first of a sentence, nor between Chinese characters."""

    def __str__(self) -> str:
        """The text as it is joined to what came before in its sentence."""
        return f" {self.text}" if self.spaced else self.text

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class TextSession:
    """One speaker. Push words or text, `flush` where a sentence ends unannounced, `close` at the end.

    The iterators that are returned do the work as they are consumed; what one leaves undone, the next does first.
    Options are those of `generator.session`; a model that wants to end a sentence before the source does is not let
    (`early_stop=False`), or the rest of the sentence would be lost.
    """

    def __init__(
        self,
        generator: "AdaptiveWaitKGenerator",
        *,
        sentences: SentenceRules | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ):
        self._source = source_text(generator, sentences, clock=clock)
        self._target = TargetText(generator.tokenizer)  # type: ignore[arg-type]  # source_text has looked at it
        self._session = generator.session(**{"early_stop": False, **options})
        self._limit = generator.position_limit - 1
        self._clock, self._opened = clock, clock()
        self._pieces: deque[Piece] = deque()
        self._read = 0
        self._word: list[Event] = []
        self._events = self._work()

    def push_word(self, word: str) -> Iterator[TextEvent]:
        """A whole word, final at once; several with spaces between them will do too."""
        return self._run(lambda: self._source.push_word(word))

    def push_text(self, fragment: str | bytes) -> Iterator[TextEvent]:
        """Text cut anywhere, as characters or as UTF-8; a word is final at the space behind it."""
        return self._run(lambda: self._source.push_text(fragment))

    def push_transcript(self, text: str) -> Iterator[TextEvent]:
        """The whole text so far, as speech recognisers send it; only its last word may still change."""
        return self._run(lambda: self._source.push_transcript(text))

    def poll(self) -> Iterator[TextEvent]:
        """To be called while nothing arrives: ends the sentence after `SentenceRules.silence` seconds."""
        return self._run(self._source.poll)

    def flush(self) -> Iterator[TextEvent]:
        """The sentence ends here: everything that is still owed."""
        return self._run(self._source.flush)

    def close(self) -> None:
        """Give everything back, translated or not. Closing twice is fine."""
        self._session.close()

    def stream(self, source: str | Iterable[str], *, fragments: bool = False) -> Iterator[TextEvent]:
        """Translate words as they arrive from an iterator that may block; with `fragments`, text cut anywhere."""
        push, items = self._way_in(source, fragments)
        with self:
            for item in items:
                yield from push(item)
            yield from self.flush()

    async def astream(
        self, source: str | Iterable[str] | AsyncIterable[str], *, fragments: bool = False
    ) -> AsyncIterator[TextEvent]:
        """`stream` for asynchronous code: takes an async (or plain) iterator, computes off the event loop."""
        from .sessions import as_async

        push, items = self._way_in(source, fragments)
        with self:
            async for item in as_async(items):
                async for event in as_async(push(item)):
                    yield event
            async for event in as_async(self.flush()):
                yield event

    def _way_in(self, source: Any, fragments: bool) -> tuple[Callable[[str], Iterator[TextEvent]], Any]:
        if isinstance(source, str):  # iterating it would make a word of every letter
            return self.push_text, [source]
        return (self.push_text if fragments else self.push_word), source

    def _run(self, arrive: Callable[[], list[Piece]]) -> Iterator[TextEvent]:
        if self._session.closed:
            raise ValueError("this session is closed; open another")
        self._pieces.extend(arrive())
        return self._until_idle()

    def _until_idle(self) -> Iterator[TextEvent]:
        while not self._session.closed and (event := next(self._events)) is not None:
            yield event

    def _work(self) -> Iterator[TextEvent | None]:
        """One generator for the life of the session, so that it stands where the last reader left it."""
        while True:
            while self._pieces:
                yield from self._translate(self._pieces.popleft())
            yield None

    def _translate(self, piece: Piece) -> Iterator[TextEvent]:
        for place, token in enumerate(piece.tokens):
            if self._read >= self._limit and not piece.ends_sentence:  # one word of more tokens than there are places
                yield from self._end(self._session.flush(), piece)
            for event in self._session.push(token):
                if isinstance(event.action, Write):
                    yield from self._write(event, piece)
                elif not piece.ends_sentence:
                    self._read += 1
                    if place == 0:
                        spaced = self._read > 1 and not UNSPACED.match(piece.text)
                        yield self._event("READ", piece.text, [event], piece.words, spaced)
        if piece.ends_sentence:
            yield from self._end(iter(()), piece)

    def _write(self, event: "Event", piece: Piece) -> Iterator[TextEvent]:
        for word in self._target.push(event.token, piece.words):
            yield self._written(word)
        self._word.append(event)

    def _written(self, word: Word) -> TextEvent:
        tokens, self._word = self._word, []
        return self._event("WRITE", word.text, tokens, word.delay, word.spaced)

    def _end(self, owed: "Iterator[Event]", piece: Piece) -> Iterator[TextEvent]:
        for event in owed:
            if isinstance(event.action, Write):
                yield from self._write(event, piece)
        for word in self._target.end(piece.words):
            yield self._written(word)
        self._word = []
        yield self._event("END", "", [], piece.words, False)
        self._read = 0

    def _event(
        self, action: Literal["READ", "WRITE", "END"], text: str, tokens: "list[Event]", delay: int, spaced: bool
    ) -> TextEvent:
        known = [event.probability for event in tokens if event.probability is not None]
        probability = math.prod(known) if known and len(known) == len(tokens) else None
        k = tokens[0].k if tokens else None
        return TextEvent(action, text, k, probability, self._clock() - self._opened, delay, self._read, spaced)

    def __enter__(self) -> "TextSession":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def source_text(
    generator: "AdaptiveWaitKGenerator", sentences: SentenceRules | None = None, **options: Any
) -> SourceText:
    """Arriving text to tokens, in sentences that fit the models of this generator."""
    if generator.tokenizer is None:
        raise ValueError(
            "this generator has no tokenizer, so it cannot take text. Pass one to AdaptiveWaitKGenerator, or save it "
            "with tokenizer.save_pretrained() into the folder the set is loaded from"
        )
    return SourceText(generator.tokenizer, sentences or sentence_rules(generator), **options)


def sentence_rules(generator: "AdaptiveWaitKGenerator", **options: Any) -> SentenceRules:
    """Rules under which a sentence, its translation included, has room in the models."""
    return SentenceRules(**{"max_tokens": min(100, generator.position_limit // 2), **options})


def choose_policy(
    generator: "AdaptiveWaitKGenerator",
    name: str | None = None,
    *,
    k: int | None = None,
    rho: Sequence[float] | None = None,
    **options: int,
) -> Policy:
    """A policy from plain values (`make_policy`); a `k` alone means wait-k, and no thresholds mean the set's own."""
    name = name or ("adaptive" if k is None else "wait-k")
    if name == "adaptive" and k is None and rho is None:
        return generator.policy
    own = generator.policy
    return make_policy(name, k=k, rho=rho, k_min=own.k_min, k_max=own.k_max, **options)


def check_latency_alone(
    latency: str | None, policy: str | None, *, k: int | None, rho: Sequence[float] | None
) -> None:
    """An operating point of a set is thresholds already; refuse what would choose others."""
    if latency and (rho or k or policy not in (None, "adaptive")):
        raise ValueError(f"--latency {latency} chooses the thresholds; leave out --rho, --k and --policy")


def operating_points(generator: "AdaptiveWaitKGenerator") -> list[str]:
    """The named operating points of a set, from quick to careful."""
    points = generator.latencies
    return sorted(points, key=lambda name: sum(points[name].values()) / len(points[name]))
