"""Our AL, LAAL, AP and DAL are SimulEval's, on a thousand random paths, in every variant SimulEval
computes.

SimulEval lives in an environment of its own (`make simuleval`) and is asked in a subprocess.
"""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hf_simultaneous.metrics import Metric, Sentence, corpus_latency, latency


ROOT = Path(__file__).resolve().parents[2]
SIMULEVAL_PYTHON = ROOT / ".venv-simuleval" / "bin" / "python"

# SimulEval's variant -> ours. Without a reference its LAAL has only the hypothesis' length, and so
# is AL; its DAL takes the hypothesis' length whatever it is told.
VARIANTS = {
    "AL/reference": Metric("AL", length="reference"),
    "AL/hypothesis": Metric("AL", length="hypothesis"),
    "LAAL/reference": Metric("LAAL"),
    "LAAL/hypothesis": Metric("AL", length="hypothesis"),
    "AP/reference": Metric("AP", length="reference"),
    "AP/hypothesis": Metric("AP", length="hypothesis"),
    "DAL/reference": Metric("DAL"),
    "DAL/hypothesis": Metric("DAL"),
}

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        not SIMULEVAL_PYTHON.exists(), reason="no .venv-simuleval: run `make simuleval` first"
    ),
]


def random_sentence(generator: random.Random) -> Sentence:
    source_len, target_len, reference_len = (generator.randint(1, 60) for _ in range(3))
    kind = generator.choice(("any", "stops early", "wait-k", "full"))
    if kind == "any":
        delays = sorted(generator.randint(0, source_len) for _ in range(target_len))
    elif kind == "stops early":
        delays = sorted(generator.randint(0, source_len - 1) for _ in range(target_len))
    elif kind == "wait-k":
        k = generator.randint(1, 12)
        delays = [min(source_len, t + k) for t in range(target_len)]
    else:
        delays = [source_len] * target_len
    return Sentence(delays, source_len, reference_len)


def simuleval(sentences: list[Sentence]) -> Any:
    paths = [
        {"delays": s.delays, "source_len": s.source_len, "reference_len": s.reference_len}
        for s in sentences
    ]
    # -I: nothing of this environment, not even PYTHONPATH, reaches the other.
    command = [str(SIMULEVAL_PYTHON), "-I", str(Path(__file__).with_name("simuleval_scores.py"))]
    done = subprocess.run(
        command, input=json.dumps(paths), capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["version"] == "1.1.4", (
        "older versions have other formulas: remove .venv-simuleval, `make simuleval`"
    )
    return answer


def test_a_thousand_random_paths() -> None:
    generator = random.Random(20)
    sentences = [random_sentence(generator) for _ in range(1000)]
    kinds = {
        "shorter than the reference": sum(
            len(s.delays) < (s.reference_len or 0) for s in sentences
        ),
        "longer than the reference": sum(len(s.delays) > (s.reference_len or 0) for s in sentences),
        "stops before the source is finished": sum(s.delays[-1] < s.source_len for s in sentences),
        "full sentence": sum(s.delays[0] == s.source_len for s in sentences),
    }
    assert min(kinds.values()) >= 100, kinds
    theirs = simuleval(sentences)
    assert theirs["scores"].keys() == VARIANTS.keys()
    for variant, metric in VARIANTS.items():
        ours = [latency(sentence, metric).value for sentence in sentences]
        assert ours == pytest.approx(theirs["scores"][variant], rel=0, abs=1e-9), variant
        assert corpus_latency(sentences, metric).value == pytest.approx(
            theirs["corpus"][variant], rel=0, abs=1e-9
        )


def test_simuleval_leaves_empty_hypotheses_out_of_its_mean() -> None:
    """The one difference, and `latency` says so: ours counts such a sentence as a full-sentence
    translation."""
    written, silent = Sentence([1, 2, 3], 3, 3), Sentence([], 9, 9)
    theirs = simuleval([written, silent])
    for variant, metric in VARIANTS.items():
        assert theirs["scores"][variant][1] is None
        assert theirs["corpus"][variant] == pytest.approx(latency(written, metric).value)
    assert corpus_latency([written, silent]).value == pytest.approx((1 + 9) / 2)
