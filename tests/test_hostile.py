"""Small things that would cost gigabytes, minutes or an answer nobody can use: refused at once, or
harmless. What a set's files may hold is `test_hostile_sets`."""

import math

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hf_simultaneous import Adaptive, AdaptiveWaitKGenerator, SimultaneousConfig, linear_thresholds
from hf_simultaneous.evaluation.corpus import _Corpus
from hf_simultaneous.policies import check_thresholds
from hf_simultaneous.schedule import FULL, MAX_K, check_k
from hf_simultaneous.text import SourceText
from hf_simultaneous.text_session import TextSession
from tests.babble import babbler
from tests.guard import cheaply
from tests.tiny import EOS, tiny_model


BILLION = 10**9


@pytest.mark.parametrize(
    "refused",
    [
        lambda: check_thresholds({1: 0.5, BILLION: 0.1}),
        lambda: Adaptive({1: 0.5, BILLION: 0.1}),
        lambda: linear_thresholds(1.0, 0.0, 1, BILLION),
        lambda: SimultaneousConfig(wait_k=BILLION),
        lambda: check_k(MAX_K + 1),
    ],
)
def test_a_k_has_an_upper_bound(refused):
    with cheaply(), pytest.raises((ValueError, StrictDataclassError), match="1000 or less; got 1"):
        refused()


def test_a_model_has_a_k_within_the_bound():
    model = tiny_model()
    with cheaply(), pytest.raises(ValueError, match="trained with, 1 to 1000, or 'full'"):
        AdaptiveWaitKGenerator({BILLION: model})
    check_k(MAX_K)
    check_k(FULL)


def test_an_entry_of_300000_letters_costs_nothing():
    endless = "▁" + "a" * 300_000
    tokenizer = characters(["</s>", "▁", endless, "中", "a"])
    with cheaply():
        source = SourceText(tokenizer)
        pieces = [*source.push_text("中" * 5), *source.push_text("aaa中 "), *source.flush()]
    assert "".join(piece.text for piece in pieces) == "中中中中中aaa中"


def characters(entries):
    """BPE that merges nothing."""
    backend = Tokenizer(models.BPE({entry: index for index, entry in enumerate(entries)}, []))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_a_number_never_reaches_an_event(value):
    model = tiny_model(encoder_attention="causal")
    with torch.no_grad():
        model.get_input_embeddings().weight[7] = value
    generator = AdaptiveWaitKGenerator({1: model, 2: tiny_model(1)}, ensembles="all")
    told = []
    for beams in (1, 2):
        session = generator.session(tail_beams=beams)
        events = (event for token in (5, 7, 9, EOS) for event in session.push(token))
        with pytest.raises(ValueError, match="probabilities that are not numbers"):
            told.extend(events)
        with pytest.raises(ValueError, match="closed"):
            session.push(5)
    probabilities = [event.probability for event in told if event.probability is not None]
    assert all(map(math.isfinite, probabilities))


def test_a_session_that_failed_says_so_once_and_stays_closed():
    generator = babbler()
    known = generator.model.config.vocab_size
    generator.model.config.vocab_size = 1
    session = TextSession(generator)
    with pytest.raises(ValueError, match="a source token is an id from 0 to 0"):
        list(session.push_text("Das ist gut. "))
    generator.model.config.vocab_size = known
    for again in (session.poll, session.flush, lambda: session.push_word("gut")):
        with pytest.raises(ValueError, match="this session is closed; open another"):
            list(again())


def test_a_special_token_in_a_file_is_text_as_it_is_live():
    generator = babbler()
    text = "Das </s> ist <pad> gut."
    live = SourceText(generator.tokenizer)
    tokens = [token for piece in live.push_text(f"{text} ") for token in piece.tokens]
    special = set(generator.tokenizer.all_special_ids) - {generator.tokenizer.unk_token_id}
    assert not special & set(tokens[:-1])
    assert _Corpus(generator, [text], [["It is good."]]).ids == [tokens]
