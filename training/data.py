"""Makes tokenised training data of sentence pairs: cleaned, counted, checked for overlap, and cached on disk.

Knows sentences and tokens; where the pairs come from is `corpora`'s business, and how they are batched, `batches`'.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import datasets
import numpy as np
import pyarrow.compute
from datasets import Dataset
from filelock import FileLock
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from .checked import InputError
from .corpora import SPLITS, fingerprint, place_of, read_split
from .disk import writing
from .options import DataOptions
from .tokenizer import TokenizerOptions, train_tokenizer


FORMAT = 1  # of the cached files: raised when they change


@dataclass(frozen=True)
class Cleaning:
    """How many pairs of a split were read, why some were dropped, and how many are left."""

    read: int
    empty: int
    duplicates: int
    overlap: int
    too_long: int
    ratio: int
    kept: int

    def __str__(self) -> str:
        dropped = [f"{name.replace('_', ' ')} {count}" for name, count in asdict(self).items() if count]
        return f"{self.kept} of {self.read} pairs kept" + "".join(
            f", {text}" for text in dropped if text.split()[0] not in ("read", "kept")
        )


@dataclass(frozen=True)
class Corpus:
    """Tokenised splits (`input_ids`, `labels`; dev and test with their text), their tokeniser, what was dropped."""

    splits: dict[str, Dataset]
    tokenizer: PreTrainedTokenizerBase
    cleaning: dict[str, Cleaning]
    key: str
    """Names this data: the same text, cleaned and tokenised the same way."""


def prepare(
    options: DataOptions,
    tokenizer_options: TokenizerOptions,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Corpus:
    """Tokenised data from the cache, or made and put there; `tokenizer` stands in for one trained on the data."""
    key = _key(options, tokenizer_options, tokenizer)
    folder = Path(options.cache or Path(datasets.config.HF_DATASETS_CACHE) / "hf_simultaneous") / key
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):  # runs that start together wait for the first of them
        if not (folder / "report.json").is_file():
            _make(options, tokenizer_options, tokenizer, folder)
    return _load(folder, key)


def lengths(split: Dataset, column: str) -> np.ndarray:
    """Tokens of each sentence, `</s>` included."""
    return np.asarray(pyarrow.compute.list_value_length(split.with_format("arrow")[:][column]))


def _key(options: DataOptions, tokenizer_options: TokenizerOptions, tokenizer: PreTrainedTokenizerBase | None) -> str:
    made_with = asdict(tokenizer_options) if tokenizer is None else _tokenizer_key(tokenizer)
    cleaning = (options.max_tokens, options.max_ratio, options.drop_duplicates, options.drop_dev_overlap)
    text = json.dumps([FORMAT, fingerprint(options), cleaning, made_with])
    return sha256(text.encode()).hexdigest()[:16]


def _tokenizer_key(tokenizer: PreTrainedTokenizerBase) -> str:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    content = backend.to_str() if backend is not None else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    return sha256(content.encode()).hexdigest()


def _make(
    options: DataOptions, tokenizer_options: TokenizerOptions, tokenizer: PreTrainedTokenizerBase | None, folder: Path
) -> None:
    """Written beside and renamed, so that a folder with that name is always complete."""
    pairs = {split: read_split(options, split) for split in SPLITS}
    texts, counts = _clean(options, {split: rows for split, rows in pairs.items() if rows is not None})
    for split, rows in texts.items():
        _require_some(rows, split, counts[split])
    if tokenizer is None:
        tokenizer = train_tokenizer(_sentences(texts["train"]), tokenizer_options)
    with writing(folder.parent):
        beside = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".tmp", dir=folder.parent))
        try:
            _write(texts, counts, tokenizer, options, beside)
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def _write(
    texts: dict[str, Dataset],
    counts: dict[str, dict[str, int]],
    tokenizer: PreTrainedTokenizerBase,
    options: DataOptions,
    folder: Path,
) -> None:
    tokenizer.save_pretrained(folder / "tokenizer")
    report = {}
    for split, rows in texts.items():
        encoded, dropped = _encode(rows, tokenizer, options)
        _require_some(encoded, split, counts[split] | dropped)
        encoded.remove_columns(["source", "target"] if split == "train" else []).save_to_disk(folder / split)
        report[split] = counts[split] | dropped | {"kept": len(encoded)}
    (folder / "report.json").write_text(json.dumps(report))


def _load(folder: Path, key: str) -> Corpus:
    report = json.loads((folder / "report.json").read_text())
    return Corpus(
        splits={split: Dataset.load_from_disk(str(folder / split)) for split in report},
        tokenizer=AutoTokenizer.from_pretrained(folder / "tokenizer"),
        cleaning={split: Cleaning(**counts) for split, counts in report.items()},
        key=key,
    )


def _clean(options: DataOptions, pairs: dict[str, Dataset]) -> tuple[dict[str, Dataset], dict[str, dict[str, int]]]:
    """Text of every split without empty lines, and, in training, without duplicates and what dev and test hold."""
    held_out = {
        pair: (split, index)
        for split in ("dev", "test")
        if split in pairs
        for index, pair in enumerate(_normalised(pairs[split]))
        if all(pair)
    }
    texts, counts = {}, {}
    for split, rows in pairs.items():
        count = {"read": len(rows), "empty": 0, "duplicates": 0, "overlap": 0}
        kept: list[tuple[str, str]] = []
        seen: set[tuple[str, str]] = set()
        for index, pair in enumerate(_normalised(rows)):
            if not all(pair):
                count["empty"] += 1
            elif split == "train" and pair in held_out:
                _refuse_overlap(options, index, *held_out[pair])
                count["overlap"] += 1
            elif split == "train" and options.drop_duplicates and pair in seen:
                count["duplicates"] += 1
            else:
                seen.add(pair)
                kept.append(pair)
        texts[split] = Dataset.from_dict({"source": [s for s, _ in kept], "target": [t for _, t in kept]})
        counts[split] = count
    return texts, counts


def _normalised(rows: Dataset) -> Iterator[tuple[str, str]]:
    """Single spaces between words: the tokeniser would keep odd spacing, and a model would have to learn it."""
    for source, target in zip(rows["source"], rows["target"], strict=True):
        yield " ".join((source or "").split()), " ".join((target or "").split())


def _refuse_overlap(options: DataOptions, index: int, split: str, held_index: int) -> None:
    if not options.drop_dev_overlap:
        raise InputError(
            f"{place_of(options, split, 'source', held_index)} ({split}) is also in the training set, at "
            f"{place_of(options, 'train', 'source', index)}: scores on it would mean nothing. Remove it from either, "
            "or set data.drop_dev_overlap: true to leave such pairs out of training"
        )


def _sentences(rows: Dataset) -> Iterator[str]:
    for column in ("source", "target"):
        yield from rows[column]


def _encode(rows: Dataset, tokenizer: PreTrainedTokenizerBase, options: DataOptions) -> tuple[Dataset, dict[str, int]]:
    def encode(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        encoded = tokenizer(batch["source"], text_target=batch["target"], verbose=False)
        return {"input_ids": encoded["input_ids"], "labels": encoded["labels"]}

    table = rows.map(encode, batched=True, load_from_cache_file=False, desc="tokenising")
    sides = np.stack([lengths(table, "input_ids"), lengths(table, "labels")])
    longer, shorter = sides.max(0), sides.min(0)
    too_long = longer > options.max_tokens
    ratio = ~too_long & (longer > (options.max_ratio or np.inf) * shorter)
    kept = table.select(np.flatnonzero(~(too_long | ratio)))
    return kept, {"too_long": int(too_long.sum()), "ratio": int(ratio.sum())}


def _require_some(rows: Dataset, split: str, counts: dict[str, int]) -> None:
    if not len(rows):
        raise InputError(f"no pair of data.{split} is left after cleaning: {counts}. Check the files and the limits")
