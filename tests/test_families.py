"""Stock models of every family through the engine: what they say when asked alone, token for
token."""

import random
from collections import Counter
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    BartConfig,
    BartModel,
    FSMTConfig,
    FSMTForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
)

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.actions import Read, State
from hf_simultaneous.adapters import BartLike
from hf_simultaneous.families import _FAMILIES, adapter_for, register_family
from hf_simultaneous.framing import Framing
from hf_simultaneous.lanes import Lanes, Question
from hf_simultaneous.policies import FullSentence, WaitK
from hf_simultaneous.schedule import FULL, K
from hf_simultaneous.sources import Row
from tests.reference import RandomSet, Translation, members_of, random_policy, random_source
from tests.stock import EOS, FAMILIES, PAD, VOCABULARY, Stock, stock_model
from tests.test_lanes import batched, check, live


torch.set_num_threads(1)

ATTENTIONS = ("sdpa", "eager")
EXPECTED: dict[tuple[str, int], list[Translation]] = {}
"""What the stock models say, which either attention must: asked once, as it takes most of the
time."""


made_once = cache(stock_model)
"""For either attention the same models: making them takes longer than many a case."""


def random_stock_set(
    rng: random.Random, family: str, attention: str
) -> tuple[RandomSet, dict[K, Any]]:
    """One checkpoint that serves every k, or two; any framing, any catch-up."""
    catchup = rng.choice((None, None, 1, 2))
    keys = rng.choice(([FULL], [FULL], [1, 4], [2, FULL]))
    models = {}
    for key in keys:
        models[key] = made_once(family, rng.randrange(10**6))
        models[key].set_attn_implementation(attention)
        models[key].config.catchup = catchup
    k_max = rng.randint(2, 5)
    thresholds = {k: rng.random() for k in range(1, k_max + 1)}
    ensembles = rng.choice(("single", "all"))
    early_stop = rng.random() < 0.5
    generator = AdaptiveWaitKGenerator(
        models, thresholds=thresholds, ensembles=ensembles, early_stop=early_stop
    )
    start = generator.model.config.decoder_start_token_id
    generator.framing = Framing(
        (start, *rng.choice(((), (22,)))), rng.choice(((), (23,), (5, 23))), rng.choice(((), (22,)))
    )
    return RandomSet(generator, ensembles, early_stop, rng.randint(6, 10)), models


@pytest.mark.slow
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_hundred_random_cases_equal_the_stock_model(family, attention):
    rng, actions, tokens, kinds = random.Random(7), set(), Counter(), Counter()
    for number in range(10):
        one, models = random_stock_set(rng, family, attention)
        generator = one.generator
        members = partial(members_of, one.ensembles, models, k_max=generator.policy.k_max)
        stock = Stock(models, members, generator.framing, generator.catchup)
        # What is forced first counts as new, as in transformers.
        forced = len(generator.framing.prompt) - 1
        scratch = replace(one, max_new_tokens=one.max_new_tokens - forced)
        cases = [(random_policy(rng, one), random_source(rng)) for _ in range(10)]
        sentences = batched(one, cases)
        if (family, number) not in EXPECTED:
            jobs = [scratch.job(*case) for case in cases]
            EXPECTED[family, number] = stock.translate_all(jobs)
        together = zip(cases, sentences, EXPECTED[family, number], strict=True)
        for index, (case, sentence, right) in enumerate(together):
            check(sentence, right, tolerance=1e-10)
            if index == 0 and case[1][-1] == EOS:
                check(live(one, *case), right, tolerance=1e-10)
            actions.add("".join("RW"[not isinstance(one, Read)] for one in right.actions))
            tokens.update(right.target)
            kinds[type(case[0]).__name__] += 1
    assert len(actions) > 30, "equality means something only if the cases differ"
    assert len(tokens) > 12, tokens
    assert len(kinds) == 6


SOURCES = [[5, 9, 4, 11, 20, EOS], [7, EOS], [14, 8, 8, 3, EOS]]
IDS = torch.tensor([[*source, *[PAD] * (6 - len(source))] for source in SOURCES])
MASK = (torch.tensor([[6], [2], [5]]) > torch.arange(6)).long()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_checkpoint_says_what_generate_says(family, dtype, tmp_path):
    stock_model(family, 3).save_pretrained(tmp_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=dtype)
    for settings in (
        {"max_new_tokens": 9},
        {"max_new_tokens": 7, "suppress_tokens": [PAD, EOS]},
        {"max_length": 8, "min_new_tokens": 6, "no_repeat_ngram_size": 1},
        {"max_new_tokens": 6, "forced_eos_token_id": EOS},
    ):
        expected = model.generate(IDS, attention_mask=MASK, num_beams=1, **settings)
        found = AdaptiveWaitKGenerator(model).generate(
            IDS, attention_mask=MASK, policy=FullSentence(), **settings
        )
        assert found.tolist() == expected.tolist(), settings


@pytest.mark.parametrize("family", ["m2m_100", "mbart", "t5"])
def test_a_token_that_is_forced_first_counts_in_no_lag(family):
    model = stock_model(family, 4)
    model.generation_config.forced_bos_token_id = 22
    generator = AdaptiveWaitKGenerator(model)
    start = model.config.decoder_start_token_id
    for policy, most in ((FullSentence(), 6), (WaitK(2), 3)):
        settings = {"max_new_tokens": 4, "suppress_tokens": [EOS, PAD]}
        output = generator.generate(
            SOURCES[:1], policy=policy, return_dict_in_generate=True, **settings
        )
        assert output.sequences[0, :2].tolist() == [start, 22]
        assert len(output.delays[0]) == 3
        assert output.delays[0][0] == min(most, 5) - (most == 3), "the first token's delay is k"
    whole = generator.generate(IDS, MASK, policy=FullSentence(), **settings)
    assert whole.tolist() == model.generate(IDS, attention_mask=MASK, **settings).tolist()
    with pytest.raises(ValueError, match=r"begins with the tokens \[\d+, 22\]; got .*=21"):
        generator.generate(SOURCES, forced_bos_token_id=21)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_attention_is_what_the_stock_model_says(family, attention):
    model = stock_model(family, 5)
    model.set_attn_implementation(attention)
    source, target = [5, 9, 4, EOS], [6, 7]
    framing = Framing((model.config.decoder_start_token_id, 22), (23, 4), (21,))
    row = Row(State(source=source, target=target, source_ended=True), source, True)
    lanes = Lanes({FULL: model}, framing=framing)
    (found,) = lanes.answer([(row, Question(None, 4, (FULL,), attention=-1))]).attention
    model.set_attn_implementation("eager")
    right = model(
        torch.tensor([[23, 4, *source, 21]]),
        decoder_input_ids=torch.tensor([[*framing.prompt, *target]]),
        output_attentions=True,
    ).cross_attentions[-1]
    assert found == pytest.approx(right.mean(1)[0, -1, 2:5].tolist(), abs=1e-12)


@pytest.mark.parametrize("family", ["m2m_100", "bart", "t5"])
def test_a_target_ends_where_positions_do(family):
    model = stock_model(family, 6)
    if family == "t5":
        model.config.n_positions = 40
    generator = AdaptiveWaitKGenerator(model)
    assert generator.position_limit == 40
    generator.framing = Framing((2, 22), (23,), (21,))
    assert generator.position_limit == 38
    source = [*[7] * 37, EOS]
    output = generator.generate([source], suppress_tokens=[EOS, PAD], max_new_tokens=100)
    assert output.shape[1] == 2 + 38


def test_a_family_can_be_added():
    class Other(BartConfig):
        model_type = "other-bart"

    class MirroredBart(BartLike):
        """Says the opposite: adapters are free to differ."""

        def logits(self, hidden):
            return -super().logits(hidden)

    model = stock_model("bart")
    model.config = Other(**{**model.config.to_dict(), "model_type": "other-bart"})
    with pytest.raises(
        ValueError, match=r"no adapter for the family 'other-bart'\. Families .*add"
    ):
        AdaptiveWaitKGenerator(model)
    with pytest.raises(ValueError, match="subclass of Adapter; got 'BartLike'"):
        register_family("other-bart", "BartLike")
    register_family("other-bart", MirroredBart)
    try:
        row = Row(State(source=[5, EOS], source_ended=True), [5, EOS], True)
        (found,) = Lanes({FULL: model}).predict([(row, Question(None, 2, (FULL,)))])
        (plain,) = Lanes({FULL: stock_model("bart")}).predict([(row, Question(None, 2, (FULL,)))])
        assert found.argmax() == plain.argmin()
        assert isinstance(adapter_for(model), MirroredBart)
    finally:
        del _FAMILIES["other-bart"]


def refused(model) -> str:
    with pytest.raises(ValueError, match=".") as caught:
        AdaptiveWaitKGenerator(model)
    return str(caught.value)


def test_what_cannot_be_simultaneous_is_refused_by_name():
    tiny = {"vocab_size": 8, "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 8}
    message = refused(GPT2LMHeadModel(GPT2Config(**tiny)))
    assert "needs an encoder" in message
    assert "'gpt2' models are not so" in message
    assert "m2m_100" in message, "those that work are named"
    sizes = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1}
    sizes |= {"encoder_attention_heads": 1, "decoder_attention_heads": 1}
    config = FSMTConfig(src_vocab_size=8, tgt_vocab_size=8, langs=["de", "en"], **sizes)
    assert "no adapter for the family 'fsmt'" in refused(FSMTForConditionalGeneration(config))
    assert "no head" in refused(BartModel(stock_model("bart").config))
    assert "models of transformers; got str" in refused("facebook/nllb-200-distilled-600M")
    model = stock_model("m2m_100")
    model.config._attn_implementation = "flex_attention"
    assert "one of sdpa, eager, which take any mask; this model has 'flex" in refused(model)
    model = stock_model("m2m_100")
    model.config.decoder_start_token_id = None
    model.generation_config.decoder_start_token_id = None
    assert "no decoder_start_token_id" in refused(model)
    with pytest.raises(ValueError, match="got an empty prompt"):
        Framing(())


def test_beams_are_refused_for_any_family():
    generator = AdaptiveWaitKGenerator(stock_model("m2m_100"))
    with pytest.raises(ValueError, match="simultaneous decoding is greedy"):
        generator.generate(SOURCES, num_beams=4)


def test_the_models_of_a_set_share_a_vocabulary():
    other = stock_model("m2m_100", vocab_size=VOCABULARY + 1)
    with pytest.raises(ValueError, match="vocab_size differs"):
        AdaptiveWaitKGenerator({1: stock_model("m2m_100"), 3: other})
