"""Bad clients are answered as the protocol says, harm nobody else, and leave nothing behind."""

import contextlib
import random
import signal
import socket as sockets
import time
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.babble import SENTENCES
from tests.serving.processes import PATIENCE, Server
from tests.serving.test_protocol import WRONG


pytestmark = pytest.mark.system
SECRET = "open sesame"
SLACK = 20.0
"""Seconds that a process may take to stop once its streams are closed: a busy machine is slow."""


@pytest.fixture(scope="module")
def strict(babble):
    options = ["--max-streams", "3", "--drain", "1"]
    server = Server(
        babble, *options, "--origin", "https://example.org", env={"HF_SIMULTANEOUS_TOKEN": SECRET}
    )
    yield server
    server.stop()


@pytest.fixture
def quiet(babble):
    """A server that nobody has troubled yet."""
    server = Server(babble, "--max-rate", "100000", "--drain", "1", "--log-format", "text")
    yield server
    server.stop()


def enter(server, **options):
    headers = {"Authorization": f"Bearer {SECRET}", **options.pop("headers", {})}
    return server.connect(additional_headers=headers, **options)


def is_empty(server):
    return server.metric("open_streams") == 0 and server.metric("open_sentences") == 0


def test_wrong_messages_are_answered_and_harm_nobody(server):
    good = server.connect()
    good.start(k=1)
    forgiven = [(code, raw) for code, raws in WRONG.items() for raw in raws if code != "bad_start"]
    mix = random.Random(5)
    for turn in range(91):  # eleven messages each
        bad = server.connect()
        bad.start()
        chosen = mix.sample(forgiven, 10)
        for _, raw in chosen:
            bad.raw.send(raw)
        answers = [bad.receive() for _ in chosen]
        assert [answer["code"] for answer in answers] == [code for code, _ in chosen]
        assert not any(answer["fatal"] for answer in answers)
        bad.raw.send("one too many")
        messages, code = bad.closed_with()
        assert (messages[-1]["code"], messages[-1]["fatal"], code) == ("bad_json", True, 1008)
        assert good.ask("word", SENTENCES[1].split()[turn % 7])
    good.raw.close()


@pytest.mark.parametrize("raw", WRONG["bad_start"])
def test_a_wrong_start_ends_the_stream(server, raw):
    bad = server.connect()
    bad.raw.send(raw)
    messages, code = bad.closed_with()
    assert (messages[-1]["code"], code) == ("bad_start", 4400)


def test_messages_that_are_too_large(server):
    bad = server.connect()
    bad.start()
    bad.say("text", "a" * 20000)
    messages, code = bad.closed_with()
    assert (messages[-1]["code"], code) == ("too_large", 1009)
    huge = server.connect()
    huge.start()
    huge.say("text", "a" * 2**20)
    assert huge.closed_with()[1] == 1009


def test_order_is_kept(server):
    bad = server.connect()
    bad.say("word", "Haus")
    assert bad.receive()["code"] == "bad_message"
    bad.start()
    bad.send(type="start")
    assert bad.receive()["code"] == "bad_message"
    bad.send(type="word", seq=5, text="Haus")
    assert bad.receive()["seq"] == 5
    bad.send(type="word", seq=5, text="Haus")
    assert bad.receive()["code"] == "bad_seq"
    bad.send(type="ping")
    assert bad.receive() == {"type": "pong"}
    bad.raw.close()


def test_tokens_and_origins_at_the_door(strict):
    for options in (
        {},
        {"additional_headers": {"Authorization": "Bearer wrong"}},
        {"subprotocols": ["hf-simultaneous.v1", "bearer.wrong"]},
    ):
        with pytest.raises(InvalidStatus) as refused:
            strict.connect(**options)
        assert refused.value.response.status_code == 401
    with pytest.raises(InvalidStatus) as refused:
        enter(strict, origin="https://elsewhere.org")
    assert refused.value.response.status_code == 403
    enter(strict, origin="https://example.org").raw.close()
    assert strict.get("/v1/info")[0] == 401
    assert strict.get("/v1/info", Authorization=f"Bearer {SECRET}")[0] == 200
    assert strict.get("/healthz")[0] == 200
    assert not any(SECRET in line for line in strict.log)


def test_one_stream_too_many(strict):
    strict.wait_until(lambda: is_empty(strict))
    streams = [enter(strict) for _ in range(3)]
    with pytest.raises(InvalidStatus) as refused:
        enter(strict)
    assert refused.value.response.status_code == 503
    assert refused.value.response.headers["Retry-After"] == "2"
    assert strict.get("/readyz") == (503, "full")
    for stream in streams:
        stream.raw.close()
    strict.wait_until(lambda: strict.get("/readyz")[0] == 200)


def test_the_sixty_fifth_of_sixty_four(server):
    server.wait_until(lambda: is_empty(server))
    streams = [server.connect() for _ in range(64)]
    with pytest.raises(InvalidStatus) as refused:
        server.connect()
    assert refused.value.response.status_code == 503
    streams.pop().raw.close()
    server.wait_until(lambda: server.get("/readyz")[0] == 200)
    streams.append(server.connect())
    streams[-1].start(k=1)
    assert streams[-1].ask("word", "Haus")
    for stream in streams:
        stream.raw.close()


def test_a_flood_is_stopped_and_others_go_on(strict):
    strict.wait_until(lambda: is_empty(strict))
    good, flood = enter(strict), enter(strict)
    good.start(k=1)
    flood.start(k=1)
    flood.say("text", "a " * 600)
    messages, code = flood.closed_with()
    assert (messages[-1]["code"], code) == ("too_fast", 1008)
    assert good.ask("word", "Haus")
    good.raw.close()


def test_a_reader_that_does_not_read_is_closed(server):
    small = sockets.socket()
    small.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    small.connect(("127.0.0.1", server.port))
    slow = server.connect(sock=small, max_queue=1, ping_interval=None)
    slow.start(policy="full")  # which says much and computes little
    good = server.connect()
    good.start(k=1)
    before, held = server.metric('streams_total{outcome="slow_reader"}'), server.resident()
    deadline = time.monotonic() + PATIENCE
    with contextlib.suppress(OSError, ConnectionClosed):  # closed, and not yet counted
        while server.metric('streams_total{outcome="slow_reader"}') == before:
            assert time.monotonic() < deadline
            slow.say("text", "das Haus am Boot " * 50)
            assert good.ask("word", "Haus")
    assert good.ask("word", "Haus")
    good.raw.close()
    told = '"outcome": "slow_reader", "code": 1008'
    server.wait_until(lambda: any(told in line for line in server.log))
    assert server.resident() < held + 32, "what it did not read was not kept for it"


def test_nothing_is_left_of_streams_that_went(quiet, babble):
    quiet.wait_until(lambda: len(quiet.log) > 1)
    loading, ready = (line.partition(" ")[2].split() for line in quiet.log[:2])
    named = f"set={Path(babble).name}"
    assert loading == ["loading", named]
    address = f"127.0.0.1:{quiet.port}/v1"
    assert ready == ["ready", named, f"ws=ws://{address}/stream", f"http=http://{address}/translate",
                     "stop=Ctrl-C"]  # fmt: skip
    mix = random.Random(7)

    def come_and_go():
        client = quiet.connect()
        if mix.random() < 0.8:
            client.start(k=1)
            for word in SENTENCES[1].split()[: mix.randint(0, 4)]:
                client.say("word", word)
            if mix.random() < 0.3:
                client.say("flush")
        if mix.random() < 0.5:
            client.raw.close()
        else:
            client.raw.socket.shutdown(sockets.SHUT_RDWR)

    def grown(count):
        """MiB, after so many have come and gone."""
        before = quiet.resident()
        for _ in range(count):
            come_and_go()
        quiet.wait_until(lambda: is_empty(quiet))
        return quiet.resident() - before

    grown(40)
    # A leak grows every time; an allocator that rounds up does so now and then.
    assert any(grown(200) < 5 for _ in range(3))
    assert quiet.metric("waiting_words") == 0


def test_a_server_that_is_told_to_stop_lets_open_sentences_end(babble):
    server = Server(babble, "--drain", str(PATIENCE))
    busy, calm = server.connect(), server.connect()
    busy.start(k=1)
    calm.start()
    busy.ask("word", "Haus")
    server.process.send_signal(signal.SIGTERM)
    assert busy.receive()["type"] == "draining"
    assert calm.closed_with()[1] == 1012
    assert server.get("/readyz") == (503, "draining")
    with pytest.raises(InvalidStatus) as refused:
        server.connect()
    assert refused.value.response.status_code == 503
    assert busy.ask("flush")[-1]["action"] == "END"
    assert busy.closed_with()[1] == 1012
    assert server.stop() == 0
    assert not any("Haus" in line for line in server.log)


def test_a_sentence_that_does_not_end_is_cut_off_when_the_time_is_over(babble):
    server = Server(babble, "--drain", "1")
    endless = server.connect()
    endless.start(k=1)
    endless.ask("word", "Haus")
    told = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert endless.receive() == {"type": "draining", "seconds": 1.0}
    assert endless.closed_with() == ([], 1012)
    assert time.monotonic() - told >= 1.0, "it had its time"
    assert server.process.wait(PATIENCE) == 0
    assert time.monotonic() - told < 1.0 + SLACK, "and no more"
