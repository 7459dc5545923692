"""The training loop: steps, learning rate, looks at the dev set, checkpoints, and going on from one of them.

Knows tensors and processes; where the data came from and what becomes of the model afterwards it does not.
"""

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from accelerate import Accelerator
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from .batches import Batch, Batches, Step
from .checked import InputError
from .checkpoints import BESIDE, Checkpoints, Progress
from .disk import writing
from .options import TrainOptions
from .scoring import Scores


def learning_rate(step: int, options: TrainOptions) -> float:
    """The rate of a step, counted from 1: up in a line to the peak, then down."""
    warmup = max(options.warmup_steps, 1)
    if step < warmup:
        return options.learning_rate * step / warmup
    if options.schedule == "inverse_sqrt":
        return options.learning_rate * math.sqrt(warmup / step)
    done = min(1.0, (step - warmup) / max(1, options.max_steps - warmup))
    return options.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


class Trainer:
    """Trains a model on batches until it is told to stop or stops getting better."""

    def __init__(
        self,
        model: torch.nn.Module,
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
                f"training.batches_per_step is {options.batches_per_step}, which {processes} processes cannot share "
                f"equally; set it to {processes} or a multiple of it (batch_tokens smaller for the same training)"
            )
        self.train, self.dev, self.options, self.checkpoints, self.score = train, dev, options, checkpoints, score
        self.accelerator = accelerator
        optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=options.learning_rate,
            betas=(0.9, options.adam_beta2),
            weight_decay=options.weight_decay,
            fused=True,
        )
        self.model, self.optimizer = accelerator.prepare(model, optimizer)
        self.progress = Progress()
        # Summed where it arises, so that no step waits for the device; in double, so that nothing is lost on the way.
        self._loss = torch.zeros((), dtype=torch.float64, device=accelerator.device)
        self._clock = _Clock()

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

    def fit(self, max_steps: int) -> None:
        """Train up to `max_steps`, counted from the very start of the run."""
        self.model.train()
        accelerator = self.accelerator
        seldom = 0.5 if sys.stderr.isatty() else 60.0  # a log file need not hold every state of the bar
        bar = tqdm(total=max_steps, initial=self.progress.step, unit="step", mininterval=seldom, disable=self._quiet())
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
        return self.options.patience is not None and self.progress.without_best >= self.options.patience

    def _update(self, step: Step, batches: Sequence[Batch]) -> None:
        """One update from this process's batches; the loss is a mean over the target tokens of all processes."""
        rate = learning_rate(self.progress.step + 1, self.options)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        share = step.tokens / self.accelerator.num_processes  # gradients of processes are averaged, not added
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

    def _backward(self, batch: Batch, share: float) -> None:
        loss = self.model(**self._to_device(batch), num_items_in_batch=share).loss
        self._loss += loss.detach() * share
        self.accelerator.backward(loss)

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
            bar.set_postfix_str(f"loss {loss:.3f}, {self._clock.speed():.0f} tokens/s", refresh=False)
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
        self.accelerator.log({name: value for name, value in entry.items() if name != "step"}, step=progress.step)
        self._tell(entry, bar.total)
        self._clock.start()

    @torch.no_grad()
    def dev_loss(self) -> float:
        """Cross-entropy per target token on the dev set, without label smoothing, under the k of this training."""
        accelerator = self.accelerator
        model = accelerator.unwrap_model(self.model)  # processes may have unequal shares: no waiting for each other
        model.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=accelerator.device)
        mine = self.dev.epoch(0)[accelerator.process_index :: accelerator.num_processes]
        for (batch,) in self.dev.load(mine):
            batch = self._to_device(batch)
            with accelerator.autocast():
                logits = model(**batch).logits
            labels = batch["labels"].flatten()
            sums[0] += cross_entropy(logits.float().flatten(0, 1), labels, reduction="sum")
            sums[1] += (labels != -100).sum()
        model.train()
        total, tokens = accelerator.reduce(sums).tolist()
        return total / tokens

    def _scores(self) -> dict[str, float]:
        found: dict[str, float] = {}
        if self.score is not None and self.accelerator.is_main_process:
            for k, scores in self.score(self.accelerator.unwrap_model(self.model)).items():
                found |= {f"bleu_{k}": scores.bleu, f"al_{k}": scores.al}
        self.accelerator.wait_for_everyone()
        return found

    def _settle(self) -> None:
        """Bring the loss of all processes into the progress; steps themselves do not wait for the device."""
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
        return {name: value.to(self.accelerator.device, non_blocking=True) for name, value in batch.items()}

    def _quiet(self) -> bool:
        return not self.accelerator.is_main_process

    def _tell(self, entry: dict[str, Any], max_steps: int) -> None:
        if self._quiet():
            return
        scores = [f", {name} {value:.2f}" for name, value in entry.items() if name.startswith(("bleu", "al"))]
        left = self.progress.seconds / self.progress.step * (max_steps - self.progress.step)
        tqdm.write(
            f"step {entry['step']}: loss {entry['loss']:.4f}, dev {entry['dev_loss']:.4f}{''.join(scores)}, "
            f"{self._clock.speed():.0f} tokens/s, {left / 60:.0f} min left"
        )


class _Clock:
    """Time spent training, not looking at dev sets or writing files, and the tokens seen in it."""

    def __init__(self) -> None:
        self.tokens, self._seconds, self._taken = 0, 0.0, 0.0
        self._since: float | None = None

    def start(self) -> None:
        self._since = time.perf_counter()

    def stop(self) -> None:
        if self._since is not None:
            self._seconds += time.perf_counter() - self._since
        self._since = None

    def seconds(self) -> float:
        running = 0.0 if self._since is None else time.perf_counter() - self._since
        return self._seconds + running

    def take(self) -> float:
        """Seconds since this was last asked."""
        now = self.seconds()
        fresh, self._taken = now - self._taken, now
        return fresh

    def speed(self) -> float:
        """Target tokens per second since the start of this process."""
        return self.tokens / max(self.seconds(), 1e-9)
