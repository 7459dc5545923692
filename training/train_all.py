"""Trains a whole set: a first model, then one for each k from it, and leaves them as one set that
loads.

    python -m training.train_all --config training/configs/toy.yaml --output runs/toy --ks 1,3,5

Knows which runs there are and what each needs; a run itself is a process of `train_wait_k`, with a
log of its own."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

from hf_simultaneous import AdaptiveWaitKGenerator, linear_thresholds
from hf_simultaneous.places import is_set
from hf_simultaneous.schedule import FULL, K
from hf_simultaneous.sets import member_folder, policy_name, read_set_config
from hf_simultaneous.sharing.cards import hand_edited, write_card

from . import train_wait_k
from .checked import InputError
from .command import command_line, exit_code
from .data import prepare
from .disk import check_is_folder
from .finish import FACTS, read_facts
from .options import MULTI, RunConfig, TrainedK, load_config, parse_ks
from .starting import RUN, check_folder, tokenizer_of


SET = "set"
FIRST = "first"
SEEDS_APART = 1000
"""Between the seeds of two bases: more than any k."""


@dataclass(frozen=True)
class Job:
    """One model: the name of its folder, its k, the name of the model it starts from, and which of
    the bases it belongs to, counted from 0."""

    name: str
    k: TrainedK
    start: str | None = None
    origin: int = 0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the command line asks for."""

    config_file: str
    config: RunConfig
    output: Path
    ks: list[int]
    resume: bool = False
    jobs: int = 1

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InputError(f"--jobs must be at least 1; got {self.jobs}")

    @property
    def bases(self) -> list[Job]:
        """What is trained before the others, one after another."""
        return [job for number in range(self.config.set.bases) for job in self._base(number)]

    def _base(self, number: int) -> list[Job]:
        """One base, with what it needs; each has weights of its own from the very start."""
        base = self.config.set.base
        if base == "none":
            return []
        name = _numbered(base, number)
        if base != "full-multi":
            return [Job(name, base, None, number)]
        first, multi = _numbered(FIRST, number), _numbered(MULTI, number)
        full = [Job(FULL, FULL, first, number)] if number == 0 else []
        return [Job(first, FULL, None, number), *full, Job(multi, MULTI, first, number)]

    @property
    def members(self) -> list[Job]:
        """What starts from a base: every k, each from the next one, and full sentences where no
        base is for them already."""
        options = self.config.set
        last = MULTI if options.base == "full-multi" else options.base
        ks = []
        for index, k in enumerate(self.ks):
            origin = index % options.bases
            start = None if options.base == "none" else _numbered(last, origin)
            ks.append(Job(policy_name(k), k, start, origin))
        start = None if options.base == "none" else last
        return ks if FULL in [job.name for job in self.bases] else [*ks, Job(FULL, FULL, start)]

    def command(self, job: Job, processes: int) -> list[str]:
        """The process that trains a model."""
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        started = [sys.executable, *(launcher if processes > 1 else [])]
        return [*started, "-m", "training.train_wait_k", *self.options(job)]

    def options(self, job: Job) -> list[str]:
        """What that process is told."""
        start = ["--init-from", str(self.output / job.start)] if job.start is not None else []
        # Each k sees the data in another order: what members of an ensemble have in common,
        # averaging cannot mend.
        seed = self.config.training.seed + (job.k if isinstance(job.k, int) else 0)
        seed += SEEDS_APART * job.origin
        place = str(self.output / job.name)
        given = ["--resume", "--config", self.config_file, "--k", str(job.k), "--output", place]
        return [*given, *start, "--seed", str(seed)]


def _numbered(name: str, number: int) -> str:
    return name if number == 0 else f"{name}-{number + 1}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    transformers.utils.logging.disable_progress_bar()
    return exit_code(
        lambda: train_all(parse(arguments)),
        mendable=(InputError,),
        interrupted="the same command with --resume goes on",
    )


def parse(arguments: Sequence[str] | None) -> Plan:
    parser = command_line("train_all", __doc__)
    parser.add_argument("--config", required=True, help="a YAML file, see training/configs")
    parser.add_argument(
        "--output", required=True, type=Path, help="one folder for each model, and the set in 'set'"
    )
    parser.add_argument("--ks", help="such as 1,3,5; by default those of the config")
    parser.add_argument(
        "--resume", action="store_true", help="skip what is finished, go on with what is not"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=_devices(),
        help="models at once; by default one per GPU or core",
    )
    given = parser.parse_args(arguments)
    config = load_config(given.config)
    return Plan(
        config_file=given.config,
        config=config,
        output=given.output,
        ks=parse_ks(given.ks) if given.ks else sorted(config.set.ks),
        resume=given.resume,
        jobs=given.jobs,
    )


def train_all(plan: Plan) -> Path:
    """Train what is missing; returns the folder of the set."""
    check_is_folder(plan.output)
    if not plan.resume and plan.output.exists() and any(plan.output.iterdir()):
        raise InputError(
            f"--output {plan.output} is not empty; go on with --resume, or give another folder"
        )
    # bad data is named here, and not in the log of every model
    prepare(plan.config.data, plan.config.tokenizer, tokenizer_of(plan.config.init))
    jobs = [*plan.bases, *plan.members]
    for job in jobs:  # all of them before any is trained for hours
        _check(plan, job)
    missing = [job for job in jobs if _finished(plan, job) is None]
    plan.output.mkdir(parents=True, exist_ok=True)
    for base in plan.bases:
        _train(plan, base, processes=_shares(plan))
    failures = _train_members(plan)
    if failures:
        raise InputError("; ".join(failures))
    folder = plan.output / SET
    if not missing and _holds(folder, plan):
        # what was found since, such as ensembles and operating points, is kept nowhere else
        print(f"set: {folder}, as it was; to make it anew, remove it first")
        return folder
    return _save_set(plan)


def _check(plan: Plan, job: Job) -> None:
    """Refuse the folder of a model that was trained otherwise than it is asked for."""
    if _borrowed(plan.output / job.name):
        return
    run = train_wait_k.parse(plan.options(job))
    try:
        check_folder(run.output, run.identity, resume=True)
    except InputError as error:
        raise InputError(f"{error}. To take a finished model as it is, remove its {RUN}") from None


def _finished(plan: Plan, job: Job) -> dict[str, Any] | None:
    """The facts of a model that need not be trained."""
    folder = plan.output / job.name
    if _borrowed(folder):
        return read_facts(folder)
    return train_wait_k.parse(plan.options(job)).finished


def _borrowed(folder: Path) -> bool:
    """Is this a finished model that was put here, of a run that was not this one's?"""
    return not (folder / RUN).exists() and read_facts(folder) is not None


def _holds(folder: Path, plan: Plan) -> bool:
    """Is there a set, of the very members that are asked for?"""
    if not is_set(folder):
        return False
    return {*read_set_config(folder)["members"]} == {*map(str, plan.ks), FULL}


def _train_members(plan: Plan) -> list[str]:
    """All that starts from the last base, some at once; what went wrong with any, so that the
    others go on."""
    slots: Queue[int] = Queue()
    for slot in range(plan.jobs):
        slots.put(slot)

    def train_in_slot(job: Job) -> str | None:
        slot = slots.get()
        try:
            _train(plan, job, gpu=slot)
        except InputError as error:
            return str(error)
        finally:
            slots.put(slot)
        return None

    with ThreadPoolExecutor(plan.jobs) as pool:
        try:
            return [
                failure for failure in pool.map(train_in_slot, plan.members) if failure is not None
            ]
        except (
            KeyboardInterrupt
        ):  # it reaches the processes too; here only what has not begun is to be called off
            pool.shutdown(cancel_futures=True)
            raise


def _train(plan: Plan, job: Job, *, processes: int = 1, gpu: int | None = None) -> None:
    """Run the process that trains one model, unless that is done."""
    facts = _finished(plan, job)
    if facts is not None:
        print(f"{job.name}: finished before, {_outcome(facts)}")
        return
    log = plan.output / f"{job.name}.log"
    print(f"{job.name}: training, see {log}", flush=True)
    with open(log, "a") as lines:
        settings = _settings(plan, job, processes, gpu)
        code = subprocess.run(
            plan.command(job, processes), stdout=lines, stderr=lines, env=settings
        ).returncode
    facts = read_facts(plan.output / job.name)
    if code or facts is None:
        raise InputError(f"{job.name} failed with exit code {code}: {_last_line(log)} (see {log})")
    print(f"{job.name}: {_outcome(facts)}", flush=True)


def _settings(plan: Plan, job: Job, processes: int, gpu: int | None) -> dict[str, str]:
    """Environment of a process: its share of the cores, or a GPU of its own."""
    alone = job in plan.bases and processes == 1
    share = {"OMP_NUM_THREADS": str(plan.jobs if alone else 1), "GLOO_SOCKET_IFNAME": "lo"}
    one_gpu = (
        {"CUDA_VISIBLE_DEVICES": str(gpu)} if gpu is not None and torch.cuda.is_available() else {}
    )
    return {**share, **os.environ, **one_gpu}


def _devices() -> int:
    return torch.cuda.device_count() or len(os.sched_getaffinity(0))


def _shares(plan: Plan) -> int:
    """How many processes share the steps of a base; several of one thread are faster than one of
    several."""
    return plan.jobs if plan.config.training.batches_per_step % plan.jobs == 0 else 1


def _outcome(facts: dict[str, Any]) -> str:
    scores = [
        (split, name, s) for split, found in facts["scores"].items() for name, s in found.items()
    ]
    text = [f"{split} {name} BLEU {s['bleu']:.2f}, AL {s['al']:.3f}" for split, name, s in scores]
    return f"{facts['steps']} steps, {facts['seconds'] / 60:.1f} min; " + "; ".join(text)


def _last_line(log: Path) -> str:
    lines = [
        line
        for line in log.read_text(errors="replace").replace("\r", "\n").splitlines()
        if line.strip()
    ]
    errors = [line for line in lines if line.startswith("error: ")]
    raised = [line for line in lines if re.match(r"\w*(Error|Exception): ", line)]
    return (errors or raised[:1] or lines or ["no output"])[-1].removeprefix("error: ")


def _save_set(plan: Plan) -> Path:
    """Everything that was trained, as one generator with thresholds that fall in a line."""
    options, ks = plan.config.set, plan.ks
    members: list[K] = [*ks, FULL]
    folders = {k: plan.output / policy_name(k) for k in members}
    # each is a set of one, and says which languages it was told
    singles = {k: AdaptiveWaitKGenerator.from_pretrained(folders[k]) for k in members}
    one = singles[FULL]
    generator = AdaptiveWaitKGenerator(
        models={k: single.model for k, single in singles.items()},
        tokenizer=one.tokenizer,
        thresholds=linear_thresholds(
            options.first_threshold, options.last_threshold, min(ks), max(options.k_max or 1, *ks)
        ),
        ensembles="single",
        early_stop=options.early_stop,
        source_language=one.source_language,
        target_language=one.target_language,
    )
    folder = plan.output / SET
    edited = hand_edited(folder)
    generator.save_pretrained(folder)
    if options.half:
        _halve(folder)
    for k, trained in folders.items():
        shutil.copy(trained / FACTS, folder / member_folder(k, generator.root))
    if not edited:
        write_card(folder, overwrite=True)
    print(f"set: {folder}")
    return folder


def _halve(folder: Path) -> None:
    """Round the weights that are stored. What config.json says of them stays, so they are loaded in
    full precision."""
    for path in folder.rglob("*.safetensors"):
        beside = path.with_suffix(".tmp")
        save_file(
            {name: weight.half() for name, weight in load_file(path).items()},
            beside,
            metadata={"format": "pt"},
        )
        beside.replace(path)


if __name__ == "__main__":
    sys.exit(main())
