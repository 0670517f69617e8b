"""`late="correct"` where rows have no versions: a late event changes the table (§13.5, §18.6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.changes.changelogs import Change, plain
from tests.runtime.test_stream import drain, read_stream, write_files

import cepheid
from cepheid.errors import CepheidError
from cepheid.events.temporal import LONG_AGO
from cepheid.jobs.changes.arrivals import Arrivals
from cepheid.jobs.changes.asked import ADDED
from cepheid.jobs.changes.rows import changelog_schema
from cepheid.jobs.work import Work
from cepheid.runtimes.spark.live_changes import follow_turn
from cepheid.spark.schema import result_schema_of
from cepheid.testing.oracle_changes import apply_rows

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:no event has", "ignore:one task follows all changes"),
]

SECOND = 1_000_000
DELAY = 8
"""The watermark and the allowed lateness together."""

QUERIES = {
    "matches": "RETURN MATCHES PATTERN SEQ(A, NOT B, A) WHERE [key] WITHIN 4 s",
    "no slide": "RETURN key, COUNT(*) PATTERN SEQ(A+, B) GROUP-BY key WITHIN 5 s",
    "no window": "RETURN key, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP-BY key",
    "deadline": "RETURN COUNT(*) PATTERN SEQ(A, NOT B WITHIN 2 s) WITHIN 4 s SLIDE 4 s",
    "skip": "RETURN COUNT(*) PATTERN SEQ(A+, B) AFTER MATCH SKIP PAST LAST WITHIN 4 s SLIDE 4 s",
    "situations": "PARTITION BY key DEFINE H AS x > 1 SITUATIONS H",
    "select": "SELECT key, COUNT(*) AS n, MAX(x) AS x FROM s GROUP BY key WINDOW 4 seconds",
    "filter": "SELECT ts, key, x FROM s WHERE x > 1",
}
COLUMNS: dict[str, pa.DataType] = {
    "ts": pa.timestamp("us"), "type": pa.string(), "key": pa.int64(), "x": pa.int64(),
}  # fmt: skip
SCHEMA = pa.schema(list(COLUMNS.items()))

Row = tuple[int, str, int, int]
EVENT = st.tuples(st.integers(-12, 3), st.sampled_from("AB"), st.integers(0, 1), st.integers(0, 3))
BATCHES = st.lists(st.lists(EVENT, min_size=1, max_size=5), min_size=2, max_size=5)
FEW = settings(max_examples=min(settings().max_examples, 8), deadline=None)


def table(rows: list[Row], *, by_time: bool = False) -> pa.Table:
    rows = sorted(rows, key=lambda row: row[0]) if by_time else rows
    columns = list(zip(*rows, strict=True)) if rows else [()] * 4
    values = [[t * SECOND for t in columns[0]], *map(list, columns[1:])]
    arrays = [pa.array(v, f.type) for v, f in zip(values, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


@pytest.mark.parametrize("name", QUERIES)
@given(batches=BATCHES)
@FEW
def test_every_batch_equals_a_run_over_the_events_so_far(name: str, batches: Any) -> None:
    query = cepheid.query(QUERIES[name])
    plan = query.with_schema(SCHEMA).plan
    results = changelog_schema(result_schema_of(plan, SCHEMA))
    work = Work.of(plan, SCHEMA, results, 1, delay=DELAY * SECOND)
    take = follow_turn(work, ADDED)
    data: bytes | None = None
    now: dict[object, Change] = {}
    accepted: list[Row] = []
    clock, latest = 20, -1
    for batch in batches:
        rows = [(clock + step, *rest) for step, *rest in batch]
        fits = [row for row in rows if latest < 0 or row[0] >= latest - DELAY]
        passed = max(row[0] for row in rows)
        data, outcome = take(0, data, [table(rows)], passed * SECOND, 0)
        assert outcome.late == len(rows) - len(fits)
        now = apply_rows(now, outcome.results.to_pylist())
        accepted += fits
        assert plain(now.values()) == plain(query.run(table(accepted, by_time=True)).to_pylist())
        latest, clock = max(latest, passed), clock + 2


def test_only_times_that_are_not_final_are_kept() -> None:
    ledger = Arrivals("ts")
    for clock in range(0, 100, 10):
        ledger.settle(
            table([(clock, "A", 0, 1), (clock + 1, "B", 0, 1)]), clock * SECOND or LONG_AGO
        )
        ledger.compact()
    assert (len(ledger), ledger.known) == (2, 2)
    again = Arrivals("ts")
    again.read(ledger.to_bytes())
    assert (len(again), again.next) == (2, 20)
    settled = again.settle(table([(1, "A", 0, 1), (95, "A", 0, 1)]), 90 * SECOND)
    assert (settled.counts.late, settled.places.tolist()) == (1, [20])


@pytest.mark.spark
@pytest.mark.parametrize("name", ["matches", "no slide"])
def test_late_events_change_rows_on_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    files: list[list[Row]] = [
        [(n, "AB"[n % 3 // 2], n % 2, n) for n in range(20)],
        [(16, "A", 0, 7), (14, "B", 1, 2), (1, "A", 0, 1)],
        [(22, "A", 1, 1), (23, "B", 1, 1)],
    ]
    source = read_stream(spark, write_files(tmp_path / "events", list(map(table, files))), 1)
    query = cepheid.query(QUERIES[name])
    options: dict[str, Any] = {"watermark": "2 seconds", "late": "correct"}
    rows = query.stream(source, **options, allowed_lateness="6 seconds")
    found, progress = drain(rows, tmp_path, "rows")
    assert sum(p["observedMetrics"]["cepheid"]["late"] or 0 for p in progress) == 1
    assert "delete" in found["op"].to_pylist() or name != "matches"
    now = apply_rows({}, found.to_pylist())
    accepted = [row for file in files for row in file if row[0] != 1 or file is files[0]]
    assert plain(now.values()) == plain(query.run(table(accepted, by_time=True)).to_pylist())


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (QUERIES["matches"], {"idle": "1 minute"}, "E591"),
        (QUERIES["matches"], {"allowed_lateness": None}, "E592"),
        ("RETURN MATCHES PATTERN SEQ(A, B) WITHIN 4 s LIMIT 5", {}, "E433"),
        (
            "SELECT a.x FROM a JOIN b ON a.key = b.key WINDOW 5 s",
            {},
            "E407",
        ),
    ],
)
def test_what_does_not_fit(
    spark: SparkSession, tmp_path: Path, text: str, options: dict[str, Any], code: str
) -> None:
    source: Any = read_stream(spark, write_files(tmp_path / "events", [table([(1, "A", 0, 1)])]), 1)
    query = cepheid.query(text)
    given = {"watermark": "2 seconds", "late": "correct", "allowed_lateness": "6 seconds"} | options
    events = {"a": source, "b": source} if len(query.plan.streams) > 1 else source
    with pytest.raises(CepheidError) as caught:
        query.stream(events, **given)
    assert caught.value.diagnostics[0].code == code
