"""Conditions for a device: bound expressions and columns in, a form to compile and its arrays out.

A device compares whole numbers with whole numbers and doubles with doubles, adds, subtracts and
multiplies doubles, and combines conditions with three truth values (§4.6). The host evaluates every
other conjunct, and the device reads it as a column of truth values.

A form has no constants, only their places, so that a kernel serves all values of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.events.schema import ValueKind
from cepheid.expressions.vectors import Vector
from cepheid.language import tree

Form = tuple[Any, ...]
"""A node of a form: its name, and its places or operands; see ``kernels/conditions.py``."""

LEFT, RIGHT = 0, 1
NO_MASK = -1
COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
DOUBLE_EXACT = 1 << 53
"""Up to here whole numbers are doubles, too."""

OnHost = Callable[[tree.Expression], NDArray[np.bool_]]
"""Gives the events of the left side for which a condition is true."""

Lookup = Callable[[tree.Attribute], tuple[int, Vector]]
"""Gives the side of an attribute, left or right, and its column."""


class Columns(NamedTuple):
    """The columns of one side: (column, event) whole numbers, doubles, and truth values."""

    whole: NDArray[np.int64]
    doubles: NDArray[np.float64]
    truths: NDArray[np.uint8]
    constants: NDArray[np.float64]
    whole_constants: NDArray[np.int64]


class Conditions(NamedTuple):
    """A condition to compile, the columns of both sides, and conjuncts that it leaves out."""

    form: Form
    sides: tuple[Columns, Columns]
    rest: tuple[tree.Expression, ...]


class _Unfit(Exception):  # noqa: N818  # it never leaves this module
    """An expression is for the host."""


class Forming:
    """Builds the form of conjuncts, and collects the columns and constants that it reads."""

    def __init__(self, lookup: Lookup, lengths: tuple[int, int]) -> None:
        self._lookup, self._lengths = lookup, lengths
        self._whole: tuple[list[Any], list[Any]] = ([], [])
        self._doubles: tuple[list[Any], list[Any]] = ([], [])
        self._truths: tuple[list[Any], list[Any]] = ([], [])
        self._places: dict[tuple[int, str, str], Form] = {}
        self._whole_constants: list[int] = []
        self._constants: list[float] = []

    def conditions(
        self, conjuncts: Sequence[tree.Expression], on_host: OnHost | None = None
    ) -> Conditions:
        """Build the form of conjuncts; the others are left out, or evaluated ``on_host``."""
        forms: list[Form] = []
        rest = []
        for conjunct in conjuncts:
            try:
                forms.append(self._condition(conjunct))
            except _Unfit:
                if on_host is None:
                    rest.append(conjunct)
                else:
                    self._truths[LEFT].append(on_host(conjunct))
                    forms.append(("known", LEFT, len(self._truths[LEFT]) - 1))
        sides = (self._columns(LEFT), self._columns(RIGHT))
        return Conditions(("and", *forms), sides, tuple(rest))

    def _columns(self, side: int) -> Columns:
        length = self._lengths[side]
        return Columns(
            _stacked(self._whole[side], length, np.int64),
            _stacked(self._doubles[side], length, np.float64),
            _stacked(self._truths[side], length, np.uint8),
            np.array([*self._constants, 0.0]),
            np.array([*self._whole_constants, 0], np.int64),
        )

    def _condition(self, expression: tree.Expression) -> Form:
        match expression:
            case tree.Logical(operator="AND" | "OR" as operator, operands=operands):
                return (operator.lower(), *(self._condition(operand) for operand in operands))
            case tree.Unary(operator="NOT", operand=operand):
                return ("not", self._condition(operand))
            case tree.Binary(operator=operator, left=left, right=right) if operator in COMPARISONS:
                return self._comparison(operator, left, right)
            case tree.Between(operand=operand, low=low, high=high, negated=no):
                between = (
                    "and",
                    self._comparison(">=", operand, low),
                    self._comparison("<=", operand, high),
                )
                return ("not", between) if no else between
            case tree.IsNull(operand=tree.Attribute() as operand, negated=no):
                _, _, side, _, mask = self._attribute(operand)
                known = ("known", side, mask)
                return known if no else ("not", known)
        raise _Unfit

    def _comparison(self, operator: str, left: tree.Expression, right: tree.Expression) -> Form:
        a, b = self._value(left), self._value(right)
        if a[0] != b[0]:
            a, b = self._doubled(a), self._doubled(b)
        return ("compare", operator, a[0], a, b)

    def _value(self, expression: tree.Expression) -> Form:
        """Build a value: ("whole" or "double", node, ...)."""
        match expression:
            case tree.Literal(value=value, digits=""):
                return self._constant(value)
            case tree.Unary(
                operator="-", operand=tree.Literal(value=int() | float() as value, digits="")
            ):
                return self._constant(-value)
            case tree.Attribute():
                return self._attribute(expression)
            case tree.Binary(operator="+" | "-" | "*" as operator, left=left, right=right):
                a, b = self._doubled(self._value(left)), self._doubled(self._value(right))
                # A product in a sum would be rounded once on a device, and twice on a CPU.
                if operator != "*" and any(node[1:3] == ("compute", "*") for node in (a, b)):
                    raise _Unfit
                return ("double", "compute", operator, a, b)
        raise _Unfit

    def _constant(self, value: Any) -> Form:
        """Add a constant; its place is part of the form, and its value is not."""
        if type(value) is float:
            self._constants.append(value)
            return ("double", "constant", len(self._constants) - 1)
        if type(value) is int and abs(value) < 1 << 63:
            self._whole_constants.append(value)
            return ("whole", "constant", len(self._whole_constants) - 1)
        raise _Unfit

    def _doubled(self, value: Form) -> Form:
        """Convert a whole constant to a double; whole columns are compared exactly on the host."""
        if value[0] == "double":
            return value
        if value[1] != "constant" or abs(self._whole_constants[value[2]]) > DOUBLE_EXACT:
            raise _Unfit
        return self._constant(float(self._whole_constants[value[2]]))

    def _attribute(self, attribute: tree.Attribute) -> Form:
        side, vector = self._lookup(attribute)
        # A side may be tuples of several streams.
        place = (side, attribute.variable.text, attribute.attribute.text)
        if place not in self._places:
            self._places[place] = self._read(side, vector)
        return self._places[place]

    def _read(self, side: int, vector: Vector) -> Form:
        """Add a column, and say where it is and where its mask is."""
        data = vector.data
        if not isinstance(data, np.ndarray) or len(data) != self._lengths[side]:
            raise _Unfit
        if vector.kind is ValueKind.INTEGER and data.dtype == np.int64:
            name, columns = "whole", self._whole[side]
        elif vector.kind is ValueKind.DOUBLE and data.dtype == np.float64:
            name, columns = "double", self._doubles[side]
        else:
            raise _Unfit
        columns.append(data)
        known = NO_MASK
        if vector.valid is not None:
            self._truths[side].append(vector.valid)
            known = len(self._truths[side]) - 1
        return (name, "column", side, len(columns) - 1, known)


class NamedForming(Forming):
    """Builds the form of conjuncts over columns that lie on the device, by their names.

    ``place`` gives the kind of a column, "whole" or "double", and its row; None for any other.
    """

    def __init__(self, place: Callable[[str], tuple[str, int] | None]) -> None:
        super().__init__(_no_lookup, (0, 0))
        self._place = place

    def form(self, conjuncts: Sequence[tree.Expression]) -> Form | None:
        """Build the form of conjuncts; None if the host must evaluate one of them."""
        try:
            return ("and", *(self._condition(conjunct) for conjunct in conjuncts))
        except _Unfit:
            return None

    @property
    def constants(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the constants of the form: doubles and whole numbers."""
        columns = self._columns(LEFT)
        return columns.constants, columns.whole_constants

    def _attribute(self, attribute: tree.Attribute) -> Form:
        found = self._place(attribute.attribute.text)
        if found is None:
            raise _Unfit
        return (found[0], "column", LEFT, found[1], NO_MASK)


def _no_lookup(attribute: tree.Attribute) -> tuple[int, Vector]:
    """Refuse: columns are known by their names."""
    raise AssertionError(attribute)


def _stacked(columns: list[Any], length: int, dtype: Any) -> NDArray[Any]:
    """Put columns on top of each other; kernels need one row at least."""
    if not columns:
        return np.zeros((1, 1), dtype)
    found = np.empty((len(columns), length), dtype)
    for row, column in zip(found, columns, strict=True):
        row[:] = column
    return found
