"""Print tables that fit a terminal, with short times and one event a line.

Values are formatted column by column, so that all values of a column look alike: times with as many
digits as the longest needs, whole doubles without a fraction.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from cepheid.errors import visible
from cepheid.interfaces.console import ROWS_SHOWN_MAX, say
from cepheid.interfaces.plain_grid import is_plain_output, plain_grid

WIDTH_MAX = 40
"""The width that a text may have before it is wrapped."""

_DATE = re.compile(r"(?<=  )\d{4}-\d\d-\d\d(?= )")
_ZEROS = re.compile(r"0+$")


def print_table(table: pa.Table) -> None:
    """Print the first rows of a table, and how many there are."""
    shown = table.slice(0, ROWS_SHOWN_MAX)
    names = [visible(name) for name in table.column_names]
    columns = [texts_of(shown.column(place)) for place in range(shown.num_columns)]
    for place, kind in enumerate(table.schema.types):
        if _holds_events(kind):
            names[place], columns[place] = _without_date(names[place], columns[place])
    rest = len(table) - ROWS_SHOWN_MAX
    count = f"{len(table):,} row{'' if len(table) == 1 else 's'}"
    footer = f"{count}, {rest:,} not shown" if rest > 0 else count
    layouts = (names, list(map(in_two_lines, names)))
    numbers = [
        pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in table.schema.types
    ]
    drawn = plain_grid(layouts[0], numbers, columns) if is_plain_output() else None
    if drawn is not None:
        say(f"{drawn}\n{footer}")
        return
    # Rich takes longer to load than a small query.
    from rich.console import Console

    from cepheid.interfaces.rich_tables import rich_grid, rich_records

    console = Console()
    fitting = [heads for heads in layouts if _least_width(heads, columns) <= console.width]
    if fitting:
        console.print(rich_grid(fitting[0], numbers, columns))
    else:
        console.print(rich_records(names, columns, len(shown)))
    console.print(footer, highlight=False)


def _without_date(name: str, texts: list[str]) -> tuple[str, list[str]]:
    """Move the date of events into the header, if all events have the same."""
    lines = [line for text in texts for line in text.split("\n")]
    dates = {_DATE.findall(line)[0] if _DATE.search(line) else "" for line in lines}
    if len(dates) != 1 or "" in dates:
        return name, texts
    date = dates.pop()
    shorter = [
        "\n".join(line.replace(f"  {date} ", "  ", 1) for line in text.split("\n"))
        for text in texts
    ]
    return f"{name} of {date}", shorter


def _least_width(names: list[str], columns: list[list[str]]) -> int:
    """Compute the least width of a grid that wraps only long texts."""
    total = 1
    for name, texts in zip(names, columns, strict=True):
        head = max(map(len, name.split("\n")))
        lines = [line for text in texts for line in text.split("\n")]
        widest = max(map(len, lines), default=0)
        total += 3 + min(max(head, widest), max(WIDTH_MAX, head))
    return total


def in_two_lines(name: str) -> str:
    r"""Break a name of several words near its middle.

    Examples
    --------
    >>> in_two_lines("share_of_previous"), in_two_lines("window_end"), in_two_lines("price")
    ('share_of_\nprevious', 'window_\nend', 'price')
    """
    places = [place + 1 for place, mark in enumerate(name[:-1]) if mark == "_" and place]
    if not places:
        return name
    middle = min(places, key=lambda place: abs(2 * place - len(name)))
    return f"{name[:middle]}\n{name[middle:]}"


def texts_of(column: Any) -> list[str]:
    """Format the values of a column; NULL is empty.

    Examples
    --------
    >>> texts_of(pa.chunked_array([[1.0, 2.5, None]]))
    ['1', '2.5', '']
    >>> texts_of(pa.chunked_array([pa.array([0, 1_500_000], pa.timestamp("us", "UTC"))]))
    ['1970-01-01 00:00:00.0', '1970-01-01 00:00:01.5']
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _times(column)
    if _holds_events(kind):
        return _events(column)
    return [_text(value) for value in column.to_pylist()]


def _holds_events(kind: Any) -> bool:
    return pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)


def _times(column: Any) -> list[str]:
    """Format times in UTC or without a zone, with as many digits as one of them needs."""
    zone = column.type.tz
    if zone is not None and zone != "UTC":
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    written = column.cast(pa.string()).to_pylist()
    texts = [text.removesuffix("Z") if text else "" for text in written]
    parts = [text.partition(".") for text in texts]
    digits = max((len(_ZEROS.sub("", fraction)) for _, _, fraction in parts), default=0)
    if digits:
        return [f"{whole}.{fraction[:digits]}" if whole else "" for whole, _, fraction in parts]
    wholes = [whole for whole, _, _ in parts]
    for empty in (" 00:00:00", ":00"):
        if all(whole.endswith(empty) for whole in wholes if whole):
            return [whole.removesuffix(empty) for whole in wholes]
    return wholes


def _events(column: Any) -> list[str]:
    """Format lists of events, one event a line: variable, times, then names and values."""
    whole: Any = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    inner = whole.flatten()
    kind = inner.type
    fields = [kind.field(place) for place in range(kind.num_fields)]
    parts = inner.flatten()
    words: list[list[str]] = []
    for field, part in zip(fields, parts, strict=True):
        bare = field.name == "variable" or pa.types.is_timestamp(field.type)
        texts = texts_of(part)
        name = visible(field.name)
        words.append([text if bare or not text else f"{name}={text}" for text in texts])
    lines = ["  ".join(filter(None, row)) for row in zip(*words, strict=True)]
    found, start = [], 0
    for length in whole.value_lengths().to_pylist():
        found.append("\n".join(lines[start : start + (length or 0)]))
        start += length or 0
    return found


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{visible(name)}={_text(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    # A line break that is ours stands between events, and none in a value.
    return "" if value is None else visible(str(value))
