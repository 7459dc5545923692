"""Requests taken apart: a command that takes a dataclass gets an option for each of its fields, and
what should be a number and is none is refused in our words.

Knows dataclasses and signatures; what the options are called and mean stands in the dataclasses."""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo


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
        yield parameter.replace(annotation=_read_by_us(hint), kind=Parameter.KEYWORD_ONLY)
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


def _read_by_us(hint: Any) -> Any:
    """The same option; if it is a number, or several, `Number` reads it."""
    plain, *_, option = get_args(hint) or (hint, None)
    parts = [one for part in get_args(plain) or (plain,) for one in get_args(part) or (part,)]
    kind = next((kind for kind in (int, float) if kind in parts), None)
    if kind is None or not isinstance(option, OptionInfo):
        return hint
    ours = copy(option)  # an annotation may be shared by several commands
    several = f"{parts.count(kind)} numbers, {option.metavar}" if parts.count(kind) > 1 else None
    ours.parser = Number(kind, option.min, option.max, several)
    return Annotated[plain, ours]


@dataclass(frozen=True)
class Number:
    """Reads a number of an option, within its bounds: none, a least, or both. `several` is what an
    option of more than one takes."""

    kind: type
    least: float | None = None
    most: float | None = None
    several: str | None = None

    def __call__(self, given: Any) -> Any:
        try:
            number = self.kind(given)
        except ValueError:
            raise self._refusal(given) from None
        low = self.least is not None and number < self.least
        if low or (self.most is not None and number > self.most):
            raise self._refusal(given)
        return number

    def _refusal(self, given: Any) -> Exception:
        allowed = self.several or ("a whole number" if self.kind is int else "a number")
        if self.most is not None:
            allowed += f" from {self.least:g} to {self.most:g}"
        elif self.least is not None:
            allowed += f" of {self.least:g} or more"
        return typer.BadParameter(f"it takes {allowed}; got {given!r}")
