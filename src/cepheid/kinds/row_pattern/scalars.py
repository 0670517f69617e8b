"""Bound conditions in, functions of a partial match out: what the search asks row by row.

Sub-expressions over one row are columns that were computed before; what combines the values of
several rows is computed here, with Python's numbers.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from cepheid.events.comparisons import COMPARE
from cepheid.expressions.arrow import Value, pa
from cepheid.expressions.vectors import INT64_MAX, INT64_MIN
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.aggregates import collector, exact_sum
from cepheid.kinds.row_pattern.arrange import ArrangedRows
from cepheid.kinds.row_pattern.values import evaluate, evaluate_one

Scalar = Callable[["PartialMatch"], Any]
RowScalar = Callable[["PartialMatch", int], Any]

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_NUMBERS = (int, float)


class PartialMatch:
    """The rows of a match so far, the current one last.

    Attributes
    ----------
    begin, stop
        The rows of the partition.
    start
        The first row of the match.
    number
        The number that the match would have.
    labels
        The variable of every row of the match, as numbers.
    trail
        What stands for all labels up to each row, if it is asked for.
    """

    def __init__(
        self, tracked: Sequence[frozenset[int]], aggregates: Sequence[Tally], *, trailed: bool
    ) -> None:
        self.begin = self.stop = self.start = self.number = 0
        self.labels: list[int] = []
        self.trail = [b""]
        self._trailed = trailed
        self.places: list[list[int]] = [[] for _ in tracked]
        self.tallies = aggregates
        self._tracked = tracked
        self._of_label: dict[int, list[list[int]]] = {}

    @property
    def row(self) -> int:
        """Return the current row."""
        return self.start + len(self.labels) - 1

    @property
    def value_count(self) -> int:
        """Count the values that its aggregates scan for each row."""
        return sum(tally.size for tally in self.tallies)

    def push(self, label: int) -> None:
        """Take the next row as a row of a variable."""
        row = self.start + len(self.labels)
        self.labels.append(label)
        if self._trailed:
            self.trail.append(_digest(self.trail[-1], label))
        for places in self._lists(label):
            places.append(row)
        for tally in self.tallies:
            tally.push(self, label, row)

    def pop(self) -> None:
        """Give the last row back."""
        label = self.labels.pop()
        if self._trailed:
            self.trail.pop()
        for places in self._lists(label):
            places.pop()
        for tally in self.tallies:
            tally.pop()

    def _lists(self, label: int) -> list[list[int]]:
        if label not in self._of_label:
            self._of_label[label] = [
                places
                for places, variables in zip(self.places, self._tracked, strict=True)
                if label in variables
            ]
        return self._of_label[label]

    def begin_at(self, start: int, number: int) -> None:
        """Forget everything and start a match at a row."""
        while self.labels:
            self.pop()
        self.start, self.number = start, number


def _digest(before: bytes, value: object) -> bytes:
    """Extend the key of a sequence by one value.

    Two that differ never meet in practice. The values themselves would take memory in the square
    of their number.
    """
    return hashlib.blake2b(before + repr(value).encode(), digest_size=16).digest()


State = tuple[int, Any]
"""A count, and a value that is None while the count is 0."""


class Tally:
    """An aggregate over the rows of a partial match, updated row by row.

    The condition of FILTER is the last argument. Aggregates that need all values keep them, and a
    digest of them for each row; others keep a state.
    """

    def __init__(
        self, node: tree.Aggregate, labels: frozenset[int] | None, arguments: Sequence[RowScalar]
    ) -> None:
        self._labels = labels
        self._arguments = arguments[: len(node.arguments)]
        self._condition = None if node.condition is None else arguments[-1]
        self._function = collector(node)
        simple = len(node.arguments) == 1 and (not node.distinct or node.name in _IDEMPOTENT)
        self._fold = _FOLDS.get(node.name) if simple else None
        self._rows: list[tuple[Any, ...]] = []
        self._history: list[Any] = [b"" if self._fold is None else (0, None)]

    @property
    def mark(self) -> Any:
        """Build the key of the state of the aggregate."""
        return self._history[-1]

    @property
    def size(self) -> int:
        """Count the values it keeps."""
        return len(self._rows)

    def push(self, path: PartialMatch, label: int, row: int) -> None:
        """Count a row in, if it is one of the aggregate's variables."""
        self._history.append(self._with(path, label, row))

    def _with(self, path: PartialMatch, label: int, row: int) -> Any:
        """Return the state after one more row; the same one if the row does not count."""
        state = self._history[-1]
        if self._labels is not None and label not in self._labels:
            return state
        if self._condition is not None and self._condition(path, row) is not True:
            return state
        values = tuple(argument(path, row) for argument in self._arguments)
        if self._fold is None:
            self._rows.append(values)
            return _digest(state, values)
        return state if values[0] is None else self._fold(state, values[0])

    def pop(self) -> None:
        """Forget the last row."""
        state = self._history.pop()
        if self._fold is None and state is not self._history[-1]:
            self._rows.pop()

    def value(self, name: str) -> Any:
        """Return the aggregate of the rows so far."""
        if self._fold is None:
            return self._function(self._rows)
        count, total = self._history[-1]
        if name in ("COUNT", "COUNT_IF"):
            return count
        if name == "AVG":
            return float(total) / count if count else None
        return total


def _kept(fold: Callable[[Any, Any], Any]) -> Callable[[State, Any], State]:
    """Return a fold that knows whether there was a value, and not how many."""
    return lambda state, value: (1, value if state[0] == 0 else fold(state[1], value))


def _plus(a: Any, b: Any) -> Any:
    return exact_sum((a, b)) if isinstance(a, Decimal) else a + b


# A state has no more than its aggregate needs: what has equal states fails alike. NaN, which alone
# differs from itself, is the largest number.
_FOLDS: dict[str, Callable[[State, Any], State]] = {
    "COUNT": lambda state, _: (state[0] + 1, None),
    "COUNT_IF": lambda state, value: (state[0] + (value is True), None),
    "AVG": lambda state, value: (state[0] + 1, value if state[0] == 0 else _plus(state[1], value)),
    "SUM": _kept(_plus),
    "MIN": _kept(lambda a, b: b if b < a or a != a else a),
    "MAX": _kept(lambda a, b: b if b > a or b != b else a),
    "BOOL_OR": _kept(lambda a, b: a or b),
    "BOOL_AND": _kept(lambda a, b: a and b),
    "EVERY": _kept(lambda a, b: a and b),
}

_IDEMPOTENT = frozenset({"MIN", "MAX", "BOOL_OR", "BOOL_AND", "EVERY"})
"""Aggregates that DISTINCT does not change."""


class ScalarCompiler:
    """Makes functions of partial matches from bound conditions.

    Attributes
    ----------
    tracked
        The sets of variables whose rows a partial match must know.
    tallies
        The aggregates that it must update.
    dependencies
        What conditions ask of earlier rows: ``(navigation, place in tracked, reads labels)``.
    """

    def __init__(self, rows: ArrangedRows, variables: tuple[str, ...], text: str) -> None:
        self._rows = rows
        self._variables = variables
        self._text = text
        self.tracked: list[frozenset[int]] = []
        self.tallies: list[Tally] = []
        self._tally_of: dict[tree.Aggregate, Tally] = {}
        self.dependencies: set[tuple[tree.Navigation, int, bool]] = set()
        self.needs_start = self.needs_trail = False

    def compile(self, node: tree.Expression) -> Scalar:
        """Return a bound condition as a function of a partial match."""
        match node:
            case tree.Cell():
                return self._cell(node)
            case tree.MatchNumber():
                self.needs_start = True
                return lambda path: path.number
            case tree.Aggregate():
                tally = self._tally(node)
                return lambda path: tally.value(node.name)
        inner = [self.compile(child) for child in tree.children(node)]
        combine = self._combine(node)
        if len(inner) == 2:
            one, two = inner
            return lambda path: combine(one(path), two(path))
        return lambda path: combine(*[part(path) for part in inner])

    def _track(self, variables: frozenset[str]) -> int:
        codes = frozenset(i for i, name in enumerate(self._variables) if name in variables)
        if codes not in self.tracked:
            self.tracked.append(codes)
        return self.tracked.index(codes)

    def _cell(self, node: tree.Cell) -> Scalar:
        navigation = node.navigation
        body = self._row(node.body)
        shift, offset = navigation.shift, navigation.offset
        place = -1 if navigation.variables is None else self._track(navigation.variables)
        labelled = tree.contains(node.body, tree.RowLabel)
        self.dependencies.add((navigation, place, labelled))
        if place < 0:
            self.needs_start |= navigation.from_first or offset > 0 or labelled

        def value(path: PartialMatch) -> Any:
            if place < 0:
                row = path.start + offset if navigation.from_first else path.row - offset
                if not path.start <= row <= path.row:
                    return None
            else:
                rows = path.places[place]
                if offset >= len(rows):
                    return None
                row = rows[offset] if navigation.from_first else rows[-1 - offset]
            row += shift
            return body(path, row) if path.begin <= row < path.stop else None

        return value

    def _tally(self, node: tree.Aggregate) -> Tally:
        if node not in self._tally_of:
            labels = None
            if node.variables is not None:
                labels = self.tracked[self._track(node.variables)]
            arguments = [self._row(argument) for argument in tree.children(node)]
            self.needs_start |= tree.contains(node, tree.MatchNumber)
            tally = Tally(node, labels, arguments)
            self._tally_of[node] = tally
            self.tallies.append(tally)
        return self._tally_of[node]

    def _row(self, node: tree.Expression) -> RowScalar:
        """Return an expression over one row as a function of the row."""
        if not tree.contains(node, tree.RowLabel | tree.MatchNumber):
            values = self._column(node)
            return lambda _, row: values[row]
        match node:
            case tree.RowLabel():
                names = self._variables

                def label(path: PartialMatch, row: int) -> str | None:
                    place = row - path.start
                    return names[path.labels[place]] if 0 <= place < len(path.labels) else None

                return label
            case tree.MatchNumber():
                return lambda path, _: path.number
        inner = [self._row(child) for child in tree.children(node)]
        combine = self._combine(node)
        return lambda path, row: combine(*[part(path, row) for part in inner])

    def _column(self, node: tree.Expression) -> list[Any]:
        def leaf(inner: tree.Expression) -> Value:
            assert isinstance(inner, tree.RowColumn), "labels and numbers stand elsewhere"
            return self._rows.column(inner.name)

        value = evaluate(node, leaf, self._text)
        if isinstance(value, pa.Scalar):
            return [value.as_py()] * self._rows.row_count
        return list(value.to_pylist())

    def _combine(self, node: tree.Expression) -> Callable[..., Any]:
        """Build the function of a node over the values of its children."""
        match node:
            case tree.Literal(value=constant):
                return lambda: constant
            case tree.Logical(operator=operator):
                return _all if operator == "AND" else _any
            case tree.Unary(operator="NOT"):
                return lambda x: None if x is None else not x
            case tree.Unary(operator="-"):
                return lambda x: None if x is None else -x
            case tree.IsNull(negated=negated):
                return lambda x: (x is not None) == negated
            case tree.Binary(operator=sign, left=left, right=right) if sign in COMPARE:
                if any(isinstance(side, tree.Literal) and side.digits for side in (left, right)):
                    # A constant with more digits than a double has goes the slow way.
                    return self._slow(node)
                return _comparison(sign, self._slow(node))
            case tree.Binary(operator=sign) if sign in _ARITHMETIC:
                return _sum(sign, self._slow(node))
        return self._slow(node)

    def _slow(self, node: tree.Expression) -> Callable[..., Any]:
        """Build the function of a node from the vectorised evaluator."""
        slots = tree.children(node)
        # A constant stays where it is, with all its digits.
        names = tuple(
            child if isinstance(child, tree.Literal) else tree.RowColumn(str(i), span=child.span)
            for i, child in enumerate(slots)
        )
        template = tree.with_children(node, names)
        if not slots:
            constant = evaluate_one(template, (), self._text)
            return lambda: constant
        return lambda *values: evaluate_one(template, values, self._text)


def _all(*values: Any) -> Any:
    return False if False in values else None if None in values else True


def _any(*values: Any) -> Any:
    return True if True in values else None if None in values else False


def _comparison(sign: str, slow: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    compare = COMPARE[sign]

    def compared(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return None
        if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
            if a == a and b == b:  # NaN alone differs from itself.
                return compare(a, b)
            return compare(a != a, b != b)
        if isinstance(a, str) and isinstance(b, str):
            return compare(a, b)
        return slow(a, b)

    return compared


def _sum(sign: str, slow: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    compute = _ARITHMETIC[sign]

    def computed(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return None
        if type(a) in _NUMBERS and type(b) in _NUMBERS:
            found = compute(a, b)
            # What leaves 64 bits is refused the slow way.
            if type(found) is float or INT64_MIN <= found <= INT64_MAX:
                return found
        return slow(a, b)

    return computed
