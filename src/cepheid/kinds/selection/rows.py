"""Evaluate bound expressions on a table: masks and result columns of a SELECT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.expressions.arrow import arrow_of
from cepheid.expressions.evaluate import evaluate_vector, true_mask
from cepheid.expressions.vectors import Vector
from cepheid.language import tree
from cepheid.plans.selection import SelectColumn, Selection

Rows = NDArray[np.int64]
Lookup = Callable[[tree.Attribute], Vector]


def lookup_in(columns: Columns) -> Lookup:
    """Build a function that looks up the column of an attribute of one stream."""
    return lambda attribute: columns.vector(attribute.attribute.text)


def holds(
    conditions: Sequence[tree.Expression], lookup: Lookup, length: int
) -> NDArray[np.bool_] | None:
    """Mark the rows where all conditions are true; None for all rows."""
    mask: NDArray[np.bool_] | None = None
    for condition in conditions:
        found = true_mask(condition, lookup, length)
        mask = found if mask is None else mask & found
    return mask


def holds_in(columns: Columns, conditions: Sequence[tree.Expression]) -> NDArray[np.bool_] | None:
    """Mark the events of one stream where all conditions are true; None for all of them."""
    masks = [columns.mask(condition) for condition in conditions]
    return np.logical_and.reduce(masks) if masks else None


def project_rows(select: Selection, kept: pa.Table) -> pa.Table:
    """Build the result columns of events for which WHERE is true."""
    columns = Columns(kept)
    return project(
        select.columns,
        lambda attribute: columns.arrow(attribute.attribute.text),
        lookup_in(columns),
        len(kept),
    )


def project(
    columns: Sequence[SelectColumn],
    as_it_came: Callable[[tree.Attribute], Any],
    lookup: Lookup,
    length: int,
) -> pa.Table:
    """Build result columns; a plain attribute keeps its type."""
    arrays = []
    for column in columns:
        expression = column.expression
        assert expression is not None, "columns are known once there is a schema"
        if isinstance(expression, tree.Attribute):
            arrays.append(as_it_came(expression))
        else:
            arrays.append(arrow_of(evaluate_vector(expression, lookup, length)))
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def take_vector(vector: Vector, rows: Rows) -> Vector:
    """Select some rows of a vector."""
    valid = None if vector.valid is None else vector.valid[rows]
    if isinstance(vector.data, np.ndarray):
        return Vector(vector.data[rows], valid, vector.kind)
    return Vector(vector.data.take(rows), valid, vector.kind)
