"""A real server in a process of its own on loopback, and bare sockets to talk to it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from websockets.sync.client import connect

from hf_simultaneous.serving.protocol import SUBPROTOCOL
from tests.forked import ROOT, Forked


PATIENCE = 150
"""Seconds after which something counts as hung; a busy machine may take a minute to start."""


def started(code, *arguments, env):
    """Python, from nothing."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Server:
    """`hf-simultaneous serve` with these options, ready when it says so."""

    def __init__(self, model, *options, env=None, ready=True, port=0, start=Forked):
        command = ["serve", "--model", str(model), "--port", str(port), "--threads", "1"]
        self.process = start(
            "from hf_simultaneous.cli import main; main()",
            *(*command, "--log-format", "json", *options),
            env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(env or {})},
        )
        self.log = []
        self._streams = []
        threading.Thread(target=self._read_log, daemon=True).start()
        line = self._wait_until_ready()
        found = re.search(r"ws://127.0.0.1:(\d+)", line)
        assert found, f"{line!r} {self.log}"
        self.port = int(found[1])
        self.url = f"ws://127.0.0.1:{self.port}"
        if ready:
            self.wait_until(lambda: self.get("/readyz")[0] == 200)

    def _wait_until_ready(self):
        """The line that says where it listens."""
        return self.process.stdout.readline()

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def wait_until(self, holds):
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert self.process.poll() is None, "".join(self.log)
            assert time.monotonic() < deadline, "".join(self.log)
            time.sleep(0.05)

    def get(self, path, body=None, **headers):
        """Status and text of an HTTP request."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            body,
            {**headers},
            method="POST" if body else None,
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name):
        found = re.search(
            rf"^hf_simultaneous_{re.escape(name)} (\S+)$", self.get("/metrics")[1], re.M
        )
        return float(found[1]) if found else 0.0

    def resident(self):
        """Memory in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def connect(self, **options):
        given = {"subprotocols": [SUBPROTOCOL], "compression": None, "open_timeout": PATIENCE}
        stream = Socket(connect(f"{self.url}/v1/stream", **{**given, **options}).__enter__())
        self._streams.append(stream)
        return stream

    def close_streams(self):
        """All that were opened here: the thread of each holds it, so none closes by itself."""
        while self._streams:
            raw = self._streams.pop().raw
            raw.close_timeout = 1.0  # of one that does not read, the close does not arrive either
            raw.close()

    def stop(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(PATIENCE)
        self.process.kill()
        return self.process.wait()


class Socket:
    """A connection that speaks JSON."""

    def __init__(self, connection):
        self.raw = connection
        self.seq = 0

    def send(self, **message):
        self.raw.send(json.dumps(message))

    def receive(self, timeout=PATIENCE):
        return json.loads(self.raw.recv(timeout=timeout))

    def start(self, **options):
        self.send(type="start", **options)
        answer = self.receive()
        assert answer["type"] == "started", answer
        return answer

    def say(self, kind, text=None):
        self.seq += 1
        self.send(type=kind, seq=self.seq, **({} if text is None else {"text": text}))

    def until_done(self):
        """The events of the last message."""
        events = []
        while True:
            message = self.receive()
            assert message["type"] == "events", message
            events += message["events"]
            if message["done"] and message["seq"] == self.seq:
                return events

    def ask(self, kind, text=None):
        self.say(kind, text)
        return self.until_done()

    def closed_with(self):
        """Everything that still comes, and the code of the close."""
        messages = []
        try:
            while True:
                messages.append(self.receive())
        except Exception:
            return messages, self.raw.protocol.close_code
