"""Requests taken apart: a command that takes a dataclass gets an option for each of its fields.

Knows dataclasses and signatures; what the options are called and mean stands in the dataclasses."""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, get_type_hints


def taken_apart(function: Callable[..., None]) -> Callable[..., None]:
    """The same function for typer, which knows plain parameters only: those that are dataclasses,
    also inside of one another, are given field by field, and put together for the call."""
    parameters = signature(function).parameters
    hints = get_type_hints(function, include_extras=True)

    @wraps(function)
    def apart(**given: Any) -> None:
        function(**{name: _together(hints[name], name, given) for name in parameters})

    flat = [one for name in parameters for one in _apart(hints[name], parameters[name])]
    apart.__signature__ = signature(function).replace(parameters=flat)  # type: ignore[attr-defined]
    apart.__annotations__ = {one.name: one.annotation for one in flat}
    return apart


def _apart(hint: Any, parameter: Parameter) -> Iterator[Parameter]:
    if not is_dataclass(hint):
        yield parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY)
        return
    hints = get_type_hints(hint, include_extras=True)
    for field in fields(hint):
        default = Parameter.empty if field.default is MISSING else field.default
        one = Parameter(field.name, Parameter.KEYWORD_ONLY, default=default)
        yield from _apart(hints[field.name], one)


def _together(hint: Any, name: str, given: dict[str, Any]) -> Any:
    if not is_dataclass(hint):
        return given[name]
    make: Any = hint
    hints = get_type_hints(hint, include_extras=True)
    parts = {one.name: _together(hints[one.name], one.name, given) for one in fields(hint)}
    return make(**parts)
