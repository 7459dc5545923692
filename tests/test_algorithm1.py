"""The paper's Algorithm 1 on models that were trained for it: waiting where it pays, and only
there.

The language: most words are translated as they are; an ambiguous one means one of two things, and
which is told by the word after the next. Wait-1 has to guess and wait-3 is always late; a policy
that knows when it is unsure is neither."""

import copy
import random
from dataclasses import dataclass

import pytest
import torch

from hf_simultaneous import AdaptiveWaitKGenerator, SimultaneousMTModel
from hf_simultaneous.actions import Policy
from hf_simultaneous.metrics import Sentence, corpus_latency
from hf_simultaneous.policies import Adaptive, WaitK
from hf_simultaneous.schedule import FULL
from tests.reference import padded
from tests.tiny import EOS, tiny_config


torch.set_num_threads(1)

PLAIN, AMBIGUOUS = range(3, 11), range(11, 13)
KS = (1, 2, 3)


def pair(rng: random.Random) -> tuple[list[int], list[int]]:
    source = [
        rng.choice(AMBIGUOUS if rng.random() < 0.35 else PLAIN) for _ in range(rng.randint(4, 9))
    ]
    target = [
        13 + 2 * (word - 11) + (later > 6) if word in AMBIGUOUS else word
        for word, later in zip(source, [*source[2:], 0, 0], strict=True)
    ]
    return [*source, EOS], [*target, EOS]


def train(
    model: SimultaneousMTModel, steps: int, rate: float, ks: tuple[int, ...], seed: int
) -> SimultaneousMTModel:
    rng, model = random.Random(seed), copy.deepcopy(model).train()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps, pct_start=0.1
    )
    for _ in range(steps):
        sources, targets = zip(*(pair(rng) for _ in range(64)), strict=True)
        labels = padded(targets)
        loss = model(
            padded(sources),
            attention_mask=padded([[1] * len(source) for source in sources]),
            labels=labels.masked_fill(labels == 0, -100),
            wait_k=torch.tensor([rng.choice(ks) for _ in sources]),
        ).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@pytest.fixture(scope="module")
def models():
    """One model for every k, and one for each k made from it."""
    torch.manual_seed(0)
    config = tiny_config(
        vocab_size=17,
        d_model=32,
        encoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=16,
        init_std=0.1,
        encoder_attention="causal",
        dropout=0.0,
    )
    common = train(SimultaneousMTModel(config), 300, 0.005, KS, seed=0)
    return {FULL: common, **{k: train(common, 60, 0.0017, (k,), seed=k) for k in KS}}


@dataclass(frozen=True)
class Quality:
    """Of 200 sentences: how many words were right, and Average Lagging."""

    accuracy: float
    lagging: float
    lags: tuple[tuple[int, int], ...]
    """Every word and the lag it was written at, while the source was open."""


def measure(generator: AdaptiveWaitKGenerator, policy: Policy | None = None, **options) -> Quality:
    rng = random.Random(99)
    sources, targets = zip(*(pair(rng) for _ in range(200)), strict=True)
    output = generator.generate(
        sources,
        policy=policy,
        max_new_tokens=12,
        early_stop=False,
        return_dict_in_generate=True,
        **options,
    )
    right = total = 0
    lags = []
    for index, (source, target) in enumerate(zip(sources, targets, strict=True)):
        found = output.sequences[index, 1 : len(target) + 1].tolist()
        right += sum(one == other for one, other in zip(found, target, strict=False))
        total += len(target)
        lags += zip(
            source,
            (d - t for t, d in enumerate(output.delays[index]) if d < len(source) - 1),
            strict=False,
        )
    sentences = [
        Sentence(delays, len(source) - 1)
        for delays, source in zip(output.delays, sources, strict=True)
    ]
    return Quality(right / total, corpus_latency(sentences).value, tuple(lags))


def flat(rho: float) -> Adaptive:
    return Adaptive(dict.fromkeys(KS, rho))


@pytest.fixture(scope="module")
def single(models):
    return AdaptiveWaitKGenerator({k: models[k] for k in KS}, thresholds=dict.fromkeys(KS, 0.9))


@pytest.fixture(scope="module")
def fixed(single):
    return {k: measure(single, WaitK(k)) for k in KS}


def test_waiting_pays_in_this_language(fixed):
    assert fixed[3].accuracy > 0.95
    assert fixed[1].accuracy < 0.92
    assert [fixed[k].lagging for k in KS] == [pytest.approx(k, abs=0.05) for k in KS]


def test_higher_thresholds_wait_longer_and_are_right_more_often(single):
    curve = [measure(single, flat(rho)) for rho in (0.0, 0.6, 0.75, 0.9, 1.0)]
    laggings, accuracies = [point.lagging for point in curve], [point.accuracy for point in curve]
    assert laggings == sorted(laggings)
    assert laggings[-1] > laggings[0] + 1.5
    assert all(
        later > earlier - 0.01 for earlier, later in zip(accuracies, accuracies[1:], strict=False)
    )
    assert accuracies[-1] > accuracies[0] + 0.07


def test_the_ends_of_the_curve_are_fixed_policies(single, fixed):
    never, always = measure(single, flat(0.0)), measure(single, flat(1.0))
    assert never.lagging == pytest.approx(fixed[1].lagging, abs=0.05)
    assert always.lagging == pytest.approx(fixed[3].lagging, abs=0.05)
    assert always.accuracy == pytest.approx(fixed[3].accuracy, abs=0.005)


def test_the_adaptive_policy_beats_wait_k_at_equal_latency(single, fixed):
    adaptive = measure(single)
    assert adaptive.lagging < fixed[2].lagging
    assert adaptive.accuracy > fixed[2].accuracy + 0.05
    assert adaptive.accuracy > fixed[3].accuracy - 0.02


def test_it_waits_at_the_words_that_are_ambiguous(single):
    lags = measure(single).lags
    late = {kind: [lag >= 3 for word, lag in lags if word in kind] for kind in (PLAIN, AMBIGUOUS)}
    assert sum(late[AMBIGUOUS]) > 0.9 * len(late[AMBIGUOUS])
    assert sum(late[PLAIN]) < 0.5 * len(late[PLAIN])


@pytest.mark.parametrize("ensembles", ["top-3", "all"])
def test_an_ensemble_is_no_worse_than_guessing(models, fixed, ensembles):
    thresholds = dict.fromkeys(KS, 0.8)
    together = AdaptiveWaitKGenerator(
        {k: models[k] for k in KS}, thresholds=thresholds, ensembles=ensembles
    )
    found = measure(together)
    assert found.lagging < fixed[3].lagging - 0.2
    assert found.accuracy > fixed[2].accuracy + 0.03


@pytest.mark.parametrize("history", ["forced", "path"])
def test_one_model_for_every_k(models, fixed, history):
    alone = AdaptiveWaitKGenerator(models[FULL], thresholds=dict.fromkeys(KS, 0.8))
    found = measure(alone, history=history)
    assert fixed[1].lagging < found.lagging < fixed[3].lagging
    assert found.accuracy > measure(alone, WaitK(1)).accuracy + 0.015
