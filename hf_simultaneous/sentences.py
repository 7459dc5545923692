"""When a stream of words starts a new sentence.

Knows full stops and abbreviations, word by word; no tokenizer and no model."""

import re
from dataclasses import dataclass

from .schedule import check_at_least_one
from .words import UNSPACED, composed


STOPS = "。！？｡"
# Of scripts with spaces. U+037E is the Greek question mark; typed as a semicolon it is one.
SPACED_STOPS = "!?।॥؟۔።։\u037e"
CLOSERS = "\"'”“’‘»«›‹)]}」』）］】》〉"
OPENERS = CLOSERS + "„‚([{¿¡「『（［【《〈"
LETTERS_WITH_DOTS = re.compile(r"[^\W\d_](\.[^\W\d_])*")  # z. B. / z.B. / J. S. Bach
# am 3. Mai / am 3.5. / Ludwig XIV.; a year ends a sentence
ORDINAL = re.compile(r"(\d{1,2}\.)?\d{1,3}|[IVXLCDM]+")
SHORTENED = """
abb abs abt allg apr aufl aug bd betr bspw bzgl bzw ca chr co dez dgl dipl dipl.-ing dr dt ebd
eigtl engl etc ev evtl feb ff geb gegr gest ggf hl hr hrsg inc ing inkl jan jh jhd jr jul jun
jur kath lat ltd mio mr mrd mrs ms nov nr okt östl nördl prof rd röm sep sept sog sr st std str
südl tägl tel urspr usw verh versch vgl vs westl wg zw zzgl
"""
ABBREVIATIONS = frozenset(SHORTENED.split())
# German and English words that a clause begins with
CLAUSES = """
aber also als bevor bis damit dann dass daß denn doch nachdem ob obwohl oder seit sondern und
während weil wenn wobei
after although and because before but if or since so that then though when which while
"""
CLAUSE_STARTS = frozenset(CLAUSES.split())
PAUSES = (",", ";", ":", "–", "—")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceSplitting:
    """When a stream starts a new sentence, besides `flush()`."""

    max_tokens: int = 100
    """A sentence ends after the word that brings it to this many tokens. From half of that on it
    ends where a clause does: after a comma, or before a word of `clause_starts`."""
    max_word: int = 100
    """A word of more characters is cut into words of this many."""
    silence: float | None = None
    """Seconds without text after which the sentence is over; `None` waits for ever."""
    abbreviations: frozenset[str] = ABBREVIATIONS
    """Words whose full stop does not end a sentence: in lower case, without that stop."""
    clause_starts: frozenset[str] = CLAUSE_STARTS
    """Words before which a sentence that has grown too long is cut: lower case."""

    def __post_init__(self) -> None:
        check_at_least_one("max_tokens", self.max_tokens)
        check_at_least_one("max_word", self.max_word)
        if self.silence is not None and not self.silence > 0:
            raise ValueError(
                f"silence is a number of seconds above 0, or None for no time-out; got "
                f"{self.silence!r}"
            )

    def is_long(self, tokens: int) -> bool:
        """Has a sentence of so many tokens grown so long that it is better cut?"""
        return 2 * tokens >= self.max_tokens

    def pauses_after(self, word: str) -> bool:
        """May a long sentence be cut after this word?"""
        return word.rstrip(CLOSERS).endswith(PAUSES)

    def pauses_before(self, word: str) -> bool:
        """May a long sentence be cut before this word?"""
        return composed(word.lstrip(OPENERS)).lower() in self.clause_starts

    def ends(self, word: str) -> bool:
        """Does a sentence end with this word? Where a full stop leaves doubt, it does not.

        Joining two sentences costs little; cutting one in two spoils both halves.
        """
        bare = word.rstrip(CLOSERS)
        if not bare.endswith("."):
            return bare.endswith((*STOPS, *SPACED_STOPS))
        stem = composed(bare[:-1].lstrip(OPENERS))
        doubtful = (
            LETTERS_WITH_DOTS.fullmatch(stem)
            or ORDINAL.fullmatch(stem)
            or stem.lower() in self.abbreviations
        )
        return not (doubtful or stem.endswith("."))  # two stops and more are a pause


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeLines(SentenceSplitting):
    """A sentence ends where whoever sends it says so."""

    def ends(self, word: str) -> bool:
        return False


def stop_after(stop: str, char: str, before: str) -> str:
    """The stop that a word has come to in a script without spaces, and none if it goes on: it was
    at `stop`, and `char` came behind `before`."""
    if char in STOPS:
        return char
    if char in "!?":
        return char if stop or UNSPACED.match(before) else ""
    return stop if char in CLOSERS else ""


def ends_behind(stop: str, char: str) -> bool:
    """Is a sentence that has come to this stop over, now that this character follows?"""
    if char in STOPS + CLOSERS:
        return False
    # `!0` is one word to whoever counts them; a sentence must not end in its middle.
    return stop in STOPS or UNSPACED.match(char) is not None
