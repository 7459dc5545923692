"""Live translation: source tokens pushed in as they arrive, events out the moment they happen.

Knows the loop; decides nothing and holds no tensors.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, TypeVar

from .actions import Event, Policy
from .decoding_rules import DecodingRules
from .lanes import Lanes
from .live_sentence import LiveSentence
from .loop import Loop


if TYPE_CHECKING:
    from .generation import AdaptiveWaitKGenerator


T = TypeVar("T")


class Session:
    """One speaker. `push` tokens, `flush` at the end of each sentence, `close` at the end; sessions
    share nothing.

    The iterators that `push` and `flush` return do the work as they are consumed; what one leaves
    undone, the next does first. After an error the session is closed."""

    def __init__(
        self,
        generator: "AdaptiveWaitKGenerator",
        policy: Policy | None,
        history: str,
        rules: DecodingRules,
    ):
        self._generator = generator
        self._policy = policy
        self._history = history
        self._rules = rules
        self._loop = Loop(generator.lanes(history), rules)
        self._sentence: LiveSentence | None = None
        self._sentences: deque[LiveSentence] = deque()
        self._events: deque[Event] = deque()
        self.closed = False
        self.early_stops = 0

    def push(self, token: int, *, more: bool = False) -> "Iterator[Event]":
        """One more source token; `</s>` ends the sentence. Ignored if the model has already ended
        its sentence. With `more`, the next arrives with it, as in the middle of a word: nothing is
        decided before that."""
        self._check_open()
        token = self._checked(token)
        sentence = self._sentence or self._new_sentence()
        if not sentence.finished:
            if len(sentence.row.source) >= self._generator.position_limit:
                self.close()
                raise ValueError(
                    f"the source sentence has reached {self._generator.position_limit} tokens, as "
                    f"many as the models "
                    "have positions. End it with flush() before that"
                )
            sentence.arrive([token], [1] if more else [])
        if token in self._rules.eos:
            sentence.row.source_complete = True
            self._sentence = None
        return self._run()

    def flush(self) -> "Iterator[Event]":
        """The source sentence ends here; the next token starts another."""
        self._check_open()
        if self._sentence is None:
            return self._run()
        return self.push(self._rules.eos[0])

    def close(self) -> None:
        """Give everything back. Closing twice is fine."""
        self.closed = True
        self._sentence = None
        self._sentences.clear()
        self._events.clear()
        self._loop = Loop(Lanes({}), self._rules)

    @property
    def nbytes(self) -> int:
        """Memory that this session holds, in bytes."""
        return self._loop.lanes.nbytes

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("this session is closed; open another with generator.session()")

    def _checked(self, token: int) -> int:
        """A token id, out of a tensor or not; a wrong one does no harm to the session."""
        vocabulary: int = self._generator.model.config.vocab_size
        try:
            number = index(token)
        except TypeError:  # also of a tensor of fractions, which has an __index__
            number = -1
        if not 0 <= number < vocabulary:
            raise ValueError(f"a source token is an id from 0 to {vocabulary - 1}; got {token!r}")
        return number

    def _new_sentence(self) -> "LiveSentence":
        self._sentence = self._generator.sentence(self._rules, self._policy, self._history)
        self._sentences.append(self._sentence)
        return self._sentence

    def _run(self) -> "Iterator[Event]":
        """One sentence after the other, each until it is over or waits for its source."""
        yield from self._tell()
        while self._sentences:
            sentence = self._sentences[0]
            self._loop.add(sentence)
            while not self._loop.idle:
                self._step()
                yield from self._tell()
            if sentence.error is not None:
                self.close()
                raise sentence.error
            # Whoever read another iterator meanwhile has done this one's work.
            first = self._sentences and self._sentences[0] is sentence
            if not (first and sentence.row.source_complete):
                return
            self.early_stops += sentence.stopped_early
            self._sentences.popleft()

    def _step(self) -> None:
        try:
            self._events.extend(event for _, event in self._loop.step())
        except BaseException:  # an interrupt: where it stands is not known
            self.close()
            raise

    def _tell(self) -> "Iterator[Event]":
        while self._events:
            yield self._events.popleft()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def astream(
    session: Session, source: AsyncIterable[int] | Iterable[int]
) -> "AsyncIterator[Event]":
    """Push tokens from an async iterator through a session, each step computed in a worker
    thread."""
    with session:
        async for token in as_async(source):
            async for event in as_async(session.push(token)):
                yield event
        async for event in as_async(session.flush()):
            yield event


async def as_async(items: AsyncIterable[T] | Iterable[T]) -> AsyncIterator[T]:
    """Any iterable as an async one; a plain one is advanced in a thread, because it may block."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
        return
    iterator = iter(items)

    def advance() -> list[T]:
        return list(islice(iterator, 1))  # StopIteration cannot leave a thread

    while one := await asyncio.to_thread(advance):
        yield one[0]
