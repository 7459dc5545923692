"""Texts that their source sends whole, again and again: which part of one is final.

Knows words only; nothing of tokens."""

from os.path import commonprefix

from .words import SPACES, UNSPACED


class SourceRevised(ValueError):
    """A source that sends its whole text again has changed words that were read already."""


class Transcript:
    """A text that its source sends whole, again and again: which part of it is final."""

    def __init__(self) -> None:
        self._final = ""
        self.tail = ""
        """The rest of the newest text, which may still change."""
        self._hypotheses: list[str] = []  # the latest texts, the newest last

    def repeats(self, text: str) -> bool:
        """Was exactly this heard last?"""
        return self._hypotheses[-1:] == [text]

    def hear(self, text: str, stable: int = 1) -> str:
        """What has become final: what the latest `stable` texts agree on, up to the last space of
        the newest."""
        if not text.startswith(self._final):
            self.tail, self._hypotheses = "", []  # its source takes back what was not read, too
            raise SourceRevised(_revised(self._final, text))
        self._hypotheses = [*self._hypotheses, text][-stable:]
        agreed = commonprefix([f"{hypothesis} " for hypothesis in self._hypotheses])
        known = len(self._final)
        end = min(len(text), len(agreed)) if len(self._hypotheses) == stable else known
        while end > known and not (SPACES.match(text[end - 1]) or UNSPACED.match(text[end - 1])):
            end -= 1
        end = max(end, known)
        self._final = text[:end]
        self.tail = text[end:]
        return text[known:end]

    def settle(self) -> str:
        """The tail, which is final now."""
        tail, self.tail = self.tail, ""
        self._final += tail
        return tail


def _revised(settled: str, text: str) -> str:
    same = next(
        (i for i, (a, b) in enumerate(zip(settled, text, strict=False)) if a != b),
        min(len(settled), len(text)),
    )
    return (
        f"the source changed what it had sent: {_around(settled, same)!r} became "
        f"{_around(text, same)!r}, at "
        f"character {same}. What was read stays. flush() begins a new transcript; a larger "
        f"stable= reads only what more transcripts in a row agree on"
    )


def _around(text: str, place: int) -> str:
    """Some characters on both sides of a place, and where more were cut off."""
    begin, end = max(0, place - 20), place + 20
    return f"{'…' * (begin > 0)}{text[begin:end]}{'…' * (end < len(text))}"
