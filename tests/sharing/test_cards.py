"""Cards: every number comes from a file, what no file says is "not stated", and the hub can read
the metadata."""

import json
import re

import pytest
import yaml
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results
from typer.testing import CliRunner

from hf_simultaneous.cli import app
from hf_simultaneous.sharing.cards import card_of, hand_edited, space_files, write_card
from hf_simultaneous.sharing.facts import UNKNOWN, Stated, read_stated


CONFIG = {
    "wait_k": 3,
    "encoder_attention": "causal",
    "encoder_layers": 2,
    "decoder_layers": 3,
    "d_model": 16,
}
SCORE = {
    "bleu": 21.5,
    "al": 3.125,
    "sentences": 40,
    "bleu_signature": "bleu|tok:13a",
    "al_signature": "AL|len:hyp",
}
TRAINING = {
    "k": 3,
    "steps": 50,
    "best_step": 40,
    "dev_loss": 1.25,
    "seed": 7,
    "init_from": "/home/somebody/runs/multi",
    "parameters": 1234567,
    "seconds": 90.0,
    "data": "A corpus | of ours",
    "cleaning": {"train": "400 of 410 pairs"},
    "scores": {"dev": {"wait-3": SCORE}},
    "config": {
        "data": {
            "source_language": "de",
            "target_language": "en",
            "licence": "CC BY 2.0 FR",
            "attribution": "Us",
        }
    },
}
EVALUATED = {
    "bleu": 25.456,
    "chrf": 50.123,
    "al": 2.34567,
    "laal": float("nan"),
    "sentences": 100,
    "policy": "adaptive, 1:0.8 2:0",
    "signatures": {
        "bleu": "bleu|tok:13a",
        "chrf": "chrF2|v",
        "al": "AL|len:hyp|v",
        "laal": "LAAL|v",
    },
}
SET = {
    "format": 1,
    "members": {"1": {"repo": "me/one"}, "3": {"folder": "."}, "full": {"folder": "full"}},
    "thresholds": {"1": 0.8, "2": 0.0},
    "ensembles": {"1": ["1"], "2": ["3", "full"]},
    "dev_scores": None,
    "latencies": {"low": {"1": 0.25, "2": 0.0}},
    "early_stop": False,
    "history": "forced",
}


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "wait-3"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "training.json").write_text(json.dumps(TRAINING))
    return folder


@pytest.fixture
def whole(checkpoint):
    (checkpoint / "adaptive_config.json").write_text(json.dumps(SET))
    (checkpoint / "full").mkdir()
    (checkpoint / "full" / "config.json").write_text(
        json.dumps({**CONFIG, "encoder_attention": "prefix"})
    )
    (checkpoint / "scores.json").write_text(json.dumps(EVALUATED))
    facts = {
        "title": "Mine",
        "licence": "cc-by-2.0",
        "limits": "Short.",
        "scores": {"Test": "scores.json"},
    }
    (checkpoint / "card.yaml").write_text(yaml.safe_dump(facts))
    return checkpoint


def row(card, name):
    return re.search(rf"^\| {name} \| (.*) \|$", str(card), re.MULTILINE)[1]


def test_a_checkpoint_with_all_its_facts(checkpoint):
    card = card_of(checkpoint)
    assert "# Simultaneous translation, de-en, wait-3" in str(card)
    for name, value in {
        "trained for": "wait-3",
        "encoder": "causal",
        "layers": "2 in the encoder, 3 in the decoder",
        "parameters": "1,234,567",
        "steps": r"50, best at 40 by dev loss (1.2500)",
        "seed": "7",
        "started from": "multi",
        "time": "90 seconds",
        "training data": r"A corpus \| of ours",
        "train set": "400 of 410 pairs",
        "licence of the data": "CC BY 2.0 FR",
        "attribution": "Us",
        "vocabulary": UNKNOWN,
        "licence of the weights": UNKNOWN,
    }.items():
        assert row(card, name) == value, name
    assert "| dev | wait-3 | 21.50 | not stated | 3.125 | not stated | 40 |" in str(card)
    assert "somebody" not in str(card)
    assert card.data.language == ["de", "en"]
    assert "license" not in card.data.to_dict()


def test_nothing_known_is_nothing_said(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    text = str(card_of(tmp_path))
    facts = text.split("## Facts")[1].split("## Results")[0]
    rows = [
        line.split(" | ")[1] for line in facts.splitlines() if " | " in line and "| |" not in line
    ]
    assert {value.removesuffix(" |") for value in rows} == {UNKNOWN, "off"}
    assert "No evaluation is stated." in text
    assert "It is small" not in text
    body = text.split("---", 2)[2].split("## Citation")[0]
    assert re.findall(r"\d+", body) == ["2", "2", "3", "0"], "those of the example"


def test_half_the_facts(checkpoint):
    (checkpoint / "training.json").write_text(
        json.dumps({"k": "full", "steps": 5, "init_from": None})
    )
    card = card_of(checkpoint)
    assert row(card, "trained for") == "full sentences"
    assert row(card, "steps") == "5"
    assert row(card, "started from") == "random weights"
    assert row(card, "parameters") == row(card, "time") == row(card, "seed") == UNKNOWN
    (checkpoint / "training.json").write_text(
        json.dumps({"init_from": "Helsinki-NLP/opus-mt-de-en"})
    )
    assert row(card_of(checkpoint), "started from") == "Helsinki-NLP/opus-mt-de-en"


def test_a_set(whole):
    card, text = card_of(whole), str(card_of(whole))
    assert "# Mine" in text
    assert "| wait-1 | not stated | not stated | not stated | not stated |" in text
    assert (
        "| wait-3 | causal | 1,234,567 | 50 steps from multi | dev, wait-3: BLEU 21.50, AL 3.125 |"
        in text
    )
    assert "| full | prefix | not stated | not stated | not stated |" in text
    assert row(card, "thresholds") == "1: 0.8, 2: 0"
    assert row(card, "operating points") == "low (1: 0.25, 2: 0)"
    assert row(card, "models asked at k") == "k=1: 1; k=2: 3, full"
    assert "| Test | adaptive, 1:0.8 2:0 | 25.46 | 50.12 | 2.346 | nan | 100 |" in text
    assert "- Short." in text
    assert "custom_generate" in card.data.tags
    assert card.data.license == "cc-by-2.0"
    assert "`AL|len:hyp|v`" in text


def test_the_hub_can_read_the_results(whole):
    card = ModelCard(str(card_of(whole)))
    name, found = model_index_to_eval_results(card.data.to_dict()["model-index"])
    assert name == "Mine"
    assert found == card.data.eval_results
    assert [(one.metric_type, one.metric_value) for one in found] == [
        ("bleu", 25.46),
        ("chrf", 50.12),
        ("al", 2.346),
    ]
    assert {one.dataset_name for one in found} == {"Test"}
    assert found[0].metric_args == {"signature": "bleu|tok:13a"}
    assert found[0].metric_name == "BLEU (adaptive, 1:0.8 2:0)"


def test_corpora_stay_apart_in_the_metadata(whole):
    (whole / "more.json").write_text(json.dumps({**EVALUATED, "bleu": 1.0}))
    scores = {"Test": str(whole / "scores.json"), "More": str(whole / "more.json")}
    card = ModelCard(str(card_of(whole, Stated(scores=scores))))
    found = [
        (one.dataset_name, one.metric_value)
        for one in card.data.eval_results
        if one.metric_type == "bleu"
    ]
    assert found == [("Test", 25.46), ("More", 1.0)]


def test_every_placeholder_is_filled(checkpoint, whole):
    texts = [str(card_of(whole)), *(content.decode() for content in space_files("me/set").values())]
    assert not [text for text in texts if re.search(r"[{}]{2}|\{%", text)]
    space = yaml.safe_load(space_files("me/set")["README.md"].decode().split("---")[1])
    assert (space["sdk"], space["app_file"], space["models"]) == ("gradio", "app.py", ["me/set"])


def test_a_card_that_is_there_stays(whole):
    assert not hand_edited(whole)
    path = write_card(whole)
    assert write_card(whole) == path, "what was only made is made again"
    assert not hand_edited(whole)
    path.write_text(path.read_text() + "More.\n")
    assert hand_edited(whole)
    with pytest.raises(FileExistsError, match=r"README.md has edits that would be lost; --force"):
        write_card(whole)
    assert write_card(whole, overwrite=True) == path
    assert not hand_edited(whole)
    (whole / "config.json").write_text("{")
    assert hand_edited(whole), "nobody can tell"


def test_the_command(whole, tmp_path):
    (tmp_path / "facts.yaml").write_text("title: Ours\nscores: {Dev: wait-3/scores.json}\n")
    command = ["card", str(whole), "--facts", str(tmp_path / "facts.yaml")]
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, done.stdout) == (0, f"{whole / 'README.md'}\n")
    text = (whole / "README.md").read_text()
    assert "# Ours" in text
    assert "| Dev | adaptive" in text
    assert CliRunner().invoke(app, command).exit_code == 0, "the same facts, the same card"
    (whole / "README.md").write_text(f"{text}Mine.")
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 2
    assert f"{whole / 'README.md'} has edits that would be lost" in again.stderr
    assert CliRunner().invoke(app, [*command, "--force"]).exit_code == 0
    for name in ("card", "push"):
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "card.yaml is not YAML"),
        ("[1]", r"card.yaml may hold title, .*; got \[1\]"),
        ("license: mit", "may hold title, .*licence.*; got 'license'"),
        ("title: 3", "card.yaml: title must be text; got 3"),
        ("scores: {test: 3}", "card.yaml: scores must be names and files; got {'test': 3}"),
        ("scores: [a]", r"card.yaml: scores must be names and files; got \['a'\]"),
    ],
)
def test_what_people_state_is_checked(tmp_path, text, message):
    (tmp_path / "card.yaml").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_stated(tmp_path / "card.yaml")


def test_what_is_left_empty_is_not_stated(tmp_path):
    (tmp_path / "card.yaml").write_text("title:\nscores:\n")
    assert read_stated(tmp_path / "card.yaml") == Stated()


def test_files_that_are_missing_or_say_something_else(whole, tmp_path):
    with pytest.raises(FileNotFoundError, match="no file .*facts.yaml; it may hold title"):
        read_stated(tmp_path / "facts.yaml")
    with pytest.raises(FileNotFoundError, match="holds neither a set .* nor a checkpoint"):
        card_of(tmp_path)
    with pytest.raises(
        FileNotFoundError, match="no file none.json; hf-simultaneous evaluate writes scores.json"
    ):
        card_of(whole, Stated(scores={"Test": "none.json"}))
    for text, message in (
        ("{", "holds no facts: "),
        ("3", "holds no facts: "),
        ("[]", "bleu, al, sentences"),
    ):
        (whole / "scores.json").write_text(text)
        with pytest.raises(ValueError, match=f"scores.json .*{message}|scores.json {message}"):
            card_of(whole)
