"""The page in a real browser: typing, sliders, an example, two visitors at once, the keyboard, the
width of a phone.

Needs gradio and playwright, which the `dev` extra brings, and Debian's `chromium` on the PATH
(`make browser`)."""

import os
import time

import pytest

from hf_simultaneous import AdaptiveWaitKGenerator
from tests.babble import SENTENCES, babbler
from tests.browser import CHROMIUM, IN_A_BROWSER, QUIET, playwright


os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
pytest.importorskip("gradio", reason="no gradio: pip install 'hf_simultaneous[app]'")
pytestmark = IN_A_BROWSER
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
WITH_KEYBOARD = {"width": 390, "height": 400}  # what a phone's keyboard leaves
PATIENCE = 120.0  # seconds: the machine may be busy
WAITING = "waits for the end of the sentence"
POINTS = {"high": {1: 0.9, 2: 0.8}, "low": {1: 0.2, 2: 0.1}, "medium": {1: 0.5, 2: 0.4}}
EXAMPLE = "Ich weiß nicht, ob er heute kommt. Was denkst du?"
FIRST = "Obwohl er sehr müde war, hat er die ganze Nacht gearbeitet."


@pytest.fixture(scope="module")
def address():
    from hf_simultaneous.app import launch
    from hf_simultaneous.app.gradio_page import EXAMPLES

    few = babbler()
    generator = AdaptiveWaitKGenerator(few.models, few.tokenizer, few.thresholds, latencies=POINTS)
    server, url, _ = launch(generator, examples=EXAMPLES, prevent_thread_lock=True)
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
            [[...card.querySelectorAll('.said')].map(row => row.textContent).reverse().join(' '),
             [...card.querySelectorAll('.path')].reverse().map(row =>
                [...row.querySelectorAll('.read')].map(word => word.textContent).join(' '))
             .join(' ')]]))"""
    )


def read(page, title="Wait-3"):
    return cards(page).get(title, ("", ""))[1]


def playing(page):
    """Is the page in the middle of the example?"""
    heard = read(page)
    return heard and heard != EXAMPLE and EXAMPLE.startswith(heard)


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
    assert cards(one)["Full sentence"][0] == WAITING
    one.click("#end")
    assert until(lambda: cards(one)["Full sentence"][0] != WAITING)
    assert until(lambda: scored(one) == 3), "an Average Lagging for each policy"


def test_an_example_plays_on_arrival_and_typing_ends_it(visit):
    page = visit()
    assert until(lambda: read(page).startswith("Obwohl er"))
    assert page.input_value("#source textarea") == ""
    page.type("#source textarea", "Das Haus ")
    assert until(lambda: read(page) == "Das Haus")
    time.sleep(2)
    assert read(page) == "Das Haus"


def test_a_sentence_with_its_full_stop_needs_no_space(visit):
    page = visit()
    page.type("#source textarea", "Das kleine Haus.")
    assert until(lambda: read(page) == "Das kleine Haus.")
    assert until(lambda: scored(page) == 3), "it is over"
    page.type("#source textarea", " Und das ")
    assert until(lambda: read(page) == "Das kleine Haus. Und das"), "it goes on"


def test_every_change_of_the_box_is_heard(visit):
    """Paste, Backspace, cut, undo, dictation and composition press no key that writes a letter."""
    page = visit()
    page.focus("#source textarea")
    page.keyboard.insert_text("Das kleine Haus ")
    assert until(lambda: read(page) == "Das kleine Haus"), "pasted or dictated"
    for _ in range(5):
        page.keyboard.press("Backspace")
    assert until(lambda: read(page) == "Das kleine"), "deleted"
    page.keyboard.insert_text("Boot ")
    assert until(lambda: read(page) == "Das kleine Boot")
    keyboard = page.context.new_cdp_session(page)
    for part in ("l", "lä", "läuft "):
        keyboard.send(
            "Input.imeSetComposition",
            {"text": part, "selectionStart": len(part), "selectionEnd": len(part)},
        )
    keyboard.send("Input.insertText", {"text": "läuft "})
    assert until(lambda: read(page) == "Das kleine Boot läuft"), "composed"
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+x")
    assert until(lambda: read(page) == ""), "cut"
    page.keyboard.press("Control+v")
    assert until(lambda: read(page) == "Das kleine Boot läuft"), "pasted again"
    page.keyboard.press("Control+z")
    assert until(lambda: read(page) == ""), "undone"


def test_the_translation_is_seen_above_a_keyboard(visit):
    page = visit(WITH_KEYBOARD)
    page.type("#source textarea", f"{SENTENCES[0]} Das kleine Boot ")
    assert until(lambda: read(page) == f"{SENTENCES[0]} Das kleine Boot")
    newest = """() => document.querySelector('.said').getBoundingClientRect().bottom"""
    assert page.evaluate(newest) < WITH_KEYBOARD["height"]


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
    assert until(lambda: playing(one) and playing(two)), "neither waits for the other to be done"
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
    offered = page.locator("fieldset", has_text="Latency of the adaptive policy").get_by_role(
        "radio"
    )
    assert [radio.get_attribute("value") for radio in offered.all()] == [
        "low",
        "medium",
        "high",
        "",
    ]
    page.get_by_role("radio", name="low").check()
    assert until(lambda: read(page, "Adaptive, low") == "Das Haus")
    caution = page.get_by_label("Adaptive: quick to careful").first
    assert not caution.is_enabled(), "it does nothing while an operating point is chosen"
    page.get_by_role("radio", name="by the slider").check()
    assert until(caution.is_enabled)
    caution.fill("1")
    page.keyboard.press("Tab")
    assert until(lambda: read(page, "Adaptive, ρ 0.2 to 0") == "Das Haus")
    for name in ("Local agreement", "Hold-n", "AlignAtt", "PsFuture"):
        page.get_by_role("checkbox", name=name).check()
    assert until(lambda: len(cards(page)) == 7)
    assert until(lambda: read(page, "PsFuture, threshold 0.02") == "Das Haus")
    for name in ("Local agreement", "Hold-n", "AlignAtt", "PsFuture", "Full sentence"):
        page.get_by_role("checkbox", name=name).uncheck()
    assert until(lambda: len(cards(page)) == 2)
    page.get_by_role("checkbox", name="Wait-k").uncheck()
    assert until(lambda: not page.get_by_label("Wait-k: k, in tokens").first.is_enabled())


def test_the_keyboard_alone_is_enough(visit):
    page = visit()
    page.focus("#source textarea")
    page.keyboard.type("Das Haus ")
    assert until(lambda: read(page) == "Das Haus")
    names = []
    for _ in range(20):
        page.keyboard.press("Tab")
        names.append(
            page.evaluate(
                "document.activeElement.innerText || document.activeElement.ariaLabel || ''"
            ).strip()
        )
        if names[-1] == EXAMPLE:
            break
    assert {"Play", "The sentence is over", FIRST} <= set(names)
    page.focus("#end")
    page.keyboard.press("Enter")
    assert until(lambda: scored(page) == 3)
    page.get_by_role("slider", name="Wait-k: k, in tokens").focus()
    page.keyboard.press("ArrowRight")
    assert until(lambda: "Wait-4" in cards(page))


def test_every_control_has_a_name(visit):
    page = visit()
    unnamed = """() =>
        [...document.querySelectorAll('main button, main input, main textarea')]
        .filter(one => !(one.innerText || one.ariaLabel || one.title || one.labels?.length))
        .map(one => one.outerHTML)"""
    assert page.evaluate(unnamed) == []
    live = [said.get_attribute("aria-live") for said in page.query_selector_all(".sentences")]
    assert live == ["polite", "off", "off"], "a screen reader has one voice"


def test_nothing_is_wider_than_a_phone(visit):
    page = visit(PHONE)
    long = "Donaudampfschifffahrtsgesellschaftskapitänsmützenfabrik"
    page.type("#source textarea", f"{SENTENCES[1]} {long} ")
    assert until(lambda: read(page) == f"{SENTENCES[1]} {long}")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate(
        "[...document.querySelectorAll('.track')].every(card => card.scrollWidth <= "
        "card.clientWidth)"
    )
