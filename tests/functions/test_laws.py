"""A function that returns its argument changes no answer, wherever a query calls it (§20)."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import KINDS, numbered, readable
from tests.select import cases as select

import cepheid
from cepheid.errors import CepheidError
from cepheid.language import tree
from cepheid.language.formatter import format_query
from cepheid.language.parser import parse
from cepheid.testing.oracle_select import evaluate_tree
from cepheid.testing.query_strategies import Case, cases

SELECTED = {name: str(kind) for name, kind in select.SCHEMA.items() if name != "d"}
NAMES = {str(kind) for kind in KINDS.values()} | set(SELECTED.values())
SAME = {
    kind: cepheid.function(
        f"same_{kind}", lambda values: values, returns=kind, types=[kind], register=False
    )
    for kind in sorted(NAMES)
}
FUNCTIONS = list(SAME.values())

pytestmark = pytest.mark.filterwarnings("ignore:no event has the type")


def called(text: str) -> str:
    """Call a function around every attribute in WHERE of a query with a pattern."""

    def change(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Attribute) or node.attribute.text not in KINDS:
            return node
        own = SAME[str(KINDS[node.attribute.text])]
        return tree.OwnCall(span=node.span, function=own.name, arguments=(node,), own=own)

    query = parse(text)
    where = None if query.where is None else tree.transform(query.where, change)
    return format_query(msgspec.structs.replace(query, where=where))


def outcome(text: str, events: Any) -> Any:
    try:
        table = cepheid.query(text, functions=FUNCTIONS).run(events)
    except CepheidError as error:
        return [one.code for one in error.diagnostics]
    return readable(table.to_pylist())


@settings(max_examples=100)
@given(cases())
def test_patterns_find_the_same(case: Case) -> None:
    text = called(case.query)
    assume("SAME_" in text)
    events = numbered(case.events)
    assume(set(case.schema) <= set(events.column_names))
    assert outcome(text, events) == outcome(case.query, events)


NAME = re.compile(r"(?<![\w.'])((?:[abs]\.)?(ts|k|g|x|y))\b(?! ?\()(?!')")


def called_in(text: str, conditions: tuple[str, ...]) -> str:
    """Call a function around every column in the conditions of a SELECT."""
    for condition in sorted(conditions, key=len, reverse=True):
        if condition in text:
            inside = NAME.sub(lambda m: f"same_{SELECTED[m[2]]}({m[1]})", condition)
            return text.replace(condition, inside)
    return text


@settings(max_examples=100)
@given(select.filters() | select.aggregations(), select.rows())
def test_selections_find_the_same(text: str, events: list[dict[str, Any]]) -> None:
    same = called_in(text, select.CONDITIONS)
    found = cepheid.query(same, functions=FUNCTIONS).run(select.table_of(events)).to_pylist()
    query = tree.with_own_functions(parse(same), FUNCTIONS)
    assert isinstance(query, tree.SelectQuery)
    expected = evaluate_tree(query, {"s": events}, "ts")
    assert select.plain(found) == select.plain(expected)
    plain = cepheid.query(text).run(select.table_of(events)).to_pylist()
    assert select.plain(found) == select.plain(plain)


@settings(max_examples=60)
@given(select.joins(), select.rows(8), select.rows(8))
def test_joins_find_the_same(
    text: str, events: list[dict[str, Any]], others: list[dict[str, Any]]
) -> None:
    same = called_in(text, select.PAIRS)
    streams: Any = {"s": select.table_of(events), "r": select.table_of(others)}
    found = cepheid.query(same, functions=FUNCTIONS).run(streams).to_pylist()
    query = tree.with_own_functions(parse(same), FUNCTIONS)
    assert isinstance(query, tree.SelectQuery)
    expected = evaluate_tree(query, {"s": events, "r": others}, "ts")
    assert select.plain(found) == select.plain(expected)


@settings(max_examples=40)
@given(cases(), st.integers(1, 4))
def test_live_queries_find_the_same(case: Case, rows: int) -> None:
    text = called(case.query)
    assume("SAME_" in text)
    events = numbered(case.events)
    assume(set(case.schema) <= set(events.column_names))
    found: list[Any] = []
    for one in (case.query, text):
        try:
            live = cepheid.query(one, functions=FUNCTIONS).live(events.schema)
            parts = []
            for begin in range(0, len(events), rows):
                parts += live.feed(events.slice(begin, rows)).to_pylist()
                live = cepheid.query(one, functions=FUNCTIONS).live(
                    events.schema, state=live.save()
                )
            found.append(readable([*parts, *live.close().to_pylist()]))
        except CepheidError as error:
            found.append([d.code for d in error.diagnostics])
    assert found[0] == found[1]
