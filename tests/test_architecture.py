"""The tree keeps the law of `law.py`, and a tree that breaks it is caught: policies never import
tensors, models never import policies, they meet only in `generation`, and what travels with a
checkpoint imports its siblings only."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hf_simultaneous
from tests import law


ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def tree():
    return law.Tree(ROOT)


@pytest.mark.parametrize("check", law.LAW, ids=lambda check: check.__name__)
def test_the_tree_keeps_the_law(tree, check):
    assert check(tree) == []


def test_every_file_is_read(tree):
    modules = {"schedule", "generation", "evaluation", "evaluation.corpus", "cli.commands"}
    assert modules <= set(tree.package)
    assert {"trainer", "options"} <= set(tree.training)
    assert len(tree.package) == len(list((ROOT / "hf_simultaneous").rglob("*.py")))


def test_the_lists_of_what_travels_are_those_of_the_package(tree):
    from hf_simultaneous import travelling

    assert tree.travelling == travelling.PIPELINE_CODE
    assert tree.travelling_alone == travelling.CODE
    assert tree.exports == hf_simultaneous._EXPORTS


FORMS = """
import torch.nn as nn, json
from transformers import AutoModel
from . import policies
from .masks import a, b
from .. import sets
from ..lanes import d
from hf_simultaneous.generation import c
from hf_simultaneous import WaitK
from importlib import import_module as fetch
if TYPE_CHECKING:
    import numpy
else:
    import yaml
try:
    import regex
except ImportError:
    import re
def f():
    import gradio
async def g():
    import evaluate
class C:
    import datasets
__import__("safetensors")
importlib.import_module("hf_simultaneous.cli")
fetch(".logs", __package__)
import_module(f"hf_{simultaneous}")
"""


def test_the_reader_of_imports_reads_every_form(tmp_path):
    path = tmp_path / "forms.py"
    path.write_text(FORMS)
    found = {one.target: one for one in law.read(path, "hf_simultaneous.evaluation")}
    ours = {"evaluation", "evaluation.masks", "lanes", "generation", "cli", "evaluation.logs"}
    outside = {"torch.nn", "json", "transformers", "importlib", "numpy", "yaml", "regex", "re"}
    outside |= {"gradio", "evaluate", "datasets", "safetensors", "?"}
    assert set(found) == {f"hf_simultaneous.{name}" for name in ours} | outside | {
        "hf_simultaneous"
    }
    assert {name for name, one in found.items() if not one.at_load} == {"gradio", "evaluate"}
    assert {name for name, one in found.items() if one.typing_only} == {"numpy"}
    assert {name for name, one in found.items() if one.in_try} == {"regex"}
    by_name = {"safetensors", "hf_simultaneous.cli", "hf_simultaneous.evaluation.logs", "?"}
    assert {name for name, one in found.items() if one.by_name} == by_name


@pytest.fixture
def copy(tmp_path):
    """The tree's source, to be changed."""
    for folder in ("hf_simultaneous", "training"):
        only_source = shutil.ignore_patterns("builtin", "__pycache__", "configs")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=only_source)
    return tmp_path


def add(text, to):
    return lambda root: (root / to).write_text((root / to).read_text() + f"\n{text}\n")


def remove(path):
    return lambda root: (root / path).unlink()


PLACE = "hf_simultaneous"
OFFENCES = {
    "a module that the law names is gone": (
        remove(f"{PLACE}/masks.py"),
        law.names_exist,
        "masks is named by the law and is not there",
    ),
    "a module that is imported is gone": (
        remove(f"{PLACE}/evaluation/logs.py"),
        law.names_exist,
        "evaluation.corpus imports evaluation.logs, which is not there",
    ),
    "a module that travels is gone": (
        remove(f"{PLACE}/custom_generation.py"),
        law.names_exist,
        "custom_generation is named by the law and is not there",
    ),
    "a policy uses tensors": (
        add("import torch", f"{PLACE}/policies.py"),
        law.pure_modules_know_no_tensors,
        "policies imports torch",
    ),
    "a policy uses tensors in a function, by name": (
        add("def f():\n    __import__('numpy')", f"{PLACE}/policies.py"),
        law.pure_modules_know_no_tensors,
        "policies imports numpy",
    ),
    "a model knows policies": (
        add("from .policies import WaitK", f"{PLACE}/masks.py"),
        law.models_know_no_policies,
        "masks is of the model and imports policies",
    ),
    "a model knows policies, by name": (
        add(
            "def f():\n    import_module('hf_simultaneous.policies')",
            f"{PLACE}/modeling_simultaneous.py",
        ),
        law.models_know_no_policies,
        "modeling_simultaneous is of the model and imports policies",
    ),
    "a second meeting place": (
        add("from ..masks import a\nfrom ..policies import b", f"{PLACE}/sharing/hub.py"),
        law.they_meet_only_in_generation,
        "sharing.hub knows both policies and models",
    ),
    "text knows tensors": (
        add("import tokenizers", f"{PLACE}/text.py"),
        law.text_is_told_its_tokenizer,
        "text imports tokenizers",
    ),
    "text knows the generator": (
        add("def f():\n    from .generation import a", f"{PLACE}/text.py"),
        law.text_is_told_its_tokenizer,
        "text imports generation",
    ),
    "a file at the root that nobody decided on": (
        lambda root: (root / f"{PLACE}/stray.py").write_text(""),
        law.what_travels_lies_at_the_root,
        "stray lies at the root: let it travel",
    ),
    "what travels enters a room": (
        add("def f():\n    from .sharing.hub import push", f"{PLACE}/loop.py"),
        law.what_travels_lies_at_the_root,
        "loop travels and imports hf_simultaneous.sharing.hub",
    ),
    "what travels names the package": (
        add("from hf_simultaneous.masks import a", f"{PLACE}/lanes.py"),
        law.what_travels_lies_at_the_root,
        "lanes travels and imports hf_simultaneous.masks",
    ),
    "what travels imports in a form that is not copied": (
        add("from . import masks", f"{PLACE}/lanes.py"),
        law.what_travels_lies_at_the_root,
        "lanes travels and imports hf_simultaneous;",
    ),
    "what travels needs what stays": (
        add("def f():\n    from .metrics import AL", f"{PLACE}/loop.py"),
        law.what_travels_lies_at_the_root,
        "loop travels and imports hf_simultaneous.metrics",
    ),
    "custom_generate needs what only the pipeline takes": (
        add("if TYPE_CHECKING:\n    from .text import Word", f"{PLACE}/loop.py"),
        law.what_travels_lies_at_the_root,
        "loop travels and imports hf_simultaneous.text;",
    ),
    "the door without a try": (
        add("def f():\n    from hf_simultaneous.sharing.hub import a", f"{PLACE}/generation.py"),
        law.what_travels_lies_at_the_root,
        "generation travels and imports hf_simultaneous.sharing.hub",
    ),
    "a room enters another": (
        add("from ..sharing import hub", f"{PLACE}/evaluation/logs.py"),
        law.rooms_keep_their_doors,
        "evaluation.logs enters the room sharing (sharing.hub)",
    ),
    "the core enters a room, by name": (
        add("def f():\n    import_module('.evaluation.logs', __package__)", f"{PLACE}/sets.py"),
        law.rooms_keep_their_doors,
        "sets enters the room evaluation",
    ),
    "somebody imports the command line": (
        add("from hf_simultaneous.cli import app", "training/data.py"),
        law.nothing_imports_the_command_line,
        "training.data imports cli",
    ),
    "the command line by name": (
        add("def f():\n    import_module('hf_simultaneous.cli.doctor')", f"{PLACE}/app/desk.py"),
        law.nothing_imports_the_command_line,
        "app.desk imports cli.doctor",
    ),
    "the package imports training": (
        add("def f():\n    from training.data import a", f"{PLACE}/evaluation/corpus.py"),
        law.the_package_stands_alone,
        "evaluation.corpus imports training",
    ),
    "a module of ours by name": (
        add("def f():\n    import_module('.masks', __package__)", f"{PLACE}/sessions.py"),
        law.nothing_is_imported_by_name,
        "sessions imports hf_simultaneous.masks by name",
    ),
    "a name that nobody can read": (
        add("def f(x):\n    importlib.import_module('hf_' + x)", f"{PLACE}/sessions.py"),
        law.nothing_is_imported_by_name,
        "sessions imports ? by name",
    ),
    "an extra when the package is loaded": (
        add("import sacrebleu", f"{PLACE}/evaluation/scores.py"),
        law.extras_are_imported_where_used,
        "evaluation.scores imports sacrebleu when it is loaded",
    ),
    "a cycle through a function": (
        add("def f():\n    from .generation import a", f"{PLACE}/sets.py"),
        law.there_is_no_cycle,
        "these import one another: generation, loading, sets",
    ),
    "a long file": (
        add("\n" * law.LINES, f"{PLACE}/masks.py"),
        law.files_are_short,
        "hf_simultaneous/masks.py has",
    ),
}


@pytest.mark.parametrize(("change", "check", "message"), OFFENCES.values(), ids=OFFENCES)
def test_a_tree_that_breaks_the_law_is_caught(tree, copy, change, check, message):
    assert not any(message in offence for offence in check(tree))
    change(copy)
    offences = check(law.Tree(copy))
    assert any(message in offence for offence in offences), offences


def test_there_is_an_offence_for_every_check():
    assert {check for _, check, _ in OFFENCES.values()} == set(law.LAW)


BLOCKED = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {sorted(law.TENSORS)!r}:
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
    return subprocess.run(
        [sys.executable, "-c", BLOCKED + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.mark.parametrize("module", law.PURE)
def test_the_pure_modules_import_without_torch_and_transformers(module):
    result = run_blocked(f"import hf_simultaneous.{module}")
    assert result.returncode == 0, result.stderr


def test_the_pure_modules_work_without_torch_and_transformers():
    result = run_blocked(AT_WORK)
    assert result.returncode == 0, result.stderr


def test_a_module_that_needs_torch_fails_when_it_is_blocked():
    result = run_blocked("import torch")
    assert result.returncode != 0
    assert "torch is blocked" in result.stderr


def test_an_unknown_name_is_not_an_export():
    with pytest.raises(AttributeError, match="'hf_simultaneous' has no attribute 'WaitForGodot'"):
        hf_simultaneous.WaitForGodot  # noqa: B018
