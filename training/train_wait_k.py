"""Trains one model: wait-k for one k, full sentences, or all k at once; from raw text to a folder
that loads.

    python -m training.train_wait_k --config training/configs/toy.yaml --k 3 --output runs/wait-3

Under `torchrun` or `accelerate launch` the same command trains on several processes. Knows the
order of things; each thing itself is another module's."""

import logging
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from accelerate import Accelerator
from accelerate.utils import is_tensorboard_available, is_trackio_available, set_seed
from transformers import PreTrainedModel

from hf_simultaneous import FullSentence, SimultaneousMTModel, WaitK
from hf_simultaneous.evaluation import Decoding, Scores, Scoring, evaluate
from hf_simultaneous.schedule import FULL, K
from hf_simultaneous.sets import policy_name
from hf_simultaneous.sharing.hub import check_name

from .batches import Batches, Draw
from .checked import InputError
from .checkpoints import Checkpoints
from .command import command_line, exit_code
from .data import Corpus, prepare
from .disk import require_space, writing
from .finish import CHECKPOINTS, Facts, push, read_facts, save_finished
from .options import MULTI, RunConfig, TrainedK, TrainOptions, load_config, parse_k
from .prefixes import PrefixBatches
from .starting import (
    bytes_needed,
    check_folder,
    claimed,
    keep_freed_memory,
    make_model,
    tokenizer_of,
)
from .stock import generator_of, is_stock
from .trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the command line asks for."""

    config: RunConfig
    k: TrainedK
    output: Path
    init_from: str | None = None
    resume: bool = False
    max_steps: int | None = None
    push_to_hub: str | None = None

    def __post_init__(self) -> None:
        if self.max_steps is not None and self.max_steps < 1:
            raise InputError(f"--max-steps must be at least 1; got {self.max_steps}")
        if self.push_to_hub is not None:
            try:
                check_name(self.push_to_hub)  # now, and not when the model is trained
            except ValueError as error:
                raise InputError(f"--push-to-hub: {error}") from None

    @property
    def steps(self) -> int:
        return self.max_steps or self.config.training.max_steps

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this run from others."""
        return {"config": self.config.as_dict(), "k": self.k, "init_from": self.init_from}

    @property
    def finished(self) -> dict[str, Any] | None:
        """The facts of this run, if nothing is left of it to be done."""
        facts = read_facts(self.output)
        done = facts is not None and (facts["steps"] >= self.steps or facts.get("stopped_early"))
        return facts if done else None

    @property
    def wait_k(self) -> int | None:
        """The k the model is known by: None for full sentences and for all k at once."""
        return self.k if isinstance(self.k, int) else None

    @property
    def scored(self) -> dict[str, K]:
        """The policies the model is scored under, by name."""
        if self.k != MULTI:
            return {policy_name(self.k): self.k}
        drawn = self.config.training.multi_ks
        ks = sorted(k for k in drawn if k != FULL)
        few: list[K] = [*ks[:1], *ks[len(ks) // 2 : len(ks) // 2 + 1]]
        few += [FULL] if FULL in drawn else []
        return {policy_name(k): k for k in few}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    keep_freed_memory()
    transformers.utils.logging.disable_progress_bar()  # one bar is enough
    logging.getLogger("accelerate.utils.other").setLevel(
        logging.ERROR
    )  # tied weights are saved once, as they should
    return exit_code(
        lambda: train(parse(arguments)),
        mendable=(InputError,),
        interrupted="the same command with --resume goes on from the last checkpoint",
    )


def parse(arguments: Sequence[str] | None) -> Run:
    parser = command_line("train_wait_k", __doc__)
    parser.add_argument("--config", required=True, help="a YAML file, see training/configs")
    parser.add_argument(
        "--k", required=True, help="a number, 'full' for full sentences, 'multi' for all k at once"
    )
    parser.add_argument(
        "--output", required=True, type=Path, help="the finished model; checkpoints in a subfolder"
    )
    parser.add_argument(
        "--init-from",
        help="start from this checkpoint: of ours, any Marian's, or of another family (NLLB, T5); "
        "not from the config's `init`, or nothing",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from the last checkpoint in --output"
    )
    parser.add_argument(
        "--max-steps", type=int, help="stop here; the schedule stays that of the config"
    )
    parser.add_argument("--seed", type=int, help="instead of the config's")
    parser.add_argument(
        "--push-to-hub", metavar="USER/NAME", help="share the finished model under this name"
    )
    given = parser.parse_args(arguments)
    k = parse_k(given.k)
    if given.seed is not None and given.seed < 0:
        raise InputError(f"--seed must be at least 0; got {given.seed}")
    config = load_config(given.config)
    return Run(
        config=config.for_run(k, init_from=given.init_from, seed=given.seed),
        k=k,
        output=given.output,
        init_from=given.init_from or config.init,
        resume=given.resume,
        max_steps=given.max_steps,
        push_to_hub=given.push_to_hub,
    )


def train(run: Run) -> Facts | None:
    """Train, score and save; None where the run was finished before, and on all processes but the
    first."""
    accelerator = _accelerator(run.config.training, run.output)
    facts = _train(run, accelerator)
    # a model shared by processes must be gone before the link between them is
    accelerator.free_memory()
    accelerator.end_training()
    return facts


def _train(run: Run, accelerator: Accelerator) -> Facts | None:
    options, first = run.config.training, accelerator.is_main_process
    if first:
        check_folder(run.output, run.identity, run.resume)
    finished = run.finished
    if finished is not None:
        accelerator.print(f"{run.output} is finished: {finished['steps']} steps")
        _share(run, first)
        return None
    with accelerator.main_process_first():  # the others find the data in the cache
        corpus = prepare(run.config.data, run.config.tokenizer, tokenizer_of(run.init_from))
    for split, cleaning in corpus.cleaning.items():
        accelerator.print(f"{split}: {cleaning}")
    set_seed(options.seed)
    model = make_model(run.config, run.wait_k, corpus.tokenizer, run.init_from)
    if accelerator.device.type == "cpu" and isinstance(model, SimultaneousMTModel):
        # Going back through torch's fused attention takes four times as long for short sentences.
        model.set_attn_implementation("eager")
    require_space(
        run.output, bytes_needed(model, options.keep_checkpoints + (options.average or 0))
    )
    set_seed(
        options.seed, device_specific=True
    )  # the same weights everywhere, but not the same dropout
    trainer = _trainer(run, corpus, model, accelerator)
    with claimed(run.output, run.identity) if first else nullcontext():
        if run.resume and trainer.resume():
            accelerator.print(f"going on from step {trainer.progress.step}")
        trainer.fit(run.steps)
        return _finish(run, corpus, trainer)


def _accelerator(options: TrainOptions, folder: Path) -> Accelerator:
    gpu = torch.cuda.is_available()
    precision = options.precision
    if precision == "auto":
        precision = "bf16" if gpu and torch.cuda.is_bf16_supported() else "no"
    trackers = {"trackio": is_trackio_available, "tensorboard": is_tensorboard_available}
    if options.tracker is not None and not trackers[options.tracker]():
        raise InputError(
            f"training.tracker: {options.tracker} is not installed; pip install {options.tracker}"
        )
    accelerator = Accelerator(
        cpu=not gpu, mixed_precision=precision, log_with=options.tracker, project_dir=str(folder)
    )
    if options.tracker is not None:
        accelerator.init_trackers("hf_simultaneous")
    return accelerator


def _trainer(run: Run, corpus: Corpus, model: PreTrainedModel, accelerator: Accelerator) -> Trainer:
    options = run.config.training
    train = _batches(
        run,
        corpus,
        "train",
        model,
        batches_per_step=options.batches_per_step,
        seed=options.seed,
    )
    dev = _batches(run, corpus, "dev", model)

    def score_dev(trained: PreTrainedModel) -> dict[str, Scores]:
        return _score(run, corpus, "dev", trained, options.score_sentences)

    checkpoints = Checkpoints(
        run.output / CHECKPOINTS,
        options.keep_checkpoints,
        accelerator.print,
        looks=options.average or 0,
    )
    return Trainer(
        model,
        train,
        dev,
        options,
        accelerator=accelerator,
        checkpoints=checkpoints,
        score=score_dev,
    )


def _batches(
    run: Run, corpus: Corpus, split: str, model: PreTrainedModel, **cutting: int
) -> Batches:
    """A split under the k of this run; of prefixes, for a model that has no wait-k of its own."""
    options, ks = run.config.training, run.config.training.multi_ks
    cutting = {"batch_tokens": options.batch_tokens, **cutting}
    rows = corpus.splits[split]
    if not is_stock(model.config):
        draw = Draw(ks=ks, per=options.multi_draw, paths=options.multi_paths)
        return Batches(rows, corpus.tokenizer, draw=draw if run.k == MULTI else None, **cutting)
    if options.multi_paths:
        raise InputError(
            f"multi_paths is for models that know wait-k; {model.config.model_type} is trained on "
            f"prefixes. Set it to 0"
        )
    generator = generator_of(run.config, run.wait_k or FULL, model, corpus.tokenizer)
    return PrefixBatches(
        rows,
        corpus.tokenizer,
        framing=generator.framing,
        catchup=generator.catchup,
        draw=Draw(ks=ks if run.k == MULTI else [run.k], per=options.multi_draw),
        **cutting,
    )


def _score(
    run: Run, corpus: Corpus, split: str, model: PreTrainedModel, sentences: int | None = None
) -> dict[str, Scores]:
    """What `hf-simultaneous evaluate` says of this model. All processes share the sentences, so all
    must call it."""
    rows = corpus.splits[split][:sentences]
    training = model.training
    found = {}
    for name, k in run.scored.items():
        found[name] = evaluate(
            generator_of(run.config, run.wait_k or FULL, model, corpus.tokenizer),
            list(rows["source"]),
            list(rows["target"]),
            FullSentence() if k == FULL else WaitK(k),
            decoding=Decoding(timed=0, progress=False),
            scoring=Scoring(bootstrap=None),
        ).scores
    model.train(training)  # evaluating turns it off
    return found


def _finish(run: Run, corpus: Corpus, trainer: Trainer) -> Facts | None:
    """Take the best weights, score them, and leave the folder as a model."""
    accelerator, progress = trainer.accelerator, trainer.progress
    chosen = trainer.choose()
    state_dict = accelerator.get_state_dict(trainer.model)
    model = accelerator.unwrap_model(trainer.model)
    wanted = ("dev", "test") if run.config.training.score_test else ("dev",)
    splits = [split for split in wanted if split in corpus.splits]
    scores = {split: _score(run, corpus, split, model) for split in splits}
    if not accelerator.is_main_process:
        return None
    facts = Facts(
        k=run.k,
        steps=progress.step,
        best_step=chosen.step,
        dev_loss=chosen.dev_loss,
        averaged=chosen.averaged,
        ema=chosen.ema,
        seed=run.config.training.seed,
        init_from=run.init_from,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        seconds=progress.seconds,
        data=_describe_data(run.config),
        cleaning={split: str(cleaning) for split, cleaning in corpus.cleaning.items()},
        scores={
            split: {name: one.as_dict() for name, one in found.items()}
            for split, found in scores.items()
        },
        history=progress.history,
        config=run.config.as_dict(),
        stopped_early=trainer.out_of_patience,
    )
    with writing(run.output):
        generator = generator_of(run.config, run.wait_k or FULL, model, corpus.tokenizer)
        save_finished(run.output, generator, facts, state_dict)
    for split, found in scores.items():
        print(f"{split}: " + "; ".join(f"{name} {one}" for name, one in found.items()))
    print(f"finished: {run.output}")
    _share(run, first=True)
    return facts


def _share(run: Run, first: bool) -> None:
    if first and run.push_to_hub is not None:
        print(f"shared as {push(run.output, run.push_to_hub)}")


def _describe_data(config: RunConfig) -> str:
    data = config.data
    files = [part.files if isinstance(part.files, list) else [part.files] for part in data.parts]
    # where they lie is nobody else's business
    names = [Path(place).name for places in files for place in places]
    return data.description or " ".join(
        name for name in (data.dataset, data.subset, *names) if name
    )


if __name__ == "__main__":
    sys.exit(main())
