"""What is said where no server is: the same by the client and by the command line.

Knows addresses and errors of sockets; imports nothing."""

from collections.abc import Mapping


def nobody_answers(refusals: Mapping[str, OSError]) -> ConnectionError:
    """The error for servers, by address, none of which could be reached."""
    reasons = [f"{server} ({_why(error)})" for server, error in refusals.items()]
    return ConnectionError(
        f"nobody answers at {' or '.join(reasons)}; start a server with hf-simultaneous serve"
    )


def _why(error: OSError) -> str:
    # asyncio says it in words of its own.
    refused = isinstance(error, ConnectionRefusedError)
    return "Connection refused" if refused else error.strerror or str(error)
