"""Which token a distribution stands for, and when a sentence is over: transformers' generation settings, row by row.

Knows distributions, logits processors and stopping criteria; not where the distributions come from, nor policies.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from .actions import Prediction, State


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What holds for every sentence of a call.

    `early_stop=False` forbids `</s>` while the source is still open. `max_new_tokens=None` leaves twice the source and
    a little: only a model that has lost the thread writes more.
    """

    eos: tuple[int, ...]
    start: int
    vocabulary: int
    position_limit: int
    max_new_tokens: int | None = None
    early_stop: bool = True
    processors: LogitsProcessorList = field(default_factory=LogitsProcessorList)
    stopping: StoppingCriteriaList = field(default_factory=StoppingCriteriaList)

    def __post_init__(self) -> None:
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be 1 or more, or None; got {self.max_new_tokens}")

    def choose(self, distributions: torch.Tensor, states: Sequence[State]) -> list[Prediction]:
        """The top token of each distribution after the processors, with its probability before them."""
        scores = distributions
        if not self.early_stop:
            scores = distributions.clone()
            open_rows = [index for index, state in enumerate(states) if not state.ended]
            scores[torch.tensor(open_rows, dtype=torch.long)[:, None], torch.tensor(self.eos)] = 0
        if self.processors:
            scores = torch.stack([self._processed(row, state) for row, state in zip(scores, states, strict=True)])
        tokens = scores.argmax(-1)
        probabilities = distributions.gather(-1, tokens[:, None])[:, 0]
        return [
            Prediction(token, probability, row)
            for token, probability, row in zip(tokens.tolist(), probabilities.tolist(), distributions, strict=True)
        ]

    def _processed(self, distribution: torch.Tensor, state: State) -> torch.Tensor:
        return self.processors(self._ids(state, distribution.device), distribution.log()[None])[0]

    def _ids(self, state: State, device: torch.device) -> torch.Tensor:
        return torch.tensor([[self.start, *state.target]], device=device)

    def over(self, state: State, prediction: Prediction | None) -> bool:
        """Was the token just written the last?"""
        if state.target[-1] in self.eos or len(state.target) >= self._limit(state):
            return True
        if not self.stopping:
            return False
        last = prediction.distribution if prediction is not None else None
        if not isinstance(last, torch.Tensor):
            return bool(self.stopping(self._ids(state, torch.device("cpu")), None).all())
        return bool(self.stopping(self._ids(state, last.device), (last.log()[None],)).all())

    def _limit(self, state: State) -> int:
        if self.max_new_tokens is not None:
            return min(self.max_new_tokens, self.position_limit)
        return min(2 * len(state.source) + 20, self.position_limit)


def rules_from(
    model: Any,
    *,
    generation_config: GenerationConfig | None = None,
    logits_processor: LogitsProcessorList | None = None,
    stopping_criteria: StoppingCriteriaList | None = None,
    tokenizer: Any = None,
    early_stop: bool = True,
    position_limit: int,
    **kwargs: Any,
) -> Rules:
    """The rules that `model.generate` would follow with these arguments; keywords beat the generation config."""
    given = [kwargs, *(config.to_dict() for config in (generation_config, model.generation_config) if config)]
    for settings in given[:-1]:
        _refuse_search(settings)
    length = _max_new_tokens(given)
    config, unknown = model._prepare_generation_config(generation_config, **kwargs)
    if "wait_k" not in kwargs:
        unknown.pop("wait_k", None)  # a default of the model's own generation config; here a policy decides
    if unknown:
        raise ValueError(
            f"unknown arguments: {', '.join(sorted(unknown))}. Allowed are those of GenerationConfig, and policy, "
            "streamer, logits_processor, stopping_criteria, early_stop, history; instead of wait_k, policy=WaitK(k)"
        )
    config.max_length = None if length is None else length + 1  # the start token counts in transformers' lengths
    if length is None:
        config.forced_eos_token_id = None  # there is no limit for it to be forced at
    config.do_sample, config.num_beams = False, 1
    model._prepare_special_tokens(config, True, device=model.device)
    if config._eos_token_tensor is None:
        raise ValueError("the models have no eos_token_id, so no sentence would ever end; set it in their configs")
    eos = tuple(config._eos_token_tensor.flatten().tolist())
    processors = model._get_logits_processor(
        generation_config=config, input_ids_seq_length=1, logits_processor=logits_processor, device=model.device
    )
    config.max_length = config._eos_token_tensor = None  # `Rules.over` looks after these two itself
    return Rules(
        eos=eos,
        start=model.config.decoder_start_token_id,
        vocabulary=model.final_logits_bias.shape[-1],
        position_limit=position_limit,
        max_new_tokens=length,
        early_stop=early_stop,
        processors=processors,
        stopping=model._get_stopping_criteria(config, stopping_criteria or StoppingCriteriaList(), tokenizer),
    )


def _refuse_search(settings: dict[str, Any]) -> None:
    """What is written stays, so there is nothing to search; a checkpoint's own default of beams is ignored."""
    several = any((settings.get(name) or 1) > 1 for name in ("num_beams", "num_return_sequences"))
    if several or settings.get("do_sample"):
        raise ValueError(
            "simultaneous decoding is greedy: nothing written is taken back. Leave out num_beams, do_sample and "
            "num_return_sequences, or use model.generate(..., wait_k=...) for beam search over a finished source"
        )


def _max_new_tokens(settings: Iterable[dict[str, Any]]) -> int | None:
    """The length limit in new tokens: the first settings that have one, `max_new_tokens` before `max_length`."""
    for given in settings:
        if given.get("max_new_tokens") is not None:
            return int(given["max_new_tokens"])
        if given.get("max_length") is not None:
            return max(1, int(given["max_length"]) - 1)
    return None
