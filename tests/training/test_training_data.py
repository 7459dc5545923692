import json
from dataclasses import replace
from pathlib import Path

import datasets
import pytest

from training import data
from training.checked import InputError
from training.corpora import read_files
from training.data import lengths, prepare
from training.data_options import DataOptions
from training.tokenizer import TokenizerOptions


SMALL = TokenizerOptions(vocab_size=400)
PAIRS = [
    ("der Hund", "the dog"),
    ("die Katze", "the cat"),
    ("das Kind", "the child"),
    ("ein Haus", "a house"),
]
DEV = [("das Pferd", "the horse")]


def write(folder: Path, name: str, lines: list[str]) -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder / name)


def aligned(folder: Path, name: str, pairs: list[tuple[str, str]]) -> list[str]:
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    return [write(folder, f"{name}.de", source), write(folder, f"{name}.en", target)]


@pytest.fixture
def options(tmp_path: Path) -> DataOptions:
    train = aligned(tmp_path, "train", PAIRS)
    return DataOptions(
        train=train, dev=aligned(tmp_path, "dev", DEV), cache=str(tmp_path / "cache")
    )


def texts(options: DataOptions, split: str = "dev") -> list[tuple[str, str]]:
    rows = prepare(options, SMALL).splits[split]
    return list(zip(rows["source"], rows["target"], strict=True))


def test_tokens_are_those_of_the_text(options: DataOptions) -> None:
    corpus = prepare(options, SMALL)
    row = corpus.splits["dev"][0]
    assert (row["source"], row["target"]) == DEV[0]
    assert corpus.tokenizer(row["source"], text_target=row["target"])["labels"] == row["labels"]
    train = corpus.splits["train"]
    assert [corpus.tokenizer.decode(ids, skip_special_tokens=True) for ids in train["labels"]] == [
        t for _, t in PAIRS
    ]
    assert lengths(train, "input_ids").tolist() == [len(ids) for ids in train["input_ids"]]


def test_text_is_tokenised_once(options: DataOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare(options, SMALL)
    monkeypatch.setattr(data, "_make", lambda *_: pytest.fail("made again"))
    again = prepare(options, SMALL)
    assert again.key == first.key
    assert again.splits["train"]["labels"][:] == first.splits["train"]["labels"][:]


def test_a_changed_file_is_tokenised_again(options: DataOptions) -> None:
    before = prepare(options, SMALL)
    Path(options.train[1]).write_text("x\ny\nz\nw\n")
    after = prepare(options, SMALL)
    assert after.key != before.key
    assert prepare(replace(options, max_tokens=50), SMALL).key != after.key


def test_a_cache_that_was_cut_off_is_made_again(options: DataOptions, tmp_path: Path) -> None:
    key = prepare(options, SMALL).key
    (tmp_path / "cache" / key / "report.json").unlink()
    assert len(prepare(options, SMALL).splits["train"]) == len(PAIRS)
    assert not list((tmp_path / "cache").glob("*.tmp"))


def test_a_disk_that_fills_up(
    options: DataOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(datasets.Dataset, "save_to_disk", full)
        with pytest.raises(InputError, match=r"cannot write to .*cache: .*No space left on device"):
            prepare(options, SMALL)
    assert not list((tmp_path / "cache").glob("*.tmp"))
    assert len(prepare(options, SMALL).splits["train"]) == len(PAIRS)


def test_a_given_tokenizer_is_used(options: DataOptions) -> None:
    other = prepare(options, SMALL).tokenizer
    changed = prepare(replace(options, train=options.dev, dev=options.train), SMALL, other)
    assert changed.tokenizer.get_vocab() == other.get_vocab()


def test_what_is_dropped_is_counted(tmp_path: Path) -> None:
    pairs = [
        *PAIRS,
        PAIRS[0],
        ("", "nothing"),
        ("leer", "  "),
        ("kurz", " ".join("abcdefgh")),
        ("x " * 30, "y " * 30),
    ]
    options = DataOptions(
        train=aligned(tmp_path, "train", pairs),
        dev=aligned(tmp_path, "dev", [("Pferd", "horse"), ("", "")]),
        max_tokens=30,
        max_ratio=4.0,
        cache=str(tmp_path / "cache"),
    )
    cleaning = prepare(options, SMALL).cleaning
    counts = cleaning["train"]
    assert (counts.read, counts.kept) == (9, 4)
    assert str(counts) == "4 of 9 pairs kept, empty 2, duplicates 1, too long 1, ratio 1"
    assert str(cleaning["dev"]) == "1 of 2 pairs kept, empty 1"


def test_spaces_are_made_single(tmp_path: Path, options: DataOptions) -> None:
    dev = [write(tmp_path, "d.de", ["  das\u00a0 Pferd "]), write(tmp_path, "d.en", ["the\thorse"])]
    assert texts(replace(options, dev=dev)) == DEV


def test_lines_end_at_line_feeds_only(tmp_path: Path, options: DataOptions) -> None:
    (tmp_path / "d.de").write_bytes("\ufeffdas\u2028Pferd\r\nein\x0bHaus\r\n".encode())
    dev = [str(tmp_path / "d.de"), write(tmp_path, "d.en", ["the horse", "one house"])]
    assert texts(replace(options, dev=dev)) == [
        ("das Pferd", "the horse"),
        ("ein Haus", "one house"),
    ]


def rows(names: tuple[str, str] = ("de", "en")) -> list[dict[str, str]]:
    return [dict(zip(names, pair, strict=True)) for pair in DEV]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet"])
def test_data_files(tmp_path: Path, options: DataOptions, kind: str) -> None:
    table, path = datasets.Dataset.from_list(rows()), str(tmp_path / f"dev.{kind}")
    if kind == "parquet":
        table.to_parquet(path)
    elif kind == "jsonl":
        table.to_json(path)
    else:
        table.to_csv(path, sep="," if kind == "csv" else "\t")
    mixed = replace(options, dev=path, source_column="de", target_column="en")
    assert texts(mixed) == DEV


def test_nested_columns_and_data_sets_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    folder.mkdir()
    for split, pairs in (("train", PAIRS), ("validation", DEV)):
        lines = [json.dumps({"translation": {"de": s, "en": t}}) for s, t in pairs]
        (folder / f"{split}.jsonl").write_text("\n".join(lines))
    options = DataOptions(
        dataset=str(folder),
        train="train",
        dev="validation",
        source_column="translation.de",
        target_column="translation.en",
        cache=str(tmp_path / "cache"),
    )
    assert texts(options) == DEV
    with pytest.raises(
        InputError,
        match=r"no column 'translation.fr' \(data.source_column\); translation has de, en",
    ):
        prepare(replace(options, source_column="translation.fr"), SMALL)
    with pytest.raises(InputError, match="split 'tset', cannot be loaded"):
        prepare(replace(options, dev="tset"), SMALL)


def test_files_of_unequal_length(tmp_path: Path, options: DataOptions) -> None:
    short = write(tmp_path, "short.en", ["the dog", "the cat", "the child"])
    with pytest.raises(
        InputError,
        match=r"has 4 lines and .*short.en has 3: line 4 of .*train.de has no partner in",
    ):
        prepare(replace(options, train=[options.train[0], short]), SMALL)
    with pytest.raises(InputError, match=r"line 4 of .*train.de has no partner in .*short.en"):
        prepare(replace(options, train=[short, options.train[0]]), SMALL)


@pytest.mark.parametrize("name", ["train.de", "train.jsonl"])
def test_a_file_that_is_not_utf8(tmp_path: Path, options: DataOptions, name: str) -> None:
    (tmp_path / name).write_bytes('{"a": "gut"}\n{"a": "schön"}\n'.encode("latin1"))
    train = (
        str(tmp_path / name) if name.endswith("jsonl") else [str(tmp_path / name), options.train[1]]
    )
    with pytest.raises(
        InputError, match=rf"{name} line 2 is not UTF-8 \(byte 0xf6 at place 11\); convert the file"
    ):
        prepare(replace(options, train=train), SMALL)


def test_a_missing_column(tmp_path: Path, options: DataOptions) -> None:
    datasets.Dataset.from_list(rows(("source", "english"))).to_csv(tmp_path / "dev.csv")
    with pytest.raises(
        InputError,
        match=r"dev.csv has no column 'target' \(data.target_column\); it has source, en",
    ):
        prepare(replace(options, dev=str(tmp_path / "dev.csv")), SMALL)


def test_a_column_without_text(tmp_path: Path, options: DataOptions) -> None:
    datasets.Dataset.from_dict({"source": ["a", "b"], "target": [1, 2]}).to_csv(
        tmp_path / "dev.csv"
    )
    with pytest.raises(
        InputError, match="row 1 of .*dev.csv: column 'target' must hold text; got 1"
    ):
        prepare(replace(options, dev=str(tmp_path / "dev.csv")), SMALL)


def test_a_file_that_is_not_what_its_name_says(tmp_path: Path, options: DataOptions) -> None:
    write(tmp_path, "dev.jsonl", ['{"source": '])
    with pytest.raises(InputError, match=r"dev.jsonl \(data.dev\) cannot be read as json"):
        prepare(replace(options, dev=str(tmp_path / "dev.jsonl")), SMALL)
    with pytest.raises(
        InputError, match=r"data.dev is .*train.de: a single file ends in .jsonl, .json"
    ):
        prepare(replace(options, dev=options.train[0]), SMALL)


def test_a_file_that_is_not_there(options: DataOptions) -> None:
    with pytest.raises(InputError, match=r"the file data/none.de \(data.train\) is not there"):
        prepare(replace(options, train=["data/none.de", "data/none.en"]), SMALL)


def test_a_test_set_that_overlaps_the_dev_set(tmp_path: Path, options: DataOptions) -> None:
    test = [write(tmp_path, "t.de", ["x", "neu"]), write(tmp_path, "t.en", ["y", "new"])]
    dev = [write(tmp_path, "d.de", ["neu"]), write(tmp_path, "d.en", ["new"])]
    with pytest.raises(
        InputError, match=r"t.de line 2 \(test\) is also in the dev set, at .*d.de line 1: what is"
    ):
        prepare(replace(options, dev=dev, test=test), SMALL)


def test_a_dev_set_that_overlaps_the_training_set(tmp_path: Path, options: DataOptions) -> None:
    dev = [
        write(tmp_path, "d.de", ["neu", " die  Katze"]),
        write(tmp_path, "d.en", ["new", "the cat"]),
    ]
    overlapping = replace(options, dev=dev)
    with pytest.raises(
        InputError, match=r"d.de line 2 \(dev\) is also in the training set, at .*train.de line 2:"
    ):
        prepare(overlapping, SMALL)
    dropped = prepare(replace(overlapping, drop_dev_overlap=True), SMALL).cleaning["train"]
    assert (dropped.overlap, dropped.kept) == (1, 3)
    dev[1] = write(tmp_path, "d.en", ["new", "a cat"])  # another translation of the same sentence
    changed = replace(overlapping, dev=dev)
    assert prepare(changed, SMALL).cleaning["train"].overlap == 0
    dropped = prepare(replace(changed, drop_dev_overlap=True), SMALL).cleaning["train"]
    assert (dropped.overlap, dropped.kept) == (1, 3)


def test_a_dev_set_that_shares_one_side_only_is_fine(tmp_path: Path, options: DataOptions) -> None:
    dev = [write(tmp_path, "d.de", ["die Katze"]), write(tmp_path, "d.en", ["a cat"])]
    assert texts(replace(options, dev=dev)) == [("die Katze", "a cat")]


def test_nothing_left(tmp_path: Path, options: DataOptions) -> None:
    empty = [write(tmp_path, "e.de", ["", ""]), write(tmp_path, "e.en", ["", ""])]
    with pytest.raises(InputError, match="no pair of data.dev is left after cleaning.*'empty': 2"):
        prepare(replace(options, dev=empty), SMALL)
    with pytest.raises(InputError, match="no pair of data.train is left after cleaning"):
        prepare(replace(options, train=empty), SMALL)


def test_the_toy_set_is_generated() -> None:
    splits = [
        read_files(DataOptions(dataset="toy"), "toy", split) for split in ("train", "dev", "test")
    ]
    assert [len(rows) for rows in splits] == [6000, 200, 200]
