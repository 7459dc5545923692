"""Speakers for the load test, in a process of their own: words on a fixed schedule, whatever the
server does, and how long each took until all it caused was told.

Knows the protocol and the clock; not servers, models, nor what is made of the figures. Prints one
JSON object."""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hf_simultaneous.serving.protocol import SUBPROTOCOL


SENTENCES = (Path(__file__).parent / "german.txt").read_text(encoding="utf-8").splitlines()
JITTER = 0.2
"""Of the gap between two words: people do not speak like clocks."""
AGAIN = 1.0
"""Seconds after which somebody who was refused tries again."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Who speaks, how fast, and for how long."""

    url: str
    speakers: int = 1
    gap: float = 0.4
    """Seconds between words; 0 sends the next as soon as the last is done."""
    warm: float = 10.0
    seconds: float = 60.0
    start: dict[str, Any] = field(default_factory=dict)
    too_many: int = 0
    """Speakers who come when the others are there, and again and again if there is no room."""
    flooders: int = 0
    """Streams that send as fast as they are allowed to, besides."""
    keep: bool = False
    """Keep what was said and written, sentence by sentence."""


@dataclass
class Heard:
    """What one speaker went through."""

    done: int = 0
    """Words, those of the warm-up included."""
    waits: list[float] = field(default_factory=list)
    dues: list[float] = field(default_factory=list)
    """When these words were due, in seconds after the warm-up."""
    lateness: list[float] = field(default_factory=list)
    sentences: list[list[str]] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    """How long it took to be refused, each time."""
    failed: str | None = None


def words(seed: int) -> Iterator[str]:
    """Sentences in an order of one's own, without end."""
    order = random.Random(seed)
    while True:
        for sentence in order.sample(SENTENCES, len(SENTENCES)):
            yield from sentence.split()


class Speaker:
    """One stream."""

    def __init__(self, plan: Plan, number: int, begin: float):
        self._plan = plan
        self._words = words(number)
        self._jitter = random.Random(1000 + number)
        self._phase = self._jitter.uniform(0, max(plan.gap, 0.4))
        self._begin = begin
        self._over = begin + plan.warm + plan.seconds
        first = number < plan.speakers
        self._comes = 0.0 if first else begin + AGAIN * self._jitter.uniform(1, 2)
        self._due: dict[int, float] = {}
        self._done = asyncio.Event()
        self._actions: list[str] = []
        self.heard = Heard()

    async def run(self) -> Heard:
        """Come, speak if there is room, and try again if there is none."""
        await asyncio.sleep(self._comes - time.monotonic())
        while time.monotonic() < self._over and not await self._try():
            await asyncio.sleep(AGAIN)
        return self.heard

    async def _try(self) -> bool:
        """False if there is no room."""
        came = time.monotonic()
        try:
            async with connect(
                self._plan.url, subprotocols=[SUBPROTOCOL], compression=None, open_timeout=120
            ) as socket:
                await socket.send(json.dumps({"type": "start", **self._plan.start}))
                listener = asyncio.create_task(self._listen(socket))
                await self._speak(socket)
                await asyncio.wait([listener], timeout=0.1)
                listener.cancel()
        except InvalidStatus:
            self.heard.refusals.append(time.monotonic() - came)
            return False
        except (ConnectionClosed, OSError, TimeoutError) as error:
            self.heard.failed = repr(error)
        return True

    async def _speak(self, socket: ClientConnection) -> None:
        due = max(self._begin, time.monotonic()) + self._phase
        seq = 0
        while due < self._over:
            await asyncio.sleep(due - time.monotonic())
            now = time.monotonic()
            seq += 1
            self._due[seq] = due
            if self._counts(due):
                self.heard.lateness.append(now - due)
            await socket.send(json.dumps({"type": "word", "seq": seq, "text": next(self._words)}))
            if self._plan.gap:
                due += self._plan.gap * self._jitter.uniform(1 - JITTER, 1 + JITTER)
            else:
                await self._done.wait()
                self._done.clear()
                due = time.monotonic()
        await self._wait_for_rest()

    async def _wait_for_rest(self) -> None:
        """Words that are due must count, however late they are done; but not for ever."""
        while self._due and time.monotonic() < self._over + self._plan.seconds:
            await asyncio.sleep(0.05)
        for due in self._due.values():
            self._waited(due)

    async def _listen(self, socket: ClientConnection) -> None:
        async for raw in socket:
            message = json.loads(raw)
            for event in message.get("events", ()):
                self._note(event)
            if message.get("done"):
                due = self._due.pop(message["seq"])
                self.heard.done += 1
                self._waited(due)
                self._done.set()

    def _note(self, event: dict[str, Any]) -> None:
        if not self._plan.keep:
            return
        self._actions.append(f"{event['action']} {event.get('text', '')}")
        if event["action"] == "END":
            self.heard.sentences.append(self._actions)
            self._actions = []

    def _waited(self, due: float) -> None:
        if self._counts(due):
            self.heard.waits.append(time.monotonic() - due)
            self.heard.dues.append(due - self._begin - self._plan.warm)

    def _counts(self, due: float) -> bool:
        return due >= self._begin + self._plan.warm


async def flood(plan: Plan, over: float) -> None:
    """Words as fast as a stream may send them, in messages of one each."""
    source = words(999)
    async with connect(plan.url, subprotocols=[SUBPROTOCOL], compression=None) as socket:
        await socket.send(json.dumps({"type": "start", **plan.start}))
        listener = asyncio.create_task(_ignore(socket))
        seq = 0
        while time.monotonic() < over:
            seq += 1
            await socket.send(json.dumps({"type": "word", "seq": seq, "text": next(source)}))
            await asyncio.sleep(1 / 45)
        listener.cancel()


async def _ignore(socket: ClientConnection) -> None:
    async for _ in socket:
        pass


async def speak(plan: Plan) -> list[Heard]:
    """All of them at once."""
    begin = time.monotonic() + 0.5
    everybody = range(plan.speakers + plan.too_many)
    speakers = [Speaker(plan, number, begin) for number in everybody]
    over = begin + plan.warm + plan.seconds
    flooders = [asyncio.create_task(flood(plan, over)) for _ in range(plan.flooders)]
    heard = await asyncio.gather(*[speaker.run() for speaker in speakers])
    for task in flooders:
        task.cancel()
    await asyncio.gather(*flooders, return_exceptions=True)
    return list(heard)


def main() -> None:
    """The command line: a plan as JSON."""
    parser = argparse.ArgumentParser(prog="speakers", description=__doc__)
    parser.add_argument("plan", type=json.loads)
    plan = Plan(**parser.parse_args().plan)
    print(json.dumps([asdict(heard) for heard in asyncio.run(speak(plan))]))


if __name__ == "__main__":
    main()
