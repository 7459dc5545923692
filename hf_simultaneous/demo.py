"""`hf-simultaneous demo`: German sentences translated in the terminal, word by word as they arrive.

Shows what the policies do, with a set of models or, where there is none, with predictions from a script, which says at
which source word each English word becomes clear.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from .actions import Policy, Prediction, Read, State
from .doctor import builtin, set_or_builtin
from .live import Request, load
from .metrics import Sentence, latency
from .policies import Adaptive, FullSentence, WaitK, linear_thresholds
from .terminal import LiveView, TwoLines
from .terminal import play as show
from .translation import TextSession, operating_points


if TYPE_CHECKING:
    from .generation import AdaptiveWaitKGenerator


# In each the verb comes late, so that it pays to wait.
SENTENCES = (
    "Meine Schwester hat mir gestern ein altes Fahrrad geschenkt.",
    "Ich glaube, dass der Zug heute nicht mehr kommt.",
    "Wenn du morgen Zeit hast, können wir zusammen kochen.",
)
TITLES = {
    "wait-3": "wait-3: fixed, must write after three tokens",
    "adaptive": "adaptive: writes when sure, reads when not",
    "full": "full sentence: reads everything first",
}
# What is played where no models ship.
SOURCE = ["Ich", "habe", "heute", "das", "alte", "Rad", "verkauft", "."]
# Each English word, the source words that must have been seen for it to be clear, and the guess made before that.
SCRIPT = (
    ("I", 1, "I"),
    ("sold", 7, "have"),
    ("the", 4, "a"),
    ("old", 5, "new"),
    ("bike", 6, "car"),
    ("today", 3, "now"),
    (".", 8, "."),
)
WORDS = ["</s>", *dict.fromkeys(word for clear, _, guess in SCRIPT for word in (clear, guess))]
END = WORDS.index("</s>")


@dataclass(frozen=True)
class Scripted:
    """P_k for the sentence above: sure once enough was seen, a doubtful guess before."""

    state: State

    def __call__(
        self, k: int | None = None, *, context: int | None = None, models: tuple[int | None, ...] | None = None
    ) -> Prediction:
        step = len(self.state.target)
        seen = min(len(self.state.source), context if context is not None else step + (k or 0))
        if step == len(SCRIPT):
            return Prediction(END, 0.95)
        word, needed, guess = SCRIPT[step]
        return Prediction(WORDS.index(word), 0.9) if seen >= needed else Prediction(WORDS.index(guess), 0.2)


def play(policy: Policy, title: str, console: Console, pause: float) -> None:
    """Run one policy over the sentence and draw both lines as they grow, each word under the moment it was written."""
    state, delays = State(), []
    predict = Scripted(state)
    picture = TwoLines()
    with Live(console=console, refresh_per_second=30) as live:
        while END not in state.target:
            action = policy(state, predict)
            if isinstance(action, Read):
                word = SOURCE[len(state.source)]
                state.source.append(len(state.source))
                state.ended = len(state.source) == len(SOURCE)
                picture.read(f" {word}" if picture.above else word)
            else:
                state.target.append(action.token)
                if action.token != END:
                    right = WORDS[action.token] == SCRIPT[len(state.target) - 1][0]
                    delays.append(len(state.source))
                    style = "bold green" if right else "bold red underline"
                    picture.write(WORDS[action.token], spaced=bool(picture.below), style=style)
            lines = [Text(title, style="bold"), picture.lines(console.width)]
            live.update(Text("\n").join(lines))
            time.sleep(pause)
        lagging = latency(Sentence(tuple(delays), len(SOURCE))).value
        live.update(Text("\n").join([*lines, Text(f"  Average Lagging {lagging:.2f} words\n\n", style="dim")]))


def main(pause: float = 0.15, model: str | None = None) -> None:
    """Play sentences with models if there are any, else the scripted one. Only a person watching is kept waiting."""
    console = Console()
    pause = pause if console.is_terminal else 0.0
    if model is not None or builtin():
        translate_all(model, console, pause)
    else:
        play_script(console, pause)


def play_script(console: Console, pause: float) -> None:
    """One sentence under three policies; no model is asked."""
    console.print("One sentence, three policies. Predictions are scripted; wrong ones underlined.\n")
    play(WaitK(3), TITLES["wait-3"].replace("tokens", "words"), console, pause)
    play(Adaptive(linear_thresholds(0.9, 0.3, 1, 8)), TITLES["adaptive"], console, pause)
    play(FullSentence(), TITLES["full"], console, pause)
    console.print("Next: train a toy set (see 'Train your own' in README.md), then type into", highlight=False)
    console.print("  hf-simultaneous translate --model runs/toy/set --show", highlight=False)


def translate_all(model: str | None, console: Console, pause: float) -> None:
    """The same with real models, and more sentences: each arrives word by word."""
    console.print("German in, English out, while the sentence is still arriving.\n")
    generator, own = load(Request(model=set_or_builtin(model)))
    for title, policy, sentence in turns(generator, own):
        console.print(title, style="bold", highlight=False)
        with TextSession(generator, policy=policy) as session:
            show(session.stream(_spoken(sentence, pause)), LiveView(console))
    named = "" if model is None else f" --model {model}"
    points = "".join(f" --latency {point}" for point in operating_points(generator)[:1])
    console.print("Next:")
    console.print(f"  hf-simultaneous translate{named}{points} --show", highlight=False, soft_wrap=True)
    console.print(f"  hf-simultaneous app{named}", highlight=False, soft_wrap=True)


def turns(generator: "AdaptiveWaitKGenerator", own: Policy) -> Iterator[tuple[str, Policy, str]]:
    """Titles, policies and sentences: policies side by side on the first, operating points on the second."""
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
