import re
from pathlib import Path

import pytest

from training.everyday import main, pairs


def test_names_and_numbers_are_copied() -> None:
    made = list(pairs(3000))
    assert len(made) == 3000
    for german, english in made:
        assert not re.search(r"[{}|]|  ", german + english)
        assert sorted(re.findall(r"\d+", german)) == sorted(re.findall(r"\d+", english))
    by_name = {english for german, english in made if german == "Ich heiße Anna."}
    assert by_name <= {"My name is Anna."}
    assert ("Tschüss!", "Bye!") in made
    words = {german: english for german, english in made if german.startswith("Das macht")}
    assert any("zwanzig" in german and "twenty" in english for german, english in words.items())


def test_the_same_seed_gives_the_same_pairs() -> None:
    assert list(pairs(200)) == list(pairs(200))
    assert list(pairs(200, seed=2)) != list(pairs(200))


def test_numbers_in_words() -> None:
    made = dict(pairs(10000))
    for german, english in {"undzwanzig ": " twenty-", "undfünfzig ": " fifty-"}.items():
        found = [one for one in made.items() if german in one[0]]
        assert found
        assert all(english in translated for _, translated in found)
    assert made["Es ist zwölf Uhr."] == "It's twelve o'clock."


def test_numbers_are_written_as_their_language_writes_them() -> None:
    made = dict(pairs(3000))
    prices = [one for one in made.items() if one[0].startswith("Das Haus kostet")]
    rises = [one for one in made.items() if one[0].startswith("Die Preise")]
    assert prices
    assert rises
    assert all(re.search(r"\d\.\d{3} Euro", a) and re.search(r"\d,\d{3} e", b) for a, b in prices)
    assert all(re.search(r"\d,\d+ P", a) and re.search(r"\d\.\d+ p", b) for a, b in rises)


def test_a_verb_at_the_end_of_its_clause() -> None:
    made = dict(pairs(10000))
    last = [one for one in made.items() if one[0].endswith("gekauft hat.")]
    assert last
    for german, english in last:
        assert "bought" in english, (german, english)


def test_the_command_writes_aligned_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "new" / "everyday.v1"
    assert main(["--output", str(output), "--count", "12"]) == 0
    sides = [Path(f"{output}.{language}").read_text().splitlines() for language in ("de", "en")]
    assert list(zip(*sides, strict=True)) == list(pairs(12))
    assert main(["--output", str(output), "--count", "0"]) == 2
    assert "--count must be at least 1; got 0" in capsys.readouterr().err
