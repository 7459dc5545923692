"""A real browser for the tests of the pages: who needs it, and how it is started.

Needs playwright, which the `dev` extra brings, and Debian's `chromium` on the PATH (`make
browser`); without them those tests are skipped."""

import shutil

import pytest


CHROMIUM = shutil.which("chromium")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="no playwright: pip install playwright"
)
IN_A_BROWSER = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser"),
]
QUIET = [  # runs as root in a container, and calls nobody
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
