"""Averages the weights of a run's last checkpoints, and leaves the mean as a folder that loads.

    python -m training.average --run runs/multi --last 5 --output runs/multi-average

Checkpoints late in a run lie around the same minimum; their mean lies nearer to it than any of
them. Knows checkpoints and weights; the run may be finished or still going on, and is only read.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from hf_simultaneous import SimultaneousMTModel
from hf_simultaneous.sharing.cards import write_card

from .checked import InputError, build
from .checkpoints import Checkpoints
from .command import command_line, exit_code
from .data import prepare
from .data_options import DataOptions
from .disk import require_empty, writing
from .finish import CHECKPOINTS, FACTS
from .options import RunConfig, TrainOptions
from .starting import RUN, make_model, read_run, tokenizer_of
from .stock import OWN, kind_of
from .tokenizer import TokenizerOptions


WEIGHTS = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for."""

    run: Path
    output: Path
    last: int = 5
    steps: tuple[int, ...] = ()
    """These checkpoints, and not the last ones."""

    def __post_init__(self) -> None:
        if self.last < 1:
            raise InputError(f"--last must be at least 1; got {self.last}")
        if not (self.run / RUN).is_file():
            raise InputError(f"--run {self.run} is not the folder of a run: it holds no {RUN}")
        require_empty(self.output)


def mean_of(weights: Iterable[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The mean of each weight, summed in double precision, in the precision of the first."""
    sums: dict[str, torch.Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    count = 0
    for count, found in enumerate(weights, start=1):
        if count > 1 and found.keys() != sums.keys():
            odd = sorted(found.keys() ^ sums.keys())
            raise InputError(
                f"checkpoints of different models have no mean: {odd[0]} is not in all"
            )
        for name, weight in found.items():
            kinds.setdefault(name, weight.dtype)
            sums[name] = weight.double() + sums.get(name, 0.0)
    return {name: (total / count).to(kinds[name]) for name, total in sums.items()}


class RunningMean:
    """An exponential mean of weights in training; `accelerate` keeps it in the checkpoints."""

    def __init__(self, weights: Mapping[str, torch.Tensor], decay: float):
        self.weights = {name: weight.clone() for name, weight in weights.items()}
        self.decay = decay

    def update(self, weights: Mapping[str, torch.Tensor], step: int) -> None:
        """Take in the weights after a step; the first, which are far off, are soon forgotten."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, mean in self.weights.items():
            mean.lerp_(weights[name], 1 - decay)

    def state_dict(self) -> dict[str, torch.Tensor]:
        return self.weights

    def load_state_dict(self, weights: Mapping[str, torch.Tensor]) -> None:
        for name, mean in self.weights.items():
            mean.copy_(weights[name])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    transformers.utils.logging.disable_progress_bar()
    return exit_code(lambda: average(parse(arguments)))


def parse(arguments: Sequence[str] | None) -> Request:
    parser = command_line("average", __doc__)
    parser.add_argument("--run", required=True, type=Path, help="a folder of train_wait_k")
    parser.add_argument("--output", required=True, type=Path, help="a new folder for the mean")
    parser.add_argument("--last", type=int, default=5, help="how many checkpoints (5)")
    parser.add_argument("--steps", help="these instead, such as 3800,4000,4200")
    given = parser.parse_args(arguments)
    return Request(
        run=given.run, output=given.output, last=given.last, steps=_steps(given.steps or "")
    )


def average(request: Request) -> list[int]:
    """Write the mean; returns the steps it was made of."""
    checkpoints = Checkpoints(request.run / CHECKPOINTS)
    steps = _chosen(checkpoints, request)
    model, tokenizer = _model_of(request.run)
    model.load_state_dict(mean_of(_weights(checkpoints, step) for step in steps), strict=False)
    model.tie_weights()
    request.output.mkdir(parents=True, exist_ok=True)
    with writing(request.output):
        model.save_pretrained(request.output)
        tokenizer.save_pretrained(request.output)
        facts = _facts(request.run, checkpoints, steps)
        facts["parameters"] = sum(weight.numel() for weight in model.parameters())
        (request.output / FACTS).write_text(json.dumps(facts, indent=2, ensure_ascii=False))
        write_card(request.output)
    print(f"mean of steps {', '.join(map(str, steps))}: {request.output}")
    return steps


def _steps(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"--steps lists numbers, such as 3800,4000; got {text!r}")
    return tuple(sorted({int(part) for part in parts}))


def _chosen(checkpoints: Checkpoints, request: Request) -> list[int]:
    there = checkpoints.steps()
    missing = [step for step in request.steps if step not in there]
    if missing or len(there) < (1 if request.steps else request.last):
        wanted = f"step {missing[0]}" if missing else f"{request.last} checkpoints"
        raise InputError(
            f"{checkpoints.folder} does not hold {wanted}; the steps there are "
            f"{', '.join(map(str, there)) or 'none'}"
        )
    return list(request.steps) or there[-request.last :]


def _weights(checkpoints: Checkpoints, step: int) -> dict[str, torch.Tensor]:
    fault = checkpoints.fault(step)
    if fault is None and not (checkpoints.path(step) / WEIGHTS).is_file():
        fault = f"{WEIGHTS} is missing"
    if fault is not None:
        raise InputError(f"checkpoint {checkpoints.path(step)} cannot be used: {fault}")
    return load_file(checkpoints.path(step) / WEIGHTS)


def _model_of(run: Path) -> tuple[SimultaneousMTModel, PreTrainedTokenizerBase]:
    """A model of the run's shape: that of the finished folder, or one made as the run made it."""
    start = read_run(run)["init_from"]
    made = run if (run / "config.json").is_file() else start
    if made is not None and kind_of(str(made)) not in OWN:
        raise InputError(
            f"--run {run} trains a model of the family {kind_of(str(made))!r}; only those of "
            f"{' and '.join(OWN)} can be averaged. training.ema in its config is a mean for any"
        )
    if (run / "config.json").is_file():
        return SimultaneousMTModel.from_pretrained(run), AutoTokenizer.from_pretrained(run)
    identity = read_run(run)
    sections, start, k = identity["config"], identity["init_from"], identity["k"]
    # How it is trained does not matter here, and may be written in the words of an older version.
    config = RunConfig(
        data=build(DataOptions, sections["data"], str(run / RUN), "data"),
        tokenizer=build(TokenizerOptions, sections["tokenizer"], str(run / RUN), "tokenizer"),
        model=sections["model"],
        training=TrainOptions(max_steps=1, learning_rate=1.0),
    )
    tokenizer = prepare(config.data, config.tokenizer, tokenizer_of(start)).tokenizer
    return make_model(config, k if isinstance(k, int) else None, tokenizer, start), tokenizer


def _facts(run: Path, checkpoints: Checkpoints, steps: Sequence[int]) -> dict[str, Any]:
    """What is known of the mean: what it shares with its run, and no scores."""
    identity = read_run(run)
    progress = checkpoints.progress(steps[-1])
    return {
        "k": identity["k"],
        "init_from": identity["init_from"],
        "steps": progress.step,
        "averaged": list(steps),
        "seed": identity["config"]["training"]["seed"],
        "seconds": progress.seconds,
        "data": identity["config"]["data"]["description"],
        "scores": {},
        "history": progress.history,
        "config": identity["config"],
    }


if __name__ == "__main__":
    sys.exit(main())
