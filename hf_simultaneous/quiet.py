"""Loading without bars: a set is several small models, and a bar for each says nothing.

Knows the switches of transformers and the hub; not what is loaded."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_bars() -> Iterator[None]:
    """No progress bars in here, unless the logging of transformers was set to tell more than it
    does by default. Afterwards both switches are as they were."""
    from huggingface_hub import utils as hub
    from transformers.utils import logging  # slow: here, for those who only share files

    if not logging.is_progress_bar_enabled() or logging.get_verbosity() < logging.WARNING:
        yield
        return
    hub_was_quiet = hub.are_progress_bars_disabled()
    logging.disable_progress_bar()  # the hub's too
    try:
        yield
    finally:
        logging.enable_progress_bar()
        if hub_was_quiet:
            hub.disable_progress_bars()
