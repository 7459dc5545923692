"""Other names for Tom and Mary."""

import pytest

from training.everyday_words import MEN, WOMEN
from training.rename import main, renamed


def test_the_new_name_is_on_both_sides():
    for seed in range(30):
        ((german, english),) = renamed([("Tom singt.", "Tom is singing.")], 1.0, seed)
        name = german.split()[0]
        assert name in MEN.split()
        assert english == f"{name} is singing."
        ((german, english),) = renamed([("Das ist Maria.", "That's Mary.")], 1.0, seed)
        name = german.split()[-1][:-1]
        assert name in WOMEN.split()
        assert english == f"That's {name}."


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (("Thomas rannte weg.", "Tom ran away."), ("Thomas rannte weg.", "Thomas ran away.")),
        (("Thomas singt.", "Thomas sings."), ("Thomas singt.", "Thomas sings.")),
        (("Er rief Tom.", "He called him."), ("Er rief Tom.", "He called him.")),
        (("Tomaten sind rot.", "Tomatoes are red."), ("Tomaten sind rot.", "Tomatoes are red.")),
    ],
)
def test_what_has_no_partner_stays(pair, expected):
    assert list(renamed([pair], 1.0)) == [expected]


def test_the_genitive_is_written_as_german_writes_it():
    made = {next(renamed([("Toms Hund", "Tom's dog")], 1.0, seed)) for seed in range(300)}
    assert ("Pauls Hund", "Paul's dog") in made
    assert ("Jonas' Hund", "Jonas's dog") in made


def test_the_share_says_how_many_change():
    pairs = [("Tom singt.", "Tom is singing.")] * 2000
    kept = sum(pair == pairs[0] for pair in renamed(pairs, 0.25))
    assert 1400 < kept < 1600


def test_the_command_writes_aligned_files(aligned, tmp_path, capsys):
    options = [*aligned([("Tom.", "Tom.")]), "--output", str(tmp_path / "new"), "--share"]
    assert main([*options, "1"]) == 0
    sides = [(tmp_path / f"new.{end}").read_text() for end in ("de", "en")]
    assert sides[0] == sides[1] != "Tom.\n"
    assert main([*options, "0"]) == 2
    assert "--share must lie above 0 and not above 1; got 0.0" in capsys.readouterr().err
