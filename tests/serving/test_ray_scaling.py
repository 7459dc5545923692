"""Ray adds a replica as streams come, and those that are open outlive it.

A file of its own, because two clusters at once are too much for a small machine; needs the extra
`ray`: `make load` runs it."""

import pytest

from tests.serving.processes import started
from tests.serving.test_ray import RayServer


pytestmark = [pytest.mark.system, pytest.mark.load]


def test_streams_bring_another_replica_and_outlive_its_coming(babble):
    """Ray counts streams that it never touches; and the door that changes lets nobody fall."""
    options = ["--engine", "ray", "--max-replicas", "2", "--max-streams", "4", "--drain", "1"]
    server = RayServer(babble, *options, port=18766, start=started)
    try:
        streams = [server.connect(ping_interval=None) for _ in range(4)]
        for stream in streams:
            stream.start(k=1)
            assert stream.ask("word", "Haus")
        assert len(server.replicas()) == 1
        server.wait_until(lambda: len(server.replicas()) == 2)
        server.wait_until(lambda: server.get("/readyz")[0] == 200)
        late = [server.connect() for _ in range(3)]
        for stream in late:
            stream.start(k=1)
        for stream in (*streams, *late):
            assert stream.ask("word", "Boot")
            stream.raw.close()
    finally:
        assert server.stop() == 0
