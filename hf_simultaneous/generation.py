"""`AdaptiveWaitKGenerator`: the READ/WRITE loop on a set of wait-k models, generate-compatible.

Here policies and models meet; neither knows the other.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from transformers import LogitsProcessorList, PreTrainedTokenizerBase
from transformers.generation.streamers import BaseStreamer

from .actions import Action, Event, Policy, Read, Write
from .checks import Quantize
from .decoding_rules import (
    DecodingRules,
    NoLoops,
    Tail,
    returns_dict,
    rules_from,
    tail_members,
)
from .ensembles import Ensembles, check_models, check_scored, choose_models
from .families import OURS, position_limit
from .framing import framing_for
from .lanes import Lanes
from .live_sentence import LiveSentence
from .loading import load_set
from .loop import decode
from .outputs import SimultaneousOutput, output_of
from .policies import Adaptive, LocalAgreement, linear_thresholds
from .quantization import check_device, quantized
from .schedule import FULL, K
from .sets import save_set, set_or_builtin
from .source_ids import source_lists, undecided_places


if TYPE_CHECKING:
    from .sessions import Session


class ActionStreamer(BaseStreamer):
    """A streamer that is told of READs too. This one keeps `actions`; override what you want to see
    as it happens."""

    def __init__(self) -> None:
        self.actions: list[Action] = []

    def read(self, n: int) -> None:
        """`n` more source tokens were read."""
        self.actions += [Read()] * n

    def put(self, value: torch.Tensor) -> None:
        """Tokens were written; the first call brings the decoder's start token, as in
        transformers."""
        if value.ndim == 1:
            self.actions += [Write(token) for token in value.tolist()]

    def end(self) -> None:
        """The sentence is over."""


class AdaptiveWaitKGenerator:
    """The paper's adaptive policy, or any other, on a set of wait-k models.

    Args:
        models: `{k: model}`, `FULL` (`"full"`) as a key for the full-sentence model; or a single
            model (multi-path, or any encoder-decoder of transformers) that serves every k. A set
            with gaps serves a missing k with the nearest it has. They are put in eval mode: call
            `model.train()` before you train on.
        tokenizer: the one tokenizer of all the models.
        thresholds: `{k: rho_k}` without gaps, see `linear_thresholds`; by default from 1 down to 0.
            Models of other families than ours, which know full sentences only, are asked by
            `LocalAgreement` unless there are thresholds or a policy.
        ensembles: which models are averaged at k: `"single"`, `"top-3"`, `"all"` or `{k: [...]}`.
            `"top-3"` takes the best by `dev_scores`, or the nearest three if there are none.
        dev_scores: `{k: {model: BLEU}}`, every model under every policy on dev data.
        early_stop: may a model end the sentence before the source has ended, as in the paper? If
            not, it reads on. `True` unless said otherwise, here or in a call of `generate` and
            `session`; whoever shows text to people (`TextSession`, pipeline, commands, page) reads
            on unless told otherwise.
        tail_beams, tail: how text sessions, pipeline, commands and page write the rest once the
            source has ended: beams, and the members that search (`FULL`, or some of the set), by
            default those the policy asks. `generate` and `session` are greedy unless asked.
        history: `"forced"` is the paper's P_k. `"path"` keeps every written position as it was when
            it was written, for multi-path models: one position per step, however k moves.
        source_language, target_language: for models of many languages, the codes of their
            tokenizer ("deu_Latn", "de", "de_DE"). The tokens that name them count in no lag.
    """

    def __init__(
        self,
        models: Mapping[K, Any] | Any,
        tokenizer: PreTrainedTokenizerBase | None = None,
        thresholds: Mapping[int, float] | None = None,
        ensembles: Literal["single", "top-3", "all"] | Mapping[int, Sequence[K]] = "single",
        *,
        dev_scores: Mapping[int, Mapping[int, float]] | None = None,
        latencies: Mapping[str, Mapping[int, float]] | None = None,
        early_stop: bool = True,
        history: Literal["forced", "path"] = "forced",
        tail_beams: int = 1,
        tail: K | Sequence[K] | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
    ):
        self.models = check_models(models)
        self.tokenizer = tokenizer
        ks = [k for k in self.models if k != FULL] or [10]
        self.policy = Adaptive(
            linear_thresholds(1.0, 0.0, 1, max(10, *ks)) if thresholds is None else thresholds
        )
        # One that was trained for a k is named by it.
        untrained = [*self.models] == [FULL] and self.model.config.model_type != OURS
        self.usual_policy: Policy = (
            LocalAgreement() if untrained and thresholds is None else self.policy
        )
        self.thresholds = dict(self.policy.thresholds)
        self.dev_scores = dev_scores
        self.latencies = {
            name: dict(Adaptive(rhos).thresholds) for name, rhos in (latencies or {}).items()
        }
        chosen = choose_models(ensembles, list(self.models), list(self.thresholds), dev_scores)
        self.ensembles = Ensembles(chosen, tuple(self.models), self.policy.k_max)
        self.early_stop = early_stop
        self.history = history
        self.tail = tail_members(tail, list(self.models))
        self.tail_beams = Tail(beams=tail_beams).beams
        self.catchup: int | None = getattr(self.model.config, "catchup", None)
        self.origins: dict[K, dict[str, str]] = {}
        self.source_language = source_language
        self.target_language = target_language
        self.framing = framing_for(self.model, tokenizer, source_language, target_language)
        self._positions = min(map(position_limit, self.models.values()))
        self.lanes()  # refuses a history that does not fit now rather than at the first sentence

    @property
    def root(self) -> K:
        """The k of the member that speaks for the set: the largest, or FULL if there is a
        full-sentence model only."""
        return max((k for k in self.models if k != FULL), default=FULL)

    @property
    def model(self) -> Any:
        """The member whose generation config holds for the set."""
        return self.models[self.root]

    @property
    def quantize(self) -> Quantize:
        """How the weights are stored: `"int8"`, or `"none"` for floating point."""
        return "int8" if any(map(quantized, self.models.values())) else "none"

    @property
    def position_limit(self) -> int:
        """How many tokens a source or a target may have, `</s>` counted."""
        return self._positions - self.framing.room

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self.model.device

    def to(
        self, device: str | torch.device | None = None, dtype: torch.dtype | None = None
    ) -> "AdaptiveWaitKGenerator":
        """Move every model, as `nn.Module.to` does."""
        if device is not None and self.quantize == "int8":
            check_device(device)
        for model in self.models.values():
            model.to(device=device, dtype=dtype)
        return self

    def with_ensembles(self, ensembles: str) -> "AdaptiveWaitKGenerator":
        """The same set with other models averaged at each k; `top-3` needs to know which are best
        on dev data."""
        check_scored(ensembles, list(self.models), self.dev_scores)
        chosen = choose_models(ensembles, list(self.models), list(self.thresholds), self.dev_scores)
        # Thresholds that nobody chose are no reason to ask another policy.
        own = self.thresholds if self.usual_policy is self.policy else None
        return self._with(own, chosen)

    def with_thresholds(self, thresholds: Mapping[int, float]) -> "AdaptiveWaitKGenerator":
        """The same set with other thresholds."""
        ks = Adaptive(thresholds).thresholds
        return self._with(
            thresholds, {**self.ensembles, **{k: self.ensembles.models_for(k) for k in ks}}
        )

    def _with(
        self, thresholds: Mapping[int, float] | None, ensembles: Mapping[int, Sequence[K]]
    ) -> "AdaptiveWaitKGenerator":
        other = AdaptiveWaitKGenerator(
            self.models,
            self.tokenizer,
            thresholds,
            ensembles,
            dev_scores=self.dev_scores,
            latencies=self.latencies,
            early_stop=self.early_stop,
            history=self.history,
            tail_beams=self.tail_beams,
            tail=self.tail,
            source_language=self.source_language,
            target_language=self.target_language,
        )
        other.origins = self.origins
        return other

    def decoding_rules(self, **kwargs: Any) -> DecodingRules:
        """Generation settings as `model.generate` takes them, for the loop."""
        kwargs = {"early_stop": self.early_stop, "tokenizer": self.tokenizer, **kwargs}
        kwargs["tail"] = tail_members(kwargs.get("tail"), list(self.models))
        return rules_from(
            self.model,
            prompt=self.framing.prompt,
            position_limit=self.position_limit,
            **kwargs,
        )

    def for_text(self, **options: Any) -> dict[str, Any]:
        """Options of `generate` and `session` for text that people read, those given on top: read
        on rather than end early, the set's own tail, and no phrase again and again."""
        guarded = LogitsProcessorList([*(options.pop("logits_processor", None) or ()), NoLoops()])
        return {
            "early_stop": False,
            "tail_beams": self.tail_beams,
            "tail": self.tail,
            **options,
            "logits_processor": guarded,
        }

    def lanes(self, history: str | None = None) -> Lanes:
        """The models with an empty memory."""
        history = history or self.history
        if history == "path" and len(set(self.ensembles.values())) > 1:
            raise ValueError(
                "history='path' needs models that predict at every k; this set asks different ones "
                "at different k: "
                f"{self.ensembles}. Use one multi-path model, ensembles='all', or history='forced'"
            )
        return Lanes(self.models, self.catchup, history, self.framing)

    def sentence(
        self, rules: DecodingRules, policy: Policy | None, history: str, **source: Any
    ) -> LiveSentence:
        """A sentence for the loop, its source empty or given."""
        policy = policy or self.usual_policy
        if not callable(policy):  # a name, most often: it lacks what the policy is to be made with
            raise ValueError(
                f"policy is an object such as WaitK(3) or Adaptive(...); got {policy!r}. "
                f'policies.make_policy("wait-k", k=3) makes one by its name'
            )
        return LiveSentence(
            policy, rules, self.ensembles, catchup=self.catchup, history=history, **source
        )

    def generate(
        self,
        input_ids: torch.Tensor | Sequence[Sequence[int]],
        attention_mask: torch.Tensor | None = None,
        *,
        policy: Policy | None = None,
        streamer: BaseStreamer | None = None,
        return_dict_in_generate: bool | None = None,
        history: Literal["forced", "path"] | None = None,
        undecided: Sequence[Iterable[int]] | None = None,
        **kwargs: Any,
    ) -> torch.Tensor | SimultaneousOutput:
        """Translate sources that are already there as if they arrived token by token.

        Takes what `model.generate` takes for greedy search, a `policy` (by default the adaptive
        one), and `tail_beams` and `tail` for what is written once the source has ended. `undecided`
        says for each source after how many tokens (a frame of language tokens not counted) the next
        is read without asking the policy, as sessions of text do it inside a word. Returns the
        sequences, or a `SimultaneousOutput`."""
        sources = source_lists(
            input_ids, attention_mask, self.model.config, self.framing, self.position_limit
        )
        if streamer is not None and len(sources) > 1:
            raise ValueError(f"a streamer follows one sentence; got a batch of {len(sources)}")
        history = history or self.history
        rules, lanes = self.decoding_rules(**kwargs), self.lanes(history)
        sentences = [
            self.sentence(
                rules, policy, history, source=source, source_complete=True, undecided=places
            )
            for source, places in zip(sources, undecided_places(undecided, sources), strict=True)
        ]
        lanes.announce_sources([sentence.row for sentence in sentences])
        if streamer is not None:
            streamer.put(torch.tensor([rules.prompt]))
        for _, event in decode(sentences, lanes, rules):
            if streamer is not None:
                _tell(streamer, event)
        if streamer is not None:
            streamer.end()
        output = output_of(sentences, rules, self.model)
        whole = returns_dict(return_dict_in_generate, kwargs.get("generation_config"))
        return output if whole else output.sequences

    def session(
        self,
        *,
        policy: Policy | None = None,
        history: Literal["forced", "path"] | None = None,
        **kwargs: Any,
    ) -> "Session":
        """A live translation: push source tokens as they arrive, get events back."""
        from .sessions import Session

        return Session(self, policy, history or self.history, self.decoding_rules(**kwargs))

    def stream(self, source: Iterable[int], **kwargs: Any) -> Iterator[Event]:
        """Translate tokens as they arrive from an iterator that may block; yields events the moment
        they happen."""
        with self.session(**kwargs) as session:
            for token in source:
                yield from session.push(token)
            yield from session.flush()

    def astream(self, source: Iterable[int] | Any, **kwargs: Any) -> AsyncIterator[Event]:
        """`stream` for asynchronous code: takes an async (or plain) iterator, computes off the
        event loop."""
        from .sessions import astream

        return astream(self.session(**kwargs), source)

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> None:
        """Write the whole set to a folder that `from_pretrained` loads; its root is a checkpoint by
        itself. A stock model that was loaded by its name on the hub is named, not saved: changes to
        its weights are lost unless the generator is made of the model itself."""
        save_set(self, save_directory, **kwargs)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | Path | None = None, **kwargs: Any
    ) -> "AdaptiveWaitKGenerator":
        """Load a set or a single checkpoint, from a folder or the hub; without a name, the set in
        the package.

        `latency` names an operating point of the set. `quantize="int8"` stores weights in 8 bits:
        a quarter of the memory (half, once used, where there is no VNNI), and on large models less
        time, on the CPU only; `"none"` keeps floating point even if the set was saved with
        `"int8"`.
        """
        return load_set(cls, set_or_builtin(pretrained_model_name_or_path), **kwargs)

    def push_to_hub(self, repo_id: str, **kwargs: Any) -> str:
        """Share the whole set as one repository; returns its address."""
        try:
            from hf_simultaneous.sharing.hub import push_generator
        except ImportError as error:  # sharing does not travel with a set
            raise ImportError(
                "sharing a set needs the package itself: pip install hf_simultaneous"
            ) from error
        return push_generator(self, repo_id, **kwargs)


def _tell(streamer: BaseStreamer, event: Event) -> None:
    if isinstance(event.action, Write):
        streamer.put(torch.tensor([event.token]))
    elif hasattr(streamer, "read"):
        streamer.read(1)
