"""`POST /v1/translate`: a whole text for whoever has only curl; the same stream, heard to its end.

Knows one request; streams over sockets are in `connection.py`."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from .engine import Ticket
from .protocol import Flush, ProtocolError, Say, json_object, parse_start
from .telemetry import log, origin


if TYPE_CHECKING:
    from .hub import Hub
    from .streams import Report


STATUS = {"too_large": 413, "no_start": 408, "session_over": 503}
"""What HTTP says of an error; 400 of all others."""


class _Whole:
    """Listens to a stream until its last message is done."""

    def __init__(self, last: int):
        self._last = last
        self._sentences: list[str] = []
        self.future: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

    def report(self, report: "Report") -> None:
        self._sentences += [event.text for event in report.events if event.action == "END"]
        if self.future.done():
            return
        if report.error is not None:
            self.future.set_exception(report.error)
        elif report.done and report.seq == self._last:
            self.future.set_result(self._sentences)


async def translate_text(hub: "Hub", request: Request) -> Response:
    """`{"text", "latency"}` (and the other options of a start) to `{"text", "sentences"}`."""
    try:
        fields = _fields(await _body(hub, request))
        sentences = list(filter(None, await _sentences(hub, request, fields)))
    except ProtocolError as error:
        hub.telemetry.errors.labels(error.code).inc()
        status = STATUS.get(error.code, 400)
        return JSONResponse({"code": error.code, "message": str(error)}, status)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody is there to read it
    except Exception as error:
        hub.telemetry.errors.labels("internal").inc()
        log("error", code="internal", **origin(error))
        return JSONResponse({"code": "internal", "message": "this request has failed"}, 500)
    return JSONResponse({"text": " ".join(sentences), "sentences": sentences})


async def _body(hub: "Hub", request: Request) -> bytes:
    """Whoever sends it holds a place: it must come as soon as a start must."""
    body = b""
    try:
        async with asyncio.timeout(hub.limits.start):
            async for chunk in request.stream():
                body += chunk
                if len(body) > hub.limits.request_bytes:
                    raise ProtocolError(
                        "too_large", f"a request has up to {hub.limits.request_bytes} bytes"
                    )
    except TimeoutError:
        told = f"a request must come whole within {hub.limits.start:g} s; {len(body)} bytes came"
        raise ProtocolError("no_start", told) from None
    return body


def _fields(body: bytes) -> Mapping[str, Any]:
    try:
        fields = json_object(body.decode())
    except UnicodeDecodeError:
        raise ProtocolError("bad_json", "this is not JSON in UTF-8") from None
    if not isinstance(fields.get("text"), str):
        raise ProtocolError("bad_message", 'send {"text": "..."}, and a latency if you like')
    return fields


async def _sentences(hub: "Hub", request: Request, fields: Mapping[str, Any]) -> list[str]:
    options = {name: value for name, value in fields.items() if name != "replay"}
    start = parse_start({**options, "silence": None})
    whole = _Whole(last=2)
    ticket = Ticket(start, whole.report)
    try:
        hub.engine.open(ticket)
        hub.engine.feed(ticket, Say("text", 1, fields["text"]))
        hub.engine.feed(ticket, Flush(2))
        async with asyncio.timeout(hub.limits.max_session):
            return await _unless_gone(request, whole.future)
    except TimeoutError:
        told = f"this text takes longer than {hub.limits.max_session:g} s; send less of it"
        raise ProtocolError("session_over", told) from None
    finally:
        hub.engine.close(ticket)


async def _unless_gone(request: Request, future: asyncio.Future[list[str]]) -> list[str]:
    """What the future brings, while somebody waits for it."""
    gone = asyncio.ensure_future(_gone(request))
    either: set[asyncio.Future[Any]] = {gone, future}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
    if not future.done():
        raise ClientDisconnect
    return future.result()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
