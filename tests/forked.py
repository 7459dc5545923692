"""Processes of their own that need not import torch again, which takes seven seconds of a core:
each is forked from one that has imported and done nothing else.

What a start from nothing does is tested where a test starts Python itself."""

import atexit
import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing import reduction
from pathlib import Path


ROOT = Path(__file__).resolve().parents[1]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["hf_simultaneous.serving.server", "hf_simultaneous.cli.commands", "hf_simultaneous.generation"]
)


def free_port():
    """A port that nobody listens at. Below those that connections get of themselves, and in a range
    of this process's own: another's could be taken by the time it is used."""
    first = 20000 + 20 * (os.getpid() % 600)
    for port in range(first, first + 20):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


class Forked:
    """What `subprocess.Popen([sys.executable, "-c", code, *arguments])` is. Its input, output and
    errors are pipes, unless `streams` are given for them. `env` is set after the imports: what is
    read on import is what it was for the first of them."""

    def __init__(self, code, *arguments, cwd=ROOT, env=None, streams=None):
        (reading, self.stdin), *outputs = (os.pipe() for _ in range(3))
        theirs = (reading, *(writing for _, writing in outputs))
        self.stdin = os.fdopen(self.stdin, "wb", buffering=0)
        self.stdout, self.stderr = (os.fdopen(ours) for ours, _ in outputs)
        run = _Run(streams or theirs, {**os.environ, **(env or {})}, cwd, code, arguments)
        self._process = CONTEXT.Process(target=run)
        self._process.start()
        self.pid = self._process.pid
        atexit.register(self.kill)  # or a test that failed would hold up the end of all
        for number in theirs:
            os.close(number)

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("a forked process", timeout)
        return self.poll()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def run_shared(code, *arguments, processes=2):
    """The same in several processes that know of each other, as torchrun starts them."""
    port = str(free_port())
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(processes)}
    settings = {**shared, "LOCAL_WORLD_SIZE": str(processes), "GLOO_SOCKET_IFNAME": "lo"}
    with tempfile.TemporaryFile("w+") as said:  # a pipe that nobody reads would fill up
        streams = (os.open(os.devnull, os.O_RDONLY), said.fileno(), said.fileno())
        ranks = [
            Forked(
                *(code, *arguments),
                env={**settings, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                streams=streams,
            )
            for rank in range(processes)
        ]
        try:
            wait_for_all(ranks, 900)
        finally:
            for rank in ranks:
                rank.kill()
            os.close(streams[0])
        said.seek(0)
        assert [rank.poll() for rank in ranks] == [0] * processes, said.read()


def wait_for_all(processes, seconds):
    """Until all have ended, or one has failed: the others might wait for it for ever."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        codes = [process.poll() for process in processes]
        if None not in codes or any(codes):
            return
        time.sleep(0.05)
    raise subprocess.TimeoutExpired("forked processes", seconds)


class _Run:
    """What the process does, in a form that can be sent to it."""

    def __init__(self, streams, environment, cwd, code, arguments):
        self.streams, self.environment, self.cwd = streams, environment, str(cwd)
        self.code, self.arguments = code, [*map(str, arguments)]

    def __getstate__(self):
        return {**self.__dict__, "streams": [reduction.DupFd(number) for number in self.streams]}

    def __call__(self):
        for number, stream in enumerate([stream.detach() for stream in self.streams]):
            os.dup2(stream, number)
            os.close(stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        os.chdir(self.cwd)
        os.environ.clear()
        os.environ.update(self.environment)
        sys.argv = ["-c", *self.arguments]
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout.reconfigure(line_buffering=os.isatty(1))
        try:
            exec(self.code, {"__name__": "__main__"})
        finally:
            atexit._run_exitfuncs()
