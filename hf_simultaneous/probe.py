"""Whether torch survives a precision on this machine: tried in a process of its own, because what a
CPU does not know (SIGILL) ends a process and cannot be caught.

Knows processes and signals; imports no torch itself and knows nothing of our models.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache


PRECISIONS = ("bfloat16", "float16")
# Some virtual machines advertise AMX without granting it; this keeps oneDNN from using it.
CURE = "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"
SECONDS = 120.0  # a busy machine may need many of them to import torch
# Sizes of the tests and of a real model; the rows of one live stream and of a batch.
LINEAR = """
import sys, torch
precision = getattr(torch, sys.argv[1])
for size in (16, 32, 512):
    layer = torch.nn.Linear(size, 4 * size).to(precision)
    for rows in (1, 2, 14, 64):
        layer(torch.ones(rows, size, dtype=precision))
"""


@dataclass(frozen=True)
class Probe:
    """What became of the attempt; `failure` is `None` where torch survived it."""

    precision: str
    failure: str | None = None

    @property
    def survived(self) -> bool:
        return self.failure is None

    def __str__(self) -> str:
        return f"torch's {self.precision} {self.failure or 'works'}"


@cache
def probe(precision: str) -> Probe:
    """Run a linear layer in this precision, once in the life of this process."""
    return attempt(precision, [sys.executable, "-c", LINEAR, precision])


def attempt(precision: str, command: Sequence[str], seconds: float = SECONDS) -> Probe:
    """Run a command that uses the precision, and say what became of it."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return Probe(precision, f"gives no answer here in {seconds:g} seconds")
    return Probe(precision, _failure(done.returncode, done.stderr))


def _failure(code: int, complaint: str) -> str | None:
    if code == 0:
        return None
    if code > 0:
        last_line = complaint.strip().rpartition("\n")[2]
        return f"fails here: {last_line or f'exit code {code}'}"
    name = signal.Signals(-code).name
    return f"dies here with {name}. Set {CURE}" if name == "SIGILL" else f"dies here with {name}"
