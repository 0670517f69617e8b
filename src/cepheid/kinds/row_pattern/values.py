"""Expressions of SQL in, Arrow columns or masks out: the one evaluator, with SQL's messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cepheid.errors import BindError, CepheidError, DataError, Diagnostic
from cepheid.events.schema import ValueKind
from cepheid.expressions.arrow import Value, arrow_of, pa, read_value
from cepheid.expressions.evaluate import FAULTS, Context, mask_in, value_in
from cepheid.expressions.vectors import LeftRangeError, MisfitError, Vector, constant, full_length
from cepheid.kinds.row_pattern import tree

if TYPE_CHECKING:
    from cepheid.expressions.vectors import Mask

Leaf: TypeAlias = Callable[[tree.Expression], Value]
"""Gives the value of a cell, an aggregate, a column or MATCH_NUMBER()."""

AnyLeaf: TypeAlias = Callable[[tree.Expression], Value | Vector]
"""The same, which may have read the value."""

_PLAIN = (bool, int, float, str, NoneType)
_PLAIN_KINDS = (ValueKind.BOOLEAN, ValueKind.INTEGER, ValueKind.DOUBLE)


def evaluate(node: tree.Expression, leaf: Leaf, text: str = "") -> Value:
    """Return the value of an expression.

    Raises
    ------
    BindError
        E609 if the types of operands do not fit.
    DataError
        E614 if a value cannot be computed: a number leaves its type, a text is no number.

    Examples
    --------
    >>> from cepheid.kinds.row_pattern.expressions import parse_expression
    >>> from cepheid.kinds.row_pattern.lexer import tokenize
    >>> from cepheid.kinds.row_pattern.reader import Reader
    >>> expression = parse_expression(Reader(tokenize("x * 2 > 5"), "x * 2 > 5"))
    >>> evaluate(expression, lambda _: pa.array([1, None, 3])).to_pylist()
    [False, None, True]
    """
    reading = _Reading(leaf, text)
    if isinstance(node, tree.Leaf):
        return reading.guarded(node, lambda: leaf(node))
    with np.errstate(all="ignore"):
        vector = value_in(node, reading.context)
    if reading.length is None:
        return reading.guarded(node, lambda: arrow_of(vector)[0])
    return reading.guarded(node, lambda: arrow_of(full_length(vector, reading.length or 0)))


def evaluate_one(node: tree.Expression, values: Sequence[object], text: str) -> object:
    """Return the value of an expression whose columns are called 0, 1, ... and have one row."""

    def leaf(inner: tree.Expression) -> Vector:
        assert isinstance(inner, tree.RowColumn), "there is no other leaf"
        value = values[int(inner.name)]
        return constant(value) if isinstance(value, _PLAIN) else read_value(pa.array([value]))

    reading = _Reading(leaf, text)
    with np.errstate(all="ignore"):
        vector = value_in(node, Context(leaf, reading.explain, sql=True))
    if vector.valid is not None and not vector.valid[0]:
        return None
    if vector.kind in _PLAIN_KINDS and isinstance(vector.data, np.ndarray):
        found: object = vector.data[0].item()
        return found
    return reading.guarded(node, lambda: arrow_of(vector)[0].as_py())


def true_rows(node: tree.Expression, leaf: AnyLeaf, length: int, text: str = "") -> Mask:
    """Return for which rows a condition is true, and neither false nor NULL.

    Raises
    ------
    BindError
        E609 if its value is no truth value.
    """
    reading = _Reading(leaf, text)
    with np.errstate(all="ignore"):
        mask = mask_in(node, reading.context)
    return mask if len(mask) == length else np.full(length, mask[0])


class _Reading:
    """The leaves of an expression as vectors, and how many rows they have."""

    def __init__(self, leaf: AnyLeaf, text: str) -> None:
        self._leaf = leaf
        self._text = text
        self.length: int | None = None

    @property
    def context(self) -> Context:
        """Build what evaluation asks: if it were kept, a cycle would hold the rows for long."""
        return Context(self._read, self.explain, sql=True)

    def _read(self, node: tree.Expression) -> Vector:
        value = self._leaf(node)
        if isinstance(value, Vector):
            self.length = len(value.data)
            return value
        if isinstance(value, pa.Array):
            self.length = len(value)
        return read_value(value)

    def guarded(self, node: tree.Expression, compute: Callable[[], Value]) -> Value:
        """Evaluate an expression, and report errors at its place in the text."""
        try:
            return compute()
        except CepheidError:
            raise
        except FAULTS as error:
            raise self.explain(node, error) from error

    def explain(self, node: tree.Expression, error: Exception) -> Exception:
        """Return an error in the words of SQL."""
        if isinstance(error, TypeError | pa.ArrowNotImplementedError | pa.ArrowTypeError):
            reason = _reason(error)
            if isinstance(error, MisfitError) and self._text:
                reason = f"`{self._text[node.span.start : node.span.end]}` is {reason}"
            message = f"the types do not fit: {reason}"
            return BindError([Diagnostic("E609", message, node.span)], self._text)
        left = isinstance(error, LeftRangeError)
        reason = "a whole number overflowed 64 bits" if left else _reason(error)
        message = f"a value cannot be computed: {reason}"
        return DataError([Diagnostic("E614", message, node.span)], self._text)


def _reason(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
