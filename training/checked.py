"""Turns mappings, such as YAML gives, into dataclasses, and names the key of whatever does not fit.

Knows types only: what the keys mean, and which values are sensible, the dataclasses say themselves.
"""

import difflib
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints


Section = TypeVar("Section")


class InputError(ValueError):
    """What the user gave cannot be used; the message says what, where, and what to do about it."""


def build(cls: type[Section], values: Any, where: str, section: str = "") -> Section:
    """Make a dataclass of a mapping, naming the key of whatever does not fit."""
    if not isinstance(values, Mapping):
        raise InputError(
            f"{where}: {section} must be a section of keys and values; got {kind(values)}"
        )
    check_keys(values, names(cls), where, section)
    hints = get_type_hints(cls)
    missing = [f.name for f in fields(cls) if f.name not in values and _required(f)]  # type: ignore[arg-type]
    if missing:
        raise InputError(f"{where}: the key {_dotted(section, missing[0])} is missing")
    arguments = {}
    for key, value in values.items():
        name, listed = _dotted(section, key), _listed_section(hints[key])
        if _is_section(hints[key]):
            arguments[key] = build(hints[key], value, where, name)
        elif listed and isinstance(value, list) and any(isinstance(v, Mapping) for v in value):
            arguments[key] = [
                build(listed, entry, where, f"{name}[{index}]") for index, entry in enumerate(value)
            ]
        else:
            arguments[key] = checked(value, hints[key], where, name)
    try:
        return cls(**arguments)
    except ValueError as error:
        raise InputError(f"{where}: {section + ': ' if section else ''}{error}") from None


def check_keys(values: Mapping[str, Any], allowed: list[str], where: str, section: str) -> None:
    for key in values:
        if key not in allowed:
            close = difflib.get_close_matches(str(key), allowed, n=1)
            hint = (
                f"did you mean {close[0]!r}?"
                if close
                else f"the keys there are {', '.join(allowed)}"
            )
            raise InputError(f"{where}: unknown key {_dotted(section, key)!r}; {hint}")


def checked(value: Any, hint: Any, where: str, key: str) -> Any:
    value = number(value, hint)
    if not _fits(value, hint):
        raise InputError(f"{where}: {key} must be {_describe(hint)}; got {kind(value)}")
    return value


def number(value: Any, hint: Any) -> Any:
    """YAML 1.1 reads 3e-4 (no dot) as text; where only a number can be meant, take it as one."""
    if isinstance(value, str) and float in _alternatives(hint) and str not in _alternatives(hint):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def _listed_section(hint: Any) -> Any:
    """The dataclass that a list may hold, where a hint allows such a list."""
    lists = [part for part in _alternatives(hint) if get_origin(part) is list]
    return next((get_args(part)[0] for part in lists if _is_section(get_args(part)[0])), None)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is list:
        return isinstance(value, list) and all(_fits(item, get_args(hint)[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict)
    if isinstance(value, bool) and hint in (int, float):
        return False
    return isinstance(value, (int, float) if hint is float else hint)


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(repr(choice) for choice in get_args(hint))
    if get_origin(hint) is list:
        return f"a list, each {_describe(get_args(hint)[0])}"
    if len(_alternatives(hint)) > 1:
        return " or ".join(_describe(part) for part in _alternatives(hint))
    words = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        type(None): "null",
    }
    return words.get(hint, "a section of keys and values")


def kind(value: Any) -> str:
    return f"{value!r} ({type(value).__name__})" if value is not None else "nothing"


def at_least(name: str, value: float | None, least: float) -> None:
    """For the checks of a dataclass; what is not given is not checked."""
    if value is not None and value < least:
        raise ValueError(f"{name} must be at least {least}; got {value}")


def names(cls: Any) -> list[str]:
    return [f.name for f in fields(cls)]


def _required(entry: Any) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING


def _dotted(section: str, key: Any) -> str:
    return f"{section}.{key}" if section else str(key)
