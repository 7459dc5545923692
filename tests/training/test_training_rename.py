"""Other names for Tom and Mary."""

import pytest

from training.everyday_words import MEN, WOMEN
from training.rename import main, renamed


@pytest.mark.parametrize(
    ("german", "english", "names"),
    [("Tom", "Tom", MEN), ("Maria", "Mary", WOMEN), ("Mary", "Mary", WOMEN)],
)
def test_the_new_name_is_on_both_sides(german, english, names):
    for seed in range(30):
        pair = (f"{german} singt, und {german} lacht.", f"{english} sings and {english} laughs.")
        ((source, target),) = renamed([pair], 1.0, seed)
        name = source.split()[0]
        assert name in names.split()
        assert source == f"{name} singt, und {name} lacht."
        assert target == f"{name} sings and {name} laughs."


def test_thomas_is_thomas_whatever_the_share():
    assert list(renamed([("Thomas rannte weg.", "Tom ran away.")], 1e-9)) == [
        ("Thomas rannte weg.", "Thomas ran away.")
    ]


@pytest.mark.parametrize(
    "pair",
    [
        ("Thomas singt.", "Thomas sings."),
        ("Er rief Tom.", "He called him."),
        ("Tom kennt Tom.", "Tom knows him."),
        ("Tomaten sind rot.", "Tomatoes are red."),
    ],
)
def test_what_has_no_partner_stays(pair):
    assert list(renamed([pair], 1.0)) == [pair]


def test_tom_and_thomas_stay_two():
    for seed in range(30):
        ((_, english),) = renamed([("Tom kennt Thomas.", "Tom knows Thomas.")], 0.5, seed)
        assert english.endswith(" knows Thomas.")


def test_the_genitive_is_written_as_german_writes_it():
    made = {next(renamed([("Toms Hund", "Tom's dog")], 1.0, seed)) for seed in range(300)}
    assert ("Pauls Hund", "Paul's dog") in made
    assert ("Jonas' Hund", "Jonas's dog") in made


def test_the_share_says_how_many_change():
    pairs = [("Tom singt.", "Tom is singing.")] * 2000
    made = list(renamed(pairs, 0.25))
    assert 1400 < made.count(pairs[0]) < 1600
    assert made == list(renamed(pairs, 0.25))


def test_the_command_writes_aligned_files(aligned, tmp_path, capsys):
    pairs = [("Tom.", "Tom.")] * 200
    options = [*aligned(pairs), "--output", str(tmp_path / "new"), "--share"]
    assert main([*options, "0.3", "--seed", "5"]) == 0
    sides = [(tmp_path / f"new.{end}").read_text().splitlines() for end in ("de", "en")]
    assert list(zip(*sides, strict=True)) == list(renamed(pairs, 0.3, seed=5))
    for share in ("0", "1.5"):
        assert main([*options, share]) == 2
        assert f"above 0 and not above 1; got {float(share)}" in capsys.readouterr().err
