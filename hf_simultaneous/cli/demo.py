"""`hf-simultaneous demo`: German sentences translated in the terminal, word by word as they arrive.

Knows sentences that show what the policies do; translating and drawing are done elsewhere.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..actions import Policy
from ..policies import Adaptive, FullSentence, WaitK
from ..text_session import TextSession, operating_points
from .requests import TranslateRequest
from .terminal import LiveView, open_console
from .terminal import play as show
from .translate import load


if TYPE_CHECKING:
    from ..generation import AdaptiveWaitKGenerator


# In each the verb comes late, so that it pays to wait.
SENTENCES = (
    "Sie sagt, dass sie den Schlüssel nicht gefunden hat.",
    "Ich glaube, dass der Zug heute nicht mehr kommt.",
    "Obwohl er sehr müde war, hat er die ganze Nacht gearbeitet.",
)
TITLES = {
    "wait-3": "wait-3: fixed, must write after three tokens",
    "adaptive": "adaptive: writes when sure, reads when not",
    "full": "full sentence: reads everything first",
}


def main(pause: float = 0.15, model: str | None = None) -> None:
    """Translate a few sentences as they arrive. Only a person watching is kept waiting."""
    console = open_console()
    pause = pause if console.is_terminal else 0.0
    console.print("German in, English out, while the sentence is still arriving.\n")
    generator, own = load(TranslateRequest(model=model))
    for title, policy, sentence in turns(generator, own):
        console.print(title, style="bold", highlight=False)
        with TextSession(generator, policy=policy, pieces=True) as session:
            show(session.stream(_spoken(sentence, pause)), LiveView(console))
    named = "" if model is None else f" --model {model}"
    points = "".join(f" --latency {point}" for point in operating_points(generator)[:1])
    console.print("Next:")
    console.print(
        f"  hf-simultaneous translate{named}{points} --show", highlight=False, soft_wrap=True
    )
    console.print(f"  hf-simultaneous app{named}", highlight=False, soft_wrap=True)


def turns(generator: "AdaptiveWaitKGenerator", own: Policy) -> Iterator[tuple[str, Policy, str]]:
    """Titles, policies and sentences: policies side by side on the first, operating points on the
    second."""
    first, second, *others = SENTENCES
    for name, policy in {"wait-3": WaitK(3), "adaptive": own, "full": FullSentence()}.items():
        yield TITLES[name], policy, first
    for point in operating_points(generator):
        yield f"adaptive, {point} latency", Adaptive(generator.latencies[point]), second
    for sentence in others if generator.latencies else [second, *others]:
        yield TITLES["adaptive"], own, sentence


def _spoken(text: str, pause: float) -> Iterator[str]:
    for word in text.split():
        time.sleep(2 * pause)
        yield word
