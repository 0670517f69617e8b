"""`late="correct"`: the last versions of rows equal a batch run over all accepted events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.runtime.cases import same
from tests.runtime.test_stream import drain, read_stream, write_files

import cepheid
from cepheid.api import CompiledQuery, query
from cepheid.errors import UnsupportedError
from cepheid.jobs.microbatch import turn
from cepheid.jobs.work import Work
from cepheid.kinds.trend.live_corrections import with_versions
from cepheid.options import OptionError
from cepheid.spark.schema import result_schema_of

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:no event has"),  # random events may lack a type
]

SECOND = 1_000_000
DELAY, LATENESS = 2, 6
FEW = settings(max_examples=min(settings().max_examples, 25), deadline=None)

QUERIES = [
    "RETURN key, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP-BY key WITHIN 4 s SLIDE 2 s",
    "RETURN COUNT(*), MAX(B.x) PATTERN SEQ(A, B) WITHIN 5 s SLIDE 2 s",
    "RETURN key, COUNT(*) PATTERN SEQ(A, NOT B, A) GROUP-BY key WITHIN 6 s SLIDE 6 s",
    "RETURN key, COUNT(*) PATTERN A+ SEMANTICS contiguous WHERE A.x < NEXT(A).x GROUP-BY key "
    "HAVING COUNT(*) > 1 WITHIN 4 s SLIDE 3 s",
    "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [key] TIES arrival WITHIN 3 s SLIDE 1 s",
]


def table(rows: list[tuple[int, str, int, int]]) -> pa.Table:
    ts, kinds, keys, xs = (list(c) for c in zip(*rows, strict=True)) if rows else ([], [], [], [])
    return pa.table(
        {
            "ts": pa.array([t * SECOND for t in ts], pa.timestamp("us")),
            "type": pa.array(kinds, pa.string()),
            "key": pa.array(keys, pa.int64()),
            "x": pa.array(xs, pa.int64()),
        }
    )


EVENT = st.tuples(st.integers(-9, 3), st.sampled_from("AB"), st.integers(0, 1), st.integers(0, 3))
BATCHES = st.lists(st.lists(EVENT, min_size=1, max_size=6), min_size=2, max_size=8)


class Live:
    """The bucket of a query, and the last version of every row."""

    def __init__(self, q: CompiledQuery) -> None:
        self.q = q.with_schema(table([]).schema)
        results = with_versions(result_schema_of(self.q.plan, table([]).schema))
        self.work = Work.of(
            self.q.plan, table([]).schema, results, 1,
            delay=DELAY * SECOND, lateness=LATENESS * SECOND,
        )  # fmt: skip
        self.data: bytes | None = None
        self.last: dict[Any, dict[str, Any]] = {}

    def take(self, rows: list[tuple[int, str, int, int]]) -> int:
        """Process a micro-batch; check the versions; return the number of dropped events."""
        latest = max(row[0] for row in rows) * SECOND
        job = self.work.kind.live_job(self.work)
        self.data, outcome = turn(job, self.work, self.data, [table(rows)], latest)
        for row in outcome.results.to_pylist():
            key = (row.get("key"), row["window_start"])
            before = self.last.get(key)
            assert row["version"] == 1 + (before["version"] if before else 0)
            gone = before is None or before["op"] == "delete"
            assert row["op"] in (("insert",) if gone else ("update", "delete"))
            if before is not None and row["op"] == "update":
                assert {**row, "version": 0} != {**before, "version": 0, "op": "update"}
            self.last[key] = row
        return outcome.late

    def rows(self) -> list[dict[str, Any]]:
        found = [row for row in self.last.values() if row["op"] != "delete"]
        return [{n: v for n, v in row.items() if n not in ("version", "op")} for row in found]


@pytest.mark.parametrize("text", QUERIES)
@given(batches=BATCHES)
@FEW
def test_the_last_versions_equal_a_batch_run(text: str, batches: list[Any]) -> None:
    q = query(text)
    live = Live(q)
    now, until = 20, None
    accepted: list[tuple[int, str, int, int]] = []
    for batch in batches:
        rows = [(now + step, *rest) for step, *rest in batch]
        fits = [r for r in rows if until is None or r[0] >= until - LATENESS]
        assert live.take(rows) == len(rows) - len(fits)
        accepted += fits
        reached = max(row[0] for row in rows) - DELAY
        until = reached if until is None else max(until, reached)
        now += 2
    live.take([(200, "Z", 0, 0)])
    order = np.argsort([row[0] for row in accepted], kind="stable")
    assert same(
        pa.Table.from_pylist(live.rows(), schema=q.run(table([])).schema),
        q.run(table([accepted[n] for n in order])).to_pylist(),
    )


def test_state_of_final_windows_is_dropped() -> None:
    live = Live(query(QUERIES[0]))
    sizes = []
    for start in range(0, 400, 4):
        live.take([(start + n, "AB"[n % 2], n % 2, n) for n in range(4)])
        assert live.data is not None
        sizes.append(len(live.data))
    assert max(sizes[50:]) <= max(sizes[10:50])


def test_a_state_of_another_query_is_refused() -> None:
    live = Live(query(QUERIES[0]))
    live.take([(1, "A", 0, 1)])
    other = Live(query(QUERIES[0].replace("SLIDE 2", "SLIDE 1")))
    other.data = live.data
    with pytest.raises(cepheid.DataError) as caught:
        other.take([(2, "A", 0, 1)])
    assert caught.value.diagnostics[0].code == "E524"
    plain = msgspec.structs.replace(live.work, lateness=0)
    with pytest.raises(cepheid.DataError):
        turn(plain.kind.live_job(plain), plain, live.data, [table([(2, "A", 0, 1)])], 2)


@pytest.mark.spark
def test_corrections_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    files = [
        [(n, "AB"[n % 2], n % 3 // 2, n) for n in range(20)],
        [(12, "A", 0, 7), (16, "B", 0, 2), (1, "A", 0, 1)],
        [(22, "A", 1, 1), (23, "B", 1, 1)],
        [(100, "Z", 0, 0)],
    ]
    source = read_stream(
        spark, write_files(tmp_path / "events", [table(rows) for rows in files]), 1
    )
    q = query(QUERIES[0])
    options: dict[str, Any] = {"watermark": "2 seconds", "late": "correct"}
    rows = q.stream(source, **options, allowed_lateness="6 seconds")
    found, progress = drain(rows, tmp_path, "rows")
    assert sum(p["observedMetrics"]["cepheid"]["late"] or 0 for p in progress) == 1
    assert {"insert", "update"} <= set(found["op"].to_pylist())
    last: dict[Any, Any] = {}
    for row in sorted(found.to_pylist(), key=lambda row: int(row["version"])):
        last[row["key"], row["window_start"]] = row
    accepted = sorted([*files[0], *files[1][:2], *files[2]], key=lambda row: row[0])
    plain = [{n: v for n, v in r.items() if n not in ("version", "op")} for r in last.values()]
    expected = q.run(table(accepted))
    assert same(pa.Table.from_pylist(plain, schema=expected.schema), expected.to_pylist())
    with pytest.raises(OptionError):
        q.stream(source, **options)
    with pytest.raises(OptionError):
        q.stream(source, watermark="2 seconds", allowed_lateness="6 seconds")
    for text in (
        "RETURN COUNT(*) PATTERN A+ WITHIN 4 s SLIDE 4 s EMIT EARLY",
        "RETURN COUNT(*) AS version PATTERN A+ WITHIN 4 s SLIDE 4 s",
    ):
        with pytest.raises(UnsupportedError) as caught:
            query(text).stream(source, **options, allowed_lateness="6 seconds")
        assert caught.value.diagnostics[0].code == "E407", text
    with pytest.raises(UnsupportedError) as caught:
        cepheid.workload([QUERIES[0]]).stream(source, **options)
    assert caught.value.diagnostics[0].code == "E407"
