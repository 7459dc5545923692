"""A silence is the speaker's: how long the engine takes for anything is none. The time is made up
here, and one stream has the loop to itself."""

import pytest

from hf_simultaneous.loop import Loop
from hf_simultaneous.serving.protocol import Replay, Say, Start
from hf_simultaneous.serving.streams import SLICE, Stream


SILENCE = 1.0


class Speaker:
    """A stream and all that it reported; each word takes `cost` seconds."""

    def __init__(self, generator, cost=0.0, **start):
        self.now = 100.0
        self.cost = cost
        self.reports = []
        self.seq = 0
        rules = generator.decoding_rules(**generator.for_text())
        self.loop = Loop(generator.lanes(), rules)
        start = Start(k=1, silence=SILENCE, **start)
        self.stream = Stream(generator, rules, start, self.reports.append, lambda: self.now)

    def say(self, text, kind="text"):
        self.seq += 1
        self.stream.feed(Say(kind, self.seq, text))

    def work(self):
        """Until nothing is left to be done, as the engine does."""
        while self.stream.has_work:
            self.stream.advance(self.loop)
            if self.stream.sentence in self.loop:
                self.now += self.cost
            while self.stream.sentence in self.loop:
                for _, event in self.loop.step():
                    self.stream.take(event)

    def wait(self, seconds):
        """Nothing comes, and the engine looks when it was told to."""
        until = self.now + seconds
        while self.stream.silent_at is not None and self.stream.silent_at <= until:
            self.now = self.stream.silent_at
            self.stream.fall_silent()
            self.work()
        self.now = until

    @property
    def actions(self):
        return [event.action for report in self.reports for event in report.events]

    @property
    def ends(self):
        return self.actions.count("END")


@pytest.mark.parametrize("cost", [0.0, 0.3, 5.0])
@pytest.mark.parametrize(("pause", "ends"), [(0.0, 0), (0.9, 0), (1.1, 3), (30.0, 3)])
def test_a_sentence_ends_where_the_speaker_pauses(generator, cost, pause, ends):
    speaker = Speaker(generator, cost)
    for _ in range(3):
        speaker.say("Haus ")
        speaker.work()
        speaker.wait(pause)
    assert speaker.ends == ends
    speaker.wait(SILENCE)
    assert speaker.ends == max(ends, 1)
    assert speaker.stream.silent_at is None, "there is nothing left to end"


def test_words_that_wait_for_their_turn_were_not_silent(generator):
    speaker = Speaker(generator, cost=1.2)
    for word in ("Das", "Haus", "am"):
        speaker.say(word, "word")
    speaker.work()
    assert speaker.ends == 0
    assert speaker.actions.count("READ") == 3


def test_a_word_that_comes_in_time_is_in_time_however_late_its_turn_is(generator):
    """Others may keep the engine busy."""
    speaker = Speaker(generator)
    speaker.say("Das", "word")
    speaker.work()
    speaker.now += 0.9
    speaker.say("Haus", "word")
    speaker.now += 5.0
    speaker.work()
    assert speaker.ends == 0
    speaker.now += 1.1
    speaker.say("am", "word")
    speaker.work()
    assert speaker.ends == 1
    assert speaker.actions[-1] != "END"


def test_a_long_message_is_one_however_long_its_slices_take(generator):
    speaker = Speaker(generator, cost=1.2)
    speaker.say("Das " + "a " * SLICE + "Haus")
    speaker.work()
    whole = Speaker(generator)
    whole.say("Das " + "a " * SLICE + "Haus")
    whole.work()
    assert speaker.actions == whole.actions
    before = speaker.ends
    speaker.wait(SILENCE)
    assert speaker.ends == before + 1, "its silence begins where its last slice is done"


def test_a_sentence_from_elsewhere_ends_in_silence_too(generator):
    speaker = Speaker(generator, replay=Replay(n=2, words=("Das", "Haus")))
    speaker.work()
    speaker.wait(SILENCE)
    assert speaker.ends == 1


def test_a_silence_counts_before_a_transcript_that_is_refused(generator):
    speaker = Speaker(generator)
    speaker.say("Das Haus ", "transcript")
    speaker.work()
    speaker.now += 1.1
    speaker.say("Die Katze ", "transcript")
    speaker.work()
    assert speaker.reports[-2].error.code == "bad_message"
    assert speaker.ends == 1
    assert speaker.stream.silent_at is None


@pytest.mark.parametrize("late", [0.0, 0.4])
def test_a_refused_transcript_begins_the_silence_anew(generator, late):
    speaker = Speaker(generator)
    speaker.say("Das Haus ", "transcript")
    speaker.work()
    speaker.now += late
    speaker.say("Die Katze ", "transcript")
    speaker.work()
    speaker.wait(0.9)
    assert speaker.ends == 0
    speaker.wait(0.2)
    assert speaker.ends == 1


@pytest.mark.parametrize("began", [100.1, 1e5 + 0.3, 1e6 + 0.7])
def test_a_rounding_does_not_leave_a_sentence_open(generator, began):
    speaker = Speaker(generator)
    speaker.now = began
    speaker.say("Das ")
    speaker.work()
    speaker.now = speaker.stream.silent_at - 1e-9  # by then the source says that it is too early
    speaker.stream.fall_silent()
    assert speaker.ends == 0
    speaker.wait(SILENCE)
    assert speaker.ends == 1
