"""Members whose encoders are equal hold one after loading, and it is run once for all of them; what
is written is what they write with an encoder each."""

import copy

import pytest
import torch

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.adapters import Ours
from hf_simultaneous.lean import LeanOurs
from hf_simultaneous.policies import Adaptive, linear_thresholds
from tests.tiny import TALKATIVE, tiny_model, words


CAUSAL = {"encoder_attention": "causal", **TALKATIVE}
POLICY = Adaptive(linear_thresholds(0.9, 0.1, 1, 4))
SOURCE = [*words(12, seed=3).tolist(), 2]


def members(dtype=torch.float64):
    """Three members with one encoder's weights, and a fourth that has other ones."""
    made = {k: tiny_model(seed=k, dtype=dtype, wait_k=k, **CAUSAL) for k in (1, 2, 3, 4)}
    for k in (2, 3):
        made[k].model.encoder.load_state_dict(made[1].model.encoder.state_dict())
    return made


def live(generator):
    with generator.session(policy=POLICY, max_new_tokens=16) as session:
        events = [event for token in SOURCE for event in session.push(token)]
        held = session.nbytes
    return [(event.token, event.k, event.probability) for event in events], held


@pytest.fixture
def saved(tmp_path):
    AdaptiveWaitKGenerator(members(), ensembles="all").save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("quantize", ["none", "int8"])
def test_equal_encoders_are_found_when_a_set_is_loaded(saved, quantize):
    loaded = AdaptiveWaitKGenerator.from_pretrained(saved, quantize=quantize).models
    assert loaded[1].model.encoder is loaded[2].model.encoder is loaded[3].model.encoder
    assert loaded[4].model.encoder is not loaded[1].model.encoder
    assert loaded[1].model.decoder is not loaded[2].model.decoder


def test_equal_weights_used_otherwise_are_not_equal_encoders(tmp_path):
    made = {k: tiny_model(wait_k=k, **CAUSAL) for k in (1, 2)}
    made[2].config.encoder_attention_heads = 1
    AdaptiveWaitKGenerator(made).save_pretrained(tmp_path)
    loaded = AdaptiveWaitKGenerator.from_pretrained(tmp_path).models
    assert loaded[1].model.encoder is not loaded[2].model.encoder


def test_what_is_written_does_not_change_and_less_is_held(saved):
    apart = AdaptiveWaitKGenerator(members(), ensembles="all")
    together = AdaptiveWaitKGenerator.from_pretrained(saved, dtype=torch.float64)
    events, held = live(together)
    wanted, more = live(apart)
    assert [event[:2] for event in events] == [event[:2] for event in wanted]
    for event, other in zip(events, wanted, strict=True):
        assert event[2] == pytest.approx(other[2], abs=1e-9)
    assert held < more
    batch = [SOURCE, SOURCE[3:], SOURCE[6:]]
    options = {"policy": POLICY, "max_new_tokens": 16}
    assert together.generate(batch, **options).tolist() == apart.generate(batch, **options).tolist()


def test_a_token_is_encoded_once_for_all_that_share(saved, monkeypatch):
    run = []
    for kind in (Ours, LeanOurs):
        own = kind.extend

        def extend(self, tokens, *others, own=own):
            run.extend(tokens[:, 0].tolist())
            return own(self, tokens, *others)

        monkeypatch.setattr(kind, "extend", extend)
    live(AdaptiveWaitKGenerator.from_pretrained(saved, dtype=torch.float64))
    encoded = len(run)
    run.clear()
    live(AdaptiveWaitKGenerator(copy.deepcopy(members()), ensembles="all"))
    assert 0 < 2 * encoded == len(run)


def test_members_that_share_are_saved_whole(tmp_path):
    made = {k: tiny_model(wait_k=k, encoder_attention="causal") for k in (1, 2)}  # tied embeddings
    with torch.no_grad():
        made[2].model.decoder.layers[0].fc1.weight.mul_(2)
    AdaptiveWaitKGenerator(made).save_pretrained(tmp_path / "first")
    loaded = AdaptiveWaitKGenerator.from_pretrained(tmp_path / "first")
    assert loaded.models[1].model.encoder is loaded.models[2].model.encoder
    loaded.save_pretrained(tmp_path / "second")
    again = AdaptiveWaitKGenerator.from_pretrained(tmp_path / "second").models
    for k, model in made.items():
        saved = again[k].state_dict()
        for name, weight in model.state_dict().items():
            assert torch.equal(saved[name], weight), (k, name)
