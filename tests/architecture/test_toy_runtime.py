"""A new runtime is one module: it takes any job, and never asks for a kind."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import cepheid
from cepheid.jobs.local_jobs import local_job
from cepheid.jobs.ordering import ordered
from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.live_plan import plan_live
from cepheid.kinds.row_pattern.statement import read_statement
from cepheid.plans.plan import Plan

SECOND = 1_000_000
ROWS = [
    {"ts": n * SECOND, "type": "AB"[n % 3 == 2], "k": "pq"[n % 2], "x": n * 7 % 11}
    for n in range(30)
]
QUERIES = {
    "aggregates": "RETURN k, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP-BY k WITHIN 8 s SLIDE 4 s",
    "trailing windows": "RETURN COUNT(*) PATTERN A+ WITHIN 3 s",
    "matches": "RETURN MATCHES PATTERN SEQ(A, B) WHERE A.x < B.x WITHIN 5 s",
    "attributes": "RETURN A.x, B.x PATTERN SEQ(A, B) WITHIN 5 s",
    "situations": "DEFINE HIGH AS x > 4, LOW AS x <= 4 PATTERN HIGH meets LOW WITHIN 9 s",
    "rows": "SELECT k, x + 1 AS y FROM s WHERE x > 3",
    "windows of time": "SELECT k, SUM(x) FROM s WINDOW 7 s SLIDE 2 s GROUP BY k",
    "windows of events": "SELECT COUNT(*), AVG(x) FROM s WINDOW 5 EVENTS",
}


CLAUSE = """SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
    MEASURES FIRST(A.x) AS low, B.x AS high PATTERN (A+ B) DEFINE A AS x < 5, B AS x >= 5)"""


def run_list(plan: Plan, rows: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """Run any plan over a list, in pieces of so many events: this is the whole runtime."""
    events = pa.Table.from_pylist(rows)
    pieces = (ordered(events, plan).slice(n, size) for n in range(0, len(rows), size))
    found: list[dict[str, Any]] = local_job(plan).answer(pieces, events.schema).to_pylist()
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_a_list_of_events(name: str) -> None:
    query = cepheid.query(QUERIES[name]).with_schema(pa.Table.from_pylist(ROWS).schema)
    expected = query.run(pa.Table.from_pylist(ROWS)).to_pylist()
    assert expected
    for size in (len(ROWS), 7, 1):
        assert run_list(query.plan, ROWS, size) == expected


def test_a_list_of_rows_for_sql() -> None:
    events = pa.Table.from_pylist(ROWS)
    expected = cepheid.sql(CLAUSE, tables={"s": events}).to_pylist()
    statement = read_statement(CLAUSE)
    (site,) = statement.sites
    clause = bind_clause(site.clause, events.column_names, CLAUSE)
    plan = plan_live(statement, clause, events.schema, "UTC")
    for size in (len(ROWS), 7, 1):
        found = run_list(plan, ROWS, size)
        assert sorted(map(str, found)) == sorted(map(str, expected))
