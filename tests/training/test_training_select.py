"""What of a test set is German."""

import pytest

from training import clauses, everyday, situations, toy
from training.select import is_german, kept, main


GERMAN = [
    "Das Abkommen soll Prüfungen minimieren, indem es beiden Parteien hilft.",
    "Wir können Vertrauen erst wieder schaffen, wenn die Bürger das wissen.",
    "Wo ist der Bahnhof?",
]
OTHERS = [
    "Den energiproduktion som framtidens konsumenter kommer att möta kommer att se annorlunda ut.",
    "Ik wens met name commissaris alle succes om dat pakket als eenheid te bewaren.",
    "Cela semble une évidence, mais des obstacles existent pourtant et doivent être levés.",
    "Este relatório reconhece-o e defende, por isso, uma isenção dos requisitos gerais.",
    "",
]


@pytest.mark.parametrize("text", GERMAN)
def test_german_is_german(text):
    assert is_german(text)


@pytest.mark.parametrize("text", OTHERS)
def test_its_neighbours_are_not(text):
    assert not is_german(text)


def test_pairs_stay_together_and_in_order():
    given = [(text, f"translation {number}") for number, text in enumerate(GERMAN + OTHERS)]
    assert list(kept(given)) == given[:3]
    assert list(kept(given, max_words=4)) == given[2:3]


def test_translations_that_leave_much_out_may_be_dropped():
    """Of four words: three are 0.75 of them."""
    given = [(GERMAN[2], target) for target in ("Where is the station?", "The station?", "a b c")]
    assert list(kept(given, min_ratio=0.75)) == [given[0], given[2]]
    assert list(kept(given, min_ratio=0.76)) == given[:1]
    assert list(kept(given)) == given


def test_the_command_says_how_many_are_left(tmp_path, capsys):
    source, reference = tmp_path / "test.de", tmp_path / "test.en"
    source.write_text("\n".join(GERMAN + OTHERS[:2]) + "\n", encoding="utf-8")
    reference.write_text("a\nb\nc\nd\ne\n", encoding="utf-8")
    options = ["--source", str(source), "--reference", str(reference)]
    assert main([*options, "--output", str(tmp_path / "kept")]) == 0
    assert "3 of 5 pairs kept" in capsys.readouterr().out
    assert (tmp_path / "kept.de").read_text(encoding="utf-8").splitlines() == GERMAN
    assert (tmp_path / "kept.en").read_text(encoding="utf-8") == "a\nb\nc\n"
    for limit in ("--max-words=1", "--min-ratio=2"):
        assert main([*options, limit, "--output", str(tmp_path / "none")]) == 2
        assert "no sentence" in capsys.readouterr().err
    reference.write_text("a\n", encoding="utf-8")
    assert main([*options, "--output", str(tmp_path / "none")]) == 2
    assert "has 5 lines" in capsys.readouterr().err
    assert not list(tmp_path.glob("none*"))


def test_no_file_of_the_user_is_written_over(tmp_path, capsys):
    """Its own input is such a file; what says the same already is not lost."""
    source, reference = tmp_path / "t.de", tmp_path / "t.en"
    source.write_text("\n".join(GERMAN + OTHERS[:2]) + "\n", encoding="utf-8")
    reference.write_text("a\nb\nc\nd\ne\n", encoding="utf-8")
    options = ["--source", str(source), "--reference", str(reference), "--output"]
    assert main([*options, str(tmp_path / "t")]) == 2
    assert "t.de is there and would be lost; give another --output, or --force" in (
        capsys.readouterr().err
    )
    assert len(source.read_text(encoding="utf-8").splitlines()) == 5
    for _ in range(2):
        assert main([*options, str(tmp_path / "kept")]) == 0
    (tmp_path / "kept.en").write_text("mine\n")
    assert main([*options, str(tmp_path / "kept")]) == 2
    assert (tmp_path / "kept.en").read_text() == "mine\n"
    assert main([*options, str(tmp_path / "kept"), "--force"]) == 0
    assert (tmp_path / "kept.en").read_text() == "a\nb\nc\n"


@pytest.mark.parametrize("command", [clauses, everyday, situations, toy])
def test_whoever_makes_pairs_may_make_them_again(command, tmp_path, capsys):
    count = [] if command is toy else ["--count", "9"]
    options = ["--output", str(tmp_path / "x" / "test"), *count]
    if command is toy:
        options[1] = str(tmp_path / "x")
    for _ in range(2):
        assert command.main(options) == 0
    (tmp_path / "x" / "test.de").write_text("mine\n")
    assert command.main(options) == 2
    assert "test.de is there and would be lost" in capsys.readouterr().err
    assert command.main([*options, "--force"]) == 0
    first = (tmp_path / "x" / "test.de").read_text()
    assert first != "mine\n"
    if command is not toy:
        assert command.main([*options, "--force", "--seed", "2"]) == 0
        assert (tmp_path / "x" / "test.de").read_text() != first
