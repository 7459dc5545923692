"""The import law: policies never import tensors, models never import policies, and they meet only in `generation`.

Reads the imports out of the source, so a file added later is held to the law without being listed here.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hf_simultaneous


ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "hf_simultaneous"
MODULES = {path.stem: path for path in sorted(PACKAGE.glob("*.py"))}

PURE = ["schedule", "actions", "policies", "metrics"]
MODELS = ["configuration_simultaneous", "masks", "modeling_simultaneous", "lanes"]
TENSORS = {"torch", "transformers", "numpy", "tokenizers", "safetensors"}
# What decides (policies) and what computes (models): a module may know one side, and only `generation` both.
DECIDING, COMPUTING, MEETING = {"policies"}, {"masks", "modeling_simultaneous", "lanes"}, {"generation"}
SLOW_TO_IMPORT = {"gradio", "evaluate", "datasets", "matplotlib", "simuleval", "sacrebleu"}


def imports(tree: ast.AST) -> set[str]:
    """Every module named in an import, relative ones spelled out: `from .x import y` is `hf_simultaneous.x`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(part for part in ("hf_simultaneous" if node.level else "", node.module or "") if part)
            found |= {f"{base}.{alias.name}" for alias in node.names} if base == "hf_simultaneous" else {base}
    return found


def top_level(tree: ast.Module) -> ast.Module:
    """The part of a module that runs when it is imported: no function bodies, nothing for type checkers only."""

    class Prune(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
            return None

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)

    return Prune().visit(tree)


def parsed(module: str) -> ast.Module:
    if module not in MODULES:
        pytest.skip(f"{module}.py is not written yet")
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def ours(module: str) -> set[str]:
    """The modules of this package that `module` imports, anywhere in the file."""
    inside = {name.split(".")[1] for name in imports(parsed(module)) if name.startswith("hf_simultaneous.")}
    return {hf_simultaneous._EXPORTS.get(name, name) for name in inside}


def others(tree: ast.Module) -> set[str]:
    """The first names of everything imported from elsewhere."""
    return {name.split(".")[0] for name in imports(tree)}


def test_the_reader_of_imports_reads_every_form():
    source = """
import torch.nn as nn, json
from transformers import AutoModel
from . import policies
from .masks import a, b
from hf_simultaneous.lanes import c
from hf_simultaneous import WaitK
if TYPE_CHECKING:
    import numpy
def f():
    import gradio
async def g():
    import evaluate
class C:
    import datasets
"""
    always = {"torch.nn", "json", "transformers", "datasets"}
    package = {f"hf_simultaneous.{name}" for name in ("policies", "masks", "lanes", "WaitK")}
    assert imports(top_level(ast.parse(source))) == always | package
    assert imports(ast.parse(source)) == always | package | {"numpy", "gradio", "evaluate"}


@pytest.mark.parametrize("module", PURE)
def test_the_pure_modules_import_no_tensors(module):
    assert not others(parsed(module)) & TENSORS
    assert ours(module) <= {*PURE, "version"}


@pytest.mark.parametrize("module", MODELS)
def test_models_know_no_policies(module):
    assert not ours(module) & {"policies", "generation", "text", "pipelines", "evaluation", "calibration"}


@pytest.mark.parametrize("module", MODULES)
def test_policies_and_models_meet_only_in_generation(module):
    if module not in MEETING:
        assert not (ours(module) & DECIDING and ours(module) & COMPUTING), f"{module} knows both sides"


def test_text_is_told_its_tokenizer():
    assert not others(top_level(parsed("text"))) & (TENSORS | {"sentencepiece"})
    assert not ours("text") & (DECIDING | COMPUTING | {"generation"})


@pytest.mark.parametrize("module", MODULES)
def test_nothing_imports_the_command_line(module):
    assert "cli" not in ours(module)


@pytest.mark.parametrize("module", MODULES)
def test_the_package_never_imports_training_or_tests(module):
    assert not others(parsed(module)) & {"training", "tests", "benchmarks"}


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"app", "plots", "simuleval_agent"}))
def test_what_only_an_extra_needs_is_imported_where_it_is_used(module):
    assert not others(top_level(parsed(module))) & SLOW_TO_IMPORT


def test_there_is_no_cycle_among_top_level_imports():
    graph = {}
    for module in MODULES:
        names = imports(top_level(parsed(module)))
        graph[module] = {name.split(".")[1] for name in names if name.startswith("hf_simultaneous.")} & set(MODULES)
    while graph:
        free = {module for module, needs in graph.items() if not needs & set(graph)}
        assert free, f"these import one another: {sorted(graph)}"
        graph = {module: needs for module, needs in graph.items() if module not in free}


BLOCKED = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {sorted(TENSORS)!r}:
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocked())
try:
    import torch
except ImportError:
    pass
else:
    raise SystemExit("the block does not hold")
"""

AT_WORK = """
import hf_simultaneous
from hf_simultaneous import Adaptive, PAPER_SETTINGS, Prediction, Read, State, WaitK, Write
from hf_simultaneous.schedule import lag, visible

assert visible(2, 3, 9) == 4 and lag(4, 1) == 3
assert WaitK(1)(State(), None) == Read()
policy = Adaptive(PAPER_SETTINGS["rho1=0.4,rho10=0"])
assert policy(State(source=[7]), lambda k: Prediction(5, 0.4)) == Write(5)
assert hf_simultaneous.__version__ and "WaitK" in dir(hf_simultaneous)
"""


def run_blocked(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCKED + code], cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("module", PURE)
def test_the_pure_modules_import_without_torch_and_transformers(module):
    parsed(module)
    result = run_blocked(f"import hf_simultaneous.{module}")
    assert result.returncode == 0, result.stderr


def test_the_pure_modules_work_without_torch_and_transformers():
    result = run_blocked(AT_WORK)
    assert result.returncode == 0, result.stderr


def test_a_module_that_needs_torch_fails_when_it_is_blocked():
    result = run_blocked("import torch")
    assert result.returncode != 0
    assert "torch is blocked" in result.stderr


def test_an_unknown_name_is_no_export():
    with pytest.raises(AttributeError, match="'hf_simultaneous' has no attribute 'WaitForGodot'"):
        hf_simultaneous.WaitForGodot  # noqa: B018
