from pathlib import Path

from training.toy import VERBS, main, toy_pairs, toy_splits


def test_pairs_are_different_and_come_from_the_seed() -> None:
    pairs = toy_pairs(500, seed=3)
    assert len(set(pairs)) == 500
    assert pairs == toy_pairs(500, seed=3)
    assert pairs != toy_pairs(500, seed=4)


def test_no_pair_is_in_two_splits() -> None:
    splits = toy_splits()
    together = [pair for pairs in splits.values() for pair in pairs]
    assert len(set(together)) == len(together)


def test_the_last_word_of_the_source_comes_early_in_the_target() -> None:
    for pair in toy_pairs(200, seed=1):
        german, english = next(verb for verb in VERBS if pair.source.endswith(f" {verb[0]}"))
        before = pair.target.partition(f" has {english} ")[0]
        assert len(before.split()) <= 3
        assert german in pair.source


def test_dev_and_test_sentences_are_written_as_text(tmp_path: Path) -> None:
    assert main(["--output", str(tmp_path / "text")]) == 0
    for name in ("dev", "test"):
        pairs = toy_splits()[name]
        for ending, lines in (("de", [p.source for p in pairs]), ("en", [p.target for p in pairs])):
            text = (tmp_path / "text" / f"{name}.{ending}").read_text(encoding="utf-8")
            assert text.splitlines() == lines
