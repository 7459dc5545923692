"""Reads sentence pairs: aligned text files, data files, a dataset of the hub, or the generated toy
pair.

Knows formats and their faults, which it names by file and line; knows nothing of tokens or of
cleaning."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from datasets import Dataset, load_dataset
from datasets.exceptions import DatasetGenerationError

from .aligned import read_aligned, read_lines
from .checked import InputError
from .data_options import TOY, DataOptions, Files, Part
from .toy import toy_splits


SPLITS = ("train", "dev", "test")
FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}


def read_files(options: DataOptions, files: Files, split: str) -> Dataset:
    """The pairs of a split or of a part of it, as given, in columns `source` and `target`."""
    if options.dataset == TOY:
        pairs = toy_splits()[split]
        return _two_columns([pair.source for pair in pairs], [pair.target for pair in pairs])
    if isinstance(files, list):
        return _read_aligned(Path(files[0]), Path(files[1]), split)
    if options.dataset is not None:
        return _pick_columns(
            _load_hub(options, files), options, f"split {files!r} of {options.dataset}"
        )
    return _pick_columns(_load_file(Path(files), split), options, files)


def fingerprint(options: DataOptions) -> str:
    """Changes when the data changes: by what files hold, and by name where there are none."""
    digest = sha256(
        repr(
            (options.dataset, options.subset, options.source_column, options.target_column)
        ).encode()
    )
    if options.dataset == TOY:
        digest.update(repr(toy_splits()).encode())
    for split in SPLITS:
        place = getattr(options, split)
        digest.update(repr(place).encode())
        parts = options.parts if split == "train" else [Part(files=place)] if place else []
        for file in [file for part in parts for file in _files(options, part.files)]:
            _require_file(file, split)
            with open(file, "rb") as content:
                while chunk := content.read(1 << 20):
                    digest.update(chunk)
    return digest.hexdigest()[:16]


def place_of(options: DataOptions, files: Files, index: int) -> str:
    """Where a pair stands, in words: `dev.de line 12`."""
    if isinstance(files, list):
        return f"{files[0]} line {index + 1}"
    corpus = files if options.dataset in (None, files) else f"{options.dataset} {files}"
    return f"row {index + 1} of {corpus}"


def _files(options: DataOptions, files: Files) -> list[Path]:
    if options.dataset is not None:
        return []
    return [Path(file) for file in ([files] if isinstance(files, str) else files)]


def _require_file(file: Path, split: str) -> None:
    if not file.is_file():
        raise InputError(
            f"the file {file} (data.{split}) is not there; paths are relative to {Path.cwd().name}/"
        )


def _read_aligned(source: Path, target: Path, split: str) -> Dataset:
    for file in (source, target):
        _require_file(file, split)
    return _two_columns(*read_aligned(source, target))


def _load_file(file: Path, split: str) -> Dataset:
    kind = FORMATS.get(file.suffix.lower())
    if kind is None:
        raise InputError(
            f"data.{split} is {file}: a single file ends in {', '.join(FORMATS)}; two aligned text "
            f"files are a list"
        )
    _require_file(file, split)
    if kind != "parquet":
        for _ in read_lines(file):
            pass  # names the line that is not UTF-8; the readers below do not
    options = {"delimiter": "\t"} if file.suffix.lower() == ".tsv" else {}
    try:
        return load_dataset(kind, data_files=str(file), split="train", **options)
    except (DatasetGenerationError, ValueError, OSError) as error:
        raise InputError(
            f"{file} (data.{split}) cannot be read as {kind}: {error.__cause__ or error}"
        ) from None


def _load_hub(options: DataOptions, split: str) -> Dataset:
    try:
        return load_dataset(options.dataset, options.subset, split=split)
    except (ValueError, OSError) as error:
        raise InputError(
            f"dataset {options.dataset}, split {split!r}, cannot be loaded: {error}"
        ) from None


def _pick_columns(table: Dataset, options: DataOptions, where: str) -> Dataset:
    return _two_columns(
        _column(table, options.source_column, "source_column", where),
        _column(table, options.target_column, "target_column", where),
    )


def _column(table: Dataset, name: str, option: str, where: str) -> Sequence[str | None]:
    head, _, inner = name.partition(".")
    if head not in table.column_names:
        raise InputError(
            f"{where} has no column {head!r} (data.{option}); it has "
            f"{', '.join(table.column_names)}"
        )
    column = table[head]
    if inner:
        nested = getattr(table.features[head], "languages", table.features[head])
        if inner not in nested:
            raise InputError(
                f"{where} has no column {name!r} (data.{option}); {head} has {', '.join(nested)}"
            )
        column = [row[inner] if row else None for row in column]
    values = list(column)
    for number, value in enumerate(values, start=1):
        if not isinstance(value, str | None):
            raise InputError(
                f"row {number} of {where}: column {name!r} must hold text; got {value!r}"
            )
    return values


def _two_columns(source: Sequence[str | None], target: Sequence[str | None]) -> Dataset:
    return Dataset.from_dict({"source": source, "target": target})
