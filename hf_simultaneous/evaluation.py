"""A policy over a corpus: every sentence decoded, logged and scored.

Knows texts, batches and processes; how sentences are scored is `scores`' business, and how they are decoded
`generation`'s.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from tqdm.auto import tqdm

from .actions import Action, Policy, Write
from .generation import AdaptiveWaitKGenerator
from .logs import Line, read_log, source_words, write_instances, write_log
from .policies import Adaptive, FullSentence, TestTimeWaitK, WaitIfDiff, WaitIfWorse, WaitK
from .scores import USUAL, Scores, Scoring, score, scores_from_log
from .text import TargetText


__all__ = [
    "Decoding",
    "Evaluation",
    "decode_corpus",
    "describe",
    "evaluate",
    "is_main_process",
    "read_log",
    "scores_from_log",
    "write_instances",
    "write_log",
]


def describe(policy: Policy) -> str:
    """A policy in a few words, for tables."""
    match policy:
        case TestTimeWaitK(k):
            return f"test-time wait-{k}"
        case WaitK(k):
            return f"wait-{k}"
        case WaitIfDiff(start, delta) | WaitIfWorse(start, delta):
            name = "wait-if-diff" if isinstance(policy, WaitIfDiff) else "wait-if-worse"
            return f"{name}, start {start}, delta {delta}"
        case Adaptive():
            return "adaptive, " + " ".join(f"{k}:{rho:.3g}" for k, rho in policy.thresholds.items())
        case FullSentence():
            return "full sentence"
    return repr(policy)


@dataclass(frozen=True)
class Decoding:
    """How a corpus is decoded.

    `beams` above 1 is beam search over finished sentences, for the full-sentence policy only. `timed` sentences,
    spread over the corpus, are decoded once more one by one with a clock running.
    """

    _: KW_ONLY
    batch_size: int = 128
    beams: int = 1
    timed: int = 20
    progress: bool = True

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("beams", 1), ("timed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be {least} or more; got {getattr(self, name)}")


DEFAULT = Decoding()


@dataclass(frozen=True)
class Evaluation:
    """The scores and the lines they come from; `encoder` is that of the models that decoded."""

    scores: Scores
    lines: tuple[Line, ...]
    policy: str
    encoder: str


def evaluate(
    generator: AdaptiveWaitKGenerator | Any,
    source: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    policy: Policy | None = None,
    *,
    tokenizer: Any = None,
    decoding: Decoding = DEFAULT,
    scoring: Scoring = USUAL,
    log: str | Path | None = None,
) -> Evaluation:
    """Translate `source` under a policy (by default the generator's own) and score it.

    `generator` may be a model or `{k: model}` with their `tokenizer`. `references` is a list of sentences, or several
    such lists. Under accelerate the processes share the corpus, and each returns the whole result.
    """
    if not isinstance(generator, AdaptiveWaitKGenerator):
        generator = AdaptiveWaitKGenerator(generator, tokenizer)
    lines = decode_corpus(generator, source, references, policy, decoding)
    if log is not None and is_main_process():
        write_log(log, lines)
    name = describe(policy or generator.policy) + (f", beam {decoding.beams}" if decoding.beams > 1 else "")
    return Evaluation(score(lines, scoring), tuple(lines), name, encoder_of(generator))


def encoder_of(generator: AdaptiveWaitKGenerator) -> str:
    """What the members' encoders see: `prefix` (bidirectional) or `causal`; named for each where they differ."""
    kinds = {"full" if k is None else f"wait-{k}": m.config.encoder_attention for k, m in generator.models.items()}
    alike = set(kinds.values())
    return alike.pop() if len(alike) == 1 else ", ".join(f"{name} {kind}" for name, kind in kinds.items())


def decode_corpus(
    generator: AdaptiveWaitKGenerator,
    source: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    policy: Policy | None = None,
    decoding: Decoding = DEFAULT,
) -> list[Line]:
    """One line for each sentence, in the order given."""
    if decoding.beams > 1 and not isinstance(policy, FullSentence):
        raise ValueError(f"beams={decoding.beams} is for full sentences: what {policy or 'adaptive'} writes stays")
    streams = _streams(references)
    corpus = _Corpus(generator, list(source), streams)
    batches = corpus.batches(max(1, decoding.batch_size // decoding.beams))
    timed = set(_spread(len(source), decoding.timed))
    # Whole batches are shared out, so that every sentence has the neighbours, and the rounding, of a single process.
    rank, processes = _process()
    lines: list[Line] = []
    with tqdm(total=len(source), disable=not decoding.progress or rank > 0, unit="sentence", leave=False) as bar:
        for batch in batches[rank::processes]:
            lines += corpus.decode(batch, policy, decoding.beams)
            bar.update(len(batch) * processes)
    lines = [_with_costs(corpus, line, policy, decoding.beams) if line.index in timed else line for line in lines]
    return sorted(_gathered(lines, processes), key=lambda line: line.index)


def _process() -> tuple[int, int]:
    """This process' number, and how many there are."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return 0, 1
    from accelerate import PartialState

    state = PartialState(cpu=not torch.cuda.is_available())  # else it takes them for one without GPUs
    return state.process_index, state.num_processes


def is_main_process() -> bool:
    """Is this the process, of several that share a corpus, that writes files?"""
    return _process()[0] == 0


def _gathered(lines: list[Line], processes: int) -> list[Line]:
    if processes == 1:
        return lines
    from accelerate.utils import gather_object

    return list(gather_object(lines))


def _streams(references: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
    if not references or isinstance(references, str):
        raise ValueError(f"references must be a list of sentences, or several such lists; got {references!r}")
    if all(isinstance(one, str) for one in references):
        return [[str(one) for one in references]]
    return [list(stream) for stream in references]


def _spread(sentences: int, wanted: int) -> Iterable[int]:
    """`wanted` places, evenly over the corpus."""
    wanted = min(wanted, sentences)
    return (place * sentences // wanted for place in range(wanted))


class _Corpus:
    """Tokenised sentences of one corpus, and how its batches are decoded."""

    def __init__(self, generator: AdaptiveWaitKGenerator, source: list[str], streams: list[list[str]]):
        tokenizer = generator.tokenizer
        if tokenizer is None:
            raise ValueError("the generator has no tokenizer; give it one, or load a set that was saved with it")
        _check_texts(source, streams)
        self.generator, self.source, self.streams, self._tokenizer = generator, source, streams, tokenizer
        self.ids: list[list[int]] = tokenizer(source, verbose=False).input_ids
        self._reference_lengths = [
            self._length(ids) for ids in tokenizer(text_target=streams[0], verbose=False).input_ids
        ]
        limit = generator.position_limit
        long = next((index for index, ids in enumerate(self.ids) if len(ids) > limit), None)
        if long is not None:
            raise ValueError(
                f"source sentence {long + 1} has {len(self.ids[long])} tokens, the models read {limit} at most. "
                "Split it or leave it out"
            )
        self._target = TargetText(tokenizer)
        self._words = [self._words_read(index) for index in range(len(source))]

    def batches(self, size: int) -> list[list[int]]:
        order = sorted(range(len(self.ids)), key=lambda index: (len(self.ids[index]), index))
        return [order[start : start + size] for start in range(0, len(order), size)]

    @torch.inference_mode()
    def decode(self, batch: list[int], policy: Policy | None, beams: int) -> list[Line]:
        if beams > 1:
            return [
                self._full_line(index, tokens) for index, tokens in zip(batch, self._search(batch, beams), strict=True)
            ]
        ids = [self.ids[index] for index in batch]
        output: Any = self.generator.generate(
            ids, policy=policy, max_new_tokens=self.longest(batch), return_dict_in_generate=True
        )
        columns = (output.delays, output.contexts, output.lags, output.probabilities, output.early_stops)
        lines = []
        for index, actions, *values in zip(batch, output.actions, *columns, strict=True):
            lines.append(self._line(index, *self._within(index, actions, *values)))
        return lines

    def _within(self, index: int, actions: list[Action], *values: Any) -> tuple[Any, ...]:
        """What was decoded, cut at the sentence's own bound: a batch goes on to that of its longest."""
        most = self.longest([index])
        letters = "".join("W" if isinstance(action, Write) else "R" for action in actions)
        tokens = [action.token for action in actions if isinstance(action, Write)]
        if len(tokens) > most:
            end = [place for place, letter in enumerate(letters, start=1) if letter == "W"][most - 1]
            letters, tokens = letters[:end], tokens[:most]
        *columns, early_stop = values
        return letters, tokens, *(column[:most] for column in columns), early_stop

    def longest(self, batch: list[int]) -> int:
        """Only a model that has lost the thread writes more; the same bound as `Rules` has for streams."""
        return min(2 * max(len(self.ids[index]) for index in batch) + 20, self.generator.position_limit - 1)

    def _search(self, batch: list[int], beams: int) -> list[list[int]]:
        model, pad = self.generator.models.get(None, self.generator.model), self.generator.model.config.pad_token_id
        longest = max(len(self.ids[index]) for index in batch)
        ids = torch.tensor([self.ids[index] + [pad] * (longest - len(self.ids[index])) for index in batch])
        mask = torch.tensor([[1] * len(self.ids[i]) + [0] * (longest - len(self.ids[i])) for i in batch])
        found = model.generate(
            ids.to(model.device),
            attention_mask=mask.to(model.device),
            num_beams=beams,
            do_sample=False,
            wait_k="full",
            max_length=self.longest(batch) + 1,  # the start token counts
        )
        ends = self._ends()
        return [_up_to(row[1:], ends, pad) for row in found.tolist()]

    def _full_line(self, index: int, tokens: list[int]) -> Line:
        written = len(tokens) - (tokens[-1:] != [] and tokens[-1] in self._ends())
        length = self._length(self.ids[index])
        letters = "R" * len(self.ids[index]) + "W" * len(tokens)
        delays = [length] * written
        return self._line(index, letters, tokens, delays, delays, [length] * written, [None] * written, False)

    def _line(self, index: int, letters: str, tokens: list[int], *values: Any) -> Line:
        delays, contexts, lags, probabilities, early_stop = values
        hypothesis = str(self._tokenizer.decode(tokens, skip_special_tokens=True)).strip()
        return Line(
            index=index,
            sentences=len(self.source),
            source=self.source[index],
            references=tuple(stream[index] for stream in self.streams),
            hypothesis=hypothesis,
            actions=letters,
            delays=delays,
            contexts=contexts,
            lags=lags,
            probabilities=probabilities,
            source_length=self._length(self.ids[index]),
            reference_length=self._reference_lengths[index],
            early_stop=early_stop,
            word_delays=self._word_delays(index, letters, tokens, hypothesis),
        )

    def _word_delays(self, index: int, letters: str, tokens: list[int], hypothesis: str) -> tuple[int, ...] | None:
        """When each word of the hypothesis was complete, in source words; None where they cannot be told apart."""
        read = self._words[index]
        if read is None:
            return None
        reads = [
            read[min(count, len(read) - 1)] for count, one in zip(_counts(letters), letters, strict=True) if one == "W"
        ]
        words = [word for token, delay in zip(tokens, reads, strict=True) for word in self._target.push(token, delay)]
        words += self._target.end(reads[-1] if reads else 0)
        return tuple(word.delay for word in words) if len(words) == len(hypothesis.split()) else None

    def _words_read(self, index: int) -> list[int] | None:
        """Source words that have arrived with the first n tokens: a word comes whole, with its first token."""
        text, ids = self.source[index], self.ids[index]
        length = self._length(ids)
        if getattr(self._tokenizer, "is_fast", False):
            offsets = self._tokenizer(text, return_offsets_mapping=True, verbose=False)["offset_mapping"][:length]
            return [0, *accumulate((len(source_words(text[:end])) for _, end in offsets), max)]
        sizes = [self._length(self._tokenizer(word).input_ids) for word in text.split()]
        if sum(sizes) != length:
            return None
        return [0, *(number for number, size in enumerate(sizes, start=1) for _ in range(size))]

    def _ends(self) -> tuple[int, ...]:
        return self.generator.rules().eos

    def _length(self, ids: list[int]) -> int:
        return len(ids) - (ids[-1] == self._tokenizer.eos_token_id)


def _counts(letters: str) -> list[int]:
    """READs so far, at each action."""
    return list(accumulate(letter == "R" for letter in letters))


def _up_to(tokens: list[int], ends: tuple[int, ...], pad: int) -> list[int]:
    """The tokens up to the first `</s>`, which is kept; padding is not."""
    stop = next((place + 1 for place, token in enumerate(tokens) if token in ends), len(tokens))
    return [token for token in tokens[:stop] if token != pad or pad in ends]


def _check_texts(source: list[str], streams: list[list[str]]) -> None:
    if not source:
        raise ValueError("the source must have at least one sentence; got none")
    for number, stream in enumerate(streams, start=1):
        if len(stream) != len(source):
            raise ValueError(
                f"source and references must have the same number of sentences; got {len(source)} and {len(stream)} "
                f"in reference {number}. Check that the files belong together"
            )
    for name, texts in (("source", source), *(("reference", stream) for stream in streams)):
        empty = next((index for index, text in enumerate(texts) if not text.strip()), None)
        if empty is not None:
            raise ValueError(f"{name} sentence {empty + 1} is empty; leave that pair out")


@torch.inference_mode()
def _with_costs(corpus: _Corpus, line: Line, policy: Policy | None, beams: int) -> Line:
    """The line with the seconds before each action, decoded live; without, if rounding made live another path."""
    if beams > 1:
        start = perf_counter()
        corpus.decode([line.index], policy, beams)
        seconds = perf_counter() - start
        place = line.actions.find("W")  # all the search stands before the first token
        return replace(line, costs=tuple(seconds if i == place else 0.0 for i in range(len(line.actions))))
    actions, costs, clock = "", list[float](), perf_counter()
    stream = corpus.generator.stream(
        corpus.ids[line.index], policy=policy, max_new_tokens=corpus.longest([line.index])
    )
    for event in stream:
        now = perf_counter()
        actions += "W" if isinstance(event.action, Write) else "R"
        costs.append(now - clock)
        clock = now
    return replace(line, costs=tuple(costs)) if actions == line.actions else line
