"""Many live speakers on one machine: the server, and the client that talks to it.

Imports nothing until it is asked for, because the server and the client need the extra `serve`."""

from typing import Any


__all__ = ["AsyncClient", "Client", "Limits", "ServerError"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import client, journal, limits

    return next(
        getattr(module, name) for module in (client, journal, limits) if hasattr(module, name)
    )
