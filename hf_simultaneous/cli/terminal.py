"""Text arriving on a pipe or a keyboard, and text events shown on a terminal or a pipe, each the
moment it is there.

Knows files and terminals; the translating is done by the session it is given.
"""

import json
import os
import select
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TextIO

from ..metrics import AL, Metric, Sentence, latency


if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ..serving.client import Client
    from ..text_session import TextEvent, TextSession


def arriving(descriptor: int, tick: float | None = None) -> Iterator[bytes]:
    """What is there to be read, without waiting for more; b"" each time `tick` seconds have brought
    nothing."""
    while True:
        if tick is not None and not select.select([descriptor], [], [], tick)[0]:
            yield b""
        elif fragment := os.read(descriptor, 65536):
            yield fragment
        else:
            return


def follow(
    session: "TextSession | Client", fragments: Iterable[bytes], *, lines: bool = False
) -> "Iterator[TextEvent]":
    """Translate fragments as they come. An empty line ends a sentence; with `lines`, every line
    does."""
    empty = True
    for fragment in fragments:
        if not fragment:
            yield from session.poll()
        for line in fragment.splitlines(keepends=True):
            yield from session.push_text(line)
            empty = empty and not line.strip()
            if line.endswith(b"\n"):
                if lines or empty:
                    yield from session.flush()
                empty = True
    yield from session.flush()


class View(Protocol):
    """Where events are shown."""

    def show(self, event: "TextEvent") -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class PlainView:
    """The translation, word by word; a line for each sentence."""

    out: TextIO

    def show(self, event: "TextEvent") -> None:
        if event.action in ("WRITE", "END"):
            self.out.write(str(event) if event.action == "WRITE" else "\n")
            self.out.flush()

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class JsonView:
    """A JSON object for every event, a line each."""

    out: TextIO

    def show(self, event: "TextEvent") -> None:
        self.out.write(json.dumps(event.to_dict(), ensure_ascii=False) + "\n")
        self.out.flush()

    def close(self) -> None:
        pass


def open_console() -> "Console":
    """Standard output for what is drawn. A closed pipe is an error here as it is for any other
    file, and the command ends as all commands do; rich alone would leave with code 1. And it is as
    wide as the terminal says, not as COLUMNS said when a shell was started."""
    from rich.console import Console, ConsoleDimensions

    class PipedConsole(Console):
        @property  # type: ignore[misc]  # nobody sets it
        def size(self) -> ConsoleDimensions:
            with suppress(OSError, ValueError):
                columns, lines = os.get_terminal_size(self.file.fileno())
                if columns and lines:
                    return ConsoleDimensions(columns, lines)
            return super().size

        def on_broken_pipe(self) -> None:
            self.quiet = True
            raise BrokenPipeError

    return PipedConsole()


class TwoLines:
    """What was read above what was written, each written word under the moment it was written."""

    def __init__(self) -> None:
        from rich.text import Text

        self.above, self.below = Text(no_wrap=True), Text(no_wrap=True)

    def read(self, word: str) -> None:
        self.above.append(word, style="cyan")

    def write(self, word: str, *, spaced: bool, style: str = "bold green") -> None:
        gap = max(self.above.cell_len - self.below.cell_len, int(spaced))
        self.below.append(" " * gap).append(word, style=style)

    def grow(self, piece: str, style: str = "bold green") -> None:
        """More of the word that was written last."""
        self.below.append(piece, style=style)

    def with_unfinished(self, word: str) -> "TwoLines":
        """The same, and a source word that is still being typed."""
        picture = TwoLines()
        picture.above = self.above.copy()
        picture.below = self.below
        picture.above.append(f" {word}" if self.above else word, style="dim cyan")
        return picture

    def lines(self, width: int) -> "Text":
        """Both lines, folded together where they are longer than the terminal is wide."""
        from rich.text import Text

        marks, room = ("  READ  ", "  WRITE "), max(4, width - 9)
        folded, start = [], 0
        while start < max(1, len(self.above), len(self.below)):
            end = self._fold(start + room, start)
            for mark, line in zip(marks, (self.above, self.below), strict=True):
                folded.append(Text.assemble((mark, "dim"), line[start:end]))
            start = end
        return Text("\n").join(folded)

    def _fold(self, latest: int, start: int) -> int:
        """The last place between words of both lines; where there is none, a word is cut."""
        texts = (self.above.plain, self.below.plain)
        for at in range(latest, start, -1):
            if all(at >= len(text) or " " in text[at - 1 : at + 1] for text in texts):
                return at
        return latest


@dataclass
class LiveView:
    """Both lines growing in the terminal, and each sentence's Average Lagging when it is over."""

    console: "Console"
    _lines: TwoLines = field(default_factory=TwoLines)
    _delays: list[int] = field(default_factory=list)
    _growing: bool = False
    _unfinished: str = ""
    _drawn: list[int] = field(default_factory=list)
    """The width of each line that is on the screen."""

    def __post_init__(self) -> None:
        from rich.live import Live

        self._live = Live(console=self.console, auto_refresh=False)
        self._live.start()

    def show(self, event: "TextEvent") -> None:
        if event.action == "READ":
            self._lines.read(str(event))
        elif event.action == "PIECE" and self._growing:
            self._lines.grow(event.text)
        elif event.action == "PIECE" or (event.action == "WRITE" and not self._growing):
            self._lines.write(event.text, spaced=event.spaced)
        if event.action == "WRITE":
            self._delays.append(event.delay)
        self._growing = event.action == "PIECE" or (self._growing and event.action == "READ")
        self._draw()
        if event.action == "END":
            self._sentence_is_over(event.delay)

    def typing(self, word: str) -> None:
        """A source word that is not finished yet, drawn behind what was read."""
        self._unfinished = word
        self._draw()

    def _draw(self) -> None:
        shown = self._lines.with_unfinished(self._unfinished) if self._unfinished else self._lines
        lines = [*shown.lines(self.console.width).split("\n")]
        # What is said now is at the end; all of it is shown when the sentence is over.
        self._put(lines[-(self.console.height // 2 * 2) :])

    def _put(self, lines: "Sequence[Text]") -> None:
        """In the place of what was drawn before."""
        from rich.text import Text

        self._clear_folded()
        self._drawn = [line.cell_len for line in lines]
        self._live.update(Text("\n").join(lines), refresh=True)

    def _clear_folded(self) -> None:
        """A terminal that became narrower has folded lines, and rich clears as many as it drew."""
        from rich.control import Control
        from rich.segment import ControlType

        folded = sum(max(0, cells - 1) // self.console.width for cells in self._drawn)
        clear = ((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1))
        if folded and self.console.is_terminal:
            self.console.control(Control(*(clear * folded)))

    def _sentence_is_over(self, source_words: int) -> None:
        lagging = latency(
            Sentence(tuple(self._delays), source_words), Metric(AL.name, unit="word")
        ).value
        picture = self._lines.lines(self.console.width)
        said = picture.append(f"\n  Average Lagging {lagging:.2f} words\n\n", style="dim")
        self._put([*said.split("\n", allow_blank=True)])
        self._live.stop()
        self._lines, self._delays, self._drawn = TwoLines(), [], []
        self.__post_init__()

    def close(self) -> None:
        self._live.stop()


def play(events: "Iterable[TextEvent]", view: View) -> None:
    """Show every event as it comes; the terminal is given back as it was, whatever happens."""
    try:
        for event in events:
            view.show(event)
    finally:
        view.close()
