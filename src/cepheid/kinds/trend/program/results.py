"""Build a result table from kernel rows: sum partitions to groups, and convert numbers.

Numbers arrive wide, as a mantissa and a power of two, so sums over partitions, averages and
logarithms are right at any magnitude; only a COUNT or SUM itself becomes infinite above 1.8e308.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.arrays.columns import NO_VALUE, KeyTable, values_of_keys
from cepheid.events.decimals import is_whole
from cepheid.events.nanoseconds import type_of_times
from cepheid.events.schema import ValueKind
from cepheid.expressions.evaluate import true_mask
from cepheid.expressions.tree import contains
from cepheid.expressions.vectors import Vector, vector_of
from cepheid.kernels.compose import add_rows
from cepheid.kernels.distinct import distinct
from cepheid.kinds.trend.planning.accumulators import Extreme, Part
from cepheid.kinds.trend.program.conjunction import combine_wide
from cepheid.kinds.trend.program.counted_keys import with_keys
from cepheid.kinds.trend.program.exact import exact_columns, exact_numbers
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.row_order import order_of
from cepheid.kinds.trend.program.spreads import spread_column
from cepheid.kinds.trend.program.wide import steps, to_double
from cepheid.language import tree
from cepheid.plans.plan import AggregateColumn, WindowKind, WindowPlan


class Added(NamedTuple):
    """Rows of windows and groups: sums over partitions, and smallest value keys."""

    window: NDArray[np.int64]
    group: NDArray[np.int64]
    numbers: NDArray[Any]
    values: NDArray[np.int64]


Groups = tuple[NDArray[np.int64], list[Any]]
"""The group of every key, and for every attribute the values of all groups."""


def build_table(
    job: Job,
    rows: list[list[Rows]],
    keys: KeyTable,
    schema: pa.Schema,
    groups: Groups | None = None,
) -> pa.Table:
    """Build the result table of the rows of complete windows.

    Parameters
    ----------
    rows
        For each program the rows of single partitions; every window is there with all partitions.
    schema
        The schema of the events: groups and extremes keep the types of their columns.
    groups
        The result of ``groups_of``, if it is known.
    """
    if any(len(part.key) for found in rows for part in found):
        return _build(job, rows, keys, schema, groups)
    # Most steps of a live query close no window.
    if job.no_rows is None or not job.no_rows[0].equals(schema, check_metadata=True):
        table = _build(job, rows, keys, schema, groups)
        if not set(job.plan.partition.group_by) <= set(schema.names):
            return table  # The types of its columns are those of keys.
        job.no_rows = schema, table
    return job.no_rows[1]


def _build(
    job: Job, rows: list[list[Rows]], keys: KeyTable, schema: pa.Schema, groups: Groups | None
) -> pa.Table:
    kinds_of_numbers = 1 + len(job.moduli)
    plain = rows[::kinds_of_numbers]
    combine = job.patterns > 1 and job.plan.window.kind is not WindowKind.TRAILING
    merged = _sets(plain, job) if combine else _merge(plain[0], job)
    if groups is None:
        # Of many keys, few have rows: only these are sorted.
        few = 2 * len(merged.key) < len(keys)
        groups = groups_of(job, keys, distinct(merged.key) if few else None)
    group_of, values_of = groups
    merged = with_keys(job, merged)
    added = Added(*_add_up(merged, group_of, job.plan.window))
    aggregates = _aggregates(job, added, schema)
    having, exact_ones = job.plan.output.having, job.plan.numbers is tree.Numbers.EXACT
    if having is not None and not exact_ones and not contains(having, tree.Word):
        # Of a thousand rules, most rows end here: they need neither keys nor times.
        kept = _having(job, having, aggregates, {}, len(added.window))
        added = Added(*(part[kept] for part in added))
        aggregates = {name: values.filter(pa.array(kept)) for name, values in aggregates.items()}
        return _columns(job, _head(job, added, values_of, schema), aggregates, added.numbers)
    columns = _head(job, added, values_of, schema)
    if exact_ones:
        exact = exact_numbers(job, rows if combine else rows[:kinds_of_numbers], merged)
        cells = (added.window, added.group)
        aggregates |= exact_columns(job, merged, group_of, exact, added.numbers, cells, columns)
    return _table(job, columns, aggregates, added.numbers)


def build_added(job: Job, added: Added, values_of: list[Any], schema: pa.Schema) -> pa.Table:
    """Build a table of rows whose partitions are added up already, in their order."""
    columns = _head(job, added, values_of, schema)
    return _table(job, columns, _aggregates(job, added, schema), added.numbers)


def _head(job: Job, added: Added, values_of: list[Any], schema: pa.Schema) -> dict[str, Any]:
    """Build the columns of groups and windows."""
    columns: dict[str, Any] = {}
    kinds = {field.name: field.type for field in schema}
    for name, values in zip(job.plan.partition.group_by, values_of, strict=True):
        kind = kinds.get(name, values.type)
        if pa.types.is_integer(kind) and values.type == pa.int64():
            # Arrow takes longer to choose its functions than for a few values.
            taken = values.to_numpy()[added.group]
            columns[name] = pa.array(taken.astype(kind.to_pandas_dtype(), copy=False))
            continue
        mine = values.take(pa.array(added.group))
        columns[name] = mine if mine.type == kind else mine.cast(kind)
    return columns | _window_columns(job, added.window, schema)


def _aggregates(job: Job, added: Added, schema: pa.Schema) -> dict[str, Any]:
    kinds = {field.name: field.type for field in schema}
    found = {
        column.name: _aggregate(job, column, added.numbers, added.values, kinds)
        for column in job.plan.output.aggregates
    }
    spreads = job.plan.output.spreads
    return found | {spread.name: spread_column(job, spread, added.numbers) for spread in spreads}


def _table(
    job: Job, columns: dict[str, Any], aggregates: dict[str, Any], numbers: NDArray[Any]
) -> pa.Table:
    """Choose and name the columns of the result, and keep the rows that HAVING wants."""
    table = _columns(job, columns, aggregates, numbers)
    if job.plan.output.having is not None:
        kept = _having(job, job.plan.output.having, aggregates, columns, len(table))
        table = table.filter(pa.array(kept))
    return table


def _columns(
    job: Job, columns: dict[str, Any], aggregates: dict[str, Any], numbers: NDArray[Any]
) -> pa.Table:
    """Add the columns of aggregates to those of groups and windows."""
    for result in job.plan.output.columns:
        if result.aggregate is not None and not result.log2:
            columns[result.name] = aggregates[result.aggregate]
        elif result.aggregate is not None:
            source = next(a for a in job.plan.output.aggregates if a.name == result.aggregate)
            columns[result.name] = _log2(job, source, numbers, aggregates[source.name])
        elif result.attribute is not None:
            columns[result.name] = columns[result.attribute]
    return pa.table(columns)


def _merge(rows: list[Rows], job: Job) -> Rows:
    if len(rows) == 1:
        return rows[0]
    if rows:
        return Rows(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))
    return Rows(
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros((0, len(job.parts)), np.complex128),
        np.zeros((0, len(job.extremes)), np.int64),
    )


def _sets(rows: list[list[Rows]], job: Job) -> Rows:
    """Combine the rows of the patterns that AND joins, window by window (§2.10)."""
    sides = [_merge(found, job) for found in rows]
    first = sides[0]
    known = zip(first.key.tolist(), first.window.tolist(), strict=True)
    place = {name: n for n, name in enumerate(known)}
    numbers = [np.zeros_like(first.numbers) for _ in sides]
    values = [np.full_like(first.values, NO_VALUE) for _ in sides]
    for number, side in enumerate(sides):
        names = zip(side.key.tolist(), side.window.tolist(), strict=True)
        at = np.array([place.get(name, -1) for name in names], np.int64)
        numbers[number][at[at >= 0]] = side.numbers[at >= 0]
        values[number][at[at >= 0]] = side.values[at >= 0]
    found, least = combine_wide(numbers, values)
    kept = found[:, 0].real > 0
    return Rows(first.key[kept], first.window[kept], found[kept], least[kept])


def groups_of(job: Job, keys: KeyTable, used: NDArray[np.int64] | None = None) -> Groups:
    """Compute the group of every key, and the values of every group, sorted by value.

    If only some keys are ``used``, the groups of others may be wrong.
    """
    places = [job.plan.partition.attributes.index(name) for name in job.plan.partition.group_by]
    if not places or not len(keys):
        return np.zeros(max(len(keys), 1), np.int64), [pa.array([]) for _ in places]
    if used is None:
        return keys.known(("groups", *places), lambda: _groups_of(keys, places, None))
    return _groups_of(keys, places, used)


def _groups_of(keys: KeyTable, places: list[int], used: NDArray[np.int64] | None) -> Groups:
    arrays = keys.arrays()
    if places == [0] and len(arrays) == 1:
        # Every key has a value of its own.
        mine = arrays[0] if used is None else arrays[0].take(pa.array(used))
        if used is None and _rises(mine):
            return np.arange(len(keys)), [mine]
        order = pc.sort_indices(mine)
        at = np.asarray(order) if used is None else used[np.asarray(order)]
        ranks = np.zeros(len(keys), np.int64)
        ranks[at] = np.arange(len(at))
        return ranks, [mine.take(order)]
    rank = first = np.zeros(len(keys), np.int64)
    for place in places:
        encoded = arrays[place].dictionary_encode()
        order = np.asarray(pc.sort_indices(encoded.dictionary))
        rank_of = np.empty(len(order), np.int64)
        rank_of[order] = np.arange(len(order))
        # Renumbered for each attribute, so that numbers stay small.
        both = rank * len(order) + rank_of[np.asarray(encoded.indices)]
        _, first, rank = np.unique(both, return_index=True, return_inverse=True)
    return rank, [arrays[place].take(pa.array(first)) for place in places]


def _rises(values: Any) -> bool:
    """Check whether values are whole numbers in their order, as the first few are numbered."""
    if values.type != pa.int64():
        return False
    numbers = values.to_numpy()
    return bool((numbers[1:] > numbers[:-1]).all())


def _add_up(
    rows: Rows, group_of: NDArray[np.int64], plan: WindowPlan
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any], NDArray[np.int64]]:
    """Sum the rows of one window and group, in the order of windows, groups and keys."""
    group = group_of[rows.key] if len(rows.key) else rows.key
    if not group.any() and (rows.window[1:] > rows.window[:-1]).all():
        return rows.window, group, rows.numbers, rows.values
    order = order_of(rows, group, plan)
    window, group = rows.window[order], group[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (window[1:] != window[:-1]) | (group[1:] != group[:-1])
    if new.all():
        return window, group, rows.numbers[order], rows.values[order]
    place = np.cumsum(new) - 1
    count = int(new.sum())
    numbers = np.zeros((count, rows.numbers.shape[1]), rows.numbers.dtype)
    extremes = np.full((count, rows.values.shape[1]), NO_VALUE, np.int64)
    add_rows(rows.numbers[order], rows.values[order], place, numbers, extremes, np.uint64(1))
    return window[new], group[new], numbers, extremes


def _window_columns(job: Job, window: NDArray[np.int64], schema: pa.Schema) -> dict[str, Any]:
    plan = job.plan.window
    if plan.kind is WindowKind.NONE:
        return {}
    if plan.kind is WindowKind.SLIDING:
        end = window * plan.pane
        start = end - plan.within
    elif plan.kind is WindowKind.TRAILING:
        start, end = window - plan.within, window
    else:
        start, end = window, window + plan.within
    if plan.kind is WindowKind.COUNT:
        return {"window_start": pa.array(start), "window_end": pa.array(end)}
    return {
        "window_start": times_of_windows(start, job, schema),
        "window_end": times_of_windows(end, job, schema),
    }


def times_of_windows(values: NDArray[np.int64], job: Job, schema: pa.Schema) -> Any:
    """Convert times to the type of the time column."""
    return time_array(values, job.plan.time, schema)


def time_array(values: NDArray[np.int64], time: str, schema: pa.Schema) -> Any:
    """Convert times to the type of a column."""
    kind = schema.field(time).type if time in schema.names else pa.int64()
    whole: Any = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(type_of_times(kind), len(whole), [None, pa.py_buffer(whole)])


def _aggregate(
    job: Job,
    column: AggregateColumn,
    numbers: NDArray[Any],
    extremes: NDArray[np.int64],
    kinds: dict[str, pa.DataType],
) -> Any:
    function = tree.AggregateFunction
    if column.distinct:
        return _count(numbers[:, len(job.parts)], column.kind)
    if column.variable is None:
        return _count(numbers[:, 0], column.kind)
    if column.attribute is None:
        bindings = numbers[:, job.parts.index(Part("bindings", column.variable))]
        return _count(bindings, column.kind)
    if column.function in (function.MIN, function.MAX):
        largest = column.function is function.MAX
        place = job.extremes.index(Extreme(column.variable, column.attribute, largest))
        return _extreme(
            extremes[:, place], kinds.get(column.attribute, pa.float64()), largest=largest
        )
    total = numbers[:, job.parts.index(Part("sum", column.variable, column.attribute))]
    values = numbers[:, job.parts.index(Part("values", column.variable, column.attribute))]
    none = values.real == 0
    if column.function is function.SUM:
        return pa.array(to_double(total), mask=none)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.ldexp(total.real / values.real, steps(total.imag - values.imag))
    return pa.array(mean, mask=none)


def _count(numbers: NDArray[Any], kind: ValueKind) -> Any:
    """Convert a count; a whole one is below 2^53, where doubles are exact (§5.4)."""
    doubles = to_double(numbers)
    return pa.array(np.rint(doubles).astype(np.int64) if kind is ValueKind.INTEGER else doubles)


def _extreme(keys: NDArray[np.int64], kind: pa.DataType, *, largest: bool) -> Any:
    none = keys == NO_VALUE
    double = pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and not is_whole(kind))
    plain = values_of_keys(np.where(none, 0, keys), largest=largest, double=double)
    array = pa.array(plain, mask=none)
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("us", kind.tz))
    if pa.types.is_date(kind):
        return array.cast(pa.timestamp("us")).cast(pa.date32())
    return array.cast(pa.duration("us")) if pa.types.is_duration(kind) else array


def _log2(job: Job, column: AggregateColumn, numbers: NDArray[Any], values: Any) -> Any:
    """Compute the logarithm of an aggregate; of counts and sums before they can overflow (§5.4)."""
    what = {"COUNT": "bindings", "SUM": "sum"}.get(column.function.value)
    if what is None or column.distinct:
        plain = values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
        with np.errstate(divide="ignore", invalid="ignore"):
            return pa.array(np.log2(plain), mask=plain <= 0)
    part = Part(what, column.variable, column.attribute) if column.variable else Part("count")
    wide = numbers[:, job.parts.index(part)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return pa.array(np.log2(wide.real) + wide.imag, mask=wide.real <= 0)


def _having(
    job: Job,
    having: tree.Expression,
    aggregates: dict[str, Any],
    columns: dict[str, Any],
    length: int,
) -> NDArray[np.bool_]:
    """Evaluate HAVING over result columns; look aggregates up by definition, not by name."""
    found = {
        (a.function, a.variable, a.attribute, a.distinct): aggregates[a.name]
        for a in job.plan.output.aggregates
    }
    placed: dict[str, Any] = {}

    def as_column(node: tree.Node) -> tree.Node:
        match node:
            case tree.Aggregate(function=function, variable=variable, attribute=attribute):
                names = [name.text if name else None for name in (variable, attribute)]
                keys = tuple(name.text for name in node.distinct)
                values = found[function, names[0], names[1], keys]
            case tree.Word(text=text):
                values = columns[text] if text in columns else aggregates[text]
            case _:
                return node
        label = tree.Name(span=node.span, text=f"{len(placed)}")
        placed[label.text] = values
        return tree.Attribute(span=node.span, variable=label, attribute=label)

    def lookup(attribute: tree.Attribute) -> Vector:
        return vector_of(placed[attribute.attribute.text])

    return true_mask(tree.transform(having, as_column), lookup, length)
