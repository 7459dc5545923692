"""Words in, words out: the same words as whole sentences give, each event at its moment, however
the text is cut."""

import asyncio
import dataclasses
import gc
import itertools
import json
import math
import random
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import cycle, islice
from types import CodeType, FunctionType, ModuleType

import pytest
import torch

from hf_simultaneous import (
    AdaptiveWaitKGenerator,
    FullSentence,
    HoldN,
    TestTimeWaitK,
    WaitK,
    packing,
)
from hf_simultaneous.actions import Read, Write
from hf_simultaneous.sentences import SentenceSplitting
from hf_simultaneous.text import whole_sentences
from hf_simultaneous.text_session import (
    TextEvent,
    TextSession,
    choose_policy,
    source_text,
    warm_up,
)
from hf_simultaneous.transcripts import SourceRevised
from tests.babble import SENTENCES, TEXT, babbler
from tests.guard import PATIENCE


@pytest.fixture(scope="module")
def generator():
    return babbler()


def untimed(events):
    return [dataclasses.replace(event, time=0.0) for event in events]


def texts(events, action="WRITE"):
    """What was read or written, sentence by sentence."""
    sentences = [""]
    for event in events:
        if event.action == action:
            sentences[-1] += str(event)
        elif event.action == "END":
            sentences.append("")
    assert sentences.pop() == "", "every sentence ends"
    return sentences


def whole(generator, sentence, **options):
    source = source_text(generator)
    [(ids, undecided)] = whole_sentences([*source.push_text(sentence), *source.flush()])
    assert ids == generator.tokenizer(sentence).input_ids
    options = {"undecided": [undecided], **generator.for_text(**options)}
    return generator.generate([ids], return_dict_in_generate=True, **options)


@pytest.mark.parametrize("policy", [None, WaitK(1), WaitK(3), FullSentence()])
def test_words_come_out_as_whole_sentences_give_them(generator, policy):
    events = list(TextSession(generator, policy=policy).stream(TEXT.split()))
    assert texts(events, "READ") == SENTENCES
    for sentence, written in zip(SENTENCES, texts(events), strict=True):
        output = whole(generator, sentence, policy=policy)
        assert (
            written
            == generator.tokenizer.decode(output.sequences[0], skip_special_tokens=True).strip()
        )


def test_an_event_knows_its_lag_its_probability_and_both_delays(generator):
    events = [e for e in TextSession(generator).stream(SENTENCES[1]) if e.action == "WRITE"]
    output = whole(generator, SENTENCES[1])
    tokens = [action.token for action in output.actions[0] if isinstance(action, Write)]
    entries = generator.tokenizer.convert_ids_to_tokens(tokens)
    starts = [place for place, entry in enumerate(entries) if entry.startswith("▁")]
    assert len(starts) >= 3
    assert len(starts) < len(output.delays[0]), "some word has several tokens"
    assert [event.k for event in events] == [output.lags[0][start] for start in starts]
    ends = [*starts[1:], len(output.delays[0])]
    words = [output.probabilities[0][start:end] for start, end in zip(starts, ends, strict=True)]
    assert [e.probability for e in events] == pytest.approx(
        [math.prod(word) for word in words], rel=1e-4
    )
    # A word is shown when the next begins, the last with </s>: that moment is its delay.
    shown = [*output.delays[0], len(generator.tokenizer(SENTENCES[1]).input_ids) - 1]
    assert [event.delay_tokens for event in events] == [shown[end] for end in ends]
    ids = generator.tokenizer(SENTENCES[1])
    assert [event.delay for event in events] == [
        ids.word_ids()[e.delay_tokens - 1] + 1 for e in events
    ]


@pytest.mark.parametrize("policy", [None, WaitK(1), WaitK(2), HoldN(1)])
def test_a_word_is_read_whole_before_anything_is_written(generator, policy):
    text = "Hausboote verkaufen kleine Katzen nicht."
    sizes = [len(piece.tokens) for piece in source_text(generator).push_text(f"{text} ")[:-1]]
    ends = set(itertools.accumulate(sizes))
    assert len(ends) < sum(sizes), "some word has several tokens"
    events = TextSession(generator, policy=policy, pieces=True).stream(text.split())
    written = {event.delay_tokens for event in events if event.action == "PIECE"}
    assert written
    assert written <= ends
    output = whole(generator, text, policy=policy)
    reads = [isinstance(action, Read) for action in output.actions[0]]
    last = sum(sizes)  # then comes </s>, with the full stop
    assert [count for count, read in zip(itertools.accumulate(reads), reads, strict=True)
            if not read and last - 1 < count <= last] == []  # fmt: skip


def test_a_read_carries_its_word_once_however_many_tokens_it_has(generator):
    reads = [
        event for event in TextSession(generator).stream(SENTENCES[1]) if event.action == "READ"
    ]
    assert [event.text for event in reads] == SENTENCES[1].split()
    assert [event.delay for event in reads] == list(range(1, 9))
    assert reads[0].k == 0
    assert reads[0].probability is None
    assert any(event.probability is not None for event in reads[1:])


def test_words_come_out_before_the_sentence_is_over(generator):
    session = TextSession(generator, policy=WaitK(1))
    seen = []
    for number, word in enumerate(SENTENCES[1].split(), start=1):
        events = list(session.push_word(word))
        assert all(event.delay == number for event in events)
        seen += [event.text for event in events if event.action == "WRITE"]
        assert len(seen) >= (number > 2), f"nothing after {number} words"


def test_every_fragmentation_gives_the_same_events(generator):
    expected = untimed(TextSession(generator).stream(TEXT.split()))
    cut = random.Random(3)
    for _ in range(5):
        session, left, events = TextSession(generator), TEXT, []
        while left:
            size = cut.randint(1, 9)
            events += session.push_text(left[:size] if size % 2 else left[:size].encode())
            left = left[size:]
        assert untimed([*events, *session.flush()]) == expected


def test_a_transcript_that_grows(generator):
    session, events, words = TextSession(generator), [], TEXT.split()
    for count in range(1, len(words) + 1):
        events += session.push_transcript(" ".join(words[:count]))
    assert texts([*events, *session.flush()], "READ") == SENTENCES
    assert [event.text for event in session.push_transcript("Der Hund") if event.k == 0] == ["Der"]
    with pytest.raises(SourceRevised, match="the source changed what it had sent"):
        session.push_transcript("Die Katze")


def test_a_transcript_may_be_revised_where_it_was_not_read(generator):
    session = TextSession(generator)
    sent = ["Das", "Das alte", "Das kleine Haus", "Das kleine Haus am"]
    events = [event for text in sent for event in session.push_transcript(text, stable=2)]
    assert [event.text for event in events if event.action == "READ"] == ["Das", "kleine", "Haus"]


def test_what_one_reader_leaves_undone_the_next_does_first(generator):
    expected = untimed(TextSession(generator).stream(TEXT))
    session, events = TextSession(generator), []
    for word in TEXT.split():
        events += islice(session.push_word(word), 1)
    assert len(events) < len(expected)
    assert untimed([*events, *session.flush()]) == expected


def test_a_closed_session_says_so_and_ends_its_iterators(generator):
    session = TextSession(generator)
    events = session.push_text(TEXT)
    assert next(events).action == "READ"
    session.close()
    assert list(events) == []
    with pytest.raises(ValueError, match="this session is closed; open another"):
        session.push_word("Haus")


def test_a_stream_closes_its_session(generator):
    session = TextSession(generator)
    next(events := session.stream(TEXT))
    events.close()
    with pytest.raises(ValueError, match="closed"):
        session.flush()


def test_a_string_is_text_and_not_its_letters(generator):
    assert untimed(TextSession(generator).stream(TEXT)) == untimed(
        TextSession(generator).stream(TEXT.split())
    )


def test_bytes_are_no_words_but_fragments(generator):
    sent = [f"{word} ".encode() for word in TEXT.split()]
    with pytest.raises(TypeError, match=r"got b'Das '\. .* stream\(\) with fragments=True"):
        list(TextSession(generator).stream(sent))
    events = TextSession(generator).stream(sent, fragments=True)
    assert untimed(events) == untimed(TextSession(generator).stream(TEXT))


def test_silence_ends_a_sentence(generator):
    now = [0.0]
    session = TextSession(generator, sentences=SentenceSplitting(silence=2.0), clock=lambda: now[0])
    list(session.push_word("Haus"))
    now[0] = 1.9
    assert list(session.poll()) == []
    now[0] = 2.5
    events = list(session.poll())
    (written,) = texts(events)
    count = len(events) + 1  # the first was the READ
    assert events[-1] == TextEvent("END", written, None, None, 2.5, 1, 1, sentence=1, event=count)


def test_the_time_a_translation_takes_is_not_silence(generator):
    """A slow machine must not end sentences."""
    now = [0.0]
    session = TextSession(generator, sentences=SentenceSplitting(silence=2.0), clock=lambda: now[0])
    for word in ["Das", "alte", "Haus"]:
        for _ in session.push_word(word):
            now[0] += 1.5
        assert not list(session.poll())
        now[0] += 1.0
    now[0] += 2.0
    assert [event.action for event in session.poll()][-1] == "END"


def test_silence_ends_a_sentence_while_nothing_arrives(generator):
    over, events = threading.Event(), []

    def slow():
        yield "Das"
        assert over.wait(PATIENCE), "the sentence ends before the next word comes, not with it"
        yield "Haus"

    rules = SentenceSplitting(silence=0.2)
    for event in TextSession(generator, sentences=rules, policy=WaitK(1)).stream(slow()):
        events.append(event)
        if event.action == "END":
            over.set()
    assert texts(events, "READ") == ["Das", "Haus"]


def test_silence_ends_a_sentence_in_asynchronous_code(generator):
    events = []

    async def collect():
        over = asyncio.Event()

        async def slow():
            yield "Das"
            await asyncio.wait_for(over.wait(), PATIENCE)
            yield "Haus"

        session = TextSession(generator, sentences=SentenceSplitting(silence=0.2))
        async for event in session.astream(slow()):
            events.append(event)
            if event.action == "END":
                over.set()

    asyncio.run(collect())
    assert texts(events, "READ") == ["Das", "Haus"]


def test_a_source_that_cannot_even_begin_is_told(generator):
    class Unplugged:
        def __iter__(self):
            raise OSError("there is no microphone")

    session = TextSession(generator, sentences=SentenceSplitting(silence=0.1))
    # A stream that hangs ends where its session is closed, and the test with it.
    with ThreadPoolExecutor(1) as pool, closing(session):
        heard = pool.submit(list, session.stream(Unplugged()))
        with pytest.raises(OSError, match="there is no microphone"):
            heard.result(PATIENCE)


def test_what_goes_wrong_in_a_source_is_told_and_its_thread_ends(generator):
    def broken():
        yield "Das"
        raise OSError("the microphone is gone")

    session = TextSession(generator, sentences=SentenceSplitting(silence=5.0))
    with pytest.raises(OSError, match="the microphone is gone"):
        list(session.stream(broken()))
    before = set(threading.enumerate())
    events = TextSession(generator, sentences=SentenceSplitting(silence=5.0)).stream(iter(["Das"]))
    next(events)
    (reader,) = set(threading.enumerate()) - before
    events.close()
    reader.join(PATIENCE)
    assert not reader.is_alive()


def test_pieces_are_words_as_they_grow(generator):
    plain = untimed(TextSession(generator).stream(TEXT))
    grown = untimed(TextSession(generator, pieces=True).stream(TEXT))
    assert [dataclasses.replace(e, event=0) for e in grown if e.action != "PIECE"] == [
        dataclasses.replace(e, event=0) for e in plain
    ]
    assert texts(grown, "PIECE") == texts(grown)
    written = seen = ""
    early = 0
    for event in grown:
        written += str(event) if event.action == "WRITE" else ""
        seen += str(event) if event.action == "PIECE" else ""
        early += event.action == "READ" and len(seen) > len(written)
        assert seen.startswith(written), "a word is finished only when all of it was shown"
    assert early, "some word is seen before the source goes on, and told as finished after it"
    assert any(e.action == "PIECE" and not e.spaced and e.delay > 1 for e in grown)


def test_events_are_numbered_and_an_end_carries_its_sentence(generator):
    events = list(TextSession(generator).stream(TEXT))
    assert [event.event for event in events] == list(range(1, len(events) + 1))
    assert [e.sentence for e in events if e.action == "END"] == [1, 2, 3]
    assert [event.text for event in events if event.action == "END"] == texts(events)
    assert all(a.sentence <= b.sentence for a, b in itertools.pairwise(events))


LOST = r"what it owes is lost: take the events of flush\(\)"


def test_leaving_in_the_middle_of_a_sentence_is_warned_of(generator):
    with pytest.warns(UserWarning, match=LOST), TextSession(generator) as session:
        list(session.push_word("Haus"))
    with pytest.warns(UserWarning, match=LOST), TextSession(generator) as session:
        session.push_word("Haus")


def test_leaving_after_flush_or_close_is_not_warned_of(generator):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with TextSession(generator) as session:
            list(session.push_word("Haus"))
            list(session.flush())
        with TextSession(generator) as session:
            next(session.push_word("Haus"))
            session.close()


def test_a_model_that_wants_to_end_early_must_not_swallow_the_rest():
    eager = babbler()
    for model in eager.models.values():
        model.final_logits_bias[:, eager.tokenizer.eos_token_id] = 100.0
    events = list(TextSession(eager, policy=WaitK(1)).stream(SENTENCES[1]))
    assert texts(events, "READ") == [SENTENCES[1]]
    assert not any(event.action == "WRITE" for event in events), "nothing is invented"
    stopped = untimed(TextSession(eager, policy=WaitK(1), early_stop=True).stream(TEXT))
    assert texts(stopped, "READ") == ["Das", "Wir", "Und"], "each sentence is over after one word"
    assert texts(stopped) == ["", "", ""]


def test_a_word_with_more_tokens_than_the_models_have_places_is_translated_in_parts(generator):
    rules = SentenceSplitting(max_word=10_000)
    events = list(
        TextSession(generator, sentences=rules, policy=WaitK(1)).stream(["x" * 200, "Haus"])
    )
    assert texts(events, "READ")[-1].endswith("Haus")
    assert max(event.delay_tokens for event in events) == generator.position_limit - 1
    assert [event.action for event in events].count("END") > 3


@pytest.mark.parametrize("source", [[], "", " \n", ["\x00"]])
def test_nothing_gives_nothing(generator, source):
    assert list(TextSession(generator).stream(source)) == []


@pytest.mark.parametrize(
    "text", ["...", "?!", "\ufffd", "x" * 10_000, b"\xff\xfe Haus".decode(errors="replace")]
)
def test_odd_text_is_translated_like_any_other(generator, text):
    events = list(TextSession(generator, policy=FullSentence(), max_new_tokens=1).stream(text))
    assert events[-1].action == "END"
    assert "".join(texts(events, "READ")).replace(" ", "") == text.replace(" ", "")


def test_chinese_has_no_spaces(generator):
    events = list(TextSession(generator).stream("今天好。", fragments=True))
    assert texts(events, "READ") == ["今天好。"]


def test_asynchronous_code_gets_the_same(generator):
    expected = untimed(TextSession(generator).stream(TEXT))

    async def arriving():
        for word in TEXT.split():
            await asyncio.sleep(0)
            yield word

    async def collect(source):
        return untimed([event async for event in TextSession(generator).astream(source)])

    async def together():
        return await asyncio.gather(
            *(collect(source) for source in (arriving(), TEXT.split(), TEXT, arriving()))
        )

    assert asyncio.run(together()) == [expected] * 4


def test_sessions_side_by_side_do_not_mix(generator):
    expected = untimed(TextSession(generator).stream(SENTENCES[0]))
    sessions = [TextSession(generator) for _ in range(20)]
    events = [[] for _ in sessions]
    for word in SENTENCES[0].split():
        for session, heard in zip(sessions, events, strict=True):
            heard += session.push_word(word)
    for session, heard in zip(sessions, events, strict=True):
        assert untimed([*heard, *session.flush()]) == expected


def test_twenty_threads_get_what_each_gets_alone(generator):
    """One generator, which all of them ask at the same time; policies and texts differ."""
    policies = [None, WaitK(1), WaitK(3), FullSentence()]
    jobs = [(policies[place % 4], SENTENCES[place % 3]) for place in range(20)]
    alone = [
        untimed(TextSession(generator, policy=policy).stream(text.split())) for policy, text in jobs
    ]
    together = threading.Barrier(len(jobs))

    def heard(policy, text):
        session, events = TextSession(generator, policy=policy), []
        together.wait(60)
        for word in text.split():
            events += session.push_word(word)
        return untimed([*events, *session.flush()])

    with ThreadPoolExecutor(len(jobs)) as pool:
        assert list(pool.map(heard, *zip(*jobs, strict=True))) == alone


def held(session, *shared):
    """Everything a session keeps alive, in bytes: all that is reachable from it, less what it
    shares with others."""
    seen, queue, size = {id(thing) for thing in shared}, [session], 0
    while queue:
        thing = queue.pop()
        if id(thing) in seen or isinstance(thing, (type, ModuleType, FunctionType, CodeType, int)):
            continue  # a number takes the same room whatever it has counted
        seen.add(id(thing))
        size += sys.getsizeof(thing) + (thing.nbytes if isinstance(thing, torch.Tensor) else 0)
        queue += gc.get_referents(thing)
    return size


def is_flat(generator, session, words):
    """Does a session that is given so many words hold the same after every sentence? Two sentences
    take turns."""
    shared, found = [generator, *generator.models.values(), generator.tokenizer], []
    for word in islice(cycle(TEXT.split()), words):
        if any(event.action == "END" for event in list(session.push_word(word))):
            found.append(held(session, *shared))
    return len(set(found[10:])) <= 2


BRIEF = {
    "policy": FullSentence(),
    "max_new_tokens": 2,
}  # few predictions: it is the words that are many


def test_a_stream_of_thousands_of_words_holds_no_more_than_one_of_a_few(generator):
    assert is_flat(generator, TextSession(generator, **BRIEF), 3000)


def test_a_session_that_remembers_would_be_noticed(generator):
    class Diary(TextSession):
        def push_word(self, word):
            self._source.diary = [*getattr(self._source, "diary", []), word]
            return super().push_word(word)

    assert not is_flat(generator, Diary(generator, **BRIEF), 300)


def test_warming_up_asks_every_member_and_leaves_nothing_behind():
    generator = babbler()
    expected = untimed(TextSession(babbler()).stream(TEXT.split()))
    opened, session = [], generator.session
    generator.session = lambda **options: opened.append(session(**options)) or opened[-1]
    warm_up(generator)
    assert all(model in packing._made for model in generator.models.values())
    assert [(one.closed, one.nbytes) for one in opened] == [(True, 0)]
    generator.session = session
    assert untimed(TextSession(generator).stream(TEXT.split())) == expected


def test_warming_up_refuses_nothing():
    generator = babbler()
    generator.tokenizer.eos_token, kept = None, generator.tokenizer.eos_token
    try:
        warm_up(generator)
    finally:
        generator.tokenizer.eos_token = kept
    generator.tokenizer = None
    warm_up(generator)


def test_an_event_becomes_json(generator):
    for event in TextSession(generator).stream(SENTENCES[0]):
        assert TextEvent.from_dict(json.loads(json.dumps(event.to_dict()))) == event


def test_a_written_word_knows_its_tokens(generator):
    events = list(TextSession(generator).stream(SENTENCES[0]))
    tokens = [token for event in events for token in event.tokens]
    output = whole(generator, SENTENCES[0])
    special = (generator.tokenizer.eos_token_id, generator.tokenizer.pad_token_id)
    assert tokens == [token for token in output.sequences[0].tolist() if token not in special]
    assert all(event.tokens == () for event in events if event.action != "WRITE")
    grown = list(TextSession(generator, pieces=True).stream(SENTENCES[0]))
    for action in ("PIECE", "WRITE"):
        assert [t for e in grown if e.action == action for t in e.tokens] == tokens


def test_a_generator_without_a_tokenizer_takes_no_text(generator):
    with pytest.raises(
        ValueError,
        match=r"no tokenizer, so it cannot take text. Pass one to AdaptiveWaitKGenerator",
    ):
        TextSession(AdaptiveWaitKGenerator(generator.models))


def test_policies_by_name(generator):
    assert choose_policy(generator) is generator.policy
    assert choose_policy(generator, "adaptive") is generator.policy
    assert choose_policy(generator, k=3) == choose_policy(generator, "wait-k", k=3) == WaitK(3)
    assert choose_policy(generator, "test-time-wait-k", k=3) == TestTimeWaitK(3)
    assert choose_policy(generator, "full") == FullSentence()
    assert choose_policy(generator, "hold-n", n=0, close=True) == HoldN(0, close=True)
    thresholds = choose_policy(generator, rho=(1, 0.4)).thresholds
    assert list(thresholds) == list(generator.thresholds)
    assert (thresholds[1], thresholds[4]) == (1, 0.4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "wait"}, "policy must be one of adaptive, wait-k, .*; got 'wait'"),
        ({"name": "wait-k"}, "wait-k takes k; got none"),
        ({"name": "adaptive", "k": 3}, "adaptive takes rho; got k=3"),
        ({"name": "full", "rho": (1, 0)}, "full takes no options; got rho="),
        ({"rho": (1,)}, "rho is two thresholds"),
    ],
)
def test_policies_that_do_not_fit_are_refused(generator, options, message):
    with pytest.raises(ValueError, match=message):
        choose_policy(generator, **options)
