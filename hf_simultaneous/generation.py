"""`AdaptiveWaitKGenerator`: the READ/WRITE loop on a set of wait-k models, generate-compatible.

Here policies and models meet; neither knows the other.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import torch
from transformers import PreTrainedTokenizerBase
from transformers.generation.streamers import BaseStreamer
from transformers.utils import ModelOutput

from .actions import Action, Policy, Read, Write
from .lanes import Lanes
from .loop import Event, Sentence, decode
from .members import Members, check_members, choose_members
from .policies import Adaptive, linear_thresholds
from .rules import Rules, rules_from


if TYPE_CHECKING:
    from .sessions import Session


@dataclass
class SimultaneousOutput(ModelOutput):
    """What `AdaptiveWaitKGenerator.generate` returns; the lists have one entry per sentence.

    `delays`, `contexts`, `lags` and `probabilities` have a value per written token, `</s>` not counted: source tokens
    read by then (`</s>` not counted), source tokens it was chosen with, the k it was predicted with, its probability.
    """

    sequences: torch.Tensor | None = None
    actions: list[list[Action]] | None = None
    delays: list[list[int]] | None = None
    contexts: list[list[int]] | None = None
    lags: list[list[int]] | None = None
    probabilities: list[list[float | None]] | None = None
    early_stops: list[bool] | None = None


class ActionStreamer(BaseStreamer):
    """A streamer that is told of READs too. This one keeps `actions`; override what you want to see as it happens."""

    def __init__(self) -> None:
        self.actions: list[Action] = []

    def read(self, n: int) -> None:
        """`n` more source tokens were read."""
        self.actions += [Read()] * n

    def put(self, value: torch.Tensor) -> None:
        """Tokens were written; the first call brings the decoder's start token, as in transformers."""
        if value.ndim == 1:
            self.actions += [Write(token) for token in value.tolist()]

    def end(self) -> None:
        """The sentence is over."""


class AdaptiveWaitKGenerator:
    """The paper's adaptive policy, or any other, on a set of wait-k models.

    Args:
        models: `{k: model}`, `None` as a key for the full-sentence model; or a single model (multi-path, or any Marian
            checkpoint) that serves every k. A set with gaps serves a missing k with the nearest it has.
        tokenizer: the one tokenizer of all the models.
        thresholds: `{k: rho_k}` without gaps, see `linear_thresholds`; by default from 1 down to 0.
        ensembles: which models are averaged at k: `"single"`, `"top-3"`, `"all"` or `{k: [...]}`. `"top-3"` takes the
            best by `dev_scores`, or the nearest three if there are none.
        dev_scores: `{k: {model: BLEU}}`, every model under every policy on dev data.
        early_stop: may a model end the sentence before the source has ended, as in the paper?
        history: `"forced"` is the paper's P_k. `"path"` keeps every written position as it was when it was written,
            for multi-path models: one position per step, however k moves.
    """

    def __init__(
        self,
        models: Mapping[int | None, Any] | Any,
        tokenizer: PreTrainedTokenizerBase | None = None,
        thresholds: Mapping[int, float] | None = None,
        ensembles: Literal["single", "top-3", "all"] | Mapping[int, Sequence[int | None]] = "single",
        *,
        dev_scores: Mapping[int, Mapping[int, float]] | None = None,
        latencies: Mapping[str, Mapping[int, float]] | None = None,
        early_stop: bool = True,
        history: Literal["forced", "path"] = "forced",
    ):
        self.models = check_members(models)
        self.tokenizer = tokenizer
        ks = [k for k in self.models if k is not None] or [10]
        self.policy = Adaptive(linear_thresholds(1.0, 0.0, 1, max(10, *ks)) if thresholds is None else thresholds)
        self.thresholds = dict(self.policy.thresholds)
        self.dev_scores = dev_scores
        self.latencies = {name: dict(Adaptive(rhos).thresholds) for name, rhos in (latencies or {}).items()}
        self.ensembles = choose_members(ensembles, list(self.models), list(self.thresholds), dev_scores)
        self.early_stop, self.history = early_stop, history
        self.catchup: int | None = self.model.config.catchup
        self.position_limit = min(model.config.max_position_embeddings for model in self.models.values())
        self.lanes()  # refuses a history that does not fit now rather than at the first sentence

    @property
    def root(self) -> int | None:
        """The k of the member that speaks for the set: the largest, or None if there is a full-sentence model only."""
        return max((k for k in self.models if k is not None), default=None)

    @property
    def model(self) -> Any:
        """The member whose generation config holds for the set."""
        return self.models[self.root]

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self.model.device

    def to(
        self, device: str | torch.device | None = None, dtype: torch.dtype | None = None
    ) -> "AdaptiveWaitKGenerator":
        """Move every model, as `nn.Module.to` does."""
        for model in self.models.values():
            model.to(device=device, dtype=dtype)
        return self

    def members(self, k: int | None, named: Members | None = None) -> Members:
        """The models averaged at this k; for `None`, a whole context, the full-sentence model if there is one.

        A policy may name others, which must be in the set.
        """
        if named is not None:
            if not named or set(named) - set(self.models) or len(set(named)) < len(named):
                raise ValueError(f"a policy names models of the set, {list(self.models)}, each once; got {named}")
            return tuple(named)
        if k is None:
            return (None,) if None in self.models else self.ensembles[self.policy.k_max]
        return self.ensembles.get(k) or choose_members("single", list(self.models), [k], None)[k]

    def rules(self, **kwargs: Any) -> Rules:
        """Generation settings as `model.generate` takes them, for the loop."""
        kwargs = {"early_stop": self.early_stop, "tokenizer": self.tokenizer, **kwargs}
        return rules_from(self.model, position_limit=self.position_limit, **kwargs)

    def lanes(self, history: str | None = None) -> Lanes:
        """The models with an empty memory."""
        history = history or self.history
        if history == "path" and len(set(self.ensembles.values())) > 1:
            raise ValueError(
                "history='path' needs models that predict at every k; this set asks different ones at different k: "
                f"{self.ensembles}. Use one multi-path model, ensembles='all', or history='forced'"
            )
        return Lanes(self.models, self.catchup, history)

    def _sentence(self, rules: Rules, policy: Policy | None, history: str, **source: Any) -> Sentence:
        policy = policy or self.policy
        return Sentence(policy, rules, self.members, catchup=self.catchup, history=history, **source)

    def generate(
        self,
        input_ids: torch.Tensor | Sequence[Sequence[int]],
        attention_mask: torch.Tensor | None = None,
        *,
        policy: Policy | None = None,
        streamer: BaseStreamer | None = None,
        return_dict_in_generate: bool = False,
        history: Literal["forced", "path"] | None = None,
        **kwargs: Any,
    ) -> torch.Tensor | SimultaneousOutput:
        """Translate sources that are already there as if they arrived token by token.

        Takes what `model.generate` takes for greedy search, and a `policy` (by default the adaptive one). Returns the
        sequences, or a `SimultaneousOutput`.
        """
        sources = _unpadded(input_ids, attention_mask, self.model.config, self.position_limit)
        if streamer is not None and len(sources) > 1:
            raise ValueError(f"a streamer follows one sentence; got a batch of {len(sources)}")
        history = history or self.history
        rules, lanes = self.rules(**kwargs), self.lanes(history)
        sentences = [self._sentence(rules, policy, history, source=source, complete=True) for source in sources]
        lanes.expect([sentence.row for sentence in sentences])
        if streamer is not None:
            streamer.put(torch.tensor([[rules.start]]))
        for _, event in decode(sentences, lanes, rules):
            if streamer is not None:
                _tell(streamer, event)
        if streamer is not None:
            streamer.end()
        output = _output(sentences, rules, self.model)
        return output if return_dict_in_generate else output.sequences

    def session(
        self, *, policy: Policy | None = None, history: Literal["forced", "path"] | None = None, **kwargs: Any
    ) -> "Session":
        """A live translation: push source tokens as they arrive, get events back."""
        from .sessions import Session

        return Session(self, policy, history or self.history, self.rules(**kwargs))

    def stream(self, source: Iterable[int], **kwargs: Any) -> Iterator[Event]:
        """Translate tokens as they arrive from an iterator that may block; yields events the moment they happen."""
        with self.session(**kwargs) as session:
            for token in source:
                yield from session.push(token)
            yield from session.flush()

    def astream(self, source: Iterable[int] | Any, **kwargs: Any) -> AsyncIterator[Event]:
        """`stream` for asynchronous code: takes an async (or plain) iterator, computes off the event loop."""
        from .sessions import astream

        return astream(self.session(**kwargs), source)

    def save_pretrained(self, save_directory: str, **kwargs: Any) -> None:
        """Write the whole set to a folder that `from_pretrained` loads; its root is a checkpoint by itself."""
        from .sets import save_set

        save_set(self, save_directory, **kwargs)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | None = None, **kwargs: Any
    ) -> "AdaptiveWaitKGenerator":
        """Load a set or a single checkpoint, from a folder or the hub; without a name, the set in the package.

        `latency` names an operating point of the set.
        """
        from .sets import load_set

        name = pretrained_model_name_or_path
        if name is None:  # what ships with the package does not travel with a set
            name = import_module("hf_simultaneous.doctor").set_or_builtin(None)
        return load_set(cls, name, **kwargs)

    def push_to_hub(self, repo_id: str, **kwargs: Any) -> str:
        """Share the whole set as one repository; returns its address."""
        # By name, because it is not among the files that travel with a set.
        return str(import_module("hf_simultaneous.hub").push_generator(self, repo_id, **kwargs))


def _tell(streamer: BaseStreamer, event: Event) -> None:
    if isinstance(event.action, Write):
        streamer.put(torch.tensor([event.token]))
    elif hasattr(streamer, "read"):
        streamer.read(1)


def _unpadded(
    input_ids: torch.Tensor | Sequence[Sequence[int]], attention_mask: torch.Tensor | None, config: Any, limit: int
) -> list[list[int]]:
    """The real tokens of each source, padding on the right or none."""
    ids = input_ids.tolist() if isinstance(input_ids, torch.Tensor) else list(input_ids)
    if not ids or not all(isinstance(row, Sequence) and not isinstance(row, str) for row in ids):
        raise ValueError(f"input_ids has two dimensions, sentences and tokens; got {ids!r}")
    if attention_mask is None:
        pad = config.pad_token_id if config.pad_token_id != config.eos_token_id else None
        kept = [[token for token in row if token != pad] for row in ids]
    else:
        mask = torch.as_tensor(attention_mask).long().tolist()
        if [len(row) for row in ids] != [len(keep) for keep in mask]:
            raise ValueError(f"attention_mask must have the shape of input_ids; got {mask} for {ids}")
        kept = [list(row[: sum(keep)]) for row, keep in zip(ids, mask, strict=True)]
        if any(0 in keep[: sum(keep)] for keep in mask):
            raise ValueError("pad sources on the right: attention_mask has a 0 before a 1")
    for index, row in enumerate(kept):
        if not 1 <= len(row) <= limit:
            raise ValueError(f"sources must have 1 to {limit} tokens; sentence {index} has {len(row)}")
    return kept


def _output(sentences: list[Sentence], rules: Rules, model: Any) -> SimultaneousOutput:
    targets = [[rules.start, *sentence.state.target] for sentence in sentences]
    longest = max(map(len, targets))
    pad = model.config.pad_token_id
    writes = [[e for e in s.events if isinstance(e.action, Write) and e.token not in rules.eos] for s in sentences]
    return SimultaneousOutput(
        sequences=torch.tensor([row + [pad] * (longest - len(row)) for row in targets], device=model.device),
        actions=[[event.action for event in sentence.events] for sentence in sentences],
        delays=[sentence.delays for sentence in sentences],
        contexts=[sentence.contexts for sentence in sentences],
        lags=[[event.k for event in row] for row in writes],
        probabilities=[[event.probability for event in row] for row in writes],
        early_stops=[sentence.stopped_early for sentence in sentences],
    )
