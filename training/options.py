"""Turns a YAML file into checked options: every wrong key, type or value is named before anything
is run.

Knows what the options are called, not what they do: each module that uses a section describes it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import yaml
from huggingface_hub.errors import StrictDataclassError

from hf_simultaneous import SimultaneousConfig
from hf_simultaneous.schedule import FULL, K

from .checked import InputError, at_least, build, check_keys, kind, names
from .data_options import DataOptions
from .tokenizer import SMALLEST_VOCABULARY, TokenizerOptions


MULTI: Final = "multi"

TrainedK: TypeAlias = K | Literal["multi"]
"""What a run may train for: one k, full sentences, or many k at once."""
EXTENDS = "extends"


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How a model is trained. Counts of steps are counts of weight updates."""

    max_steps: int
    learning_rate: float
    """The peak, reached at the end of the warm-up."""
    warmup_steps: int = 0
    schedule: Literal["inverse_sqrt", "cosine"] = "inverse_sqrt"
    """`cosine` ends at zero after the `max_steps` of the config, whatever the command line says."""
    batch_tokens: int = 4096
    """A batch holds at most this many tokens on its longer side, padding included."""
    batches_per_step: int = 1
    """Batches whose gradients make one step, over all processes: each process takes its share of
    them, one after the other. The same config is therefore the same training on one process or
    several."""
    adam_beta2: float = 0.98
    weight_decay: float = 0.0
    clip_norm: float | None = 1.0
    precision: Literal["auto", "no", "bf16", "fp16"] = "auto"
    """`auto` is bf16 on GPUs that have it, and full precision everywhere else."""
    multi_ks: list[int | Literal["full"]] = field(default_factory=lambda: [*range(1, 11), FULL])
    """The k that `--k multi` draws from; `full` is the full sentence."""
    multi_draw: Literal["sentence", "batch"] = "sentence"
    multi_paths: float = 0.0
    """The share of sentences, drawn one by one, in which k changes on the way as under an adaptive
    policy: for `history="path"`."""
    evaluate_every: int = 500
    """Steps between two looks at the dev loss; a checkpoint follows each."""
    score_every: int | None = None
    """Steps between two decodings of the dev set for BLEU and AL; null scores at the end only."""
    score_sentences: int | None = None
    """Decode only the first so many dev sentences while training; the end decodes them all."""
    score_test: bool = True
    """Score the test set at the end, too. Where it is kept for later, false leaves it undecoded; it
    still keeps its sentences out of the training."""
    checkpoint_every: int | None = None
    """Steps between further checkpoints."""
    keep_checkpoints: int = 2
    average: int | None = None
    """At the end, try the mean of the weights at the last so many looks. Of the last weights, the
    best ones, this mean and that of `ema`, those with the lowest dev loss become the model."""
    ema: float | None = None
    """At the end, try a mean of all weights there were, older ones counting less by this factor a
    step: 0.999 remembers about a thousand steps."""
    r_drop: float | None = None
    """Each batch goes twice through the model, with other dropout; this times the divergence
    between the two predictions (R-Drop, Liang et al. 2021) is added to the loss. A step takes
    twice as long."""
    freeze_encoder: bool = False
    """Train the decoder only, embeddings excluded: members of a set then share their encoder."""
    patience: int | None = None
    """Stop after so many looks at the dev loss without a new best."""
    log_every: int = 20
    tracker: Literal["trackio", "tensorboard"] | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        counts = [
            "max_steps",
            "batch_tokens",
            "batches_per_step",
            "evaluate_every",
            "keep_checkpoints",
            "log_every",
        ]
        optional = [
            "score_every",
            "score_sentences",
            "checkpoint_every",
            "patience",
            "average",
        ]
        for name in [*counts, *optional]:
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), 1)
        for name in ("warmup_steps", "weight_decay", "seed"):
            at_least(name, getattr(self, name), 0)
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate must be above 0; got {self.learning_rate}")
        if not 0 < self.adam_beta2 < 1:
            raise ValueError(f"adam_beta2 must lie between 0 and 1; got {self.adam_beta2}")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"ema must lie between 0 and 1, or be null; got {self.ema}")
        if self.r_drop is not None and self.r_drop <= 0:
            raise ValueError(f"r_drop must be above 0, or null for none; got {self.r_drop}")
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise ValueError(
                f"clip_norm must be above 0, or null for no clipping; got {self.clip_norm}"
            )
        if not self.multi_ks or any(k != FULL and k < 1 for k in self.multi_ks):
            raise ValueError(
                f"multi_ks lists k of 1 or more, and full for the full sentence; got "
                f"{self.multi_ks}"
            )
        if not 0 <= self.multi_paths <= 1:
            raise ValueError(f"multi_paths is a share, 0 to 1; got {self.multi_paths}")
        if self.multi_paths and (self.multi_draw == "batch" or {*self.multi_ks} == {FULL}):
            raise ValueError(
                "multi_paths needs multi_draw: sentence, and in multi_ks a k besides full"
            )


@dataclass(frozen=True, kw_only=True)
class SetOptions:
    """The set of models `train_all` makes."""

    ks: list[int] = field(default_factory=lambda: list(range(1, 11)))
    base: Literal["none", "full", "multi", "full-multi"] = "full"
    """The model trained first, which all others start from; `none`: each starts from nothing, as
    the paper's do. `full-multi` trains one for full sentences; from it, in a second round, another
    and one for all k at once; and the others from that."""
    bases: int = 1
    """So many bases, from seeds of their own; the k start from them in turn, so that neighbours,
    which an ensemble averages, have nothing in common but the data."""
    first_threshold: float = 0.8
    """The confidence asked for at the smallest k; it falls in a line to `last_threshold` at the
    largest."""
    last_threshold: float = 0.0
    k_max: int | None = None
    """The largest k of the policy; by default the largest of `ks`, and never below it."""
    early_stop: bool = True
    """May a sentence end before its source does?"""
    half: bool = False
    """Store the set's weights in half precision; they are loaded and computed with in full."""

    def __post_init__(self) -> None:
        if not self.ks or len(set(self.ks)) < len(self.ks) or min(self.ks) < 1:
            raise ValueError(f"ks lists different k of 1 or more; got {self.ks}")
        if self.bases < 1 or (self.bases > 1 and self.base == "none"):
            raise ValueError(
                f"bases must be at least 1, and above 1 there must be a base; got {self.bases} "
                f"with base: {self.base}"
            )
        if self.k_max is not None and self.k_max < max(self.ks):
            raise ValueError(
                f"k_max must reach the largest of ks, {max(self.ks)}; got {self.k_max}"
            )
        for name in ("first_threshold", "last_threshold"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability; got {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A whole configuration file."""

    data: DataOptions
    training: TrainOptions
    tokenizer: TokenizerOptions = field(default_factory=TokenizerOptions)
    model: dict[str, Any] = field(default_factory=dict)
    """`preset`, and fields of `SimultaneousConfig` that differ from it."""
    init: str | None = None
    """A folder or a model on the hub that a run starts from unless `--init-from` names another: one
    of ours, any Marian's, or of another family that the package knows."""
    wait_k_model: dict[str, Any] = field(default_factory=dict)
    """Keys of `model` that change for every k but full sentences: a bidirectional model may lend
    its weights to causal ones, which need a fraction of the time to decode."""
    finetune: dict[str, Any] = field(default_factory=dict)
    """Keys of `training` that change when a run starts from another model (`--init-from`)."""
    second_round: dict[str, Any] = field(default_factory=dict)
    """Keys of `training` that change further where that run is for full sentences or for all k."""
    set: SetOptions = field(default_factory=SetOptions)

    def for_run(self, k: TrainedK, *, init_from: str | None, seed: int | None) -> "RunConfig":
        """The options of one run: those of its k, and those for fine-tuning where there is a model
        to start from."""
        model = self.model if k == FULL else {**self.model, **self.wait_k_model}
        changes = dict(self.finetune) if init_from else {}
        if init_from and k in (FULL, MULTI):
            changes |= self.second_round
        if seed is not None:
            changes["seed"] = seed
        return replace(
            self, model=model, wait_k_model={}, training=replace(self.training, **changes)
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def load_config(path: str | Path) -> RunConfig:
    """Read and check a configuration file; with `extends: FILE`, a file beside it, it says only
    what differs there."""
    values = _read(path)
    extended = values.pop(EXTENDS, None)
    if extended is not None:
        below = _read(Path(path).parent / str(extended))
        values = {name: _over(below.get(name), values.get(name)) for name in {**below, **values}}
    return parse_config(values, str(path))


def _over(below: Any, above: Any) -> Any:
    """Two versions of a section: the keys of both, the values of the second."""
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **above}
    return below if above is None else above


def _read(path: str | Path) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"there is no configuration file {path}; those that ship are in training/configs"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read as a configuration: {error}; give a YAML file in UTF-8, such "
            f"as those in training/configs"
        ) from None
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise InputError(
            f"{path} must hold the sections {', '.join(names(RunConfig))}; got {kind(values)}"
        )
    return values


def parse_config(values: Mapping[str, Any], where: str) -> RunConfig:
    """Check the sections of a configuration; `where` names it in messages."""
    config = build(RunConfig, values, where)
    tuned, second = (
        build(TrainOptions, {**asdict(config.training), **getattr(config, section)}, where, section)
        for section in ("finetune", "second_round")
    )
    _check_model(config.model, where, "model")
    _check_model(config.wait_k_model, where, "wait_k_model")
    return replace(
        config,
        finetune={key: getattr(tuned, key) for key in config.finetune},
        second_round={key: getattr(second, key) for key in config.second_round},
    )


def model_config(model: Mapping[str, Any], **fixed: Any) -> SimultaneousConfig:
    """The model's configuration: a preset, what the `model` section changes, and what the run
    itself fixes."""
    changes = {"preset": "tiny", **model, **fixed}
    return SimultaneousConfig.preset(changes.pop("preset"), **changes)


def parse_k(text: str) -> TrainedK:
    """`--k`: a number, `full` or `multi`."""
    if text == FULL:
        return FULL
    if text == MULTI:
        return MULTI
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"--k is a number of 1 or more, {FULL!r} or {MULTI!r}; got {text!r}")
    return int(text)


def parse_ks(text: str) -> list[int]:
    """`--ks`: numbers with commas between."""
    ks = [parse_k(part.strip()) for part in text.split(",")]
    numbers = [k for k in ks if isinstance(k, int)]
    if len(numbers) < len(ks) or len(set(numbers)) < len(numbers):
        raise InputError(f"--ks lists different numbers, such as 1,3,5; got {text!r}")
    return sorted(numbers)


def _check_model(model: Mapping[str, Any], where: str, section: str) -> None:
    # The vocabulary, k and special tokens are the run's own; what transformers does not know it
    # would ignore.
    fixed = {
        "vocab_size",
        "decoder_vocab_size",
        "wait_k",
        *(f"{t}_token_id" for t in ("pad", "bos", "eos")),
    }
    allowed = [f.name for f in fields(SimultaneousConfig) if f.name not in fixed]
    check_keys(model, ["preset", *allowed], where, section)
    try:
        model_config(model, vocab_size=SMALLEST_VOCABULARY)
    except (ValueError, StrictDataclassError) as error:
        raise InputError(f"{where}: {section}: {' '.join(str(error).split())}") from None
