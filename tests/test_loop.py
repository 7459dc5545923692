"""The loop as such: fair between sentences, and an error ends only the sentence it belongs to."""

import random

import pytest
import torch

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.actions import Policy, Read, Write
from hf_simultaneous.live_sentence import LiveSentence
from hf_simultaneous.loop import PATIENCE, Loop
from hf_simultaneous.policies import Adaptive, WaitK
from tests.reference import EOS, random_model, random_source
from tests.test_lanes import held


torch.set_num_threads(1)


@pytest.fixture(scope="module")
def generator() -> AdaptiveWaitKGenerator:
    rng = random.Random(1)
    models = {k: random_model(rng, None, torch.float64) for k in (1, 2, 3)}
    return AdaptiveWaitKGenerator(models, thresholds={1: 0.5, 2: 0.4, 3: 0.3})


def sentence(
    generator: AdaptiveWaitKGenerator, policy: Policy | None, source: list[int], **options
) -> LiveSentence:
    rules = generator.decoding_rules(**{"max_new_tokens": 12, **options})
    return generator.sentence(rules, policy, "forced", source=source, source_complete=True)


def run(loop: Loop) -> int:
    steps = 0
    while not loop.idle:
        loop.step()
        steps += 1
    return steps


@pytest.mark.parametrize("patience", [1, PATIENCE])
def test_an_ended_sentence_among_endless_readers_finishes(generator, patience):
    """The readers ask wait-1's model for ever; the one whose source has ended asks wait-3's."""

    def endless(state, predict):
        predict(1)
        return Read()

    rules = generator.decoding_rules(max_new_tokens=5)
    loop = Loop(generator.lanes(), rules, patience)
    readers = [generator.sentence(rules, endless, "forced", source=[5]) for _ in range(31)]
    ended = sentence(generator, WaitK(3), [5, 6, EOS], max_new_tokens=5, min_new_tokens=5)
    for one in [*readers, ended]:
        loop.add(one)
    steps = 0
    while not ended.finished:
        loop.step()
        steps += 1
        assert steps < 8 * (patience + 2)
        for one in readers:
            if len(one.row.source) < 30:
                one.row.source.append(5)
                one.known.clear()
            loop.add(one)
    assert len(ended.state.target) == 5


def broken(state, predict):
    if len(state.target) == 2:
        raise RuntimeError("lost the thread")
    return WaitK(1)(state, predict)


def too_far(state, predict):
    """Asks for a lag that the source has not got to, so the lanes refuse."""
    return WaitK(1)(state, predict) if len(state.source) < 3 else Write(predict(9).token)


@pytest.mark.parametrize(
    ("policy", "message"),
    [(broken, "lost the thread"), (too_far, "k must be 1 to 1, the current lag")],
)
def test_an_error_in_one_row_leaves_the_others_as_they_are(generator, policy, message):
    rng = random.Random(2)
    sources = [[*range(4, 10), EOS], *(random_source(rng) for _ in range(6))]
    policies = [WaitK(3), None, Adaptive({1: 0.9, 2: 0.0}), WaitK(2), None, WaitK(1)]

    def decoded(first: Policy) -> list[LiveSentence]:
        loop = Loop(generator.lanes(), generator.decoding_rules(max_new_tokens=12))
        sentences = [
            sentence(generator, one, source)
            for one, source in zip([first, *policies], sources, strict=True)
        ]
        for one in sentences:
            loop.add(one)
        run(loop)
        assert not held(loop.lanes)
        return sentences

    guilty, *others = decoded(policy)
    _, *alone = decoded(WaitK(1))
    with pytest.raises((RuntimeError, ValueError), match=message):
        raise guilty.error
    assert not guilty.finished
    assert all(other.finished and other.error is None for other in others)
    for other, right in zip(others, alone, strict=True):
        assert [event.action for event in other.events] == [event.action for event in right.events]
    with pytest.raises((RuntimeError, ValueError), match=message):
        generator.generate([sources[0]], policy=policy, max_new_tokens=12)


def test_sentences_come_and_go_between_steps(generator):
    rules = generator.decoding_rules(max_new_tokens=6)
    loop = Loop(generator.lanes(), rules)
    gone = generator.sentence(rules, WaitK(1), "forced", source=[5, 6, 7])
    stays = generator.sentence(rules, WaitK(1), "forced", source=[5])
    for one in (gone, stays, stays):
        loop.add(one)
    loop.step()
    loop.remove(gone)
    run(loop)
    assert len(stays.state.source) == 1
    assert loop.idle, "it waits for more source"
    stays.row.source.extend([6, EOS])
    stays.row.source_complete = True
    loop.add(stays)
    run(loop)
    assert stays.finished
    alone = generator.generate([[5, 6, EOS]], policy=WaitK(1), max_new_tokens=6)
    assert [*rules.prompt, *stays.state.target] == alone[0].tolist()
    assert not gone.finished
    assert not held(loop.lanes)
    loop.add(stays)
    assert loop.idle, "what is finished stays finished"
