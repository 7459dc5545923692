"""Evaluation on tiny random models: what is logged, what is scored from the log, and every
refusal."""

import json
from dataclasses import replace

import pytest
import torch
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from hf_simultaneous import (
    Adaptive,
    AdaptiveWaitKGenerator,
    AlignAtt,
    FullSentence,
    HoldN,
    LocalAgreement,
    PsFuture,
    TestTimeWaitK,
    WaitIfDiff,
    WaitIfWorse,
    WaitK,
    linear_thresholds,
)
from hf_simultaneous.evaluation import (
    Decoding,
    decode_corpus,
    describe,
    evaluate,
    tail_named,
    text_decoding,
)
from hf_simultaneous.evaluation.anticipation import Anticipation, anticipation, read_alignments
from hf_simultaneous.evaluation.corpus import _Corpus
from hf_simultaneous.evaluation.logs import read_log, write_instances, write_log
from hf_simultaneous.evaluation.plots import path_of
from hf_simultaneous.evaluation.scores import Scoring, computation_aware_al, score, scores_from_log
from hf_simultaneous.evaluation.significance import Bootstrap
from hf_simultaneous.schedule import FULL
from hf_simultaneous.text_session import TextSession
from hf_simultaneous.version import __version__
from hf_simultaneous.words import source_words
from tests.babble import SENTENCES, babbler
from tests.corpora import REFERENCE, SOURCE, line
from tests.forked import run_shared
from tests.tiny import TALKATIVE, VOCABULARY, tiny_model


QUIET = Decoding(batch_size=4, timed=2, progress=False)
QUICK = Scoring(bootstrap=Bootstrap(20))


@pytest.fixture(scope="module")
def generator(tokenizer):
    models = {
        k: tiny_model(
            seed=9 if k == FULL else k,
            encoder_attention="causal",
            wait_k=k if k != FULL else None,
            **TALKATIVE,
        )
        for k in (1, 2, FULL)
    }
    models[FULL] = tiny_model(seed=9, **TALKATIVE)
    return AdaptiveWaitKGenerator(models, tokenizer, linear_thresholds(0.9, 0.1, 1, 3))


def test_characters_are_read_one_by_one(generator):
    """Delays, instances and pictures count the characters of a source that has no spaces."""
    vocabulary = {
        name: index
        for index, name in enumerate(["<pad>", "<s>", "</s>", "<unk>", *"一个人在跳舞。"])
    }
    backend = Tokenizer(
        WordLevel(vocabulary | {f"w{n}": n for n in range(len(vocabulary), VOCABULARY)}, "<unk>")
    )
    backend.pre_tokenizer = Split(Regex("."), "isolated")
    backend.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    chinese = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    speaking = AdaptiveWaitKGenerator(
        generator.models, chinese, generator.thresholds, early_stop=False
    )
    (found,) = decode_corpus(speaking, ["一个人在跳舞。"], ["w12 w13"], WaitK(2), QUIET)
    assert found.source_length == len(source_words(found.source)) == 7
    assert found.word_delays is not None
    assert max(found.word_delays) > 1
    assert path_of(found).source == list("一个人在跳舞。")


POLICIES = [WaitK(2), TestTimeWaitK(1), WaitIfDiff(2, 1), WaitIfWorse(1, 2), None, FullSentence()]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_lines_say_what_the_generator_did_and_scores_come_back_from_the_log(
    generator, policy, tmp_path
):
    result = evaluate(
        generator,
        SOURCE,
        REFERENCE,
        policy,
        decoding=QUIET,
        scoring=QUICK,
        log=tmp_path / "log.jsonl",
    )
    assert [one.source for one in result.lines] == SOURCE
    for one in result.lines[::3]:
        ids = generator.tokenizer(one.source).input_ids
        alone = generator.generate(
            [ids], policy=policy, return_dict_in_generate=True, max_new_tokens=2 * len(ids) + 20
        )
        assert one.delays == tuple(alone.delays[0])
        assert one.contexts == tuple(alone.contexts[0])
        assert one.probabilities == pytest.approx(alone.probabilities[0], abs=1e-5)
        assert one.source_length == len(one.source.split())
        assert one.reference_length == len(one.reference.split())
        assert len(one.word_delays) == len(one.hypothesis.split())
        assert all(0 <= delay <= one.source_length for delay in one.word_delays)
    assert read_log(tmp_path / "log.jsonl") == list(result.lines)
    assert scores_from_log(tmp_path / "log.jsonl", QUICK) == result.scores
    assert result.scores.timed == 2
    assert result.scores["time_per_token"] > 0
    assert result.scores["al_ca"] >= 0 or result.scores["al"] < 0
    assert result.encoder == "wait-1 causal, wait-2 causal, full prefix"


def test_words_may_be_read_whole_as_in_live_text():
    """The same translation as that of a session, and one that takes other actions than reading
    token by token."""
    generator = babbler()
    policy, tokenwise = WaitK(1), replace(text_decoding(generator), progress=False, timed=2)
    words = replace(tokenwise, reads="word")
    ended = SENTENCES[:2]
    found = decode_corpus(generator, ended, ended, policy, words)
    for one, sentence in zip(found, ended, strict=True):
        events = TextSession(generator, policy=policy, logits_processor=[]).stream(sentence)
        written = "".join(str(event) for event in events if event.action == "WRITE")
        assert one.hypothesis == written
        assert one.costs is None or len(one.costs) == len(one.actions)
        assert one.decoding.endswith("|reads:word")
    assert all(one.costs for one in found), "live it takes the same actions"
    tokens = decode_corpus(generator, ended, ended, policy, tokenwise)
    assert [one.actions for one in tokens] != [one.actions for one in found]
    assert all("reads" not in one.decoding for one in tokens)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Das Haus am 3. Mai ist alt. Wir haben das Boot!", True),  # a line of two sentences
        ("Und die Katze läuft", False),
        ("Das " + "verkauft" * 13 + " ist alt.", True),
        ("Wir haben das kleine Boot, und die Katze läuft, " * 4 + "heute nicht", False),
    ],
    ids=["two sentences", "no full stop", "a word above all bounds", "long"],
)
def test_words_of_any_line_are_found_again(text, ends):
    generator = babbler()
    corpus = _Corpus(generator, [text], [[text]])
    [ids] = corpus.ids
    places = corpus.undecided(0, Decoding(reads="word"))
    starts = [
        place
        for place, entry in enumerate(generator.tokenizer.convert_ids_to_tokens(ids[:-1]))
        if entry.startswith("▁")
    ]
    decided = {*range(1, len(ids))} - {*places}
    assert decided == {*starts[1:]} | ({len(ids) - 1} if not ends else set())


def test_every_score_has_its_signature(generator):
    scores = evaluate(generator, SOURCE, REFERENCE, WaitK(1), decoding=QUIET, scoring=QUICK).scores
    assert set(scores.signatures) == set(scores.values)
    assert {
        "bleu",
        "chrf",
        "al",
        "al_ref",
        "laal",
        "ap",
        "dal",
        "cw",
        "al_words",
        "length_ratio",
    } <= set(scores.values)
    assert scores.signatures["al"].startswith("AL|len:hyp|unit:token|eos:no|delays:read")
    assert "nrefs:1" in scores.signatures["bleu"]
    assert "seconds-per-token:0.6" in scores.signatures["al_ca"]
    low, high = scores.intervals["al"]
    assert low <= scores["al"] <= high
    flat = scores.as_dict()
    assert json.loads(json.dumps(flat)) == flat
    assert flat["sentences"] == 11
    assert str(scores).startswith("BLEU ")
    with pytest.raises(KeyError, match="no score 'bleurt'; there are bleu"):
        scores["bleurt"]


def test_several_references_are_scored_together(generator):
    one = evaluate(generator, SOURCE, REFERENCE, WaitK(1), decoding=QUIET, scoring=QUICK)
    streams = [REFERENCE, [each.hypothesis for each in one.lines]]
    two = evaluate(generator, SOURCE, streams, WaitK(1), decoding=QUIET, scoring=QUICK)
    assert two.scores["bleu"] > 99
    assert "nrefs:2" in two.scores.signatures["bleu"]
    assert two.scores["laal"] == one.scores["laal"]  # latency counts with the first


def test_the_two_counts_of_wait_if_policies(generator):
    lines = decode_corpus(generator, SOURCE, REFERENCE, WaitIfDiff(1, 2), QUIET)
    read, context = (
        score(lines, Scoring(count=count, bootstrap=None)) for count in ("read", "context")
    )
    assert context["al"] < read["al"]
    assert "delays:context" in context.signatures["al"]
    assert read.intervals == {}


def test_full_sentences_with_beams_equal_the_model_s_own_search(generator):
    lines = decode_corpus(generator, SOURCE, REFERENCE, FullSentence(), replace(QUIET, beams=3))
    model = generator.models[FULL]
    for one in lines[::4]:
        ids = torch.tensor([generator.tokenizer(one.source).input_ids])
        found = model.generate(
            ids, num_beams=3, wait_k="full", max_new_tokens=len(one.actions) - ids.shape[1]
        )
        assert one.hypothesis == generator.tokenizer.decode(found[0], skip_special_tokens=True)
        assert set(one.delays) <= {one.source_length}
    greedy, one_beam = (
        decode_corpus(generator, SOURCE, REFERENCE, FullSentence(), replace(QUIET, timed=0))
        for _ in range(2)
    )
    assert greedy == one_beam
    assert score(lines, QUICK)["al"] == score(greedy, QUICK)["al"]


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("tail", [{"tail_beams": 3}, {"tail": FULL}, {"tail_beams": 2, "tail": 1}])
def test_tails_are_written_as_the_generator_writes_them(generator, tail, early_stop):
    result = evaluate(
        generator,
        SOURCE,
        REFERENCE,
        WaitK(2),
        decoding=replace(QUIET, **tail),
        scoring=QUICK,
        early_stop=early_stop,
    )
    for one in result.lines[::3]:
        ids = generator.tokenizer(one.source).input_ids
        alone = generator.generate(
            [ids],
            policy=WaitK(2),
            return_dict_in_generate=True,
            max_new_tokens=2 * len(ids) + 20,
            early_stop=early_stop,
            **tail,
        )
        assert one.hypothesis == generator.tokenizer.decode(
            alone.sequences[0], skip_special_tokens=True
        )
        assert one.delays == tuple(alone.delays[0])
    assert result.scores.timed == 2, "decoded live, the same"
    if not early_stop:
        assert result.scores.early_stops == 0


def test_a_result_says_how_sentences_end_and_who_writes_their_tails(generator):
    def signature(**options):
        return Decoding(**options).signature(generator)

    assert signature() == "ends:early|tail:greedy"
    assert signature(early_stop=False, tail_beams=5, tail=FULL) == "ends:read-on|tail:beam5,full"
    assert signature(beams=4) == "ends:early|beam4"
    own = AdaptiveWaitKGenerator(
        generator.models, generator.tokenizer, early_stop=True, tail_beams=3, tail=(1, 2)
    )
    assert text_decoding(own, timed=0) == Decoding(
        timed=0, tail_beams=3, tail=(1, 2), early_stop=False
    )
    assert Decoding().signature(own) == "ends:early|tail:beam3,1+2", "the set's own"
    assert Decoding(tail_beams=1).signature(own) == "ends:early|tail:greedy,1+2"
    assert Decoding(tail=None).signature(own) == "ends:early|tail:beam3"
    assert Decoding(beams=4).signature(own) == "ends:early|beam4", "which has no tail"
    result = evaluate(own, SOURCE[:2], REFERENCE[:2], WaitK(1), decoding=QUIET, early_stop=False)
    assert result.decoding == "ends:read-on|tail:beam3,1+2"
    plain = Decoding(timed=0, progress=False, tail_beams=3, tail=(1, 2), early_stop=False)
    lines = decode_corpus(own, SOURCE[:2], REFERENCE[:2], WaitK(1), plain)
    assert [one.hypothesis for one in lines] == [one.hypothesis for one in result.lines]
    assert {one.decoding for one in result.lines} == {result.decoding}
    assert all(text.endswith(f"|{result.decoding}") for text in result.scores.signatures.values())
    assert score([line()]).signatures["al"].endswith(__version__), "an older log does not say"


def test_tails_by_name(generator):
    assert [tail_named(name, generator) for name in ("k_max", "full", "all", "1, 2")] == [
        None,
        (FULL,),
        (1, 2, FULL),
        (1, 2),
    ]
    with pytest.raises(ValueError, match="a tail is k_max, full, all or members .* got 'best'"):
        tail_named("best", generator)


def test_models_without_a_generator_are_evaluated_with_their_tokenizer(generator, tokenizer):
    model = generator.models[2]
    result = evaluate(
        {2: model}, SOURCE[:3], REFERENCE[:3], WaitK(2), tokenizer=tokenizer, decoding=QUIET
    )
    assert (
        result.lines[0].hypothesis
        == evaluate(generator, SOURCE[:3], REFERENCE[:3], WaitK(2)).lines[0].hypothesis
    )
    assert result.encoder == "causal"
    assert result.policy == "wait-2"


def test_computation_counts_where_it_holds_the_speaker_up():
    # Arrivals at 1, 2, 3 s; the second token is computed for 2 s and so is written after the
    # speaker has finished.
    late = line(costs=(0, 0, 0.5, 0, 2.0, 0, 0))
    assert computation_aware_al(late, 1.0) == pytest.approx((2.5 + 5.0 - 1.5) / 2)
    quick = line(costs=(0,) * 7)
    assert computation_aware_al(quick, 1.0) == pytest.approx(
        score([quick], Scoring(bootstrap=None))["al"]
    )
    silent = line(
        actions="RRRRW",
        delays=(),
        contexts=(),
        lags=(),
        probabilities=(),
        costs=(0,) * 5,
        word_delays=(),
    )
    assert computation_aware_al(silent, 1.0) == 3


def test_policies_in_words():
    assert [describe(policy) for policy in POLICIES if policy] == [
        "wait-2",
        "test-time wait-1",
        "wait-if-diff, start 2, delta 1",
        "wait-if-worse, start 1, delta 2",
        "full sentence",
    ]
    offline = [LocalAgreement(3, 2), HoldN(2, close=True), AlignAtt(2, layer=0), PsFuture(0.25)]
    assert [describe(policy) for policy in offline] == [
        "local agreement of 3, step 2",
        "hold-2, closed",
        "align-att, border 2, layer 0",
        "ps-future, threshold 0.25",
    ]
    assert describe(Adaptive({1: 0.5, 2: 1 / 3})) == "adaptive, 1:0.5 2:0.333"
    assert describe(len) == "len"


BAD = [
    (([], []), {}, "the source must have at least one sentence; got none"),
    ((["w3"], []), {}, "references must be a list"),
    ((["w3"], "w3"), {}, "references must be a list"),
    (([], ["w3"]), {}, "at least one sentence"),
    ((["w3"], ["w3", "w4"]), {}, "got 1 and 2 in reference 1"),
    ((["w3", " "], ["w3", "w4"]), {}, "source sentence 2 is empty"),
    ((["w3", "w4"], ["w3", ""]), {}, "reference sentence 2 is empty"),
    ((["w3", "\x07"], ["w3", "w4"]), {}, r"source sentence 2 has no word in it, only '\\x07'"),
    (
        (["w3", "w4 " * 70], ["w3", "w4"]),
        {},
        "source sentence 2 has 71 tokens, the models read 64 at most",
    ),
    ((["w3"], ["w3"]), {"decoding": Decoding(beams=2)}, "beams=2 is for .*; got wait-1"),
    ((["w3"], ["w3"]), {"decoding": Decoding(tail=7)}, "tail names members of the set"),
]


@pytest.mark.parametrize(("texts", "options", "message"), BAD)
def test_a_corpus_that_does_not_fit_is_refused(generator, texts, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate(generator, *texts, WaitK(1), **options)


def test_a_generator_without_a_tokenizer_is_refused(generator):
    with pytest.raises(ValueError, match="the generator has no tokenizer"):
        evaluate(generator.models, ["w3"], ["w3"], WaitK(1))


@pytest.mark.parametrize(
    "options", [{"batch_size": 0}, {"beams": 0}, {"timed": -1}, {"tail_beams": 0}]
)
def test_decoding_options_are_checked(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be .* or more; got"):
        Decoding(**options)


def test_a_search_over_whole_sentences_reads_all_of_them_either_way(generator):
    found = [Decoding(beams=2, reads=reads) for reads in ("token", "word")]
    assert len({one.signature(generator) for one in found}) == 1


def test_what_arrives_at_once_is_a_token_or_a_word():
    with pytest.raises(ValueError, match="reads must be token or word; got 'letter'"):
        Decoding(reads="letter")


@pytest.mark.parametrize("tail", [{"tail_beams": 2}, {"tail": FULL}])
def test_a_search_over_whole_sentences_has_no_tail(tail):
    with pytest.raises(ValueError, match="beams=3 searches whole sentences, which have no tail"):
        Decoding(beams=3, **tail)


@pytest.mark.parametrize("options", [{"count": "both"}, {"seconds_per_token": 0}])
def test_scoring_options_are_checked(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be .*; got"):
        Scoring(**options)


def test_scoring_needs_sentences_with_as_many_references():
    with pytest.raises(ValueError, match="at least one sentence to score"):
        score([])
    with pytest.raises(ValueError, match=r"same number of references, one or more; got \[1, 2\]"):
        score([line(), line(references=("a", "b"))])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lags": (1,)}, "one value for each written token"),
        ({"delays": (1, 3)}, "do not follow from 'RRWRWRW'"),
        ({"actions": "RRXW"}, "written with R and W; got 'X'"),
        ({"costs": (1.0,)}, "a time for each of the 7 actions; got 1"),
    ],
)
def test_a_line_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        line(**changes)


def test_a_damaged_log_is_named_with_its_line(tmp_path):
    log = tmp_path / "log.jsonl"
    lines = [line(index=index, corpus_size=3) for index in range(3)]
    write_log(log, lines)
    assert read_log(log) == lines
    whole = log.read_text()
    rows = whole.splitlines(keepends=True)
    damages = {
        "line 3 is not JSON": whole[:-30],
        "got 2 lines, the last of sentence 1": "".join(rows[:2]),
        "is empty": "",
        "line 1 lacks .*actions": "{}\n",
        "line 1 lacks .*source": "[]\n",
        "line 1: .*do not follow": whole.replace("[2, 3]", "[1, 3]", 1),
        "line 1: ": rows[0].replace('"delays": [2, 3]', '"delays": 7'),
    }
    for message, text in damages.items():
        log.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_log(log)


def test_a_log_with_the_old_name_of_the_corpus_size_loads(tmp_path):
    log = tmp_path / "log.jsonl"
    write_log(log, [line()])
    log.write_text(log.read_text().replace('"corpus_size"', '"sentences"'))
    assert read_log(log) == [line()]


def test_instances_are_what_simuleval_reads(tmp_path):
    write_instances(tmp_path / "instances.log", [line()])
    (instance,) = map(json.loads, (tmp_path / "instances.log").read_text().splitlines())
    assert instance == {
        "index": 0,
        "prediction": "the house",
        "delays": [3, 3],
        "elapsed": [3, 3],
        "prediction_length": 2,
        "reference": "the old house",
        "source": ["das", "alte", "Haus"],
        "source_length": 3,
    }
    with pytest.raises(ValueError, match="sentence 0 has no delays in words"):
        write_instances(tmp_path / "instances.log", [line(word_delays=None)])


def test_anticipation_counts_words_before_their_source(tmp_path):
    (tmp_path / "gold.wa").write_text("0-0 1-1 2-2\n")
    gold = read_alignments(tmp_path / "gold.wa")
    assert gold == [{0: 0, 1: 1, 2: 2}]
    # "house" matches reference word 2, whose source word is the third: written after 2 words it was
    # guessed.
    assert anticipation([line(word_delays=(2, 2))], gold) == Anticipation(1, 2, 2)
    assert anticipation([line(word_delays=(1, 3))], gold).rate == 0
    assert anticipation([line(hypothesis="a car")], gold).rate is None
    assert (
        "judged:1/2"
        in anticipation([line(word_delays=(2, 2), hypothesis="The car")], gold).signature
    )


def test_a_slip_of_the_hand_in_the_alignments_is_passed_over():
    gold = [{0: 0, 1: 1, 2: 2}] * 9 + [{0: 0, 9: 9}]
    assert anticipation([line(word_delays=(2, 2))] * 10, gold) == Anticipation(9, 19, 20)


def test_alignments_that_do_not_fit_are_refused(tmp_path):
    (tmp_path / "gold.wa").write_text("0-0\n1 2 S\n")
    with pytest.raises(ValueError, match="line 2: an alignment is written as 0-0 2-1.*got '1'"):
        read_alignments(tmp_path / "gold.wa")
    with pytest.raises(ValueError, match="each of the 1 sentences; got 2"):
        anticipation([line()], [{}, {}])
    with pytest.raises(ValueError, match="1 of 1 aligned words are outside their sentences"):
        anticipation([line()], [{0: 7}])
    with pytest.raises(ValueError, match="no delays in words"):
        anticipation([line(word_delays=None)], [{}])


SHARED = """
import os
import sys
from pathlib import Path
import torch
from transformers import AutoTokenizer
from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.evaluation import Decoding, evaluate
from hf_simultaneous.evaluation.scores import Scoring
from hf_simultaneous.schedule import FULL
from tests.corpora import REFERENCE, SOURCE
torch.set_num_threads(1)
generator = AdaptiveWaitKGenerator.from_pretrained(sys.argv[1])
decoding = Decoding(batch_size=2, timed=0, progress=False)
decode, counts = generator.generate, []
generator.generate = lambda ids, **options: counts.append(len(ids)) or decode(ids, **options)
how = {"decoding": decoding, "scoring": Scoring(bootstrap=None)}
evaluate(generator, SOURCE, REFERENCE, **how, log=sys.argv[2])
Path(sys.argv[2] + "." + os.environ["RANK"]).write_text(str(sum(counts)))
"""


@pytest.mark.system
def test_processes_share_a_corpus_and_give_what_one_gives(generator, tmp_path):
    generator.save_pretrained(tmp_path / "set")
    run_shared(SHARED, tmp_path / "set", tmp_path / "log.jsonl")
    shares = [int((tmp_path / f"log.jsonl.{rank}").read_text()) for rank in range(2)]
    assert sorted(shares) == [5, 6]
    alone = decode_corpus(
        generator, SOURCE, REFERENCE, None, Decoding(batch_size=2, timed=0, progress=False)
    )
    together = read_log(tmp_path / "log.jsonl")
    # Each process tries for itself which layout is fastest, and layouts round differently.
    for shared, own in zip(together, alone, strict=True):
        assert shared.probabilities == pytest.approx(own.probabilities, abs=1e-5)
        assert replace(shared, probabilities=own.probabilities) == own
