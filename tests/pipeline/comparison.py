"""Compares pipelines with the oracle."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.pipeline.drawing import Drawn
from tests.row_pattern import reference

import cepheid
from cepheid.api import CompiledQuery
from cepheid.kinds.row_pattern.statement import read_statement
from cepheid.language import tree
from cepheid.language.parser import parse
from cepheid.plans.plan import PipelinePlan
from cepheid.testing.oracle_pipeline import evaluate_pipeline

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("ts", pa.int64()),
    ("type", pa.string()),
    ("k", pa.string()),
    ("x", pa.int64()),
    ("z", pa.int64()),
]
KINDS = pa.schema(_FIELDS)
STAMPED = KINDS.set(0, pa.field("ts", pa.timestamp("us", "UTC")))


def planned(drawn: Drawn) -> CompiledQuery:
    return cepheid.query(drawn.text, schema=KINDS)


def plan_of(drawn: Drawn) -> PipelinePlan:
    return PipelinePlan.of(planned(drawn).plan)


def expected_rows(drawn: Drawn) -> list[str]:
    query = parse(drawn.text)
    assert isinstance(query, tree.PipelineQuery)
    found = evaluate_pipeline(query, drawn.events, row_patterns=row_patterns)
    return sorted(map(shown, found))


def row_patterns(text: str, events: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Evaluate a row pattern by definition; of one row a match, a measure has its time."""
    timed = text.replace(" MEASURES ", " MEASURES FINAL LAST(ts) AS at, ")
    (site,) = read_statement(timed).sites
    rows = reference.recognize(site.clause, events)
    names = re.findall(r"\w+", text.partition(" FROM ")[0].removeprefix("SELECT"))
    names = names or [name for name in rows[0] if name != "at"] if rows else []
    at = "at" if site.clause.rows == "one" else "ts"
    return [(row[at], {name: row[name] for name in names}) for row in rows]


def plain(table: pa.Table) -> list[str]:
    """Return rows in one form and in no order."""
    return sorted(map(shown, in_numbers(table).to_pylist()))


def in_numbers(table: pa.Table) -> pa.Table:
    """Return rows with times as whole numbers, as the oracle has them."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            numbers = table[field.name].cast(pa.timestamp("us", field.type.tz)).cast(pa.int64())
            table = table.set_column(place, field.name, numbers)
    return table


def shown(row: dict[str, Any]) -> str:
    return repr(sorted((name, _value(value)) for name, value in row.items()))


def _value(value: Any) -> Any:
    """Round doubles, and write all numbers alike."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return round(float(value), 9) + 0.0
    return value.total_seconds() * 1e6 if hasattr(value, "total_seconds") else value
