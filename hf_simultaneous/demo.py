"""`hf-simultaneous demo`: one German sentence under three policies, in the terminal, with predictions from a script.

Shows what the policies do. It loads no model: the script says at which source word each English word becomes clear.
"""

import time
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.text import Text

from .actions import Policy, Prediction, Read, State
from .metrics import Sentence, latency
from .policies import Adaptive, FullSentence, WaitK, linear_thresholds


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
    above, below = Text("  READ  ", style="dim"), Text("  WRITE ", style="dim")
    with Live(console=console, refresh_per_second=30) as live:
        while END not in state.target:
            action = policy(state, predict)
            if isinstance(action, Read):
                word = SOURCE[len(state.source)]
                state.source.append(len(state.source))
                state.ended = len(state.source) == len(SOURCE)
                above.append(f"{word} ", style="cyan")
            else:
                state.target.append(action.token)
                if action.token != END:
                    right = WORDS[action.token] == SCRIPT[len(state.target) - 1][0]
                    delays.append(len(state.source))
                    below.append(" " * max(0, len(above.plain) - 1 - len(below.plain)))
                    below.append(f"{WORDS[action.token]} ", style="bold green" if right else "bold red underline")
            lines = [Text(title, style="bold"), above, below]
            live.update(Text("\n").join(lines))
            time.sleep(pause)
        lagging = latency(Sentence(tuple(delays), len(SOURCE))).value
        live.update(Text("\n").join([*lines, Text(f"  Average Lagging {lagging:.2f} words\n\n", style="dim")]))


def main(pause: float = 0.15) -> None:
    """Play the three policies one after another."""
    console = Console()
    console.print("One sentence, three policies. The predictions are scripted; wrong guesses are underlined.\n")
    play(WaitK(3), "wait-3: fixed, must write after three words", console, pause)
    play(Adaptive(linear_thresholds(0.9, 0.3, 1, 8)), "adaptive: writes when sure, reads when not", console, pause)
    play(FullSentence(), "full sentence: reads everything first", console, pause)
    console.print("Next: train a toy set and translate with it, see 'Train your own' in README.md")
