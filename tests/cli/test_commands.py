"""The command line, in this process: what it prints, its exit codes, and that users see no
traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hf_simultaneous import FULL, AdaptiveWaitKGenerator, WaitK, sets
from hf_simultaneous.cli import app, demo, doctor
from hf_simultaneous.cli.terminal import LiveView, TwoLines, follow, play
from hf_simultaneous.sentences import SentenceSplitting
from hf_simultaneous.text_session import TextSession
from hf_simultaneous.version import __version__
from tests import law
from tests.babble import SENTENCES, TEXT, babbler, save_babbler
from tests.forked import free_port
from tests.tiny import tiny_model


ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_babbler(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def generator():
    return babbler()


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def words(generator, text, **options):
    return [
        event for event in TextSession(generator, **options).stream(text) if event.action == "WRITE"
    ]


def line(generator, text, **options):
    return "".join(map(str, words(generator, text, **options)))


def test_help_is_quick_and_imports_nothing_slow():
    code = """
import sys
from hf_simultaneous.cli import app
app(["--help"], standalone_mode=False)
print(*{name.partition(".")[0] for name in sys.modules})
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, timeout=900, capture_output=True, text=True)
    assert "translate" in done.stdout, done.stderr
    # Imports are all it spends time on; by the clock a busy machine would be judged, not this.
    imported = set(done.stdout.splitlines()[-1].split())
    assert "typer" in imported
    assert not imported & {*law.TENSORS, *law.EXTRAS, "huggingface_hub"}
    for command in ("translate", "info", "doctor", "demo", "app"):
        assert run(command, "--help").exit_code == 0


def test_a_text_comes_out_a_sentence_a_line(folder, generator):
    result = run("translate", "--model", folder, *TEXT.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "".join(line(generator, sentence) + "\n" for sentence in SENTENCES)


def test_a_file_with_a_sentence_a_line(folder, generator, tmp_path):
    (tmp_path / "text").write_text("Das Haus\nDie Katze läuft\n\nein Boot", encoding="utf-8")
    joined = run("translate", "--model", folder, "--file", tmp_path / "text").stdout.splitlines()
    assert joined == [line(generator, "Das Haus Die Katze läuft"), line(generator, "ein Boot")]
    split = run(
        "translate", "--model", folder, "--file", tmp_path / "text", "--lines"
    ).stdout.splitlines()
    assert split == [line(generator, text) for text in ("Das Haus", "Die Katze läuft", "ein Boot")]


def test_the_name_of_a_file_is_not_a_text(folder, tmp_path):
    (tmp_path / "text.de").write_text("Das Haus\n")
    refused = run("translate", "--model", folder, tmp_path / "text.de")
    assert refused.exit_code == 2
    assert "text.de is a file; translate what stands in it with --file" in " ".join(
        refused.stderr.split()
    )


def test_sentences_in_quotes_are_sentences(folder, generator):
    result = run("translate", "--model", folder, "Das Haus", "Die Katze läuft").stdout.splitlines()
    assert result == [line(generator, text) for text in ("Das Haus", "Die Katze läuft")]


def test_pieces_are_for_programs_that_ask_for_them(folder):
    result = run("translate", "--model", folder, SENTENCES[1], "--jsonl", "--pieces")
    events = [json.loads(row) for row in result.stdout.splitlines()]
    assert {event["action"] for event in events} == {"READ", "PIECE", "WRITE", "END"}
    alone = run("translate", "--model", folder, SENTENCES[1], "--pieces")
    assert alone.exit_code == 2
    assert "--pieces adds events to --jsonl" in alone.stderr


def test_json_lines_hold_every_event(folder, generator):
    result = run("translate", "--model", folder, SENTENCES[0], "--jsonl", "--k", 1)
    events = [json.loads(row) for row in result.stdout.splitlines()]
    expected = [
        {**event.to_dict(), "tokens": list(event.tokens)}
        for event in TextSession(generator, policy=WaitK(1)).stream(SENTENCES[0])
    ]
    assert [{**event, "time": 0, "probability": 0} for event in events] == [
        {**event, "tokens": list(event["tokens"]), "time": 0, "probability": 0}
        for event in expected
    ]


def test_the_tail_is_searched_with_the_beams_asked_for(folder, generator):
    result = run("translate", "--model", folder, SENTENCES[0], "--k", 1, "--tail-beams", 4)
    with TextSession(generator, policy=WaitK(1), tail_beams=4) as session:
        events = [event for event in session.stream(SENTENCES[0]) if event.action == "WRITE"]
    assert result.stdout.split() == [event.text for event in events]
    result = run("translate", "--model", folder, SENTENCES[0], "--tail-beams", 0)
    assert result.exit_code == 2
    assert "tail_beams must be an integer of 1 or more; got 0" in result.stderr


def test_show_draws_both_lines(folder, generator):
    result = run("translate", "--model", folder, "--show", SENTENCES[0])
    assert result.exit_code == 0
    above, below, lagging = result.stdout.splitlines()[:3]
    assert above == f"  READ  {SENTENCES[0]}"
    assert below.split() == ["WRITE", *(event.text for event in words(generator, SENTENCES[0]))]
    assert lagging.startswith("  Average Lagging ")
    assert lagging.endswith(" words")


def test_each_word_stands_under_the_moment_it_was_written():
    picture = TwoLines()
    picture.read("Ich")
    picture.write("I", spaced=False)
    picture.read(" habe")
    picture.read(" verkauft")
    picture.write("sold", spaced=True)
    picture.write("it", spaced=True)
    assert picture.lines(80).plain.splitlines() == [
        "  READ  Ich habe verkauft",
        "  WRITE    I             sold it",
    ]
    folded = picture.lines(19).plain.splitlines()
    assert [row[8:].rstrip() for row in folded] == [
        "Ich habe",
        "   I",
        "verkauft",
        "",
        "",
        "sold it",
    ]
    long = TwoLines()
    long.read("Donaudampfschiff")
    assert [row[8:] for row in long.lines(19).plain.splitlines()] == [
        "Donaudampf",
        "",
        "schiff",
        "",
    ]


def test_a_live_view_gives_the_terminal_back(generator):
    console = Console(force_terminal=True, file=open("/dev/null", "w"), width=40)  # noqa: SIM115
    view = LiveView(console)

    def broken():
        yield from TextSession(generator).stream(SENTENCES[0])
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        play(broken(), view)
    assert not view._live.is_started


def test_bytes_cut_anywhere_and_bytes_that_are_no_text(generator):
    data = TEXT.encode() + b" \xff"
    events = list(
        follow(
            TextSession(generator), [data[place : place + 3] for place in range(0, len(data), 3)]
        )
    )
    read = "".join(
        str(event) if event.action == "READ" else "\n" * (event.action == "END") for event in events
    )
    assert read.splitlines() == [*SENTENCES[:2], f"{SENTENCES[2]} \ufffd"]


def test_bytes_that_are_not_utf_8_are_warned_of_once(folder, tmp_path):
    (tmp_path / "text").write_bytes("schön und\ngrün\n".encode("latin-1"))
    given = run("translate", "--model", folder, "--file", tmp_path / "text", "--lines")
    assert given.exit_code == 0
    assert given.stderr.count("warning: ") == 1
    assert "is not UTF-8 (byte 0xf6): such bytes are read as U+FFFD" in given.stderr
    (tmp_path / "text").write_bytes("schön".encode()[:-2])
    cut = run("translate", "--model", folder, "--file", tmp_path / "text").stderr
    assert "(byte 0xc3)" in cut, "the input ends in the middle of a letter"


def test_silence_is_polled_for(generator):
    now = [0.0]
    session = TextSession(generator, sentences=SentenceSplitting(silence=1.0), clock=lambda: now[0])

    def fragments():
        yield b"Haus "
        now[0] = 2.0
        yield b""
        assert seen[-1].action == "END"

    seen = []
    for event in follow(session, fragments()):
        seen.append(event)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--model", "/no/such/folder"], "no folder '/no/such/folder'"),
        (["x", "--model", "{}", "--file", "y"], "give a text or --file, not both; got 'x' and y"),
        (["--file", "/no/such/file", "--model", "{}"], "there is no file /no/such/file"),
        (["x", "--model", "{}", "--show", "--jsonl"], "choose one"),
        (
            ["x", "--model", "{}", "--latency", "low", "--k", "3"],
            "--latency low chooses the thresholds",
        ),
        (["x", "--model", "{}", "--latency", "low"], "this set has no operating point 'low'"),
        (["x", "--model", "{}", "--policy", "wait"], "--policy is adaptive, wait-k,"),
        (["x", "--model", "{}", "--policy", "wait-k"], "wait-k takes k; got none"),
        (["x", "--model", "{}", "--rho", "2", "0"], "a threshold is a probability"),
        (["x", "--model", "{}", "--silence", "0"], "silence is a number of seconds above 0"),
        (["x", "--rho", "0.5"], "requires 2 arguments"),
    ],
)
def test_what_users_get_wrong_is_said_in_a_line(folder, arguments, message):
    result = run("translate", *(argument.format(folder) for argument in arguments))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


# Every command, arguments that it takes, and the function that does its work.
FILES = ["--source", "x", "--reference", "x"]
WORK = {
    "demo": ([], "cli.demo.main"),
    "translate": (["x"], "cli.translate.run"),
    "info": (["x"], "cli.doctor.describe_set"),
    "app": ([], "cli.translate.load"),
    "serve": ([], "serving.server.serve"),
    "doctor": ([], "cli.doctor.examine"),
    "evaluate": ([*FILES, "--output", "x", "--model", "x"], "cli.evaluate.run"),
    "compare": ([*FILES, "--output", "x"], "cli.compare.run"),
    "calibrate": ([*FILES, "--model", "x"], "cli.evaluate.calibrate_files"),
    "report": (["x"], "evaluation.report.write_report"),
    "card": (["x"], "sharing.cards.write_card"),
    "push": (["x", "--repo", "me/x"], "sharing.hub.PushRequest"),
}
ENDS = [
    (KeyboardInterrupt(), 130, ""),
    (BrokenPipeError(32, "Broken pipe"), 0, ""),
    (ValueError("this is wrong"), 2, "error: this is wrong\n"),
    (OSError("no room left"), 2, "error: no room left\n"),
]


def test_no_command_is_left_out():
    names = {one.name or one.callback.__name__ for one in app.registered_commands}
    assert names == set(WORK)


@pytest.mark.parametrize("command", WORK)
@pytest.mark.parametrize(("error", "code", "said"), ENDS, ids=lambda value: type(value).__name__)
def test_every_command_ends_plainly(monkeypatch, command, error, code, said):
    def fail(*args, **kwargs):
        raise error

    arguments, work = WORK[command]
    if command == "app":
        arguments = ["--port", free_port()]
    monkeypatch.setattr("os.dup2", lambda *_: None)
    monkeypatch.setattr(f"hf_simultaneous.{work}", fail)
    result = run(command, *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", said)


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("app", "gradio", "app"),
        ("evaluate", "sacrebleu", "eval"),
        ("compare", "sacrebleu", "eval"),
        ("compare", "matplotlib", "eval"),
        ("calibrate", "sacrebleu", "eval"),
        ("report", "sacrebleu", "eval"),
        ("report", "matplotlib", "eval"),
    ],
)
def test_a_command_says_what_it_needs_before_it_works(monkeypatch, command, package, extra):
    found = doctor.installed
    monkeypatch.setattr(doctor, "installed", lambda name: None if name == package else found(name))
    arguments, work = WORK[command]
    monkeypatch.setattr(f"hf_simultaneous.{work}", lambda *_, **__: pytest.fail("it worked"))
    result = run(command, *arguments)
    assert result.exit_code == 2
    assert result.stderr == (
        f"error: this command needs {package}, which is not installed: {doctor.to_install(extra)}\n"
    )


@pytest.fixture
def no_waiting(monkeypatch):
    waits = []
    monkeypatch.setattr(demo.time, "sleep", waits.append)
    yield
    assert not any(waits), "nobody watches a pipe"


@pytest.mark.usefixtures("no_waiting")
def test_the_demo_plays_the_models_that_ship_or_are_named(monkeypatch, folder, tmp_path):
    shipped = AdaptiveWaitKGenerator.from_pretrained(folder)
    shipped.latencies = {"high": {1: 0.9, 2: 0.9}, "low": {1: 0.1, 2: 0.1}}
    shipped.save_pretrained(str(tmp_path))
    monkeypatch.setattr(sets, "BUILTIN", tmp_path)
    monkeypatch.setattr(
        demo, "SENTENCES", ("Das Haus.", "Wir haben.", "Und die Katze.")
    )  # they take less time
    played = run("demo").stdout
    titles = [line.split(":")[0] for line in played.splitlines() if line[:1].isalpha()]
    points = ["adaptive, low latency", "adaptive, high latency"]
    assert titles[1:] == ["wait-3", "adaptive", "full sentence", *points, "adaptive", "Next"]
    assert played.count("Average Lagging") >= 6
    assert "\x1b" not in played
    assert played.endswith(
        "  hf-simultaneous translate --latency low --show\n  hf-simultaneous app\n"
    )
    assert f"  hf-simultaneous app --model {folder}\n" in run("demo", "--model", folder).stdout


def test_info_says_what_a_set_is_made_of(folder):
    facts = json.loads(run("info", folder, "--json").stdout)
    assert facts["members"] == [1, 3]
    assert facts["thresholds"].keys() == {"1", "2", "3", "4"}
    assert facts["tokenizer"] is True
    assert "members     1, 3\n" in run("info", folder).stdout
    assert "encoders    1 prefix, 3 prefix\n" in run("info", folder).stdout
    assert run("info", "/no/such/folder").exit_code == 2


def test_info_is_for_people_and_without_a_name_of_the_set_that_ships():
    told = run("info").stdout
    assert not set("[]{}'") & set(told.partition("members")[2])
    assert "\nlatencies   low: 1 0." in told
    assert "\n            medium: 1 0." in told
    assert "\ntokenizer   yes\n" in told


def test_the_version_is_said():
    told = run("--version")
    assert (told.exit_code, told.stdout) == (0, f"hf-simultaneous {__version__}\n")


def test_info_names_the_encoder_of_each_member(tmp_path):
    models = {k: tiny_model(encoder_attention="causal", wait_k=k) for k in (1, 2)}
    models[FULL] = tiny_model(encoder_attention="prefix", d_model=8)
    AdaptiveWaitKGenerator(models).save_pretrained(tmp_path)
    facts = json.loads(run("info", tmp_path, "--json").stdout)
    assert facts["encoders"] == {"1": "causal", "2": "causal", "full": "prefix"}
    assert facts["d_model"] == 16, "of the root, which is the member of the largest k"
    assert "encoders    1 causal, 2 causal, full prefix\n" in run("info", tmp_path).stdout


def test_doctor_knows_what_is_missing(monkeypatch):
    monkeypatch.setattr(doctor, "_precisions", lambda: [])
    found = doctor.installed
    monkeypatch.setattr(doctor, "installed", lambda package: found(package) or "1.0")
    well = run("doctor")
    assert well.exit_code == 0
    assert "all in order" in well.stdout
    with monkeypatch.context() as without:
        without.setattr(doctor, "builtin", list)
        bare = run("doctor")
    assert bare.exit_code == 1
    assert "not in order: built-in models" in bare.stdout
    monkeypatch.setattr(doctor, "installed", lambda name: None if name == "gradio" else "1.0")
    fair = run("doctor")
    assert fair.exit_code == 0
    assert "translation is in order; not installed: [app], see above" in fair.stdout
    monkeypatch.setattr(
        doctor,
        "installed",
        lambda package: None if package in ("torch", "gradio") else found(package),
    )
    ill = run("doctor")
    assert ill.exit_code == 1
    assert "torch            MISSING" in ill.stdout
    assert "missing gradio: pip install 'hf_simultaneous[app]'" in ill.stdout
    assert "not in order: torch" in ill.stdout


def test_a_package_that_is_not_there_has_no_version():
    assert doctor.installed("no-such-package") is None


def test_the_set_that_ships_is_used_where_there_is_one(monkeypatch, folder):
    monkeypatch.setattr(sets, "BUILTIN", Path(folder))
    assert sets.set_or_builtin(None) == folder
    assert Path(folder).name in run("doctor").stdout
