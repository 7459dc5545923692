"""The page in a real browser: typing, a slider, an example, two visitors at once, and the width of a phone.

Needs gradio (`pip install 'hf_simultaneous[app]'`), playwright, and Debian's `chromium` on the PATH.
"""

import os
import shutil
import time

import pytest

from tests.babble import SENTENCES, babbler


os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
CHROMIUM = shutil.which("chromium")
pytest.importorskip("gradio", reason="no gradio: pip install 'hf_simultaneous[app]'")
playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def address():
    from hf_simultaneous.app import launch

    server, url, _ = launch(babbler(), prevent_thread_lock=True)
    yield url
    server.should_exit = True


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    contexts = []

    def open_page(size=DESKTOP):
        contexts.append(browser.new_context(viewport=size))
        page = contexts[-1].new_page()
        page.goto(address, timeout=60_000)
        page.wait_for_selector("#source textarea", timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()


def cards(page):
    """The title, the translation and the words read of each policy."""
    found = page.query_selector_all("#shown .track")
    return {
        card.get_attribute("aria-label"): (
            card.query_selector(".said").inner_text(),
            " ".join(word.inner_text() for word in card.query_selector_all(".read")),
        )
        for card in found
    }


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


def read(page, title="Wait-3"):
    return cards(page).get(title, ("", ""))[1]


def test_typing_translates_and_two_visitors_do_not_mix(visit):
    one, two = visit(), visit(PHONE)
    for first, second in zip(SENTENCES[1].split(), SENTENCES[0].split(), strict=False):
        one.type("#source textarea", f"{first} ")
        two.type("#source textarea", f"{second} ")
    assert until(lambda: read(one) == " ".join(SENTENCES[1].split()[:7]))
    assert until(lambda: read(two) == SENTENCES[0])
    assert cards(one)["Wait-3"][0], "something was written before the sentence was over"
    assert not cards(one)["Full sentence"][0]
    one.click("#end")
    assert until(lambda: cards(one)["Full sentence"][0])
    assert "AL" in one.inner_text("#shown")


def test_a_slider_changes_the_policy(visit):
    page = visit()
    page.type("#source textarea", "Das Haus ")
    assert until(lambda: "Wait-3" in cards(page))
    page.get_by_label("k of wait-k").first.fill("5")
    page.keyboard.press("Tab")
    assert until(lambda: "Wait-5" in cards(page))
    assert read(page, "Wait-5") == "Das Haus"


def test_an_example_plays_at_one_click_and_stops(visit):
    page = visit()
    page.get_by_text("Der Lehrer hat das neue Buch").first.click()
    assert until(lambda: read(page).startswith("Der Lehrer"))
    page.click("#stop")
    whole = page.input_value("#source textarea")
    assert "Buch" in whole
    time.sleep(4)  # three words a second: by now the rest would have been read
    assert len(read(page)) < len(whole)


def test_nothing_is_wider_than_a_phone(visit):
    page = visit(PHONE)
    long = "Donaudampfschifffahrtsgesellschaftskapitänsmützenfabrik"
    page.type("#source textarea", f"{SENTENCES[1]} {long} ")
    assert until(lambda: read(page) == f"{SENTENCES[1]} {long}")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate(
        "[...document.querySelectorAll('.track')].every(card => card.scrollWidth <= card.clientWidth)"
    )


def test_the_keyboard_reaches_the_text_and_the_buttons(visit):
    page = visit()
    page.focus("#source textarea")
    page.keyboard.type("Das Haus ")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText").strip() == "Play"
    page.keyboard.press("Enter")
    assert until(lambda: read(page) == "Das Haus")
