"""Conditions that see other rows in, programs for the kernel out, where all values are numbers.

Times become microseconds, and texts their ranks among all texts that the conditions name, so that
they compare as before. Whole numbers stay exact as doubles up to 2**53; where a bound on what a
condition can compute is larger, or a function has no instruction, there is no program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.expressions.arrow import Value, is_text, pa, pc
from cepheid.kernels import row_pattern_search as kernel
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.arrange import ArrangedRows
from cepheid.kinds.row_pattern.values import evaluate

EXACT_MAX = 2.0**53
"""Up to here whole numbers are doubles."""

_BINARY = {
    "+": kernel.ADD,
    "-": kernel.SUBTRACT,
    "*": kernel.MULTIPLY,
    "/": kernel.DIVIDE,
    "%": kernel.MODULO,
    "AND": kernel.AND,
    "OR": kernel.OR,
    "=": kernel.EQUAL,
    "<>": kernel.UNEQUAL,
    "<": kernel.LESS,
    "<=": kernel.AT_MOST,
    ">": kernel.GREATER,
    ">=": kernel.AT_LEAST,
}
_AGGREGATES = {
    "COUNT": kernel.COUNT,
    "SUM": kernel.SUM,
    "AVG": kernel.AVG,
    "MIN": kernel.MIN,
    "MAX": kernel.MAX,
}
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})


class NoProgramError(Exception):
    """A condition has no program, and the slower search must do."""


class Kind(NamedTuple):
    """The kind of a value: truth, number, text, time, span or null; and the largest it can be.

    ``bound`` is 0 for doubles, which need none.
    """

    name: str
    bound: float = 0.0


class Programs(NamedTuple):
    """The arguments of the kernel that describe conditions; see ``find_seeing_matches``."""

    code: NDArray[np.int64]
    code_first: NDArray[np.int64]
    constants: NDArray[np.float64]
    cells: NDArray[np.int64]
    columns: NDArray[np.float64]
    valid: NDArray[np.bool_]
    in_set: NDArray[np.bool_]
    tally_set: NDArray[np.int64]
    kinds: NDArray[np.int64]
    tally_column: NDArray[np.int64]
    label_values: NDArray[np.float64]
    views: NDArray[np.int64]
    label_views: NDArray[np.int64]
    shared: bool


def build_programs(
    rows: ArrangedRows,
    variables: tuple[str, ...],
    conditions: Sequence[tree.Expression | None],
    text: str,
) -> Programs:
    """Return the programs of conditions, None standing for no condition.

    Raises
    ------
    NoProgramError
        If one of them has none.
    """
    return _Writer(rows, variables, conditions, text).finished()


class _Writer:
    def __init__(
        self,
        rows: ArrangedRows,
        variables: tuple[str, ...],
        conditions: Sequence[tree.Expression | None],
        text: str,
    ) -> None:
        self._rows = rows
        self._variables = variables
        self._text = text
        self._code: list[tuple[int, int]] = []
        self._constants: list[tuple[float, float]] = []
        self._cells: list[tuple[int, int, int, int, int]] = []
        self._sets: list[frozenset[str]] = []
        self._tallies: dict[tree.Aggregate, tuple[int, int, int]] = {}
        self._heads: dict[int, int] = {}
        self._tails: dict[int, int] = {}
        self._label_views = [0, 0]
        self._shared = True
        self._time_type: object = None
        self._values: list[Value] = []
        self._column_of: dict[tree.Expression, tuple[int, Kind]] = {}
        self._texts = self._ranked_texts([c for c in conditions if c is not None])
        self._starts = [0]
        for condition in conditions:
            if condition is not None and self._write(condition).name != "truth":
                raise NoProgramError
            self._starts.append(len(self._code))
        if any(self._depth(a, b) > kernel.STACK_MAX for a, b in self._pieces()):
            raise NoProgramError

    def _pieces(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts[:-1], self._starts[1:], strict=True)

    def _depth(self, first: int, last: int) -> int:
        """Bound the number of values that a program keeps."""
        return sum(operator <= kernel.NUMBER for operator, _ in self._code[first:last])

    def finished(self) -> Programs:
        count, length = len(self._values), self._rows.row_count
        columns = np.zeros((max(count, 1), length))
        valid = np.ones((max(count, 1), length), np.bool_)
        for i, value in enumerate(self._values):
            if value.null_count:
                valid[i] = value.is_valid().to_numpy(zero_copy_only=False)
                value = pc.fill_null(value, pa.scalar(0, value.type))
            columns[i] = value.to_numpy(zero_copy_only=False)
        in_set = np.array([[v in s for v in self._variables] for s in self._sets], np.bool_)
        tallies = np.array([*self._tallies.values()], np.int64).reshape(-1, 3)
        used = sorted({*self._heads, *self._tails})
        views = [(s, self._heads.get(s, 0), self._tails.get(s, 0)) for s in used]
        labels = [self._texts.get(name, 0) for name in self._variables]
        return Programs(
            np.array(self._code, np.int64).reshape(-1, 2),
            np.array(self._starts, np.int64),
            np.array(self._constants, np.float64).reshape(-1, 2),
            np.array(self._cells, np.int64).reshape(-1, 5),
            columns,
            valid,
            in_set.reshape(len(self._sets), len(self._variables)),
            np.ascontiguousarray(tallies[:, 0]),
            np.ascontiguousarray(tallies[:, 1]),
            np.ascontiguousarray(tallies[:, 2]),
            np.array(labels or [0], np.float64),
            np.array(views, np.int64).reshape(-1, 3),
            np.array(self._label_views, np.int64),
            self._shared and not self._tallies,
        )

    # -----------------------------------------------------------------------------------
    # Expressions

    def _write(self, node: tree.Expression) -> Kind:
        """Append the instructions of an expression and return what it is."""
        match node:
            case tree.Cell(navigation=navigation, body=body):
                return self._write_cell(navigation, body)
            case tree.Aggregate():
                return self._write_aggregate(node)
            case tree.MatchNumber():
                self._shared = False
                self._code.append((kernel.NUMBER, 0))
                return Kind("number", float(self._rows.row_count))
            case tree.Literal(digits=str(digits)) if digits:
                raise NoProgramError  # A double would not do.
            case tree.Literal(value=value):
                return self._write_constant(value)
            case tree.Duration(microseconds=microseconds):
                self._constant(float(microseconds))
                return Kind("span", abs(microseconds))
            case tree.Unary(operator="NOT", operand=operand):
                return self._write_simple(kernel.NOT, self._expect(operand, "truth"))
            case tree.Unary(operand=operand):
                return self._write_simple(kernel.NEGATE, self._expect(operand, "number"))
            case tree.IsNull(operand=operand, negated=negated):
                self._write(operand)
                self._code.append((kernel.IS_NULL, 0))
                if negated:
                    self._code.append((kernel.NOT, 0))
                return Kind("truth")
            case tree.Logical():
                return self._write_logical(node)
            case tree.Binary(operator=operator, left=left, right=right) if operator in _BINARY:
                kind = self._combined(operator, self._write(left), self._write(right))
                return self._write_simple(_BINARY[operator], kind)
            case tree.Case(conditions=(condition,), results=(then,), default=default):
                self._expect(condition, "truth")
                kind = self._same(self._write(then), self._write(default))
                return self._write_simple(kernel.CHOOSE, kind)
            case tree.Call(function="ABS", arguments=(operand,)):
                return self._write_simple(kernel.ABSOLUTE, self._expect(operand, "number"))
            case tree.Call(function="COALESCE", arguments=(first, second)):
                kind = self._same(self._write(first), self._write(second))
                return self._write_simple(kernel.COALESCE, kind)
        raise NoProgramError

    def _write_logical(self, node: tree.Logical) -> Kind:
        """Append AND or OR; what an operand decides, those after it need not."""
        jump = kernel.JUMP_IF_FALSE if node.operator == "AND" else kernel.JUMP_IF_TRUE
        jumps = []
        kind = self._write(node.operands[0])
        for operand in node.operands[1:]:
            jumps.append(len(self._code))
            self._code.append((jump, 0))
            kind = self._combined(node.operator, kind, self._write(operand))
            self._code.append((_BINARY[node.operator], 0))
        for place in jumps:
            self._code[place] = (jump, len(self._code))
        return kind

    def _write_simple(self, operator: int, kind: Kind) -> Kind:
        self._code.append((operator, 0))
        return kind

    def _expect(self, node: tree.Expression, name: str) -> Kind:
        kind = self._write(node)
        if kind.name not in (name, "null"):
            raise NoProgramError
        return kind

    def _same(self, a: Kind, b: Kind) -> Kind:
        names = {a.name, b.name} - {"null"}
        if len(names) > 1:
            raise NoProgramError
        exact = 0.0 if "number" in names and 0.0 in (a.bound, b.bound) else max(a.bound, b.bound)
        return Kind(names.pop() if names else "null", exact)

    def _combined(self, operator: str, a: Kind, b: Kind) -> Kind:
        """Look up the kind of an operation on two kinds."""
        names = (a.name, b.name)
        if operator in ("AND", "OR"):
            if any(name not in ("truth", "null") for name in names):
                raise NoProgramError
            return Kind("truth")
        if operator in _COMPARISONS:
            if a.name == b.name == "truth":
                raise NoProgramError
            self._same(a, b)
            return Kind("truth")
        result = {
            ("time", "time"): "span",
            ("time", "span"): "time",
            ("span", "span"): "span",
            ("number", "number"): "number",
        }.get(names)
        if result is None or (result != "number" and operator not in "+-"):
            raise NoProgramError
        if names == ("time", "time") and operator == "+":
            raise NoProgramError
        if operator == "/" or (result == "number" and 0.0 in (a.bound, b.bound)):
            return Kind("number")
        bound = a.bound * b.bound if operator == "*" else a.bound + b.bound
        return self._checked(Kind(result, bound))

    def _checked(self, kind: Kind) -> Kind:
        if kind.bound > EXACT_MAX:
            raise NoProgramError
        return kind

    def _constant(self, value: float | None) -> None:
        entry = (0.0, 1.0) if value is None else (float(value), 0.0)
        self._constants.append(entry)
        self._code.append((kernel.CONSTANT, len(self._constants) - 1))

    def _write_constant(self, value: bool | float | str | None) -> Kind:  # noqa: FBT001  # it is the value
        if isinstance(value, str):
            self._constant(self._texts[value])
            return Kind("text", 1.0)
        self._constant(value)
        if value is None:
            return Kind("null")
        if isinstance(value, bool):
            return Kind("truth")
        if isinstance(value, int):
            return self._checked(Kind("number", max(abs(value), 1)))
        return Kind("number")

    # -----------------------------------------------------------------------------------
    # Rows and aggregates

    def _set(self, names: frozenset[str] | None) -> int:
        if names is None:
            return -1
        if names not in self._sets:
            self._sets.append(names)
        return self._sets.index(names)

    def _write_cell(self, navigation: tree.Navigation, body: tree.Expression) -> Kind:
        place = self._set(navigation.variables)
        labelled = isinstance(body, tree.RowLabel)
        column, kind = (0, Kind("text", 1.0)) if labelled else self._column(body)
        reach = navigation.offset + 1
        if place >= 0:
            views = self._heads if navigation.from_first else self._tails
            views[place] = max(views.get(place, 0), reach)
            if labelled:
                # Which label a row has can depend on all of the match before it.
                raise NoProgramError
        elif labelled:
            end = 0 if navigation.from_first else 1
            far = reach + max(navigation.shift if end == 0 else -navigation.shift, 0)
            self._label_views[end] = max(self._label_views[end], far)
        if place < 0 and (navigation.from_first or navigation.offset or labelled):
            self._shared = False
        self._cells.append(
            (place, int(navigation.from_first), navigation.offset, navigation.shift, column)
        )
        self._code.append((kernel.LABEL if labelled else kernel.CELL, len(self._cells) - 1))
        return kind

    def _write_aggregate(self, node: tree.Aggregate) -> Kind:
        if node.name not in _AGGREGATES or node.distinct or len(tree.children(node)) > 1:
            raise NoProgramError
        column, kind = self._column(node.arguments[0])
        ordered = node.name in ("MIN", "MAX") and kind.name in ("text", "time", "span")
        if node.name != "COUNT" and kind.name != "number" and not ordered:
            raise NoProgramError
        entry = (self._set(node.variables), _AGGREGATES[node.name], column)
        self._tallies.setdefault(node, entry)
        self._code.append((kernel.AGGREGATE, list(self._tallies).index(node)))
        if node.name == "COUNT":
            return Kind("number", float(max(self._rows.row_count, 1)))
        if ordered:
            return kind
        if node.name == "AVG" or kind.bound == 0.0:
            return Kind("number")
        bound = kind.bound * max(self._rows.row_count, 1) if node.name == "SUM" else kind.bound
        return self._checked(Kind("number", bound))

    def _column(self, body: tree.Expression) -> tuple[int, Kind]:
        """Return the number of a column with an expression over one row, and what it holds."""
        if body not in self._column_of:
            value, kind = self._numbers(self._evaluated(body))
            self._values.append(value)
            self._column_of[body] = len(self._values) - 1, kind
        return self._column_of[body]

    def _evaluated(self, body: tree.Expression) -> Value:
        if tree.contains(body, tree.RowLabel | tree.MatchNumber):
            raise NoProgramError

        def leaf(node: tree.Expression) -> Value:
            assert isinstance(node, tree.RowColumn), "nothing else is a leaf of a row"
            return self._rows.column(node.name)

        value = evaluate(body, leaf, self._text)
        return pa.repeat(value, self._rows.row_count) if isinstance(value, pa.Scalar) else value

    def _numbers(self, value: Value) -> tuple[Value, Kind]:
        types, kind = pa.types, value.type
        if types.is_boolean(kind):
            return value.cast(pa.float64()), Kind("truth")
        if types.is_floating(kind):
            return value, Kind("number")
        if types.is_integer(kind):
            return value, self._checked(Kind("number", _largest(value)))
        if types.is_timestamp(kind) or types.is_date(kind):
            if self._time_type not in (None, kind):
                raise NoProgramError  # Zones, and dates beside times, need more care.
            self._time_type = kind
            micros = _microseconds(value, pa.timestamp("us", getattr(kind, "tz", None)))
            return micros, self._checked(Kind("time", _largest(micros)))
        if types.is_duration(kind):
            micros = _microseconds(value, pa.duration("us"))
            return micros, self._checked(Kind("span", _largest(micros)))
        if is_text(kind):
            encoded = value.dictionary_encode()
            ranks = [self._texts[text] for text in encoded.dictionary.to_pylist()]
            return pa.array(ranks, pa.float64()).take(encoded.indices), Kind("text", 1.0)
        raise NoProgramError

    def _ranked_texts(self, conditions: Sequence[tree.Expression]) -> dict[str, int]:
        """Return the rank of every text that conditions can compare."""
        found = set(self._variables)
        for node in (part for condition in conditions for part in tree.walk(condition)):
            if isinstance(node, tree.Literal) and isinstance(node.value, str):
                found.add(node.value)
            bodies: tuple[tree.Expression, ...] = ()
            if isinstance(node, tree.Cell) and not isinstance(node.body, tree.RowLabel):
                bodies = (node.body,)
            elif isinstance(node, tree.Aggregate):
                bodies = tree.children(node)
            for value in map(self._evaluated, bodies):
                if is_text(value.type):
                    found |= {text for text in value.unique().to_pylist() if text is not None}
        return {name: rank for rank, name in enumerate(sorted(found))}


def _microseconds(value: Value, kind: pa.DataType) -> Value:
    """Return times or durations as whole microseconds; others are compared without a program."""
    try:
        return value.cast(kind).cast(pa.int64())
    except pa.ArrowInvalid:
        raise NoProgramError from None


def _largest(value: Value) -> float:
    if len(value) == value.null_count:
        return 1.0
    ends = pc.min_max(value)
    return float(max(abs(ends["min"].as_py()), abs(ends["max"].as_py()), 1))
