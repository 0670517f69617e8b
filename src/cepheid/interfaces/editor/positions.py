"""Offsets in a text as an editor counts them: lines, and units of an encoding in a line."""

from __future__ import annotations

import re

_LINE_END = re.compile(r"\r\n|\n|\r")


class Positions:
    r"""The lines of one text; editors end lines at CR, LF and both together, and nowhere else.

    Examples
    --------
    >>> positions = Positions("PATTERN A\r\nWHERE x", "utf-16")
    >>> positions.place(11), positions.offset(1, 3)
    ((1, 0), 14)
    """

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self._text = text
        self._encoding = encoding
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Find the line and the unit of an offset, both from 0."""
        line = next(n for n in reversed(range(len(self._starts))) if self._starts[n] <= offset)
        return line, sum(map(self._units, self._text[self._starts[line] : offset]))

    def offset(self, line: int, unit: int) -> int:
        """Find the offset of a place; what lies behind a line is its end."""
        if line >= len(self._starts):
            return len(self._text)
        place = self._starts[line]
        end = _LINE_END.search(self._text, place)
        stop = end.start() if end else len(self._text)
        units = 0
        while place < stop:
            units += self._units(self._text[place])
            if units > unit:
                break
            place += 1
        return place

    def _units(self, char: str) -> int:
        if self._encoding == "utf-32":
            return 1
        if self._encoding == "utf-8":
            return len(char.encode("utf-8", "surrogatepass"))
        return 1 + (char > "\uffff")
