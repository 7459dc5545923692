"""`POST /v1/translate`: a whole text for whoever has only curl; the same stream, heard to its end.

Knows one request; streams over sockets are in `connection.py`."""

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..text_events import TextEvent
from .engine import Ticket
from .protocol import Flush, ProtocolError, Say, parse_start


if TYPE_CHECKING:
    from .hub import Hub
    from .streams import Report


class _Whole:
    """Listens to a stream until its last message is done."""

    def __init__(self, last: int):
        self._last = last
        self._events: list[TextEvent] = []
        self.future: asyncio.Future[list[TextEvent]] = asyncio.get_running_loop().create_future()

    def report(self, report: "Report") -> None:
        self._events += report.events
        if self.future.done():
            return
        if report.error is not None:
            self.future.set_exception(report.error)
        elif report.done and report.seq == self._last:
            self.future.set_result(self._events)


async def translate_text(hub: "Hub", request: Request) -> Response:
    """`{"text", "latency"}` (and the other options of a start) to `{"text", "sentences"}`."""
    try:
        fields = await _fields(hub, request)
        events = await _events(hub, fields)
    except ProtocolError as error:
        hub.telemetry.errors.labels(error.code).inc()
        status = 413 if error.code == "too_large" else 400
        return JSONResponse({"code": error.code, "message": str(error)}, status)
    except Exception:
        hub.telemetry.errors.labels("internal").inc()
        return JSONResponse({"code": "internal", "message": "this request has failed"}, 500)
    sentences = _sentences(events)
    return JSONResponse({"text": " ".join(sentences), "sentences": sentences})


async def _fields(hub: "Hub", request: Request) -> Mapping[str, Any]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > hub.limits.request_bytes:
            raise ProtocolError(
                "too_large", f"a request has up to {hub.limits.request_bytes} bytes"
            )
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise ProtocolError("bad_json", "this is not JSON") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("text"), str):
        raise ProtocolError("bad_message", 'send {"text": "..."}, and a latency if you like')
    return fields


async def _events(hub: "Hub", fields: Mapping[str, Any]) -> list[TextEvent]:
    options = {name: value for name, value in fields.items() if name != "replay"}
    start = parse_start({**options, "silence": None})
    whole = _Whole(last=2)
    ticket = Ticket(start, whole.report)
    try:
        hub.engine.open(ticket)
        hub.engine.feed(ticket, Say("text", 1, fields["text"]))
        hub.engine.feed(ticket, Flush(2))
        return await whole.future
    finally:
        hub.engine.close(ticket)


def _sentences(events: list[TextEvent]) -> list[str]:
    sentences = [""]
    for event in events:
        if event.action == "WRITE":
            sentences[-1] += str(event)
        elif event.action == "END":
            sentences.append("")
    return [sentence for sentence in sentences if sentence]
