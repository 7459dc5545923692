"""Streams on a real server say what a `TextSession` says, event for event."""

import asyncio
import dataclasses
import json
import threading
import time
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hf_simultaneous import TextSession
from hf_simultaneous.cli import app, translate
from hf_simultaneous.serving import AsyncClient, Client, ServerError
from hf_simultaneous.serving.protocol import text_event
from hf_simultaneous.text_session import choose_policy
from tests.babble import SENTENCES, TEXT
from tests.forked import Forked, free_port
from tests.serving.processes import PATIENCE, Server


pytestmark = pytest.mark.system
WAYS = [
    {},
    {"k": 1},
    {"k": 3, "pieces": True},
    {"policy": "full"},
    {"rho": [0.9, 0.1]},
    {"policy": "hold-n", "options": {"n": 2}},
]


def alike(events):
    """Events without their times."""
    return [dataclasses.replace(event, time=0.0) for event in events]


def alone(generator, words, *, policy=None, k=None, rho=None, options=None, pieces=False):
    chosen = choose_policy(generator, policy, k=k, rho=rho, **(options or {}))
    events = alike(TextSession(generator, policy=chosen, pieces=pieces).stream(words))
    # A batch rounds differently, and so may the layout another process found fastest.
    return [
        dataclasses.replace(
            event, probability=event.probability and pytest.approx(event.probability, abs=1e-4)
        )
        for event in events
    ]


def test_streams_side_by_side_say_what_each_says_alone(server, generator):
    words = TEXT.split()[:12]
    turns = [words[place % 12 :] + words[: place % 12] for place in range(32)]
    options = [WAYS[place % len(WAYS)] for place in range(32)]
    sockets = [server.connect() for _ in turns]
    for socket, option in zip(sockets, options, strict=True):
        socket.start(**option)
    heard = [[] for _ in sockets]
    for step in range(len(words)):
        for socket, turn in zip(sockets, turns, strict=True):
            socket.say("word", turn[step])
        for place, socket in enumerate(sockets):
            heard[place] += socket.until_done()
    for place, socket in enumerate(sockets):
        heard[place] += socket.ask("flush")
    for events, turn, option in zip(heard, turns, options, strict=True):
        assert [event["n"] for event in events] == list(range(1, len(events) + 1))
        assert alike(map(text_event, events)) == alone(generator, turn, **option)
        ends = [event["sentence"] for event in events if event["action"] == "END"]
        assert ends == list(range(1, len(ends) + 1))
    for socket in sockets:
        socket.send(type="end")
        messages, code = socket.closed_with()
        assert (messages[-1]["type"], messages[-1]["words"], code) == ("ended", len(words), 1000)


def test_words_that_are_sent_at_once_wait_their_turn(server, generator):
    socket = server.connect()
    socket.start()
    for word in TEXT.split():
        socket.say("word", word)
    socket.say("flush")
    assert alike(map(text_event, socket.until_done())) == alone(generator, TEXT.split())


def test_text_cut_anywhere_and_transcripts(server, generator):
    expected = alone(generator, TEXT.split())
    cut, whole = server.connect(), server.connect()
    cut.start()
    whole.start()
    heard = []
    for at in range(0, len(TEXT), 7):
        heard += cut.ask("text", TEXT[at : at + 7])
    assert alike(map(text_event, heard + cut.ask("flush"))) == expected
    heard = []
    for at in range(5, len(TEXT) + 5, 9):
        heard += whole.ask("transcript", TEXT[:at])
    whole.say("transcript", "Der Hund")
    refused = whole.receive()
    assert (refused["code"], refused["seq"], refused["fatal"]) == ("bad_message", whole.seq, False)
    heard += whole.ask("transcript", TEXT)  # its last word was taken back by the one refused
    assert alike(map(text_event, heard + whole.ask("flush"))) == expected
    assert whole.ask("transcript", "Ein neues Boot ")[0]["text"] == "Ein"


def test_reads_can_be_left_out(server):
    socket = server.connect()
    socket.start(reads=False, k=1)
    events = socket.ask("text", SENTENCES[0]) + socket.ask("flush")
    assert {event["action"] for event in events} == {"WRITE", "END"}
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))


def test_silence_ends_a_sentence(server):
    socket = server.connect()
    socket.start(silence=0.2, k=1)
    socket.ask("word", "Haus")
    message = socket.receive()
    assert (message["seq"], message["done"]) == (1, True)
    assert message["events"][-1]["action"] == "END"


def test_the_client_is_a_text_session(server, generator):
    expected = alone(generator, TEXT.split())
    assert alike(Client(server.url).stream(TEXT.split())) == expected
    assert alike(Client(server.url).stream(TEXT)) == expected
    with Client(server.url) as client:
        for count in range(1, len(TEXT.split())):
            list(client.push_transcript(" ".join(TEXT.split()[:count])))
        undone = client.push_text(b"l\xc3")
        assert [event.text for event in undone] == []
        client.push_text(b"\xa4uft ")
        assert "läuft" in [event.text for event in client.flush() if event.action == "READ"]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_what_one_iterator_of_a_client_leaves_the_next_tells_first(server, generator, count):
    """As in a session: it does not matter how much of each is read."""
    expected = alone(generator, TEXT.split(), k=1)
    client, other, heard = Client(server.url, k=1), AsyncClient(server.url, k=1), []
    for word in TEXT.split():
        heard += some(client.push_word(word), count) + some(client.poll(), count)
    assert alike([*heard, *client.flush()]) == expected
    client.close()

    async def read():
        heard = []
        for word in TEXT.split():
            heard += await asome(other.push_word(word), count)
            heard += await asome(other.poll(), count)
        async with other:
            return heard + [event async for event in other.flush()]

    assert alike(asyncio.run(read())) == expected


def some(events, count):
    taken = list(islice(events, count))
    events.close()
    return taken


async def asome(events, count):
    taken = [event for _ in range(count) if (event := await anext(events, None)) is not None]
    await events.aclose()
    return taken


def test_silence_is_heard_while_nothing_arrives(server):
    """The source waits until the sentence that it began is over."""
    ended, also_ended = threading.Event(), asyncio.Event()

    def words():
        yield "Haus"
        assert ended.wait(20)

    async def more_words():
        yield "Haus"
        await asyncio.wait_for(also_ended.wait(), 20)

    async def read():
        async for event in AsyncClient(server.url, k=1, silence=0.2).stream(more_words()):
            if event.action == "END":
                also_ended.set()

    for event in Client(server.url, k=1, silence=0.2).stream(words()):
        if event.action == "END":
            ended.set()
    asyncio.run(read())


def test_half_a_surrogate_is_read_as_a_session_reads_it(server, generator):
    words = ["Das", "\ud83d", "Ha\udc00us"]

    async def heard():
        return [event async for event in AsyncClient(server.url, patience=1.0).stream(words)]

    expected = alone(generator, words)
    assert alike(Client(server.url, patience=1.0).stream(words)) == expected
    assert alike(asyncio.run(heard())) == expected
    with pytest.raises(ServerError, match="bad_start: this set has no latency"):
        list(Client(server.url, patience=1.0, latency="\ud83d").push_word("Haus"))


def test_asynchronous_clients_side_by_side(server, generator):
    async def one():
        return [event async for event in AsyncClient(server.url, k=1).stream(TEXT.split())]

    async def several():
        return await asyncio.gather(*[one() for _ in range(3)])

    for events in asyncio.run(several()):
        assert alike(events) == alone(generator, TEXT.split(), k=1)


def test_the_client_says_what_the_server_refuses():
    with pytest.raises(ValueError, match=r"a server is ws://host:port or wss://host; got 'http:"):
        Client("http://localhost")


def test_a_first_connection_that_is_refused_is_told_at_once(server, generator):
    """And one server of several is enough."""

    async def heard(*servers):
        return [event async for event in AsyncClient(servers).stream(TEXT.split())]

    port = free_port()
    nowhere = [f"ws://127.0.0.{host}:{port}" for host in (1, 2)]
    message = " or ".join(rf"{url} \(Connection refused\)" for url in nowhere)
    begun = time.monotonic()
    with pytest.raises(ConnectionError, match=f"nobody answers at {message}; start a server"):
        list(Client(nowhere).push_word("Haus"))
    with pytest.raises(ConnectionError, match=f"nobody answers at {message}; start a server"):
        asyncio.run(heard(*nowhere))
    assert time.monotonic() - begun < 30, "it would have tried for a minute"
    expected = alone(generator, TEXT.split())
    assert alike(Client([nowhere[0], server.url]).stream(TEXT.split())) == expected
    assert alike(asyncio.run(heard(nowhere[0], server.url))) == expected


def test_a_connection_that_stood_is_tried_again(babble):
    server = Server(babble, "--drain", "1")
    told = {Client: [], AsyncClient: []}
    client = Client(server.url, patience=1.0, tell=told[Client].append)
    list(client.push_word("Haus"))
    other = AsyncClient(server.url, patience=1.0, tell=told[AsyncClient].append)

    async def push_word():
        return [event async for event in other.push_word("Haus")]

    with asyncio.Runner() as runner:
        runner.run(push_word())
        server.process.kill()
        server.process.wait()
        message = f"no server has answered for 1 seconds at {server.url}; start one"
        with pytest.raises(ConnectionError, match=message):
            list(client.push_word("Haus"))
        with pytest.raises(ConnectionError, match=message):
            runner.run(push_word())
    line = f"{server.url} does not answer (Connection refused); trying again for 1 seconds"
    assert list(told.values()) == [[line], [line]], "once, though it is tried several times"


def test_who_waits_for_a_server_that_is_gone_is_told(babble):
    server = Server(babble, "--drain", "1")
    patient = f"from hf_simultaneous.cli import main, translate; translate.PATIENCE = {PATIENCE}"
    process = Forked(f"{patient}; main()", "translate", "--server", server.url, "--k", "1")
    process.stdin.write(b"Das Haus am Boot ")
    assert process.stdout.read(1)
    server.process.kill()
    server.process.wait()
    process.stdin.write(b"ist alt. ")
    assert process.stderr.readline() == (
        f"warning: {server.url} does not answer (Connection refused); trying again for "
        f"{PATIENCE} seconds\n"
    )
    again = Server(babble, "--drain", "1", port=server.port)
    assert process.stderr.readline() == f"warning: {server.url} answers again\n"
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    again.stop()


def test_the_command_gives_up_a_server_that_is_gone(babble, monkeypatch):
    server = Server(babble, "--drain", "1")

    def said(request):
        yield b"Das Haus am Boot "
        server.process.kill()
        server.process.wait()
        yield b"ist alt."

    monkeypatch.setattr(translate, "_fragments", said)
    monkeypatch.setattr(translate, "PATIENCE", 1.0)
    outcome = CliRunner().invoke(app, ["translate", "--server", server.url])
    assert outcome.exit_code == 2
    warning, error = outcome.stderr.splitlines()
    assert warning.startswith(f"warning: {server.url} does not answer")
    assert error.startswith(f"error: no server has answered for 1 seconds at {server.url}")


def test_a_wrong_start_is_told(server):
    with pytest.raises(ServerError, match="bad_start: this set has no latency 'soon'"):
        list(Client(server.url, latency="soon").push_word("Haus"))


def test_one_request_translates_a_text(server, generator):
    status, body = server.get("/v1/translate", json.dumps({"text": TEXT, "k": 1}).encode())
    said = ["".join(str(e) for e in alone(generator, s.split(), k=1) if e.action == "WRITE")
            for s in SENTENCES]  # fmt: skip
    assert (status, json.loads(body)["sentences"]) == (200, [text for text in said if text])
    assert server.get("/v1/translate", b"{")[0] == 400
    assert server.get("/v1/translate", b'{"text": 3}')[0] == 400
    assert server.get("/v1/translate", b'{"text": "a", "k": -1}')[0] == 400
    assert server.get("/v1/translate", b" " * 70000)[0] == 413


def test_the_server_tells_of_itself(server, babble):
    server.wait_until(lambda: len(server.log) > 1)
    told = [json.loads(line) for line in server.log[:2]]
    assert [(line["event"], line["set"]) for line in told] == [
        ("loading", Path(babble).name),
        ("ready", Path(babble).name),
    ]
    address = f"127.0.0.1:{server.port}"
    assert told[1]["ws"] == f"ws://{address}/v1/stream"
    assert told[1]["http"] == f"http://{address}/v1/translate"
    assert told[1]["stop"] == "Ctrl-C"
    assert server.get("/healthz") == (200, "ok")
    assert server.get("/readyz") == (200, "ready")
    info = json.loads(server.get("/v1/info")[1])
    assert info["limits"]["message_bytes"] == 16384
    assert info["languages"] == {"source": None, "target": None}
    assert {"wait-k", "adaptive"} <= set(info["policies"])
    assert server.metric("words_total") > 0
    assert server.metric("word_seconds_count") > 0


def test_a_recogniser_that_revises_is_read_where_its_texts_agree(server, generator):
    socket = server.connect()
    socket.start(k=1, stable=2)
    texts = ["Das Boot ist ", "Das Haus ist ", "Das Haus ist alt. "]
    heard = [event for text in texts for event in socket.ask("transcript", text)]
    assert [e["text"] for e in heard if e["action"] == "READ"] == ["Das", "Haus", "ist"]
    client = Client(server.url, k=1, stable=2)
    heard = [event for text in texts for event in client.push_transcript(text)]
    assert [e.text for e in heard if e.action == "READ"] == ["Das", "Haus", "ist"]
    client.close()


def test_a_sentence_goes_on_where_another_server_was_killed(babble, generator):
    first, second = (Server(babble, "--drain", "1") for _ in range(2))
    try:
        clients = {
            pieces: Client([first.url, second.url], k=1, pieces=pieces) for pieces in (False, True)
        }
        events = {pieces: [] for pieces in clients}
        for place, word in enumerate(TEXT.split()):
            if place == 11:
                first.process.kill()
            for pieces, client in clients.items():
                events[pieces] += client.push_word(word)
        for pieces, client in clients.items():
            events[pieces] += client.flush()
            client.close()
            expected = alone(generator, TEXT.split(), k=1, pieces=pieces)
            assert alike(events[pieces]) == expected
        assert second.metric('replays_total{diverged="false"}') == 2
    finally:
        first.stop()
        second.stop()


def test_a_sentence_of_two_scripts_goes_on(server, generator):
    """Its connection breaks behind every character; one more token, and it would go another way."""
    text = "我有3本书 我 有a"
    client, heard = Client(server.url, k=1), []
    for character in text:
        heard += client.push_text(character)
        client.close()
    heard += client.flush()
    client.close()
    assert alike(heard) == alone(generator, text, k=1)


def test_what_was_written_elsewhere_is_kept(server, generator):
    words = SENTENCES[1].split()
    own = [e for e in alone(generator, words, k=1) if e.action == "WRITE"]
    foreign = [token for event in reversed(own) for token in event.tokens]
    socket = server.connect()
    replay = {"sentence": 4, "n": 30, "words": words[:3], "tokens": foreign[:2]}
    assert socket.start(k=1, replay=replay)["replayed"] == 3
    events = socket.ask("text", " ".join(words[3:])) + socket.ask("flush")
    assert events[0]["n"] == 31
    assert {event["sentence"] for event in events} == {4}
    assert [e["text"] for e in events if e["action"] == "READ"] == words[3:]
    assert foreign[:2] not in [event.get("tokens") for event in events]


def test_the_command_translates_on_a_server(server, generator):
    for arguments, options in (
        (["--k", "1"], {"k": 1}),
        (["--policy", "hold-n", "--n", "3"], {"policy": "hold-n", "options": {"n": 3}}),
    ):
        command = ["translate", "--server", server.url, *arguments, SENTENCES[0]]
        told = alone(generator, SENTENCES[0].split(), **options)
        said = "".join(str(event) for event in told if event.action == "WRITE")
        assert CliRunner().invoke(app, command).stdout == f"{said}\n"
