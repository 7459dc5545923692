"""What a server does in states that are hard to come by from outside: while it loads, when its
engine is gone, when a policy fails. It runs in this process, its engine in a thread."""

import asyncio
import itertools
import socket as sockets
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.serving import engine as engines
from hf_simultaneous.serving import streams
from hf_simultaneous.serving.access import Access
from hf_simultaneous.serving.hub import Hub
from hf_simultaneous.serving.limits import Limits
from hf_simultaneous.serving.protocol import SUBPROTOCOL, Start
from hf_simultaneous.serving.server import ServeRequest, _listen, application
from tests.babble import SENTENCES
from tests.serving.processes import PATIENCE


@contextmanager
def running(load, *, ready=True, log_text=False, **limits):
    """A hub and somebody who can ask it things."""
    hub = Hub(load, Limits(**limits), Access(), log_text=log_text)
    with TestClient(application(hub)) as client:
        if ready:
            until(lambda: client.get("/readyz").status_code == 200)
        yield hub, client


def until(holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def opened(client, **start):
    """A stream that may be over before it is said to have started: a limit was short."""
    with client.websocket_connect("/v1/stream", subprotocols=[SUBPROTOCOL]) as socket:
        socket.send_json({"type": "start", **start})
        yield socket


@contextmanager
def stream(client, **start):
    with opened(client, **start) as socket:
        assert socket.receive_json()["type"] == "started"
        yield socket


def ask(socket, **message):
    """The events of a message, or the error it is answered with."""
    socket.send_json(message)
    events = []
    while (answer := socket.receive_json())["type"] == "events":
        events += answer["events"]
        if answer["done"]:
            return events
    return answer


def refusal(socket):
    """The code of the error that ends a stream, and that of the close."""
    while (answer := socket.receive_json())["type"] != "error":
        pass
    return answer["code"], socket.receive()["code"]


def logged_facts(caplog):
    return [record.facts for record in caplog.records if hasattr(record, "facts")]


def test_the_languages_of_the_set_in_the_package_are_told():
    with running(AdaptiveWaitKGenerator.from_pretrained) as (_, client):
        told = client.get("/v1/info").json()["languages"]
    assert told == {"source": "de", "target": "en"}


def test_nobody_is_let_in_before_the_models_are_there(generator):
    there = threading.Event()

    def load():
        there.wait(PATIENCE)
        return generator

    with running(load, ready=False) as (_, client):
        assert (client.get("/readyz").status_code, client.get("/readyz").text) == (503, "loading")
        assert client.get("/healthz").status_code == 200
        assert client.get("/v1/info").status_code == 503
        refused = client.post("/v1/translate", json={"text": "Haus"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
        there.set()
        until(lambda: client.get("/readyz").status_code == 200)


def test_nobody_is_let_in_before_the_models_are_warm(generator, monkeypatch):
    warm = threading.Event()
    monkeypatch.setattr(engines, "warm_up", lambda given: warm.wait(PATIENCE))
    with running(lambda: generator, ready=False) as (_, client):
        assert client.get("/readyz").text == "loading"
        warm.set()
        until(lambda: client.get("/readyz").status_code == 200)


def test_models_that_do_not_load_are_said_to_be_dead():
    def load():
        raise OSError("no such set")

    with running(load, ready=False) as (hub, client):
        until(lambda: client.get("/healthz").status_code == 503)
        assert isinstance(hub.engine.failure, OSError)
        assert (client.get("/readyz").status_code, client.get("/readyz").text) == (503, "broken")


def test_an_engine_that_has_stopped_is_not_healthy(generator):
    with running(lambda: generator) as (hub, client):
        assert client.get("/healthz").status_code == 200
        hub.engine.stop()
        assert client.get("/healthz").status_code == 503


def test_an_engine_that_fails_lets_nobody_in_and_everybody_go(generator, caplog):
    """Also where the process goes on, as a replica of Ray does until it is replaced."""
    caplog.set_level("INFO")

    def fail():
        raise ArithmeticError("on purpose")

    with (
        running(lambda: generator) as (hub, client),
        stream(client, k=1) as busy,
        client.websocket_connect("/v1/stream", subprotocols=[SUBPROTOCOL]) as silent,
    ):
        ask(busy, type="word", seq=1, text="Haus")
        failures, healthy = [], []
        hub.on_failure = lambda: failures.append(hub.engine.failure)
        deliver = hub.engine._deliver

        def watched(reports):
            healthy.append(hub.healthy)  # in the engine's thread, which is not over yet
            deliver(reports)

        hub.engine._deliver = watched
        hub.engine._tell(fail)
        assert refusal(busy) == ("internal", 1011)
        assert refusal(silent) == ("internal", 1011)
        assert (client.get("/readyz").status_code, client.get("/readyz").text) == (503, "broken")
        assert client.get("/healthz").status_code == 503
        assert client.post("/v1/translate", json={"text": "Haus"}).status_code == 503
        until(lambda: failures)
    assert healthy[-1] is False
    assert [type(failure) for failure in failures] == [ArithmeticError]
    [facts] = [facts for facts in logged_facts(caplog) if facts.get("kind") == "ArithmeticError"]
    assert facts["at"].startswith(f"{__file__}:")


def test_a_request_does_not_outlive_its_engine(generator, monkeypatch):
    def fail(given, loop):
        raise SystemExit

    monkeypatch.setattr(streams.Stream, "advance", fail)
    with running(lambda: generator) as (_, client):
        answer = client.post("/v1/translate", json={"text": "Haus"})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")


def test_a_policy_that_fails_ends_its_own_stream(generator, monkeypatch, caplog):
    usual = streams.choose_policy

    def choose(generator, name, **options):
        def fail(state, predict):
            raise ArithmeticError("on purpose")

        return fail if name == "full" else usual(generator, name, **options)

    monkeypatch.setattr(streams, "choose_policy", choose)
    caplog.set_level("INFO")
    with (
        running(lambda: generator) as (hub, client),
        stream(client, k=1) as good,
        stream(client, policy="full") as bad,
    ):
        failed = ask(bad, type="word", seq=1, text="Haus")
        assert (failed["code"], failed["fatal"]) == ("internal", True)
        assert bad.receive()["code"] == 1011
        assert ask(good, type="word", seq=1, text="Haus")
        until(lambda: hub.engine.rows == 1)
    [facts] = [facts for facts in logged_facts(caplog) if facts.get("kind") == "ArithmeticError"]
    assert facts["at"].startswith(f"{__file__}:")
    assert "on purpose" not in str(facts), "an error's text may be the speaker's"


def test_a_stream_that_never_starts_is_closed(generator):
    with (
        running(lambda: generator, start=0.3) as (_, client),
        client.websocket_connect("/v1/stream", subprotocols=[SUBPROTOCOL]) as socket,
    ):
        assert refusal(socket) == ("no_start", 4408)


def test_a_stream_that_falls_asleep_is_closed(generator):
    with running(lambda: generator, idle=0.3) as (_, client), opened(client) as socket:
        assert refusal(socket) == ("idle", 4408)


def test_a_session_ends_when_it_has_lasted_long_enough(generator):
    with running(lambda: generator, max_session=0.3) as (_, client), opened(client) as socket:
        assert refusal(socket) == ("session_over", 1000)


def test_memory_is_given_back_where_no_sentence_is_open(generator):
    with running(lambda: generator, max_memory=1) as (hub, client), stream(client, k=1) as socket:
        ask(socket, type="text", seq=1, text=SENTENCES[1])
        assert hub.engine.nbytes > 0
        ask(socket, type="flush", seq=2)
        until(lambda: hub.engine.nbytes == 0)
        assert ask(socket, type="word", seq=3, text="Haus")


@pytest.mark.parametrize("log_text", [False, True])
def test_the_text_is_logged_only_where_that_is_asked_for(generator, caplog, log_text):
    caplog.set_level("INFO")
    with (
        running(lambda: generator, log_text=log_text) as (_, client),
        stream(client, k=1) as socket,
    ):
        ask(socket, type="text", seq=1, text=SENTENCES[0])
        ask(socket, type="flush", seq=2)
        socket.send_json({"type": "end"})
        assert socket.receive_json()["type"] == "ended"
    facts = logged_facts(caplog)
    logged = [fact["source"] for fact in facts if "source" in fact]
    assert logged == ([SENTENCES[0]] if log_text else [])
    assert not log_text or all("text" in fact for fact in facts if "source" in fact)
    assert {"words", "p95", "bytes_in", "bytes_out"} <= set(facts[-1])


def test_a_client_that_leaves_has_not_been_lost(generator, caplog):
    caplog.set_level("INFO")
    with running(lambda: generator) as (hub, client):
        with stream(client, k=1) as socket:
            ask(socket, type="word", seq=1, text="Haus")
        until(lambda: hub.engine.rows == 0)
        until(lambda: any("outcome" in fact for fact in logged_facts(caplog)))
    outcomes = [fact["outcome"] for fact in logged_facts(caplog) if "outcome" in fact]
    assert outcomes == ["left"]


def test_an_engine_says_nothing_of_a_stream_it_has_closed(generator):
    heard = []
    engine = engines.Engine(lambda: generator, heard.extend)
    closed, kept = (engines.Ticket(Start(k=1), None) for _ in range(2))
    for ticket in (closed, kept):
        engine.open(ticket)
    engine.close(closed)
    engine.close(closed)
    engine.begin()  # only now, so that it hears all of this in one step
    until(lambda: heard)
    engine.stop()
    assert [ticket for ticket, _ in heard] == [kept]


OPEN = streams.Report(1, False, ("She",))
DONE = streams.Report(1, True)


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        (OPEN, streams.Report(1, False, ("says",)), streams.Report(1, False, ("She", "says"))),
        (OPEN, DONE, streams.Report(1, True, ("She",))),
        (OPEN, replace(DONE, diverged=True), streams.Report(1, True, ("She",), None, True)),
        (OPEN, streams.Report(2, True), None),
        (OPEN, replace(DONE, error=ValueError()), None),
        (streams.Report(1, True, ("She",)), streams.Report(1, True), None),
        (streams.Report(0, False), streams.Report(0, True, ("She",)), None),  # the first is hello
    ],
)
def test_reports_of_one_message_that_come_together_are_one(first, second, joined):
    assert first.joined(second) == joined


def test_a_client_gets_no_two_messages_where_one_would_do(generator, monkeypatch):
    """What one step of the engine hands over holds no report that could have been joined."""
    handed = []
    deliver = Hub._deliver
    monkeypatch.setattr(
        Hub, "_deliver", lambda hub, reports: (handed.append(reports), deliver(hub, reports))[1]
    )
    with running(lambda: generator) as (_, client), stream(client, k=1) as socket:
        assert ask(socket, type="text", seq=1, text=" ".join(SENTENCES))
    assert any(reports for reports in handed)
    for reports in handed:
        told = [report for _, report in reports]
        assert all(one.joined(other) is None for one, other in itertools.pairwise(told))


def test_calls_are_counted_by_who_was_called(generator):
    with running(lambda: generator) as (_, client):
        with stream(client, k=3) as socket:
            ask(socket, type="text", seq=1, text=SENTENCES[0])
        assert 'hf_simultaneous_call_seconds_count{model="3"}' in client.get("/metrics").text


def test_a_sentence_of_a_set_that_keeps_its_path_goes_on_elsewhere(generator):
    """What a position saw depends on the order of READ and WRITE: the policy finds it again."""
    models, tokenizer = generator.models, generator.tokenizer
    path = AdaptiveWaitKGenerator(models, tokenizer, generator.thresholds, "all", history="path")
    words = SENTENCES[1].split()

    def say(socket, said, first=1):
        messages = [{"type": "word", "text": word} for word in said] + [{"type": "flush"}]
        numbered = enumerate(messages[: len(said) + (said[-1] == words[-1])], first)
        return [event for seq, one in numbered for event in ask(socket, seq=seq, **one)]

    def told(events):
        return [(one["n"], one["action"], one.get("text"), one.get("tokens")) for one in events]

    with running(lambda: path) as (_, client):
        with stream(client) as socket:
            whole = told(say(socket, words))
        assert [action for _, action, *_ in whole].count("WRITE") > 2
        for cut in range(1, len(words)):
            with stream(client) as socket:
                before = told(say(socket, words[:cut]))
            tokens = [token for *_, each in before for token in each or ()]
            replay = {"sentence": 1, "n": len(before), "words": words[:cut], "tokens": tokens}
            with stream(client, replay=replay) as socket:
                assert before + told(say(socket, words[cut:])) == whole


def test_a_message_does_not_wait_until_the_one_before_is_acknowledged():
    async def sends_at_once():
        found = asyncio.get_running_loop().create_future()

        async def come(reader, writer):
            accepted = writer.get_extra_info("socket")
            found.set_result(accepted.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(
            come, sock=_listen(ServeRequest(port=0))
        ) as listening:
            _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
            writer.close()
            return await found

    assert asyncio.run(sends_at_once())
