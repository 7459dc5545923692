"""Options of `serve`, and `translate` with its models elsewhere."""

import os

import pytest
from typer.testing import CliRunner

from hf_simultaneous.cli import app
from hf_simultaneous.cli.serve import in_bytes
from hf_simultaneous.serving import ray_front
from hf_simultaneous.serving.server import ServeRequest


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("size", "number"), [("2GiB", 2 << 30), ("1.5 MiB", 3 << 19), ("64KiB", 65536), ("77", 77)]
)
def test_sizes(size, number):
    assert in_bytes(size) == number


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-memory", "2 lots"], "a size is a number of bytes, or of KiB, MiB or GiB"),
        (["--log-format", "xml"], "--log-format is text or json; got 'xml'"),
        (["--port", "70000"], "a port is a number from 1 to 65535; got 70000"),
        (["--ssl-certfile", "x"], "TLS needs both --ssl-certfile and --ssl-keyfile"),
        (["--max-streams", "0"], "max_streams must be above 0; got 0"),
        (["--engine", "petrol"], "--engine is embedded or ray; got 'petrol'"),
        (["--replicas", "2"], "--replicas, --max-replicas and --ray-address are for --engine ray"),
        (["--engine", "ray", "--ssl-certfile", "x"], "--engine ray serves no TLS"),
        (["--origin", "here"], "an origin is a scheme, a host and perhaps a port"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(arguments, message):
    result = run("serve", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_request_takes_any_free_port_or_one_that_exists():
    with pytest.raises(ValueError, match="a port is 0 .any that is free. to 65535; got 70000"):
        ServeRequest(port=70000)


@pytest.mark.parametrize("brought", [True, False])
def test_a_cluster_uses_the_haproxy_that_ray_brings(monkeypatch, brought):
    monkeypatch.setattr(ray_front, "find_spec", lambda name: name if brought else None)
    monkeypatch.setattr(os, "environ", {"RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S": "7"})
    assert ray_front.prefer_haproxy() is brought
    assert os.environ["RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S"] == "7", "somebody has chosen"
    assert os.environ.get("RAY_SERVE_ENABLE_HA_PROXY") == ("1" if brought else None)


def test_a_server_has_its_own_models():
    result = run("translate", "--server", "ws://127.0.0.1:1", "--quantize", "int8", "Haus")
    assert result.exit_code == 2
    assert "has its own models and settings; leave out --model" in result.stderr
