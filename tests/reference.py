"""The decoder to be equal to: no lanes, no caches; every prediction encodes what was read and
forces the whole target.

Also the random sets of models and the random cases on which the engine is compared with it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from hf_simultaneous import AdaptiveWaitKGenerator, SimultaneousMTModel
from hf_simultaneous.actions import Action, Policy, Predict, Prediction, Read, State, Write
from hf_simultaneous.decoding_rules import Tail
from hf_simultaneous.masks import packed_cross_mask, plain_cross_mask
from hf_simultaneous.policies import (
    Adaptive,
    FullSentence,
    TestTimeWaitK,
    WaitIfDiff,
    WaitIfWorse,
    WaitK,
)
from hf_simultaneous.schedule import FULL, K, visible
from tests.reference_tail import search, tail_question
from tests.tiny import EOS, PAD, tiny_model


@dataclass
class Translation:
    """What a policy did with one source, in the words of `SimultaneousOutput`."""

    target: list[int] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    contexts: list[int] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    early_stop: bool = False
    read_on: int = 0
    """How often the models wanted to end and had to read on."""
    surprising: bool = False
    """Did the search of the tail find what greedy search would not?"""


GREEDY = Tail()
Distribution = Callable[..., torch.Tensor]


def translate(
    policy: Policy,
    source: Sequence[int],
    distribution: Distribution,
    *,
    catchup: int | None = None,
    max_new_tokens: int = 12,
    early_stop: bool = True,
    tail: Tail = GREEDY,
) -> Translation:
    """The reference decoder. `distribution(source, target, k, context, models, seen, floors)` makes
    each prediction; `floors` are what reading on lets each position see, however small k is."""
    decoder = _Decoder(policy, source, max_new_tokens, tail, State(catchup=catchup))
    return decoder.run(early_stop, distribution)


@dataclass
class _Decoder:
    """One sentence on its way."""

    policy: Policy
    source: Sequence[int]
    max_new_tokens: int
    tail: Tail
    state: State
    done: Translation = field(default_factory=Translation)
    seen: list[int] = field(default_factory=list)
    floors: list[int] = field(default_factory=lambda: [0])
    asked: list[tuple[int | None, int | None, Prediction]] = field(default_factory=list)

    def run(self, early_stop: bool, distribution: Distribution) -> Translation:
        self.distribution, state, done = distribution, self.state, self.done
        while EOS not in state.target and len(state.target) < self.max_new_tokens:
            if state.source_ended and not self.tail.plain:
                self.write_tail()
                break
            self.asked.clear()
            action = self.policy(state, self.predict)
            end = isinstance(action, Write) and action.token == EOS
            reads_on = end and not (early_stop or state.source_ended)
            if isinstance(action, Read) or reads_on:
                self.read(action if reads_on else None)
                continue
            matching = (one for one in self.asked if action.context in one[1:2])
            k, _, reason = next(matching, self.asked[-1])
            self.write(action, k, reason.probability)
        done.target, done.early_stop = state.target, EOS in state.target and not state.source_ended
        return done

    def predict(self, k=None, *, context=None, models=None, besides=()):
        state = self.state
        seen = [*self.seen, len(state.source)]
        mean = self.distribution(state.source, state.target, k, context, models, seen, self.floors)
        token = int(mean.argmax())
        self.asked.append((k, context, Prediction(token, float(mean[token]), mean)))
        return self.asked[-1][2]

    def read(self, instead_of: Write | None) -> None:
        """`instead_of` the end that the models wanted, if they did."""
        state = self.state
        self.done.actions.append(Read())
        state.source.append(self.source[len(state.source)])
        state.source_ended = len(state.source) == len(self.source)
        if instead_of is not None:
            self.done.read_on += 1
            self.floors[-1] = len(state.source)
            if instead_of.context is not None:
                state.context = instead_of.context + 1

    def write(self, action: Write, k: int | None, probability: float) -> None:
        state, done = self.state, self.done
        done.actions.append(action)
        if action.token != EOS:
            done.delays.append(len(state.source) - (state.source[-1] == EOS))
            done.contexts.append(min(action.context or len(self.source), done.delays[-1]))
            done.lags.append(state.lag if k is None else k)
            done.probabilities.append(probability)
        self.seen.append(len(state.source))
        self.floors.append(self.floors[-1])
        state.target.append(action.token)
        state.context = action.context or state.context

    def write_tail(self) -> None:
        state = self.state
        k, context, models = tail_question(self.policy, state, self.tail)

        def after(tokens: tuple[int, ...]) -> torch.Tensor:
            lower = [*self.floors, *self.floors[-1:] * len(tokens)]
            target = [*state.target, *tokens]
            return self.distribution(state.source, target, k, context, models, self.seen, lower)

        room = self.max_new_tokens - len(state.target)
        best = search(partial(all_of, after), self.tail.beams, room)
        self.done.surprising = best.surprising
        for token, probability in zip(best.tokens, best.probabilities, strict=True):
            self.write(Write(token), k, probability)


@torch.inference_mode()
def forced(model: Any, source: Sequence[int], target: Sequence[int], k: int | None) -> torch.Tensor:
    """One model's next-token distribution, everything from scratch; `k=None` is the full
    sentence."""
    outputs = model(
        torch.tensor([source]), decoder_input_ids=torch.tensor([[PAD, *target]]), wait_k=k or "full"
    )
    return outputs.logits[0, -1].softmax(-1)


@torch.inference_mode()
def along(
    model: Any, source: Sequence[int], target: Sequence[int], seen: Sequence[int]
) -> torch.Tensor:
    """The same for `history="path"`: position t sees the first seen[t] source tokens, whatever any
    k says."""
    packed = model.config.encoder_attention == "prefix"
    states = model.get_encoder()(torch.tensor([source]), wait_k=1 if packed else "full")
    mask = (packed_cross_mask if packed else plain_cross_mask)(
        torch.tensor([seen]), states.last_hidden_state.shape[1]
    )
    target_ids = torch.tensor([[PAD, *target]])
    return (
        model(encoder_outputs=states, attention_mask=mask, decoder_input_ids=target_ids)
        .logits[0, -1]
        .softmax(-1)
    )


def read_on(
    model: Any, source: Sequence[int], target: Sequence[int], k: int, floors: Sequence[int]
) -> torch.Tensor:
    """P_k where some positions see more than their k would show them."""
    shown = [
        max(visible(step, k, len(source), model.config.catchup), floor)
        for step, floor in enumerate(floors, start=1)
    ]
    return along(model, source, target, shown)


def members_of(ensembles: Any, models: Mapping[K, Any], k: int | None, k_max: int) -> tuple[K, ...]:
    """Who speaks at k, naively: the named, all, the three nearest or the nearest."""
    trained = [key for key in models if key != FULL]
    if k is None:
        return (FULL,) if FULL in models else members_of(ensembles, models, k_max, k_max)
    if isinstance(ensembles, Mapping):
        return tuple(ensembles[k])
    if not trained:
        return (FULL,)
    near = sorted(trained, key=lambda key: abs(key - k) - key / 1000)
    return tuple({"single": near[:1], "top-3": near[:3], "all": trained}[ensembles])


class Missing(BaseException):
    """A prediction that `Oracle` has not made yet."""


def all_of(
    ask: Callable[[tuple[int, ...]], torch.Tensor], questions: Sequence[tuple[int, ...]]
) -> list[torch.Tensor]:
    """Every answer; if some are missing, all that are get noted before it gives up."""
    answers, missing = [], False
    for question in questions:
        try:
            answers.append(ask(question))
        except Missing:
            missing = True
    if missing:
        raise Missing
    return answers


class Oracle:
    """`forced` for many translations at once: what they ask for is made in one padded call per
    model, and kept.

    Still from scratch: a call knows nothing of any other. A translation that misses an answer goes
    on when it is there."""

    def __init__(self, models: Mapping[K, Any], members: Callable[[int | None], tuple[K, ...]]):
        self.models, self.members = models, members
        self.known: dict[tuple[Any, ...], torch.Tensor] = {}
        self.missing: dict[tuple[Any, ...], None] = {}

    def __call__(self, source, target, k, context, models, seen, floors) -> torch.Tensor:
        asked = self._question(source, target, k, context, floors)
        questions = [(key, *asked) for key in models or self.members(k)]
        new = [question for question in questions if question not in self.known]
        if new:
            self.missing |= dict.fromkeys(new)
            raise Missing
        return sum(self.known[question] for question in questions) / len(questions)

    def translate_all(
        self, jobs: Sequence[Callable[[Distribution], Translation]]
    ) -> list[Translation]:
        """Each job calls `translate` with the distribution it is given."""
        results: dict[int, Translation] = {}
        while len(results) < len(jobs):
            for index, job in enumerate(jobs):
                if index not in results:
                    try:
                        results[index] = job(self)
                    except Missing:
                        continue
            for key in {question[0] for question in self.missing}:
                self._answer(key, [question for question in self.missing if question[0] == key])
            self.missing.clear()
        return [results[index] for index in range(len(jobs))]

    def _question(self, source, target, k, context, floors) -> tuple[Any, ...]:
        """All that an answer hangs on, but for the model."""
        read = source if context is None else source[:context]
        shown = tuple(floors) if k is not None and any(floors) else ()
        return tuple(read), tuple(target), k, shown

    @torch.inference_mode()
    def _answer(self, key: K, questions: list[tuple[Any, ...]]) -> None:
        for question in [question for question in questions if question[-1]]:
            self.known[question] = read_on(self.models[key], *question[1:])
        questions = [question for question in questions if not question[-1]]
        if not questions:
            return
        _, sources, targets, ks, _ = zip(*questions, strict=True)
        logits = self.models[key](
            padded(sources),
            attention_mask=padded([[1] * len(source) for source in sources]),
            decoder_input_ids=padded([[PAD, *target] for target in targets]),
            wait_k=torch.tensor([k or len(source) for k, source in zip(ks, sources, strict=True)]),
            use_cache=False,  # which takes longer to make than the answer
        ).logits
        last = torch.tensor([len(target) for target in targets])
        self.known.update(
            zip(questions, logits[torch.arange(len(last)), last].softmax(-1), strict=True)
        )


def padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Rows of token ids as one tensor, zeros on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])


class NearTies:
    """A policy that does what another does, and counts decisions that other roundings could
    turn."""

    def __init__(self, policy: Policy, margin: float):
        self.policy, self.margin, self.found = policy, margin, 0

    def __call__(self, state: State, predict: Predict) -> Action:
        action = self.policy(state, predict)
        for off in (self.margin, -self.margin):
            self.found += self.policy(state, self._off_by(off, predict)) != action
        return action

    def _off_by(self, off: float, predict: Predict) -> Predict:
        signs: dict[Any, float] = {}

        def shifted(k=None, *, context=None, models=None, besides=()):
            answer = predict(k, context=context, models=models)
            near = (answer.distribution - answer.probability).abs() < self.margin
            self.found += int(near.sum() > 1)  # another token is as probable
            # Two predictions that are compared move apart.
            shift = signs.setdefault((k, context), off * (-1) ** len(signs))
            return Prediction(answer.token, answer.probability + shift, answer.distribution + shift)

        return shifted


@dataclass
class RandomSet:
    """A generator on random models, and how to find out what it must do."""

    generator: AdaptiveWaitKGenerator
    ensembles: Any
    early_stop: bool
    max_new_tokens: int
    tail: Tail = GREEDY

    @property
    def options(self) -> dict[str, Any]:
        """As `generate` and `session` take them."""
        tail = {"tail_beams": self.tail.beams, "tail": self.tail.members}
        return {"max_new_tokens": self.max_new_tokens, **tail}

    def oracle(self, models: Mapping[K, Any] | None = None) -> Oracle:
        models, k_max = models or self.generator.models, self.generator.policy.k_max
        return Oracle(models, lambda k: members_of(self.ensembles, models, k, k_max))

    def cases(
        self, rng: random.Random, count: int, margin: float
    ) -> tuple[list[tuple[Policy, list[int]]], list[Translation], int]:
        """Random cases, what must come out, and how many were redrawn: a decision hung on less than
        `margin`."""
        oracle, kept, redrawn = self.oracle(), [], 0
        while len(kept) < count:
            drawn = [
                (random_policy(rng, self), random_source(rng)) for _ in range(count - len(kept))
            ]
            watched = [NearTies(policy, margin) for policy, _ in drawn]
            jobs = [
                self.job(policy, source) for policy, (_, source) in zip(watched, drawn, strict=True)
            ]
            results = zip(drawn, oracle.translate_all(jobs), strict=True)
            good = [
                result for result, policy in zip(results, watched, strict=True) if not policy.found
            ]
            redrawn += len(drawn) - len(good)
            kept += good
        return *map(list, zip(*kept, strict=True)), redrawn

    def job(self, policy: Policy, source: Sequence[int]) -> Callable[[Distribution], Translation]:
        """Goes on where it was when an answer was missing: a policy is a function of the state."""
        state = State(catchup=self.generator.catchup)
        decoder = _Decoder(policy, source, self.max_new_tokens, self.tail, state)
        return partial(decoder.run, self.early_stop)


def random_model(
    rng: random.Random, catchup: int | None, dtype: torch.dtype, **overrides: Any
) -> SimultaneousMTModel:
    """Of any size and either encoder; says different things, and ends now and then."""
    model = tiny_model(
        rng.randrange(10**6),
        dtype,
        **{
            "vocab_size": 24,
            "d_model": rng.choice((8, 16)),
            "encoder_layers": 1,
            "decoder_layers": rng.choice(
                (1, 2, 2)
            ),  # in the first layer a position does not know what others saw
            "encoder_attention_heads": rng.choice((1, 2)),
            "decoder_attention_heads": rng.choice((1, 2, 4)),
            "encoder_ffn_dim": 16,
            "decoder_ffn_dim": 16,
            "max_position_embeddings": 32,
            "encoder_attention": rng.choice(("causal", "prefix")),
            "share_encoder_decoder_embeddings": False,
            "tie_word_embeddings": False,
            "catchup": catchup,
            **overrides,
        },
    )
    # As they come, such models say one word again and again.
    decoder, head = model.model.decoder, model.lm_head.weight
    with torch.no_grad():
        for layer in decoder.layers:
            layer.encoder_attn.q_proj.weight *= 3
            layer.encoder_attn.out_proj.weight *= 0.4
            layer.self_attn.out_proj.weight *= 0.4
        head -= 2 * decoder.embed_tokens.weight * head.std() / decoder.embed_tokens.weight.std()
        model.final_logits_bias[0, [PAD, EOS]] += torch.tensor([-9.0, rng.choice((0.5, 1.5, 2.5))])
    return model


def random_set(
    rng: random.Random, dtype: torch.dtype = torch.float64, **overrides: Any
) -> RandomSet:
    """One to four models with gaps between their ks, perhaps a full-sentence one; any thresholds,
    any ensembles."""
    catchup = rng.choice((None, None, 1, 2, 3))
    keys: list[int | None] = sorted(rng.sample(range(1, 7), rng.randint(1, 4)))
    keys += [FULL] * rng.randint(0, 1)
    models = {k: random_model(rng, catchup, dtype, **overrides) for k in keys}
    k_min = rng.randint(1, 3)
    k_max = k_min + rng.randint(0, 5)
    ks = range(k_min, k_max + 1)
    given = {k: rng.sample(list(models), rng.randint(1, len(models))) for k in ks}
    ensembles = rng.choice(("single", "single", "top-3", "all", given))
    early_stop = rng.random() < 0.5
    generator = AdaptiveWaitKGenerator(
        models, thresholds={k: rng.random() for k in ks}, ensembles=ensembles, early_stop=early_stop
    )
    return RandomSet(generator, ensembles, early_stop, rng.randint(6, 12))


def random_policy(rng: random.Random, random_set: RandomSet) -> Policy:
    """Every kind there is; half of them adaptive."""
    thresholds = random_set.generator.thresholds
    have = list(random_set.generator.models)
    named = tuple(rng.sample(have, rng.randint(1, len(have))))
    adaptive = [
        Adaptive({k: rng.uniform(low, 1) for k in thresholds}) for low in (0, 0.3, 0.6, 0.9)
    ]
    k = rng.choice(list(thresholds))
    others: list[Policy] = [
        WaitK(k),
        WaitK(rng.randint(1, 6), models=named),
        TestTimeWaitK(k) if FULL in have else TestTimeWaitK(k, models=named),
        FullSentence(),
        FullSentence(models=named),
        WaitIfDiff(rng.randint(1, 3), rng.randint(1, 3)),
        WaitIfDiff(rng.randint(1, 3), 1, models=named),
        WaitIfWorse(rng.randint(1, 3), rng.randint(1, 3), compare=rng.choice(("same", "top"))),
    ]
    return rng.choice((adaptive, others)[rng.random() < 0.5])


def random_source(rng: random.Random, vocabulary: int = 24) -> list[int]:
    """Two to nine words and `</s>`; now and then the `</s>` is missing."""
    words = [rng.randrange(EOS + 1, vocabulary) for _ in range(rng.randint(2, 9))]
    return words if rng.random() < 0.1 else [*words, EOS]


def word_tokenizer(vocabulary: int = 24) -> PreTrainedTokenizerFast:
    """A word is a token: `w4` to `w23`, and any other is `<unk>`."""
    names = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{number}" for number in range(4, vocabulary))]
    backend = Tokenizer(
        WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = WhitespaceSplit()
    backend.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", EOS)])
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)
