"""Reconstruct integers of up to 38 digits from residues (``NUMBERS exact``, §5.5).

Counts and sums are computed modulo several primes beside the default numbers. The Chinese
remainder theorem gives the one integer between -M/2 and M/2 that has all these residues, M being
the product of the primes; the default numbers tell whether the answer is within that range.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.kinds.trend.planning.accumulators import Part
from cepheid.kinds.trend.program.conjunction import Whole, combine
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.language import tree
from cepheid.plans.plan import TrendPlan

DIGITS_MAX = 38


WHOLE_MAX = 2.0**53
"""Doubles represent every integer below exactly."""


def small_counts(plan: TrendPlan) -> TrendPlan | None:
    """Replan with default numbers if they are likely exact, else None.

    Counts without a repeated event are powers of the window's length, and most fit a double. They
    are only added, never subtracted, so a count below 2^53 was not rounded.
    """
    output, counts = plan.output, tree.AggregateFunction.COUNT
    if plan.numbers is not tree.Numbers.EXACT or output.having is not None:
        return None
    if len(plan.patterns) > 1 or plan.patterns[0].recursive:
        return None
    if any(column.function is not counts for column in output.aggregates):
        return None
    return msgspec.structs.replace(plan, numbers=tree.Numbers.DEFAULT)


def are_exact(rows: pa.Table, plan: TrendPlan) -> bool:
    """Check whether all counts of a result are small enough to be exact as doubles."""
    shown = [c.name for c in plan.output.columns if c.aggregate is not None and not c.log2]
    return all((np.asarray(rows[name]) < WHOLE_MAX).all() for name in shown)


def exact_numbers(job: Job, rows: list[list[Rows]], wanted: Rows) -> list[list[int]]:
    """Compute the exact numbers of partitions, row by row in the order of ``wanted``."""
    stride = 1 + len(job.moduli)
    found = [
        _combine(
            job,
            [_residues(part, wanted, len(job.parts)) for part in rows[first + 1 : first + stride]],
        )
        for first in range(0, len(rows), stride)
    ]
    if len(found) == 1:
        return found[0]
    columns = [[Whole([row[a] for row in side]) for a in range(len(job.parts))] for side in found]
    combined = [part.values for part in combine(columns)]
    return [list(row) for row in zip(*combined, strict=True)]


def _residues(rows: list[Rows], wanted: Rows, parts: int) -> NDArray[np.uint64]:
    """Look up the residues of the wanted rows; a missing row is zero."""
    place = {
        name: i
        for i, name in enumerate(zip(wanted.key.tolist(), wanted.window.tolist(), strict=True))
    }
    residues = np.zeros((len(place), parts), np.uint64)
    for part in rows:
        for i, name in enumerate(zip(part.key.tolist(), part.window.tolist(), strict=True)):
            # A closed window may be reported again, empty.
            if name in place and part.numbers[i].any():
                residues[place[name]] = part.numbers[i]
    return residues


def _combine(job: Job, residues: list[NDArray[np.uint64]]) -> list[list[int]]:
    """Combine the residues of each row to integers."""
    product = 1
    for modulus in job.moduli:
        product *= modulus
    factors = [product // m * pow(product // m, -1, m) for m in job.moduli]
    return [
        [
            _centred(sum(int(r) * f for r, f in zip(values, factors, strict=True)), product)
            for values in zip(*(array[row] for array in residues), strict=True)
        ]
        for row in range(len(residues[0]))
    ]


def _centred(number: int, product: int) -> int:
    number %= product
    return number - product if number > product // 2 else number


def exact_columns(
    job: Job,
    rows: Rows,
    group_of: NDArray[np.int64],
    exact: list[list[int]],
    numbers: NDArray[Any],
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    names: dict[str, Any],
) -> dict[str, Any]:
    """Build COUNT and SUM columns as DECIMAL(38,0), partitions summed to groups.

    Parameters
    ----------
    places
        The window and the group of every row of the result.
    names
        The columns of the result that identify windows and groups.

    Raises
    ------
    DataError
        E510 if a number does not fit, with its window and group.
    """
    windows, groups = (numbers_.tolist() for numbers_ in places)
    place = {name: i for i, name in enumerate(zip(windows, groups, strict=True))}
    totals = [[0] * len(job.parts) for _ in place]
    for key, start, values in zip(rows.key.tolist(), rows.window.tolist(), exact, strict=True):
        total = totals[place[start, int(group_of[key])]]
        for a, value in enumerate(values):
            total[a] += value
    columns = {}
    for column in job.plan.output.aggregates:
        function = tree.AggregateFunction
        if column.function not in (function.COUNT, function.SUM) or column.distinct:
            continue
        what = "sum" if column.attribute else "bindings"
        part = Part(what, column.variable, column.attribute) if column.variable else Part("count")
        a = job.parts.index(part)
        _check_size(column.name, numbers[:, a], names)
        empty = [False] * len(totals)
        if what == "sum":
            values_part = job.parts.index(Part("values", column.variable, column.attribute))
            empty = [total[values_part] == 0 for total in totals]
        cells = [None if none else Decimal(t[a]) for t, none in zip(totals, empty, strict=True)]
        columns[column.name] = pa.array(cells, pa.decimal128(DIGITS_MAX, 0))
    return columns


def _check_size(name: str, numbers: NDArray[Any], names: dict[str, Any]) -> None:
    with np.errstate(divide="ignore"):
        digits = (np.log2(np.abs(numbers.real)) + numbers.imag) * np.log10(2)
    large = np.flatnonzero(digits > DIGITS_MAX - 1e-6)
    if len(large):
        row = int(large[0])
        message = f"`{name}` has about {int(digits[row]) + 1} digits, more than {DIGITS_MAX}"
        message += _whereabouts(names, row)
        helps = ("leave `NUMBERS exact` out, or return LOG2 of it",)
        raise DataError([Diagnostic("E510", message, helps=helps)])


def _whereabouts(names: dict[str, Any], row: int) -> str:
    """Describe the window and the group of a row, if the query has them."""
    values = {name: _shown(column[row]) for name, column in names.items()}
    start, end = values.pop("window_start", None), values.pop("window_end", None)
    groups = " and ".join(f"`{name}` is {value}" for name, value in values.items())
    where = "" if start is None else f", in the window from {start} to {end}"
    return where + (f", where {groups}" if groups else "")


def _shown(value: Any) -> str:
    """Format an Arrow value; times may be outside Python's range."""
    if pa.types.is_timestamp(value.type):
        return str(value.cast(pa.timestamp(value.type.unit)).cast(pa.string()))
    return repr(value.as_py())
