"""Longer clauses by grammar: where the German verb stands, and that both sides say the same."""

import random

from training.clauses import clause, main, pairs


def test_the_same_seed_gives_the_same_pairs():
    assert list(pairs(50)) == list(pairs(50))
    assert list(pairs(50)) != list(pairs(50, seed=2))


def test_every_pair_is_a_sentence_with_no_slot_left():
    for german, english in pairs(3000):
        assert german[0].isupper()
        assert english[0].isupper()
        assert german[-1] == english[-1]
        assert german[-1] in ".?"
        for side in (german, english):
            assert not set("{}|_=;") & set(side)
            assert "  " not in side


def test_the_finite_verb_changes_its_place():
    for seed in range(300):
        found = clause(random.Random(seed))
        assert found.subordinate()[0].endswith(f" {found.closing}")
        assert found.closing.split() in ([found.last, found.finite], [found.last + found.finite])
        assert found.question()[0].startswith(f"{found.finite} {found.subject[0]}")
        assert found.plain()[0].startswith(f"{found.subject[0]} {found.finite}")
        assert found.inverted()[0].startswith(f"{found.when[0]} {found.finite}".strip())
        # German moves words about; English says the same in every statement.
        assert found.plain()[1] == found.subordinate()[1]


def test_who_asks_why_and_who_gives_the_reason_first_has_the_verb_before_its_subject():
    made = list(pairs(3000))
    asked = [pair for pair in made if pair[0].startswith("Warum ")]
    given = [pair for pair in made if pair[0].startswith("Weil ")]
    assert len(asked) > 50
    assert len(given) > 50
    assert all(english.startswith("Why ") and english.endswith("?") for _, english in asked)
    for german, english in given:
        assert english.startswith("Because ")
        assert english.endswith(".")
        # "Weil es regnet, bleiben wir": a verb, which German writes small, follows the comma.
        assert german.partition(", ")[2][0].islower()


def test_what_will_be_may_stand_in_the_present_and_then_says_when():
    made = [clause(random.Random(seed)) for seed in range(2000)]
    present = [found for found in made if found.closing == found.last + found.finite]
    parted = [found for found in present if found.last]  # "rufe ... an", but "... anrufe"
    assert len(present) > 50
    assert parted
    for found in present:
        assert found.when[1]
        assert found.said.startswith(("will ", "won't "))
    for found in parted:
        assert found.plain()[0].endswith(f" {found.last}")


def test_negation_is_on_both_sides_or_on_none():
    def negated(text: str, words: tuple[str, ...]) -> bool:
        return any(part in f" {text} " for part in words)

    for seed in range(500):
        german, english = clause(random.Random(seed)).plain()
        assert negated(german, (" nicht ", " kein ", " keine ", " keinen ")) == negated(
            english, ("n't ", "won't")
        )


def test_files_are_written_side_by_side(tmp_path):
    assert main(["--output", str(tmp_path / "made"), "--count", "12"]) == 0
    sides = [(tmp_path / f"made.{side}").read_text().splitlines() for side in ("de", "en")]
    assert list(zip(*sides, strict=True)) == list(pairs(12))


def test_no_count_below_one(tmp_path, capsys):
    assert main(["--output", str(tmp_path / "made"), "--count", "0"]) == 2
    assert "--count must be at least 1; got 0" in capsys.readouterr().err
    assert not (tmp_path / "made.de").exists()
