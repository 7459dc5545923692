"""Which token a distribution stands for, and when a sentence is over: transformers' generation
settings, row by row.

Knows distributions, logits processors and stopping criteria; not where the distributions come from,
nor policies."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    MaxTimeCriteria,
    StoppingCriteriaList,
)

from .actions import Models, Prediction, State
from .schedule import K, check_at_least_one


OUTPUTS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
"""What `model.generate` may be asked to return as well, and a set has not got."""
MAX_BEAMS = 100
"""Each beam costs a sentence's memory, and a set's config may ask for beams."""


@dataclass(frozen=True, kw_only=True)
class Tail:
    """How the rest of a sentence is written once its source has ended and nothing is left to wait
    for.

    `beams=1` is greedy, as in the paper. `members` name who writes it, by default whoever the
    policy asks then (P_{k_max}); `(FULL,)` sees the whole source, others see what the policy's k
    shows them. `length_penalty` is that of `generate`."""

    beams: int = 1
    members: Models | None = None
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        check_at_least_one("tail_beams", self.beams)
        if self.beams > MAX_BEAMS:
            raise ValueError(f"tail_beams must be {MAX_BEAMS} or less; got {self.beams}")

    @property
    def plain(self) -> bool:
        """Does the policy simply go on?"""
        return self.beams == 1 and self.members is None

    def __str__(self) -> str:
        named = "" if self.members is None else "," + "+".join(map(str, self.members))
        return f"tail:{f'beam{self.beams}' if self.beams > 1 else 'greedy'}{named}"


def tail_members(tail: Any, have: Sequence[K]) -> Models | None:
    """Who writes the tail, from `FULL`, a k or several of them; refused if not in the set."""
    if tail is None:
        return None
    named = tuple(tail) if isinstance(tail, (list, tuple)) else (tail,)
    if not named or any(one not in have for one in named) or len(set(named)) < len(named):
        raise ValueError(
            f"tail names members of the set, {list(have)}, each once, or None for those the policy "
            f"asks; got {tail!r}"
        )
    return named


class NoLoops(LogitsProcessor):
    """A guard for text that people read: no phrase is written more than three times in a row.

    Phrases of one or two tokens may be repeated until they fill eight tokens, because numbers and
    ruled lines are written like that."""

    LONGEST = 12

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.clone()
        for index, row in enumerate(input_ids.tolist()):
            scores[index, list(self.forbidden(row))] = -torch.inf
        return scores

    def forbidden(self, written: list[int]) -> Iterator[int]:
        """What must not come next, after a prompt's first token and what was written behind it."""
        for size in range(1, min(self.LONGEST, len(written) - 2) + 1):
            if written[-1] != written[-1 - size]:
                continue  # nothing of this size is repeated
            often = max(3, 8 // size)
            end = written[1:][-(often + 1) * size + 1 :]
            if len(end) == (often + 1) * size - 1 and end[size:] == end[:-size]:
                yield end[-size]


@dataclass(frozen=True, kw_only=True)
class DecodingRules:
    """What holds for every sentence of a call.

    `early_stop=False` reads on where the models want to end and the source is still open.
    `max_new_tokens=None` is `longest_target` of what was read, but no more than `ceiling`, the
    length that the checkpoint's own generation config names."""

    eos: tuple[int, ...]
    prompt: tuple[int, ...]
    """What every target begins with: the decoder's start token, and what is forced behind it."""
    vocabulary: int
    position_limit: int
    max_new_tokens: int | None = None
    ceiling: int | None = None
    early_stop: bool = True
    processors: LogitsProcessorList = field(default_factory=LogitsProcessorList)
    stopping: StoppingCriteriaList = field(default_factory=StoppingCriteriaList)
    tail: Tail = field(default_factory=Tail)

    def __post_init__(self) -> None:
        if self.max_new_tokens is not None:
            check_at_least_one("max_new_tokens", self.max_new_tokens)

    def anew(self) -> "DecodingRules":
        """The same for a sentence that begins now, from where its time is counted."""
        stopping = [
            MaxTimeCriteria(one.max_time) if type(one) is MaxTimeCriteria else one
            for one in self.stopping
        ]
        return replace(self, stopping=StoppingCriteriaList(stopping))

    def choose(self, distributions: torch.Tensor, states: Sequence[State]) -> list[Prediction]:
        """The top token of each distribution after the processors, with its probability before
        them."""
        if self._only_guarded:  # the logarithm would change no order
            scores = self._guarded(distributions, states)
        else:
            scores = self.scores(distributions, states)
        tokens = scores.argmax(-1)
        probabilities = distributions.gather(-1, tokens[:, None])[:, 0]
        return [
            Prediction(token, probability, row, ends=token in self.eos)
            for token, probability, row in zip(
                tokens.tolist(), probabilities.tolist(), distributions, strict=True
            )
        ]

    def scores(self, distributions: torch.Tensor, states: Sequence[State]) -> torch.Tensor:
        """The logarithms of the distributions, after the processors."""
        if self._only_guarded:
            return self._guarded(distributions.log(), states)
        return torch.stack(
            [self._processed(row, state) for row, state in zip(distributions, states, strict=True)]
        )

    @cached_property
    def _only_guarded(self) -> bool:
        """Is there no processor but our own, which need not see row by row what it forbids?"""
        return all(type(processor) is NoLoops for processor in self.processors)

    def _guarded(self, scores: torch.Tensor, states: Sequence[State]) -> torch.Tensor:
        """The scores without what is forbidden; most often nothing is, and nothing is copied."""
        places = [
            (row, token)
            for row, state in enumerate(states)
            for guard in self.processors
            for token in guard.forbidden([*self.prompt, *state.target])
        ]
        if not places:
            return scores
        rows, tokens = zip(*places, strict=True)
        scores = scores.clone()
        scores[list(rows), list(tokens)] = -torch.inf
        return scores

    def _processed(self, distribution: torch.Tensor, state: State) -> torch.Tensor:
        return self.processors(self._ids(state, distribution.device), distribution.log()[None])[0]

    def _ids(self, state: State, device: torch.device) -> torch.Tensor:
        return torch.tensor([[*self.prompt, *state.target]], device=device)

    def reads_on(self, token: int, state: State) -> bool:
        """Is this an end before the source has ended, where that is not allowed? Or is the target
        as long as what was read allows, so that only more source makes room?"""
        if self.early_stop or state.source_ended:
            return False
        return token in self.eos or self.limit(state) <= len(state.target) < self._most

    def over(self, state: State, prediction: Prediction | None) -> bool:
        """Was the token just written the last?"""
        last = state.target[-1]
        if last in self.eos:
            return True
        if len(state.target) >= self.limit(state) and not self.reads_on(last, state):
            return True
        if not self.stopping:
            return False
        seen = prediction.distribution if prediction is not None else None
        if not isinstance(seen, torch.Tensor):
            return bool(self.stopping(self._ids(state, torch.device("cpu")), None).all())
        return bool(self.stopping(self._ids(state, seen.device), (seen.log()[None],)).all())

    def limit(self, state: State) -> int:
        """How many tokens the target may have, given what was read."""
        if self.max_new_tokens is not None:
            return self._most
        return longest_target(len(state.source), self._most)

    @property
    def _most(self) -> int:
        """How many tokens any target may have."""
        named = self.ceiling if self.max_new_tokens is None else self.max_new_tokens
        return self.position_limit if named is None else min(named, self.position_limit)


def longest_target(source_length: int, position_limit: int) -> int:
    """How many tokens a translation may have, both lengths with `</s>`: only a model that has lost
    the thread writes more."""
    return min(2 * source_length + 20, position_limit)


def rules_from(
    model: Any,
    *,
    generation_config: GenerationConfig | None = None,
    logits_processor: LogitsProcessorList | None = None,
    stopping_criteria: StoppingCriteriaList | None = None,
    tokenizer: Any = None,
    early_stop: bool = True,
    position_limit: int,
    prompt: tuple[int, ...],
    tail_beams: int = 1,
    tail: Models | None = None,
    **kwargs: Any,
) -> DecodingRules:
    """The rules that `model.generate` would follow with these arguments; keywords beat the
    generation config."""
    given = [kwargs, *([generation_config.to_dict()] if generation_config else [])]
    for settings in given:
        _refuse_search(settings)
        _refuse_outputs(settings)
    chosen = _max_new_tokens(given)
    own = _max_new_tokens([model.generation_config.to_dict()])
    length = own if chosen is None else chosen
    config = _settled(model, generation_config, length, prompt, kwargs)
    eos = tuple(config._eos_token_tensor.flatten().tolist())
    processors = model._get_logits_processor(
        generation_config=config,
        input_ids_seq_length=1,
        logits_processor=logits_processor,
        device=model.device,
    )
    # `DecodingRules.over` looks after these two itself.
    config.max_length = None
    config._eos_token_tensor = None
    penalty = 1.0 if config.length_penalty is None else config.length_penalty
    return DecodingRules(
        eos=eos,
        prompt=prompt,
        vocabulary=model.get_output_embeddings().weight.shape[0],
        position_limit=position_limit,
        max_new_tokens=_behind(prompt, chosen),
        ceiling=_behind(prompt, own),
        early_stop=early_stop,
        tail=Tail(beams=tail_beams, members=tail, length_penalty=penalty),
        processors=processors,
        stopping=model._get_stopping_criteria(
            config, stopping_criteria or StoppingCriteriaList(), tokenizer
        ),
    )


def _settled(
    model: Any,
    generation_config: GenerationConfig | None,
    length: int | None,
    prompt: tuple[int, ...],
    kwargs: dict[str, Any],
) -> GenerationConfig:
    """The generation config as `model.generate` would make it, greedy and with this length."""
    config, unknown = model._prepare_generation_config(generation_config, **kwargs)
    if "wait_k" not in kwargs:
        # A default of the model's own generation config; here a policy decides.
        unknown.pop("wait_k", None)
    if unknown:
        raise ValueError(
            f"unknown arguments: {', '.join(sorted(unknown))}. Allowed are those of "
            f"GenerationConfig, and policy, "
            "streamer, logits_processor, stopping_criteria, early_stop, history, undecided, tail, "
            "tail_beams; instead of wait_k, policy=WaitK(k)"
        )
    # The start token counts in transformers' lengths.
    config.max_length = None if length is None else length + 1
    if length is None:
        config.forced_eos_token_id = None  # there is no limit for it to be forced at
    config.do_sample = False
    config.num_beams = 1
    if config.forced_bos_token_id is not None and len(prompt) > 1:
        if config.forced_bos_token_id != prompt[-1]:
            raise ValueError(
                f"every target begins with the tokens {list(prompt)}; got forced_bos_token_id="
                f"{config.forced_bos_token_id}. Give the generator another target_language"
            )
        config.forced_bos_token_id = None  # the prompt has it
    model._prepare_special_tokens(config, True, device=model.device)
    if config._eos_token_tensor is None:
        raise ValueError(
            "the models have no eos_token_id, so no sentence would ever end; set it in their "
            "configs"
        )
    settled: GenerationConfig = config
    return settled


def _refuse_search(settings: dict[str, Any]) -> None:
    """What is written stays, so there is nothing to search; a checkpoint's own default of beams is
    ignored."""
    several = any((settings.get(name) or 1) > 1 for name in ("num_beams", "num_return_sequences"))
    if several or settings.get("do_sample"):
        raise ValueError(
            "simultaneous decoding is greedy: nothing written is taken back. Leave out num_beams, "
            "do_sample and "
            "num_return_sequences, or use model.generate(..., wait_k=...) for beam search over a "
            "finished source"
        )


def _refuse_outputs(settings: dict[str, Any]) -> None:
    """A token may rest on several models, and the tokens before it on others."""
    asked = [name for name in OUTPUTS if settings.get(name)]
    if asked:
        raise ValueError(
            f"simultaneous decoding does not return what {', '.join(asked)} asks for. Leave it "
            "out: return_dict_in_generate=True gives the probability of every token, a call of "
            "the model on source and translation all else"
        )


def returns_dict(asked: bool | None, config: GenerationConfig | None) -> bool:
    """Is more than the sequences asked for, by keyword or by the given generation config?"""
    if asked is None:
        return bool(config is not None and config.return_dict_in_generate)
    return asked


def _max_new_tokens(settings: Iterable[dict[str, Any]]) -> int | None:
    """The length limit in new tokens: the first settings that have one, `max_new_tokens` before
    `max_length`."""
    for given in settings:
        if given.get("max_new_tokens") is not None:
            return int(given["max_new_tokens"])
        if given.get("max_length") is not None:
            return max(1, int(given["max_length"]) - 1)
    return None


def _behind(prompt: tuple[int, ...], length: int | None) -> int | None:
    """As in transformers, a token that is forced first is one of the new."""
    return None if length is None else max(1, length + 1 - len(prompt))
