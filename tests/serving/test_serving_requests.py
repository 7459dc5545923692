"""`POST /v1/translate` from inside: who holds a place must use it. No engine runs here."""

import asyncio
import json

import pytest

from hf_simultaneous.serving.access import Access
from hf_simultaneous.serving.hub import Hub
from hf_simultaneous.serving.limits import Limits
from hf_simultaneous.serving.server import application
from hf_simultaneous.serving.streams import Report
from tests.serving.test_serving_hub import logged_facts


TEXT = b'{"text": "Das Haus"}'


def resting(**limits):
    """A hub that lets people in, and whose engine never answers."""
    hub = Hub(lambda: None, Limits(**limits), Access())
    hub.engine.generator = object()
    return hub


def post(hub, *messages):
    """Status and answer, where these come from the client and then nothing."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/translate",
        "query_string": b"",
        "headers": [],
    }
    waiting, sent = list(messages), []

    async def receive():
        return waiting.pop(0) if waiting else await asyncio.get_running_loop().create_future()

    async def send(message):
        sent.append(message)

    asyncio.run(application(hub)(scope, receive, send))
    assert hub._places == 0
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(body) if body else None


def part(body, *, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


def counted(hub, code):
    return hub.telemetry.errors.labels(code)._value.get()


def test_a_body_that_does_not_come_gives_its_place_back():
    hub = resting(start=0.05)
    status, told = post(hub, part(b"{", more=True))
    assert (status, told["code"]) == (408, "no_start")
    assert told["message"] == "a request must come whole within 0.05 s; 1 bytes came"


def test_a_translation_that_takes_too_long_gives_its_place_back():
    status, told = post(resting(max_session=0.05), part(TEXT))
    assert (status, told["code"]) == (503, "session_over")
    assert told["message"].endswith("longer than 0.05 s; send less of it")


def test_a_client_that_goes_is_no_error():
    hub = resting()
    post(hub, part(b"{", more=True), {"type": "http.disconnect"})
    assert counted(hub, "internal") == 0


def test_a_client_that_goes_while_it_waits_gives_its_place_back():
    hub, closed = resting(), []
    hub.engine.close = closed.append
    post(hub, part(TEXT), {"type": "http.disconnect"})
    assert len(closed) == 1
    assert counted(hub, "internal") == 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "bad_json"),
        (b'{"text": "\xff"}', "bad_json"),
        (b'{"text": "Haus", "rho": [NaN, 1]}', "bad_json"),
        (b"[]", "bad_message"),
        (b'{"text": 3}', "bad_message"),
        (b'{"text": "Haus", "k": -1}', "bad_start"),
    ],
)
def test_what_is_wrong_gets_its_code(body, code):
    hub = resting()
    status, told = post(hub, part(body))
    assert (status, told["code"], counted(hub, code)) == (400, code, 1)


def test_our_own_fault_is_logged_without_the_text(caplog):
    caplog.set_level("INFO")
    hub = resting()

    def fail(ticket):
        try:
            raise ArithmeticError("Das Haus")
        except ArithmeticError as error:
            ticket.report(Report(0, True, error=error))

    hub.engine.open = fail
    status, told = post(hub, part(TEXT))
    assert (status, told["code"], counted(hub, "internal")) == (500, "internal", 1)
    [facts] = logged_facts(caplog)
    file, _, line = facts.pop("at").rpartition(":")
    assert (file, line.isdecimal()) == (__file__, True)
    assert facts == {"code": "internal", "kind": "ArithmeticError"}
