"""Live translation: source tokens pushed in as they arrive, events out the moment they happen.

Knows the loop; decides nothing and holds no tensors.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from itertools import islice
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from .actions import Policy
from .lanes import Lanes
from .loop import Event, Sentence, decode
from .rules import Rules


if TYPE_CHECKING:
    from .generation import AdaptiveWaitKGenerator


T = TypeVar("T")


class Session:
    """One speaker. `push` tokens, `flush` at the end of each sentence, `close` at the end; sessions share nothing.

    The iterators that `push` and `flush` return do the work as they are consumed; what one leaves undone, the next
    does first. After an error the session is closed.
    """

    def __init__(self, generator: "AdaptiveWaitKGenerator", policy: Policy | None, history: str, rules: Rules):
        self._generator, self._policy, self._history, self._rules = generator, policy, history, rules
        self._lanes = generator.lanes(history)
        self._sentence: Sentence | None = None
        self._backlog: list[Sentence] = []
        self.closed = False
        self.early_stops = 0

    def push(self, token: int) -> "Iterator[Event]":
        """One more source token; `</s>` ends the sentence. Ignored if the model has already ended its sentence."""
        self._check_open()
        token = self._checked(token)
        sentence = self._sentence or self._new_sentence()
        if not sentence.done:
            if len(sentence.row.source) >= self._generator.position_limit:
                self.close()
                raise ValueError(
                    f"the source sentence has reached {self._generator.position_limit} tokens, as many as the models "
                    "have positions. End it with flush() before that"
                )
            sentence.row.source.append(token)
        if token in self._rules.eos:
            sentence.row.complete = True
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
        self._sentence, self._backlog = None, []
        self._lanes = Lanes({})

    @property
    def nbytes(self) -> int:
        """Memory that this session holds, in bytes."""
        return self._lanes.nbytes

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("this session is closed; open another with generator.session()")

    def _checked(self, token: int) -> int:
        """A token id, out of a tensor or not; a wrong one does no harm to the session."""
        vocabulary: int = self._generator.model.config.vocab_size
        if not hasattr(token, "__index__") or not 0 <= index(token) < vocabulary:
            raise ValueError(f"a source token is an id from 0 to {vocabulary - 1}; got {token!r}")
        return index(token)

    def _new_sentence(self) -> "Sentence":
        self._sentence = self._generator._sentence(self._rules, self._policy, self._history)
        self._backlog.append(self._sentence)
        return self._sentence

    def _run(self) -> "Iterator[Event]":
        try:
            while self._backlog:
                sentence = self._backlog[0]
                for _, event in decode([sentence], self._lanes, self._rules):
                    yield event
                    if self.closed:
                        return
                if not (sentence.row.complete and self._backlog and self._backlog[0] is sentence):
                    return
                self.early_stops += sentence.stopped_early
                self._backlog.pop(0)
        except GeneratorExit:
            raise
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def astream(session: Session, source: AsyncIterable[int] | Iterable[int]) -> "AsyncIterator[Event]":
    """Push tokens from an async iterator through a session, each step computed in a worker thread."""
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
