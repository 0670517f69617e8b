"""A plan and a table in, the table of its matches out: what one partition or one process does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.errors import BindError, DataError, Diagnostic, UnsupportedError
from cepheid.kernels import row_pattern as kernel
from cepheid.kernels.segments import first_rows_too_late
from cepheid.row_pattern import tree
from cepheid.row_pattern.arrange import ArrangedRows, Rows, as_whole
from cepheid.row_pattern.automaton import Automaton, build_automaton
from cepheid.row_pattern.conditions import Condition, prepare_conditions
from cepheid.row_pattern.matches import MatchSet
from cepheid.row_pattern.output import build_output
from cepheid.row_pattern.plan import MatchPlan
from cepheid.row_pattern.search import Search

MEMORY_BITS_MAX = 1 << 34
"""Bits for the rows and states of the longest partition; two gigabytes."""

ROOM_ROWS = 1 << 22
"""Rows of matches that are kept at a time, if matches overlap."""

_MODES = {
    "past_last_row": kernel.PAST_LAST_ROW,
    "to_next_row": kernel.TO_NEXT_ROW,
    "to_first": kernel.TO_FIRST,
    "to_last": kernel.TO_LAST,
}
_UNIT_US = {"s": 1e-6, "ms": 1e-3, "us": 1, "ns": 1_000}


def recognize(plan: MatchPlan, table: pa.Table) -> pa.Table:
    """Return the result of a MATCH_RECOGNIZE clause over a table.

    Partitions come in the order of their keys, matches in the order of their first rows.

    Raises
    ------
    BindError
        E609 if types do not fit.
    DataError
        E610 or E611 if AFTER MATCH SKIP has no row to go to, E612 if the search takes too long,
        E614 if a value cannot be computed.
    UnsupportedError
        E607 if the pattern is too large.
    """
    parts = list(recognize_parts(plan, table))
    return pa.concat_tables(parts)


def result_schema(plan: MatchPlan, schema: pa.Schema) -> pa.Schema:
    """Return the columns of the result for an input with these columns."""
    return recognize(plan, schema.empty_table()).schema


def recognize_parts(plan: MatchPlan, table: pa.Table) -> Iterator[pa.Table]:
    """Yield the result in parts, so that matches which overlap are never all in memory."""
    rows = ArrangedRows(table, plan.partition_by, plan.order_by)
    automaton = build_automaton(plan.pattern, plan.variables, plan.text)
    conditions = prepare_conditions(plan, rows)
    limits = _limits(plan, rows)
    local = all(condition.rest is None for condition in conditions)
    find = _find_local if local else _find_searching
    for matches in find(plan, rows, automaton, conditions, limits):
        yield build_output(plan, rows, matches)


def _limits(plan: MatchPlan, rows: ArrangedRows) -> Rows:
    """Return the first row that is too late for a match from each row; empty without WITHIN."""
    if plan.within is None:
        return np.zeros(0, np.int64)
    column = rows.column(plan.order_by[0].column)
    bound = plan.within
    if column.null_count:
        message = "the first key of ORDER BY is NULL somewhere, which WITHIN cannot measure"
        raise DataError([Diagnostic("E614", message, bound.span)], plan.text)
    times: NDArray[Any] | None = as_whole(column)
    if isinstance(bound, tree.Literal):
        assert isinstance(bound.value, int | float), "WITHIN takes an interval or a number"
        amount = float(bound.value)
    else:
        # A whole number counts seconds, as Spark's CAST to TIMESTAMP has it.
        unit = getattr(column.type, "unit", "s")
        amount = bound.microseconds * _UNIT_US[unit]
        if pa.types.is_date32(column.type):
            amount = bound.microseconds / 86_400_000_000
    if times is None and pa.types.is_floating(column.type):
        times = column.to_numpy().astype(np.float64)
    if times is None:
        message = f"WITHIN needs times or numbers, and ORDER BY has {column.type}"
        raise BindError([Diagnostic("E609", message, bound.span)], plan.text)
    limits = np.empty(rows.row_count, np.int64)
    first_rows_too_late(rows.bounds, times, amount, limits)
    return limits


def _targets(plan: MatchPlan) -> NDArray[np.bool_]:
    return np.array([name in plan.skip_targets for name in plan.variables] or [False], np.bool_)


def _find_local(
    plan: MatchPlan,
    rows: ArrangedRows,
    automaton: Automaton,
    conditions: Sequence[Condition],
    limits: Rows,
) -> Iterator[MatchSet]:
    """Yield the matches where every condition is known before the search."""
    masks = [c.mask for c in conditions if c.mask is not None]
    numbers = np.cumsum([c.mask is not None for c in conditions]) - 1
    of_variable = [
        int(n) if c.mask is not None else -1 for n, c in zip(numbers, conditions, strict=True)
    ]
    condition_of = np.array([-1, *(of_variable[v] for v in automaton.variable_of[1:])], np.int32)
    stacked = np.stack(masks) if masks else np.zeros((1, rows.row_count), np.bool_)
    longest = int(np.diff(rows.bounds).max(initial=0))
    bits = (longest + 1) * automaton.state_count
    if bits > MEMORY_BITS_MAX:
        message = (
            f"{automaton.state_count:,} places of the pattern times {longest:,} rows do not fit"
        )
        helps = ("repeat less often, permute fewer variables, or add PARTITION BY",)
        found = Diagnostic("E607", message, plan.pattern.span, helps=helps)
        raise UnsupportedError([found], plan.text)
    memo = np.zeros((bits >> 6) + 2, np.uint64)
    path, cursor = np.zeros(longest + 2, np.int32), np.zeros(longest + 2, np.int64)
    room = (
        max(rows.row_count, longest + (ROOM_ROWS if plan.skip.mode != "past_last_row" else 0)) + 1
    )
    starts, lengths, numbered = (np.empty(rows.row_count + 1, np.int64) for _ in range(3))
    states = np.empty(room, np.int16 if automaton.state_count < 2**15 else np.int32)
    resume = np.array([0, -1, 0, -1, 0, 0], np.int64)
    result = kernel.FULL
    while result == kernel.FULL:
        result = kernel.find_matches(
            rows.bounds, resume, stacked, condition_of, automaton.variable_of, automaton.first,
            automaton.moves, limits, _MODES[plan.skip.mode], _targets(plan),
            plan.rows == "all unmatched", memo, path, cursor, starts, lengths, numbered, states,
        )  # fmt: skip
        if result > kernel.FULL:
            _raise_skip(plan, int(result))
        count, used = int(resume[4]), int(resume[5])
        yield MatchSet(
            automaton, plan.variables, starts[:count], lengths[:count], numbered[:count],
            states[:used],
        )  # fmt: skip


def _raise_skip(plan: MatchPlan, code: int) -> None:
    name = plan.skip.variable
    if code == kernel.SKIP_TO_FIRST_ROW:
        message = f"AFTER MATCH SKIP TO `{name}` leads to the first row of the match"
        helps = ("the search would find the same match for ever: skip to another variable",)
        found = Diagnostic("E610", message, plan.skip.span, helps=helps)
    else:
        message = f"AFTER MATCH SKIP: a match has no row of `{name}`"
        helps = ("skip to a variable that every match has",)
        found = Diagnostic("E611", message, plan.skip.span, helps=helps)
    raise DataError([found], plan.text)


def _find_searching(
    plan: MatchPlan,
    rows: ArrangedRows,
    automaton: Automaton,
    conditions: Sequence[Condition],
    limits: Rows,
) -> Iterator[MatchSet]:
    """Yield the matches where conditions speak of earlier rows of the match."""
    search = Search(plan, rows, automaton, conditions, limits)
    targets, mode = _targets(plan), _MODES[plan.skip.mode]
    starts: list[int] = []
    lengths: list[int] = []
    numbers: list[int] = []
    states: list[int] = []

    def flush() -> MatchSet:
        first, length, number = (np.array(p, np.int64) for p in (starts, lengths, numbers))
        entries = np.array(states, np.int32)
        found = MatchSet(automaton, plan.variables, first, length, number, entries)
        for part in (starts, lengths, numbers, states):
            part.clear()
        return found

    for begin, stop in zip(rows.bounds[:-1].tolist(), rows.bounds[1:].tolist(), strict=True):
        for found in search.run(begin, stop, mode, targets):
            if isinstance(found, int):
                _raise_skip(plan, -found)
                continue
            if found.states is None:
                if plan.rows != "all unmatched":
                    continue
                length = -1
            else:
                length = len(found.states)
                states += found.states
            starts.append(found.start)
            lengths.append(length)
            numbers.append(found.number)
            if len(states) > ROOM_ROWS:
                yield flush()
    yield flush()
