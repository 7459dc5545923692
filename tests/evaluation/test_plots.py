"""Pictures are written, hold what they should, and come out the same twice."""

import warnings
import xml.etree.ElementTree as ElementTree

import pytest

from hf_simultaneous.evaluation.plots import (
    Path2D,
    draw_curves,
    draw_grid,
    draw_path,
    path_of,
    write_paths_html,
)
from tests.corpora import line


PATH = Path2D(["Ich", "habe", "<Rad>", "verkauft"], ["I", "sold", "a & b"], [1, 4, 4], "wait")


def test_a_path_is_drawn_as_svg_and_png(tmp_path):
    for name in ("path.svg", "again.svg", "path.png"):
        draw_path(PATH, tmp_path / name)
    text = (tmp_path / "path.svg").read_text()
    assert text == (tmp_path / "again.svg").read_text()
    ElementTree.fromstring(text)
    assert all(word in text for word in ("Ich", "verkauft", "sold", "&lt;Rad&gt;"))
    assert (tmp_path / "path.png").read_bytes().startswith(b"\x89PNG")


def test_letters_that_the_font_lacks_stay_letters(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_path(Path2D(["有", "人"], ["someone"], [2]), tmp_path / "path.svg")
    assert "有" in (tmp_path / "path.svg").read_text(encoding="utf-8")


def test_an_empty_translation_can_be_drawn(tmp_path):
    draw_path(Path2D(["Ich"], [], []), tmp_path / "empty.svg")
    assert (tmp_path / "empty.svg").exists()


def test_the_page_holds_everything_and_escapes_it(tmp_path):
    write_paths_html([PATH, path_of(line(), "second")], tmp_path / "paths.html")
    text = (tmp_path / "paths.html").read_text()
    assert "&lt;Rad&gt;" in text
    assert "a &amp; b" in text
    assert text.count("●<") == 5
    assert text.count('class="read"') == 1 + 4 + 4 + 3 + 3
    assert "http" not in text


def test_curves_and_grid(tmp_path):
    draw_curves(
        {"wait-k": [(2, 20), (1, 10)], "none": []},
        tmp_path / "c.svg",
        levels={"full": 30.0},
        apart=["none"],
    )
    text = (tmp_path / "c.svg").read_text()
    assert "wait-k" in text
    assert "full: 30.0" in text
    draw_grid({1: {1: 10.0, 3: 9.0}, 2: {1: 11.0, 3: 12.0}}, tmp_path / "g.svg")
    assert "model wait-3" in (tmp_path / "g.svg").read_text()


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(ValueError, match="each target word needs a delay; got 1 and 2"):
        Path2D(["a"], ["b"], [1, 1])
    with pytest.raises(ValueError, match=r"not exceed the 1 source words; got \[2\]"):
        Path2D(["a"], ["b"], [2])
    with pytest.raises(ValueError, match="no delays in words to draw"):
        path_of(line(word_delays=None))
    with pytest.raises(ValueError, match="written as .svg, .png, .pdf; got 'a.bmp'"):
        draw_path(PATH, tmp_path / "a.bmp")
    with pytest.raises(ValueError, match="no dev grid to draw"):
        draw_grid({}, tmp_path / "g.svg")
