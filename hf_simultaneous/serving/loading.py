"""The models of a server, by name: loaded later, in the thread that will use them."""

from collections.abc import Callable
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from ..generation import AdaptiveWaitKGenerator


def loader(
    model: str | None = None,
    *,
    latency: str | None = None,
    threads: int | None = None,
    quantize: str | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> "Callable[[], AdaptiveWaitKGenerator]":
    """What the engine calls in its own thread, where all of torch's work is done. What is wrong
    with the name is said at once."""
    from ..sets import set_or_builtin

    place = set_or_builtin(model)

    def load() -> "AdaptiveWaitKGenerator":
        import torch
        from transformers.utils import logging

        from ..generation import AdaptiveWaitKGenerator

        logging.disable_progress_bar()
        if threads:
            torch.set_num_threads(threads)
        return AdaptiveWaitKGenerator.from_pretrained(
            place,
            latency=latency,
            quantize=quantize,
            source_language=source_language,
            target_language=target_language,
        )

    return load
