import shutil
from pathlib import Path

import pytest
from safetensors import SafetensorError

from training.checked import InputError
from training.disk import require_space, writing


def test_no_disk_space_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    require_space(tmp_path / "new", 4_000_000)
    with pytest.raises(
        InputError, match=r"no disk space: .* has 5 MB free and this run needs about 7 MB"
    ):
        require_space(tmp_path / "refused" / "run", 7_000_000)
    assert [path.name for path in tmp_path.iterdir()] == ["new"], "no empty folder is left"


@pytest.mark.parametrize(
    "error", [OSError(28, "No space"), RuntimeError("disk"), SafetensorError("I/O")]
)
def test_no_disk_space_in_the_middle(tmp_path: Path, error: Exception) -> None:
    with (
        pytest.raises(InputError, match=r"cannot write to .*a run goes on with --resume"),
        writing(tmp_path),
    ):
        raise error
