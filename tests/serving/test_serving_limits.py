"""Bounds that one stream must keep, seen from inside: what it meets that goes too far, and that
nobody else is harmed. The server runs in this process."""

import asyncio
import itertools

import pytest
from starlette.testclient import WebSocketDenialResponse

from hf_simultaneous.serving.access import Access
from hf_simultaneous.serving.connection import Connection
from hf_simultaneous.serving.engine import Ticket
from hf_simultaneous.serving.hub import Hub
from hf_simultaneous.serving.limits import Limits
from hf_simultaneous.serving.protocol import SUBPROTOCOL, Flush, Ping, ProtocolError, Say, Start
from hf_simultaneous.serving.streams import Report
from tests.babble import SENTENCES
from tests.serving.processes import PATIENCE
from tests.serving.test_serving_hub import ask, refusal, running, stream, until


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


def test_who_comes_while_memory_is_short_is_refused_until_it_is_given_back(generator):
    """However little is allowed: one open sentence is above it, and none is not."""

    def is_ready():
        return client.get("/readyz").status_code == 200

    def come():
        return client.websocket_connect("/v1/stream", subprotocols=[SUBPROTOCOL])

    with running(lambda: generator, max_memory=1) as (hub, client), come() as late:
        for turn in range(3):
            with stream(client, k=1) as first:
                ask(first, type="text", seq=1, text=SENTENCES[turn])
                until(lambda: not is_ready())
                assert client.get("/readyz").text == "full"
                with pytest.raises(WebSocketDenialResponse) as refused, come():
                    pass
                assert (refused.value.status_code, refused.value.json()["code"]) == (503, "busy")
                assert client.post("/v1/translate", json={"text": "Haus"}).status_code == 503
                if turn == 2:  # who came in before, and says start only now
                    late.send_json({"type": "start"})
                    assert refusal(late) == ("busy", 1013)
                ask(first, type="flush", seq=2)
                until(is_ready)


def test_all_words_of_a_transcript_count_once_before_a_flush_and_after():
    _, connection = resting()
    seq = itertools.count(1)
    for sentence in SENTENCES:
        for end in range(1, len(sentence.split()) + 1):
            connection._handle(Say("transcript", next(seq), " ".join(sentence.split()[:end])))
        connection._handle(Flush(next(seq)))
    assert connection._tally.words == sum(len(sentence.split()) for sentence in SENTENCES)
    connection._handle(Say("transcript", next(seq), "Das Haus am Boot"))
    connection._handle(Flush(next(seq)))
    before = connection._tally.words
    connection._handle(Say("transcript", next(seq), "Die Katze"))
    assert connection._tally.words == before + 2


@pytest.mark.parametrize("message", [Ping(), Say("word", 1, "Haus")])
def test_pings_and_words_share_a_rate(message):
    _, connection = resting(max_backlog=4, max_rate=0.001)
    for _ in range(3):
        connection._handle(Ping())
    connection._handle(message)
    with pytest.raises(ProtocolError, match=r"a stream may send 0.001 words or pings a second"):
        connection._handle(Ping())


def test_a_flood_of_pings_is_stopped(generator):
    with (
        running(lambda: generator, max_backlog=4, max_rate=0.001) as (_, client),
        stream(client) as socket,
    ):
        for _ in range(5):
            socket.send_json({"type": "ping"})
        assert [socket.receive_json()["type"] for _ in range(4)] == ["pong"] * 4
        assert refusal(socket) == ("too_fast", 1008)


@pytest.mark.parametrize("text", ["Haus", "Häuser", "家", "😀", "\ud800"])
def test_what_waits_is_counted_in_bytes(text):
    _, connection = resting()
    connection._handle(Say("text", 1, text))
    assert connection._tally.waiting_bytes == len(text.encode(errors="surrogatepass"))


@pytest.mark.parametrize("closing", [False, True])
def test_a_client_that_takes_nothing_is_closed_when_a_message_has_had_its_time(closing):
    abandoned = []

    class Stuck:
        """Takes all messages but the last, the close, or none at all."""

        scope = {"state": {"abandon": lambda *why: abandoned.append(why)}}

        async def receive(self):
            return await asyncio.get_running_loop().create_future()

        async def send_text(self, text):
            if not closing:
                await asyncio.get_running_loop().create_future()

        async def close(self, code, reason):
            await asyncio.get_running_loop().create_future()

    hub, connection = resting(send=0.05)
    connection._socket = Stuck()
    if closing:
        connection.cut_off()
    asyncio.run(asyncio.wait_for(connection.run(), PATIENCE))
    assert abandoned == [(1008, "slow_reader")]
    assert hub.telemetry.errors.labels("slow_reader")._value.get() == 1
    assert Limits().send <= 15, "what the protocol promises"


def test_what_is_sent_is_counted_in_bytes():
    sent = []

    class Socket:
        async def send_text(self, text):
            sent.append(text)

    _, connection = resting()
    connection._socket = Socket()
    connection._put({"type": "events", "events": [{"text": "Häuser 家"}]})
    asyncio.run(connection._empty_outbox())
    assert len(sent) == 2
    assert connection._tally.bytes_out == len("".join(sent).encode())
