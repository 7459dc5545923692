"""The READ/WRITE paths every benchmark replays, so that the work is the same each time, and
policies that replay them.

Keyed by sentence length. Lags run from 1 to 9; asking at every lag makes 2.0 predictions per
written token."""

import hashlib
from dataclasses import dataclass
from typing import Any

from hf_simultaneous.actions import Action, Predict, Read, State, Write


PATHS = {
    10: "RRRRWRWRWWWRRRRWWRWWW",
    28: "RRWRWRRRRWWRWRRWRWWRWWWRRWRWRWRWRWRRRWRWRWWRRWWWRWRRRWWWW",
    60: (
        "RWRWRRRRRWWRRWWRRWWWWRWWRRRWRRWRRWWRWWRRRWWWRRWRWWRWRWRRWRWWWRRRWRRWRWWWWRRWRRRWRRWRRWRWWWWWWRRRRWWW"
        "RWRRWWRRRWRRRWWRWWWWW"
    ),
    120: (
        "RRWWRRRRWWWRRWRRWRWRRWWRRWRWWRRWRRWRRWWWWWWRWRRRRWRWWRWRWRWRWRRWRRRWRWWWRWWRWWRWRWRWRRWRRRWRWRWRWRRW"
        "WWWRRWRWRWRWRWRRWRWWRRWWWRRWWWWRRWRWWRRWWRWRRRWWRRRWRWWWWWRRRRRRWRWRRWWWRWWWRWRWRRRRRWRWWRRWWWWWRWRW"
        "RRWRRWRWWRRWRRWWWRWRWWRWRWRWRRRRWWRRWWWWW"
    ),
    200: (
        "RRRWRRWRWWRWWRRRRWWWRRRWWRWRWRRWRWWWRWRWRRRRRRWRWWRWWWWRRWRWWWRRRWRWRWWWRWWWRRWRWRWWRWRRWRWRWWRRRRWR"
        "WRWRWRWRRWWRRRRWWRRRWWWRRWWWWRWRWRWRWWRWWWRRRWRWRWRRRRRWRWWWWRRRWRWRWRWWWWRRWWRRRRRWRWWWRRWRWWRRWWRW"
        "RWRRRWRWWWWRRRRRWWRWWWWRWRRRWRWWRWWRWRWRWRRWWRRRWWRRRWWRWRWWWRRWWWRWRRRRWWWWRRRRWRWWRRWRRWRWRRWWWWWR"
        "RWWWRRWRWWRRRWWRRWWRWWRRWRRRRRWWWRRRWRRWWWWWWWRRWRRWRWWRRWWRRWWWWRRWRWRWWRRRRWWRRRWWRRRWWWRWWWRWRWRW"
        "W"
    ),
}

TAIL_K = 10


def wait_k_path(k: int, length: int) -> str:
    """Wait-k as a path: `length` tokens read and written."""
    reads = min(k, length)
    return "R" * reads + "WR" * (length - reads) + "W" * reads


@dataclass(frozen=True)
class Replay:
    """Follow a path whatever the models say. `always` asks at every lag, as the adaptive policy
    does."""

    path: str
    tokens: tuple[int, ...]
    always: bool = True
    k: int | None = None
    """The k to ask for: by default the lag, and after the source `TAIL_K`."""

    def __call__(self, state: State, predict: Predict) -> Action:
        read, written = len(state.source), len(state.target)
        write = self.path[read + written] == "W"
        if read and (write or (self.always and state.lag >= 1)):
            predict(self.k or (TAIL_K if state.source_ended else state.lag))
        return Write(self.tokens[written]) if write else Read()


@dataclass(frozen=True)
class Paced:
    """Asks what another policy asks, and writes the models' own tokens, but at the pace of a path:
    what random weights are sure of says nothing."""

    path: str
    policy: Any

    def __call__(self, state: State, predict: Predict) -> Action:
        self.policy(state, predict)
        if self.path[len(state.source) + len(state.target)] == "R":
            return Read()
        return Write(self.policy.look(state, predict).token)


@dataclass(frozen=True)
class RandomWalk:
    """Reads and writes by the toss of a coin that is the same in every run, lag 1 to 9, asking
    every time."""

    length: int
    vocab: int

    def __call__(self, state: State, predict: Predict) -> Action:
        written = len(state.target)
        if state.source_ended:
            predict(TAIL_K)
            return Write(self._token(state))
        if state.lag < 1:
            return Read()
        predict(state.lag)
        coin = hashlib.blake2b(
            f"{state.source[0]} {len(state.source)} {written}".encode()
        ).digest()[0]
        return Write(self._token(state)) if state.lag >= 9 or coin < 128 else Read()

    def _token(self, state: State) -> int:
        return 4 + (31 * len(state.target) + state.source[0]) % (self.vocab - 4)
