"""What SimulEval computes from our `instances.log` is what we compute from our own log, in words."""

import json
import subprocess
from pathlib import Path

import pytest

from hf_simultaneous.logs import write_instances
from hf_simultaneous.scores import Scoring, score
from tests.test_experiments import corpus


ROOT = Path(__file__).resolve().parents[2]
SIMULEVAL_PYTHON = ROOT / ".venv-simuleval" / "bin" / "python"

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not SIMULEVAL_PYTHON.exists(), reason="no .venv-simuleval: run `make simuleval` first"),
]


@pytest.mark.parametrize(("k", "errors"), [(1, 0.2), (4, 0.0)])
def test_simuleval_reads_our_log_and_agrees(tmp_path, k, errors):
    lines = corpus(k, errors)
    write_instances(tmp_path / "instances.log", lines)
    command = [SIMULEVAL_PYTHON, "-I", Path(__file__).with_name("simuleval_log.py"), tmp_path / "instances.log"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    theirs, ours = json.loads(done.stdout), score(lines, Scoring(bootstrap=None))
    for name in ("AL", "LAAL", "AP", "DAL"):
        assert theirs[name] == pytest.approx(ours[f"{name.lower()}_words"]), name
    assert theirs["BLEU"] == pytest.approx(ours["bleu"])
