"""Workloads on a simulated GPU: queries side by side, each as if it were alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engine.comparison import same_rows

import cepheid
from cepheid.accelerator.device import Found
from cepheid.errors import UnsupportedError
from cepheid.runtimes import device, workload_device
from cepheid.testing.oracle import evaluate

pytestmark = pytest.mark.timeout(300)
PATTERNS = {
    "ab": "SEQ(A, B)",
    "trends": "(SEQ(A+, B))+",
    "runs": "SEQ(A+, B, C)",
    "dear": "SEQ(A X, B Y) WHERE X.price > 4",
    "cba": "SEQ(C, B+, A)",
}
WINDOWS = ["", "WITHIN 40 us SLIDE 40 us", "WITHIN 40 us SLIDE 20 us"]


def events(length: int = 90, ties: int = 1) -> pa.Table:
    """Return events of three types and two keys."""
    rng = np.random.default_rng(length)
    columns = {
        "ts": np.arange(length) // ties,
        "type": rng.choice(["A", "B", "C"], length),
        "price": rng.integers(0, 9, length).astype(np.float64),
        "key": rng.choice(["x", "y"], length),
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def texts(aggregates: str, window: str, *, keyed: bool) -> dict[str, str]:
    """Return the queries of a workload with the same aggregates and window."""
    found = {}
    for name, pattern in PATTERNS.items():
        pattern, _, where = pattern.partition(" WHERE ")
        conditions = [*(["[key]"] if keyed else []), *([where] if where else [])]
        found[name] = " ".join(
            [
                f"RETURN {'key, ' if keyed else ''}{aggregates} PATTERN {pattern}",
                f"WHERE {' AND '.join(conditions)}" if conditions else "",
                "GROUP-BY key" if keyed else "",
                window,
            ]
        )
    return found


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("keyed", [False, True])
def test_a_group_gives_what_the_cpu_gives(window: str, *, keyed: bool) -> None:
    workload = cepheid.workload(texts("COUNT(*)", window, keyed=keyed))
    table = events()
    (group,) = workload.shared(table.schema).groups
    assert len(group.members) == len(PATTERNS)
    found = workload.run(table, device="gpu", separate=True)
    for name, expected in workload.run(table, separate=True).items():
        assert same_rows(found[name].to_pylist(), expected.to_pylist()), name


@pytest.mark.parametrize("window", ["WITHIN 8 us SLIDE 8 us", "WITHIN 8 us SLIDE 4 us"])
def test_contiguous_queries_with_negation_give_what_the_cpu_gives(window: str) -> None:
    """Events of type C fit no variable of some queries, and end the matches of all."""
    patterns = ("SEQ(A, B)", "SEQ(NOT C, A, B)", "SEQ(A+, B, NOT C)", "SEQ(A, NOT C, B+)")
    clauses = f"SEMANTICS contiguous {window} TIES arrival"
    queries = {f"q{n}": f"RETURN COUNT(*) PATTERN {p} {clauses}" for n, p in enumerate(patterns)}
    workload, table = cepheid.workload(queries), events(60)
    assert len(workload.shared(table.schema).groups) == 1
    found = workload.run(table, device="gpu", separate=True)
    for name, text in queries.items():
        expected = cepheid.query(text).run(table).to_pylist()
        assert same_rows(found[name].to_pylist(), expected), name
        assert expected, name


@pytest.mark.parametrize("window", ["WITHIN 8 us SLIDE 8 us", "WITHIN 8 us SLIDE 4 us"])
def test_negated_sequences_give_what_the_cpu_gives(window: str) -> None:
    patterns = ("SEQ(A, B)", "SEQ(A, NOT SEQ(C, A d), B)", "SEQ(A+, B, NOT SEQ(C, B e))")
    clauses = f"{window} TIES arrival"
    queries = {f"q{n}": f"RETURN COUNT(*) PATTERN {p} {clauses}" for n, p in enumerate(patterns)}
    workload, table = cepheid.workload(queries), events(60)
    assert len(workload.shared(table.schema).groups) == 1
    found = workload.run(table, device="gpu", separate=True)
    for name, text in queries.items():
        expected = cepheid.query(text).run(table).to_pylist()
        assert same_rows(found[name].to_pylist(), expected), name
        assert expected, name


def test_sums_and_extremes_keep_the_order_of_each_query() -> None:
    queries = {
        "one": "RETURN COUNT(*), SUM(B.price), MAX(A.price), MIN(B.price) PATTERN SEQ(A+, B)",
        "two": "RETURN MIN(D.price), COUNT(*), MAX(A.price), SUM(A.price) PATTERN SEQ(B D, A)",
        "three": "RETURN SUM(A.price), MIN(B.price), MAX(B.price), COUNT(*) PATTERN (SEQ(A, B+))+",
    }
    workload, table = cepheid.workload(queries), events(40)
    assert len(workload.shared(table.schema).groups) == 1
    found = workload.run(table, device="gpu", separate=True)
    rows = table.to_pylist()
    for name, text in queries.items():
        expected = cepheid.query(text).run(table).to_pylist()
        assert same_rows(found[name].to_pylist(), expected), name
        compiled = cepheid.query(text).with_schema(table.schema)
        few = [{**row, "ts": row["ts"]} for row in rows[:12]]
        alone = workload.run(table.slice(0, 12), device="gpu", separate=True)[name]
        assert same_rows(alone.to_pylist(), evaluate(compiled.tree, few)), name


def test_ties_are_taken_together_by_the_cpu() -> None:
    workload = cepheid.workload(texts("COUNT(*)", "", keyed=False))
    table = events(30, ties=3)
    found, expected = workload.run(table, device="gpu"), workload.run(table)
    assert same_rows(found.to_pylist(), expected.to_pylist())


OTHERS = {
    "sums": "RETURN SUM(A.price) PATTERN SEQ(A, B, C)",
    "falls": "RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price",
    "pairs": "RETURN MATCHES PATTERN SEQ(A, B) WITHIN 10 us SLIDE 10 us",
    "last": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 us",
    "absent": "RETURN COUNT(*) PATTERN SEQ(A, NOT C, B)",
    "dear": "SELECT ts, price FROM s WHERE price > 5",
    "hot": "DEFINE Dear AS price > 4 SITUATIONS Dear",
    "spent": "SELECT type, SUM(price) AS spent FROM s WINDOW 20 us GROUP BY type",
}
"""Queries of several kinds that run on a GPU, each by itself."""

ON_THE_CPU = {
    "runs": "RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price SEMANTICS contiguous",
    "next": "RETURN MATCHES PATTERN SEQ(A, B) SEMANTICS next WITHIN 10 us SLIDE 10 us",
}
"""Queries that do not."""


def by_name(tables: dict[str, pa.Table]) -> dict[str, list[dict[str, object]]]:
    """Return the rows of queries, in an order that does not depend on how they ran."""
    return {name: table.to_pylist() for name, table in tables.items()}


def test_queries_of_other_kinds_run_on_the_device_one_by_one() -> None:
    queries = {
        **texts("COUNT(*)", "", keyed=False),
        **OTHERS,
    }
    workload, table = cepheid.workload(queries), events(60)
    found = by_name(workload.run(table, device="gpu", separate=True))
    for name, text in queries.items():
        assert same_rows(found[name], cepheid.query(text).run(table).to_pylist()), name
        assert found[name], name
    reader = table.to_reader(max_chunksize=20)
    assert by_name(workload.run(reader, device="gpu", separate=True)) == found


@pytest.mark.parametrize("name", ON_THE_CPU)
def test_a_query_that_needs_the_cpu_is_refused_by_name(name: str) -> None:
    queries = OTHERS | {name: ON_THE_CPU[name]}
    workload = cepheid.workload(queries)
    with pytest.raises(UnsupportedError) as caught:
        workload.run(events(60), device="gpu")
    assert caught.value.diagnostics[0].code == "E552"
    assert caught.value.file == name


def test_with_auto_each_query_runs_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables would stay on the CPU."""
    for module in (workload_device, device):
        monkeypatch.setattr(module, "SMALL_ROWS", 0)
    monkeypatch.setattr(device, "least_rows", lambda _: 0)
    monkeypatch.setattr(device, "find_device", lambda: (Found.GPU, "a GPU"))
    queries = {
        **texts("COUNT(*)", "", keyed=False),
        **OTHERS,
        **ON_THE_CPU,
    }
    workload, table = cepheid.workload(queries), events(60)
    shared = workload.shared(table.schema)
    assert shared.groups
    assert shared.beside
    found = by_name(workload.run(table, device="auto", separate=True))
    expected = by_name(workload.run(table, separate=True))
    assert list(found) == list(expected)
    for name, rows in expected.items():
        assert same_rows(found[name], rows), name
    reader = table.to_reader(max_chunksize=20)
    for name, rows in by_name(workload.run(reader, device="auto", separate=True)).items():
        assert same_rows(rows, expected[name]), name


def test_files_and_stores_are_read_for_a_device(tmp_path: Path) -> None:
    """A file was answered by the CPU, without a word."""
    queries = OTHERS | ON_THE_CPU
    workload, table = cepheid.workload(queries), events(60)
    pq.write_table(table, tmp_path / "events.parquet")
    with pytest.raises(UnsupportedError):
        workload.run(tmp_path / "events.parquet", device="gpu")
    workload = cepheid.workload(OTHERS)
    found = by_name(workload.run(tmp_path / "events.parquet", device="gpu", separate=True))
    for name, rows in by_name(workload.run(table, separate=True)).items():
        assert same_rows(found[name], rows), name


def test_readers_are_read_batch_by_batch() -> None:
    workload, table = cepheid.workload(texts("COUNT(*)", WINDOWS[2], keyed=True)), events(50)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=20))
    found = workload.run(reader, device="gpu")
    assert same_rows(found.to_pylist(), workload.run(table).to_pylist())
