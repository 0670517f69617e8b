"""MATCH_RECOGNIZE by definition: slow, obvious, and without the code that it judges.

It takes the parser's tree and nothing else. A match is the first of all label sequences in the
order of preference whose DEFINE conditions hold (ISO/IEC 19075-5, 4.14 and 7.2). Values are looked
up row by row, with Python's numbers.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cepheid.kinds.row_pattern import tree

Row = Mapping[str, Any]
Label = tuple[str, bool]
"""A variable, and whether its row is left out of ALL ROWS PER MATCH."""


ABSENT, FIRST_ROW = "E611", "E610"


class SkipError(Exception):
    """AFTER MATCH SKIP has no row to go to; the argument is a diagnostic code."""


class Scene(NamedTuple):
    """What an expression sees: a partition, a match, and the current row of it."""

    rows: Sequence[Row]
    start: int
    labels: Sequence[str]
    current: int
    number: int
    unions: Mapping[str, frozenset[str]]

    def places(self, variable: str | None, *, final: bool) -> list[int]:
        """Return the places in the match of the rows of a variable."""
        end = len(self.labels) if final else self.current + 1
        names = None if variable is None else self.unions.get(variable, frozenset([variable]))
        return [i for i in range(end) if names is None or self.labels[i] in names]


def recognize(clause: tree.Clause, table: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows of the result: partitions by key, input columns only with ALL ROWS."""
    keys = [column.name for column in clause.partition_by]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in table:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    found = []
    for key in sorted(groups, key=lambda k: tuple((v is not None, v) for v in k)):
        found += _partition(clause, sorted_rows(clause, groups[key]))
    return found


def sorted_rows(clause: tree.Clause, rows: list[Row]) -> list[Row]:
    """Return the rows of a partition in the order of ORDER BY."""
    for key in reversed(clause.order_by):
        name = key.column.name
        nulls = [row for row in rows if row[name] is None]
        others = [row for row in rows if row[name] is not None]
        others.sort(key=lambda row: row[name])
        if key.descending:
            # A stable sort that descends: equal rows keep their order.
            runs = [list(run) for _, run in itertools.groupby(others, key=lambda row: row[name])]
            others = list(itertools.chain.from_iterable(reversed(runs)))
        rows = nulls + others if key.nulls_first else others + nulls
    return rows


def _partition(clause: tree.Clause, rows: Sequence[Row]) -> list[dict[str, Any]]:
    unions = {s.name: frozenset(v.name for v in s.variables) for s in clause.subsets}
    found: list[dict[str, Any]] = []
    start, number, taken = 0, 0, -1
    while start < len(rows):
        match = next(sequences(clause, clause.pattern, rows, start, (), number + 1), None)
        if match is None:
            if clause.rows == "all unmatched" and start > taken:
                found.append({**rows[start], **{m.name: None for m in clause.measures}})
            start += 1
            continue
        number += 1
        taken = max(taken, start + len(match) - 1)
        found += _output(clause, rows, start, match, number, unions)
        start = next_start(clause, start, [label for label, _ in match], unions)
    return found


def next_start(
    clause: tree.Clause, start: int, labels: list[str], unions: Mapping[str, frozenset[str]]
) -> int:
    """Return the row at which the search goes on after a match."""
    skip = clause.skip
    if not labels or skip.mode == "to_next_row":
        return start + 1
    if skip.mode == "past_last_row":
        return start + len(labels)
    assert skip.variable is not None
    names = unions.get(skip.variable, frozenset([skip.variable]))
    places = [i for i, label in enumerate(labels) if label in names]
    if not places:
        raise SkipError(ABSENT)
    place = places[0] if skip.mode == "to_first" else places[-1]
    if place == 0:
        raise SkipError(FIRST_ROW)
    return start + place


def _output(
    clause: tree.Clause,
    rows: Sequence[Row],
    start: int,
    match: Sequence[Label],
    number: int,
    unions: Mapping[str, frozenset[str]],
) -> Iterator[dict[str, Any]]:
    labels = [label for label, _ in match]

    def measures(current: int) -> dict[str, Any]:
        scene = Scene(rows, start, labels, current, number, unions)
        return {m.name: value(m.expression, scene) for m in clause.measures}

    if clause.rows == "one":
        keys = {c.name: rows[start][c.name] for c in clause.partition_by}
        yield {**keys, **measures(len(labels) - 1)}
    elif not labels:
        if clause.rows != "all omit":
            yield {**rows[start], **measures(-1)}
    else:
        for i, (_, hidden) in enumerate(match):
            if not hidden:
                yield {**rows[start + i], **measures(i)}


# ---------------------------------------------------------------------------------------
# Sequences of labels in the order of preference


def sequences(
    clause: tree.Clause,
    pattern: tree.Pattern,
    rows: Sequence[Row],
    start: int,
    taken: tuple[Label, ...],
    number: int,
    *,
    hidden: bool = False,
) -> Iterator[tuple[Label, ...]]:
    """Yield all matches from a row in the order of preference."""

    def inner(part: tree.Pattern, so_far: tuple[Label, ...]) -> Iterator[tuple[Label, ...]]:
        return sequences(clause, part, rows, start, so_far, number, hidden=hidden)

    place = start + len(taken)
    match pattern:
        case tree.Empty():
            yield taken
        case tree.Anchor(at_start=at_start):
            if place == (0 if at_start else len(rows)):
                yield taken
        case tree.Variable(name=name):
            longer = (*taken, (name, hidden))
            if place < len(rows) and _holds(clause, name, rows, start, longer, number):
                yield longer
        case tree.Sequence(parts=parts):
            yield from _chain(inner, parts, taken)
        case tree.Alternation(parts=parts):
            for part in parts:
                yield from inner(part, taken)
        case tree.Permutation(parts=parts):
            for order in itertools.permutations(parts):
                yield from _chain(inner, order, taken)
        case tree.Exclusion(part=part):
            yield from sequences(clause, part, rows, start, taken, number, hidden=True)
        case tree.Quantified():
            yield from _repeated(inner, pattern, taken, 0)


def _chain(
    inner: Any, parts: Sequence[tree.Pattern], taken: tuple[Label, ...]
) -> Iterator[tuple[Label, ...]]:
    if not parts:
        yield taken
        return
    for longer in inner(parts[0], taken):
        yield from _chain(inner, parts[1:], longer)


def _repeated(
    inner: Any, pattern: tree.Quantified, taken: tuple[Label, ...], count: int
) -> Iterator[tuple[Label, ...]]:
    enough = count >= pattern.least
    if enough and pattern.reluctant:
        yield taken
    if pattern.most is None or count < pattern.most:
        for longer in inner(pattern.part, taken):
            # A repetition beyond the least number must take a row.
            if not enough or len(longer) > len(taken):
                yield from _repeated(inner, pattern, longer, count + 1)
    if enough and not pattern.reluctant:
        yield taken


def _holds(
    clause: tree.Clause,
    name: str,
    rows: Sequence[Row],
    start: int,
    taken: Sequence[Label],
    number: int,
) -> bool:
    if clause.within is not None:
        key = clause.order_by[0].column.name
        first, last = rows[start][key], rows[start + len(taken) - 1][key]
        if isinstance(clause.within, tree.Duration):
            # A whole number counts seconds.
            length: Any = clause.within.microseconds / 1_000_000
        else:
            length = clause.within.value
        if not last - first < length:
            return False
    condition = next((d.condition for d in clause.definitions if d.name == name), None)
    if condition is None:
        return True
    unions = {s.name: frozenset(v.name for v in s.variables) for s in clause.subsets}
    labels = [label for label, _ in taken]
    scene = Scene(rows, start, labels, len(labels) - 1, number, unions)
    return value(condition, scene) is True


# ---------------------------------------------------------------------------------------
# Values


def value(node: tree.Expression, scene: Scene) -> Any:
    """Return the value of an expression as written."""
    match node:
        case tree.Literal(value=constant):
            return constant
        case tree.Column(qualifier=variable):
            return value_at(node, scene, _last(scene, variable, final=False))
        case tree.Classifier(variable=variable):
            return value_at(node, scene, _last(scene, variable, final=False))
        case tree.MatchNumber():
            return scene.number
        case tree.Navigate():
            return _navigated(node, scene)
        case tree.Call():
            return aggregated(node, scene)
        case tree.Unary(operator="NOT", operand=operand):
            inner = value(operand, scene)
            return None if inner is None else not inner
        case tree.IsNull(operand=operand, negated=negated):
            return (value(operand, scene) is not None) == negated
        case tree.Binary(operator=operator, left=left, right=right):
            return _operated(operator, value(left, scene), value(right, scene))
        case tree.Logical(operator=operator, operands=operands):
            return _combined(operator, [value(operand, scene) for operand in operands])
    message = f"clauses are drawn without {type(node).__name__}"
    raise AssertionError(message)


def _combined(operator: str, values: list[Any]) -> Any:
    decisive = operator == "OR"
    if decisive in values:
        return decisive
    return None if None in values else not decisive


def _operated(operator: str, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    return {
        "=": lambda: a == b,
        "<>": lambda: a != b,
        "<": lambda: a < b,
        "<=": lambda: a <= b,
        ">": lambda: a > b,
        ">=": lambda: a >= b,
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "%": lambda: a % b,
    }[operator]()


def _last(scene: Scene, variable: str | None, *, final: bool) -> int | None:
    places = scene.places(variable, final=final)
    return scene.start + places[-1] if places else None


def value_at(node: tree.Expression, scene: Scene, row: int | None) -> Any:
    """Return the value of an expression at one row of the partition."""
    if row is None or not 0 <= row < len(scene.rows):
        return None
    match node:
        case tree.Column(name=name):
            return scene.rows[row][name]
        case tree.Classifier():
            place = row - scene.start
            return scene.labels[place] if 0 <= place < len(scene.labels) else None
        case tree.Binary(operator=operator, left=left, right=right):
            return _operated(operator, value_at(left, scene, row), value_at(right, scene, row))
        case tree.Logical(operator=operator, operands=operands):
            return _combined(operator, [value_at(operand, scene, row) for operand in operands])
        case tree.Unary(operator="NOT", operand=operand):
            inner = value_at(operand, scene, row)
            return None if inner is None else not inner
        case tree.IsNull(operand=operand, negated=negated):
            return (value_at(operand, scene, row) is not None) == negated
        case tree.Literal(value=constant):
            return constant
        case tree.MatchNumber():
            return scene.number
    message = f"clauses are drawn without {type(node).__name__}"
    raise AssertionError(message)


def _variable(node: tree.Expression) -> str | None:
    if isinstance(node, tree.Column):
        return node.qualifier
    if isinstance(node, tree.Classifier):
        return node.variable
    return next((v for v in map(_variable, tree.children(node)) if v is not None), None)


def _navigated(node: tree.Navigate, scene: Scene) -> Any:
    if node.function in ("FIRST", "LAST"):
        row = _logical(node, scene)
        return value_at(node.argument, scene, row)
    steps = 1 if node.offset is None else node.offset
    inner, row = node.argument, None
    if isinstance(inner, tree.Navigate):
        row, inner = _logical(inner, scene), inner.argument
    else:
        row = _last(scene, _variable(inner), final=False)
    if row is None:
        return None
    return value_at(inner, scene, row - steps if node.function == "PREV" else row + steps)


def _logical(node: tree.Navigate, scene: Scene) -> int | None:
    places = scene.places(_variable(node.argument), final=node.semantics == "FINAL")
    offset = node.offset or 0
    if offset >= len(places):
        return None
    return scene.start + (places[offset] if node.function == "FIRST" else places[-1 - offset])


# ---------------------------------------------------------------------------------------
# Aggregates


def aggregated(call: tree.Call, scene: Scene) -> Any:
    """Return an aggregate over the rows of a match."""
    parts = (*call.arguments, *(() if call.condition is None else (call.condition,)))
    named = [call.star_of, *map(_variable, parts)]
    variable = next((name for name in named if name is not None), None)
    places = scene.places(variable, final=call.semantics == "FINAL")
    if call.condition is not None:
        places = [i for i in places if value_at(call.condition, scene, scene.start + i) is True]
    if call.star:
        return len(places)
    for key, how in reversed([*zip(call.order, call.ordering, strict=True)]):
        keyed = [(value_at(key, scene, scene.start + i), i) for i in places]
        nulls = [i for cell, i in keyed if cell is None]
        others = [(cell, i) for cell, i in keyed if cell is not None]
        others.sort(key=lambda pair: -pair[0] if how.descending else pair[0])  # used at once
        rest = [i for _, i in others]
        places = nulls + rest if how.nulls_first else rest + nulls
    rows = [tuple(value_at(a, scene, scene.start + i) for a in call.arguments) for i in places]
    if call.function == "ARRAY_AGG":
        cells = [row[0] for row in rows]
        return (_unique(cells) if call.distinct else cells) or None
    if call.function in ("MIN_BY", "MAX_BY"):
        return _extreme_by(call.function, rows)
    present = [row for row in rows if row[0] is not None]
    if call.function == "MAP_AGG":
        return [*dict(present).items()] or None
    if call.function in ("STRING_AGG", "LISTAGG"):
        mark = str(present[0][1]) if present and len(call.arguments) == 2 else ""
        texts = [str(row[0]) for row in present]
        return mark.join(_unique(texts) if call.distinct else texts) if present else None
    if call.function in ("MIN", "MAX") and len(call.arguments) == 2:
        ranked = sorted((row[0] for row in present), reverse=call.function == "MAX")
        return ranked[: present[0][1]] if present else None
    cells = [row[0] for row in present]
    return _folded(call.function, _unique(cells) if call.distinct else cells)


def _unique(cells: list[Any]) -> list[Any]:
    return [cell for i, cell in enumerate(cells) if cell not in cells[:i]]


def _extreme_by(name: str, rows: list[tuple[Any, ...]]) -> Any:
    """Return the values beside the least or largest keys; of equal keys the first row counts."""
    sign = 1 if name == "MIN_BY" else -1
    ranked = sorted((row for row in rows if row[1] is not None), key=lambda row: sign * row[1])
    if rows and len(rows[0]) == 3:
        return [row[0] for row in ranked[: rows[0][2]]] or None
    return ranked[0][0] if ranked else None


def _folded(name: str, cells: list[Any]) -> Any:
    """Return an aggregate of one argument over values that are not NULL."""
    if name in ("COUNT", "COUNT_IF"):
        return len(cells) if name == "COUNT" else cells.count(True)
    spare = 0 if name in ("STDDEV_POP", "VAR_POP") else 1
    if name.startswith(("STDDEV", "VAR")):
        if len(cells) <= spare:
            return None
        variance = statistics.pvariance(cells) if spare == 0 else statistics.variance(cells)
        return math.sqrt(variance) if name.startswith("STDDEV") else variance
    if not cells:
        return None
    folds: dict[str, Callable[[], Any]] = {
        "SUM": lambda: sum(cells),
        "MIN": lambda: min(cells),
        "MAX": lambda: max(cells),
        "AVG": lambda: sum(cells) / len(cells),
        "BOOL_OR": lambda: True in cells,
        "BOOL_AND": lambda: False not in cells,
        "EVERY": lambda: False not in cells,
        "ANY_VALUE": lambda: cells[0],
        "ARBITRARY": lambda: cells[0],
        "COLLECT_LIST": lambda: cells,
        "HISTOGRAM": lambda: [(cell, cells.count(cell)) for cell in _unique(cells)],
    }
    return folds[name]()
