"""What a client remembers: nothing that was said is lost, changed, or too much for a server."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_simultaneous.serving.journal import CHUNK, Journal, ServerError
from hf_simultaneous.serving.limits import Bucket, count_words
from hf_simultaneous.serving.protocol import Replay, Start
from hf_simultaneous.serving.streams import _joined
from hf_simultaneous.text import SourceText
from tests.test_text import fast_tokenizer


calm = settings(deadline=None)  # on a busy machine a slow example is no failure
LENGTHS = st.integers(1, 3 * CHUNK)


@pytest.fixture(scope="module")
def tokenizer():
    return fast_tokenizer()


def event(n, action, text="", **more):
    return {"n": n, "sentence": 1, "action": action, "text": text, **more}


def test_a_journal_says_again_what_was_not_read():
    journal = Journal(Start(k=1))
    assert journal.start() == {"type": "start", "k": 1}
    journal.hear({"type": "started", "limits": {}})
    first, second = journal.say("text", "Ich habe ein Bo"), journal.say("text", "ot ")
    events = [event(1, "READ", "Ich"), event(2, "WRITE", "I", tokens=[7]), event(3, "READ", "habe")]
    heard = journal.hear({"type": "events", "seq": 1, "done": True, "events": events})
    assert [each.text for each in heard] == ["Ich", "I", "habe"]
    assert (first[0]["seq"], second[0]["seq"], journal.settled) == (1, 2, False)
    again = journal.start()
    assert again["replay"] == {
        "sentence": 1,
        "n": 3,
        "words": ("Ich", "habe"),
        "tokens": (7,),
        "written": None,
        "open": False,
        "ended": False,
    }
    journal.hear({"type": "started", "limits": {}, "replayed": 2})
    assert [(m["text"], m["seq"]) for m in journal.again()] == [("ein Bo", 3), ("ot ", 4)]
    journal.hear({"type": "events", "seq": 0, "done": True, "events": []})
    journal.hear({"type": "events", "seq": 3, "done": True, "events": [event(4, "READ", "ein")]})
    last = [event(5, "READ", "Boot"), event(6, "END")]
    journal.hear({"type": "events", "seq": 4, "done": True, "events": last})
    assert journal.settled
    replay = journal.start()["replay"]
    assert (replay["sentence"], replay["n"], replay["words"], replay["tokens"]) == (2, 6, (), ())
    assert list(journal.again()) == []


def test_a_journal_takes_only_what_is_final_of_a_transcript():
    journal = Journal(Start())
    assert journal.transcript("Ich ha") == "Ich "
    assert journal.transcript("Ich habe ein") == "habe "
    assert [message.get("text") for message in journal.say("flush")] == ["ein", None]
    assert journal.transcript("Ich ") == "Ich "
    with pytest.raises(ValueError, match="the source changed what it had sent"):
        journal.transcript("Du")
    journal = Journal(Start(stable=2))
    heard = [journal.transcript(text) for text in ("Ich ha", "Ich habe ", "Ich hatte ein ")]
    assert heard == ["", "Ich ", ""]
    assert [message.get("text") for message in journal.say("flush")] == ["hatte ein ", None]


def test_a_journal_keeps_the_spaces_that_end_words():
    journal = Journal(Start())
    journal.hear({"type": "started", "limits": {}})
    for text in ("Das Haus", " ", "ist "):
        journal.say("text", text)
    journal.hear({"type": "events", "seq": 1, "done": True, "events": [event(1, "READ", "Das")]})
    assert "".join(message["text"] for message in journal.again()) == "Haus ist "


def test_a_journal_forces_the_pieces_that_were_seen():
    journal = Journal(Start(pieces=True))
    journal.hear({"type": "started", "limits": {}})
    journal.say("word", "Fahrrad")
    events = [
        event(1, "READ", "Fahrrad"),
        event(2, "PIECE", "a", tokens=[3]),
        event(3, "PIECE", "bicyc", tokens=[7]),
        event(4, "WRITE", "a", tokens=[3]),
    ]
    journal.hear({"type": "events", "seq": 1, "done": True, "events": events})
    replay = journal.start()["replay"]
    assert (replay["tokens"], replay["written"]) == ((3, 7), 1)


def test_a_journal_says_what_it_has_seen_and_waits_while_much_is_undone():
    journal = Journal(Start(reads=False))
    journal.hear({"type": "started", "limits": {"backlog": 20}})
    messages = [*journal.say("text", "Ich " * 8), *journal.say("text", "Du " * 8)]
    assert journal.has_room(messages[0])
    assert journal.stamped(messages[0])["seen"] == 0
    assert not journal.has_room(messages[1])
    assert journal.nod() is None
    many = [event(n, "READ", "Ich") for n in range(1, 203)]
    assert journal.hear({"type": "events", "seq": 1, "done": True, "events": many}) == []
    assert journal.has_room(messages[1])
    assert journal.nod() == {"type": "ping", "seen": 202}
    assert journal.nod() is None


def test_a_refusal_is_raised():
    with pytest.raises(ServerError, match="bad_start: no"):
        Journal(Start()).hear({"type": "error", "code": "bad_start", "message": "no"})


def sent(messages):
    assert all(message["type"] == "text" for message in messages)
    return "".join(message["text"] for message in messages)


@calm
@given(said=st.lists(st.tuples(st.sampled_from(["text", "word"]), LENGTHS), max_size=4))
def test_a_long_text_is_cut_and_not_changed(said):
    journal = Journal(Start())
    texts = [(kind, "x" * length) for kind, length in said]
    messages = [message for kind, text in texts for message in journal.say(kind, text)]
    assert sent(messages) == "".join(f" {t} " if kind == "word" else t for kind, t in texts)
    assert all(len(message["text"]) <= CHUNK for message in messages)


@calm
@given(
    texts=st.lists(st.text("我有 书a", min_size=1, max_size=3000), min_size=1, max_size=3),
    backlog=st.integers(1, 600),
    rate=st.integers(1, 100),
)
def test_a_journal_never_says_more_at_once_than_a_server_takes(texts, backlog, rate):
    """Nor if it was said before the server had told how much that is."""
    journal = Journal(Start())
    for text in texts:
        journal.say("text", text)
    journal.hear({"type": "started", "limits": {"backlog": backlog, "rate": rate}})
    now = [0.0]
    journal._bucket._clock, journal._bucket._then = lambda: now[0], 0.0
    server = Bucket(rate, backlog, clock=lambda: now[0])
    messages = list(journal.again())
    assert sent(messages) == "".join(texts)
    for message in messages:
        now[0] += journal.pause(message)
        assert server.take(count_words(message["text"])) == 0


SAID = st.one_of(
    st.tuples(st.sampled_from(["text", "word"]), st.text("中国人银3a. \0", max_size=6)),
    st.just(("flush", "")),
)


@settings(deadline=None, max_examples=150)
@given(said=st.lists(SAID, max_size=12), heard=st.integers(0, 40))
def test_a_sentence_that_is_begun_anew_has_the_same_source(tokenizer, said, heard):
    """Whatever scripts it mixes, and wherever the connection broke."""
    journal, source = Journal(Start()), SourceText(tokenizer)
    journal.hear({"type": "started", "limits": {}})
    messages = [m for kind, text in [*said, ("flush", "")] for m in journal.say(kind, text)]
    pieces = hear(journal, source, messages, heard)
    ends = [place for place, piece in enumerate(pieces[:heard], 1) if piece.ends_sentence]
    expected = pieces[ends[-1] if ends else 0 :]
    replay, other = Replay(**journal.start().get("replay", {})), SourceText(tokenizer)
    again = other.push_text(_joined(replay)) if replay.words else []
    again += [piece for message in journal.again() for piece in taken(other, message)]
    assert tokens(again) == tokens(expected)


def hear(journal, source, messages, count):
    """Tell a journal of so many of the pieces that a server makes of messages; all of these."""
    pieces = []
    for message in messages:
        new = taken(source, message)
        told = new[: max(0, count - len(pieces))]
        events = [
            event(n, "END" if piece.ends_sentence else "READ", piece.text)
            for n, piece in enumerate(told, len(pieces) + 1)
        ]
        pieces += new
        done = len(pieces) < count
        journal.hear({"type": "events", "seq": message["seq"], "done": done, "events": events})
    return pieces


def taken(source, message):
    """What a server makes of a message."""
    if message["type"] == "flush":
        return source.flush()
    return source.push_text(sent([message]))


def tokens(pieces):
    return [token for piece in pieces for token in piece.tokens]
