"""Two servers behind one address: streams outlive the one that is killed, whatever stands in front.

A relay of a few lines is always there; nginx, with the configuration of the examples, where it is
installed."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import threading
import time

import pytest
from websockets.exceptions import InvalidStatus

from hf_simultaneous.serving import AsyncClient
from tests.babble import TEXT
from tests.forked import ROOT, free_port
from tests.serving.processes import PATIENCE, Server, Socket, connect
from tests.serving.test_streams import alike, alone


pytestmark = pytest.mark.system
ROOM = 8
"""Streams that each server lets in: all speakers, once the other is gone."""
SPEAKERS = 6


@pytest.fixture(scope="module")
def pool(babble):
    """Servers; who needs two that are alive makes what is missing."""
    servers = []

    def two():
        alive = [server for server in servers if server.process.poll() is None]
        while len(alive) < 2:
            alive.append(Server(babble, "--max-streams", str(ROOM), "--drain", "1"))
            servers.append(alive[-1])
        return alive

    yield two
    for server in servers:
        server.stop()


@contextlib.contextmanager
def relay(first, second, folder):
    """Whoever comes is joined to a server, by turns; to the other where one does not answer."""
    listener = socket.create_server(("127.0.0.1", 0))
    ports = [first.port, second.port]

    def carry(here, there):
        with contextlib.suppress(OSError):
            while data := here.recv(65536):
                there.sendall(data)
        for side in (here, there):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def join(client):
        for _ in ports:
            ports.append(ports.pop(0))
            with contextlib.suppress(OSError):
                server = socket.create_connection(("127.0.0.1", ports[-1]))
                for here, there in ((client, server), (server, client)):
                    threading.Thread(target=carry, args=(here, there), daemon=True).start()
                return

    def listen():
        with contextlib.suppress(OSError):
            while True:
                join(listener.accept()[0])

    threading.Thread(target=listen, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


@contextlib.contextmanager
def nginx(first, second, folder):
    """As in the examples, but for who listens where, and for files that only root may write."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("no nginx: apt-get install nginx-light")
    port = free_port()
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    own = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in kinds)
    text = (ROOT / "examples/nginx.conf").read_text()
    for old, new in (
        ("server one:8765", f"server 127.0.0.1:{first.port}"),
        ("server two:8765", f"server 127.0.0.1:{second.port}"),
        ("listen 8765", f"listen 127.0.0.1:{port}"),
        ("http {", f"http {{ access_log off; {own}"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "nginx.conf").write_text(text)
    here = f"daemon off; pid {folder}/pid; error_log stderr;"
    process = subprocess.Popen([program, "-p", folder, "-c", folder / "nginx.conf", "-g", here])
    try:
        wait_for(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def wait_for(port, process):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.05)
    raise AssertionError("nginx does not answer")


async def speak(url, servers):
    """What every speaker is told, while the first server is killed in the middle of a sentence;
    and how often each had to connect."""
    killed = asyncio.Event()
    clients = [AsyncClient(url, k=1, patience=PATIENCE) for _ in range(SPEAKERS)]
    half = []

    async def one(client):
        events = []
        for place, word in enumerate(TEXT.split()):
            if place == 11:
                half.append(client)
                await killed.wait()
            events += [event async for event in client.push_word(word)]
        events += [event async for event in client.flush()]
        await client.close()
        return events

    async def kill():
        while len(half) < SPEAKERS:
            await asyncio.sleep(0.01)
        servers[0].process.kill()
        servers[0].process.wait()
        killed.set()

    heard, _ = await asyncio.gather(asyncio.gather(*map(one, clients)), kill())
    return heard, [client._turn for client in clients]


def test_nginx_asks_the_next_server_and_a_full_one_again(pool, tmp_path):
    servers = pool()
    with nginx(*servers, tmp_path) as port, contextlib.ExitStack() as streams:

        def come():
            return streams.enter_context(connect(f"ws://127.0.0.1:{port}/v1/stream"))

        def settled(count):
            servers[0].wait_until(lambda: sum(s.metric("open_streams") for s in servers) == count)

        first, *_ = [come() for _ in range(2 * ROOM)]
        for _ in range(3):
            with pytest.raises(InvalidStatus) as refused:
                come()
            assert refused.value.response.status_code == 503
            assert refused.value.response.headers["Retry-After"] == "2"
        first.close()
        settled(2 * ROOM - 1)
        last = Socket(come())
        last.start(k=1)
        assert last.ask("word", "Haus")


@pytest.mark.parametrize("front", [relay, nginx])
def test_streams_outlive_one_of_two_servers(pool, generator, tmp_path, front):
    servers = pool()
    with front(*servers, tmp_path) as port:
        heard, connections = asyncio.run(speak(f"ws://127.0.0.1:{port}", servers))
    expected = alone(generator, TEXT.split(), k=1)
    for events in heard:
        assert alike(events) == expected
    assert {1, 2} <= set(connections), "some were on the server that was killed, some were not"
