"""What the page shows, without a browser: desks do not mix, what is typed is escaped, a changed
text begins anew."""

import re
from types import SimpleNamespace

import pytest

from hf_simultaneous import (
    AdaptiveWaitKGenerator,
    AlignAtt,
    FullSentence,
    HoldN,
    LocalAgreement,
    PsFuture,
    WaitK,
)
from hf_simultaneous.app.desk import (
    CAUTION,
    KEPT,
    Desk,
    ends_sentence,
    path,
    policies_for,
)
from hf_simultaneous.app.desk import said as desk_said
from hf_simultaneous.app.gradio_page import CHOICES, build
from hf_simultaneous.sets import SpokenLanguages, languages_of
from hf_simultaneous.text_session import TextSession
from tests.babble import SENTENCES, TEXT, babbler


@pytest.fixture(scope="module")
def generator():
    return babbler()


def desk(generator, *chosen):
    return Desk(generator, policies_for(generator, list(chosen), 8, 1))


def heard(visitor, title="Wait-1"):
    """Every word that a policy has read, in the order of reading."""
    return [word for row in visitor.tracks[title].sentences for word, _ in path(row)]


def said(generator, text, policy):
    events = TextSession(generator, policy=policy).stream(text)
    return " ".join(event.text for event in events if event.action == "END" and event.text)


def test_only_languages_that_are_known_are_named(generator):
    """Nobody is asked for German by a set that was made of something else."""
    shown = {}
    for name, one in {
        "package": AdaptiveWaitKGenerator.from_pretrained(),
        "own": generator,
    }.items():
        visitor = desk(one, "wait-k")
        visitor.hear("Guten Tag.", over=True)
        box, offered = (
            next(block for block in build(one).blocks.values() if block.elem_id == name)
            for name in ("source", "examples")
        )
        shown[name] = (box.label, offered.visible, visitor.html().count(' lang="de"'))
    assert shown == {"package": ("German", True, 2), "own": ("Source", False, 0)}
    asked = SimpleNamespace(
        model=generator.model, source_language="deu_Latn", target_language="eng_Latn"
    )
    assert languages_of(asked) == SpokenLanguages("deu_Latn", "eng_Latn")


def test_policies_have_titles_and_thresholds(generator):
    offered = policies_for(generator, ["wait-k", "adaptive", "full"], 8, 3)
    assert list(offered) == ["Adaptive, ρ 0.9 to 0", "Wait-3", "Full sentence"]
    assert offered["Wait-3"] == WaitK(3)
    assert list(offered["Adaptive, ρ 0.9 to 0"].thresholds) == [1, 2, 3, 4]
    four = policies_for(generator, ["ps-future", "local-agreement", "hold-n", "align-att"], 8, 3)
    assert list(four.values()) == [
        LocalAgreement(2, 2, close=True),
        HoldN(4, close=True),
        AlignAtt(2, close=True),
        PsFuture(0.02),
    ]
    assert CAUTION[0] == (0.2, 0.0)
    assert CAUTION[-1] == (1.0, 0.9)
    named = AdaptiveWaitKGenerator(
        generator.models, generator.tokenizer, latencies={"low": {1: 0.1, 2: 0.0}}
    )
    assert policies_for(named, ["adaptive"], 8, 3, "low")["Adaptive, low"].thresholds == {
        1: 0.1,
        2: 0.0,
    }
    with pytest.raises(ValueError, match=r"caution is 1 \(quick\) to 18 \(careful\); got 19"):
        policies_for(generator, ["adaptive"], 19, 3)


def test_every_policy_on_offer_has_a_card_that_says_what_it_does(generator):
    every = [name for _, name in CHOICES]
    shown = Desk(generator, policies_for(generator, every, 8, 3)).html()
    told = re.findall('<p class="what">(.*?)</p>', shown)
    assert len(set(told)) == len(told) == len(every) == 7
    assert told[1] == "Reads 3 tokens, then writes one for each that it reads."


def test_typing_gives_what_a_stream_gives_for_every_policy(generator):
    typed = desk(generator, "wait-k", "full")
    for end in range(1, len(TEXT) + 1, 4):
        typed.hear(TEXT[:end])
    typed.hear(TEXT, over=True)
    for title, policy in (("Wait-1", WaitK(1)), ("Full sentence", FullSentence())):
        rows = [desk_said(sentence) for sentence in reversed(typed.tracks[title].newest_first)]
        assert " ".join(filter(None, rows)) == said(generator, TEXT, policy)
    assert typed.tracks["Wait-1"].lagging < typed.tracks["Full sentence"].lagging
    assert heard(typed, "Full sentence") == TEXT.split()
    assert typed.html().count("AL</abbr> ") == 2


def test_a_text_that_was_changed_begins_anew(generator):
    visitor = desk(generator, "wait-k")
    visitor.hear("Das alte Haus ")
    visitor.hear("Das kleine Haus ")
    assert heard(visitor) == ["Das", "kleine", "Haus"]


def test_an_error_is_not_taken_for_a_changed_text(generator):
    asked = []

    def broken(state, predict):
        asked.append(state)
        raise ValueError("this policy is broken")

    with pytest.raises(ValueError, match="this policy is broken"):
        Desk(generator, {"broken": broken}).hear("Das alte Haus ")
    assert len(asked) == 1, "and it is not tried again"


def test_a_text_that_was_over_begins_anew(generator):
    visitor = desk(generator, "wait-k")
    visitor.hear("Das alte Haus", over=True)
    visitor.hear("Das alte Haus ist ")
    assert heard(visitor) == ["Das", "alte", "Haus", "ist"]


def test_who_rests_after_a_full_stop_has_ended_the_sentence(generator):
    visitor, other = desk(generator, "wait-k"), desk(generator, "wait-k")
    visitor.hear("Das alte Haus. Und das")
    assert not visitor.rest("Das alte Haus. Und das"), "no sentence ends here"
    visitor.hear("Das alte Haus. Und das kleine.")
    before = visitor.html()
    assert not visitor.rest("Das alte Haus."), "more was typed since"
    assert visitor.html() == before
    assert visitor.rest("Das alte Haus. Und das kleine.")
    other.hear("Das alte Haus. Und das kleine. ")
    assert visitor.html() == other.html() != before
    visitor.hear("Das alte Haus. Und das kleine. Hier ")
    other.hear("Das alte Haus. Und das kleine. Hier ")
    assert visitor.html() == other.html(), "it goes on from there"
    visitor.hear("Das alte Haus.", over=True)
    assert not visitor.rest("Das alte Haus."), "that was over already"


@pytest.mark.parametrize("text", ["", " ", "Haus", "Haus. ", "Dr.", "am 3."])
def test_not_every_text_ends_a_sentence(text):
    assert not ends_sentence(text)


def test_desks_do_not_mix(generator):
    first, second = desk(generator, "wait-k"), desk(generator, "wait-k")
    for word, other in zip(SENTENCES[1].split(), SENTENCES[0].split(), strict=False):
        first.hear(" ".join([*heard(first), word, ""]))
        second.hear(" ".join([*heard(second), other, ""]))
    alone = desk(generator, "wait-k")
    alone.hear(" ".join([*heard(first), ""]))
    assert first.html() == alone.html()
    assert first.html() != second.html()


def test_what_is_typed_is_escaped(generator):
    visitor = desk(generator, "full")
    visitor.hear("<script>alert(1)</script> ")
    assert "<script>" not in visitor.html()
    assert "&lt;script&gt;" in visitor.html()


def test_a_long_text_does_not_fill_the_page(generator):
    visitor = desk(generator, "full")
    visitor.hear("Haus! " * (KEPT + 5), over=True)
    assert len(visitor.tracks["Full sentence"].sentences) == KEPT + 1


def test_each_sentence_has_its_row_and_the_newest_is_first(generator):
    visitor = desk(generator, "full")
    visitor.hear("Das Haus! Die Katze! ein Boot ")
    rows = visitor.html().split('class="sentence"')[1:]
    assert ["Boot" in rows[0], "Katze" in rows[1], "Haus" in rows[2]] == [True] * 3
    assert "waits for the end of the sentence" in rows[0]
    assert "waits for the end of the sentence" not in rows[1] + rows[2]


def test_each_policy_says_what_it_does(generator):
    drawn = desk(generator, "adaptive", "wait-k", "full").html()
    for words in ("Writes when its models are sure", "Reads 1 tokens", "Reads the whole sentence"):
        assert words in drawn


def test_an_empty_desk_is_drawn(generator):
    assert "No policy is chosen: tick one in the settings." in desk(generator).html()
    assert desk(generator, "full").tracks["Full sentence"].lagging is None
