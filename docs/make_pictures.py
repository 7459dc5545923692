"""The pictures of docs/policies.md: one sentence under every policy, as the set in the package
translates it.

    python docs/make_pictures.py        # writes them anew; after every change of those models

Knows which settings are shown; reading, writing and drawing are the package's."""

import io
from pathlib import Path

from rich.console import Console

from hf_simultaneous import AdaptiveWaitKGenerator, TextSession
from hf_simultaneous.cli.terminal import LiveView, play
from hf_simultaneous.policies import make_policy


PAGE = Path(__file__).parent / "policies.md"
BEGIN = "<!-- pictures: python docs/make_pictures.py -->\n"
END = "<!-- end of the pictures -->\n"
SENTENCE = "Sie sagt, dass sie den Schlüssel nicht gefunden hat."
SHOWN = {
    "--latency medium": None,
    "--policy wait-k --k 3": make_policy("wait-k", k=3),
    "--policy test-time-wait-k --k 3": make_policy("test-time-wait-k", k=3),
    "--policy wait-if-diff --start 4 --delta 2": make_policy("wait-if-diff"),
    "--policy wait-if-worse --start 4 --delta 2": make_policy("wait-if-worse"),
    "--policy local-agreement --n 2 --step 2 --close": make_policy(
        "local-agreement", n=2, step=2, close=True
    ),
    "--policy hold-n --n 4 --close": make_policy("hold-n", n=4, close=True),
    "--policy align-att --border 2 --close": make_policy("align-att", close=True),
    "--policy ps-future --threshold 0.02": make_policy("ps-future", threshold=0.02),
    "--policy full": make_policy("full"),
}
"""As the command line chooses them; None is the set's own."""


def pictures() -> str:
    """READ and WRITE under each policy, a block for all of them."""
    generator = AdaptiveWaitKGenerator.from_pretrained(latency="medium")
    drawn = []
    for options, policy in SHOWN.items():
        out = io.StringIO()
        view = LiveView(Console(file=out, width=100, color_system=None))
        with TextSession(generator, policy=policy, pieces=True) as session:
            play(session.stream(SENTENCE.split()), view)
        lines = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
        drawn.append("\n".join([options, *lines]))
    return "```\n" + "\n\n".join(drawn) + "\n```\n"


def with_pictures(text: str, drawn: str) -> str:
    """A page with what stands between its marks exchanged."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + drawn + END + after


if __name__ == "__main__":
    PAGE.write_text(with_pictures(PAGE.read_text("utf-8"), pictures()), encoding="utf-8")
