"""Bounds that one stream must keep, seen from inside: what it meets that goes too far, and that
nobody else is harmed. The server runs in this process."""

import asyncio

import pytest

from hf_simultaneous.serving.access import Access
from hf_simultaneous.serving.connection import Connection
from hf_simultaneous.serving.engine import Ticket
from hf_simultaneous.serving.hub import Hub
from hf_simultaneous.serving.limits import Limits
from hf_simultaneous.serving.protocol import ProtocolError, Say, Start
from hf_simultaneous.serving.streams import Report


def resting(**limits):
    """A hub whose engine does nothing, and a stream of its that has started."""
    hub = Hub(lambda: None, Limits(**limits), Access())
    connection = Connection(None, hub)
    connection._handle(Start())
    connection._report(Report(0, False))
    return hub, connection


def told(connection):
    return [text for text, _ in connection._outbox]


def test_a_backlog_is_refused_when_words_come_and_never_when_they_are_done():
    _, connection = resting(buffered=True, max_backlog_bytes=20)
    connection._handle(Say("word", 1, "Haus"))
    with pytest.raises(ProtocolError, match="2 words wait; wait for `done`"):
        connection._handle(Say("text", 2, "Haus" * 10))
    connection._report(Report(1, True))
    assert '"seq":1,"done":true' in told(connection)[-1]


def test_a_stream_that_cannot_be_told_ends_and_the_others_are_told():
    heard, failed = [], []

    def fail(report):
        failed.append(report)
        raise ArithmeticError("on purpose")

    async def hand_out():
        hub = Hub(lambda: None, Limits(), Access())
        tickets = [Ticket(Start(), report) for report in (heard.append, fail, heard.append)]
        hub._hand_out([(ticket, Report(7, True)) for ticket in tickets])

    asyncio.run(hand_out())
    assert heard == [Report(7, True)] * 2
    assert isinstance(failed[-1].error, ArithmeticError)
