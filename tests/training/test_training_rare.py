"""Pairs with a seldom word."""

import pytest

from training.rare import main, rare


PAIRS = [
    ("Der Drucker ist kaputt.", "The printer is broken."),
    ("drucker drucken.", "Printers print."),
    ("Der Hund ist müde.", "The dog is tired."),
    ("Der Hund bellt.", "The dog barks."),
    ("Der Hund ist alt.", "The dog is old."),
]


@pytest.mark.parametrize(
    ("at_most", "kept"),
    [(2, [0, 1]), (3, [0, 1, 2, 3, 4])],
    ids=["Drucker alone", "Hund and ist, too"],
)
def test_a_word_of_two_pairs_or_a_few_more_keeps_them(at_most, kept):
    assert list(rare(PAIRS, at_most)) == [PAIRS[index] for index in kept]


def test_a_word_of_one_sentence_alone_does_not_count():
    twice = [("Xaver bellt.", "Xaver barks."), ("Xaver bellt.", "Xaver is barking.")]
    assert list(rare([*twice, ("Er.", "He.")], 80)) == []


def test_the_command_says_how_many_are_kept(aligned, tmp_path, capsys):
    options = [*aligned(PAIRS), "--output", str(tmp_path / "rare")]
    assert main([*options, "--at-most", "2"]) == 0
    assert "2 of 5 pairs kept" in capsys.readouterr().out
    assert (tmp_path / "rare.en").read_text().splitlines() == [pair[1] for pair in PAIRS[:2]]
    assert main([*options, "--at-most", "1"]) == 2
    assert "--at-most must be at least 2; got 1" in capsys.readouterr().err
    assert main([*aligned(PAIRS[:1]), "--output", str(tmp_path / "none")]) == 2
    assert "no sentence of" in capsys.readouterr().err
    assert main([*aligned([]), "--output", str(tmp_path / "none")]) == 2
    assert "are empty; give a sentence a line" in capsys.readouterr().err
    assert not list(tmp_path.glob("none*"))
