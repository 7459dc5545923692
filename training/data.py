"""Makes tokenised training data of sentence pairs: cleaned, counted, checked for overlap, and
cached on disk.

Knows sentences and tokens; where the pairs come from is `corpora`'s business, and how they are
batched, `batches`'."""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import datasets
import numpy as np
import pyarrow.compute
from datasets import Dataset
from filelock import FileLock
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from hf_simultaneous.target_text import target_ids

from .checked import InputError
from .corpora import fingerprint, place_of, read_files
from .data_options import TOY, DataOptions, Files, Part
from .disk import writing
from .mixing import Pair, plain_copies, weighted
from .tokenizer import TokenizerOptions, train_tokenizer


FORMAT = 4  # of the cached files: raised when they change
_NOTHING = {"read": 0, "empty": 0, "duplicates": 0, "overlap": 0}


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
    max_words: int = 0
    not_drawn: int = 0
    """By a weight below 1."""
    repeated: int = 0
    """Added, by a weight above 1."""
    plain: int = 0
    """Added, as plain text."""

    def __str__(self) -> str:
        counts = [
            f", {name.replace('_', ' ')} {count}"
            for name, count in asdict(self).items()
            if count and name not in ("read", "kept")
        ]
        added = self.repeated + self.plain
        made = f"{self.kept} pairs made of {self.read}" if added else None
        return (made or f"{self.kept} of {self.read} pairs kept") + "".join(counts)


@dataclass(frozen=True)
class Corpus:
    """Tokenised splits (`input_ids`, `labels`; dev and test with their text), their tokeniser, what
    was dropped."""

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
    """Tokenised data from the cache, or made and put there; `tokenizer` stands in for one trained
    on the data."""
    key = _key(options, tokenizer_options, tokenizer)
    folder = (
        Path(options.cache or Path(datasets.config.HF_DATASETS_CACHE) / "hf_simultaneous") / key
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):  # runs that start together wait for the first of them
        if not (folder / "report.json").is_file():
            _make(options, tokenizer_options, tokenizer, folder)
    return _load(folder, key)


def lengths(split: Dataset, column: str) -> np.ndarray:
    """Tokens of each sentence, `</s>` included."""
    return np.asarray(pyarrow.compute.list_value_length(split.with_format("arrow")[:][column]))


def _key(
    options: DataOptions,
    tokenizer_options: TokenizerOptions,
    tokenizer: PreTrainedTokenizerBase | None,
) -> str:
    made_with = asdict(tokenizer_options) if tokenizer is None else _tokenizer_key(tokenizer)
    cleaning = (
        options.max_tokens,
        options.max_ratio,
        options.drop_duplicates,
        options.drop_dev_overlap,
        options.max_words,
        options.plain_share,
        options.seed,
    )
    text = json.dumps([FORMAT, fingerprint(options), cleaning, made_with])
    return sha256(text.encode()).hexdigest()[:16]


def _tokenizer_key(tokenizer: PreTrainedTokenizerBase) -> str:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    content = (
        backend.to_str()
        if backend is not None
        else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    )
    return sha256(content.encode()).hexdigest()


def _make(
    options: DataOptions,
    tokenizer_options: TokenizerOptions,
    tokenizer: PreTrainedTokenizerBase | None,
    folder: Path,
) -> None:
    """Written beside and renamed, so that a folder with that name is always complete."""
    texts, counts = _clean(options)
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
        encoded.remove_columns(["source", "target"] if split == "train" else []).save_to_disk(
            folder / split
        )
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


@dataclass(frozen=True)
class _HeldOut:
    """What stands in the dev and test sets, and where: split, files, line."""

    pairs: dict[Pair, tuple[str, Files, int]]
    sources: set[str]


def _clean(options: DataOptions) -> tuple[dict[str, Dataset], dict[str, dict[str, int]]]:
    """Text of every split without empty lines; in training, mixed as the options say, without
    duplicates and without what dev and test hold."""
    texts: dict[str, Dataset] = {}
    counts: dict[str, dict[str, int]] = {}
    held: dict[Pair, tuple[str, Files, int]] = {}
    for split in ("dev", "test"):
        files = TOY if options.dataset == TOY else getattr(options, split)
        if files is None:
            continue
        rows = list(_normalised(read_files(options, files, split)))
        kept = [pair for pair in rows if all(pair)]
        _hold(options, held, {p: (split, files, n) for n, p in enumerate(rows) if all(p)})
        counts[split] = dict(_NOTHING, read=len(rows), empty=len(rows) - len(kept))
        texts[split] = _table(kept)
    mixed, counts["train"] = _mixed(options, _HeldOut(held, {source for source, _ in held}))
    return {"train": _table(mixed), **texts}, counts


def _hold(
    options: DataOptions,
    held: dict[Pair, tuple[str, Files, int]],
    more: dict[Pair, tuple[str, Files, int]],
) -> None:
    """Add the pairs of another split to those held out."""
    for pair in more:
        if pair in held:
            (first, files, line), (second, others, other) = held[pair], more[pair]
            raise InputError(
                f"{place_of(options, others, other)} ({second}) is also in the {first} set, at "
                f"{place_of(options, files, line)}: what is chosen by the one would be measured on "
                f"it again. Remove it from either"
            )
    held.update(more)


def _mixed(options: DataOptions, held: _HeldOut) -> tuple[list[Pair], dict[str, int]]:
    """The training pairs of all corpora, cleaned, weighted, and some as plain text too."""
    count = dict(_NOTHING, max_words=0, not_drawn=0, repeated=0, plain=0)
    seen: set[Pair] = set()
    mixed: list[Pair] = []
    for number, part in enumerate(options.parts):
        kept = _kept(options, part, held, seen, count)
        rng = random.Random(f"{options.seed} {number}")
        given = weighted(kept, part.weight, rng)
        copies = plain_copies(given, part.plain_share or 0.0, rng)
        # where overlaps are dropped, so is a copy that stands in dev or test as it is
        sources = held.sources if options.drop_dev_overlap else ()
        more = [pair for pair in copies if pair not in held.pairs and pair[0] not in sources]
        count["not_drawn"] += max(0, len(kept) - len(given))
        count["repeated"] += max(0, len(given) - len(kept))
        count["plain"] += len(more)
        mixed += [*given, *more]
    return mixed, count


def _kept(
    options: DataOptions, part: Part, held: _HeldOut, seen: set[Pair], count: dict[str, int]
) -> list[Pair]:
    """Those pairs of a corpus that may be used; adds to what was seen and counted."""
    kept: list[Pair] = []
    for index, pair in enumerate(_normalised(read_files(options, part.files, "train"))):
        count["read"] += 1
        if not all(pair):
            count["empty"] += 1
        elif options.drop_dev_overlap and pair[0] in held.sources:
            count["overlap"] += 1
        elif pair in held.pairs:
            split, files, line = held.pairs[pair]
            raise InputError(
                f"{place_of(options, files, line)} ({split}) is also in the training set, at "
                f"{place_of(options, part.files, index)}: scores on it would mean nothing. Remove "
                f"it from either, or set data.drop_dev_overlap: true to leave such pairs out of "
                f"training"
            )
        elif options.drop_duplicates and pair in seen:
            count["duplicates"] += 1
        elif part.max_words is not None and len(pair[0].split()) > part.max_words:
            count["max_words"] += 1
        else:
            seen.add(pair)
            kept.append(pair)
    return kept


def _table(pairs: Sequence[Pair]) -> Dataset:
    return Dataset.from_dict({"source": [s for s, _ in pairs], "target": [t for _, t in pairs]})


def _normalised(rows: Dataset) -> Iterator[tuple[str, str]]:
    """Single spaces between words: the tokeniser would keep odd spacing, and a model would have to
    learn it."""
    for source, target in zip(rows["source"], rows["target"], strict=True):
        yield " ".join((source or "").split()), " ".join((target or "").split())


def _sentences(rows: Dataset) -> Iterator[str]:
    for column in ("source", "target"):
        yield from rows[column]


def _encode(
    rows: Dataset, tokenizer: PreTrainedTokenizerBase, options: DataOptions
) -> tuple[Dataset, dict[str, int]]:
    end, quiet = tokenizer.eos_token_id, {"verbose": False}

    def encode(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        # What a tokeniser puts around a text, tokens that name languages, is no part of it.
        source = tokenizer(batch["source"], add_special_tokens=False, **quiet)["input_ids"]
        target = target_ids(tokenizer, batch["target"], **quiet)
        return {
            "input_ids": [[*ids, end] for ids in source],
            "labels": [[*ids, end] for ids in target],
        }

    table = rows.map(encode, batched=True, load_from_cache_file=False, desc="tokenising")
    sides = np.stack([lengths(table, "input_ids"), lengths(table, "labels")])
    longer, shorter = sides.max(0), sides.min(0)
    too_long = longer > options.max_tokens
    ratio = ~too_long & (longer > (options.max_ratio or np.inf) * shorter)
    kept = table.select(np.flatnonzero(~(too_long | ratio)))
    return kept, {"too_long": int(too_long.sum()), "ratio": int(ratio.sum())}


def _require_some(rows: Dataset, split: str, counts: dict[str, int]) -> None:
    if not len(rows):
        raise InputError(
            f"no pair of data.{split} is left after cleaning: {counts}. Check the files and the "
            f"limits"
        )
