"""The server: HTTP and WebSocket routes around one hub, and a process that starts, drains and
stops.

Knows Starlette and uvicorn; a stream's own life is in `connection.py`."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request as Handshake

from .access import Access
from .connection import Connection
from .hub import Hub
from .limits import Limits
from .protocol import SUBPROTOCOL
from .requests import translate_text
from .telemetry import CONTENT_TYPE, log


if TYPE_CHECKING:
    from ..generation import AdaptiveWaitKGenerator


RETRY_AFTER = {"Retry-After": "2"}
SEND_BUFFER = 65536
"""Bytes that the system keeps for a client that does not read; more would only hide it longer."""
FRAME = 65536
"""Larger frames are refused by the library; between our limit and this we can still say why."""
LAST_WORDS = 5.0
"""Seconds that a client which did not read has left to find out why it was closed."""


@dataclass(frozen=True, kw_only=True)
class ServeRequest:
    """Where to listen, and under which bounds."""

    host: str = "127.0.0.1"
    port: int = 8765
    limits: Limits = field(default_factory=Limits)
    access: Access = field(default_factory=Access)
    name: str = "builtin"
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    forwarded_allow_ips: str | None = None
    log_text: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"a port is 0 (any that is free) to 65535; got {self.port}")
        if bool(self.ssl_certfile) != bool(self.ssl_keyfile):
            raise ValueError("TLS needs both --ssl-certfile and --ssl-keyfile")


def application(hub: Hub, *, wait: bool = False) -> Starlette:
    """The routes. With `wait`, nothing is answered until the models are loaded."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        hub.begin()
        watch = asyncio.create_task(hub.watch_lag())
        if wait:
            await hub.loaded()
        yield
        watch.cancel()
        hub.engine.stop()

    app = Starlette(
        routes=[
            WebSocketRoute("/v1/stream", _stream),
            Route("/v1/translate", _translate, methods=["POST"]),
            Route("/v1/info", _info),
            Route("/healthz", _healthz),
            Route("/readyz", _readyz),
            Route("/metrics", _metrics),
        ],
        lifespan=lifespan,
    )
    app.state.hub = hub
    return app


async def _stream(websocket: WebSocket) -> None:
    hub: Hub = websocket.app.state.hub
    refusal = _refusal(hub, websocket.headers, websocket.scope["subprotocols"])
    if refusal is not None:
        await websocket.send_denial_response(refusal)
        return
    connection = Connection(websocket, hub)
    with hub.place(connection):
        offered = websocket.scope["subprotocols"]
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        await connection.run()


def _refusal(hub: Hub, headers: Any, subprotocols: Any = ()) -> Response | None:
    """Whoever may not come in is told so before anything else happens."""
    if not hub.access.allows_token(headers, subprotocols):
        return _refuse(hub, 401, "unauthorized", "this server asks for a token")
    if not hub.access.allows_origin(headers):
        return _refuse(hub, 403, "bad_origin", "pages of this origin are not let in")
    why = hub.closed_because
    if why is not None:
        code = "draining" if why == "draining" else "busy"
        return _refuse(hub, 503, code, f"the server is {why}; try again later", RETRY_AFTER)
    return None


def _refuse(
    hub: Hub, status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> Response:
    hub.telemetry.rejected.labels(code).inc()
    return JSONResponse({"code": code, "message": message}, status, headers)


async def _translate(request: Request) -> Response:
    hub: Hub = request.app.state.hub
    refusal = _refusal(hub, request.headers)
    if refusal is not None:
        return refusal
    with hub.place():
        return await translate_text(hub, request)


async def _info(request: Request) -> Response:
    hub: Hub = request.app.state.hub
    if not hub.access.allows_token(request.headers):
        return _refuse(hub, 401, "unauthorized", "this server asks for a token")
    if hub.engine.generator is None:
        return _refuse(hub, 503, "busy", "the server is loading; try again later", RETRY_AFTER)
    return JSONResponse(hub.info())


async def _healthz(request: Request) -> Response:
    healthy = request.app.state.hub.healthy
    return PlainTextResponse("ok" if healthy else "the engine is silent", 200 if healthy else 503)


async def _readyz(request: Request) -> Response:
    why = request.app.state.hub.closed_because
    return PlainTextResponse(why or "ready", 503 if why else 200, RETRY_AFTER if why else None)


async def _metrics(request: Request) -> Response:
    return Response(request.app.state.hub.metrics(), media_type=CONTENT_TYPE)


class _Socket(WebSocketsSansIOProtocol):
    """uvicorn's, with a way to close that does not wait for a client that does not read."""

    def handle_connect(self, event: Handshake) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            self.scope["state"]["abandon"] = self._abandon

    def _abandon(self, code: int, reason: str) -> None:
        if not self.close_sent and not self.transport.is_closing():
            self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self.writable.set()
        self.loop.call_later(LAST_WORDS, self.transport.abort)


class _Server(uvicorn.Server):
    """uvicorn closes every socket at once when it is told to stop; this one drains first."""

    def __init__(self, config: uvicorn.Config, hub: Hub):
        super().__init__(config)
        self._hub = hub
        self._draining: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A second signal does not wait."""
        if self._hub.draining:
            self.should_exit = True
            return
        self._hub.draining = True
        asyncio.get_running_loop().call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        log("draining", seconds=self._hub.limits.drain)
        self._draining = asyncio.create_task(self._drain_and_exit())

    async def _drain_and_exit(self) -> None:
        await self._hub.drain()
        self.should_exit = True


def serve(
    load: "Callable[[], AdaptiveWaitKGenerator]",
    request: ServeRequest,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve until a signal says stop. `load` makes the generator, in the engine's thread."""
    hub = Hub(load, request.limits, request.access, request.name, log_text=request.log_text)
    listener = _listen(request)
    server = _Server(_config(hub, request), hub)

    def stop() -> None:
        server.should_exit = True

    hub.on_failure = stop
    addresses = addresses_of(request, listener.getsockname()[1])

    def ready() -> None:
        known = {name: code for name, code in hub.info()["languages"].items() if code}
        log("ready", set=request.name, **known, **addresses, stop="Ctrl-C")

    hub.on_loaded = ready
    announce(addresses["ws"])
    log("loading", set=request.name)
    server.run(sockets=[listener])
    if hub.engine.failure is not None:
        raise hub.engine.failure


def addresses_of(request: ServeRequest, port: int) -> dict[str, Any]:
    """Of a stream, and of a whole text."""
    secure = "s" if request.ssl_certfile else ""
    host = f"[{request.host}]" if ":" in request.host else request.host
    return {
        "ws": f"ws{secure}://{host}:{port}/v1/stream",
        "http": f"http{secure}://{host}:{port}/v1/translate",
    }


def _listen(request: ServeRequest) -> socket.socket:
    family = socket.AF_INET6 if ":" in request.host else socket.AF_INET
    # Only where the protocol is named does asyncio send at once: else the second of two messages
    # waits for the client's word on the first, 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        listener.bind((request.host, request.port))
        listener.listen(1024)  # whoever comes before the server runs waits for it
    except OSError as error:
        with suppress(OSError):
            listener.close()
        raise OSError(f"cannot listen on {request.host}:{request.port}: {error}") from None
    return listener


def _config(hub: Hub, request: ServeRequest) -> uvicorn.Config:
    return uvicorn.Config(
        application(hub),
        ws=_Socket,
        ws_max_size=FRAME,
        ws_per_message_deflate=False,
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="on",
        ssl_certfile=request.ssl_certfile,
        ssl_keyfile=request.ssl_keyfile,
        forwarded_allow_ips=request.forwarded_allow_ips,
        timeout_graceful_shutdown=2,
    )
