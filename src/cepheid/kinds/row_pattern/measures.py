"""Matches and output rows in, the values of MEASURES out, all rows at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cepheid.expressions.arrow import Value, is_text, pa, pc
from cepheid.expressions.room import Room
from cepheid.kernels.segments import locate
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.aggregates import aggregate
from cepheid.kinds.row_pattern.arrange import ArrangedRows, Rows
from cepheid.kinds.row_pattern.matches import MatchSet
from cepheid.kinds.row_pattern.values import evaluate, true_rows

Mask = NDArray[np.bool_]


def _counts_rows(node: tree.Aggregate) -> bool:
    """Check whether an aggregate is COUNT(*) or COUNT(A.*)."""
    first = node.arguments[0]
    constant = isinstance(first, tree.Literal) and first.value is not None
    return node.name == "COUNT" and constant and node.condition is None and not node.distinct


def full_length(value: Value, length: int) -> Value:
    """Return a value as an array; a scalar is repeated."""
    if isinstance(value, pa.Array):
        return value
    if is_text(value.type) and value.is_valid:
        Room().take(length * value.as_buffer().size)
    return pa.repeat(value, length)


class MeasureFrame:
    """The output rows of some matches, for which measures are evaluated.

    Parameters
    ----------
    rows
        The input.
    matches
        The matches.
    match_of
        The match of every output row; ``slice(None)`` for one row of each match.
    current
        The place of the current row in its match, counted from 0; -1 for an empty match.
    text
        The SQL text, for messages.
    frames
        The first row that each output row sees, and the first after those; else its partition's.
    """

    def __init__(
        self,
        rows: ArrangedRows,
        matches: MatchSet,
        match_of: Rows | slice,
        current: Rows,
        text: str,
        frames: tuple[Rows, Rows] | None = None,
    ) -> None:
        self._frames = frames
        self._rows = rows
        self._matches = matches
        self._match_of = match_of
        self._current = current
        self._text = text
        self._found: dict[tree.Expression, Value] = {}
        self._located: dict[tree.Navigation, tuple[Rows, Mask | None]] = {}

    def __len__(self) -> int:
        return len(self._current)

    def measure(self, expression: tree.Expression) -> Value:
        """Return the value of a bound expression for every output row."""
        return full_length(evaluate(expression, self._leaf, self._text), len(self))

    @cached_property
    def _starts(self) -> Rows:
        return self._matches.starts[self._match_of]

    @cached_property
    def _offsets(self) -> Rows:
        return self._matches.offsets[:-1][self._match_of]

    @cached_property
    def _last(self) -> Rows:
        return self._matches.lengths[self._match_of] - 1

    @cached_property
    def _bounds(self) -> tuple[Rows, Rows]:
        """Return the first row that each match sees, and the first row after those."""
        if self._frames is not None:
            return self._frames
        bounds = self._rows.bounds
        partition = np.searchsorted(bounds, self._starts, side="right") - 1
        return bounds[partition], bounds[partition + 1]

    def _leaf(self, node: tree.Expression) -> Value:
        if node not in self._found:
            match node:
                case tree.Cell(navigation=navigation, body=body):
                    value = self._cell(navigation, body)
                case tree.Aggregate():
                    value = self._aggregate(node)
                case _:
                    assert isinstance(node, tree.MatchNumber), "a measure has no other leaf"
                    value = pa.array(self._matches.numbers[self._match_of])
            self._found[node] = value
        return self._found[node]

    # -----------------------------------------------------------------------------------
    # Values of single rows

    def _cell(self, navigation: tree.Navigation, body: tree.Expression) -> Value:
        if navigation not in self._located:
            self._located[navigation] = self._locate(navigation)
        rows, valid = self._located[navigation]
        if isinstance(body, tree.RowColumn):
            return self._gather(self._rows.column(body.name), rows, valid)

        def leaf(node: tree.Expression) -> Value:
            match node:
                case tree.RowColumn(name=name):
                    return self._gather(self._rows.column(name), rows, valid)
                case tree.RowLabel():
                    return self._labels(rows, valid)
            return pa.array(self._matches.numbers[self._match_of])

        value = full_length(evaluate(body, leaf, self._text), len(self))
        if valid is None:
            return value
        return pc.if_else(pa.array(valid), value, pa.scalar(None, value.type))

    def _gather(self, array: Value, rows: Rows, valid: Mask | None) -> Value:
        if valid is None:
            return array.take(pa.array(rows))
        return array.take(pa.array(np.where(valid, rows, 0), mask=~valid))

    def _labels(self, rows: Rows, valid: Mask | None) -> Value:
        """Return the variables to which rows are mapped; NULL for rows outside of the match."""
        matches = self._matches
        place = rows - self._starts
        inside = (place >= 0) & (place <= self._last)
        if valid is not None:
            inside &= valid
        names = pa.array([*matches.variables], pa.string())
        codes = np.zeros(len(rows), np.int32)
        codes[inside] = matches.labels[(self._offsets + place)[inside]]
        return names.take(pa.array(codes, mask=~inside))

    def _locate(self, navigation: tree.Navigation) -> tuple[Rows, Mask | None]:
        """Return the row that a navigation finds for every output row, and where it finds one.

        None stands for everywhere.
        """
        current = self._last if navigation.final else self._current
        valid: Mask | None
        if navigation.variables is None:
            first = np.full(len(current), navigation.offset)
            place = first if navigation.from_first else current - navigation.offset
            valid = (place >= 0) & (place <= current)
            rows = self._starts + place
            valid = None if valid.all() else valid
        else:
            rows, found = np.empty(len(current), np.int64), np.empty(len(current), np.bool_)
            entries, before = self._matches.places(navigation.variables)
            every = locate(
                entries,
                before,
                self._starts,
                self._offsets,
                current,
                navigation.offset,
                navigation.from_first,
                rows,
                found,
            )
            valid = None if every else found
        if navigation.shift:
            rows = rows + navigation.shift
            begin, stop = self._bounds
            inside = (rows >= begin) & (rows < stop)
            valid = inside if valid is None else valid & inside
        return rows, valid

    # -----------------------------------------------------------------------------------
    # Aggregates

    def _aggregate(self, node: tree.Aggregate) -> Value:
        """Return an aggregate: computed for every row of every match, then looked up."""
        matches = self._matches
        current = self._last if node.final else self._current
        if _counts_rows(node):
            if node.variables is None:
                return pa.array(current + 1)
            before = matches.places(node.variables)[1]
            counts = before[self._offsets + current + 1] - before[self._offsets]
            return pa.array(counts.astype(np.int64))
        length = len(matches.states)

        def leaf(inner: tree.Expression) -> Value:
            match inner:
                case tree.RowColumn(name=name):
                    return self._rows.column(name).take(pa.array(matches.rows))
                case tree.RowLabel():
                    names = pa.array([*matches.variables], pa.string())
                    return names.take(pa.array(matches.labels))
            numbers = np.repeat(matches.numbers, np.maximum(matches.lengths, 0))
            return pa.array(numbers)

        arguments = [
            full_length(evaluate(argument, leaf, self._text), length) for argument in node.arguments
        ]
        use = matches.of_variables(node.variables)
        if node.condition is not None:
            use = use & true_rows(node.condition, leaf, length, self._text)
        return aggregate(node, arguments, use, matches.offsets, self._offsets, current, self._text)
