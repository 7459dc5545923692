"""Languages by name, what their tokens count for, and the families' own tokenizers, streamed."""

import json
import random

import pytest
import torch
from transformers import MarianTokenizer, pipeline

from hf_simultaneous import AdaptiveWaitKGenerator, TextSession
from hf_simultaneous.framing import Framing, framing_for
from hf_simultaneous.languages import close_to, named_in_source, spoken_by_decoder
from hf_simultaneous.policies import FullSentence, LocalAgreement, WaitK
from hf_simultaneous.text import SourceText
from tests.stock_tokenizers import TOKENIZERS, model_for
from tests.test_text import marian_tokenizer


torch.set_num_threads(1)

LANGUAGES = {
    "nllb": ("deu_Latn", "eng_Latn"),
    "m2m100": ("de", "en"),
    "mbart50": ("de_DE", "en_XX"),
    "mbart": ("de_DE", "ro_RO"),
    "bart": (None, None),
    "t5": (None, None),
    "madlad": ("de", "en"),
}
FRAMES = {
    "nllb": (["</s>", "eng_Latn"], ["deu_Latn"], []),
    "m2m100": (["</s>", "__en__"], ["__de__"], []),
    "mbart50": (["</s>", "en_XX"], ["de_DE"], []),
    "mbart": (["ro_RO"], [], ["de_DE"]),
    "bart": (["</s>"], ["<s>"], []),
    "t5": (["<pad>"], [], []),
    "madlad": (["<pad>"], ["<2en>"], []),
}
TEXTS = [
    "Das Haus ist verkauft worden. der Hund und die Katze laufen",
    "Hausboot  läuft\tdurch the house! Wirklich",
    "今天中国人民银行宣布。人民在家",
    "z. B. an Herrn Müller, am 3. Mai   ",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tokenizers")


@pytest.fixture(params=TOKENIZERS)
def name(request):
    return request.param


@pytest.fixture
def tokenizer(name, folder):
    return TOKENIZERS[name][0](folder)


@pytest.fixture
def model(name, tokenizer):
    return model_for(tokenizer, TOKENIZERS[name][1])


@pytest.fixture
def generator(name, tokenizer, model):
    source, target = LANGUAGES[name]
    return AdaptiveWaitKGenerator(model, tokenizer, source_language=source, target_language=target)


def test_frames_are_those_of_the_family(name, generator):
    framing, names = generator.framing, generator.tokenizer.convert_ids_to_tokens
    parts = (framing.prompt, framing.before, framing.after)
    assert tuple(names(list(part)) for part in parts) == FRAMES[name]


def test_whole_sentences_are_what_generate_writes(name, generator, model):
    """As their documentation has it: a source language for the tokenizer, a target language for the
    decoder."""
    tokenizer = generator.tokenizer
    inputs = tokenizer(["Das Haus ist verkauft", "der Hund"], return_tensors="pt", padding=True)
    text = "<2en> der Hund" if name == "madlad" else "der Hund"
    single = tokenizer(text, return_tensors="pt").input_ids
    settings = {"max_new_tokens": 8, "suppress_tokens": [tokenizer.pad_token_id]}
    theirs = {}
    if len(generator.framing.prompt) == 2:
        theirs["forced_bos_token_id"] = generator.framing.prompt[1]
    if name == "mbart":
        theirs["decoder_start_token_id"] = generator.framing.prompt[0]
    expected = model.generate(single, **settings, **theirs)
    found = generator.generate(single, policy=FullSentence(), **settings)
    assert found.tolist() == expected.tolist()
    if name != "madlad":
        both = generator.generate(**inputs, policy=FullSentence(), **settings)
        for row, ids in zip(both.tolist(), inputs.input_ids, strict=True):
            real = ids[ids != tokenizer.pad_token_id][None]
            alone = model.generate(real, **settings, **theirs)[0].tolist()
            assert row[: len(alone)] == alone


def test_frames_count_in_no_delay(generator):
    tokenizer = generator.tokenizer
    text = "der Hund und die Katze"
    words = len(tokenizer(text, add_special_tokens=False).input_ids)
    ids = tokenizer(text).input_ids
    never = {"suppress_tokens": [tokenizer.eos_token_id, tokenizer.pad_token_id]}
    for k in (1, 3):
        output = generator.generate(
            [ids], policy=WaitK(k), return_dict_in_generate=True, max_new_tokens=6, **never
        )
        expected = [min(k + step, words) for step in range(len(output.delays[0]))]
        assert output.delays[0] == expected
    whole = generator.generate(
        [ids], policy=FullSentence(), return_dict_in_generate=True, max_new_tokens=4, **never
    )
    assert set(whole.delays[0]) == {words}


def events(generator, fragments, policy):
    session = TextSession(generator, policy=policy, max_new_tokens=8)
    return [
        (event.action, event.text, event.delay_tokens)
        for event in session.stream(fragments, fragments=True)
    ]


@pytest.mark.parametrize("text", TEXTS)
def test_any_cutting_gives_the_same_events(generator, text):
    rng = random.Random(text)
    policy = rng.choice((WaitK(2), LocalAgreement()))
    whole = events(generator, [text], policy)
    assert {"READ", "WRITE"} <= {action for action, *_ in whole}
    assert events(generator, list(text), policy) == whole
    for _ in range(2):
        cuts = sorted(rng.sample(range(1, len(text)), 5))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert events(generator, pieces, policy) == whole


@pytest.mark.parametrize("text", TEXTS)
def test_streamed_tokens_are_those_of_each_sentence(tokenizer, text):
    source = SourceText(tokenizer)
    pieces = [piece for char in text for piece in source.push_text(char)] + source.flush()
    sentences, said = [[]], [""]
    for piece in pieces:
        sentences[-1] += piece.tokens
        said[-1] += f" {piece.text}" if piece.text else ""
        if piece.ends_sentence:
            sentences.append([])
            said.append("")
    assert not sentences.pop()
    joined = " ".join(text.split())
    for ids in sentences:
        words = tokenizer.decode(ids, skip_special_tokens=True)
        assert words.replace(" ", "") in joined.replace(" ", "")
    if len(sentences) == 1:
        assert sentences[0][:-1] == tokenizer(joined, add_special_tokens=False).input_ids


MANY = [name for name, (_, target) in LANGUAGES.items() if target]


@pytest.mark.parametrize("name", MANY, indirect=True)
def test_wrong_and_missing_languages_are_told_by_name(name, tokenizer, model):
    source, target = LANGUAGES[name]

    def refused(*languages) -> str:
        with pytest.raises(ValueError, match="language") as caught:
            framing_for(model, tokenizer, *languages)
        return str(caught.value)

    missing = refused(None, None)
    assert "target_language" in missing
    near = refused(source, target[:2] + "x")
    assert f"got '{target[:2]}x'" in near
    assert target in near, "close ones are listed"
    assert source in refused(source[:2] + "x", target)
    assert "got 3" in refused(source, 3)


def test_models_without_languages_say_so(folder):
    tokenizer = TOKENIZERS["bart"][0](folder)
    model = model_for(tokenizer, "bart")
    for languages in (("de", "en"), (None, "en"), ("de", None)):
        with pytest.raises(ValueError, match="has no tokens for languages.*Leave it out"):
            framing_for(model, tokenizer, *languages)
    with pytest.raises(ValueError, match="tokens of a tokenizer, and there is none; give one"):
        framing_for(model, None, "de", "en")


def test_a_language_that_the_checkpoint_forces_need_not_be_named(folder):
    tokenizer = TOKENIZERS["nllb"][0](folder)
    model = model_for(tokenizer, "m2m_100")
    english = tokenizer.convert_tokens_to_ids("eng_Latn")
    model.generation_config.forced_bos_token_id = english
    assert framing_for(model, tokenizer).prompt == (tokenizer.eos_token_id, english)


def test_t5_is_asked_in_words(folder):
    tokenizer = TOKENIZERS["t5"][0](folder)
    model = model_for(tokenizer, "t5")
    asks = {"prefix": "das Haus an die Familie "}
    model.config.task_specific_params = {"translation_en_to_de": asks, "summarization": {}}
    framing = framing_for(model, tokenizer, "en", "de")
    assert tokenizer.decode(list(framing.before)) == "das Haus an die Familie"
    whole = tokenizer("das Haus an die Familie Hund").input_ids
    assert [*framing.before, *tokenizer("Hund").input_ids] == whole
    with pytest.raises(ValueError, match="pair of languages .*got 'de-en'.*en-de"):
        framing_for(model, tokenizer, "de", "en")


def test_marian_models_of_many_targets_are_asked_by_a_token(folder):
    assert named_in_source(Vocabulary({">>deu<<": 3, ">>fra<<": 4, "<2x>": 5, "a": 6})) == {
        "deu": 3,
        "fra": 4,
        "x": 5,
    }


class Vocabulary:
    def __init__(self, entries):
        self.get_vocab = lambda: entries


def test_codes_that_begin_alike_come_first():
    codes = ["bem_Latn", "deu_Latn", "dzo_Tibt", "eng_Latn"]
    assert close_to("deu", codes)[0] == "deu_Latn"
    assert close_to("ENG", codes)[0] == "eng_Latn"


def test_special_tokens_that_are_not_languages_are_not_taken_for_some(folder):
    for name in ("bart", "t5"):
        tokenizer = TOKENIZERS[name][0](folder)
        assert not spoken_by_decoder(tokenizer)
        assert not named_in_source(tokenizer)


def test_a_frame_is_taken_off_where_it_is():
    framing = Framing((1,), (7, 8), (9,))
    assert framing.taken_off([7, 8, 5, 2, 9]) == [5, 2]
    assert framing.taken_off([5, 2]) == [5, 2]


@pytest.mark.parametrize("name", ["nllb", "madlad"], indirect=True)
def test_a_pipeline_of_a_saved_checkpoint(name, generator, model, tokenizer, tmp_path):
    source, target = LANGUAGES[name]
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    pipe = pipeline(
        "simultaneous-translation",
        model=str(tmp_path),
        source_language=source,
        target_language=target,
        dtype=torch.float64,
    )
    assert pipe.generator.framing == generator.framing
    text = "der Hund und die Katze laufen"
    written = pipe(text, policy=FullSentence(), max_new_tokens=7)["translation_text"]
    heard = pipe.stream(text.split(), policy=FullSentence(), max_new_tokens=7)
    assert " ".join(event.text for event in heard if event.action == "WRITE") == written
    with pytest.raises(ValueError, match="target_language"):
        pipeline("simultaneous-translation", model=str(tmp_path))


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_a_marian_tokenizer_asks_by_its_token(tmp_path):
    tokenizer = marian_tokenizer(tmp_path)
    model = model_for(tokenizer, "marian")
    generator = AdaptiveWaitKGenerator(model, tokenizer, target_language="de")
    assert tokenizer.convert_ids_to_tokens(list(generator.framing.before)) == [">>de<<"]
    whole = tokenizer(">>de<< der Hund").input_ids
    alone = tokenizer("der Hund").input_ids
    assert whole == generator.framing.put_on(alone)
    settings = {"max_new_tokens": 6, "suppress_tokens": [tokenizer.pad_token_id]}
    found = generator.generate([alone], policy=FullSentence(), **settings)
    assert found.tolist() == model.generate(torch.tensor([whole]), **settings).tolist()


def test_a_pair_of_tokenizers_is_refused(tokenizer, model):
    with pytest.raises(ValueError, match=r"one tokenizer of .* alike; got tuple\. Two .* pair"):
        AdaptiveWaitKGenerator(model, (tokenizer, tokenizer))


def test_one_tokenizer_may_have_two_vocabularies(tmp_path):
    """What is read is split and numbered by one of them, what is written by the other."""
    plain = marian_tokenizer(tmp_path)
    entries = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    turned = {entry: (len(entries) - 1 - at) for entry, at in entries.items()}
    for special in (plain.eos_token, plain.pad_token, plain.unk_token):  # shared, as they must be
        other = next(entry for entry, at in turned.items() if at == entries[special])
        turned[other], turned[special] = turned[special], turned[other]
    (tmp_path / "target.json").write_text(json.dumps(turned), encoding="utf-8")
    pieces = str(tmp_path / "source.spm")
    files = (str(tmp_path / "vocab.json"), str(tmp_path / "target.json"))
    tokenizer = MarianTokenizer(pieces, pieces, *files, separate_vocabs=True)
    assert tokenizer("der Hund").input_ids != tokenizer(text_target="der Hund").input_ids
    model = model_for(
        tokenizer,
        "marian",
        share_encoder_decoder_embeddings=False,
        decoder_vocab_size=len(turned),
    )
    model.config.decoder_start_token_id = tokenizer.pad_token_id
    generator = AdaptiveWaitKGenerator(model, tokenizer)
    settings = {"max_new_tokens": 8, "suppress_tokens": [tokenizer.pad_token_id]}
    session = TextSession(generator, policy=FullSentence(), **settings)
    said = [event.text for event in session.stream(["der", "Hund"]) if event.action == "WRITE"]
    ids = torch.tensor([tokenizer("der Hund").input_ids])
    written = generator.generate(ids, policy=FullSentence(), **settings)[0, 1:].tolist()
    right = [{at: entry for entry, at in turned.items()}[token] for token in written]
    right = [entry for entry in right if entry not in tokenizer.all_special_tokens]
    assert "".join(right).replace("\u2581", " ").split() == " ".join(said).split()
    assert len(right) > 3
