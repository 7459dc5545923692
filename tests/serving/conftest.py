import pytest

from tests.babble import babbler, save_babbler
from tests.serving.processes import Server


@pytest.fixture(scope="session")
def babble(tmp_path_factory):
    """The folder of a tiny set."""
    return save_babbler(tmp_path_factory.mktemp("babble"))


@pytest.fixture(scope="session")
def generator():
    return babbler()


@pytest.fixture(scope="session")
def server(babble):
    """One server for the tests that leave it as it was."""
    server = Server(babble, "--max-rate", "100000", "--drain", "1")
    yield server
    assert server.stop() == 0
