"""The searched tail: for one model it is transformers' own beam search from the same prefix."""

import random
from typing import Any

import pytest
import torch

from hf_simultaneous import AdaptiveWaitKGenerator, tail
from hf_simultaneous.actions import Read, Write
from hf_simultaneous.decoding_rules import Tail
from hf_simultaneous.loop import decode
from hf_simultaneous.policies import Adaptive, FullSentence, WaitIfDiff, WaitK
from hf_simultaneous.schedule import FULL
from tests.reference import EOS, PAD, forced, random_model, random_source
from tests.test_lanes import held, positions_of


torch.set_num_threads(1)


def cases(seed: int, count: int) -> list[list[int]]:
    rng = random.Random(seed)
    sources = [random_source(rng) for _ in range(count)]
    return [source if source[-1] == EOS else [*source, EOS] for source in sources]


def written_before(actions: list[Any]) -> list[int]:
    """The tokens that were written before the last READ: what the search is forced through."""
    last = max(index for index, action in enumerate(actions) if isinstance(action, Read))
    return [action.token for action in actions[:last] if isinstance(action, Write)]


def target(row: torch.Tensor) -> list[int]:
    ids = row.tolist()[1:]
    return ids[: ids.index(EOS) + 1] if EOS in ids else [token for token in ids if token != PAD]


@pytest.mark.parametrize("length_penalty", [1.0, 0.0, 2.0])
@pytest.mark.parametrize("beams", [2, 5])
@pytest.mark.parametrize("encoder", ["causal", "prefix"])
def test_one_model_searches_as_transformers_does(encoder, beams, length_penalty, monkeypatch):
    monkeypatch.setattr(tail, "AHEAD", 14)  # random models are certain for a whole sentence
    rng = random.Random(beams)
    different = 0
    for k in (1, 3):
        model = random_model(rng, None, torch.float32, encoder_attention=encoder)
        generator = AdaptiveWaitKGenerator(model)
        sources = cases(k, 6)
        options = {"policy": WaitK(k), "max_new_tokens": 14, "return_dict_in_generate": True}
        greedy = generator.generate(sources, **options)
        found = generator.generate(
            sources, tail_beams=beams, length_penalty=length_penalty, **options
        )
        for index, source in enumerate(sources):
            prefix = written_before(found.actions[index])
            assert prefix == written_before(greedy.actions[index])
            if found.early_stops[index]:
                continue
            expected = model.generate(
                torch.tensor([source]),
                decoder_input_ids=torch.tensor([[PAD, *prefix]]),
                num_beams=beams,
                wait_k=k,
                length_penalty=length_penalty,
                max_length=15,
            )
            assert target(found.sequences[index]) == target(expected[0])
            different += target(found.sequences[index]) != target(greedy.sequences[index])
    assert different, "or nothing was searched"


def test_full_sentences_are_searched_as_transformers_does():
    model = random_model(random.Random(3), None, torch.float32, encoder_attention="prefix")
    source = cases(4, 1)[0]
    found = AdaptiveWaitKGenerator(model).generate(
        [source], policy=FullSentence(), tail_beams=4, max_new_tokens=10
    )
    expected = model.generate(torch.tensor([source]), num_beams=4, wait_k="full", max_new_tokens=10)
    assert target(found[0]) == target(expected[0])


@pytest.fixture(scope="module", params=["causal", "prefix"])
def generator(request) -> AdaptiveWaitKGenerator:
    rng = random.Random(5)
    models = {
        k: random_model(rng, None, torch.float64, encoder_attention=request.param)
        for k in (1, 3, FULL)
    }
    return AdaptiveWaitKGenerator(
        models, thresholds={1: 0.5, 2: 0.4, 3: 0.3}, ensembles="all", early_stop=False
    )


POLICIES = [None, WaitK(1), WaitK(2), FullSentence(), WaitIfDiff(1, 1)]


@pytest.mark.parametrize("tail", [None, FULL, (1, 3), (3, FULL)])
def test_a_batch_finds_what_each_sentence_finds_alone_and_live(generator, tail):
    options = {"tail": tail, "tail_beams": 3, "max_new_tokens": 12}
    for policy in POLICIES:
        sources = cases(6, 5)
        together = generator.generate(
            sources, policy=policy, return_dict_in_generate=True, **options
        )
        for index, source in enumerate(sources):
            with generator.session(policy=policy, **options) as session:
                events = [event for token in source for event in session.push(token)]
            assert [event.action for event in events] == together.actions[index]
            writes = [e for e in events if isinstance(e.action, Write) and e.token != EOS]
            assert [e.probability for e in writes] == pytest.approx(together.probabilities[index])
            late = len(writes) - len(written_before(together.actions[index]))
            if late > 0 and together.actions[index].count(Read()) == len(source):
                assert together.delays[index][-late:] == [len(source) - 1] * late


def exhaustive(generator, source, prefix, members, k, limit):
    """The best continuation there is, all of them tried."""
    best, open_ = (-1e9, []), [(0.0, [])]
    while open_:
        score, tokens = open_.pop()
        done = [*prefix, *tokens]
        if tokens and (tokens[-1] == EOS or len(done) == limit):
            best = max(best, (score / len(tokens), tokens))
            continue
        mean = sum(forced(generator.models[key], source, done, k) for key in members) / len(members)
        open_ += [(score + float(p.log()), [*tokens, t]) for t, p in enumerate(mean)]
    return best[1]


def test_what_cannot_win_is_given_up_and_the_same_is_found(monkeypatch):
    """With the models in the package, whose sentences end."""
    generator = AdaptiveWaitKGenerator.from_pretrained()
    texts = ["Ich habe heute keine Zeit.", "Wir haben den Film gestern im Kino gesehen.", "Danke!"]
    sources = [generator.tokenizer(text).input_ids for text in texts]
    asked = []

    def search(ahead: int) -> list[list[int]]:
        rows: list[int] = []
        monkeypatch.setattr(tail, "AHEAD", ahead)
        look = tail.Search.look
        with monkeypatch.context() as watched:
            watched.setattr(
                tail.Search, "look", lambda self, tops: rows.append(len(tops)) or look(self, tops)
            )
            found = generator.generate(sources, tail_beams=5, early_stop=False)
        asked.append(sum(rows))
        return found.tolist()

    assert search(tail.AHEAD) == search(1000)
    assert asked[0] < 0.7 * asked[1]


def test_an_ensemble_averages_probabilities_in_its_search():
    rng = random.Random(7)
    models = {k: random_model(rng, None, torch.float64) for k in (1, 3)}
    generator = AdaptiveWaitKGenerator(models, thresholds={1: 0.5}, ensembles={1: [1, 3]})
    for source in cases(8, 3):
        source = [*source[:3], EOS]
        output = generator.generate(
            [source],
            policy=WaitK(4),
            tail=(1, 3),
            tail_beams=24,
            max_new_tokens=2,
            return_dict_in_generate=True,
        )
        found = [action.token for action in output.actions[0] if isinstance(action, Write)]
        assert found == exhaustive(generator, source, [], (1, 3), 4, 2)


def test_other_members_may_write_the_tail_greedily(generator):
    source = cases(9, 1)[0]
    output = generator.generate(
        [source], policy=WaitK(2), tail=FULL, max_new_tokens=16, return_dict_in_generate=True
    )
    prefix = written_before(output.actions[0])
    written = [action.token for action in output.actions[0] if isinstance(action, Write)]
    for place in range(len(prefix), len(written)):
        mean = forced(generator.models[FULL], source, written[:place], None)
        assert written[place] == int(mean.argmax())


@pytest.mark.parametrize("encoder", ["causal", "prefix"])
def test_nothing_forced_is_run_again_and_nothing_is_kept(encoder):
    model = random_model(random.Random(10), None, torch.float64, encoder_attention=encoder)
    generator = AdaptiveWaitKGenerator(model, early_stop=False)
    rules = generator.decoding_rules(tail_beams=3, max_new_tokens=12, min_new_tokens=12)
    source = [*range(4, 10), EOS]
    sentence = generator.sentence(rules, WaitK(2), "forced", source=source, source_complete=True)
    lanes = generator.lanes()
    with positions_of(model) as calls:
        for _ in decode([sentence], lanes, rules):
            pass
    before = len(written_before([event.action for event in sentence.events]))
    assert len(sentence.state.target) == 12
    assert calls == [1] * before + [1] + [3] * (12 - before - 1)
    assert not held(lanes)


def test_removing_a_sentence_gives_its_beams_back(generator):
    session = generator.session(policy=WaitK(1), tail_beams=4, max_new_tokens=12)
    for token in [5, 6, 7]:
        list(session.push(token))
    session.push(EOS)
    while session._sentence is None and session._sentences[0].search is None:
        session._loop.add(session._sentences[0])
        session._loop.step()
    session._loop.step()
    session._loop.remove(session._sentences[0])
    assert not held(session._loop.lanes)


def test_a_policy_that_asks_nobody_writes_its_own_tail(generator):
    def policy(state, predict):
        return Write([7, 8, EOS][len(state.target)]) if state.source_ended else Read()

    found = generator.generate([[5, EOS]], policy=policy, tail_beams=3)
    assert found.tolist() == [[PAD, 7, 8, EOS]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tail_beams": 0}, "tail_beams must be an integer of 1 or more; got 0"),
        ({"tail_beams": 2.5}, "tail_beams must be an integer of 1 or more; got 2.5"),
        ({"tail": 7}, r"tail names members of the set, \[1, 3, 'full'\], each once, .*got 7"),
        ({"tail": (1, 1)}, r"each once, .*got \(1, 1\)"),
        ({"tail": ()}, "each once"),
        ({"tail": 2.5}, "each once, .*got 2.5"),
        ({"tail": [[1]]}, r"each once, .*got \[\[1\]\]"),
    ],
)
def test_what_is_refused(generator, options, message):
    with pytest.raises(ValueError, match=message):
        generator.generate([[5, EOS]], **options)
    with pytest.raises(ValueError, match=message):
        AdaptiveWaitKGenerator(generator.models, **options)


def test_a_tail_says_what_it_is():
    assert [
        str(Tail(beams=n, members=m)) for n, m in [(1, None), (5, None), (5, (FULL,)), (1, (1, 3))]
    ] == [
        "tail:greedy",
        "tail:beam5",
        "tail:beam5,full",
        "tail:greedy,1+3",
    ]


def test_a_set_keeps_its_tail(generator, tmp_path):
    searching = AdaptiveWaitKGenerator(
        generator.models, thresholds=generator.thresholds, tail_beams=5, tail=FULL
    )
    searching.save_pretrained(tmp_path / "set")
    loaded = AdaptiveWaitKGenerator.from_pretrained(tmp_path / "set")
    assert (loaded.tail_beams, loaded.tail) == (5, (FULL,))
    assert loaded.with_ensembles("all").tail == (FULL,)
    other = AdaptiveWaitKGenerator.from_pretrained(tmp_path / "set", tail_beams=1, tail=[1, 3])
    assert (other.tail_beams, other.tail) == (1, (1, 3))
    assert Adaptive(loaded.thresholds) == loaded.policy
    assert loaded.decoding_rules().tail == Tail(), "generate is greedy unless asked"
