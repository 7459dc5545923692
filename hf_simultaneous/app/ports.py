"""Whether a page can be served at a port."""

import socket


def check_port(host: str, port: int) -> None:
    """Refuse what no page can be served at, before anything is loaded."""
    if not 1 <= port <= 65535:
        raise ValueError(f"a port is a number from 1 to 65535; got {port}")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ValueError(
                f"no page can be served at {host}:{port} ({error.strerror}); choose another port "
                f"or host"
            ) from error
