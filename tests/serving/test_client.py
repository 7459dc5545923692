"""How long a client tries, with servers and a clock that are made up."""

import asyncio
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_simultaneous.serving import AsyncClient, Client, client


calm = settings(deadline=None)  # on a busy machine a slow example is no failure
PATIENCE = 60.0
OF_USE = ["serves", "stands"]
OF_NO_USE = ["refuses", "fails"]


class World:
    """Servers that do, one connection after the other, what a plan says, and the time this takes.

    One `serves` if it tells something before it is lost, and `stands` if it is lost after a long
    time; one `refuses`, or `fails` at once whenever it is asked; the last has everything `done`."""

    def __init__(self, plan):
        self._plan = iter(plan)
        self._events = itertools.count(1)
        self.now = 0.0
        self.lost_at = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    async def asleep(self, seconds):
        self.now += seconds

    def connect(self, url, **how):
        kind = next(self._plan)
        if kind == "refuses":
            raise ConnectionRefusedError
        return Line(self, kind)

    async def aconnect(self, url, **how):
        return AsyncLine(self.connect(url))

    def answers(self, kind, line):
        """What one hears on a connection, as it is asked for."""
        yield {"type": "started", "limits": {}}
        if kind == "stands":
            self.now += 1.5 * PATIENCE
        if kind in ("serves", "done"):
            self.now += 0.8 * PATIENCE
            events = [{"n": next(self._events), "sentence": 1, "action": "END"}]
            yield {"type": "events", "seq": line.seq, "done": kind == "done", "events": events}
        if kind in OF_USE:
            self.lost_at = self.now
        raise ConnectionResetError

    def heard(self, kind):
        """What a client hears that says one word here."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client, "time", self)
            patch.setattr(client, "connect", self.connect)
            patch.setattr(client, "async_connect", self.aconnect)
            patch.setattr(client.asyncio, "sleep", self.asleep)
            speaker = kind("ws://made.up", patience=PATIENCE)
            if kind is Client:
                return list(speaker.push_word("Haus"))
            return asyncio.run(collected(speaker.push_word("Haus")))


class Line:
    def __init__(self, world, kind):
        self.seq = 0
        self._answers = world.answers(kind, self)

    def __enter__(self):
        return self

    def send(self, text):
        self.seq = json.loads(text).get("seq", 0)

    def recv(self, timeout=None):
        return json.dumps(next(self._answers))

    def close(self):
        pass


class AsyncLine:
    def __init__(self, line):
        self._line = line

    async def send(self, text):
        self._line.send(text)

    async def recv(self):
        return self._line.recv()

    async def close(self):
        pass


async def collected(events):
    return [event async for event in events]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@calm
@given(
    plan=st.lists(
        st.tuples(st.sampled_from(OF_USE), st.lists(st.sampled_from(OF_NO_USE), max_size=3)),
        min_size=1,
        max_size=8,
    )
)
def test_patience_begins_anew_after_every_server_that_was_of_use(kind, plan):
    connections = [each for use, others in plan for each in (use, *others)]
    events = World([*connections, "done"]).heard(kind)
    assert [event.event for event in events] == [*range(1, connections.count("serves") + 2)]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@calm
@given(
    before=st.lists(st.sampled_from(OF_USE), min_size=1, max_size=4),
    after=st.lists(st.sampled_from(OF_NO_USE), min_size=1, max_size=4),
)
def test_servers_that_are_of_no_use_are_given_up(kind, before, after):
    """Even if they let one in, as one does that fails at the same word each time."""
    world = World([*before, *itertools.islice(itertools.cycle(after), 1000)])
    with pytest.raises(ConnectionError, match="no server has answered for 60 seconds at"):
        world.heard(kind)
    assert world.now - world.lost_at == pytest.approx(PATIENCE)
