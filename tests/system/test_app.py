"""The page in a real browser: typing, sliders, an example, two visitors at once, the keyboard, the width of a phone.

Needs gradio and playwright, which the `dev` extra brings, and Debian's `chromium` on the PATH (`make browser`).
"""

import os
import shutil
import time

import pytest

from hf_simultaneous import AdaptiveWaitKGenerator
from tests.babble import SENTENCES, babbler


os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
CHROMIUM = shutil.which("chromium")
pytest.importorskip("gradio", reason="no gradio: pip install 'hf_simultaneous[app]'")
playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser"),
]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
QUIET = [  # runs as root in a container, and calls nobody
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 120.0  # seconds: the machine may be busy
POINTS = {"high": {1: 0.9, 2: 0.8}, "low": {1: 0.2, 2: 0.1}, "medium": {1: 0.5, 2: 0.4}}
EXAMPLE = "Am 3. Mai fährt Frau Dr. Weber nach Köln. Kommst du mit?"


@pytest.fixture(scope="module")
def address():
    from hf_simultaneous.app import launch

    few = babbler()
    generator = AdaptiveWaitKGenerator(few.models, few.tokenizer, few.thresholds, latencies=POINTS)
    server, url, _ = launch(generator, prevent_thread_lock=True)
    yield url
    server.should_exit = True


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    contexts = []

    def open_page(size=DESKTOP):
        contexts.append(browser.new_context(viewport=size))
        page = contexts[-1].new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(address)
        page.wait_for_selector("#source textarea")
        page.wait_for_selector("#shown .track")
        return page

    yield open_page
    for context in contexts:
        context.close()


def cards(page):
    """The title of each policy, and what it has written and read."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('#shown .track')].map(card => [
            card.getAttribute('aria-label'),
            [card.querySelector('.said').textContent,
             [...card.querySelectorAll('.read')].map(word => word.textContent).join(' ')]]))"""
    )


def read(page, title="Wait-3"):
    return cards(page).get(title, ("", ""))[1]


def scored(page):
    """How many policies have an Average Lagging."""
    return page.inner_text("#shown").count(" words")


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


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
    assert until(lambda: scored(one) == 3), "an Average Lagging for each policy"


def test_what_is_typed_is_shown_and_not_run(visit):
    page = visit()
    odd = "<b>x</b> ${1+1} {{value}} `a`"
    page.type("#source textarea", f"{odd} ")
    assert until(lambda: read(page) == odd)


def test_two_visitors_play_at_once_and_one_stops(visit):
    one, two = visit(), visit()
    for page in (one, two):
        page.get_by_label("Playing: words a second").first.fill("1")
        page.get_by_role("button", name=EXAMPLE).click()
    assert until(lambda: read(one) and read(two)), "neither waits for the other to be done"
    assert len(read(one)) < len(EXAMPLE)
    one.click("#stop")
    time.sleep(2)
    stopped = read(one)
    assert until(lambda: read(two) == EXAMPLE)
    assert read(one) == stopped != EXAMPLE
    assert one.input_value("#source textarea") == EXAMPLE


def test_sliders_and_operating_points_change_the_policies(visit):
    page = visit()
    page.type("#source textarea", "Das Haus ")
    assert until(lambda: read(page) == "Das Haus")
    page.get_by_label("Wait-k: k, in tokens").first.fill("5")
    page.keyboard.press("Tab")
    assert until(lambda: read(page, "Wait-5") == "Das Haus")
    offered = page.locator("fieldset", has_text="Latency of the adaptive policy").get_by_role("radio")
    assert [radio.get_attribute("value") for radio in offered.all()] == ["low", "medium", "high", ""]
    page.get_by_role("radio", name="low").check()
    assert until(lambda: read(page, "Adaptive, low") == "Das Haus")
    page.get_by_role("radio", name="by the slider").check()
    page.get_by_label("Adaptive: quick to careful").first.fill("1")
    page.keyboard.press("Tab")
    assert until(lambda: read(page, "Adaptive, ρ 0.2 to 0") == "Das Haus")
    page.get_by_role("checkbox", name="Full sentence").uncheck()
    assert until(lambda: len(cards(page)) == 2)


def test_the_keyboard_alone_is_enough(visit):
    page = visit()
    page.focus("#source textarea")
    page.keyboard.type("Das Haus ")
    assert until(lambda: read(page) == "Das Haus")
    names = []
    for _ in range(20):
        page.keyboard.press("Tab")
        names.append(
            page.evaluate("document.activeElement.innerText || document.activeElement.ariaLabel || ''").strip()
        )
        if names[-1] == "Finish":
            break
    assert {"Play", "Stop", EXAMPLE} <= set(names)
    page.keyboard.press("Enter")
    assert until(lambda: scored(page) == 3)
    page.get_by_role("slider", name="Wait-k: k, in tokens").focus()
    page.keyboard.press("ArrowRight")
    assert until(lambda: "Wait-4" in cards(page))


def test_every_control_has_a_name(visit):
    page = visit()
    unnamed = """() => [...document.querySelectorAll('main button, main input, main textarea')].filter(control =>
        !(control.innerText || control.ariaLabel || control.title || control.labels?.length)).map(c => c.outerHTML)"""
    assert page.evaluate(unnamed) == []
    live = [said.get_attribute("aria-live") for said in page.query_selector_all(".said")]
    assert live == ["polite", "off", "off"], "a screen reader has one voice"


def test_nothing_is_wider_than_a_phone(visit):
    page = visit(PHONE)
    long = "Donaudampfschifffahrtsgesellschaftskapitänsmützenfabrik"
    page.type("#source textarea", f"{SENTENCES[1]} {long} ")
    assert until(lambda: read(page) == f"{SENTENCES[1]} {long}")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate(
        "[...document.querySelectorAll('.track')].every(card => card.scrollWidth <= card.clientWidth)"
    )
