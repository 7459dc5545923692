"""Trains the joint BPE tokeniser that both languages of a model share.

Knows nothing of models or of corpora: text comes in, a fast tokeniser that `AutoTokenizer` loads
comes out.

What it keeps: every character. What the training text did not hold is spelled in UTF-8 bytes, so
umlauts, Chinese and emoji come back as they were, and so do doubled, leading and trailing spaces,
tabs and line ends. Nothing is normalised; the one exception is U+2581 (the block that stands for a
space in the vocabulary), which becomes a space.

No token reaches over a space, so the tokens of a sentence are the tokens of its words (words parted
by one space each) one after the other, and a word that has arrived is final. Where a script writes
no spaces, each character is a token."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from hf_simultaneous.words import UNSPACED_CLASS


PAD, BOS, EOS, UNK = SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
PUNCTUATION = r"(?!['’\-_])\p{P}"
"""Without what stands inside words: don't, E-Mail."""
SMALLEST_VOCABULARY = len(SPECIAL_TOKENS) + len(BYTES) + 40


@dataclass(frozen=True, kw_only=True)
class TokenizerOptions:
    """How the tokeniser of a run is made."""

    vocab_size: int = 8000
    """Upper bound; special tokens and the 256 bytes are part of it. A small corpus may not fill
    it."""
    split_characters: bool = True
    """Each character of a script without spaces is a token of its own, and so final when it
    arrives."""
    split_punctuation: bool = False
    """Each full stop, comma, bracket and the like is a token of its own, so that a word is spelled
    alike wherever it stands: `leer` before a comma as before a space. Apostrophes and hyphens stay
    in their words."""

    def __post_init__(self) -> None:
        if self.vocab_size < SMALLEST_VOCABULARY:
            raise ValueError(
                f"vocab_size must be at least {SMALLEST_VOCABULARY} ({len(SPECIAL_TOKENS)} special "
                f"tokens, "
                f"{len(BYTES)} bytes and an alphabet); got {self.vocab_size}"
            )


def train_tokenizer(
    texts: Iterable[str], options: TokenizerOptions | None = None
) -> PreTrainedTokenizerFast:
    """A tokeniser for the given lines of text, source and target mixed."""
    options = options or TokenizerOptions()
    learned = _learn_merges(texts, options)
    if not learned["vocab"]:
        raise ValueError("no text to train a tokeniser on: every line given was empty")
    return wrap(_with_bytes(learned, options))


def _learn_merges(texts: Iterable[str], options: TokenizerOptions) -> dict[str, Any]:
    """Plain BPE; returns its vocabulary and merges as the library serialises them."""
    room = options.vocab_size - len(SPECIAL_TOKENS) - len(BYTES)
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizers.Prepend(" ")
    learner.pre_tokenizer = _splitter(options)
    # Half the room at most for single characters: a rare Chinese character is cheaper as three
    # bytes.
    trainer = trainers.BpeTrainer(
        vocab_size=room, limit_alphabet=max(20, room // 2), show_progress=False
    )
    learner.train_from_iterator((text for text in texts if text.strip()), trainer)
    return json.loads(learner.to_str())["model"]


def _with_bytes(learned: dict[str, Any], options: TokenizerOptions) -> Tokenizer:
    """The learned BPE behind the special tokens and the bytes it falls back to."""
    pieces = sorted(learned["vocab"], key=learned["vocab"].get)
    vocab = {token: index for index, token in enumerate([*SPECIAL_TOKENS, *BYTES, *pieces])}
    merges = [tuple(pair) for pair in learned["merges"]]
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token=UNK, byte_fallback=True))
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    # Metaspace adds the first word's space only where there is none, which would drop a real one:
    # hence Prepend.
    backend.normalizer = normalizers.Prepend(" ")
    backend.pre_tokenizer = _splitter(options)
    backend.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")]
    )
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", pair=f"$A {EOS} $B {EOS}", special_tokens=[(EOS, vocab[EOS])]
    )
    return backend


def _splitter(options: TokenizerOptions) -> pre_tokenizers.PreTokenizer:
    parts: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.Metaspace(prepend_scheme="always")]
    if options.split_punctuation:
        parts.append(pre_tokenizers.Split(Regex(PUNCTUATION), "isolated"))
    if options.split_characters:
        parts.append(pre_tokenizers.Split(Regex(UNSPACED_CLASS), "isolated"))
    return pre_tokenizers.Sequence(parts) if len(parts) > 1 else parts[0]


def wrap(backend: Tokenizer) -> PreTrainedTokenizerFast:
    """As transformers knows it, with the special tokens of all our tokenisers."""
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNK,
        padding_side="right",
        clean_up_tokenization_spaces=False,
    )
