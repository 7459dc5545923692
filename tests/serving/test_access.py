"""Origins that are no addresses: refused like any other, at the door and in the options."""

import pytest
from starlette.testclient import TestClient

from hf_simultaneous.serving.access import Access
from hf_simultaneous.serving.hub import Hub
from hf_simultaneous.serving.limits import Limits
from hf_simultaneous.serving.server import application


NOWHERE = ["http://[", "http://]", "http://[::1", "http://[v1]", "null", "", "://", "http://"]


@pytest.mark.parametrize("origin", NOWHERE)
@pytest.mark.parametrize("own", [{"host": "a:1"}, {"host": ""}, {}])
def test_a_page_from_nowhere_is_from_elsewhere(origin, own):
    assert not Access().allows_origin({**own, "origin": origin})


@pytest.mark.parametrize("origin", NOWHERE)
def test_nowhere_cannot_be_listed(origin):
    with pytest.raises(ValueError, match="an origin is a scheme, a host and perhaps a port"):
        Access((), (origin,))


@pytest.mark.parametrize("origin", NOWHERE)
def test_a_page_from_nowhere_is_told_so(origin):
    hub = Hub(lambda: None, Limits(), Access())
    client = TestClient(application(hub), raise_server_exceptions=False)
    answer = client.post("/v1/translate", json={"text": "Haus"}, headers={"origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "bad_origin")
