"""What is said where no server is, or none any more: the same by the client and the command line.

Knows addresses and errors of sockets; imports nothing."""

from collections.abc import Mapping


def nobody_answers(refusals: Mapping[str, OSError]) -> ConnectionError:
    """The error for servers, by address, none of which could be reached."""
    reasons = [f"{server} ({_why(error)})" for server, error in refusals.items()]
    return ConnectionError(
        f"nobody answers at {' or '.join(reasons)}; start a server with hf-simultaneous serve"
    )


def gone(server: str, error: Exception, patience: float) -> str:
    """A line for who waits while a server is tried again."""
    return f"{server} does not answer ({_why(error)}); trying again for {patience:g} seconds"


def _why(error: Exception) -> str:
    # asyncio says it in words of its own.
    if isinstance(error, ConnectionRefusedError):
        return "Connection refused"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
