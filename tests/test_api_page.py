"""`docs/api.md` says what the docstrings say, of every public name."""

import hf_simultaneous
from docs.make_api import PAGE, page


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python docs/make_api.py"


def test_every_public_name_has_an_entry_and_a_text():
    entries = page().split("\n## ")[1:]
    texts = {entry.partition("\n")[0]: entry.split("\n\n") for entry in entries}
    assert set(texts) == set(hf_simultaneous.__all__) - {"__version__"}
    # A name, where it is from, how it is written; then what it is.
    bare = [name for name, text in texts.items() if not any(part.strip() for part in text[2:])]
    assert bare == []


def test_what_a_signature_holds_is_what_the_object_takes():
    import inspect

    text = page()
    for name in ("WaitK", "Adaptive", "TextEvent", "linear_thresholds"):
        line = next(line for line in text.splitlines() if line.startswith(f"`{name}("))
        for parameter in inspect.signature(getattr(hf_simultaneous, name)).parameters:
            assert f"{parameter}: " in line
