"""Events and queries that call functions of one's own, for every place where they run."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa


def events() -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([1, 2, 3, 4, 5, 6, 7, 8], pa.int64()),
            "type": ["A", "B", "A", "B", "A", "A", "B", "B"],
            "x": [1.0, 3.0, None, 4.0, 2.0, 7.5, 5.0, 0.5],
            "n": ["ab", "cd", "ax", None, "b", "äö", "", "aa"],
        }
    )


QUERIES = [
    "RETURN COUNT(*), SUM(b.x) PATTERN SEQ(A a, B b) WHERE twice(a.x) < b.x",
    "RETURN COUNT(*) PATTERN A a+ WHERE twice(a.x) < twice(NEXT(a).x)",
    "RETURN COUNT(*) PATTERN SEQ(A a+, B b) WHERE twice(a.x) + NEXT(a).x > twice(a.x - NEXT(a).x)",
    "RETURN n, COUNT(*) PATTERN B b WHERE half_known(b.x, b.n) OR initial(b.n) IN ('a', 'c')"
    " GROUP-BY n",
]
SELECTS = [
    "SELECT ts, twice(x) AS y, initial(n) AS i FROM s WHERE twice(x) > 2 OR initial(n) = 'a'",
    "SELECT type, COUNT(*), SUM(twice(x)) AS s FROM s WHERE NOT half_known(x, n) GROUP BY type",
    "SELECT type, twice(SUM(x)) AS s FROM s GROUP BY type HAVING twice(COUNT(*)) > 3",
    "SELECT a.ts, b.ts AS t FROM s a JOIN s b ON twice(a.x) = b.x + b.x AND a.type = b.type"
    " WINDOW 5 us",
    "SELECT a.ts, b.ts AS t FROM s a JOIN s b ON initial(a.n) = initial(b.n) WINDOW 5 us",
    "SELECT CASE WHEN initial(n) = 'a' THEN twice(x) ELSE 0.0 END AS y FROM s",
]
TIMED = [
    "RETURN a.ts AS s, b.ts AS t, twice(b.x) AS y PATTERN SEQ(A a, B b) WHERE twice(a.x) < b.x"
    " WITHIN 5 us",
    "DEFINE Fast AS initial(n) = 'a' SITUATIONS Fast PARTITION BY type",
]
KINDS: dict[str, Any] = {
    "boolean": pa.array([True, None]),
    "bigint": pa.array([2**53 + 1, None], pa.int64()),
    "double": pa.array([0.1, None]),
    "string": pa.array(["ä", None]),
    "timestamp": pa.array([dt.datetime(2026, 1, 31, 13, 30), None], pa.timestamp("us")),
    "date": pa.array([dt.date(2026, 1, 31), None]),
    "duration": pa.array([dt.timedelta(seconds=90), None], pa.duration("us")),
}


def rows_of(table: pa.Table) -> list[str]:
    """List rows without their order."""
    rows = table.drop_columns([n for n in ("match_id",) if n in table.column_names]).to_pylist()
    return sorted(map(repr, rows))
