"""Lay out a table for a file or a pipe, as Rich does, without loading Rich.

Loading and running Rich takes longer than a small query. It stays the one that wraps texts, knows
wide characters and uses colours; the rest looks the same here, which a test compares.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

WIDTH = 80
"""The width of what is no terminal, as Rich assumes it."""
TERMINAL_VARIABLES = ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "LINES")
"""Variables by which Rich takes a pipe for a terminal, or for one of another size."""


def is_plain_output() -> bool:
    """Check whether the output is no terminal, of the usual width and in Unicode."""
    odd = any(name in os.environ for name in TERMINAL_VARIABLES)
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return not odd and not sys.stdout.isatty() and encoding.lower().startswith("utf")


def plain_grid(
    heads: Sequence[str], numbers: Sequence[bool], columns: Sequence[Sequence[str]]
) -> str | None:
    """Draw a grid; None if Rich has to do it. Columns of numbers are aligned to the right."""
    texts = [[head, *column] for head, column in zip(heads, columns, strict=True)]
    cells = [[text.split("\n") for text in column] for column in texts]
    if not columns or not all(_is_plain(cell) for column in cells for cell in column):
        return None
    widths = [max(len(line) for cell in column for line in cell) for column in cells]
    if sum(widths) + 3 * len(widths) + 1 > WIDTH:
        return None
    top, *body = zip(*cells, strict=True)
    drawn = [_edge("┏┳┓", "━", widths), *_row(top, "┃", widths, numbers)]
    drawn.append(_edge("┡╇┩", "━", widths))
    for row in body:
        drawn += _row(row, "│", widths, numbers)
    return "\n".join([*drawn, _edge("└┴┘", "─", widths)])


def _is_plain(cell: Sequence[str]) -> bool:
    """Check that all characters have one width; Rich moves spaces and empty lines at the ends."""
    simple = all(one.isascii() and one.isprintable() and one == one.strip() for one in cell)
    return simple and (len(cell) == 1 or bool(cell[-1]))


def _edge(corners: str, line: str, widths: Sequence[int]) -> str:
    return corners[0] + corners[1].join(line * (width + 2) for width in widths) + corners[2]


def _row(
    cells: Sequence[list[str]], bar: str, widths: Sequence[int], numbers: Sequence[bool]
) -> list[str]:
    """Draw the lines of a row; shorter cells end with empty lines."""
    height = max(map(len, cells))
    drawn = []
    for number in range(height):
        parts = []
        for cell, width, right in zip(cells, widths, numbers, strict=True):
            text = cell[number] if number < len(cell) else ""
            parts.append(text.rjust(width) if right else text.ljust(width))
        drawn.append(f"{bar} {f' {bar} '.join(parts)} {bar}")
    return drawn
