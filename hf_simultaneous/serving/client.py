"""The client: a text session whose models are elsewhere, which outlives the servers it talks to.

`Client` has the methods of `TextSession` but for `astream`; `AsyncClient` the same ones for
asynchronous code. Both keep the open sentence, reconnect with jittered backoff, and
let the next server go on with it. Who was never connected is told at once that nobody answers."""

import asyncio
import codecs
import json
import os
import random
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as async_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from ..pauses import awith_pauses, with_pauses
from ..text_events import TextEvent
from .access import TOKEN_VARIABLE
from .journal import Journal, ServerError
from .protocol import SUBPROTOCOL, Start, encode
from .reach import gone, nobody_answers


FIRST_WAIT = 0.25
LONGEST_WAIT = 10.0
ROUTE = "/v1/stream"
REFUSALS = {401: "unauthorized", 403: "bad_origin", 404: "not_found"}
BROKEN = (ConnectionClosed, WebSocketException, OSError, TimeoutError)


class _Settings:
    """Where to connect, with what, and how long to try."""

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        token: str | None = None,
        patience: float = 60.0,
        tell: Callable[[str], None] | None = None,
        **options: Any,
    ):
        given = [servers] if isinstance(servers, str) else list(servers)
        if not given or not all(url.startswith(("ws://", "wss://")) for url in given):
            raise ValueError(f"a server is ws://host:port or wss://host; got {servers!r}")
        self._urls = [url if url.endswith(ROUTE) else url.rstrip("/") + ROUTE for url in given]
        self._token = token or os.environ.get(TOKEN_VARIABLE)
        self._patience = patience
        self._tell = tell or (lambda line: None)
        self._failures = 0
        self._turn = 0
        self._stood = False
        self._reached: tuple[float, int] | None = None
        self._pauses = self._waits()
        self._refusals: dict[str, OSError] = {}
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._unsaid: deque[dict[str, Any]] = deque()
        self._untold: deque[TextEvent] = deque()
        start = Start(**options)
        self._tick = None if start.silence is None else start.silence / 4
        self._journal = Journal(start)

    def _next_url(self) -> str:
        """Another server each time, where there are several."""
        url = self._urls[self._turn % len(self._urls)]
        self._turn += 1
        return url

    @property
    def _server(self) -> str:
        """The last one that was tried."""
        return self._urls[(self._turn - 1) % len(self._urls)].removesuffix(ROUTE)

    def _failed(self, error: Exception) -> None:
        """A connection broke or was not made. Most are made again at once, on another server or on
        one that was restarted; only if that fails too is anything told."""
        self._failures += 1
        if self._failures == 2:
            self._tell(gone(self._server, error, self._patience))

    def _succeeded(self) -> None:
        if self._failures >= 2:
            self._tell(f"{self._server} answers again")
        self._failures = 0
        self._reached = (time.monotonic(), self._journal.seen)

    def _check_reached(self, error: Exception) -> None:
        """Raise what will not change by asking again: a refusal at the door; and, once every server
        has refused a first connection, that, because an address is wrong more often than all
        servers are away. A slow one, or one that hangs up, is there."""
        status = error.response.status_code if isinstance(error, InvalidStatus) else None
        if status in REFUSALS:
            raise ServerError(REFUSALS[status], f"the server answers {status}") from None
        there = isinstance(error, TimeoutError | ConnectionResetError | WebSocketException)
        if self._stood or there or not isinstance(error, OSError):
            return
        self._refusals[self._server] = error
        if len(self._refusals) == len({*self._urls}):
            raise nobody_answers(self._refusals) from None

    @property
    def _how(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return {
            "subprotocols": [SUBPROTOCOL],
            "additional_headers": headers,
            "compression": None,
            "open_timeout": 10,
            "close_timeout": 1,
        }

    def _pause(self) -> float:
        """Seconds until the next attempt. Patience begins anew after a server that told something
        new, or stood for long; one that lets us in and fails at the same word each time must not be
        asked for ever."""
        if self._reached is not None:
            at, seen = self._reached
            self._reached = None
            if self._journal.seen > seen or time.monotonic() - at >= self._patience:
                self._pauses = self._waits()
        return next(self._pauses)

    def _waits(self) -> Iterator[float]:
        """Pauses between attempts: longer each time, never the same for all, until patience is
        over."""
        over = time.monotonic() + self._patience
        wait = FIRST_WAIT
        while (left := over - time.monotonic()) > 0:
            yield min(left, wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, LONGEST_WAIT)
        servers = " or ".join(url.removesuffix(ROUTE) for url in self._urls)
        raise ConnectionError(
            f"no server has answered for {self._patience:g} seconds at {servers}; start one with "
            f"hf-simultaneous serve"
        )

    def _decoded(self, fragment: str | bytes) -> str:
        """Bytes are UTF-8; a character that is cut in two waits for its other half."""
        return fragment if isinstance(fragment, str) else self._decoder.decode(fragment)

    def _told(self) -> Iterator[TextEvent]:
        """What was heard, by whichever iterator, and not told yet."""
        while self._untold:
            yield self._untold.popleft()

    def _note(self, kind: str, text: str = "") -> None:
        """What is to be said next, whenever the iterator that says it is read."""
        self._unsaid.extend(self._journal.say(kind, text))


class Client(_Settings):
    """One speaker on a server; the methods and the events are those of `TextSession`.

    `servers` is a ws:// address or several, of which any may answer. Options are those of a start:
    `latency`, `policy`, `k`, `rho`, `options` of the policy, `silence`, `stable`, `pieces`. A
    server that was lost is tried again for `patience` seconds; `tell` is given a line for people
    when that takes longer than a moment, and when it is over."""

    _socket: ClientConnection | None = None

    def push_word(self, word: str) -> Iterator[TextEvent]:
        """A whole word, final at once."""
        self._note("word", word)
        return self._exchange()

    def push_text(self, fragment: str | bytes) -> Iterator[TextEvent]:
        """Text cut anywhere; a word is final at the space behind it."""
        self._note("text", self._decoded(fragment))
        return self._exchange()

    def push_transcript(self, text: str, *, stable: int | None = None) -> Iterator[TextEvent]:
        """The whole text so far, of which `stable` texts in a row must agree on a word."""
        self._note("text", self._journal.transcript(text, stable))
        return self._exchange()

    def flush(self) -> Iterator[TextEvent]:
        """The sentence ends here: everything that is still owed."""
        self._note("flush")
        return self._exchange()

    def poll(self) -> Iterator[TextEvent]:
        """What the server has said by itself, because nothing was said for long."""
        yield from self._exchange()
        with suppress(TimeoutError, *BROKEN):
            while self._socket is not None:
                self._hear(timeout=0)
                yield from self._told()

    def stream(
        self, source: str | Iterable[str], *, fragments: bool = False
    ) -> Iterator[TextEvent]:
        """Translate words as they arrive from an iterator; with `fragments`, text cut anywhere.
        Where silence ends a sentence, the iterator is read in a thread."""
        push = self.push_text if isinstance(source, str) or fragments else self.push_word
        items = [source] if isinstance(source, str) else source
        with self:
            for item in items if self._tick is None else with_pauses(items, self._tick):
                yield from self.poll() if item is None else push(item)
            yield from self.flush()

    def close(self) -> None:
        """Leave. Closing twice is fine."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def _exchange(self) -> Iterator[TextEvent]:
        """Send, and tell what comes back until all of it is done, over as many servers as it
        takes. What an iterator before this one left untold comes first."""
        self._pauses = self._waits()
        yield from self._told()
        while self._unsaid or not self._journal.settled:
            try:
                self._go_on()
            except BROKEN as error:
                self._check_reached(error)
                self._failed(error)
                self._drop()
                time.sleep(self._pause())
            yield from self._told()

    def _go_on(self) -> None:
        """Say what there is room for, and hear one message."""
        if self._socket is None:
            self._connect()
        while self._unsaid and self._journal.has_room(self._unsaid[0]):
            self._say(self._unsaid.popleft())
        if not self._journal.settled:
            self._hear()

    def _connect(self) -> None:
        self._socket = connect(self._next_url(), **self._how).__enter__()
        self._stood = True
        self._socket.send(encode(self._journal.start()))
        while not self._journal.started:
            self._journal.hear(json.loads(self._socket.recv(timeout=10)))
        self._succeeded()
        self._unsaid = deque(self._journal.again())

    @property
    def _live(self) -> ClientConnection:
        if self._socket is None:
            raise ConnectionError("not connected")
        return self._socket

    def _say(self, message: dict[str, Any]) -> None:
        time.sleep(self._journal.pause(message))
        self._live.send(encode(self._journal.stamped(message)))

    def _hear(self, timeout: float = 60.0) -> None:
        self._untold += self._journal.hear(json.loads(self._live.recv(timeout=timeout)))
        if (nod := self._journal.nod()) is not None:
            with suppress(*BROKEN):  # the next recv says so too
                self._live.send(encode(nod))

    def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            with suppress(*BROKEN):
                socket.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Settings):
    """`Client` for asynchronous code: the same methods, as asynchronous iterators."""

    _socket: AsyncConnection | None = None

    def push_word(self, word: str) -> AsyncIterator[TextEvent]:
        self._note("word", word)
        return self._exchange()

    def push_text(self, fragment: str | bytes) -> AsyncIterator[TextEvent]:
        self._note("text", self._decoded(fragment))
        return self._exchange()

    def push_transcript(self, text: str, *, stable: int | None = None) -> AsyncIterator[TextEvent]:
        self._note("text", self._journal.transcript(text, stable))
        return self._exchange()

    def flush(self) -> AsyncIterator[TextEvent]:
        self._note("flush")
        return self._exchange()

    async def poll(self) -> AsyncIterator[TextEvent]:
        async for event in self._exchange():
            yield event
        with suppress(TimeoutError, *BROKEN):
            while self._socket is not None:
                await self._hear(timeout=0)
                for event in self._told():
                    yield event

    async def stream(
        self, source: str | Iterable[str] | AsyncIterable[str], *, fragments: bool = False
    ) -> AsyncIterator[TextEvent]:
        """Translate words as they arrive from an iterator, asynchronous or not."""
        from ..sessions import as_async

        push = self.push_text if isinstance(source, str) or fragments else self.push_word
        items = as_async([source] if isinstance(source, str) else source)
        async with self:
            async for item in items if self._tick is None else awith_pauses(items, self._tick):
                async for event in self.poll() if item is None else push(item):
                    yield event
            async for event in self.flush():
                yield event

    async def close(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def _exchange(self) -> AsyncIterator[TextEvent]:
        self._pauses = self._waits()
        for event in self._told():
            yield event
        while self._unsaid or not self._journal.settled:
            try:
                await self._go_on()
            except BROKEN as error:
                self._check_reached(error)
                self._failed(error)
                await self._drop()
                await asyncio.sleep(self._pause())
            for event in self._told():
                yield event

    async def _go_on(self) -> None:
        if self._socket is None:
            await self._connect()
        while self._unsaid and self._journal.has_room(self._unsaid[0]):
            await self._say(self._unsaid.popleft())
        if not self._journal.settled:
            await self._hear()

    async def _connect(self) -> None:
        self._socket = await async_connect(self._next_url(), **self._how)
        self._stood = True
        await self._socket.send(encode(self._journal.start()))
        while not self._journal.started:
            self._journal.hear(json.loads(await self._recv(10.0)))
        self._succeeded()
        self._unsaid = deque(self._journal.again())

    async def _say(self, message: dict[str, Any]) -> None:
        await asyncio.sleep(self._journal.pause(message))
        if self._socket is None:
            raise ConnectionError("not connected")
        await self._socket.send(encode(self._journal.stamped(message)))

    async def _hear(self, timeout: float = 60.0) -> None:
        self._untold += self._journal.hear(json.loads(await self._recv(timeout)))
        if self._socket is not None and (nod := self._journal.nod()) is not None:
            with suppress(*BROKEN):
                await self._socket.send(encode(nod))

    async def _recv(self, timeout: float) -> str | bytes:
        if self._socket is None:
            raise ConnectionError("not connected")
        async with asyncio.timeout(timeout):
            return await self._socket.recv()

    async def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            with suppress(*BROKEN):
                await socket.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
