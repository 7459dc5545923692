"""The tokenizers that come with each family: transformers' own classes, tiny vocabularies."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    BartTokenizer,
    M2M100Tokenizer,
    MBart50Tokenizer,
    MBartTokenizer,
    NllbTokenizer,
    T5Tokenizer,
)

from hf_simultaneous.languages import spoken_by_decoder
from tests.stock import stock_model


CORPUS = [
    "Das Haus ist am 3. Mai verkauft worden, z. B. an Herrn Müller.",
    "der Hund und die Katze laufen durch das große Haus der Familie",
    "the house was sold and the dogs were running home",
    "中国人民银行今天宣布。中国人很多，银行也很多！人民今天在家。",
    "Hausaufgaben Hausboot Hundehaus Katzenhaus verkaufen verkauft läuft laufen",
]


@cache
def _bpe(byte_level: bool) -> tuple[list[str], list[tuple[str, str]]]:
    """Entries and merges, learnt."""
    learner = Tokenizer(models.BPE())
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
    learner.pre_tokenizer = (
        pre_tokenizers.ByteLevel(add_prefix_space=False)
        if byte_level
        else pre_tokenizers.Metaspace(prepend_scheme="always")
    )
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
    learner.train_from_iterator(CORPUS * 3, trainer)
    model = json.loads(learner.to_str())["model"]
    return list(model["vocab"]), [tuple(pair) for pair in model["merges"]]


@cache
def _pieces(folder: Path) -> sentencepiece.SentencePieceProcessor:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 20),
        model_prefix=str(folder / "spm"),
        vocab_size=200,
        character_coverage=1.0,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))


def _scored(folder: Path) -> list[tuple[str, float]]:
    """Learnt entries with their scores; the first three are <unk>, <s>, </s>."""
    pieces = _pieces(folder)
    return [(pieces.id_to_piece(i), pieces.get_score(i)) for i in range(pieces.get_piece_size())]


def nllb(folder: Path) -> Any:
    entries, merges = _bpe(False)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocab = {entry: i for i, entry in enumerate([*special, *entries])}
    return NllbTokenizer(vocab=vocab, merges=merges)


def m2m100(folder: Path) -> Any:
    entries = ["<s>", "<pad>", "</s>", "<unk>", *(entry for entry, _ in _scored(folder)[3:])]
    (folder / "vocab.json").write_text(json.dumps({e: i for i, e in enumerate(entries)}))
    return M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "spm.model"))


def mbart50(folder: Path) -> Any:
    return MBart50Tokenizer(vocab=_scored(folder))


def mbart(folder: Path) -> Any:
    special = [(entry, 0.0) for entry in ("<s>", "<pad>", "</s>", "<unk>")]
    return MBartTokenizer(vocab=[*special, *_scored(folder)[3:]])


def bart(folder: Path) -> Any:
    entries, merges = _bpe(True)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocab = {entry: i for i, entry in enumerate([*special, *entries])}
    return BartTokenizer(vocab=vocab, merges=merges)


def t5(folder: Path) -> Any:
    special = [(entry, 0.0) for entry in ("<pad>", "</s>", "<unk>")]
    return T5Tokenizer(vocab=[*special, *_scored(folder)[3:]], extra_ids=2)


def madlad(folder: Path) -> Any:
    """T5's, with a token for each language that can be asked for."""
    special = [(entry, 0.0) for entry in ("<pad>", "</s>", "<unk>", "<2de>", "<2en>", "<2zh>")]
    tokenizer = T5Tokenizer(vocab=[*special, *_scored(folder)[3:]], extra_ids=0)
    tokenizer.add_tokens(["<2de>", "<2en>", "<2zh>"], special_tokens=True)
    return tokenizer


TOKENIZERS = {
    "nllb": (nllb, "m2m_100"),
    "m2m100": (m2m100, "m2m_100"),
    "mbart50": (mbart50, "mbart"),
    "mbart": (mbart, "mbart"),
    "bart": (bart, "bart"),
    "t5": (t5, "t5"),
    "madlad": (madlad, "t5"),
}
"""And the family of models that each belongs to."""


def model_for(tokenizer: Any, family: str, **options: Any) -> Any:
    """A tiny model with this tokenizer's words."""
    start = tokenizer.pad_token_id if family == "t5" else tokenizer.eos_token_id
    return stock_model(
        family,
        3,
        vocab_size=1 + max(len(tokenizer) - 1, *spoken_by_decoder(tokenizer).values(), 0),
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=start,
        **options,
    )
