"""The law of the tree, as functions from a tree to what is wrong with it: which module may import
which, what travels with a checkpoint, how long a file may be.

Reads source and runs none of it, so a changed copy of the tree can be held to the law as well. A
name listed here that is not in the tree is an offence too."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path


PACKAGE = "hf_simultaneous"
TRAINING = "training"
LINES = 400

PURE = ("schedule", "actions", "policies", "metrics")
"""The paper's rules: they import with torch and transformers absent."""
MODELS = (
    "configuration_simultaneous",
    "inputs",
    "masks",
    "encoder_decoder",
    "output_loss",
    "modeling_simultaneous",
    "adapters",
    "adapters_t5",
    "families",
    "framing",
    "languages",
    "caches",
    "packing",
    "lean",
    "lean_t5",
    "quantization",
    "attention",
    "sources",
    "lanes",
)
POLICIES = ("policies",)
MEETING = ("generation",)
"""Where policies and models meet, and nowhere else."""
WORDS = (
    "words",
    "sentences",
    "text",
    "transcripts",
    "target_text",
    "text_events",
    "text_session",
    "pauses",
)
STAY = (
    "__init__",
    "auto",
    "named",
    "metrics",
    "simuleval_agent",
    "simuleval_server",
    "version",
)
"""The files of the root that do not travel with a checkpoint."""
ROOMS: dict[str, tuple[str, ...]] = {
    "evaluation": (),
    "sharing": (),
    "app": ("serving",),
    "serving": (),
    "cli": ("evaluation", "sharing", "app", "serving"),
}
"""Each room, and the other rooms it may enter; all of them know the core."""
DOORS = {("generation", "sharing.hub")}
"""The core enters a room here only, in a `try`: where it travelled, the room is absent."""
BY_NAME = ("__init__", "auto", "evaluation")
"""Lazy exports and the hook for transformers' Auto classes: nothing else imports by name."""

TENSORS = {"torch", "transformers", "numpy", "tokenizers", "safetensors"}
EXTRAS = {
    "gradio",
    "evaluate",
    "datasets",
    "matplotlib",
    "simuleval",
    "sacrebleu",
    "starlette",
    "uvicorn",
    "websockets",
    "prometheus_client",
    "ray",
}
"""What only an extra of the package installs: imported where it is used."""
NEEDS_EXTRA = (
    "app.gradio_page",
    "evaluation.plots",
    "simuleval_agent",
    "serving.client",
    "serving.connection",
    "serving.ray_app",
    "serving.ray_metrics",
    "serving.requests",
    "serving.server",
    "serving.telemetry",
)


@dataclass(frozen=True)
class Import:
    """One import: `target` with its dots spelled out, `names` taken from it."""

    target: str
    names: tuple[str, ...] = ()
    level: int = 0
    at_load: bool = True
    typing_only: bool = False
    by_name: bool = False
    in_try: bool = False


class Reader(ast.NodeVisitor):
    """Collects the imports of one file: statements, `import_module(...)` and `__import__(...)`."""

    def __init__(self, package: str):
        self.package = package
        self.found: list[Import] = []
        self._state = {"at_load": True, "typing_only": False, "in_try": False}
        self._importers = {"import_module", "__import__"}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        names = tuple(alias.name for alias in node.names)
        if node.module == "importlib":
            self._importers |= {a.asname for a in node.names if a.name == "import_module"} - {None}
        dotted = "." * node.level + (node.module or "")
        self._add(self._absolute(dotted), names=names, level=node.level)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name in self._importers and node.args:
            named = node.args[0]
            known = isinstance(named, ast.Constant) and isinstance(named.value, str)
            self._add(self._absolute(named.value) if known else "?", by_name=True)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._within(node.body, at_load=False)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._within([node.body], at_load=False)

    def visit_If(self, node: ast.If) -> None:
        self._within(node.body, typing_only="TYPE_CHECKING" in ast.unparse(node.test))
        self._within(node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        self._within(node.body, in_try=True)
        self._within([*node.handlers, *node.orelse, *node.finalbody])

    def _within(self, nodes: list, **changes: bool) -> None:
        before = self._state
        self._state = {**before, **{name: True for name, now in changes.items() if now}}
        if changes.get("at_load") is False:
            self._state["at_load"] = False
        for node in nodes:
            self.visit(node)
        self._state = before

    def _absolute(self, dotted: str) -> str:
        name = dotted.lstrip(".")
        level = len(dotted) - len(name)
        if not level:
            return name
        home = self.package.split(".")
        return ".".join([*home[: len(home) - level + 1], *([name] if name else [])])

    def _add(self, target: str, **facts) -> None:
        self.found.append(Import(target, **{**self._state, **facts}))


class Tree:
    """The package and `training` below `root`; modules by their names without the package's."""

    def __init__(self, root: Path):
        self.root = root
        self.package = self._modules(PACKAGE)
        self.training = self._modules(TRAINING)

    def _modules(self, folder: str) -> dict[str, Path]:
        paths = sorted((self.root / folder).rglob("*.py"))
        return {self._name(path.relative_to(self.root / folder)): path for path in paths}

    @staticmethod
    def _name(path: Path) -> str:
        parts = path.with_suffix("").parts
        return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)

    @cached_property
    def imports(self) -> dict[str, list[Import]]:
        """Of every module of the package."""
        return {name: read(path, self._home(PACKAGE, path)) for name, path in self.package.items()}

    @cached_property
    def training_imports(self) -> dict[str, list[Import]]:
        return {name: read(path, TRAINING) for name, path in self.training.items()}

    def _home(self, package: str, path: Path) -> str:
        return ".".join([package, *path.relative_to(self.root / package).parts[:-1]])

    @cached_property
    def exports(self) -> dict[str, str]:
        """What `from hf_simultaneous import name` takes, and the module it is in."""
        return self._constant("__init__", "_EXPORTS")

    @cached_property
    def travelling(self) -> tuple[str, ...]:
        return self._constant("travelling", "CODE", "PIPELINE_CODE")

    @cached_property
    def travelling_alone(self) -> tuple[str, ...]:
        """Those that `custom_generate` takes with it."""
        return self._constant("travelling", "CODE")

    def _constant(self, module: str, *names: str):
        if module not in self.package:
            return ()
        wanted = [
            node
            for node in ast.parse(self.package[module].read_text(encoding="utf-8")).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names
        ]
        values: dict = {}
        exec(compile(ast.Module(wanted, []), module, "exec"), values)  # a literal of ours
        return values[names[-1]]

    def ours(self, name: str, *, typing: bool = True) -> set[str]:
        """The modules of the package that `name` imports, anywhere in the file."""
        every = self.training_imports if name.startswith(f"{TRAINING}.") else self.imports
        used = every[name.removeprefix(f"{TRAINING}.")]
        return {
            module
            for one in used
            if typing or not one.typing_only
            for module in self.modules_of(one)
        }

    def modules_of(self, one: Import) -> Iterator[str]:
        """The modules of the package that an import names. `from . import x` names x, and `from
        hf_simultaneous import WaitK` what has it; what is not there is named all the same."""
        if one.target.split(".")[0] != PACKAGE:
            return
        inside = one.target.partition(".")[2]
        for name in one.names or ("",):
            below = f"{inside}.{name}" if inside else name
            if below in self.package:
                yield below
            elif inside:
                yield inside
            elif name:
                yield self.exports.get(name, "__init__" if name in self._of_init else name)
            else:
                yield "__init__"

    @cached_property
    def _of_init(self) -> set[str]:
        source = ast.parse(self.package["__init__"].read_text(encoding="utf-8"))
        bound = {name for one in self.imports["__init__"] for name in one.names}
        return bound | {ast.unparse(node.targets[0]) for node in source.body if _assigns(node)}

    def others(self, name: str, *, at_load: bool = False) -> set[str]:
        """The first names of everything imported from elsewhere."""
        return {
            one.target.split(".")[0]
            for one in self.imports[name]
            if not at_load or (one.at_load and not one.typing_only)
        }

    def room(self, name: str) -> str | None:
        first = name.split(".")[0]
        return first if first in ROOMS else None


def read(path: Path, package: str) -> list[Import]:
    """The imports of a file that lies in `package`."""
    return _imports(path.read_text(encoding="utf-8"), package)


@cache  # a changed copy of the tree differs in a file or two
def _imports(text: str, package: str) -> list[Import]:
    reader = Reader(package)
    reader.visit(ast.parse(text))
    return reader.found


def _assigns(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and len(node.targets) == 1


def names_exist(tree: Tree) -> list[str]:
    """What the law names, what travels, and what is imported of ours, is in the tree."""
    named = {*PURE, *MODELS, *POLICIES, *MEETING, *WORDS, *STAY, *ROOMS, *NEEDS_EXTRA, *BY_NAME}
    named |= {module for door in DOORS for module in door} | set(tree.travelling)
    gone = [f"{name} is named by the law and is not there" for name in sorted(named)
            if name not in tree.package]  # fmt: skip
    users = [*tree.package, *(f"{TRAINING}.{name}" for name in tree.training)]
    return gone + [
        f"{user} imports {module}, which is not there"
        for user in users
        for module in sorted(tree.ours(user))
        if module not in tree.package
    ]


def pure_modules_know_no_tensors(tree: Tree) -> list[str]:
    return [
        f"{name} imports {what}"
        for name in PURE
        if name in tree.package
        for what in sorted(tree.others(name) & TENSORS | tree.ours(name) - {*PURE, "version"})
    ]


def models_know_no_policies(tree: Tree) -> list[str]:
    core = {name for name in tree.package if tree.room(name) is None}
    allowed = {*MODELS, "schedule", "actions"}
    return [
        f"{name} is of the model and imports {what}"
        for name in MODELS
        if name in tree.package
        for what in sorted(tree.ours(name) & (core | set(ROOMS)) - allowed)
    ]


def they_meet_only_in_generation(tree: Tree) -> list[str]:
    return [
        f"{name} knows both policies and models"
        for name in tree.package
        if name not in (*MEETING, "__init__")
        and tree.ours(name) & set(POLICIES)
        and tree.ours(name) & set(MODELS)
    ]


def text_is_told_its_tokenizer(tree: Tree) -> list[str]:
    offences = []
    for name in WORDS:
        if name in tree.package:
            outside = tree.others(name, at_load=True) & (TENSORS | {"sentencepiece"})
            offences += [f"{name} imports {what}" for what in sorted(outside)]
            inside = tree.ours(name, typing=False) & {*MODELS, *MEETING}
            offences += [f"{name} imports {what}" for what in sorted(inside)]
    return offences


def what_travels_lies_at_the_root(tree: Tree) -> list[str]:
    root = {name for name in tree.package if "." not in name and name not in ROOMS}
    offences = [
        f"{name} lies at the root: let it travel (travelling.py), or list it as one that stays"
        for name in sorted(root - {*tree.travelling, *STAY})
    ]
    offences += [f"{name} travels and is not at the root" for name in tree.travelling
                 if name not in root]  # fmt: skip
    offences += [f"{name} both travels and stays" for name in sorted({*tree.travelling} & {*STAY})]
    for group in (tree.travelling, tree.travelling_alone):
        for name in group:
            if name in tree.package:
                offences += _strays(tree, name, group)
    return offences


def _strays(tree: Tree, name: str, group: tuple[str, ...]) -> Iterator[str]:
    """transformers copies what `from .name import x` names, also in functions and for types: so a
    file that travels imports in this form only, and only files that travel with it."""
    for one in tree.imports[name]:
        if one.target.split(".")[0] != PACKAGE:
            continue
        module = one.target.partition(".")[2]
        if (name, module) in DOORS and one.in_try:
            continue
        plain = one.level == 1 and module and "." not in module and not one.by_name
        if not plain or module not in group:
            yield f"{name} travels and imports {one.target}; from .sibling import x is allowed"


def rooms_keep_their_doors(tree: Tree) -> list[str]:
    offences = []
    for name in tree.package:
        room = tree.room(name)
        for other in sorted(tree.ours(name)):
            entered = tree.room(other)
            if entered is None or entered == room or (name, other) in DOORS:
                continue
            # `hf_simultaneous.evaluate` is an export of the package: it is in a room by nature.
            if name != "__init__" and (room is None or entered not in ROOMS[room]):
                offences.append(f"{name} enters the room {entered} ({other})")
    return offences


def nothing_imports_the_command_line(tree: Tree) -> list[str]:
    users = [name for name in tree.package if tree.room(name) != "cli"]
    users += [f"{TRAINING}.{name}" for name in tree.training]
    return [
        f"{user} imports {what}"
        for user in users
        for what in sorted(tree.ours(user))
        if tree.room(what) == "cli"
    ]


def the_package_stands_alone(tree: Tree) -> list[str]:
    above = {TRAINING, "tests", "benchmarks", "hub_cards"}
    return [
        f"{name} imports {what}"
        for name in tree.package
        for what in sorted(tree.others(name) & above)
    ]


def nothing_is_imported_by_name(tree: Tree) -> list[str]:
    return [
        f"{name} imports {one.target} by name"
        for name in tree.package
        if name not in BY_NAME
        for one in tree.imports[name]
        if one.by_name and (one.target == "?" or one.target.split(".")[0] == PACKAGE)
    ]


def extras_are_imported_where_used(tree: Tree) -> list[str]:
    return [
        f"{name} imports {what} when it is loaded"
        for name in tree.package
        if name not in NEEDS_EXTRA
        for what in sorted(tree.others(name, at_load=True) & EXTRAS)
    ]


def there_is_no_cycle(tree: Tree) -> list[str]:
    """Also not through imports inside functions; those for types only do not count. The package's
    own front, which names everything lazily, is left out."""
    graph = {
        name: tree.ours(name, typing=False) & set(tree.package) - {name, "__init__"}
        for name in tree.package
        if name != "__init__"
    }
    while graph:
        free = {name for name, needs in graph.items() if not needs & set(graph)}
        if not free:
            return [f"these import one another: {', '.join(sorted(_knot(graph)))}"]
        graph = {name: needs for name, needs in graph.items() if name not in free}
    return []


def _knot(graph: dict[str, set[str]]) -> set[str]:
    """What is left when those that nobody in the knot imports are taken away too."""
    while True:
        imported = set().union(*graph.values())
        kept = {name: needs & set(graph) for name, needs in graph.items() if name in imported}
        if len(kept) == len(graph):
            return set(graph)
        graph = kept


def files_are_short(tree: Tree) -> list[str]:
    offences = []
    for path in [*tree.package.values(), *tree.training.values()]:
        count = len(path.read_text(encoding="utf-8").splitlines())
        if count > LINES:
            offences.append(f"{path.relative_to(tree.root)} has {count} lines; {LINES} is the most")
    return offences


LAW: tuple[Callable[[Tree], list[str]], ...] = (
    names_exist,
    pure_modules_know_no_tensors,
    models_know_no_policies,
    they_meet_only_in_generation,
    text_is_told_its_tokenizer,
    what_travels_lies_at_the_root,
    rooms_keep_their_doors,
    nothing_imports_the_command_line,
    the_package_stands_alone,
    nothing_is_imported_by_name,
    extras_are_imported_where_used,
    there_is_no_cycle,
    files_are_short,
)
