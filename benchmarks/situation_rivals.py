"""Situations in SQL, for a Python that has DuckDB: gaps and islands, then joins of intervals."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

Run = Callable[[], dict[str, Any]]

ISLANDS = """
    CREATE OR REPLACE TEMP TABLE {name} AS
    WITH f AS (
        SELECT {key} ts, {values} {condition} AS f, lead(ts) OVER w AS next,
            lag({condition}) OVER w AS before FROM e WINDOW w AS ({partition} ORDER BY ts)
    ), g AS (
        SELECT *, sum(CASE WHEN f IS DISTINCT FROM before THEN 1 ELSE 0 END)
            OVER ({partition} ORDER BY ts ROWS UNBOUNDED PRECEDING) AS run FROM f
    )
    SELECT {key} min(ts) AS ts, arg_max(next, ts) AS te {averages} FROM g WHERE f
    GROUP BY {key} run HAVING arg_max(next, ts) IS NOT NULL OR max(next) IS NOT NULL"""

DRIVERS = """
    SELECT count(*), sum(b.speed) FROM a JOIN b ON a.car = b.car
        AND a.ts < b.ts AND b.ts <= a.te AND a.te < b.te
    JOIN c ON b.car = c.car AND b.ts < c.ts AND c.ts <= b.te AND b.te < c.te AND a.te < c.ts
    WHERE c.te - a.ts <= {within}"""

DISCONNECTED = """
    SELECT count(*), 0 FROM c JOIN d ON c.ts < d.ts AND d.ts < c.te AND c.te < d.te
    JOIN b ON b.te < c.ts AND d.te - b.ts <= {within}
    JOIN a ON a.ts = b.ts AND a.te < b.te"""


def duckdb(table: pa.Table, conditions: dict[str, str], query: str, *, keyed: bool) -> Run:
    """Return DuckDB with the events in a table of its own."""
    db: Any = importlib.import_module("duckdb")
    connection = db.connect(config={"threads": 1})
    connection.register("arrow", table)
    connection.execute("CREATE TABLE e AS SELECT * FROM arrow")
    words = {"key": "car,", "partition": "PARTITION BY car"} if keyed else {}
    words |= {"values": "speed,", "averages": ", avg(speed) AS speed"} if keyed else {}
    words = words or dict.fromkeys(("key", "partition", "values", "averages"), "")

    def run() -> dict[str, Any]:
        for name, condition in conditions.items():
            text = ISLANDS.format(name=name.lower(), condition=f"({condition})", **words)
            connection.execute(text)
        (row,) = connection.execute(query).fetchall()
        return {"matches": row[0]}

    return run
