"""The page: `launch(generator)` serves it, `build(generator)` makes it; these need gradio.
`live_page` is the one that talks to a server, and needs nothing."""

from typing import Any

from .ports import check_port


__all__ = ["build", "check_port", "launch"]


def __getattr__(name: str) -> Any:
    if name not in ("build", "launch"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import gradio_page

    return getattr(gradio_page, name)
