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
