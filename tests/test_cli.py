"""The command line, in this process: what it prints, its exit codes, and that users see no traceback."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hf_simultaneous import AdaptiveWaitKGenerator, WaitK, demo, doctor, live
from hf_simultaneous.cli import app
from hf_simultaneous.terminal import LiveView, TwoLines, follow, play
from hf_simultaneous.text import SentenceRules
from hf_simultaneous.translation import TextSession
from tests.babble import SENTENCES, TEXT, babbler, save_babbler


ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_babbler(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def generator():
    return babbler()


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def words(generator, text, **options):
    return [event for event in TextSession(generator, **options).stream(text) if event.action == "WRITE"]


def line(generator, text, **options):
    return "".join(map(str, words(generator, text, **options)))


def test_help_is_quick_and_imports_nothing_slow():
    code = (
        "import sys; from hf_simultaneous.cli import app; sys.exit(bool({'torch', 'transformers'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0
    command = [sys.executable, "-c", "from hf_simultaneous.cli import main; main()", "--help"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=ROOT, timeout=60, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "translate" in done.stdout
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 0.5, "computing, not waiting: the machine may be busy"
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
    split = run("translate", "--model", folder, "--file", tmp_path / "text", "--lines").stdout.splitlines()
    assert split == [line(generator, text) for text in ("Das Haus", "Die Katze läuft", "ein Boot")]


def test_json_lines_hold_every_event(folder, generator):
    result = run("translate", "--model", folder, SENTENCES[0], "--jsonl", "--k", 1)
    events = [json.loads(row) for row in result.stdout.splitlines()]
    expected = [event.to_dict() for event in TextSession(generator, policy=WaitK(1)).stream(SENTENCES[0])]
    assert [{**event, "time": 0, "probability": 0} for event in events] == [
        {**event, "time": 0, "probability": 0} for event in expected
    ]


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
    assert [row[8:].rstrip() for row in folded] == ["Ich habe", "   I", "verkauft", "", "", "sold it"]
    long = TwoLines()
    long.read("Donaudampfschiff")
    assert [row[8:] for row in long.lines(19).plain.splitlines()] == ["Donaudampf", "", "schiff", ""]


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
    events = list(follow(TextSession(generator), [data[place : place + 3] for place in range(0, len(data), 3)]))
    read = "".join(str(event) if event.action == "READ" else "\n" * (event.action == "END") for event in events)
    assert read.splitlines() == [*SENTENCES[:2], f"{SENTENCES[2]} \ufffd"]


def test_silence_is_polled_for(generator):
    now = [0.0]
    session = TextSession(generator, sentences=SentenceRules(silence=1.0), clock=lambda: now[0])

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
        (["--file", "/no/such/file", "--model", "{}"], "No such file"),
        (["x", "--model", "{}", "--show", "--jsonl"], "choose one"),
        (["x", "--model", "{}", "--latency", "low", "--k", "3"], "--latency low chooses the thresholds"),
        (["x", "--model", "{}", "--latency", "low"], "this set has no operating point 'low'"),
        (["x", "--model", "{}", "--policy", "wait"], "policy must be one of"),
        (["x", "--model", "{}", "--policy", "wait-k"], "got wait-k with k=None"),
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


def test_control_c_and_a_closed_pipe_end_quietly(folder, monkeypatch):
    for error, code in ((KeyboardInterrupt, 130), (BrokenPipeError, 0)):
        with monkeypatch.context() as patch:
            patch.setattr("os.dup2", lambda *_: None)

            def fail(request, error=error):
                raise error

            patch.setattr(live, "run", fail)
            result = run("translate", "x", "--model", folder)
        assert (result.exit_code, result.output) == (code, "")


def test_the_page_says_what_it_needs(monkeypatch, folder):
    monkeypatch.setattr(doctor, "installed", lambda package: None)
    result = run("app", "--model", folder)
    assert result.exit_code == 2
    assert "pip install 'hf_simultaneous[app]'" in result.stderr


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
    monkeypatch.setattr(doctor, "BUILTIN", tmp_path)
    monkeypatch.setattr(demo, "SENTENCES", ("Das Haus.", "Wir haben.", "Und die Katze."))  # they take less time
    played = run("demo").stdout
    titles = [line.split(":")[0] for line in played.splitlines() if line[:1].isalpha()]
    points = ["adaptive, low latency", "adaptive, high latency"]
    assert titles[1:] == ["wait-3", "adaptive", "full sentence", *points, "adaptive", "Next"]
    assert played.count("Average Lagging") >= 6
    assert "\x1b" not in played
    assert played.endswith("  hf-simultaneous translate --latency low --show\n  hf-simultaneous app\n")
    assert f"  hf-simultaneous app --model {folder}\n" in run("demo", "--model", folder).stdout


def test_info_says_what_a_set_is_made_of(folder):
    facts = json.loads(run("info", folder, "--json").stdout)
    assert facts["members"] == [1, 3]
    assert facts["thresholds"].keys() == {"1", "2", "3", "4"}
    assert facts["tokenizer"] is True
    assert "members     [1, 3]" in run("info", folder).stdout
    assert run("info", "/no/such/folder").exit_code == 2


def test_doctor_knows_what_is_missing(monkeypatch):
    well = run("doctor")
    assert well.exit_code == 0
    assert "all in order" in well.stdout
    found = doctor.installed
    monkeypatch.setattr(
        doctor, "installed", lambda package: None if package in ("torch", "gradio") else found(package)
    )
    ill = run("doctor")
    assert ill.exit_code == 1
    assert "torch            MISSING" in ill.stdout
    assert "missing gradio: pip install 'hf_simultaneous[app]'" in ill.stdout
    assert "not in order: torch" in ill.stdout


def test_a_package_that_is_not_there_has_no_version():
    assert doctor.installed("no-such-package") is None


def test_the_set_that_ships_is_used_where_there_is_one(monkeypatch, folder):
    monkeypatch.setattr(doctor, "BUILTIN", Path(folder))
    assert doctor.set_or_builtin(None) == folder
    assert Path(folder).name in run("doctor").stdout
