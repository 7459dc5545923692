"""Who may come in: tokens and origins.

Knows headers; not what is done once somebody is in."""

import hmac
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from .protocol import BEARER


TOKEN_VARIABLE = "HF_SIMULTANEOUS_TOKEN"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Access:
    """No tokens let everybody in; a page from another origin comes in only if that is listed."""

    tokens: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for origin in self.origins:
            parts = _split(origin)
            if not (parts.scheme and parts.netloc) or parts.path or parts.query:
                raise ValueError(
                    f"an origin is a scheme, a host and perhaps a port, https://example.org; got "
                    f"{origin!r}"
                )

    def allows_token(self, headers: Mapping[str, str], subprotocols: Sequence[str] = ()) -> bool:
        """From `Authorization: Bearer`, or from a subprotocol, which is all that a browser can
        set."""
        if not self.tokens:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        offers = [given.strip()] if scheme.lower() == "bearer" else []
        offers += [name[len(BEARER) :] for name in subprotocols if name.startswith(BEARER)]
        # Every pair is compared, in a time that tells nothing of how alike they are.
        matches = [
            hmac.compare_digest(offer.encode(errors="replace"), token.encode())
            for offer in offers
            for token in self.tokens
        ]
        return any(matches)

    def allows_origin(self, headers: Mapping[str, str]) -> bool:
        """Only browsers name an origin: the server's own, or one that is listed."""
        origin = headers.get("origin")
        if origin is None or origin in self.origins:
            return True
        own = headers.get("host")
        return bool(own) and _split(origin).netloc == own


def _split(origin: str) -> SplitResult:
    """What is no address has no part of one."""
    try:
        return urlsplit(origin)
    except ValueError:  # http://[
        return SplitResult("", "", "", "", "")


def read_tokens(file: Path | None) -> tuple[str, ...]:
    """A token a line, empty lines and # left out; and the one of the environment."""
    lines = file.read_text(encoding="utf-8").splitlines() if file else []
    tokens = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if file and not tokens:
        raise ValueError(f"{file} holds no token; write one in a line of its own")
    return tuple(filter(None, [*tokens, os.environ.get(TOKEN_VARIABLE, "")]))
