"""Live translation: what arrives, what leaves and when, and what happens when something breaks."""

import asyncio
import itertools
import random
import re

import pytest
import torch

from hf_simultaneous import AdaptiveWaitKGenerator, linear_thresholds
from hf_simultaneous.actions import Read, Write
from hf_simultaneous.policies import Adaptive, FullSentence, WaitIfDiff, WaitIfWorse, WaitK
from tests.reference import random_model
from tests.tiny import EOS


torch.set_num_threads(1)

SOURCE = [5, 9, 14, 20, 7]


@pytest.fixture(scope="module", params=["causal", "prefix"])
def generator(request):
    rng = random.Random(31)
    models = {
        k: random_model(rng, None, torch.float32, encoder_attention=request.param) for k in (1, 3)
    }
    return AdaptiveWaitKGenerator(models, thresholds=linear_thresholds(0.8, 0.2, 1, 5))


@pytest.fixture(scope="module")
def eager():
    """Ends every sentence at once."""
    model = random_model(random.Random(32), None, torch.float32)
    model.final_logits_bias[0, EOS] += 20
    return AdaptiveWaitKGenerator(model)


def known(generator, source, **options):
    """What comes out when the source is there from the start."""
    output = generator.generate([[*source, EOS]], return_dict_in_generate=True, **options)
    return output.actions[0]


def actions(events):
    return [event.action for event in events]


def sources(count: int, seed: int = 33) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(3, 24) for _ in range(rng.randint(1, 7))] for _ in range(count)]


POLICIES = [
    None,
    WaitK(2),
    FullSentence(),
    WaitIfDiff(2, 1),
    WaitIfWorse(1, 2),
    Adaptive({2: 0.9, 3: 0.1}),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_a_session_writes_what_it_would_had_it_known_the_source(generator, policy):
    session = generator.session(policy=policy, max_new_tokens=8)
    events = [event for token in SOURCE for event in session.push(token)]
    events += session.flush()
    assert actions(events) == known(generator, SOURCE, policy=policy, max_new_tokens=8)
    read = [event.token for event in events if isinstance(event.action, Read)]
    assert read == [*SOURCE, EOS][: len(read)]


def test_events_come_as_soon_as_they_can(generator):
    session = generator.session(policy=WaitK(2), max_new_tokens=5)
    kinds = [
        "".join("RW"[isinstance(action, Write)] for action in actions(session.push(token)))
        for token in SOURCE
    ]
    assert kinds == ["R", "RW", "RW", "RW", "RW"]
    event = list(generator.session(policy=WaitK(1)).push(5))[-1]
    assert (event.action, event.k) == (Write(event.token), 1)
    assert 0 < event.probability < 1


@pytest.mark.parametrize(("early_stop", "kinds"), [(True, "R" + 22 * "W"), (False, None)])
def test_who_writes_too_much_reads_on_and_drops_no_source(generator, early_stop, kinds):
    def chatter(state, predict):
        return Write(5) if state.source else Read()

    source = SOURCE[:3]
    events = list(generator.stream(source, policy=chatter, early_stop=early_stop))
    found = "".join("RW"[isinstance(action, Write)] for action in actions(events))
    assert found == (kinds or "R" + 22 * "W" + 3 * "RWW")
    if not early_stop:
        assert actions(events) == known(generator, source, policy=chatter, early_stop=False)


def test_time_is_counted_for_each_sentence(generator):
    session = generator.session(policy=WaitK(1), max_time=1000.0, max_new_tokens=8)
    (criterion,) = session._rules.stopping
    criterion.initial_timestamp -= 2000.0  # so long ago was the session opened
    events = [event for token in SOURCE for event in session.push(token)]
    events += session.flush()
    assert actions(events) == known(generator, SOURCE, policy=WaitK(1), max_new_tokens=8)


def test_pushing_the_end_token_ends_the_sentence(generator):
    by_flush, by_push = (generator.session(max_new_tokens=8) for _ in range(2))
    flushed = [event for token in SOURCE for event in by_flush.push(token)] + list(by_flush.flush())
    pushed = [event for token in [*SOURCE, EOS] for event in by_push.push(token)]
    assert flushed == pushed
    assert list(by_push.flush()) == [], "there is nothing left to end"


def test_a_token_may_come_out_of_a_tensor(generator):
    session = generator.session(max_new_tokens=8)
    events = [event for token in torch.tensor(SOURCE) for event in session.push(token)] + list(
        session.flush()
    )
    assert actions(events) == known(generator, SOURCE, max_new_tokens=8)
    assert all(type(event.token) is int for event in events)


@pytest.mark.parametrize(
    "token", ["Haus", -1, 24, 2.0, None, torch.tensor(3.5), torch.tensor([3, 4])]
)
def test_a_token_that_is_none_is_refused_and_does_no_harm(generator, token):
    session = generator.session(max_new_tokens=8)
    events = list(session.push(SOURCE[0]))
    message = re.escape(f"a source token is an id from 0 to 23; got {token!r}")
    with pytest.raises(ValueError, match=message):
        session.push(token)
    events += [event for token in SOURCE[1:] for event in session.push(token)] + list(
        session.flush()
    )
    assert actions(events) == known(generator, SOURCE, max_new_tokens=8)


def test_flushing_an_empty_session_does_nothing(generator):
    session = generator.session()
    assert list(session.flush()) == []
    assert list(session.push(EOS))[0].action == Read(), "an empty sentence is one of </s> alone"
    assert list(session.flush()) == []


def test_an_empty_stream_writes_nothing(generator):
    assert list(generator.stream([])) == []
    assert asyncio.run(collect(generator.astream([]))) == []


def test_closing_twice_and_pushing_after(generator):
    session = generator.session()
    list(session.push(5))
    session.close()
    session.close()
    assert session.closed
    assert session.nbytes == 0
    for late in (lambda: session.push(6), session.flush):
        with pytest.raises(
            ValueError, match=r"this session is closed; open another with generator.session\(\)"
        ):
            late()


def test_closing_in_the_middle_of_a_push_ends_it(generator):
    session = generator.session(policy=FullSentence(), eos_token_id=[EOS], max_new_tokens=8)
    for token in SOURCE:
        list(session.push(token))
    events = []
    for event in session.flush():
        events.append(event)
        session.close()
    assert len(events) == 1


def test_leaving_the_block_closes(generator):
    with pytest.raises(KeyError), generator.session() as session:
        raise KeyError
    assert session.closed


def test_what_a_push_leaves_undone_the_next_does_first(generator):
    whole = known(generator, SOURCE, max_new_tokens=8)
    never_looked_at = generator.session(max_new_tokens=8)
    for token in SOURCE:
        never_looked_at.push(token)
    assert actions(never_looked_at.flush()) == whole
    impatient, taken = generator.session(max_new_tokens=8), []
    for token in SOURCE:
        taken += itertools.islice(impatient.push(token), 1)
    assert actions(taken + list(impatient.flush())) == whole


def test_two_pushes_at_once_do_the_work_once(generator):
    session, taken = generator.session(max_new_tokens=8), []
    pending = [session.push(token) for token in SOURCE] + [session.flush()]
    while pending:
        for one in list(pending):
            event = next(one, None)
            taken += [event] if event else []
            if event is None:
                pending.remove(one)
    assert actions(taken) == known(generator, SOURCE, max_new_tokens=8)


def test_sentences_of_one_session_are_what_each_is_alone(generator):
    session = generator.session(max_new_tokens=8)
    for source in sources(8):
        events = [event for token in source for event in session.push(token)] + list(
            session.flush()
        )
        assert actions(events) == known(generator, source, max_new_tokens=8)


def test_several_sentences_pushed_before_anyone_looks(generator):
    session = generator.session(max_new_tokens=8)
    for source in sources(4):
        for token in source:
            session.push(token)
        session.push(EOS)
    expected = [
        action for source in sources(4) for action in known(generator, source, max_new_tokens=8)
    ]
    assert actions(session.flush()) == expected


def test_fifty_interleaved_sessions_are_what_each_is_alone(generator):
    rng, all_sources = random.Random(34), sources(50)
    policies = [POLICIES[index % len(POLICIES)] for index in range(50)]
    sessions = [generator.session(policy=policy, max_new_tokens=6) for policy in policies]
    events: list[list] = [[] for _ in sessions]
    waiting = [
        (index, token) for index, source in enumerate(all_sources) for token in [*source, EOS]
    ]
    order = [index for index, _ in waiting]
    rng.shuffle(order)
    tokens = [iter([*source, EOS]) for source in all_sources]
    for index in order:
        events[index] += sessions[index].push(next(tokens[index]))
    for index, source in enumerate(all_sources):
        assert actions(events[index]) == known(
            generator, source, policy=policies[index], max_new_tokens=6
        )


def test_memory_is_given_back_between_sentences(generator):
    session, used = generator.session(max_new_tokens=8), []
    for _ in range(50):
        for token in SOURCE:
            list(session.push(token))
        list(session.flush())
        used.append(session.nbytes)
    assert used[0] > 0
    assert set(used[1:]) == {used[1]}


def test_an_early_end_is_counted_and_the_rest_of_the_source_ignored(eager):
    session = eager.session(policy=WaitK(1))
    assert actions(session.push(5)) == [Read(), Write(EOS)]
    for token in SOURCE * 20:  # far beyond the positions of the model
        assert list(session.push(token)) == []
    assert list(session.flush()) == []
    assert session.early_stops == 1
    assert actions(session.push(5)) == [Read(), Write(EOS)], "the next sentence is translated again"
    list(session.flush())
    assert session.early_stops == 2


def test_an_early_end_can_be_forbidden(eager):
    session = eager.session(policy=WaitK(1), early_stop=False)
    events = [event for token in SOURCE for event in session.push(token)]
    assert EOS not in [event.token for event in events]
    assert list(session.flush())[-1].action == Write(EOS)
    assert session.early_stops == 0


def test_a_source_may_not_outgrow_the_positions(generator):
    session = generator.session(policy=WaitK(9), early_stop=False)
    for index in range(32):
        list(session.push(3 + index % 20))
    with pytest.raises(
        ValueError, match=r"the source sentence has reached 32 tokens, .*End it with flush\(\)"
    ):
        session.push(5)
    assert session.closed


def endless():
    for number in itertools.count():
        yield 3 + number % 20


def test_a_stream_that_never_ends_goes_to_the_position_limit(generator):
    delivered: list = []
    with pytest.raises(ValueError, match="the source sentence has reached 32 tokens"):
        delivered.extend(generator.stream(endless(), policy=WaitK(30), early_stop=False))
    assert sum(isinstance(event.action, Read) for event in delivered) == 32
    assert sum(isinstance(event.action, Write) for event in delivered) == 3


def test_a_stream_yields_before_the_source_ends(generator):
    log = []

    def arriving():
        for token in SOURCE:
            log.append(f"source {token}")
            yield token
        log.append("source is over")

    for event in generator.stream(arriving(), policy=WaitK(1), early_stop=False, max_new_tokens=6):
        if isinstance(event.action, Write):
            log.append("written")
    assert log[:10] == [line for token in SOURCE for line in (f"source {token}", "written")]
    assert log[10] == "source is over"


class Cut(Exception):
    pass


def breaking():
    yield from SOURCE[:3]
    raise Cut("the microphone fell")


async def async_source(items):
    for item in items:
        await asyncio.sleep(0)
        yield item


async def collect(events, into=None):
    into = [] if into is None else into
    async for event in events:
        into.append(event)
    return into


def test_an_iterator_that_raises(generator, monkeypatch):
    opened = []
    session = generator.session

    def watched(**options):
        opened.append(session(**options))
        return opened[-1]

    monkeypatch.setattr(generator, "session", watched)
    complete = list(generator.stream(SOURCE[:3], policy=WaitK(1), early_stop=False))
    delivered: list = []
    with pytest.raises(Cut, match="the microphone fell"):
        delivered.extend(generator.stream(breaking(), policy=WaitK(1), early_stop=False))
    for source in (breaking(), async_source(breaking())):
        with pytest.raises(Cut, match="the microphone fell"):
            asyncio.run(
                collect(generator.astream(source, policy=WaitK(1), early_stop=False), into := [])
            )
        assert into == complete[:6]
    assert delivered == complete[:6]
    assert all(one.closed for one in opened)
    assert len(opened) == 4


def test_an_error_while_translating_closes_the_session(generator):
    def policy(state, predict):
        return Read() if len(state.source) < 3 else 1 / 0

    session = generator.session(policy=policy)
    assert len([event for token in SOURCE[:2] for event in session.push(token)]) == 2
    rest = session.push(SOURCE[2])
    assert next(rest).action == Read()
    with pytest.raises(ZeroDivisionError):
        next(rest)
    assert session.closed
    with pytest.raises(ValueError, match="this session is closed"):
        session.push(5)


@pytest.mark.parametrize("plain", [True, False])
def test_an_async_stream(generator, plain):
    expected = list(generator.stream(SOURCE, max_new_tokens=8))
    source = SOURCE if plain else async_source(SOURCE)
    assert asyncio.run(collect(generator.astream(source, max_new_tokens=8))) == expected


def test_an_async_stream_yields_before_the_source_ends_and_leaves_the_loop_free(generator):
    async def conversation():
        asked, log = asyncio.Queue(), []

        async def arriving():
            for token in SOURCE:
                await asked.get()  # the next token comes only when the answer to the last is there
                yield token

        asked.put_nowait(True)
        async for event in generator.astream(
            arriving(), policy=WaitK(1), early_stop=False, max_new_tokens=6
        ):
            log.append(event)
            if isinstance(event.action, Write):
                asked.put_nowait(True)
        return log

    log = asyncio.run(asyncio.wait_for(conversation(), 60))
    assert actions(log) == known(
        generator, SOURCE, policy=WaitK(1), early_stop=False, max_new_tokens=6
    )


def test_many_async_streams_at_once(generator):
    async def together():
        streams = [
            collect(generator.astream(async_source(source), max_new_tokens=6))
            for source in sources(6)
        ]
        return await asyncio.gather(*streams)

    for events, source in zip(asyncio.run(together()), sources(6), strict=True):
        assert actions(events) == known(generator, source, max_new_tokens=6)


def test_an_abandoned_stream_closes_its_session(generator, monkeypatch):
    opened = []
    session = generator.session
    monkeypatch.setattr(
        generator, "session", lambda **options: opened.append(session(**options)) or opened[-1]
    )
    events = generator.stream(endless(), policy=WaitK(1))
    next(events)
    events.close()

    async def look_once():
        events = generator.astream(endless(), policy=WaitK(1))
        await anext(events)
        await events.aclose()

    asyncio.run(look_once())
    assert [one.closed for one in opened] == [True, True]


def test_the_options_of_a_session_are_those_of_generate(generator):
    with pytest.raises(ValueError, match="unknown arguments: wait_k"):
        generator.session(wait_k=3)
    with pytest.raises(ValueError, match="history must be one of forced, path; got 'rumour'"):
        generator.session(history="rumour")
    with pytest.raises(ValueError, match="simultaneous decoding is greedy"):
        generator.astream([], num_beams=2)
