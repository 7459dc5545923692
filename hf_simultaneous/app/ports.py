"""Whether a page, or anything, can be served at a port."""

import socket


def check_port(host: str, port: int) -> None:
    """Refuse what nothing can be served at, before anything is loaded."""
    if not 1 <= port <= 65535:
        raise ValueError(f"a port is a number from 1 to 65535; got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ValueError(
                f"nothing can be served at {host}:{port} ({error.strerror}); choose another port "
                f"or host"
            ) from error
