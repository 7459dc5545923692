"""Two clauses made one sentence."""

import pytest

from training.join import JOINTS, joined, main


PAIRS = [
    ("Sie schläft.", "She is sleeping."),
    ("Sie irren sich.", "You are wrong."),
    ("Ihre Frau ist hier.", "Your wife is here."),
    ("Ihre Haare sind rot.", "Her hair is red."),
    ("Wir gehen nach Hause.", "We are going home."),
    ("Tom singt.", "Tom is singing."),
]
BEHIND = [
    ("sie schläft.", "she is sleeping."),
    ("Sie irren sich.", "you are wrong."),
    ("Ihre Frau ist hier.", "your wife is here."),
    ("ihre Haare sind rot.", "her hair is red."),
    ("wir gehen nach Hause.", "we are going home."),
    ("Tom singt.", "Tom is singing."),
]
LEFT_OUT = [
    ("Wo bist du?", "Where are you?"),  # no statement
    ("Er sagt, er kommt.", "He says he is coming."),  # has clauses already
    ("Ich ging. Er blieb.", "I went. He stayed."),  # two sentences already
    ("Heute ist der 3.", "Today is the third."),
    ("Ja.", "Yes."),
    (" Wir gehen.", "We are going."),
    ("Wir gehen jetzt alle zusammen ganz schnell nach Hause zurück.", "We are going home."),
]


def test_every_pair_may_come_first_and_every_other_second():
    made = set(joined(PAIRS + LEFT_OUT, 4000))
    assert made == {
        (f"{first[0][:-1]}{joint[0]} {second[0]}", f"{first[1][:-1]}{joint[1]} {second[1]}")
        for place, first in enumerate(PAIRS)
        for other, second in enumerate(BEHIND)
        for joint in JOINTS
        if place != other
    }


@pytest.mark.parametrize(
    "pair",
    [("Hunde bellen.", "Dogs bark."), ("Sie fehlen mir.", "I miss you.")],
    ids=["a noun", "Sie that might be formal"],
)
def test_what_may_need_its_capital_does_not_come_second(pair):
    made = list(joined([pair, PAIRS[4]], 50))
    assert all(german.endswith("wir gehen nach Hause.") for german, _ in made)


def test_the_same_seed_makes_the_same_pairs():
    assert list(joined(PAIRS, 20)) == list(joined(PAIRS, 20))
    assert list(joined(PAIRS, 20)) != list(joined(PAIRS, 20, seed=2))


def test_the_command_writes_aligned_files(aligned, tmp_path, capsys):
    options = [*aligned(PAIRS), "--output", str(tmp_path / "joined")]
    assert main([*options, "--count", "5", "--seed", "3"]) == 0
    sides = [(tmp_path / f"joined.{end}").read_text().splitlines() for end in ("de", "en")]
    assert list(zip(*sides, strict=True)) == list(joined(PAIRS, 5, seed=3))
    assert main([*options, "--count", "0"]) == 2
    assert "--count must be at least 1; got 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "pairs",
    [[], LEFT_OUT, PAIRS[:1], [("Hunde bellen.", "Dogs bark."), ("Tauben gurren.", "Doves coo.")]],
    ids=["nothing", "nothing that fits", "nothing else", "none to come second"],
)
def test_where_nothing_can_be_joined_it_says_what_is_wanted(pairs):
    with pytest.raises(ValueError, match="wanted are statements of 2 to 9 words"):
        list(joined(pairs, 1))
