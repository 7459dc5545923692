"""How every command of this folder ends: an exit code, and one line on what the user can mend."""

import sys
from collections.abc import Callable


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
