"""A connection breaks behind any event: what a second server makes of the rest is what the first
would have said. No sockets: a journal on one side, a stream on the other."""

import pytest

from hf_simultaneous.loop import Loop
from hf_simultaneous.serving.journal import Journal
from hf_simultaneous.serving.protocol import Flush, Numbered, Say, Start, parse_start
from hf_simultaneous.serving.streams import Stream
from tests.babble import SENTENCES


class Speaking:
    """What a server tells a client, an event a message, and no more of them than `heard`."""

    def __init__(self, generator, journal, heard=None):
        rules = generator.decoding_rules(**generator.for_text(tail_beams=3))
        start = parse_start(journal.start())
        self._loop = Loop(generator.lanes(), rules)
        self._stream = Stream(generator, rules, start, self._report)
        self._numbered = Numbered(start)
        self._journal, self._heard = journal, heard
        self.told = []
        journal.hear({"type": "started", "limits": {}, "replayed": start.replay})
        self._work()
        for message in journal.again():
            self.say(message)

    def say(self, message):
        flush = message["type"] == "flush"
        seq = message["seq"]
        self._stream.feed(Flush(seq) if flush else Say(message["type"], seq, message["text"]))
        self._work()

    def _work(self):
        while self._stream.has_work:
            self._stream.advance(self._loop)
            while self._stream.sentence in self._loop:
                for _, event in self._loop.step():
                    self._stream.take(event)

    def _report(self, report):
        assert report.error is None
        for event in self._numbered.message(report.events):
            self._tell(report.seq, False, [event])
        self._tell(report.seq, report.done, [])

    def _tell(self, seq, done, events):
        if self._heard is None or len(self.told) < self._heard:
            self.told += [(e["n"], e["action"], e.get("text"), e.get("tokens")) for e in events]
            self._journal.hear({"type": "events", "seq": seq, "done": done, "events": events})


def spoken(generator, text, start, breaks=None):
    """The events a client hears who says a text and ends it, and whose first server is gone after
    so many of them."""
    journal = Journal(start)
    first = Speaking(generator, journal, breaks)
    for message in [*journal.say("text", text), *journal.say("flush")]:
        first.say(message)
    if breaks is None:
        return first.told
    return first.told + Speaking(generator, journal).told


@pytest.mark.parametrize("sentence", ["Wir haben das Boot", SENTENCES[1].rstrip("!")])
@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("start", [{"k": 1}, {"k": 3}, {"policy": "adaptive"}])
def test_a_sentence_that_a_flush_ends_goes_on_behind_every_event(
    generator, sentence, pieces, start
):
    start = Start(**start, pieces=pieces)
    whole = spoken(generator, sentence, start)
    assert [action for _, action, *_ in whole].count("WRITE") > 2
    for breaks in range(len(whole) + 1):
        assert spoken(generator, sentence, start, breaks) == whole
