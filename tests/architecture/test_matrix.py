"""Every kind of query in every place: it runs and agrees, or is refused with a reason.

The table in docs/where.md is what is found here; ``CEPHEID_WRITE=1`` writes it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from tests.runtime.test_stream import cut, drain, read_stream, write_files

import cepheid
from cepheid.errors import CepheidError

PAGE = Path(__file__).parents[2] / "docs" / "where.md"
SECOND = 1_000_000
COUNT = 60
EVENTS = pa.table(
    {
        "ts": pa.array([n * SECOND for n in range(COUNT)], pa.timestamp("us", "UTC")),
        "type": ["AB"[n % 3 == 2] for n in range(COUNT)],
        "k": ["pq"[n % 2] for n in range(COUNT)],
        "x": [n * 7 % 11 for n in range(COUNT)],
    }
)
LATER = EVENTS.slice(COUNT - 1).set_column(
    0, "ts", pa.array([10_000 * SECOND], pa.timestamp("us", "UTC"))
)
"""Moves the watermark of a stream beyond all events."""

cepheid.function("matrix_twice", lambda x: pc.multiply(x, 2), returns="bigint")

CLAUSE = """SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
    MEASURES FIRST(A.x) AS low, B.x AS high PATTERN (A{} B) {} DEFINE A AS x < 5, B AS x >= 5)"""

QUERIES = {
    "aggregates of trends": "RETURN k, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) WHERE [k] GROUP-BY k "
    "WITHIN 8 s SLIDE 4 s",
    "aggregates without a window": "RETURN k, COUNT(*) PATTERN SEQ(A, B) WHERE [k] GROUP-BY k",
    "matches": "RETURN A.x, B.x PATTERN SEQ(A, B) WHERE [k] AND A.x < B.x WITHIN 5 s",
    "funnel": "RETURN FUNNEL(k) PATTERN SEQ(A, B) WHERE A.x < 9 WITHIN 2 s",
    "funnel, windows": "RETURN FUNNEL(k) PATTERN SEQ(A, B) WITHIN 8 s SLIDE 4 s",
    "situations": "FROM s PARTITION BY k DEFINE HIGH AS x > 4, LOW AS x <= 4 "
    "PATTERN HIGH meets LOW WITHIN 9 s RETURN COUNT(HIGH) AS n",
    "situations, relative": "FROM s PARTITION BY k DEFINE UP AS x > PREV(x), "
    "FEW AS COUNT(*) < 3 AT LEAST 1 s PATTERN UP overlaps;during;starts;equals FEW WITHIN 9 s "
    "RETURN COUNT(UP) AS n",
    "SELECT, rows": "SELECT k, x + 1 AS y FROM s WHERE x > 3",
    "SELECT, windows of time": "SELECT k, SUM(x) AS n FROM s GROUP BY k WINDOW 6 s SLIDE 2 s",
    "SELECT, windows of events": "SELECT k, SUM(x) AS n FROM s GROUP BY k WINDOW 4 EVENTS",
    "SELECT, no window": "SELECT k, COUNT(*) AS n FROM s GROUP BY k",
    "SELECT, join by time": "SELECT a.x, b.k FROM s a JOIN s b ON a.x = b.x WINDOW 9 s",
    "SELECT, join of events": "SELECT a.x, b.k FROM s a JOIN s b ON a.x = b.x WINDOW 5 EVENTS",
    "SELECT, a window for each stream": "SELECT a.x, b.k FROM s a WITHIN 3 s JOIN s b WITHIN 9 s "
    "ON a.x = b.x",
    "SELECT, sessions": "SELECT k, SUM(x) / COUNT(*) AS n FROM s GROUP BY k HAVING n > 0 "
    "WINDOW SESSION 2 s",
    "SELECT, distinct values": "SELECT k, COUNT(DISTINCT x), MEDIAN(x) FROM s GROUP BY k "
    "WINDOW 6 s SLIDE 2 s",
    "SELECT, sketches": "SELECT k, APPROX_COUNT_DISTINCT(x), APPROX_PERCENTILE(x, 0.5) FROM s "
    "GROUP BY k WINDOW 6 s SLIDE 2 s",
    "SELECT, order": "SELECT k, CAST(x AS STRING) AS t FROM s ORDER BY x DESC, k LIMIT 5",
    "SELECT, aggregates of pairs": "SELECT a.k, COUNT(*) AS n FROM s a WITHIN 3 s JOIN s b "
    "WITHIN 9 s ON a.x < b.x GROUP BY a.k WINDOW 6 s",
    "SELECT, three streams": "SELECT a.x, b.k, c.ts AS t FROM s a JOIN s b ON a.x = b.x "
    "JOIN s c ON c.k = b.k AND c.x < 3 WINDOW 9 s",
    "MATCH_RECOGNIZE": CLAUSE.format("{1,3}", ""),
    "MATCH_RECOGNIZE, unbounded": CLAUSE.format("+", ""),
    "MATCH_RECOGNIZE, WITHIN": CLAUSE.format("+", "WITHIN INTERVAL '5' SECOND"),
    "pipeline": "CREATE STREAM High AS SELECT k, x FROM s WHERE x > 2; "
    "CREATE STREAM Sum AS SELECT k, SUM(x) AS n FROM High GROUP BY k WINDOW 6 s SLIDE 2 s; "
    "RETURN k, COUNT(*) PATTERN SEQ(Sum s+, B b) WHERE [k] AND s.n <= NEXT(s).n GROUP-BY k "
    "WITHIN 12 s SLIDE 6 s",
    "pipeline, two keys": "CREATE STREAM Pair AS RETURN k, A.x AS low, B.x AS high "
    "PATTERN SEQ(A, B) WHERE [k] AND A.x < B.x WITHIN 5 s; "
    "SELECT low, COUNT(*) AS n FROM Pair GROUP BY low WINDOW 20 s",
    "sweep, one pass": "RETURN k, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) "
    "WHERE [k] AND A.x > SWEEP least (1, 4, 7) GROUP-BY k WITHIN 8 s SLIDE 4 s",
    "sweep, a query each": "RETURN COUNT(*) AS n PATTERN SEQ(A, B) "
    "WHERE [k] AND A.x + SWEEP more (0, 3) < B.x HAVING n > SWEEP few (1, 2) WITHIN 8 s SLIDE 8 s",
    "own function, trends": "RETURN k, COUNT(*) PATTERN SEQ(A, B) "
    "WHERE [k] AND matrix_twice(A.x) < B.x GROUP-BY k WITHIN 8 s SLIDE 4 s",
    "own function, SELECT": "SELECT k, matrix_twice(x) AS y FROM s WHERE matrix_twice(x) > 6",
    "own function, MATCH_RECOGNIZE": CLAUSE.format("{1,3}", "").replace(
        "x < 5", "matrix_twice(x) < 9"
    ),
    "workload of trends": "",
    "workload with a SELECT": "",
    "workload with a row pattern": "",
}
WORKLOADS = {
    "workload of trends": {
        "one": QUERIES["aggregates of trends"],
        "two": "RETURN k, COUNT(*) PATTERN A+ WHERE [k] GROUP-BY k WITHIN 4 s SLIDE 4 s",
    },
    "workload with a SELECT": {
        "one": QUERIES["aggregates of trends"],
        "two": QUERIES["SELECT, windows of time"],
    },
    "workload with a row pattern": {
        "one": QUERIES["aggregates of trends"],
        "two": QUERIES["MATCH_RECOGNIZE, WITHIN"],
    },
}


class Held(NamedTuple):
    """Where the same events are."""

    files: str
    store: cepheid.EventStore
    spark: SparkSession
    stream: Any
    folder: Path


def run(name: str, events: Any, spark: SparkSession | None = None) -> pa.Table:
    if name in WORKLOADS:
        found = cepheid.workload(WORKLOADS[name]).run(events, spark=spark)
    elif "MATCH_RECOGNIZE" in name:
        at: list[Any] = [QUERIES[name]] if spark is None else [spark, QUERIES[name]]
        found = cepheid.sql(*at, tables={"s": events})
    else:
        with_spark = None if not isinstance(events, str | cepheid.EventStore) else spark
        found = cepheid.query(QUERIES[name]).run(events, spark=with_spark)
    return found if isinstance(found, pa.Table) else found.toArrow()


def live(name: str, held: Held) -> pa.Table:
    if name in WORKLOADS:
        rows = cepheid.workload(WORKLOADS[name]).stream(held.stream, watermark="1 second")
    elif "MATCH_RECOGNIZE" in name:
        tables = {"s": held.stream}
        rows = cepheid.sql(held.spark, QUERIES[name], tables=tables, watermark="1 second")
    else:
        rows = cepheid.query(QUERIES[name]).stream(held.stream, watermark="1 second")
    return drain(rows, held.folder, "".join(c for c in name if c.isalnum()))[0]


PLACES: dict[str, Callable[[str, Held], pa.Table]] = {
    "in process": lambda name, _: run(name, EVENTS),
    "files": lambda name, held: run(name, held.files),
    "event store": lambda name, held: run(name, held.store),
    "DataFrame": lambda name, held: (
        run(name, held.spark.createDataFrame(EVENTS), held.spark)
        if "MATCH" in name
        else run(name, held.spark.createDataFrame(EVENTS))
    ),
    "files on Spark": lambda name, held: run(name, held.files, held.spark),
    "store on Spark": lambda name, held: run(name, held.store, held.spark),
    "live stream": live,
}


def hold(spark: SparkSession, folder: Path) -> Held:
    """Put the events into files, a store and a stream."""
    files = write_files(folder / "files", cut(EVENTS, 2))
    store = cepheid.EventStore(folder / "store", time="ts")
    store.append(EVENTS)
    arriving = write_files(folder / "live", [*cut(EVENTS, 2), LATER])
    return Held(str(files), store, spark, read_stream(spark, arriving, 1), folder)


def plain(table: pa.Table) -> list[str]:
    """Return rows in no order, without numbers of matches, which differ between tasks."""
    rows = [{n: v for n, v in row.items() if n != "match_id"} for row in table.to_pylist()]
    return sorted(repr([(n, _value(row[n])) for n in sorted(row)]) for row in rows)


def _value(value: Any) -> Any:
    return float(value) if isinstance(value, int | Decimal) else value


def check(name: str, place: str, rows: list[str], expected: list[str]) -> None:
    """Compare the rows of a place; a stream has those that no later event can change."""
    assert expected, name
    if place != "live stream":
        assert rows == expected, (name, place)
        return
    whole = Counter(plain(run(name, pa.concat_tables([EVENTS, LATER]))))
    assert Counter(rows) <= whole, (name, place)
    assert len(rows) > whole.total() // 2, (name, place)


def answers(name: str, held: Held) -> list[str | None]:
    """Run a query in every place; return why a place refuses it, None where it agrees."""
    found: list[str | None] = []
    expected: list[str] = []
    for place, way in PLACES.items():
        try:
            rows = plain(way(name, held))
        except CepheidError as error:
            told = error.diagnostics[0]
            found.append(f"{told.code}: {told.message}")
            continue
        expected = expected or rows
        check(name, place, rows, expected)
        found.append(None)
    return found


def noted(reason: str, reasons: list[str]) -> str:
    """Return the code of a reason, and the number of its note below the table."""
    return f"{reason.partition(':')[0]} ({reasons.index(reason) + 1})"


def table_of(held: Held) -> str:
    """Run every kind in every place and return the table of docs/where.md, with its notes."""
    # Side by side, as Spark spends most of a small query waiting.
    with ThreadPoolExecutor(3) as pool:
        rows = list(pool.map(partial(answers, held=held), QUERIES))
    reasons = list(dict.fromkeys(r for row in rows for r in row if r is not None))
    lines = [
        f"| {name} | {' | '.join('yes' if r is None else noted(r, reasons) for r in row)} |"
        for name, row in zip(QUERIES, rows, strict=True)
    ]
    table = [f"| | {' | '.join(PLACES)} |", f"|---|{'---|' * len(PLACES)}", *lines]
    notes = [f"{n}. {reason}" for n, reason in enumerate(reasons, 1)]
    return "\n".join([*table, "", *notes, ""])


def written_table() -> tuple[str, str]:
    """Return the head of docs/where.md, and its table; what follows has a heading of its own."""
    text = PAGE.read_text(encoding="utf-8")
    head = text.partition("| | in process")[0]
    return head, text.removeprefix(head).partition("\n## ")[0]


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:one task runs the whole query")  # Stages with two keys.
def test_every_kind_in_every_place(spark: SparkSession, tmp_path: Path) -> None:
    found = table_of(hold(spark, tmp_path))
    if os.environ.get("CEPHEID_WRITE"):
        head, table = written_table()
        rest = PAGE.read_text(encoding="utf-8").removeprefix(head + table)
        PAGE.write_text(head + found + rest, encoding="utf-8")
    assert written_table()[1] == found
