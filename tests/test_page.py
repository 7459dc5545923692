"""What the page shows, without a browser: desks do not mix, what is typed is escaped, a changed text begins anew."""

import pytest

from hf_simultaneous import AdaptiveWaitKGenerator, FullSentence, WaitK
from hf_simultaneous.page import CAUTION, KEPT, Desk, policies_for
from hf_simultaneous.translation import TextSession
from tests.babble import SENTENCES, TEXT, babbler


@pytest.fixture(scope="module")
def generator():
    return babbler()


def desk(generator, *chosen):
    return Desk(generator, policies_for(generator, list(chosen), 8, 1))


def said(generator, text, policy):
    events = [event for event in TextSession(generator, policy=policy).stream(text) if event.action != "READ"]
    return " ".join("".join(str(event) or " " for event in events).split())


def test_policies_have_titles_and_thresholds(generator):
    offered = policies_for(generator, ["wait-k", "adaptive", "full"], 8, 3)
    assert list(offered) == ["Adaptive, ρ 0.9 to 0", "Wait-3", "Full sentence"]
    assert offered["Wait-3"] == WaitK(3)
    assert list(offered["Adaptive, ρ 0.9 to 0"].thresholds) == [1, 2, 3, 4]
    assert CAUTION[0] == (0.2, 0.0)
    assert CAUTION[-1] == (1.0, 0.9)
    named = AdaptiveWaitKGenerator(generator.models, generator.tokenizer, latencies={"low": {1: 0.1, 2: 0.0}})
    assert policies_for(named, ["adaptive"], 8, 3, "low")["Adaptive, low"].thresholds == {1: 0.1, 2: 0.0}
    with pytest.raises(ValueError, match=r"caution is 1 \(quick\) to 18 \(careful\); got 19"):
        policies_for(generator, ["adaptive"], 19, 3)


def test_typing_gives_what_a_stream_gives_for_every_policy(generator):
    typed = desk(generator, "wait-k", "full")
    for end in range(1, len(TEXT) + 1, 4):
        typed.hear(TEXT[:end])
    typed.hear(TEXT, over=True)
    for title, policy in (("Wait-1", WaitK(1)), ("Full sentence", FullSentence())):
        assert "".join(typed.tracks[title].words) == said(generator, TEXT, policy)
    assert typed.tracks["Wait-1"].lagging < typed.tracks["Full sentence"].lagging
    assert [word for word, _ in typed.tracks["Full sentence"].path()] == TEXT.split()
    assert typed.html().count("AL</abbr> ") == 2


def test_a_text_that_was_changed_begins_anew(generator):
    visitor = desk(generator, "wait-k")
    visitor.hear("Das alte Haus ")
    visitor.hear("Das kleine Haus ")
    assert [word for word, _ in visitor.tracks["Wait-1"].path()] == ["Das", "kleine", "Haus"]


def test_desks_do_not_mix(generator):
    first, second = desk(generator, "wait-k"), desk(generator, "wait-k")
    for word, other in zip(SENTENCES[1].split(), SENTENCES[0].split(), strict=False):
        first.hear(" ".join([*(w for w, _ in first.tracks["Wait-1"].path()), word, ""]))
        second.hear(" ".join([*(w for w, _ in second.tracks["Wait-1"].path()), other, ""]))
    alone = desk(generator, "wait-k")
    alone.hear(" ".join([*(w for w, _ in first.tracks["Wait-1"].path()), ""]))
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


def test_an_empty_desk_is_drawn(generator):
    assert desk(generator).html() == '<div class="desk"></div>'
    assert desk(generator, "full").tracks["Full sentence"].lagging is None
