"""What README.md and the pages in docs/ show is run: Python blocks in one namespace a page, `sh`
blocks through the command line.

A block behind `<!-- not run: why -->` is only read: its Python must compile, its commands and
options must be known."""

import contextlib
import io
import re
import shlex
import shutil
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from hf_simultaneous.cli import app
from hf_simultaneous.sets import BUILTIN


ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>[^\n]*?) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A code block of a page; `why` if it is not run."""

    kind: str
    text: str
    why: str | None

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command, comments left out."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks(page: Path, kind: str, *, run: bool) -> list[Block]:
    found = [Block(**match.groupdict()) for match in BLOCK.finditer(page.read_text("utf-8"))]
    return [block for block in found if block.kind == kind and (block.why is None) == run]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the pages' own examples can be run: a dev set of two sentences, and a trained set."""
    (tmp_path / "dev.de").write_text("Das Haus ist alt.\nIch habe das Rad verkauft.\n")
    (tmp_path / "dev.en").write_text("The house is old.\nI sold the bike.\n")
    shutil.copytree(BUILTIN, tmp_path / "runs/toy/set", ignore=shutil.ignore_patterns("README.md"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pages_with(kind: str, *, run: bool) -> list:
    return [pytest.param(page, id=page.name) for page in PAGES if blocks(page, kind, run=run)]


@pytest.mark.parametrize("page", pages_with("python", run=True))
def test_the_python_of_a_page_runs(page, folder):
    names: dict[str, object] = {"__name__": "__main__"}
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        for block in blocks(page, "python", run=True):
            exec(compile(block.text, page.name, "exec"), names)
    assert told.getvalue()


@pytest.mark.parametrize("page", pages_with("sh", run=True))
def test_the_commands_of_a_page_run(page, folder):
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for block in blocks(page, "python", run=True):
        if named := re.match(r"# (\w+\.py)\n", block.text):
            (folder / named[1]).write_text(block.text)
    for block in blocks(page, "sh", run=True):
        for program, *arguments in block.commands:
            if program == "make":  # this test is one of those it would run
                assert set(arguments) <= set(targets)
                continue
            assert program == "hf-simultaneous", "say why it is not run: <!-- not run: ... -->"
            outcome = CliRunner().invoke(app, arguments)
            assert outcome.exit_code == 0, f"{arguments}: {outcome.output}"


@pytest.mark.parametrize("page", pages_with("python", run=False))
def test_python_that_is_not_run_compiles(page):
    for block in blocks(page, "python", run=False):
        assert block.why
        compile(block.text, page.name, "exec")


@pytest.mark.parametrize("page", pages_with("sh", run=False))
def test_commands_that_are_not_run_exist(page, folder):
    for block in blocks(page, "sh", run=False):
        assert block.why
        for words in block.commands:
            if "hf-simultaneous" in words:
                name, *arguments = words[words.index("hf-simultaneous") + 1 :]
                get_command(app).commands[name].make_context(name, arguments)
            elif words[:2] == ["python", "-m"] and words[2].startswith("training."):
                assert (ROOT / f"{words[2].replace('.', '/')}.py").is_file()
                configs = [word for word in words if word.endswith(".yaml")]
                assert all((ROOT / config).is_file() for config in configs)


def test_every_shell_block_says_that_it_is_one():
    """One that begins like a command, but is not marked `sh`, would be left out in silence."""
    for page in PAGES:
        for block in blocks(page, "", run=True):
            assert not re.match(r"(hf-simultaneous|make|python|pip) ", block.text), page.name


EXTRA = r"pip install[^`\n]*?(\.|hf_simultaneous)\[([\w,]+)\]"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_extras_are_named_as_they_are_and_for_whoever_has_no_clone(page):
    """Who reads of training or of the benchmarks has one; a wheel holds neither."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    for where, extras in re.findall(EXTRA, page.read_text(encoding="utf-8")):
        assert {*extras.split(",")} <= {*config["options.extras_require"]}
        assert where == "hf_simultaneous" or {*extras.split(",")} & {"train", "bench"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link.split("#")[0]).exists()] == []


def test_the_readme_shows_the_tree_as_it_is():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tree = text[text.index("```\nhf_simultaneous/") :].partition("\ntraining/")[0]
    package = ROOT / "hf_simultaneous"
    files = {path.name for path in package.glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"\b\w+\.py", tree)) == files
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")} | {"builtin/"}
    assert set(re.findall(r"^  (\w+/)", tree, re.MULTILINE)) == rooms
