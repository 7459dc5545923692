"""`translate`: what is done for who types, what is said of input that is no text, and which
languages it takes."""

import pytest
from typer.testing import CliRunner

from hf_simultaneous import AdaptiveWaitKGenerator, sets
from hf_simultaneous.cli import app, translate
from hf_simultaneous.cli.ahead import found_set
from hf_simultaneous.cli.requests import TranslateRequest
from tests.babble import save_babbler


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_babbler(tmp_path_factory.mktemp("set"))


def run(*arguments, **options):
    return CliRunner().invoke(app, ["translate", *map(str, arguments)], **options)


def test_models_are_warmed_up_for_who_waits_at_each_word_and_not_for_one_text(folder, monkeypatch):
    warmed = []
    monkeypatch.setattr(translate, "warm_up", warmed.append)
    assert run("--model", folder, "Haus").exit_code == 0
    assert warmed == []
    generator, _ = translate.load(TranslateRequest(model=folder), warm=True)
    assert warmed == [generator]


def test_the_set_in_the_package_may_be_told_the_languages_it_translates():
    told = AdaptiveWaitKGenerator.from_pretrained(source_language="de", target_language="en")
    assert sets.languages_of(told) == sets.GERMAN_ENGLISH
    assert found_set(None, source_language="de", target_language="en") == str(sets.BUILTIN)
    with pytest.raises(ValueError, match="translates de to en; got en to de. Leave out --from"):
        AdaptiveWaitKGenerator.from_pretrained(source_language="en", target_language="de")


def test_a_folder_is_no_file(folder):
    refused = run("--file", folder)
    assert refused.exit_code == 2
    assert refused.stderr == f"error: {folder} is a folder; give a text file\n"


@pytest.mark.parametrize("text", ["", " \n"])
def test_nothing_to_translate_is_said(folder, tmp_path, text, monkeypatch):
    (tmp_path / "text").write_text(text)
    with monkeypatch.context() as patched:  # nor are models loaded for it
        patched.setattr(translate, "load", lambda *_, **__: pytest.fail("nothing needs them"))
        given = [run("--model", folder, text), run("--file", tmp_path / "text")]
    monkeypatch.setattr(translate, "_fragments", lambda request: iter([text.encode()]))
    given.append(run("--model", folder))  # standard input, which ends when it likes
    for result in given:
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "warning: nothing to translate\n"


@pytest.mark.parametrize("cut", [1, 2, 100])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\ufeffHaus".encode("utf-16le"), "the input is UTF-16; convert it first"),
        ("\ufeffHaus".encode("utf-16be"), "the input is UTF-16; convert it first"),
        ("Haus".encode("utf-16le"), "holds NUL bytes, and text in UTF-8 has none"),
        (b"\x7fELF\0\0", "holds NUL bytes, and text in UTF-8 has none"),
    ],
)
def test_what_is_no_text_in_utf_8_is_refused(text, message, cut):
    fragments = [text[place : place + cut] for place in range(0, len(text), cut)]
    with pytest.raises(ValueError, match=message):
        list(translate._checked(fragments))
