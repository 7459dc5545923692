"""What a terminal shows of what is written to it: it folds what is too long, scrolls, cannot go
above its first row, and folds anew when it is made narrower, as most terminals do.

Knows the few codes that are used here."""

import re


CODES = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")
WHOLE = re.compile(r"(.*?)(\x1b(?:\[[0-9;?]*)?)?\Z", re.DOTALL)


class Screen:
    """Rows of text, the oldest first; those above the screen are kept as scrolled."""

    def __init__(self, height=24, width=100):
        self.height, self.width = height, width
        self.rows, self.folded = [""], [False]
        self.row = self.column = 0
        self.begun = ""

    def write(self, output):
        """A code may come in two pieces: what is read from a program ends anywhere."""
        output, self.begun = WHOLE.match(self.begun + output).groups("")
        for numbers, code, back, down, text in CODES.findall(output):
            if code == "A":
                self.row = max(self.row - int(numbers or 1), len(self.rows) - self.height, 0)
            elif code == "K":
                self.rows[self.row] = ""
            elif back:
                self.column = 0
            elif down:
                self._down()
            for letter in text:
                self._put(letter)

    def _down(self, folded=False):
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")
            self.folded.append(folded)
        self.folded[self.row] = folded

    def _put(self, letter):
        if self.column == self.width:
            self._down(folded=True)
            self.column = 0
        line = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = line[: self.column] + letter + line[self.column + 1 :]
        self.column += 1

    def resize(self, height, width):
        """The cursor stays behind the last letter."""
        lines = []
        for row, folded in zip(self.rows, self.folded, strict=True):
            lines = [*lines[:-1], lines[-1] + row] if folded else [*lines, row]
        self.__init__(height, width)
        for number, line in enumerate(lines):
            self.write("\r\n" * (number > 0) + line)

    def lines(self):
        """All that is not empty."""
        return [row.rstrip() for row in self.rows if row.strip()]
