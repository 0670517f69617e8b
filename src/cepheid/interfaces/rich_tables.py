"""Tables in a terminal: colours, wide characters and texts that are wrapped."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from cepheid.interfaces.colours import cell


def rich_grid(names: list[str], numbers: list[bool], columns: list[list[str]]) -> Table:
    """Lay out rows as a grid; columns of numbers are aligned to the right."""
    shown = Table()
    for name, number in zip(names, numbers, strict=True):
        justify: Any = "right" if number else "left"
        shown.add_column(_lines(name), justify=justify, no_wrap=number)
    for row in zip(*columns, strict=True):
        shown.add_row(*map(_lines, row))
    return shown


def rich_records(names: list[str], columns: list[list[str]], rows: int) -> Table:
    """Lay out rows with one value a line, for more columns than fit."""
    shown = Table(show_header=False)
    shown.add_column("name", no_wrap=True)
    shown.add_column("value", overflow="fold")
    for number in range(rows):
        for place, name in enumerate(names):
            last = place == len(names) - 1
            shown.add_row(cell(name), _lines(columns[place][number]), end_section=last)
    return shown


def _lines(text: str) -> Any:
    """Build a cell of several lines, one an event."""
    first, *rest = (cell(line) for line in text.split("\n"))
    for line in rest:
        first.append("\n").append_text(line)
    return first
