"""Where the page can be served: one clear line where it cannot."""

import socket

import pytest
from typer.testing import CliRunner

from hf_simultaneous.cli import app


pytest.importorskip("gradio", reason="no gradio: pip install 'hf_simultaneous[app]'")


def said(port):
    result = CliRunner().invoke(app, ["app", "--port", str(port)])
    assert result.exit_code == 2
    return result.stderr


@pytest.mark.parametrize("port", [99999, 0, -1])
def test_a_port_that_does_not_exist_is_refused(port):
    assert said(port) == f"error: a port is a number from 1 to 65535; got {port}\n"


def test_a_port_in_use_is_refused_before_anything_is_loaded():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert said(port).startswith(f"error: nothing can be served at 127.0.0.1:{port} (Address")


def test_a_port_of_a_server_is_looked_at_first_too():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", "--host", "::1", "--port", str(port)])
    assert result.exit_code == 2
    assert f"nothing can be served at ::1:{port} (Address" in result.stderr


def test_the_page_of_a_server_has_no_models_of_its_own():
    for option in ("--model", "--from", "--to"):
        arguments = ["app", "--server", "ws://127.0.0.1:1", option, "x"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 2
        assert "has its own models and languages; leave out --model, --from and" in result.stderr
    result = CliRunner().invoke(app, ["app", "--server", "ws://127.0.0.1:1", "--port", "0"])
    assert "a port is a number from 1 to 65535; got 0" in result.stderr
