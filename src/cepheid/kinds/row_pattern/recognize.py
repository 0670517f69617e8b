"""A plan and a table in, the table of its matches out: what one partition or one process does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.errors import BindError, DataError, Diagnostic
from cepheid.kernels.segments import first_rows_too_late
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.arrange import ArrangedRows, Rows, as_whole
from cepheid.kinds.row_pattern.automaton import Automaton, build_automaton
from cepheid.kinds.row_pattern.computed import with_derived
from cepheid.kinds.row_pattern.conditions import Condition, prepare_conditions
from cepheid.kinds.row_pattern.find import Quest, find_all
from cepheid.kinds.row_pattern.matches import MatchSet
from cepheid.kinds.row_pattern.measures import MeasureFrame
from cepheid.kinds.row_pattern.output import build_output
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.window_output import window_parts

_PER_US = {"s": (1, 10**6), "ms": (1, 1000), "us": (1, 1), "ns": (1000, 1)}
"""The number of ticks of a unit in a microsecond, as a fraction."""
_DAYS_PER_US = 1, 86_400_000_000


ROWS_OF_A_THREAD = 100_000
"""Fewer rows are not worth a thread of their own."""


def recognize(plan: MatchPlan, table: pa.Table, *, threads: int = 1) -> pa.Table:
    """Return the result of a MATCH_RECOGNIZE clause over a table.

    Partitions come in the order of their keys, matches in the order of their first rows.

    Parameters
    ----------
    threads
        Partitions are shared out among so many threads, at most.

    Raises
    ------
    BindError
        E609 if types do not fit.
    DataError
        E610 or E611 if AFTER MATCH SKIP has no row to go to, E612 if the search takes too long,
        E616 if it has too much to remember,
        E614 if a value cannot be computed.
    UnsupportedError
        E607 if the pattern is too large.
    """
    quest = quest_of(plan, table)
    shares = quest.shares(max(min(threads, len(table) // ROWS_OF_A_THREAD), 1))
    if len(shares) <= 1:
        return pa.concat_tables(parts_of(quest))
    with ThreadPoolExecutor(len(shares)) as pool:
        found = list(pool.map(lambda share: list(parts_of(share)), shares))
    return pa.concat_tables([part for parts in found for part in parts])


def result_schema(plan: MatchPlan, schema: pa.Schema) -> pa.Schema:
    """Return the columns of the result for an input with these columns."""
    return recognize(plan, schema.empty_table()).schema


def recognize_parts(plan: MatchPlan, table: pa.Table) -> Iterator[pa.Table]:
    """Yield the result in parts, so that matches which overlap are never all in memory."""
    return parts_of(quest_of(plan, table))


def parts_of(quest: Quest) -> Iterator[pa.Table]:
    """Yield the result of a search in parts."""
    if quest.plan.frame is not None:
        yield from window_parts(quest)
        return
    for matches in find_all(quest):
        yield build_output(quest.plan, quest.rows, matches)


def quest_of(plan: MatchPlan, table: pa.Table) -> Quest:
    """Prepare the search of a clause over a table."""
    rows = ArrangedRows(with_derived(plan, table), plan.partition_by, plan.order_by)
    automaton = build_automaton(plan.pattern, plan.variables, plan.text)
    conditions = prepare_conditions(plan, rows)
    limits = _limits(plan, rows)
    _check_types(plan, rows, automaton, conditions)
    return Quest(plan, rows, rows.bounds, automaton, conditions, limits)


def _check_types(
    plan: MatchPlan, rows: ArrangedRows, automaton: Automaton, conditions: Sequence[Condition]
) -> None:
    """Refuse conditions whose types do not fit, before any row is tried."""
    nothing = np.zeros(0, np.int64)
    matches = MatchSet(automaton, plan.variables, nothing, nothing, nothing, nothing)
    frame = MeasureFrame(rows, matches, nothing, nothing, plan.text)
    for condition in conditions:
        if condition.rest is not None:
            negated = tree.Unary("NOT", condition.rest, span=condition.rest.span)
            frame.measure(negated)


def _limits(plan: MatchPlan, rows: ArrangedRows) -> Rows:
    """Return the first row that is too late for a match from each row; empty if none is."""
    if plan.frame is not None and plan.frame.end is not None:
        ends = np.repeat(rows.bounds[1:], np.diff(rows.bounds))
        frames: Rows = np.minimum(np.arange(rows.row_count) + plan.frame.end + 1, ends)
        return frames
    if plan.within is None:
        return np.zeros(0, np.int64)
    times, length, _ = within_of(plan, rows)
    limits = np.empty(rows.row_count, np.int64)
    first_rows_too_late(rows.bounds, times, length, limits)
    return limits


class Within(NamedTuple):
    """The times of rows and the length of WITHIN, in the unit of ORDER BY's first key.

    ``per_tick`` is how many of that unit are in a tick of a stream, as a fraction: ticks are
    microseconds, or whole numbers and nanoseconds as the column has them.
    """

    times: NDArray[Any]
    length: float
    per_tick: tuple[int, int]


def within_of(plan: MatchPlan, rows: ArrangedRows) -> Within:
    """Return the times of rows and the length of WITHIN.

    Raises
    ------
    DataError
        E614 if a time is NULL.
    BindError
        E609 if the first key of ORDER BY is neither a time nor a number.
    """
    assert plan.within is not None, "whoever calls this has asked before"
    column = rows.column(plan.order_by[0].column)
    bound = plan.within
    if column.null_count:
        message = "the first key of ORDER BY has a NULL, which WITHIN cannot measure"
        raise DataError([Diagnostic("E614", message, bound.span)], plan.text)
    times: NDArray[Any] | None = as_whole(column)
    # A whole number counts seconds, as Spark's CAST to TIMESTAMP has it.
    unit = "ms" if pa.types.is_date64(column.type) else getattr(column.type, "unit", "s")
    some, of = _DAYS_PER_US if pa.types.is_date32(column.type) else _PER_US[unit]
    if isinstance(bound, tree.Literal):
        assert isinstance(bound.value, int | float), "WITHIN takes an interval or a number"
        amount = float(bound.value)
    else:
        amount = bound.microseconds * some / of
    if times is None and pa.types.is_floating(column.type):
        times = column.to_numpy().astype(np.float64)
    if times is None:
        message = f"WITHIN needs times or numbers, but the key of ORDER BY is of type {column.type}"
        raise BindError([Diagnostic("E609", message, bound.span)], plan.text)
    as_it_is = unit == "ns" or pa.types.is_integer(column.type)
    return Within(times, amount, (1, 1) if as_it_is else (some, of))
