"""Writes `api.md`: what `from hf_simultaneous import ...` offers, from signatures and docstrings.

    python docs/make_api.py

Reads the source and imports nothing but the list of names, so it is quick and needs no torch."""

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

import hf_simultaneous


PACKAGE = Path(hf_simultaneous.__file__).parent
PAGE = Path(__file__).with_name("api.md")
HEAD = """# The interface

Everything that `from hf_simultaneous import ...` offers. This page is made from the docstrings by
`python docs/make_api.py`, and a test keeps it current. `hf-simultaneous --help` lists the commands.

"""

Definition = ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign


def page() -> str:
    """The whole page."""
    exports = hf_simultaneous._EXPORTS
    index = "".join(f"- [`{name}`](#{name.lower()})\n" for name in exports)
    return HEAD + index + "".join(_entry(name, module) for name, module in exports.items())


def _entry(name: str, module: str) -> str:
    found, after, home = _find(name, module)
    lines = [f"\n## {name}\n", f"From `hf_simultaneous.{home}`.\n"]
    if isinstance(found, ast.ClassDef):
        lines += [f"`{name}({_fields_or_arguments(found, home)})`\n", _text(found), *_parts(found)]
    elif isinstance(found, ast.FunctionDef):
        lines += [f"`{_signature(found)}`\n", _text(found)]
    else:
        value = ast.unparse(found.value) if found.value else ""
        if isinstance(found.value, ast.Constant):
            lines.append(f"`{name} = {value}`\n")
        lines.append(f"{_docstring_of(after)}\n")
    return "\n".join(line for line in lines if line.strip()) + "\n"


def _find(name: str, module: str) -> tuple[Definition, ast.stmt | None, str]:
    """A definition, what stands behind it, and the module it is in: a room's front only passes
    on."""
    body = _body(module)
    for place, node in enumerate(body):
        if name in _names(node):
            return node, body[place + 1] if place + 1 < len(body) else None, module
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return _find(name, f"{module}.{node.module}" if node.level else str(node.module))
    raise LookupError(f"hf_simultaneous.{module} has no {name}")


def _body(module: str) -> list[ast.stmt]:
    path = PACKAGE.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    statements = ast.parse(path.read_text(encoding="utf-8")).body
    # What a front exports lazily it tells type checkers at once.
    return [
        one for node in statements for one in (node.body if isinstance(node, ast.If) else [node])
    ]


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {ast.unparse(target) for target in node.targets}
    return {ast.unparse(node.target)} if isinstance(node, ast.AnnAssign) else set()


def _fields_or_arguments(found: ast.ClassDef, module: str) -> str:
    """How an instance is made: what `__init__` takes, or the fields of a dataclass, with those of
    its bases."""
    for node in found.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return _arguments(node)
    if not any("dataclass" in ast.unparse(decorator) for decorator in found.decorator_list):
        return "..."
    return ", ".join(f"{name}: {kind}" for name, kind in _fields(found, module).items())


def _fields(found: ast.ClassDef, module: str) -> dict[str, str]:
    above = {node.name: node for node in _body(module) if isinstance(node, ast.ClassDef)}
    fields: dict[str, str] = {}
    for base in found.bases:
        if ast.unparse(base) in above:
            fields |= _fields(above[ast.unparse(base)], module)
    for node in found.body:
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
            value = ast.unparse(node.value) if node.value else ""
            if "init=False" not in value:
                shown = "..." if value.startswith("field(") else value
                default = f" = {shown}" if shown else ""
                fields[ast.unparse(node.target)] = _kind(node.annotation) + default
    return fields


def _parts(found: ast.ClassDef) -> Iterator[str]:
    """The public methods and properties, and the fields that say what they are."""
    for node, after in zip(found.body, [*found.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and _docstring_of(after):
            yield _item(ast.unparse(node.target), _docstring_of(after))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            if node.name.startswith("_"):
                continue
            is_property = any(ast.unparse(one) == "property" for one in node.decorator_list)
            yield _item(node.name if is_property else _signature(node), _text(node))


def _item(name: str, text: str) -> str:
    return f"- `{name}`\n\n{textwrap.indent(text.strip(), '  ')}\n"


def _text(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return f"{ast.get_docstring(node) or ''}\n"


def _docstring_of(after: ast.stmt | None) -> str:
    """The string that stands behind a constant or a field."""
    if not isinstance(after, ast.Expr) or not isinstance(after.value, ast.Constant):
        return ""
    text = str(after.value.value)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returned = f" -> {_kind(node.returns)}" if node.returns else ""
    return f"{node.name}({_arguments(node)}){returned}"


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg) and argument.annotation is not None:
            argument.annotation = ast.Name(_kind(argument.annotation))
    text = ast.unparse(node.args)
    return text.removeprefix("self").removeprefix("cls").removeprefix(", ")


def _kind(annotation: ast.expr) -> str:
    """A type, without the quotes of one that is written as text."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
