"""Convert matches from arrays to Arrow tables: one row per match (§7)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.events.arriving import shown_as_texts
from cepheid.expressions.arrow import arrow_of
from cepheid.expressions.evaluate import evaluate_vector
from cepheid.expressions.vectors import Vector, full_length
from cepheid.kinds.trend.listing.found import Aligned, Found, Told
from cepheid.kinds.trend.listing.global_predicates import (
    merge_variants,
    take_rows,
    value_of_match,
)
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.results import times_of_windows
from cepheid.language import tree
from cepheid.plans.marks import is_mark, variable_of
from cepheid.plans.plan import LAST_EVENT, OutputKind, ResultColumn, WindowKind

MATCH_ID = "match_id"
EVENTS = "events"
VARIABLE = "variable"
PART = "match"


def build_matches(
    job: Job, found: Found | Aligned, starts: NDArray[np.int64], columns: Columns, first_id: int
) -> pa.Table:
    """Build the rows of some matches.

    Parameters
    ----------
    starts
        Where the window of each match begins.
    first_id
        The number of the first match.
    """
    plan = job.plan
    rows: dict[str, Any] = {}
    listing = plan.output.kind is OutputKind.MATCHES
    if listing:
        rows[MATCH_ID] = pa.array(np.arange(first_id, first_id + len(found), dtype=np.int64))
    for name in plan.partition.group_by:
        rows[name] = _take(columns, name, found.leading)
    rows |= columns_of_windows(job, starts, columns.batch.schema)
    if listing:
        rows[EVENTS] = events_of_matches(job, found.loose(), columns)
    for column in plan.output.columns:
        if column.expression is not None:
            rows[column.name] = _computed(job, column.expression, found.loose(), columns)
        elif column.variable is None:
            assert column.attribute is not None, "only attributes are listed"
            rows[column.name] = _take(columns, column.attribute, found.leading)
        elif column.variable == LAST_EVENT:
            assert column.attribute is not None, "its time"
            rows[column.name] = _take(columns, column.attribute, found.ending)
        else:
            rows[column.name] = _attribute(job, column, found, columns)
    return pa.table(rows)


def _take(columns: Columns, name: str, rows: Any) -> Any:
    array: Any = columns.take(name, rows)
    schema = columns.batch.schema
    is_text = name in schema.names and shown_as_texts(schema.field(name))
    return array.dictionary_decode() if is_text else array


def _lists(ptr: NDArray[np.int64], values: Any) -> Any:
    """Build lists of values; match n has those from ptr[n] to ptr[n + 1]."""
    offsets: Any = pa.array(ptr.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values)


def columns_of_windows(
    job: Job, starts: NDArray[np.int64], schema: pa.Schema
) -> dict[str, pa.Array[Any]]:
    """Build the columns of windows, if there are any."""
    window = job.plan.window
    if window.kind is WindowKind.NONE:
        return {}
    both = {"window_start": starts, "window_end": starts + window.within}
    if window.kind is WindowKind.COUNT:
        return {name: pa.array(values) for name, values in both.items()}
    return {name: times_of_windows(values, job, schema) for name, values in both.items()}


def tell(job: Job, columns: Columns) -> Told | None:
    """Collect what matches tell about events and a search can write at once; None for nothing."""
    if job.plan.output.kind is not OutputKind.MATCHES or job.patterns > 1:
        return None
    names = [variable_of(name).encode() for name in job.variables]
    length = len(names[0]) if len(set(map(len, names))) == 1 else 0
    letters = np.frombuffer(b"".join(names) if length else b"", np.uint8)
    words = {name: columns.words(name) for name in columns.batch.column_names if not is_mark(name)}
    known = {name: values for name, values in words.items() if values is not None}
    return Told(known, letters.reshape(len(names), length))


def events_of_matches(job: Job, found: Found, columns: Columns) -> Any:
    """Build the events of matches: lists of structures with the variable first, then the time.

    The events of a set of matches tell which of its matches they are in (§2.10).
    """
    fields: dict[str, Any] = {VARIABLE: _names(job, found)}
    if job.patterns > 1:
        part = np.zeros(0, np.int64) if found.part is None else found.part
        fields[PART] = pa.array(part, pa.int64())
    told = {} if found.told is None else found.told.words
    return _lists(found.ptr, whole_events(job, found.rows, columns, fields, told))


def _names(job: Job, found: Found) -> Any:
    """Build the names of the variables that matches bind."""
    names = list(map(variable_of, job.variables))
    if found.told is None or not len(found.told.letters):
        texts: Any = pa.array(names, pa.string())
        return texts.take(pa.array(found.variables))
    letters: Any = found.told.letters
    count = len(found.rows)
    ends = _ends(len(names[0].encode()), 1 << count.bit_length())
    buffers = [None, ends.slice(0, 4 * (count + 1)), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


@functools.lru_cache(maxsize=4)
def _ends(length: int, count: int) -> Any:
    """Return where texts of one length end; batch after batch needs the same."""
    ends: Any = np.arange(0, length * count + 1, length, dtype=np.int32)
    return pa.py_buffer(ends)


def whole_events(
    job: Job, rows: NDArray[np.int64], columns: Columns, fields: dict[str, Any],
    told: Mapping[str, NDArray[np.int64]],
) -> Any:  # fmt: skip
    """Build structures of some fields, then the time and all other columns of events.

    The words of columns that are ``told`` need not be looked up.
    """
    fields = dict(fields)
    time = job.plan.time
    shown = [name for name in columns.batch.column_names if not is_mark(name)]
    ordered = [time, *(name for name in shown if name != time)]
    for name in ordered:
        # The variable replaces a column of the same name.
        label = f"event_{name}" if name in fields else name
        known = told.get(name)
        fields[label] = (
            _take(columns, name, rows) if known is None else columns.of_words(name, known)
        )
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _computed(
    job: Job,
    expression: tree.Expression,
    found: Found,
    columns: Columns,
) -> Any:
    """Evaluate an expression over single matches; a plain attribute keeps its type."""
    leading = found.leading
    found, variables = merge_variants(found, job.variables)
    if isinstance(expression, tree.Attribute):
        rows = _rows_of(variables, expression, found)
        return _take(columns, expression.attribute.text, rows)
    leaves: dict[str, Vector] = {}

    def as_column(node: tree.Node) -> tree.Node:
        match node:
            case tree.Word(text=text):
                vector = take_rows(columns.vector(text), leading)
            case tree.Attribute():
                vector = value_of_match(node, columns, variables, found)
            case _:
                return node
        label = tree.Name(span=node.span, text=f"{len(leaves)}")
        leaves[label.text] = vector
        return tree.Attribute(span=node.span, variable=label, attribute=label)

    placed = tree.transform(expression, as_column)
    assert isinstance(placed, tree.Expression), "an expression stays one"
    vector = evaluate_vector(placed, lambda leaf: leaves[leaf.attribute.text], len(found))
    array = arrow_of(full_length(vector, len(found)))
    # Texts of several chunks are wide; the type must not depend on how events are cut.
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) else array


def _rows_of(variables: Sequence[str], attribute: tree.Attribute, found: Found) -> Any:
    """Find the rows of the first or last event of a variable; NULL where it is not bound."""
    mine = np.flatnonzero(found.variables == variables.index(attribute.variable.text))
    if attribute.anchor is tree.Anchor.FIRST:
        mine = mine[::-1]  # Of several assignments, the last one counts.
    rows = np.full(len(found), -1, np.int64)
    rows[found.owner[mine]] = found.rows[mine]
    return pa.array(rows, mask=rows < 0)


def _attribute(job: Job, column: ResultColumn, matches: Found | Aligned, columns: Columns) -> Any:
    """Build an attribute of a variable: its value, or the list of values (§7.3)."""
    assert column.variable is not None
    assert column.attribute is not None
    mine = np.array([variable_of(v) == column.variable for v in job.variables])
    only = None if column.repeated else matches.only_rows(mine)
    if only is not None:
        return _take(columns, column.attribute, only)
    found = matches.loose()
    wanted = mine[found.variables]
    bound = found.rows[wanted]
    ptr = np.concatenate([[0], np.cumsum(wanted)])[found.ptr]
    if column.repeated:
        return _lists(ptr, _take(columns, column.attribute, bound))
    counts = np.diff(ptr)
    if (counts == 1).all():
        return _take(columns, column.attribute, bound)
    rows = np.full(len(found), -1, np.int64)
    rows[np.repeat(np.arange(len(found)), counts)] = bound
    return _take(columns, column.attribute, pa.array(rows, mask=rows < 0))
