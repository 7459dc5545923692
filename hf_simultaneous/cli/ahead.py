"""What happens before models are loaded, which takes seconds: somebody who waits is told so, and
what can be found wrong without them is found.

Knows terminals, names and config files; imports nothing slow."""

import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from urllib.parse import urlsplit

from ..checks import check_quantize
from ..places import set_folder
from ..serving.reach import nobody_answers
from ..sets import operating_point, saved_config, set_or_builtin, to_be_told


PORTS = {"ws": 80, "wss": 443}
SECONDS = 5.0
"""How long a server may take to be reached."""


@contextmanager
def waiting_for(what: str = "loading the models") -> Iterator[None]:
    """A line for who watches, from now until it is done."""
    if not sys.stderr.isatty():
        yield
        return
    line = f"{what} ..."[: get_terminal_size().columns - 1]  # one that is folded stays
    print(line, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * len(line)}\r", end="", file=sys.stderr, flush=True)


def found_set(
    model: str | None,
    *,
    latency: str | None = None,
    quantize: str | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> str:
    """The set that is meant; it is there, its config can be read, and it has what is asked for."""
    place = set_or_builtin(model)
    to_be_told(place, source_language, target_language)
    if quantize is not None:
        check_quantize(quantize)
    saved = saved_config(set_folder(place, None, {}))
    if latency is not None:
        operating_point(latency, saved["latencies"])
    return place


def check_output(folder: Path) -> None:
    """Refuse a place where no folder can be: the work that it is for takes long."""
    there = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    if there.exists() and not there.is_dir():
        raise ValueError(f"{there} is a file; --output is a folder for the results")


def check_answers(servers: Sequence[str]) -> None:
    """Refuse addresses at which nobody answers. Who was connected once is tried again for longer,
    by the client."""
    refusals = {}
    for server in servers:
        url = urlsplit(server)
        try:
            address = (url.hostname, url.port or PORTS[url.scheme])
            socket.create_connection(address, timeout=SECONDS).close()
        except OSError as error:
            refusals[server] = error
        else:
            return
    raise nobody_answers(refusals)
