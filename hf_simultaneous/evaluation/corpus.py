"""A policy over a corpus: every sentence decoded, logged and scored.

Knows texts, batches and processes; how sentences are scored is `scores`' business, and how they are
decoded `generation`'s."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm

from ..actions import Action, Event, Policy, Write
from ..decoding_rules import longest_target
from ..generation import AdaptiveWaitKGenerator
from ..policies import FullSentence
from ..schedule import FULL, K
from ..sentences import SentenceSplitting, WholeLines
from ..sets import policy_name
from ..target_text import TargetText, target_ids
from ..text import SourceText, as_read, whole_sentences
from ..words import source_words
from .decoding import DEFAULT_DECODING, TOKEN, Decoding
from .descriptions import describe
from .logs import LoggedSentence, write_log
from .processes import gathered, is_main_process, this_process
from .scores import DEFAULT_SCORING, Scores, Scoring, score
from .texts import check_texts


@dataclass(frozen=True)
class Evaluation:
    """The scores and the lines they come from; `encoder` is that of the models that decoded,
    `decoding` says how sentences end and how their tails are written."""

    scores: Scores
    lines: tuple[LoggedSentence, ...]
    policy: str
    encoder: str
    decoding: str


def evaluate(
    generator: AdaptiveWaitKGenerator | Any,
    source: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    policy: Policy | None = None,
    *,
    tokenizer: Any = None,
    decoding: Decoding = DEFAULT_DECODING,
    scoring: Scoring = DEFAULT_SCORING,
    early_stop: bool | None = None,
    log: str | Path | None = None,
) -> Evaluation:
    """Translate `source` under a policy (by default the generator's own) and score it.

    `generator` may be a model or `{k: model}` with their `tokenizer`. `references` is a list of
    sentences, or several such lists. Ends and tails are the set's own unless `decoding` tells
    others, as for the command of that name; `early_stop` beats that of `decoding`. Under accelerate
    the processes share the corpus, and each returns the whole result."""
    if not isinstance(generator, AdaptiveWaitKGenerator):
        generator = AdaptiveWaitKGenerator(generator, tokenizer)
    if early_stop is not None:
        decoding = replace(decoding, early_stop=early_stop)
    lines = decode_corpus(generator, source, references, policy, decoding)
    name = describe(policy or generator.usual_policy)
    if decoding.beams > 1:
        name += f", beam {decoding.beams}"
    scores = score(lines, scoring)
    if log is not None and is_main_process():
        write_log(log, lines)
    return Evaluation(
        scores,
        tuple(lines),
        name,
        encoder_of(generator),
        decoding.signature(generator),
    )


def encoder_of(generator: AdaptiveWaitKGenerator) -> str:
    """What the members' encoders see: `prefix` (bidirectional) or `causal`; named for each where
    they differ."""
    return encoder_of_models(generator.models)


def encoder_of_models(models: Mapping[K, Any]) -> str:
    """The same of some members; a model of another family than ours has a bidirectional one."""
    kinds = {
        policy_name(k): getattr(model.config, "encoder_attention", "prefix")
        for k, model in models.items()
    }
    if len(set(kinds.values())) == 1:
        return str(next(iter(kinds.values())))
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items())


def decode_corpus(
    generator: AdaptiveWaitKGenerator,
    source: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    policy: Policy | None = None,
    decoding: Decoding = DEFAULT_DECODING,
) -> list[LoggedSentence]:
    """One line for each sentence, in the order given."""
    if decoding.beams > 1 and not isinstance(policy, FullSentence):
        raise ValueError(
            f"beams={decoding.beams} is for full sentences: what a policy writes stays; got "
            f"{describe(policy or generator.policy)}"
        )
    if not source:
        raise ValueError("the source must have at least one sentence; got none")
    decoding = decoding.of(generator)
    streams = _streams(references)
    corpus = _Corpus(generator, list(source), streams)
    batches = corpus.batches(decoding.together)
    timed = set(_spread(len(source), decoding.timed))
    how = decoding.signature(generator)
    # Whole batches are shared out, so that every sentence has the neighbours, and the rounding, of
    # a single process.
    rank, processes = this_process()
    lines: list[LoggedSentence] = []
    with tqdm(
        total=len(source), disable=not decoding.progress or rank > 0, unit="sentence", leave=False
    ) as bar:
        for batch in batches[rank::processes]:
            found = corpus.decode(batch, policy, decoding)
            lines += [replace(line, decoding=how) for line in found]
            bar.update(len(batch) * processes)
    lines = [
        _with_costs(corpus, line, policy, decoding) if line.index in timed else line
        for line in lines
    ]
    return sorted(gathered(lines), key=lambda line: line.index)


def _streams(references: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
    if not references or isinstance(references, str):
        raise ValueError(
            f"references must be a list of sentences, or several such lists; got {references!r}"
        )
    if all(isinstance(one, str) for one in references):
        return [[str(one) for one in references]]
    return [list(stream) for stream in references]


def _spread(sentences: int, wanted: int) -> Iterable[int]:
    """`wanted` places, evenly over the corpus."""
    wanted = min(wanted, sentences)
    return (place * sentences // wanted for place in range(wanted))


AS_TEXT = {"split_special_tokens": True, "verbose": False}
"""A `</s>` in a text is not the end of a sentence, here as in live text."""
ALONE = {**AS_TEXT, "add_special_tokens": False}


class _Corpus:
    """Tokenised sentences of one corpus, and how its batches are decoded."""

    def __init__(
        self, generator: AdaptiveWaitKGenerator, source: list[str], streams: list[list[str]]
    ):
        tokenizer = generator.tokenizer
        if tokenizer is None:
            raise ValueError(
                "the generator has no tokenizer; give it one, or load a set that was saved with it"
            )
        check_texts(source, streams)
        self.generator = generator
        self.source = source
        self.streams = streams
        self._tokenizer = tokenizer
        # The log keeps what was given; the models are given what a stream would give them.
        self._texts = [as_read(text, tokenizer) for text in source]
        framed = tokenizer(self._texts, **AS_TEXT).input_ids
        self.ids: list[list[int]] = [generator.framing.taken_off(ids) for ids in framed]
        references = target_ids(tokenizer, streams[0], **AS_TEXT)
        self._reference_lengths = [self._length(ids) for ids in references]
        limit = generator.position_limit
        long = next((index for index, ids in enumerate(self.ids) if len(ids) > limit), None)
        if long is not None:
            raise ValueError(
                f"source sentence {long + 1} has {len(self.ids[long])} tokens, the models read "
                f"{limit} at most. Split it or leave it out"
            )
        self._target = TargetText(tokenizer)
        self._words = [self._words_read(index) for index in range(len(source))]

    def batches(self, size: int) -> list[list[int]]:
        order = sorted(range(len(self.ids)), key=lambda index: (len(self.ids[index]), index))
        return [order[start : start + size] for start in range(0, len(order), size)]

    @torch.inference_mode()
    def decode(
        self, batch: list[int], policy: Policy | None, decoding: Decoding
    ) -> list[LoggedSentence]:
        if decoding.beams > 1:
            found = self._search(batch, decoding.beams)
            return [
                self._full_line(index, tokens) for index, tokens in zip(batch, found, strict=True)
            ]
        ids = [self.ids[index] for index in batch]
        output: Any = self.generator.generate(
            ids,
            policy=policy,
            max_new_tokens=self.longest(batch),
            undecided=[self.undecided(index, decoding) for index in batch],
            return_dict_in_generate=True,
            **decoding.options,
        )
        columns = (
            output.delays,
            output.contexts,
            output.lags,
            output.probabilities,
            output.early_stops,
        )
        lines = []
        for index, actions, *values in zip(batch, output.actions, *columns, strict=True):
            lines.append(self._line(index, *self._within(index, actions, *values)))
        return lines

    def stream(self, index: int, policy: Policy | None, decoding: Decoding) -> Iterator[Event]:
        """The same sentence live."""
        undecided = self.undecided(index, decoding)
        options = {"max_new_tokens": self.longest([index]), **decoding.options}
        with self.generator.session(policy=policy, **options) as session:
            for number, token in enumerate(self.ids[index], start=1):
                yield from session.push(token, more=number in undecided)
            yield from session.flush()

    def _within(self, index: int, actions: list[Action], *values: Any) -> tuple[Any, ...]:
        """What was decoded, cut at the sentence's own bound: a batch goes on to that of its
        longest."""
        most = self.longest([index])
        letters = "".join("W" if isinstance(action, Write) else "R" for action in actions)
        tokens = [action.token for action in actions if isinstance(action, Write)]
        if len(tokens) > most:
            writes = [place for place, letter in enumerate(letters, start=1) if letter == "W"]
            letters = letters[: writes[most - 1]]
            tokens = tokens[:most]
        *columns, early_stop = values
        return letters, tokens, *(column[:most] for column in columns), early_stop

    def undecided(self, index: int, decoding: Decoding) -> list[int]:
        """After how many tokens there is nothing to decide, where words are read whole: as in a
        stream of this sentence. A full stop ends it with its last word; without one a stream would
        be told later."""
        if decoding.reads == TOKEN:
            return []
        text, length = self._texts[index], self._length(self.ids[index])
        rules = WholeLines(max_tokens=2 * length + 1, max_word=len(text) + 1)
        stream = SourceText(self._tokenizer, rules)
        pieces = [*stream.push_text(text), *stream.flush()]
        within = [place for _, places in whole_sentences(pieces) for place in places]
        ends = any(SentenceSplitting().ends(word) for word in text.split()[-1:])
        return [*within, length] if ends else within

    def longest(self, batch: list[int]) -> int:
        """The bound that a stream has for the longest of these sentences."""
        source_length = max(len(self.ids[index]) for index in batch)
        return longest_target(source_length, self.generator.position_limit)

    def _search(self, batch: list[int], beams: int) -> list[list[int]]:
        model = self.generator.models.get(FULL, self.generator.model)
        pad = model.config.pad_token_id
        framing = self.generator.framing
        ids = [framing.put_on(self.ids[index]) for index in batch]
        rows = [torch.tensor(row, device=model.device) for row in ids]
        start, *forced = framing.prompt
        own = {"wait_k": "full"} if hasattr(model.config, "wait_k") else {}
        found = model.generate(
            pad_sequence(rows, batch_first=True, padding_value=pad),
            attention_mask=pad_sequence([torch.ones_like(row) for row in rows], batch_first=True),
            num_beams=beams,
            do_sample=False,
            decoder_start_token_id=start,
            forced_bos_token_id=forced[0] if forced else None,
            max_length=self.longest(batch) + len(framing.prompt),  # these count
            **own,
        )
        ends = self._ends()
        return [_up_to(row[len(framing.prompt) :], ends, pad) for row in found.tolist()]

    def _full_line(self, index: int, tokens: list[int]) -> LoggedSentence:
        written = len(tokens) - (tokens[-1:] != [] and tokens[-1] in self._ends())
        length = self._length(self.ids[index])
        letters = "R" * len(self.ids[index]) + "W" * len(tokens)
        delays = [length] * written
        return self._line(
            index, letters, tokens, delays, delays, [length] * written, [None] * written, False
        )

    def _line(self, index: int, letters: str, tokens: list[int], *values: Any) -> LoggedSentence:
        delays, contexts, lags, probabilities, early_stop = values
        hypothesis = str(self._tokenizer.decode(tokens, skip_special_tokens=True)).strip()
        return LoggedSentence(
            index=index,
            corpus_size=len(self.source),
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

    def _word_delays(
        self, index: int, letters: str, tokens: list[int], hypothesis: str
    ) -> tuple[int, ...] | None:
        """When each word of the hypothesis was complete, in source words; None where they cannot be
        told apart."""
        read = self._words[index]
        if read is None:
            return None
        reads = [
            read[min(count, len(read) - 1)]
            for count, one in zip(_counts(letters), letters, strict=True)
            if one == "W"
        ]
        words = [
            word
            for token, delay in zip(tokens, reads, strict=True)
            for word in self._target.push(token, delay)
        ]
        words += self._target.end(reads[-1] if reads else 0)
        return (
            tuple(word.delay for word in words) if len(words) == len(hypothesis.split()) else None
        )

    def _words_read(self, index: int) -> list[int] | None:
        """Source words that have arrived with the first n tokens: a word comes whole, with its
        first token."""
        text, ids = self._texts[index], self.ids[index]
        length = self._length(ids)
        if getattr(self._tokenizer, "is_fast", False):
            offsets = self._tokenizer(text, return_offsets_mapping=True, **ALONE)["offset_mapping"]
            return [0, *accumulate((len(source_words(text[:end])) for _, end in offsets), max)]
        sizes = [len(self._tokenizer(word, **ALONE).input_ids) for word in source_words(text)]
        if sum(sizes) != length:
            return None
        return [0, *(number for number, size in enumerate(sizes, start=1) for _ in range(size))]

    def _ends(self) -> tuple[int, ...]:
        return self.generator.decoding_rules().eos

    def _length(self, ids: list[int]) -> int:
        return len(ids) - (ids[-1] == self._tokenizer.eos_token_id)


def _counts(letters: str) -> list[int]:
    """READs so far, at each action."""
    return list(accumulate(letter == "R" for letter in letters))


def _up_to(tokens: list[int], ends: tuple[int, ...], pad: int) -> list[int]:
    """The tokens up to the first `</s>`, which is kept; padding is not."""
    stop = next((place + 1 for place, token in enumerate(tokens) if token in ends), len(tokens))
    return [token for token in tokens[:stop] if token != pad or pad in ends]


@torch.inference_mode()
def _with_costs(
    corpus: _Corpus, line: LoggedSentence, policy: Policy | None, decoding: Decoding
) -> LoggedSentence:
    """The line with the seconds before each action, found by decoding it once more, live; as it was
    if that, by rounding, took other actions."""
    if decoding.beams > 1:
        start = perf_counter()
        corpus.decode([line.index], policy, decoding)
        seconds = perf_counter() - start
        place = line.actions.find("W")  # all the search stands before the first token
        return replace(
            line, costs=tuple(seconds if i == place else 0.0 for i in range(len(line.actions)))
        )
    actions, costs, clock = "", list[float](), perf_counter()
    for event in corpus.stream(line.index, policy, decoding):
        now = perf_counter()
        actions += "W" if isinstance(event.action, Write) else "R"
        costs.append(now - clock)
        clock = now
    return replace(line, costs=tuple(costs)) if actions == line.actions else line
