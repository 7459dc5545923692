"""Two clauses made one sentence."""

import pytest

from training.join import JOINTS, joined, main


PAIRS = [
    ("Sie schläft.", "She is sleeping."),
    ("Sie irren sich.", "You are wrong."),
    ("Wir gehen nach Hause.", "We are going home."),
    ("Tom singt.", "Tom is singing."),
]
LEFT_OUT = [
    ("Wo bist du?", "Where are you?"),  # no statement
    ("Er sagt, er kommt.", "He says he is coming."),  # has clauses already
    ("Wir gehen jetzt alle zusammen ganz schnell nach Hause zurück.", "We are going home."),
]
BEHIND = [
    ("sie schläft.", "she is sleeping."),
    ("Sie irren sich.", "you are wrong."),
    ("wir gehen nach Hause.", "we are going home."),
    ("Tom singt.", "Tom is singing."),
]


def test_every_pair_may_come_first_and_second():
    made = set(joined(PAIRS + LEFT_OUT, 2000))
    assert made == {
        (f"{first[0][:-1]}{joint[0]} {second[0]}", f"{first[1][:-1]}{joint[1]} {second[1]}")
        for first in PAIRS
        for second in BEHIND
        for joint in JOINTS
    }


def test_a_noun_or_a_name_keeps_its_capital_by_not_coming_second():
    made = list(joined([("Hunde bellen.", "Dogs bark."), PAIRS[2]], 50))
    assert all(german.endswith("wir gehen nach Hause.") for german, _ in made)


def test_the_same_seed_makes_the_same_pairs():
    assert list(joined(PAIRS, 20)) == list(joined(PAIRS, 20))
    assert list(joined(PAIRS, 20)) != list(joined(PAIRS, 20, seed=2))


def test_the_command_writes_aligned_files(aligned, tmp_path, capsys):
    options = [*aligned(PAIRS), "--output", str(tmp_path / "joined")]
    assert main([*options, "--count", "5"]) == 0
    sides = [(tmp_path / f"joined.{end}").read_text().splitlines() for end in ("de", "en")]
    assert list(zip(*sides, strict=True)) == list(joined(PAIRS, 5))
    assert main([*options, "--count", "0"]) == 2
    assert "--count must be at least 1; got 0" in capsys.readouterr().err


@pytest.mark.parametrize("pairs", [[], LEFT_OUT], ids=["nothing", "nothing that fits"])
def test_where_nothing_can_be_joined_it_says_what_is_wanted(pairs):
    with pytest.raises(ValueError, match="statements of at most 9 words"):
        list(joined(pairs, 1))
