"""Items as they arrive, and `None` whenever nothing has arrived for a while.

Knows iterators and time; nothing of words."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from queue import Empty, Queue
from threading import Semaphore, Thread
from typing import Any, TypeVar


T = TypeVar("T")
_OVER = object()


def with_pauses(items: Iterable[T], seconds: float) -> Iterator[T | None]:
    """The items of an iterator that may block, and `None` after every so many seconds without one.
    The iterator is read in a thread, and only when an item is asked for."""
    arrived: Queue[tuple[Any, BaseException | None]] = Queue()
    wanted = Semaphore(0)
    left = False

    def read() -> None:
        try:
            iterator = iter(items)
            while wanted.acquire() and not left:
                item = next(iterator, _OVER)
                arrived.put((item, None))
                if item is _OVER:
                    return
        except BaseException as error:
            arrived.put((_OVER, error))

    Thread(target=read, daemon=True).start()
    try:
        while True:
            wanted.release()
            while (got := _soon(arrived, seconds)) is None:
                yield None
            item, error = got
            if error is not None:
                raise error
            if item is _OVER:
                return
            yield item
    finally:
        left = True
        wanted.release()


def _soon(arrived: "Queue[T]", seconds: float) -> T | None:
    try:
        return arrived.get(timeout=seconds)
    except Empty:
        return None


async def awith_pauses(items: AsyncIterator[T], seconds: float) -> AsyncIterator[T | None]:
    """The same for an asynchronous iterator, which is left waiting and not cancelled."""
    while True:
        coming: asyncio.Future[Any] = asyncio.ensure_future(_next(items))
        try:
            while not (await asyncio.wait({coming}, timeout=seconds))[0]:
                yield None
        finally:
            coming.cancel()
        if coming.result() is _OVER:
            return
        yield coming.result()


async def _next(items: AsyncIterator[T]) -> Any:
    return await anext(items, _OVER)
