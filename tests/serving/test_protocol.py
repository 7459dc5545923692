"""What a client may say: each wrong message gets its code, and what is right comes through."""

import json

import pytest

from hf_simultaneous.serving.access import Access, read_tokens
from hf_simultaneous.serving.limits import Bucket, Limits, count_words
from hf_simultaneous.serving.protocol import (
    CLOSE_CODES,
    End,
    Flush,
    Ping,
    ProtocolError,
    Replay,
    Say,
    Start,
    encode,
    parse,
    start_message,
)


RIGHT = {
    '{"type":"start"}': Start(),
    '{"type":"start","latency":"low","silence":1.5,"new":1}': Start(latency="low", silence=1.5),
    '{"type":"start","rho":[1,0.5],"reads":false}': Start(rho=(1, 0.5), reads=False),
    '{"type":"start","policy":"hold-n","options":{"n":2,"close":true}}': Start(
        policy="hold-n", options={"n": 2, "close": True}
    ),
    '{"type":"start","stable":2,"pieces":true}': Start(stable=2, pieces=True),
    '{"type":"start","k":3,"replay":{"sentence":1,"n":8,"words":["a"],"tokens":[8]}}': Start(
        k=3, replay=Replay(sentence=1, n=8, words=("a",), tokens=(8,))
    ),
    '{"type":"word","seq":1,"text":"Ich","seen":4}': Say("word", 1, "Ich", 4),
    '{"type":"text","seq":2,"text":""}': Say("text", 2, ""),
    '{"type":"transcript","seq":2,"text":"Ich h"}': Say("transcript", 2, "Ich h"),
    '{"type":"word","seq":3,"text":"\\ud800"}': Say("word", 3, "\ud800"),
    '{"type":"flush","seq":3}': Flush(3),
    '{"type":"ping","seen":7}': Ping(7),
    '{"type":"end"}': End(),
}

WRONG = {
    "bad_json": ["", "{", "nonsense", "[" * 16000, '{"type":NaN}', "1" * 5000, '{"a":Infinity}'],
    "bad_message": [
        b"\x00\x01",
        "[]",
        "3",
        "null",
        '"start"',
        '{"type":"word","seq":1}',
        '{"type":"word","seq":1,"text":3}',
        '{"type":"text","seq":1,"text":["a"]}',
        '{"type":"ping","seen":-1}',
    ],
    "unknown_type": ["{}", '{"type":"stop"}', '{"type":3}', '{"type":["start"]}', '{"type":null}'],
    "bad_seq": [
        '{"type":"flush"}',
        '{"type":"word","seq":0,"text":"a"}',
        '{"type":"word","seq":-1,"text":"a"}',
        '{"type":"word","seq":1.5,"text":"a"}',
        '{"type":"word","seq":true,"text":"a"}',
        '{"type":"word","seq":"1","text":"a"}',
        '{"type":"word","seq":99999999999999999999,"text":"a"}',
    ],
    "empty_word": [
        '{"type":"word","seq":1,"text":""}',
        '{"type":"word","seq":1,"text":" \\n\\u0000"}',
    ],
    "bad_start": [
        '{"type":"start","latency":3}',
        '{"type":"start","policy":["a"]}',
        '{"type":"start","k":0}',
        '{"type":"start","k":1.5}',
        '{"type":"start","rho":[1]}',
        '{"type":"start","rho":"ab"}',
        '{"type":"start","silence":0}',
        '{"type":"start","silence":"1"}',
        '{"type":"start","reads":1}',
        '{"type":"start","latency":"low","k":3}',
        '{"type":"start","stable":0}',
        '{"type":"start","pieces":"yes"}',
        '{"type":"start","options":{"speed":3}}',
        '{"type":"start","options":{"n":1e9}}',
        '{"type":"start","options":[3]}',
        '{"type":"start","replay":{"words":["a"],"tokens":[3],"written":2}}',
        '{"type":"start","replay":{"words":["a"],"open":1}}',
        '{"type":"start","replay":{"words":["a"],"ended":"no"}}',
        '{"type":"start","replay":3}',
        '{"type":"start","replay":{"n":-1}}',
        '{"type":"start","replay":{"sentence":"a"}}',
        '{"type":"start","replay":{"words":"abc"}}',
        '{"type":"start","replay":{"words":[3]}}',
        '{"type":"start","replay":{"words":["a"],"tokens":["b"]}}',
        '{"type":"start","replay":{"tokens":[3]}}',
    ],
}


@pytest.mark.parametrize("raw", RIGHT)
def test_what_is_right_comes_through(raw):
    assert parse(raw) == RIGHT[raw]


@pytest.mark.parametrize(
    ("code", "raw"), [(code, raw) for code, raws in WRONG.items() for raw in raws]
)
def test_what_is_wrong_gets_its_code(code, raw):
    with pytest.raises(ProtocolError) as caught:
        parse(raw)
    assert caught.value.code == code
    assert caught.value.fatal == (code == "bad_start")
    assert code in CLOSE_CODES
    json.dumps(str(caught.value)).encode()


def test_a_start_survives_the_way():
    start = Start(k=3, replay=Replay(n=2, words=("Ich",), tokens=(4, 5)))
    assert parse(json.dumps(start_message(start))) == start


@pytest.mark.parametrize("halves", ["\ud83d", "\ud83d\ude00"])
def test_every_message_can_be_sent(halves):
    """Halves are not joined: to a session each is a character of its own."""
    text = encode({"type": "word", "seq": 1, "text": halves})
    assert parse(text.encode().decode()) == Say("word", 1, "\ufffd" * len(halves))


def test_a_bucket_lets_a_burst_through_and_then_a_rate():
    now = [0.0]
    bucket = Bucket(rate=10, burst=20, clock=lambda: now[0])
    assert bucket.take(20) == 0
    assert bucket.take(5) == pytest.approx(0.5)
    now[0] = 1.0
    assert bucket.take(5) == 0


@pytest.mark.parametrize(("text", "words"), [("", 1), ("Ich habe", 2), ("我有", 2)])
def test_words_are_counted(text, words):
    assert count_words(text) == words


def test_limits_are_above_nothing():
    with pytest.raises(ValueError, match="max_streams must be above 0; got 0"):
        Limits(max_streams=0)


def test_tokens_and_origins(tmp_path, monkeypatch):
    file = tmp_path / "tokens"
    file.write_text("# ours\nsecret\n\nother\n")
    monkeypatch.setenv("HF_SIMULTANEOUS_TOKEN", "third")
    tokens = read_tokens(file)
    assert tokens == ("secret", "other", "third")
    access = Access(tokens, ("https://example.org",))
    assert access.allows_token({"authorization": "Bearer other"})
    assert access.allows_token({}, ["hf-simultaneous.v1", "bearer.third"])
    assert not access.allows_token({"authorization": "Basic other"})
    assert not access.allows_token({})
    assert access.allows_origin({"host": "a:1", "origin": "http://a:1"})
    assert access.allows_origin({"host": "a:1", "origin": "https://example.org"})
    assert access.allows_origin({"host": "a:1"})
    assert not access.allows_origin({"host": "a:1", "origin": "http://b:1"})
    file.write_text("\n")
    with pytest.raises(ValueError, match="holds no token"):
        read_tokens(file)
    with pytest.raises(ValueError, match=r"an origin is a scheme, a host .* got 'example.org'"):
        Access((), ("example.org",))
