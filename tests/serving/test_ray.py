"""The same streams on Ray Serve: what is said, who is refused, and a replica that is killed.

Needs the extra `ray` and a minute or two: `make load` runs these."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from websockets.exceptions import InvalidStatus

from hf_simultaneous.serving import AsyncClient
from tests.babble import TEXT
from tests.serving.processes import PATIENCE, Server, started
from tests.serving.test_streams import alike, alone


pytest.importorskip("ray", reason="no ray: pip install 'hf_simultaneous[ray]'")
pytestmark = [pytest.mark.system, pytest.mark.load]
STREAMS = 6
OWN_PORTS = range(30000, 31001)
"""Of replicas, by Ray's default."""


class RayServer(Server):
    """`serve --engine ray`, in a cluster of its own."""

    def _wait_until_ready(self):
        deadline = time.monotonic() + 2 * PATIENCE
        while (line := self.process.stdout.readline()) and "ws://" not in line:
            assert time.monotonic() < deadline, "".join(self.log)
        return line

    def replicas(self):
        """The processes that hold models."""
        return self.named("ServeReplica")

    def named(self, name):
        below = psutil.Process(self.process.pid).children(recursive=True)
        return [process for process in below if name in " ".join(process.cmdline())]


@pytest.fixture(scope="module")
def cluster(babble):
    options = ["--engine", "ray", "--replicas", "2", "--max-streams", str(STREAMS), "--drain", "1"]
    server = RayServer(babble, *options, "--max-rate", "100000", port=18765, start=started)
    yield server
    assert server.stop() == 0


def test_the_option_needs_the_engine():
    run = "from hf_simultaneous.cli import main; main()"
    command = [sys.executable, "-c", run, "serve", "--engine", "ray", "--replicas", "0"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert said.returncode == 2
    assert "--replicas is 1 or more" in said.stderr


def test_a_config_file_names_the_application():
    from hf_simultaneous.serving.ray_app import build

    bound = build({"replicas": 2, "max_replicas": 4, "max_streams": 10})
    assert bound is not None
    with pytest.raises(TypeError, match="speed"):
        build({"speed": 3})


def test_a_config_file_names_the_model(monkeypatch, babble):
    from hf_simultaneous.serving import ray_app

    monkeypatch.setattr(ray_app, "deployment", lambda load, request, wanted: request.name)
    assert ray_app.build({"model": babble}) == Path(babble).name
    assert ray_app.build({}) == "builtin"


def test_words_go_to_the_replica_itself(cluster):
    """HAProxy is at the door, and a replica at the other end of what it hands on."""
    stream = cluster.connect()
    stream.start(k=1)
    door = [c.laddr.port for p in cluster.named("bin/haproxy") for c in p.net_connections()]
    assert cluster.port in door
    ends = [c for p in cluster.replicas() for c in p.net_connections() if c.laddr.port in OWN_PORTS]
    assert any(end.status == psutil.CONN_ESTABLISHED for end in ends)
    stream.raw.close()


def test_streams_on_replicas_outlive_one_that_is_killed(cluster, generator):
    """Nothing twice, nothing missing, whichever replica a stream was on."""
    words = TEXT.split()

    async def speak(client, killed):
        events = []
        for place, word in enumerate(words):
            if place == 9:
                await killed.wait()
            events += [event async for event in client.push_word(word)]
        events += [event async for event in client.flush()]
        await client.close()
        return events

    async def kill(killed):
        await asyncio.sleep(3)
        os.kill(cluster.replicas()[0].pid, signal.SIGKILL)
        killed.set()

    async def all_of_them():
        killed = asyncio.Event()
        clients = [AsyncClient(cluster.url, k=1, patience=PATIENCE) for _ in range(STREAMS)]
        spoken = asyncio.gather(*[speak(client, killed) for client in clients])
        await kill(killed)
        return await spoken, [client._turn for client in clients]

    heard, connections = asyncio.run(all_of_them())
    expected = alone(generator, words, k=1)
    for events in heard:
        assert alike(events) == expected
    assert max(connections) > 1, "somebody was on the replica that was killed"
    cluster.wait_until(lambda: len(cluster.replicas()) == 2)


def test_a_replica_that_is_full_refuses(cluster):
    streams = []

    def fill():
        for _ in range(2 * STREAMS + 1):
            streams.append(cluster.connect())

    with pytest.raises(InvalidStatus) as refused:
        fill()
    assert len(streams) >= STREAMS
    assert refused.value.response.status_code == 503
    assert refused.value.response.headers["Retry-After"] == "2"
    for stream in streams:
        stream.raw.close()


def until_refused(socket):
    while True:
        socket.say("text", "das Haus am Boot " * 25)
        while not (message := socket.receive()).get("done"):
            if message["type"] == "error":
                return message["code"]


def test_a_client_that_does_not_say_what_it_saw_is_closed(cluster):
    """What stands between may take everything we send: only `seen` tells who reads."""
    slow, good = cluster.connect(), cluster.connect()
    assert slow.start(k=1)["limits"]["unseen"] == 1000
    good.start(k=1)
    assert until_refused(slow) == "slow_reader"
    assert slow.closed_with()[1] == 1008
    assert good.ask("word", "Haus")
    good.raw.close()


def test_more_than_a_backlog_is_refused(cluster):
    eager = cluster.connect()
    eager.start(k=1)
    for _ in range(2):
        eager.say("text", "das Haus am Boot " * 100)
        time.sleep(0.05)  # the rate allows it, the backlog does not
    messages, code = eager.closed_with()
    assert (messages[-1]["code"], code) == ("backlog", 1008)
