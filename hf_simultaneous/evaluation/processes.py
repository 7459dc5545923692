"""Which process this is, of those that accelerate or torchrun started to share a corpus.

Knows processes; not what they share.
"""

import os
from typing import TypeVar


T = TypeVar("T")


def this_process() -> tuple[int, int]:
    """This process' number, and how many there are."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return 0, 1
    import torch
    from accelerate import PartialState

    # `cpu`, or without GPUs it takes the processes for one.
    state = PartialState(cpu=not torch.cuda.is_available())
    return state.process_index, state.num_processes


def is_main_process() -> bool:
    """Is this the process, of several that share a corpus, that writes files?"""
    return this_process()[0] == 0


def gathered(items: list[T]) -> list[T]:
    """What all processes have, on each of them."""
    if this_process()[1] == 1:
        return items
    from accelerate.utils import gather_object

    return list(gather_object(items))
