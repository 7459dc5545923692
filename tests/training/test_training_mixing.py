"""Corpora mixed with weights, and pairs given again as plain text."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from training.checked import InputError
from training.data import prepare
from training.data_options import DataOptions, Part
from training.mixing import plain, plain_copies, weighted
from training.options import parse_config
from training.tokenizer import TokenizerOptions


SMALL = TokenizerOptions(vocab_size=400)
NUMBERS = [(f"Nummer {number}.", f"number {number}") for number in range(40)]
WORDS = [(f"Wort {'ja ' * number}!", f"word {number}") for number in range(20)]


def aligned(folder: Path, name: str, pairs: list[tuple[str, str]]) -> list[str]:
    for side, language in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    return [str(folder / f"{name}.{language}") for language in ("de", "en")]


@pytest.fixture
def options(tmp_path: Path) -> DataOptions:
    parts = [
        Part(files=aligned(tmp_path, "numbers", NUMBERS), weight=0.5),
        Part(files=aligned(tmp_path, "words", WORDS), weight=2.25, max_words=9, plain_share=0.5),
    ]
    dev = aligned(tmp_path, "dev", [("Wort !", "another word")])
    return DataOptions(train=parts, dev=dev, cache=str(tmp_path / "cache"), drop_dev_overlap=True)


def decoded(options: DataOptions) -> Counter[tuple[str, str]]:
    corpus = prepare(options, SMALL)
    rows = corpus.splits["train"]
    read = [
        corpus.tokenizer.batch_decode(list(rows[name]), True) for name in ("input_ids", "labels")
    ]
    return Counter(zip(*read, strict=True))


@pytest.mark.parametrize(("translation", "drop"), [("word 3", False), ("another", True)])
def test_no_plain_copy_stands_in_the_dev_set(
    options: DataOptions, tmp_path: Path, translation: str, drop: bool
) -> None:
    """Spoken text has such dev sets: the pair itself, or where overlaps are dropped its source."""
    dev = aligned(tmp_path, "dev", [("wort ja ja ja", translation)])
    parts = [Part(files=aligned(tmp_path, "words", WORDS), plain_share=1.0)]
    spoken = replace(options, train=parts, dev=dev, drop_dev_overlap=drop)
    found = decoded(spoken)
    assert "Wort ja ja ja !" in {source for source, _ in found}
    copies = {source for source, _ in found if source.startswith("wort")}
    assert "wort ja ja ja" not in copies
    assert len(copies) == len(WORDS) - 1


def test_corpora_are_mixed_by_weight(options: DataOptions) -> None:
    """Of 40 pairs half; of 20, one is in dev, twelve are too long, seven come twice and a quarter
    of them once more, and half of these again as plain text."""
    found = decoded(options)
    numbers = {pair: count for pair, count in found.items() if pair[0].startswith("Nummer")}
    assert len(numbers) == 20
    assert set(numbers.values()) == {1}
    words = Counter({pair: count for pair, count in found.items() if pair[0].startswith("Wort")})
    assert (len(words), words.total(), set(words.values())) == (7, 16, {2, 3})
    plain_ones = {pair: n for pair, n in found.items() if pair[0].startswith("wort")}
    assert sum(plain_ones.values()) == 8
    assert all(source == f"wort{' ja' * int(t[5:])}" for source, t in plain_ones)
    cleaning = prepare(options, SMALL).cleaning["train"]
    assert str(cleaning) == (
        "44 pairs made of 60, overlap 1, max words 12, not drawn 20, repeated 9, plain 8"
    )
    assert cleaning.kept == found.total()


def test_what_is_drawn_hangs_on_the_seed_alone(options: DataOptions, tmp_path: Path) -> None:
    first = decoded(options)
    assert decoded(replace(options, cache=str(tmp_path / "other"))) == first
    other = decoded(replace(options, seed=2))
    assert other != first
    assert other.total() == first.total()


def test_every_option_of_the_mixture_makes_other_data(options: DataOptions) -> None:
    one, two = options.parts
    changes: list[dict[str, Any]] = [
        {"seed": 5},
        {"max_words": 3},
        {"plain_share": 0.1},
        {"train": [one, replace(two, weight=1.0)]},
        {"train": [one, replace(two, max_words=3)]},
        {"train": [one, replace(two, plain_share=0.1)]},
    ]
    keys = [prepare(replace(options, **change), SMALL).key for change in changes]
    assert len({prepare(options, SMALL).key, *keys}) == len(changes) + 1


def test_one_corpus_takes_the_limits_of_all(options: DataOptions) -> None:
    files = options.parts[1].files
    alone = replace(options, train=files, max_words=4, plain_share=1.0)
    assert alone.parts == [Part(files=files, max_words=4, plain_share=1.0)]
    assert set(decoded(alone)) == {("Wort ja !", "word 1"), ("wort ja", "word 1")} | {
        ("Wort ja ja !", "word 2"),
        ("wort ja ja", "word 2"),
    }


def test_a_limit_of_words_is_one_of_the_source(options: DataOptions, tmp_path: Path) -> None:
    """Or of long sentences only the short translations were left."""
    pairs = [("eins zwei drei", "one two"), ("eins zwei", "one and two and more")]
    limited = replace(options, train=aligned(tmp_path, "long", pairs), max_words=2)
    assert list(decoded(limited)) == pairs[1:]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Guten Tag, Frau Müller!", "guten tag frau müller"),
        ("Wie geht's dir – „gut“?", "wie geht's dir gut"),
        ("Die E-Mail- und Web-Seite.", "die e-mail und web-seite"),
        ("Um 8:30 Uhr (ungefähr).", "um 8 30 uhr ungefähr"),
        ("...", ""),
    ],
)
def test_plain_text(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert plain(expected) == expected


def test_copies_that_would_be_the_same_or_empty_are_not_made() -> None:
    pairs = [("schon so", "a"), ("!", "b"), ("Neu.", "c")]
    assert plain_copies(pairs, 1.0, random.Random(0)) == [("neu", "c")]


@pytest.mark.parametrize("weight", [0.1, 0.5, 1.0, 1.3, 2.0, 3.75])
def test_a_weight_is_a_number_of_pairs(weight: float) -> None:
    given = weighted(NUMBERS, weight, random.Random(3))
    assert len(given) == round(weight * len(NUMBERS))
    assert set(Counter(given).values()) <= {int(weight), int(weight) + 1}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": [{"files": ["a", "b"], "weigth": 1}]}, r"data.train\[0\].weigth.*'weight'"),
        ({"train": [{"weight": 1}]}, r"the key data.train\[0\].files is missing"),
        ({"train": [{"files": "a", "weight": 0}]}, r"data.train\[0\]: weight must be above 0; got"),
        ({"train": [{"files": "a", "max_words": 0}]}, "max_words must be at least 1; got 0"),
        ({"train": [{"files": ["a"]}]}, r"train as a list is \[source file, target file\]; got 1"),
        ({"train": ["a", {"files": "b"}]}, r"data.train\[0\] must be a section of keys"),
        ({"train": 5}, "data.train must be text or a list, each text or a list, each a section"),
        ({"plain_share": 1.5}, "plain_share must lie between 0 and 1; got 1.5"),
        ({"max_words": 0}, "max_words must be at least 1; got 0"),
    ],
)
def test_a_mixture_that_is_not_one(
    settings: dict[str, Any], data: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=f"x.yaml: .*{message}"):
        parse_config({**settings, "data": {**settings["data"], **data}}, "x.yaml")


def test_a_mixture_is_read_from_what_a_run_wrote_down(
    settings: dict[str, Any], options: DataOptions
) -> None:
    config = replace(parse_config(settings, "x.yaml"), data=options)
    assert parse_config(config.as_dict(), "run.json").data == options
