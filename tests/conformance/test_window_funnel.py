"""ClickHouse's windowFunnel: its cases, written as funnels by one translation."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.conformance.cases import read_cases

import cepheid
from cepheid.expressions.format import format_expression
from cepheid.language import tree
from cepheid.language.parser import parse

CASES = read_cases("clickhouse_sequence_funnel", ("window_funnel",))
ALWAYS = {"strict_once"}
"""An event is in one step of a chain (§12.2), so this mode says nothing new."""
REPEATS = {"allow_reentry"}
"""Steps that come again never end a chain in strict order (§12.2)."""

ONE_EVENT_IN_MANY_STEPS = {"ch-window_funnel-27"}
"""Without strict_once, one event may be several steps; a sequence has an event for each."""


def condition_of(text: str, variable: str) -> str:
    """Write a condition on a row as one on the event of a variable."""
    where = parse(f"SELECT * FROM rows WHERE {text}").where
    assert where is not None
    owner = tree.Name(span=where.span, text=variable)

    def owned(node: Any) -> Any:
        if not isinstance(node, tree.Word):
            return node
        name = tree.Name(span=node.span, text=node.text)
        return tree.Attribute(span=node.span, variable=owner, attribute=name)

    return format_expression(tree.transform(where, owned))


def text_of(case: dict[str, Any]) -> str:
    query = case["query"]
    names = [f"s{n}" for n in range(1, len(query["conditions"]) + 1)]
    conditions = zip(query["conditions"], names, strict=True)
    where = " AND ".join(f"({condition_of(text, name)})" for text, name in conditions)
    modes = "".join(f", '{m}'" for m in query["modes"] if m not in ALWAYS | REPEATS)
    keys = ", ".join(query["partition_by"] or ["everyone"])
    steps = ", ".join(f"row {name}" for name in names)
    return (
        f"RETURN FUNNEL({keys}{modes}) PATTERN SEQ({steps}) WHERE {where} GROUP-BY {keys} "
        f"WITHIN {query['window_seconds']} seconds TIES "
        + ("strict" if "strict_increase" in query["modes"] else "arrival")
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_every_key_reaches_the_level_that_clickhouse_says(case: dict[str, Any]) -> None:
    query = case["query"]
    names = [column["name"] for column in case["input"]["columns"]]
    rows = [dict(zip(names, row, strict=True)) | {"everyone": 1} for row in case["input"]["rows"]]
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: row[query["ts"]]))
    funnel = cepheid.query(text_of(case), time=query["ts"], type=None, time_unit="s")
    keys = query["partition_by"] or ["everyone"]
    levels: dict[tuple[Any, ...], int] = {
        tuple(row[key] for key in keys): 0 for row in table.to_pylist()
    }
    for row in funnel.run(table).to_pylist():
        if row["keys"]:
            levels[tuple(row[key] for key in keys)] = row["step"]
    expected = {
        tuple(row[:-1]) if query["partition_by"] else (1,): row[-1]
        for row in case["expected"]["rows"]
    }
    if case["id"] in ONE_EVENT_IN_MANY_STEPS:
        assert levels != expected, "this case could be said after all"
    else:
        assert levels == expected
