"""Filter finished matches by the global predicates (§4.5), a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import NO_VALUE, Columns, value_keys, values_of_keys
from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import ValueKind
from cepheid.expressions.evaluate import true_mask
from cepheid.expressions.format import as_written
from cepheid.expressions.vectors import Vector
from cepheid.kinds.trend.listing.found import Found
from cepheid.language import tree
from cepheid.memory_limits import current
from cepheid.plans.marks import variable_of
from cepheid.plans.plan import GlobalPredicate

CHOICES_MAX = 1 << 20
"""Combinations of events of plain variables that are evaluated together."""

Leaf = tree.Attribute | tree.Aggregate


def keep_matches(
    predicates: Sequence[GlobalPredicate],
    columns: Columns,
    variables: Sequence[str],
    found: Found,
) -> Found:
    """Keep the matches for which all predicates are true."""
    if predicates:
        found, variables = merge_variants(found, variables)
    for predicate in predicates:
        if not len(found):
            return found
        plain = _plain_variables(predicate.expression, variables)
        kept = np.ones(len(found), np.bool_)
        if len(plain) < 2:
            kept = _judge(predicate.expression, plain, columns, variables, found)
        else:
            for first, last in _shares(found, plain):
                part = _slice(found, first, last)
                kept[first:last] = _judge(predicate.expression, plain, columns, variables, part)
        found = found.take(kept)
    return found


def merge_variants(found: Found, variables: Sequence[str]) -> tuple[Found, Sequence[str]]:
    """Name events by the variables that were written, whatever their marks (§2.12)."""
    names = list(map(variable_of, variables))
    if len(set(names)) == len(names):
        return found, variables
    numbers = np.array([names.index(name) for name in names], found.variables.dtype)
    return Found(*found[:4], numbers[found.variables]), names


EVENT_BYTES = 4
"""The bytes that an event of a checked match counts for, in the limit of a state."""


NEIGHBOURS = "compare neighbours instead: `S.price > NEXT(S).price` needs no matches"


def check_built(
    count: int, events: int, event_bytes: int = EVENT_BYTES, *, other: str = NEIGHBOURS
) -> None:
    """Refuse to build more matches than the limit, in order to filter or combine them.

    A match of a hundred events costs as much as fifty of two, so both are counted.

    Parameters
    ----------
    event_bytes
        The bytes that an event counts for.
    other
        What one can do beside changing windows, patterns and limits.

    Raises
    ------
    DataError
        E512
    """
    bound = current()
    name, what, amount = "rows", "matches", bound.rows
    if count <= bound.rows:
        name, what, amount = "state", "events of matches", bound.state // event_bytes
        if events <= amount:
            return
    message = f"a window has more than {amount:,} {what} to build and check"
    helps = (
        "make the window shorter, or make PATTERN and local predicates stricter",
        other,
        f"`with cepheid.limits({name}=...)` raises the limit",
    )
    raise DataError([Diagnostic("E512", message, helps=helps)])


def _plain_variables(expression: tree.Expression, variables: Sequence[str]) -> list[int]:
    nodes = tree.walk(expression)
    names = {
        node.variable.text
        for node in nodes
        if isinstance(node, tree.Attribute) and node.anchor is tree.Anchor.EACH
    }
    return sorted(variables.index(name) for name in names)


def _shares(found: Found, plain: list[int]) -> list[tuple[int, int]]:
    """Split matches into shares of bounded numbers of event combinations; no match is split."""
    counts = [np.bincount(found.owner[found.variables == v], minlength=len(found)) for v in plain]
    ends = np.cumsum(np.prod(counts, axis=0))
    cuts = [0]
    while cuts[-1] < len(found):
        done = ends[cuts[-1] - 1] if cuts[-1] else 0
        cuts.append(max(int(np.searchsorted(ends, done + CHOICES_MAX)), cuts[-1] + 1))
    cuts[-1] = len(found)
    return list(pairwise(cuts))


def _slice(found: Found, first: int, last: int) -> Found:
    kept = np.zeros(len(found), np.bool_)
    kept[first:last] = True
    return found.take(kept)


def _judge(
    expression: tree.Expression,
    plain: list[int],
    columns: Columns,
    variables: Sequence[str],
    found: Found,
) -> NDArray[np.bool_]:
    """Mark the matches for which an expression is true for every combination of events."""
    match = np.arange(len(found))
    chosen: dict[int, NDArray[np.int64]] = {}
    for variable in plain:
        match, chosen = _choose(found, variable, match, chosen)
    leaves: dict[str, Vector] = {}

    def as_column(node: tree.Node) -> tree.Node:
        if not isinstance(node, Leaf):
            return node
        label = tree.Name(span=node.span, text=f"{len(leaves)}")
        if isinstance(node, tree.Attribute) and node.anchor is tree.Anchor.EACH:
            rows = chosen[variables.index(node.variable.text)]
            leaves[label.text] = take_rows(columns.vector(node.attribute.text), rows)
        else:
            leaves[label.text] = take_rows(value_of_match(node, columns, variables, found), match)
        return tree.Attribute(span=node.span, variable=label, attribute=label)

    placed = tree.transform(expression, as_column)
    assert isinstance(placed, tree.Expression)
    held = true_mask(placed, lambda attribute: leaves[attribute.attribute.text], len(match))
    failed = np.bincount(match[~held], minlength=len(found))
    return np.asarray(failed == 0)


def _choose(
    found: Found,
    variable: int,
    match: NDArray[np.int64],
    chosen: dict[int, NDArray[np.int64]],
) -> tuple[NDArray[np.int64], dict[int, NDArray[np.int64]]]:
    """Extend every combination of events with each event of one more variable."""
    bindings = np.flatnonzero(found.variables == variable)
    counts = np.bincount(found.owner[bindings], minlength=len(found))
    firsts = np.cumsum(counts) - counts
    times = counts[match]
    place = np.repeat(firsts[match] - (np.cumsum(times) - times), times) + np.arange(times.sum())
    longer = {name: np.repeat(rows, times) for name, rows in chosen.items()}
    longer[variable] = found.rows[bindings[place]]
    return np.repeat(match, times), longer


def take_rows(vector: Vector, rows: NDArray[np.int64]) -> Vector:
    """Select rows of a vector."""
    data: Any = vector.data
    taken = data[rows] if isinstance(data, np.ndarray) else data.take(pa.array(rows))
    return Vector(taken, None if vector.valid is None else vector.valid[rows], vector.kind)


# ---------------------------------------------------------------------------------------
# One value per match


def value_of_match(node: Leaf, columns: Columns, variables: Sequence[str], found: Found) -> Vector:
    """Evaluate FIRST or LAST of a variable, or an aggregate over its events."""
    assert node.variable is not None, "COUNT(*) is no condition on a match"
    mine = np.flatnonzero(found.variables == variables.index(node.variable.text))
    owner = found.owner[mine]
    counts = np.bincount(owner, minlength=len(found))
    if node.attribute is None:
        return Vector(counts.astype(np.int64), None, ValueKind.INTEGER)
    if isinstance(node, tree.Attribute):
        ends = np.cumsum(counts) - 1
        place = ends if node.anchor is tree.Anchor.LAST else ends - counts + 1
        rows = np.zeros(len(found), np.int64)
        bound = counts > 0
        rows[bound] = found.rows[mine[place[bound]]]
        vector = take_rows(columns.vector(node.attribute.text), rows)
        return vector._replace(valid=bound if vector.valid is None else bound & vector.valid)
    vector = take_rows(columns.vector(node.attribute.text), found.rows[mine])
    return _aggregate(node, vector, owner, len(found))


def _aggregate(
    node: tree.Aggregate, vector: Vector, owner: NDArray[np.int64], length: int
) -> Vector:
    """Aggregate the values of every match; NULL is ignored (§5.2)."""
    if vector.kind is ValueKind.UNKNOWN:
        return Vector(np.zeros(length, np.int64), np.zeros(length, np.bool_), ValueKind.INTEGER)
    extreme = node.function in (tree.AggregateFunction.MIN, tree.AggregateFunction.MAX)
    if vector.kind in (ValueKind.TEXT, ValueKind.BOOLEAN):
        message = f"`{as_written(node)}` is of kind {vector.kind.value}, not a number"
        raise DataError([Diagnostic("E506", message)])
    if extreme:
        return _extreme(node, vector, owner, length)
    if vector.valid is not None:
        owner = owner[vector.valid]
        vector = vector._replace(data=vector.numbers[vector.valid], valid=None)
    counts = np.bincount(owner, minlength=length)
    totals = _totals(vector.numbers, owner, counts, node)
    if node.function is tree.AggregateFunction.AVG:
        totals = totals / np.maximum(counts, 1)
        kind = vector.kind if vector.kind is ValueKind.DURATION else ValueKind.DOUBLE
        return Vector(totals, counts > 0, kind)
    return Vector(totals, counts > 0, vector.kind)


def _totals(
    numbers: NDArray[Any], owner: NDArray[np.int64], counts: NDArray[np.int64], node: tree.Aggregate
) -> NDArray[Any]:
    totals = np.bincount(owner, weights=numbers, minlength=len(counts))
    if numbers.dtype == np.float64:
        return totals
    if len(totals) and np.abs(totals).max() >= 2.0**62:
        message = f"a whole number overflowed 64 bits in `{as_written(node)}`"
        raise DataError([Diagnostic("E504", message)])
    exact = np.zeros(len(counts), np.int64)
    np.add.at(exact, owner, numbers)
    return exact


def _extreme(node: tree.Aggregate, vector: Vector, owner: NDArray[np.int64], length: int) -> Vector:
    largest = node.function is tree.AggregateFunction.MAX
    keys = np.full(length, NO_VALUE, np.int64)
    np.minimum.at(keys, owner, value_keys(vector, largest=largest))
    double = vector.numbers.dtype == np.float64
    valid = keys != NO_VALUE
    values = values_of_keys(np.where(valid, keys, 0), largest=largest, double=double)
    return Vector(values, valid, vector.kind)
