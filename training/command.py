"""How every command of this folder begins and ends: its name and what it does in `--help`; an exit
code, and one line on what the user can mend."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable


def command_line(name: str, does: str) -> ArgumentParser:
    """For the options of `python -m training.NAME`; of what it does, the first line is shown."""
    return ArgumentParser(prog=f"python -m training.{name}", description=does.splitlines()[0])


def exit_code(
    work: Callable[[], object],
    *,
    mendable: tuple[type[Exception], ...] = (ValueError, OSError),
    interrupted: str = "the same command begins anew",
) -> int:
    """Do the work: 0, or 2 where the user gave something wrong, or 130 where the user stopped
    it."""
    try:
        work()
    except mendable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted: {interrupted}", file=sys.stderr)
        return 130
    return 0
