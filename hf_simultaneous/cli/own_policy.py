"""A policy of the user's own, from a Python file: `--policy mine.py:policy`.

Knows files and names; what the policy does is the user's business, and the loop checks what it
answers."""

import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from typing import Any

from ..actions import Policy
from ..policies import meant


HOW = "a policy of your own is named as FILE.py:NAME, such as mine.py:policy"
MODULE = "own_policy_"
"""Before the file's own name: how its lines are told from ours when something is wrong."""
SENTENCE = "hf_simultaneous.live_sentence"


def is_own(name: str | None) -> bool:
    """Does this name a file and something in it, not one of the policies there are?"""
    return name is not None and (":" in name or name.endswith(".py"))


def check_name(name: str, known: Sequence[str]) -> None:
    """Refuse what is neither one of the policies there are nor names a file."""
    if not is_own(name) and name not in known:
        raise ValueError(
            f"--policy is {', '.join(known)}, or FILE.py:NAME; got {name!r}{meant(name, known)}"
        )


def file_of(name: str) -> Path:
    """The file of `FILE.py:NAME`, which is there."""
    file, _, attribute = name.rpartition(":")
    if not file.endswith(".py") or not attribute:
        raise ValueError(f"{HOW}; got {name!r}")
    if not Path(file).is_file():
        raise FileNotFoundError(f"there is no file {file}; {HOW}")
    return Path(file)


def load_policy(name: str) -> Policy:
    """The policy that a file defines: a function of a state and `predict`, or an object that can be
    called so."""
    file = file_of(name)
    attribute = name.rpartition(":")[2]
    found = getattr(_run(file), attribute, None)
    if found is None:
        raise ValueError(f"{file} has no {attribute!r}; {HOW}")
    if isinstance(found, type) or not callable(found):
        raise ValueError(
            f"{name} is not a policy: {found!r}. A policy is called with a state and predict, and "
            f"answers Read() or Write(token); of a class, name an object that was made"
        )
    policy: Policy = found
    return policy


def _run(file: Path) -> Any:
    """The file as a module; files beside it can be imported, as in `python FILE.py`."""
    place = str(file.absolute())
    name = MODULE + file.stem
    spec = spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None  # it ends in .py
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        where = f"{error.filename or file}, line {error.lineno}"
        raise ValueError(f"{where}: {type(error).__name__}: {error.msg}") from error
    finally:
        sys.path.pop(0)
    return module


def fault(error: Exception) -> str | None:
    """What is wrong with the user's file, if that is where an error comes from: the last line of it
    that was run, or what is said of an answer."""
    frames = [*walk_tb(error.__traceback__)]
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in frames]
    own = [at for at, name in enumerate(modules) if name.startswith(MODULE)]
    if own:
        frame, line = frames[own[-1]]
        return f"{frame.f_code.co_filename}, line {line}: {type(error).__name__}: {error}"
    loaded = any(name.startswith(MODULE) for name in sys.modules)
    return str(error) if loaded and modules[-1:] == [SENTENCE] else None
