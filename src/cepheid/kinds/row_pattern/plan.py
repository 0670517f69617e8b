"""Hold a bound clause: names are resolved, variables known, and every value names its row."""

from __future__ import annotations

import msgspec

from cepheid.expressions.own import OwnFunction, united
from cepheid.kinds.row_pattern import tree

MISPLACED = "W209"


class OrderKey(msgspec.Struct, frozen=True):
    """One key of ORDER BY over a column of the input."""

    column: str
    descending: bool
    nulls_first: bool
    stated: bool = True
    """Whether the text says where NULLs come."""


class SearchBounds(msgspec.Struct, frozen=True):
    """The limits of a search; None stands for the limit of the algorithm that it uses.

    Attributes
    ----------
    steps
        Rows that it may try in one partition, beside a hundred for each row there is.
    states
        Partial matches that it may remember as failed, beside two for each row.
    """

    steps: int | None = None
    states: int | None = None

    def steps_max(self, usual: int, row_count: int) -> int:
        """Return the steps that a partition of so many rows may take."""
        return (self.steps or usual) + 100 * row_count

    def states_max(self, usual: int, row_count: int) -> int:
        """Bound the number of failures to remember in a partition of so many rows."""
        return (self.states or usual) + 2 * row_count


class MatchPlan(msgspec.Struct, frozen=True):
    """A checked clause for an input with known columns.

    Attributes
    ----------
    columns
        The columns of the input, in order.
    variables
        The primary variables in the order of their first place in PATTERN.
    conditions
        The bound DEFINE conditions; a variable without one matches every row.
    skip_targets
        The primary variables of AFTER MATCH SKIP TO.
    within
        The bound on last - first in the unit of the first ORDER BY key, or in microseconds.
    text
        The SQL text, for messages.
    bounds
        How much the search may do.
    time
        The name of a column with the times of rows (§15.3), after all others; None without one.
    frame
        The rows that a match of a window may see, from the current one on; None without a window.
    calls
        What is called over a window beside its measures.
    derived
        Columns that are computed from those of the input first: fields of structures, and keys.
    """

    text: str
    columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    order_by: tuple[OrderKey, ...]
    measures: tuple[tuple[str, tree.Expression], ...]
    rows: str
    skip: tree.Skip
    skip_targets: frozenset[str]
    pattern: tree.Pattern
    variables: tuple[str, ...]
    conditions: dict[str, tree.Expression]
    within: tree.Duration | tree.Literal | None
    bounds: SearchBounds = SearchBounds()
    time: str | None = None
    frame: tree.Frame | None = None
    calls: tuple[tuple[str, tree.Expression], ...] = ()
    derived: tuple[tuple[str, tree.Expression], ...] = ()

    @property
    def functions(self) -> tuple[OwnFunction, ...]:
        """List the functions of the user's own that it calls."""
        called = (*self.measures, *self.calls, *self.derived)
        expressions = [*(expression for _, expression in called), *self.conditions.values()]
        return united(map(tree.own_functions, expressions))

    @property
    def one_row(self) -> bool:
        """Check whether a match gives one row."""
        return self.rows == "one"

    @property
    def seeks(self) -> bool:
        """Check whether a row of a window may have a match that begins behind it."""
        return self.frame is not None and self.frame.seek

    @property
    def shows_unmatched(self) -> bool:
        """Check whether rows without a match are in the result."""
        return self.rows in ("all unmatched", "window")

    @property
    def output_columns(self) -> tuple[str, ...]:
        """Return the input columns that the result has, before and after the measures."""
        return (*self.leading_columns, *self.trailing_columns)

    @property
    def leading_columns(self) -> tuple[str, ...]:
        """Return the input columns before the measures: PARTITION BY, with ALL ROWS ORDER BY."""
        names = [] if self.rows == "window" else list(self.partition_by)
        if self.rows.startswith("all"):
            names += [key.column for key in self.order_by]
        return tuple(name for name in dict.fromkeys(names) if name in self.columns)

    @property
    def trailing_columns(self) -> tuple[str, ...]:
        """Return the input columns after the measures: with ALL ROWS the rest of them."""
        if self.one_row:
            return ()
        leading = self.leading_columns
        return tuple(name for name in self.columns if name not in leading)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Return the input columns that matter to the result, in order."""
        if not self.one_row:
            return self.columns
        used = {*self.partition_by, *(key.column for key in self.order_by)}
        computed = (expression for _, expression in (*self.measures, *self.derived))
        for expression in (*computed, *self.conditions.values()):
            used |= row_columns(expression)
        return tuple(name for name in self.columns if name in used)


def misplaced_nulls(key: OrderKey) -> str:
    """Tell in a sentence where NULLs of a key come here, and where in other systems."""
    here, there = ("first", "last") if key.nulls_first else ("last", "first")
    others = "Oracle" if key.descending else "Oracle and Trino"
    written = f"{key.column} DESC" if key.descending else key.column
    message = f"NULLs of `{key.column}` come {here} here, as in Spark, and {there} in {others}; "
    return (
        message
        + f"write `ORDER BY {written} NULLS {here.upper()}`, or {there.upper()} ({MISPLACED})"
    )


def row_columns(expression: tree.Expression) -> set[str]:
    """Return the input columns that a bound expression reads."""
    if isinstance(expression, tree.RowColumn):
        return {expression.name}
    if isinstance(expression, tree.RowField):
        return {expression.column}
    return set().union(*(row_columns(child) for child in tree.children(expression)))
