"""The browser's client in a real browser against a real server, which is killed in the middle of a
sentence.

Needs playwright, which the `dev` extra brings, and Debian's `chromium` on the PATH (`make
browser`)."""

import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest

from hf_simultaneous.app.live_page import live_page
from tests.babble import SENTENCES
from tests.browser import CHROMIUM, IN_A_BROWSER, QUIET, playwright
from tests.forked import free_port
from tests.serving.processes import PATIENCE, Server
from tests.serving.test_streams import alone


pytestmark = IN_A_BROWSER
TYPED = "() => [...document.querySelectorAll('.read')].map(word => word.textContent).join(' ')"
SAID = "() => [...document.querySelectorAll('.said')].map(row => row.textContent).join('|')"


@contextmanager
def shown(server_url):
    """The page, served in a thread; and its address."""
    with live_page(server_url, port=0) as page:
        threading.Thread(target=page.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{page.server_port}"
        page.shutdown()


@pytest.fixture
def page():
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        yield page
        browser.close()


def type_words(page, words):
    for word in words:
        page.type("#source", f"{word} ")


def until(page, looked_at, expected):
    deadline = time.monotonic() + PATIENCE
    while (seen := page.evaluate(looked_at)) != expected:
        assert time.monotonic() < deadline, f"{seen!r} is not {expected!r}"
        page.wait_for_timeout(50)


@pytest.fixture
def start(babble):
    """Starts servers, and stops them whatever happens."""
    servers = []

    def one(*options, port):
        servers.append(Server(babble, *options, port=port))
        return servers[-1]

    yield one
    for server in servers:
        server.stop()


def test_a_sentence_in_the_browser_outlives_its_server(start, generator, page):
    port = free_port()
    words = SENTENCES[1].split()
    with shown(f"ws://127.0.0.1:{port}") as address:
        options = ["--origin", address, "--drain", "1"]
        first = start(*options, port=port)
        page.goto(address)
        page.wait_for_selector("#state[data-state=open]")
        type_words(page, words[:4])
        until(page, TYPED, " ".join(words[:4]))
        os.kill(first.process.pid, signal.SIGKILL)
        page.wait_for_selector("#state[data-state=waiting]")
        type_words(page, words[4:])
        second = start(*options, port=port)
        page.wait_for_selector("#state[data-state=open]")
        page.click("#end")
        until(page, TYPED, " ".join(words))
        until(page, SAID, alone(generator, words)[-1].text)
        assert second.metric('replays_total{diverged="false"}') == 1


def test_a_sentence_with_its_full_stop_needs_no_space(start, generator, page):
    port = free_port()
    text = "Das kleine Haus."
    with shown(f"ws://127.0.0.1:{port}") as address:
        start("--origin", address, port=port)
        page.set_viewport_size({"width": 390, "height": 480})  # a phone with its keyboard open
        page.goto(address)
        page.wait_for_selector("#state[data-state=open]")
        page.type("#source", text)
        until(page, TYPED, text)
        until(page, SAID, alone(generator, text.split())[-1].text)
        place = page.locator(".said").first.bounding_box()
        assert place["y"] + place["height"] < 480, "what is written is seen"
        page.type("#source", " Und das ")
        until(page, TYPED, f"Und das {text}")


REPLAYED = """async ([said, reads]) => {
    const {SimultaneousClient} = await import("/simultaneous.js");
    const client = Object.create(SimultaneousClient.prototype);
    Object.assign(client, {n: 0, onEvent: () => {}});
    client.said = said.map((text) => text ? {type: "text", text} : {type: "flush", text: " "});
    client.sentence = {number: 1, source: "", tokens: [], growing: []};
    reads.forEach((text, index) => client.see({n: index + 1, action: "READ", text}));
    const {words, open, ended} = client.replay().replay;
    return [words, open, ended, client.said.map(({text}) => text)];
}"""


@pytest.mark.parametrize(
    ("said", "reads", "replayed"),
    [
        (["Das ", "Haus ", "ist"], ["Das", "Haus"], [["Das Haus"], False, False, ["", "", "ist"]]),
        (["Das Ha", "us ist "], ["Das"], [["Das"], False, False, ["Ha", "us ist "]]),
        (["Das Haus", ""], ["Das"], [["Das"], False, False, ["Haus", " "]]),
        (["Das Haus", "", "ist"], ["Das", "Haus"], [["Das Haus"], False, True, ["", "", "ist"]]),
        (["我爱Berlin很多"], ["我", "爱", "Berlin"], [["我爱Berlin"], True, False, ["很多"]]),
        (["我爱 Berlin 很多"], ["我", "爱", "Berlin"], [["我爱 Berlin"], False, False, ["很多"]]),
    ],
)
def test_a_replay_has_the_spaces_that_were_said(server, page, said, reads, replayed):
    with shown(server.url) as address:
        page.goto(address)
        assert page.evaluate(REPLAYED, [said, reads]) == replayed


def test_the_page_says_why_it_cannot_connect(server, page):
    """Its origin is not on the server's list."""
    with shown(server.url) as address:
        page.goto(address)
        page.wait_for_selector("#state[data-state=waiting]")
        assert f"serve --origin {address}" in page.inner_text("#state")


def test_a_server_is_a_socket():
    with pytest.raises(ValueError, match=r"a server is ws://host:port or wss://host; got 'http:"):
        live_page("http://127.0.0.1:1", port=0)
