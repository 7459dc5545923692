import pytest

from tests.babble import babbler, save_babbler
from tests.serving.processes import Server, started


@pytest.fixture(scope="session")
def babble(tmp_path_factory):
    """The folder of a tiny set."""
    return save_babbler(tmp_path_factory.mktemp("babble"))


@pytest.fixture(scope="session")
def generator():
    return babbler()


@pytest.fixture(scope="session")
def shared_server(babble):
    server = Server(babble, "--max-rate", "100000", "--drain", "1", start=started)
    yield server
    assert server.stop() == 0


@pytest.fixture
def server(shared_server):
    """One server for the tests that leave it as it was; streams they left open are closed."""
    yield shared_server
    shared_server.close_streams()
