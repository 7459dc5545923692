"""The training loop: steps, learning rate, looks at the dev set, checkpoints, and going on from one
of them.

Knows tensors and processes; where the data came from and what becomes of the model afterwards it
does not."""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from accelerate import Accelerator, DistributedType
from tqdm import tqdm
from transformers import PreTrainedModel

from hf_simultaneous.evaluation import Scores

from .average import RunningMean, mean_of
from .batches import Batch, Batches, Step
from .checked import InputError
from .checkpoints import BESIDE, Checkpoints, Progress
from .clock import Clock
from .disk import writing
from .losses import r_drop, summed
from .options import TrainOptions


def learning_rate(step: int, options: TrainOptions) -> float:
    """The rate of a step, counted from 1: up in a line to the peak, then down."""
    warmup = max(options.warmup_steps, 1)
    if step < warmup:
        return options.learning_rate * step / warmup
    if options.schedule == "inverse_sqrt":
        return options.learning_rate * math.sqrt(warmup / step)
    done = min(1.0, (step - warmup) / max(1, options.max_steps - warmup))
    return options.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Chosen:
    """The weights a run ends with."""

    step: int
    dev_loss: float
    averaged: list[int] = field(default_factory=list)
    """The steps whose mean they are; empty for the weights of one step."""
    ema: float | None = None
    """The factor of the mean they are, where they are that."""


class Trainer:
    """Trains a model on batches until it is told to stop or stops getting better."""

    def __init__(
        self,
        model: PreTrainedModel,
        train: Batches,
        dev: Batches,
        options: TrainOptions,
        *,
        accelerator: Accelerator,
        checkpoints: Checkpoints,
        score: Callable[[torch.nn.Module], dict[str, Scores]] | None = None,
    ):
        processes = accelerator.num_processes
        if options.batches_per_step % processes:
            raise InputError(
                f"training.batches_per_step is {options.batches_per_step}, which {processes} "
                f"processes cannot share "
                f"equally; set it to {processes} or a multiple of it (batch_tokens smaller for the "
                f"same training)"
            )
        self.train, self.dev, self.options, self.checkpoints, self.score = (
            train,
            dev,
            options,
            checkpoints,
            score,
        )
        self.accelerator = accelerator
        if options.freeze_encoder:
            model.get_encoder().requires_grad_(False)
        optimizer = torch.optim.AdamW(
            [weight for weight in model.parameters() if weight.requires_grad],
            lr=options.learning_rate,
            betas=(0.9, options.adam_beta2),
            weight_decay=options.weight_decay,
            fused=True,
        )
        self.model, self.optimizer = accelerator.prepare(model, optimizer)
        self.mean = self._running_mean()
        self.progress = Progress()
        # Summed where it arises, so that no step waits for the device; in double, so that nothing
        # is lost on the way.
        self._loss = torch.zeros((), dtype=torch.float64, device=accelerator.device)
        self._clock = Clock()

    def resume(self) -> bool:
        """Go on from the latest intact checkpoint; False where there is none."""
        progress = self.checkpoints.latest()
        if progress is None:
            return False
        self.load(progress.step)
        self.progress = progress
        self._loss.fill_(progress.loss_sum if self.accelerator.is_main_process else 0.0)
        return True

    def load(self, step: int) -> None:
        """Weights, optimiser and random states of a checkpoint."""
        self.accelerator.load_state(str(self.checkpoints.path(step)))

    def choose(self) -> Chosen:
        """Leave the weights with the lowest dev loss in the model: the last, the best of any look,
        or a mean that the options ask for."""
        progress = self.progress
        found: list[tuple[Chosen, Weights | None]] = [
            (Chosen(progress.step, self.dev_loss()), None)
        ]
        if progress.best_step is not None and progress.best_loss is not None:
            found.append((Chosen(progress.best_step, progress.best_loss), None))
        for mean, weights in self._means():
            self._put(weights)
            found.append((replace(mean, dev_loss=self.dev_loss()), weights))
        best, its_weights = min(found, key=lambda entry: entry[0].dev_loss)
        if its_weights is None:
            self.load(best.step)
        else:
            self._put(its_weights)
        return best

    def fit(self, max_steps: int) -> None:
        """Train up to `max_steps`, counted from the very start of the run."""
        self.model.train()
        accelerator = self.accelerator
        seldom = (
            0.5 if sys.stderr.isatty() else 60.0
        )  # a log file need not hold every state of the bar
        bar = tqdm(
            total=max_steps,
            initial=self.progress.step,
            unit="step",
            mininterval=seldom,
            disable=self._quiet(),
        )
        self._clock.start()
        while self.progress.step < max_steps and not self.out_of_patience:
            steps = self.train.epoch(self.progress.epoch)
            todo = steps[self.progress.step_in_epoch :][: max_steps - self.progress.step]
            loaded = self.train.load(todo, accelerator.process_index, accelerator.num_processes)
            for step, batches in zip(todo, loaded, strict=True):
                self._update(step, batches)
                self._count(step, last=self.progress.step_in_epoch + 1 == len(steps))
                bar.update()
                self._after_step(bar)
                if self.out_of_patience:
                    break
        bar.close()
        if self.progress.step not in self.checkpoints.steps():
            self._checkpoint()

    @property
    def out_of_patience(self) -> bool:
        return (
            self.options.patience is not None
            and self.progress.without_best >= self.options.patience
        )

    def _update(self, step: Step, batches: Sequence[Batch]) -> None:
        """One update from this process's batches; the loss is a mean over the target tokens of all
        processes."""
        rate = learning_rate(self.progress.step + 1, self.options)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        share = (
            step.tokens / self.accelerator.num_processes
        )  # gradients of processes are averaged, not added
        for index, batch in enumerate(batches):
            last = index + 1 == len(batches)
            if last:
                self._backward(batch, share)
            else:
                with self.accelerator.no_sync(self.model):
                    self._backward(batch, share)
        if self.options.clip_norm is not None:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.options.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.mean is not None:
            self.mean.update(self._trained(), self.progress.step + 1)

    def _backward(self, batch: Batch, share: float) -> None:
        batch = self._to_device(batch)
        alpha = self.options.r_drop
        if alpha is None:
            loss = self._predict(batch, share).loss
            extra: torch.Tensor | float = 0.0
        else:
            twice = {name: torch.cat([value, value]) for name, value in batch.items()}
            output = self._predict(twice, 2 * share)
            loss = output.loss
            extra = alpha * r_drop(output.logits, twice["labels"]) / share
        self._loss += loss.detach() * share
        self.accelerator.backward(loss + extra)

    def _predict(self, batch: Batch, share: float) -> Any:
        """The model's output, its loss a mean over `share` tokens."""
        if "decoder_input_ids" not in batch:
            only = self.options.r_drop is None
            return self.model(**batch, num_items_in_batch=share, loss_only=only)
        # Other families than ours take the mean over the batch, and smooth nothing.
        output = self.model(**{name: batch[name] for name in batch if name != "labels"})
        config = self.accelerator.unwrap_model(self.model).config
        smoothing = getattr(config, "label_smoothing", 0.0)
        output.loss = summed(output.logits, batch["labels"], smoothing) / share
        return output

    def _trained(self) -> Weights:
        named = self.accelerator.unwrap_model(self.model).named_parameters()
        return {name: weight.detach() for name, weight in named if weight.requires_grad}

    def _weights_at(self, step: int) -> Weights:
        self.load(step)
        return self._trained()

    def _means(self) -> Iterator[tuple[Chosen, Weights]]:
        """The means asked for, their dev loss still unknown."""
        step, options = self.progress.step, self.options
        if self.mean is not None:
            # A copy: loading a checkpoint, as below, loads the mean of that step too.
            weights = {name: weight.clone() for name, weight in self.mean.weights.items()}
            yield Chosen(step, math.inf, ema=options.ema), weights
        steps = self.checkpoints.intact(self.progress.last_looks(options.average or 0))
        if len(steps) > 1:
            yield Chosen(steps[-1], math.inf, steps), mean_of(map(self._weights_at, steps))

    def _put(self, weights: Weights) -> None:
        for name, weight in self._trained().items():
            weight.copy_(weights[name])

    def _running_mean(self) -> RunningMean | None:
        if self.options.ema is None:
            return None
        if self.accelerator.distributed_type == DistributedType.FSDP:
            raise InputError("training.ema needs all weights on each process; use training.average")
        mean = RunningMean(self._trained(), self.options.ema)
        self.accelerator.register_for_checkpointing(mean)
        return mean

    def _count(self, step: Step, last: bool) -> None:
        progress = self.progress
        self._clock.tokens += step.tokens
        self.progress = replace(
            progress,
            step=progress.step + 1,
            epoch=progress.epoch + last,
            step_in_epoch=0 if last else progress.step_in_epoch + 1,
            loss_tokens=progress.loss_tokens + step.tokens,
        )

    def _after_step(self, bar: Any) -> None:
        step, options = self.progress.step, self.options
        if step % options.log_every == 0 and not self._quiet():
            # The others are not asked: for this, their losses are taken to be like ours.
            loss = self._loss.item() * self.accelerator.num_processes / self.progress.loss_tokens
            bar.set_postfix_str(
                f"loss {loss:.3f}, {self._clock.speed():.0f} tokens/s", refresh=False
            )
        look = step % options.evaluate_every == 0
        if look:
            self._look(bar)
        if look or (options.checkpoint_every is not None and step % options.checkpoint_every == 0):
            self._checkpoint()

    def _look(self, bar: Any) -> None:
        """Dev loss, now and then dev scores, and whether this is the best so far."""
        self._clock.stop()
        self._settle()
        progress = self.progress
        dev_loss = self.dev_loss()
        entry: dict[str, Any] = {
            "step": progress.step,
            "loss": progress.loss_sum / progress.loss_tokens,
            "dev_loss": dev_loss,
            "learning_rate": learning_rate(progress.step, self.options),
        }
        every = self.options.score_every
        if every is not None and progress.step % every == 0:
            entry |= self._scores()
        self._loss.zero_()
        better = progress.best_loss is None or dev_loss < progress.best_loss
        self.progress = replace(
            progress,
            loss_sum=0.0,
            loss_tokens=0,
            best_step=progress.step if better else progress.best_step,
            best_loss=dev_loss if better else progress.best_loss,
            without_best=0 if better else progress.without_best + 1,
            history=[*progress.history, entry],
        )
        self.accelerator.log(
            {name: value for name, value in entry.items() if name != "step"}, step=progress.step
        )
        self._tell(entry, bar.total)
        self._clock.start()

    @torch.no_grad()
    def dev_loss(self) -> float:
        """Cross-entropy per target token on the dev set, without label smoothing, under the k of
        this training."""
        accelerator = self.accelerator
        model = accelerator.unwrap_model(
            self.model
        )  # processes may have unequal shares: no waiting for each other
        model.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=accelerator.device)
        mine = self.dev.epoch(0)[accelerator.process_index :: accelerator.num_processes]
        for (batch,) in self.dev.load(mine):
            batch = self._to_device(batch)
            with accelerator.autocast():
                logits = model(**batch).logits
            labels = batch["labels"]
            sums[0] += summed(logits.float(), labels)
            sums[1] += (labels != -100).sum()
        model.train()
        total, tokens = accelerator.reduce(sums).tolist()
        return total / tokens

    def _scores(self) -> dict[str, float]:
        if self.score is None:
            return {}
        found = self.score(self.accelerator.unwrap_model(self.model))
        return {
            f"{name}_{policy}": scores[name]
            for policy, scores in found.items()
            for name in ("bleu", "al")
        }

    def _settle(self) -> None:
        """Bring the loss of all processes into the progress; steps themselves do not wait for the
        device."""
        self.progress = replace(
            self.progress,
            loss_sum=self.accelerator.reduce(self._loss).item(),
            seconds=self.progress.seconds + self._clock.take(),
        )

    def _checkpoint(self) -> None:
        self._clock.stop()
        self._settle()
        accelerator, checkpoints = self.accelerator, self.checkpoints
        beside = checkpoints.path(self.progress.step).with_suffix(BESIDE)
        with writing(checkpoints.folder):
            if accelerator.is_main_process:
                checkpoints.begin(self.progress.step)
            accelerator.wait_for_everyone()
            accelerator.save_state(str(beside))
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                checkpoints.commit(self.progress)
            accelerator.wait_for_everyone()
        self._clock.start()

    def _to_device(self, batch: Batch) -> Batch:
        return {
            name: value.to(self.accelerator.device, non_blocking=True)
            for name, value in batch.items()
        }

    def _quiet(self) -> bool:
        return not self.accelerator.is_main_process

    def _tell(self, entry: dict[str, Any], max_steps: int) -> None:
        if self._quiet():
            return
        scores = [
            f", {name} {value:.2f}"
            for name, value in entry.items()
            if name.startswith(("bleu", "al"))
        ]
        left = self.progress.seconds / self.progress.step * (max_steps - self.progress.step)
        tqdm.write(
            f"step {entry['step']}: loss {entry['loss']:.4f}, dev "
            f"{entry['dev_loss']:.4f}{''.join(scores)}, "
            f"{self._clock.speed():.0f} tokens/s, {left / 60:.0f} min left"
        )
