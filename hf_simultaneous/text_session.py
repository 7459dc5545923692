"""Words in, words out: arriving text through a generator's session to finished words, told as text
events.

Joins `text.py` to `generation.py`. It tokenises nothing itself, decides nothing and holds no
tensors."""

import time
import warnings
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .actions import Policy, Write
from .pauses import awith_pauses, with_pauses
from .policies import FullSentence, make_policy
from .sentences import SentenceSplitting
from .text import Piece, SourceText
from .text_events import TextEvent as TextEvent
from .text_events import TextEvents as TextEvents


if TYPE_CHECKING:
    from .generation import AdaptiveWaitKGenerator


class TextSession:
    """One speaker. Push words or text, `flush` where a sentence ends unannounced, `close` at the
    end.

    The iterators that are returned do the work as they are consumed; what one leaves undone, the
    next does first. Options are those of `generator.session`, on top of `generator.for_text()`: a
    model that wants to end a sentence before the source does reads on, or the rest of the sentence
    would be lost; the tail is the set's own. With `pieces`, parts of a target word are told as soon
    as they are written, for people to look at; the whole word is told all the same."""

    def __init__(
        self,
        generator: "AdaptiveWaitKGenerator",
        *,
        sentences: SentenceSplitting | None = None,
        clock: Callable[[], float] = time.monotonic,
        pieces: bool = False,
        **options: Any,
    ):
        self._source = source_text(generator, sentences, clock=clock)
        self._text = TextEvents(generator, clock, pieces=pieces)
        self._session = generator.session(**generator.for_text(**options))
        self._pieces: deque[Piece] = deque()
        self._events = self._work()

    def push_word(self, word: str) -> Iterator[TextEvent]:
        """A whole word, final at once; several with spaces between them will do too."""
        return self._run(lambda: self._source.push_word(word))

    def push_text(self, fragment: str | bytes) -> Iterator[TextEvent]:
        """Text cut anywhere, as characters or as UTF-8; a word is final at the space behind it."""
        return self._run(lambda: self._source.push_text(fragment))

    def push_transcript(self, text: str, *, stable: int = 1) -> Iterator[TextEvent]:
        """The whole text so far, as speech recognisers send it again and again; `flush` begins a
        new one.

        Read are words that the latest `stable` texts agree on, less the last word of the newest;
        characters of a script without spaces are read at once. A text that changes what was read
        raises `SourceRevised`, what was not read is dropped, and the session goes on: take
        `stable=2` or more for a recogniser that revises, at the price of one text's delay."""
        return self._run(lambda: self._source.push_transcript(text, stable=stable))

    def poll(self) -> Iterator[TextEvent]:
        """To be called while nothing arrives: ends the sentence after `SentenceSplitting.silence`
        seconds."""
        return self._run(self._source.poll)

    def flush(self) -> Iterator[TextEvent]:
        """The sentence ends here: everything that is still owed."""
        return self._run(self._source.flush)

    def close(self) -> None:
        """Give everything back, translated or not. Closing twice is fine."""
        self._session.close()

    def stream(
        self, source: str | Iterable[str], *, fragments: bool = False
    ) -> Iterator[TextEvent]:
        """Translate words as they arrive from an iterator that may block; with `fragments`, text
        cut anywhere. Where silence ends a sentence, the iterator is read in a thread."""
        push, items = self._way_in(source, fragments)
        tick = self._tick
        with self:
            for item in items if tick is None else with_pauses(items, tick):
                yield from self.poll() if item is None else push(item)
            yield from self.flush()

    async def astream(
        self, source: str | Iterable[str] | AsyncIterable[str], *, fragments: bool = False
    ) -> AsyncIterator[TextEvent]:
        """`stream` for asynchronous code: takes an async (or plain) iterator, computes off the
        event loop."""
        from .sessions import as_async

        push, source = self._way_in(source, fragments)
        items: Any = as_async(source)
        tick = self._tick
        with self:
            async for item in items if tick is None else awith_pauses(items, tick):
                async for event in as_async(self.poll() if item is None else push(item)):
                    yield event
            async for event in as_async(self.flush()):
                yield event

    @property
    def _tick(self) -> float | None:
        """Seconds after which to see whether a silence is long enough, while nothing arrives."""
        silence = self._source.rules.silence
        return None if silence is None else silence / 4

    def _way_in(
        self, source: Any, fragments: bool
    ) -> tuple[Callable[[str], Iterator[TextEvent]], Any]:
        if isinstance(source, str):  # iterating it would make a word of every letter
            return self.push_text, [source]
        return (self.push_text if fragments else self.push_word), source

    def _run(self, arrive: Callable[[], list[Piece]]) -> Iterator[TextEvent]:
        if self._session.closed:
            raise ValueError("this session is closed; open another")
        self._pieces.extend(arrive())
        return self._until_idle()

    def _until_idle(self) -> Iterator[TextEvent]:
        worked = False
        while not self._session.closed and (event := self._next()) is not None:
            worked = True
            yield event
        if worked:
            self._source.listen()

    def _next(self) -> TextEvent | None:
        try:
            return next(self._events)
        except BaseException:  # the work cannot go on from where it broke
            self.close()
            raise

    def _work(self) -> Iterator[TextEvent | None]:
        """One generator for the life of the session, so that it stands where the last reader left
        it."""
        while True:
            while self._pieces:
                yield from self._translate(self._pieces.popleft())
            yield None

    def _translate(self, piece: Piece) -> Iterator[TextEvent]:
        for part in self._text.parts(piece):
            for number, token in enumerate(part.tokens, start=1):
                for event in self._session.push(token, more=number in part.undecided):
                    yield from self._text.take(event, part)
            if part.ends_sentence:
                yield from self._text.end(part)

    def __enter__(self) -> "TextSession":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        owes = bool(self._pieces) or self._text.owes or self._source.owes
        if kind is None and owes and not self._session.closed:
            warnings.warn(
                "the session is closed in the middle of a sentence, and what it owes is lost: take "
                "the events of flush() before, or use stream(), which does",
                stacklevel=2,
            )
        self.close()


def warm_up(generator: "AdaptiveWaitKGenerator") -> None:
    """Ask every member for one token now: weights are laid out when a model is first asked, and
    somebody who waits for a first word would wait for that too."""
    if generator.tokenizer is None:
        return  # there is no text to come
    everybody = FullSentence(tuple(generator.models))
    # What is wrong here is wrong at the first word too, and is told to whoever said that.
    with suppress(Exception), generator.session(policy=everybody) as session:
        source = source_text(generator)
        for piece in [*source.push_word("1"), *source.flush()]:
            for token in piece.tokens:
                next((e for e in session.push(token) if isinstance(e.action, Write)), None)


def source_text(
    generator: "AdaptiveWaitKGenerator", sentences: SentenceSplitting | None = None, **options: Any
) -> SourceText:
    """Arriving text to tokens, in sentences that fit the models of this generator."""
    if generator.tokenizer is None:
        raise ValueError(
            "this generator has no tokenizer, so it cannot take text. Pass one to "
            "AdaptiveWaitKGenerator, or save it "
            "with tokenizer.save_pretrained() into the folder the set is loaded from"
        )
    return SourceText(generator.tokenizer, sentences or sentence_splitting(generator), **options)


def sentence_splitting(generator: "AdaptiveWaitKGenerator", **options: Any) -> SentenceSplitting:
    """Sentences that, their translations included, have room in the models."""
    return SentenceSplitting(**{"max_tokens": min(100, generator.position_limit // 2), **options})


def choose_policy(
    generator: "AdaptiveWaitKGenerator",
    name: str | None = None,
    *,
    k: int | None = None,
    rho: Sequence[float] | None = None,
    **options: float | None,
) -> Policy:
    """A policy from plain values (`make_policy`); a `k` alone means wait-k, and no thresholds mean
    the set's own."""
    given = [value for value in (k, rho, *options.values()) if value is not None]
    if name is None and not given:
        return generator.usual_policy
    name = name or ("adaptive" if k is None else "wait-k")
    if name == "adaptive" and not given:
        return generator.policy
    own = generator.policy
    return make_policy(name, k=k, rho=rho, k_min=own.k_min, k_max=own.k_max, **options)


def check_latency_alone(
    latency: str | None, policy: str | None, *, k: int | None, rho: Sequence[float] | None
) -> None:
    """An operating point of a set is thresholds already; refuse what would choose others."""
    if latency and (rho or k or policy not in (None, "adaptive")):
        raise ValueError(
            f"--latency {latency} chooses the thresholds; leave out --rho, --k and --policy"
        )


def operating_points(generator: "AdaptiveWaitKGenerator") -> list[str]:
    """The named operating points of a set, from quick to careful."""
    points = generator.latencies
    return sorted(points, key=lambda name: sum(points[name].values()) / len(points[name]))
