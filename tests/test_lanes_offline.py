"""The policies over full-sentence models in the engine, against predictions made from scratch with
eager attention; and what the lanes do for them."""

import copy
import random
import threading

import pytest
import torch

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.actions import Prediction, Read, State, Write
from hf_simultaneous.lanes import Lanes, Question
from hf_simultaneous.policies import AlignAtt, HoldN, LocalAgreement, PsFuture, WaitIfDiff
from hf_simultaneous.schedule import FULL
from hf_simultaneous.sources import Row
from tests.reference import EOS, random_model, random_source
from tests.tiny import PAD


torch.set_num_threads(1)
ENCODERS = ["causal", "prefix"]
LIMIT = 10  # tokens a translation may have


class Scratch:
    """A model that remembers nothing: a bidirectional one is transformers' own Marian."""

    def __init__(self, model):
        causal = model.config.encoder_attention == "causal"
        self.model = copy.deepcopy(model) if causal else model.to_marian().eval()
        self.model.set_attn_implementation("eager")
        self.options = {"wait_k": "full"} if causal else {}
        self.known = {}

    def predict(self, source, said):
        """The next token's distribution and every layer's attention, averaged over heads."""
        asked = (tuple(source), tuple(said))
        if asked not in self.known:  # the same again would only take time
            self.known[asked] = self._predict(source, said)
        return self.known[asked]

    @torch.inference_mode()
    def _predict(self, source, said):
        outputs = self.model(
            torch.tensor([source]),
            decoder_input_ids=torch.tensor([[PAD, *said]]),
            output_attentions=True,
            **self.options,
        )
        words = len(source) - (source[-1] == EOS)
        rows = [layer[0, :, -1, :words].mean(0) for layer in outputs.cross_attentions]
        return outputs.logits[0, -1].softmax(-1), rows


def translate(policy, source, models):
    """The target, the actions and the probabilities, everything from scratch."""
    state, actions, probabilities = State(), [], []

    def predict(k=None, *, context, models=None, close=False, after=(), attention=None, besides=()):
        said = [*state.target, *after]
        if after and len(said) >= LIMIT:
            return Prediction(EOS, 1.0, ends=True)
        seen = state.source[:context]
        seen = [*seen, EOS] if close and seen[-1] != EOS else seen
        answers = [scratch.predict(seen, said) for scratch in used]
        mean = sum(distribution for distribution, _ in answers) / len(answers)
        token = int(mean.argmax())
        row = None
        if attention is not None:
            row = tuple((sum(rows[attention] for _, rows in answers) / len(answers)).tolist())
        return Prediction(token, float(mean[token]), mean, ends=token == EOS, attention=row)

    used = [models[key] for key in policy.models or (FULL,)]
    while EOS not in state.target and len(state.target) < LIMIT:
        actions.append(policy(state, predict))
        if isinstance(actions[-1], Read):
            state.source.append(source[len(state.source)])
            state.source_ended = len(state.source) == len(source)
        else:
            options = {"context": len(state.source), "close": policy.close}
            probabilities.append(predict(**options).probability)
            state.target.append(actions[-1].token)
    return state.target, actions, probabilities


def random_policy(rng):
    options = {"close": rng.random() < 0.5, "models": rng.choice((None, (2, FULL)))}
    return rng.choice(
        (
            LocalAgreement(rng.randint(1, 3), rng.randint(1, 2), **options),
            HoldN(rng.randint(0, 3), **options),
            AlignAtt(rng.randint(1, 3), rng.randint(-2, 1), **options),
            PsFuture(rng.random() ** 2, **options),
        )
    )


def set_of(rng, encoder, attention="sdpa"):
    models = {
        key: random_model(rng, None, torch.float64, encoder_attention=encoder, decoder_layers=2)
        for key in (2, FULL)
    }
    for model in models.values():
        model.set_attn_implementation(attention)
    return AdaptiveWaitKGenerator(models)


def told(generator, policy, sources):
    """Target, actions and probabilities of each source, decoded in one batch."""
    output = generator.generate(
        sources, policy=policy, max_new_tokens=LIMIT, return_dict_in_generate=True
    )
    targets = [
        [action.token for action in actions if isinstance(action, Write)]
        for actions in output.actions
    ]
    return list(zip(targets, output.actions, output.probabilities, strict=True))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_engine_does_what_is_done_from_scratch(encoder, attention):
    rng = random.Random(f"{encoder} {attention}")
    generator = set_of(rng, encoder, attention)
    scratch = {key: Scratch(model) for key, model in generator.models.items()}
    waited = 0
    for number in range(9 if attention == "sdpa" else 3):
        policy = random_policy(rng)
        sources = [[*random_source(rng)[:-1], EOS] for _ in range(3)]
        expected = [translate(policy, source, scratch) for source in sources]
        results = told(generator, policy, sources)
        if number % 3 == 0:
            results[0] = live(generator, policy, sources[0])
        for (target, actions, probabilities), right in zip(results, expected, strict=True):
            assert (target, actions) == right[:2], policy
            words = [token for token in target if token != EOS]
            assert probabilities == pytest.approx(right[2][: len(words)], abs=1e-9)
            waited += actions[1] == Read() and actions[: len(actions) // 2].count(Read()) > 2
    assert waited > 1, "or nothing was tested"


def live(generator, policy, source):
    """The same for one source that arrives token by token."""
    events = list(generator.stream(source[:-1], policy=policy, max_new_tokens=LIMIT))
    writes = [event for event in events if isinstance(event.action, Write)]
    return (
        [event.token for event in writes],
        [event.action for event in events],
        [event.probability for event in writes if event.token != EOS],
    )


@pytest.mark.parametrize("kind", ["sdpa", "eager"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_attention_is_what_an_eager_model_says(encoder, kind):
    rng = random.Random(2)
    model = random_model(rng, None, torch.float64, encoder_attention=encoder, decoder_layers=2)
    scratch = Scratch(model)
    model.set_attn_implementation(kind)
    rows = [
        Row(State(source=[5, 6, 7, 8], target=[9, 4]), [5, 6, 7, 8]),
        Row(State(source=[8, 9, EOS], source_ended=True), [8, 9, EOS], source_complete=True),
        Row(State(source=[7, 4, 5]), [7, 4, 5]),
    ]
    asked = [
        Question(None, 3, (FULL,), attention=1),
        Question(None, 3, (FULL,), attention=-2),
        Question(None, 2, (FULL,), close=True, after=(6,), attention=0),
    ]
    answers = Lanes({FULL: model}).answer(list(zip(rows, asked, strict=True)))
    expected = [
        scratch.predict([5, 6, 7], [9, 4])[1][1],
        scratch.predict([8, 9, EOS], [])[1][0],
        scratch.predict([7, 4, EOS], [6])[1][0],
    ]
    assert [len(row) for row in answers.attention] == [3, 2, 2]
    for row, right in zip(answers.attention, expected, strict=True):
        assert row == pytest.approx(right.tolist(), abs=1e-12)
    assert not any(layer.encoder_attn._forward_pre_hooks for layer in model.model.decoder.layers)


def test_nobody_gets_the_attention_of_another_thread():
    rng = random.Random(3)
    model = random_model(rng, None, torch.float32, decoder_layers=2)
    sources = [[rng.randrange(4, 20) for _ in range(6)] for _ in range(4)]

    def ask(source):
        row = Row(State(source=source, target=source), source)
        question = Question(None, 6, (FULL,), attention=1)
        return Lanes({FULL: model}).answer([(row, question)]).attention[0]

    alone = [ask(source) for source in sources]
    together = {}

    def often(index):
        together[index] = [ask(sources[index]) for _ in range(20)]

    threads = [threading.Thread(target=often, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, right in enumerate(alone):
        for row in together[index]:
            assert row == pytest.approx(right, abs=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_what_was_imagined_and_comes_true_is_not_run_again(encoder):
    rng = random.Random(4)
    model = random_model(rng, None, torch.float64, encoder_attention=encoder, decoder_layers=2)
    scratch, lanes, ran = Scratch(model), Lanes({FULL: model}), []
    model.model.decoder.layers[0].register_forward_pre_hook(
        lambda _, args: ran.append(args[0].shape[0])
    )
    row = Row(State(source=[5, 6, 7], target=[8]), [5, 6, 7])

    def ask(*after):
        (answer,) = lanes.predict([(row, Question(None, 3, (FULL,), after=after))])
        right, _ = scratch.predict([5, 6, 7], [*row.state.target, *after])
        assert torch.allclose(answer, right, atol=1e-12)

    for after in ((), (9,), (9, 4), (9, 5)):
        ask(*after)
    row.state.target.append(9)
    ask(5)
    ask(5, 6)
    row.state.target.append(7)  # another token than was imagined
    ask()
    assert ran == [2, 1, 1, 1, 1, 1, 1]
    lanes.release(row)
    assert not any(one._lanes._slots or one._source.store._slots for one in lanes._models.values())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Question(None, 2, (FULL,), attention=2), "layer, 0 to 1, or -2 to -1 .*; got 2"),
        (Question(None, 2, (FULL,), attention=-3), "0 to 1, or -2 to -1 from the last; got -3"),
        (Question(1, None, (FULL,), close=True), "need a context, not a k; got k=1, close=True"),
        (Question(1, None, (FULL,), after=(5,)), r"need a context, .*after=\(5,\)"),
        (Question(None, 32, (FULL,), close=True), "model's 32 positions, .*leave out close"),
        (Question(None, 1, (FULL,), after=(5,) * 32), "target has reached the model's 32"),
    ],
)
def test_what_the_lanes_refuse(asked, message):
    model = random_model(random.Random(5), None, torch.float32, decoder_layers=2)
    state = State(source=[5] * 32)
    with pytest.raises(ValueError, match=message):
        Lanes({FULL: model}).predict([(Row(state, state.source), asked)])


def test_a_layer_the_model_does_not_have_is_refused_by_name():
    generator = set_of(random.Random(6), "prefix")
    with pytest.raises(ValueError, match="0 to 1, or -2 to -1 from the last; got 5"):
        generator.generate([[5, 6, 7, EOS]], policy=AlignAtt(1, layer=5))


def test_hold_n_never_looks_beyond_the_room_there_is():
    generator = set_of(random.Random(7), "causal")
    output = generator.generate(
        [[5, 6, 7, 8, EOS]], policy=HoldN(9), max_new_tokens=4, return_dict_in_generate=True
    )
    assert output.actions[0][:5] == [Read()] * 5


def test_logits_processors_see_what_is_imagined():
    """Without a token twice in a row, no hypothesis has one either."""
    generator = set_of(random.Random(8), "causal")
    seen = []

    def note(ids, scores):
        seen.append(ids[0].tolist())
        return scores

    generator.generate([[5, 6, 7, EOS]], policy=HoldN(2), max_new_tokens=5, logits_processor=[note])
    assert any(len(after) - len(before) == 1 for before, after in zip(seen, seen[1:], strict=False))
    assert [seen[0], seen[1][:1], len(seen[2])] == [[PAD], [PAD], 3]


@pytest.mark.parametrize(
    ("policy", "together"),
    [
        (LocalAgreement(3), 3),
        (LocalAgreement(2, 2, close=True), 2),
        (PsFuture(0.5), 2),
        (PsFuture(0.5, close=True), 2),
        (WaitIfDiff(1, 2, models=(FULL,)), 2),
        (AlignAtt(1), 1),
    ],
)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_contexts_that_are_compared_are_predicted_in_one_call(encoder, policy, together):
    generator = set_of(random.Random(8), encoder)
    sizes = []
    answer = Lanes.answer

    def counted(lanes, asked):
        sizes.append(len({question for _, question in asked}))
        return answer(lanes, asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lanes, "answer", counted)
        told(generator, policy, [[5, 6, 7, 8, 9, 10, EOS]])
    assert max(sizes) == together


def test_what_is_named_besides_is_free_and_never_in_the_way():
    generator = set_of(random.Random(9), "prefix")
    asked = []

    def policy(state, predict):
        if len(state.source) < 3 and not state.source_ended:
            return Read()
        read = len(state.source)
        every = tuple((size, close) for size in range(1, read + 1) for close in (False, True))
        first = predict(context=read, models=(FULL,), besides=(*every, *every))
        rest = [predict(context=s, close=end, models=(FULL,)).token for s, end in every]
        asked.append((first.token, rest))
        return Write(first.token)

    told(generator, policy, [[5, 6, 7, 8, EOS], [6, 7, EOS]])
    with pytest.raises(ValueError, match="context must be 1 to 3, .*; got 4"):
        told(generator, lambda state, predict: Read() if len(state.source) < 3 else
             Write(predict(context=3, models=(FULL,), besides=((4, False),)).token),
             [[5, 6, 7, 8, EOS]])  # fmt: skip
