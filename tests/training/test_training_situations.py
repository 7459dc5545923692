import itertools
import random
import re
from bisect import bisect_left
from pathlib import Path

import pytest

from training.everyday import slots
from training.situations import PLACE, TEMPLATES, chosen, main, pairs, templates


TEMPLATE_LINES = templates()


def test_both_sides_of_a_template_have_the_same_places() -> None:
    known = slots(random.Random(1)).keys()
    for line in TEMPLATE_LINES:
        german, english = line.split("|")
        places = [
            sorted((number, choices.count("/")) for number, choices in PLACE.findall(side))
            for side in (german, english)
        ]
        assert places[0] == places[1], line
        assert len({number for number, _ in places[0]}) == len(places[0]), line
        named = [set(re.findall(r"{(\w+)}", side)) for side in (german, english)]
        assert named[0] == named[1] <= known, line


# Before a vowel that is heard "an", else "a"; words whose sound their first letter does not tell.
WRONG_ARTICLE = re.compile(
    r"(?:^A|\ba) (?!(?:one|once|[Ee]uro|[Uu]ni|[Uu]s[eu]|[Uu]rin|util|U-)\w*)[aeiou]\w*"
    r"|\b[Aa]n (?!(?:hour|hono|hones|heir|herb|[xXF]\b|RV|SUV)\w*)[^aeiouAEIOU\W]\w*"
)


def test_no_choice_of_alternatives_makes_a_wrong_article() -> None:
    for line in TEMPLATE_LINES:
        english = line.split("|")[1]
        choices = [choices.split("/") for _, choices in PLACE.findall(english)]
        for chosen_ones in itertools.product(*choices):
            rest = iter(chosen_ones)
            sentence = PLACE.sub(lambda _: next(rest), english)  # noqa: B023
            assert not WRONG_ARTICLE.search(sentence), sentence


def test_no_template_stands_twice() -> None:
    assert len(set(TEMPLATE_LINES)) == len(TEMPLATE_LINES)


def test_a_place_is_filled_alike_on_both_sides() -> None:
    german, english = "<1 rot/blau> oder <2 eins/zwei>", "<2 one/two> or <1 red/blue>"
    made = {chosen(german, english, random.Random(seed)) for seed in range(40)}
    assert made == {
        ("rot oder eins", "one or red"),
        ("rot oder zwei", "two or red"),
        ("blau oder eins", "one or blue"),
        ("blau oder zwei", "two or blue"),
    }


def test_pairs_are_whole_sentences_and_the_same_for_the_same_seed() -> None:
    made = list(pairs(3000))
    assert made == list(pairs(3000))
    assert made != list(pairs(3000, seed=2))
    for german, english in made:
        assert not re.search(r"[<>{}|/]|  ", german + english), (german, english)
        for side in (german, english):
            assert side[-1] in ".!?", side
            assert side[0] == side[0].upper(), side


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_has_its_turn(name: str) -> None:
    lines = templates([name])
    made = sorted(german for german, _ in pairs(len(lines), only=[name]))
    for line in lines:
        opening = re.match(r"[^<{|]*", line)[0]
        assert made[bisect_left(made, opening)].startswith(opening), line


def test_only_the_files_named_are_drawn_from(tmp_path: Path) -> None:
    assert templates(["scenes"]) == TEMPLATES["scenes"].read_text(encoding="utf-8").splitlines()
    assert main(["--output", str(tmp_path / "long"), "--count", "9", "--only", "long"]) == 0
    german = (tmp_path / "long.de").read_text(encoding="utf-8").splitlines()
    assert german == [pair[0] for pair in pairs(9, only=["long"])] != [pair[0] for pair in pairs(9)]


def test_the_command_writes_aligned_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "new" / "situations"
    assert main(["--output", str(output), "--count", "12"]) == 0
    sides = [Path(f"{output}.{language}").read_text().splitlines() for language in ("de", "en")]
    assert list(zip(*sides, strict=True)) == list(pairs(12))
    assert main(["--output", str(output), "--count", "0"]) == 2
    assert "--count must be at least 1; got 0" in capsys.readouterr().err
