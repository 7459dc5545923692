"""What transformers says that would only worry: a bar for each of the small models of a set, and
that nobody named the model that comes with the package.

Knows the switches of transformers and the hub; not what is loaded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import LogRecord


def unless_defaulted_to(place: str) -> Callable[[LogRecord], bool]:
    """A filter for the log of `pipeline`: where no model is named, it advises against the default,
    which on the hub may change any day. What lies at `place` does not."""
    notice = f"No model was supplied, defaulted to {place} "
    return lambda record: not record.getMessage().startswith(notice)


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
