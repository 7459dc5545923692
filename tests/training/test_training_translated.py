"""Translations that find their German by its digest."""

import re
import unicodedata

import pytest

from training.translated import TRANSLATIONS, digest, main, read_translations, translated


GERMAN = ["Das Fenster klemmt.", "Wer hat die Tür geöffnet?", "Niemand."]
KNOWN = {digest(GERMAN[1]): "Who opened the door?", digest(GERMAN[0]): "The window is stuck."}


@pytest.fixture
def files(tmp_path):
    """The options of a command that knows two of three sentences."""
    source, known = tmp_path / "german.de", tmp_path / "known.tsv"
    source.write_text("".join(f"{line}\n" for line in GERMAN), "utf-8")
    known.write_text("".join(f"{key}\t{english}\n" for key, english in KNOWN.items()), "utf-8")
    return ["--source", str(source), "--translations", str(known)]


def test_sentences_with_a_translation_are_kept_in_their_order_and_once():
    assert list(translated([*GERMAN, *GERMAN], KNOWN)) == [
        (GERMAN[0], "The window is stuck."),
        (GERMAN[1], "Who opened the door?"),
    ]


def test_umlauts_and_spaces_may_be_written_otherwise():
    apart = unicodedata.normalize("NFD", GERMAN[1])
    assert apart != GERMAN[1]
    assert digest(f" {apart}\r") == digest(GERMAN[1]) != digest(GERMAN[1].lower())


def test_the_command_writes_what_it_knows(files, tmp_path, capsys):
    assert main([*files, "--output", str(tmp_path / "made")]) == 0
    assert "2 pairs, of 2 translations" in capsys.readouterr().out
    assert (tmp_path / "made.de").read_text("utf-8").splitlines() == GERMAN[:2]
    assert (tmp_path / "made.en").read_text("utf-8").splitlines() == [
        "The window is stuck.",
        "Who opened the door?",
    ]


def test_other_german_is_refused(files, tmp_path, capsys):
    (tmp_path / "german.de").write_text("Ein anderer Satz.\n", "utf-8")
    assert main([*files, "--output", str(tmp_path / "made")]) == 2
    assert "is among the 2 of" in capsys.readouterr().err
    assert not list(tmp_path.glob("made*"))


@pytest.mark.parametrize("line", ["no tab", "0123456789ab\t", "012\tshort", "0123456789ab\t "])
def test_a_line_that_is_no_translation_is_named(files, tmp_path, capsys, line):
    known = tmp_path / "known.tsv"
    known.write_text(f"{known.read_text('utf-8')}{line}\n", "utf-8")
    assert main([*files, "--output", str(tmp_path / "made")]) == 2
    assert f"line 3 is {line!r}; a line is a digest" in capsys.readouterr().err


def test_the_translations_of_the_project_are_sentences_each_for_another():
    lines = TRANSLATIONS.read_text("utf-8").splitlines()
    known = read_translations(TRANSLATIONS)
    assert len(known) == len(lines) > 10_000
    assert lines == sorted(lines)
    for key, english in known.items():
        assert re.fullmatch(r"[0-9a-f]{12}", key), key
        assert english == english.strip(), english
        assert "  " not in english, english
        assert english[-1] in ".!?…'\")", english
