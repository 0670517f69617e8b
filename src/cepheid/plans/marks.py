"""Names of marks: a column that says of every event whether a deadline was met, and of variables.

A deadline (§2.12) is a fact about one event, so a query with deadlines runs over events with marks.
Its variables are split into *variants*, which differ in the marks that an event must have. No name
of the language has the character that separates a variable from its variant.
"""

from __future__ import annotations

from collections.abc import Mapping

_SEPARATOR = "\x1f"


def mark_name(number: int) -> str:
    """Name the column of a mark."""
    return f"{_SEPARATOR}mark {number}"


def is_mark(column: str) -> bool:
    """Check whether a column is a mark, which no result shows."""
    return column.startswith(_SEPARATOR)


def variant_name(variable: str, marks: Mapping[int, bool]) -> str:
    """Name the variant of a variable whose events have these marks, and not those; or itself."""
    wanted = ",".join(f"{'+' if hit else '-'}{number}" for number, hit in marks.items())
    return variable + (_SEPARATOR + wanted if marks else "")


def variable_of(variant: str) -> str:
    """Return the variable that the user wrote."""
    return variant.partition(_SEPARATOR)[0]
