"""The probe of precisions: what it says of a process that lives, fails, dies or hangs, and that the
tests and the doctor listen to it."""

import signal
import sys

import pytest
import torch
from typer.testing import CliRunner

from hf_simultaneous import AdaptiveWaitKGenerator, loading, probe
from hf_simultaneous.cli import app, doctor
from hf_simultaneous.probe import CURE, PRECISIONS, Probe, attempt
from tests.conftest import pytest_runtest_setup
from tests.stock import stock_model


KILL_ITSELF = "import os, signal; os.kill(os.getpid(), signal.{})"


def python(code):
    return [sys.executable, "-c", code]


def test_a_process_that_ends_well_has_no_failure():
    found = attempt("bfloat16", python("pass"))
    assert found.survived
    assert str(found) == "torch's bfloat16 works"


def test_a_probe_that_meets_an_illegal_instruction_names_the_cure():
    found = attempt("bfloat16", python(KILL_ITSELF.format("SIGILL")))
    assert not found.survived
    assert str(found) == (
        "torch's bfloat16 dies here with SIGILL. Set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"
    )


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL"])
def test_another_signal_has_another_cause(name):
    found = attempt("float16", python(KILL_ITSELF.format(name)))
    assert str(found) == f"torch's float16 dies here with {signal.Signals[name].name}"


def test_a_probe_that_hangs_is_given_up():
    found = attempt("float16", python("import time; time.sleep(600)"), seconds=0.5)
    assert str(found) == "torch's float16 gives no answer here in 0.5 seconds"


def test_an_ordinary_error_is_quoted():
    found = attempt("float16", python("raise ValueError('no such layer')"))
    assert str(found) == "torch's float16 fails here: ValueError: no such layer"
    assert attempt("float16", python("raise SystemExit(3)")).failure == "fails here: exit code 3"


def test_the_real_probe_runs_once_for_each_precision(monkeypatch):
    asked = []
    monkeypatch.setattr(probe, "attempt", lambda name, command: asked.append(name) or Probe(name))
    for name in ("a", "b", "a", "b"):
        probe.probe(name)
    assert asked == ["a", "b"]


@pytest.mark.precision("bfloat16")
def test_what_the_probe_calls_sound_is_sound():
    torch.nn.Linear(16, 16).bfloat16()(torch.ones(2, 16, dtype=torch.bfloat16))


@pytest.fixture
def dying(monkeypatch):
    """A machine on which every precision but the ordinary dies."""
    died = attempt("bfloat16", python(KILL_ITSELF.format("SIGILL")))
    monkeypatch.setattr(probe, "probe", lambda precision: Probe(precision, died.failure))


@pytest.mark.usefixtures("dying")
def test_tests_of_a_precision_that_dies_are_skipped_by_name(request):
    pytest_runtest_setup(request.node)  # it has no such mark yet
    request.node.add_marker(pytest.mark.precision("bfloat16"))
    with pytest.raises(pytest.skip.Exception) as skipped:
        pytest_runtest_setup(request.node)
    assert str(skipped.value) == (
        f"{request.node.name}: torch's bfloat16 dies here with SIGILL. Set {CURE}"
    )


@pytest.mark.usefixtures("dying")
def test_the_doctor_says_the_same_and_is_content():
    """Nothing of ours uses another precision unless it is asked to."""
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    for precision in PRECISIONS:
        assert f"{precision:17}dies here with SIGILL. Set {CURE}\n" in result.stdout


def test_the_doctor_does_not_probe_a_torch_that_is_not_there(monkeypatch):
    monkeypatch.setattr(doctor, "installed", lambda package: None)
    monkeypatch.setattr(probe, "probe", lambda precision: pytest.fail("there is nothing to probe"))
    assert "bfloat16" not in "\n".join(doctor.examine().lines)


@pytest.mark.parametrize("name", PRECISIONS)
def test_half_precision_that_dies_is_refused_at_loading(name, tmp_path, monkeypatch):
    stock_model("m2m_100", dtype=getattr(torch, name)).save_pretrained(tmp_path)
    dead = Probe(name, "dies here with SIGILL")
    monkeypatch.setattr(loading, "probe", lambda asked: dead if asked == name else Probe(asked))
    message = f"in half precision, and torch's {name} dies here .* dtype=torch.float32"
    with pytest.raises(ValueError, match=message):
        AdaptiveWaitKGenerator.from_pretrained(tmp_path)
    loaded = AdaptiveWaitKGenerator.from_pretrained(tmp_path, dtype=torch.float32)
    assert loaded.model.dtype == torch.float32
    monkeypatch.setattr(loading, "probe", Probe)
    assert AdaptiveWaitKGenerator.from_pretrained(tmp_path).model.dtype == getattr(torch, name)
