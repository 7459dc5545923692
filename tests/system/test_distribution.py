"""What a package index would get: the source distribution as it is built, and what it says of
itself."""

import email
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from setup import readme


ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.system


def tracked() -> set[str]:
    """The files of the repository."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a clone, so nobody knows which files belong to it")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = {name for name in listed.stdout.decode().split("\0") if name}
    return {name for name in names if (ROOT / name).is_file()}


def run_build(kind: str, tree: Path, place: Path) -> None:
    code = f"import setuptools.build_meta as build; build.build_{kind}({str(place)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tree, check=True, capture_output=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("setuptools", minversion="77", reason="the build needs setuptools 77")
    tree, place = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("built")
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    run_build("sdist", tree, place)
    with tarfile.open(next(place.glob("*.tar.gz"))) as archive:
        archive.extractall(place, filter="data")
    return next(path for path in place.iterdir() if path.is_dir())


def test_the_source_distribution_is_the_whole_tree(built):
    """Or its tests could not run, and its pages were not there."""
    files = {str(path.relative_to(built)) for path in built.rglob("*") if path.is_file()}
    assert tracked() - files <= {".gitignore"}


def test_the_wheel_made_of_it_holds_the_package(built, tmp_path):
    run_build("wheel", built, tmp_path)
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    package = {name for name in tracked() if name.startswith("hf_simultaneous/")}
    assert package <= names
    assert not [name for name in names if name.split("/")[0] in ("tests", "training", "docs")]


def test_it_says_under_which_licences_code_and_weights_are(built):
    said = email.message_from_string((built / "PKG-INFO").read_text(encoding="utf-8"))
    assert said["License-Expression"] == "Apache-2.0 AND CC-BY-2.0"
    assert said.get_all("License-File") == ["LICENSE", "hf_simultaneous/builtin/README.md"]
    assert said["Description-Content-Type"] == "text/markdown"
    assert "](docs/" not in said.get_payload(), "a link that leads nowhere"


TEXT = (
    "See [results](docs/results.md#x), [it](https://a.org/b) and [below](#here).\n"
    "![all](docs/a.svg)"
)


def test_links_lead_to_the_repository_if_there_is_one():
    assert readme(TEXT, "https://forge.org/me/it/") == (
        "See [results](https://forge.org/me/it/blob/main/docs/results.md#x), "
        "[it](https://a.org/b) and [below](#here).\n"
        "![all](https://forge.org/me/it/raw/main/docs/a.svg)"
    )
    assert readme(TEXT, None) == (
        "See results (`docs/results.md#x`), [it](https://a.org/b) and [below](#here).\n"
        "all (`docs/a.svg`)"
    )
