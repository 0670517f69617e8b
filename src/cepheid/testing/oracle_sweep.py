"""Sweeps by definition: run a query once for every combination of values (§16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import msgspec

from cepheid.language import tree

Row = dict[str, object]
Value = tree.Literal | tree.Duration


def sweep_rows(query: tree.SweepQuery, run: Callable[[tree.Query], list[Row]]) -> list[Row]:
    """Compute the rows of all combinations, in their order (§16.5)."""
    found = list(_sweeps(query.query))
    names = parameter_names(query)
    rows: list[Row] = []
    for values in product(*(_values(sweep) for sweep, _ in found)):
        places = {sweep.span.start: v for (sweep, _), v in zip(found, values, strict=True)}
        head = {n: _plain(v) for n, v in zip(names, values, strict=True)}
        rows += [head | row for row in run(_with_values(query.query, places))]
    return rows


def parameter_names(query: tree.SweepQuery) -> list[str]:
    """Name the columns of the parameters (§16.3)."""
    names: list[str] = []
    for sweep, condition in _sweeps(query.query):
        derived = "sweep_within"
        if condition is not None:
            first = next((text for node in tree.walk(condition) if (text := _named(node))), "")
            derived = f"sweep_{first}" if first else "sweep"
        number = 1
        while sweep.name is None and derived + (f"_{number}" if number > 1 else "") in names:
            number += 1
        names.append(sweep.name.text if sweep.name else derived + f"_{number}" * (number > 1))
    return names


def _named(node: tree.Node) -> str:
    if isinstance(node, tree.Attribute):
        return node.attribute.text.replace(".", "_")
    if isinstance(node, tree.Aggregate):
        attribute = node.attribute.text.replace(".", "_") if node.attribute else ""
        return attribute or node.function.lower()
    return node.text if isinstance(node, tree.Word) else ""


def _sweeps(query: tree.Query) -> Iterator[tuple[tree.Sweep, tree.Expression | None]]:
    """Yield every SWEEP with the condition that it stands in, in the order of the text."""
    ends = [n.until for n in tree.walk(query.pattern) if isinstance(n, tree.Repeat) and n.until]
    found: list[tuple[tree.Sweep, tree.Expression | None]] = []
    waiting = [whole for whole in [query.where, query.having, *ends] if whole is not None]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tree.Logical) and part.operator == "AND":
            waiting += part.operands
        else:
            found += [(n, part) for n in tree.walk(part) if isinstance(n, tree.Sweep)]
    if query.window is not None and query.window.sweep is not None:
        found.append((query.window.sweep, None))
    yield from sorted(found, key=lambda one: one[0].span.start)


def _values(sweep: tree.Sweep) -> list[Value]:
    """List the values of a sweep (§16.2)."""
    numbers = [_number(value) for value in (*sweep.values, sweep.step) if value is not None]
    if any(number is None for number in numbers):
        return list(sweep.values)
    exact = [number for number in numbers if number is not None]
    if sweep.step is not None:
        first, last, step = exact
        exact = []
        while (first - last) * step <= 0:
            exact.append(first)
            first += step
    if isinstance(sweep.values[0], tree.Duration):
        return [tree.Duration(span=sweep.span, microseconds=int(number)) for number in exact]
    given = [v.value for v in (*sweep.values, sweep.step) if isinstance(v, tree.Literal)]
    whole = all(isinstance(value, int) for value in given)
    if whole:
        return [tree.Literal(span=sweep.span, value=int(number)) for number in exact]
    return [_double(sweep, number) for number in exact]


def _double(sweep: tree.Sweep, number: Decimal) -> tree.Literal:
    """Write a number with a point; digits that a double has not are kept (§4.10)."""
    value = float(number)
    digits = "" if Decimal(repr(value)) == number else f"{number:f}"
    return tree.Literal(span=sweep.span, value=value, digits=digits)


def _number(value: Value) -> Decimal | None:
    if isinstance(value, tree.Duration):
        return Decimal(value.microseconds)
    if isinstance(value.value, str):
        return None
    return Decimal(value.digits or repr(value.value))


def _plain(value: Value) -> object:
    return value.microseconds if isinstance(value, tree.Duration) else value.value


def _with_values(query: tree.Query, places: dict[int, Value]) -> tree.Query:
    def change(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Sweep):
            return places[node.span.start]
        if isinstance(node, tree.Window) and node.sweep is not None:
            within: Any = node.sweep
            return msgspec.structs.replace(node, within=within, sweep=None)
        return node

    changed = tree.transform_node(query, change)
    assert isinstance(changed, tree.Query), "a query stays a query"
    return changed
