"""MATCH_RECOGNIZE over a store gives the rows of the whole table, whatever is left out."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amount import some
from tests.conformance.cases import ERRORS, SUITES, Case, check_result, read_cases, text_of
from tests.conformance.cases import table_of as table_of_case
from tests.row_pattern.test_reference import SCHEMA, clauses, conditions, same, values
from tests.store.small_store import small_parts

import cepheid
from cepheid.store.event_store import EventStore

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

THRESHOLDS = [
    "x = 2",
    "x > 2",
    "2.5 < {v}.x",
    "x >= 3 AND y < PREV(y)",
    "x IN (0, 3) AND y > 1",
    "x BETWEEN 2 AND 2",
    "y = 3",
    "x = 2 AND x > NEXT(y)",
]
rows_of_tables = st.lists(
    st.fixed_dictionaries(
        {"g": st.integers(1, 2), "gap": st.integers(0, 3), "x": values, "y": values}
    ),
    min_size=1,
    max_size=24,
)


def rows_or_error(text: str, tables: dict[str, Any], strategy: str | None = None) -> Any:
    try:
        return cepheid.sql(text, tables=tables, strategy=strategy).to_pylist()
    except cepheid.DataError as error:
        return error.diagnostics[0].code


def check_clause(
    clause: str, rows: list[dict[str, Any]], pieces: int, indexes: set[str], strategy: str
) -> None:
    times = np.cumsum([row["gap"] for row in rows])
    listed = [row | {"t": int(t)} for row, t in zip(rows, times, strict=True)]
    table = pa.Table.from_pylist(listed, schema=SCHEMA)
    text = f"SELECT * FROM events {clause}"
    expected = rows_or_error(text, {"events": table})
    with small_parts(), tempfile.TemporaryDirectory() as folder:
        store = EventStore(folder, time="t")
        size = -(-len(table) // pieces)
        for at in range(0, len(table), size):
            store.append(table.slice(at, size))
        for name in sorted(indexes):
            store.index(name)
        found = rows_or_error(text, {"events": store}, strategy)
    assert same(found, expected), f"{text}\n{listed}\nfound    {found}\nexpected {expected}"


ARGUMENTS: dict[str, Any] = {
    "clause": clauses(conditions(*THRESHOLDS, *THRESHOLDS, *THRESHOLDS, seeing=True)),
    "rows": rows_of_tables,
    "pieces": st.integers(1, 3),
    "indexes": st.sets(st.sampled_from(["g", "x", "y"]), min_size=1),
    "strategy": st.sampled_from(["index", "index", "auto"]),
}


@settings(max_examples=min(settings().max_examples, 100))  # each writes a store
@given(**ARGUMENTS)
def test_random_clauses_give_the_same_rows_from_index_and_replay(
    clause: str, rows: list[dict[str, Any]], pieces: int, indexes: set[str], strategy: str
) -> None:
    check_clause(clause, rows, pieces, indexes, strategy)


@pytest.mark.slow
@settings(max_examples=2_000)
@given(**ARGUMENTS)
def test_many_random_clauses_give_the_same_rows(
    clause: str, rows: list[dict[str, Any]], pieces: int, indexes: set[str], strategy: str
) -> None:
    check_clause(clause, rows, pieces, indexes, strategy)


CASES = [case for suite in SUITES for case in read_cases(suite)]


def stored_case(case: Case, folder: Path) -> EventStore | None:
    """Return a store of the input of a case, if a column of it can be the time."""
    table = table_of_case(case)
    order = case["query"]["sql"].partition("ORDER BY")[2].split()
    name = order[0].strip(",`") if order else table.column_names[0]
    if name not in table.column_names or not len(table) or table[name].null_count:
        return None
    if not pa.types.is_integer(table.schema.field(name).type):
        return None
    store = EventStore(folder, time=name)
    store.append(table)
    for column in table.column_names:
        if not pa.types.is_boolean(table.schema.field(column).type):
            store.index(column)
    return store


def test_cases_of_other_systems(tmp_path: Path) -> None:
    stored, cases = 0, some(CASES, 3)
    with small_parts():
        for number, case in enumerate(cases):
            store = stored_case(case, tmp_path / str(number))
            if store is None:
                continue
            stored += 1
            found = rows_or_error(text_of(case), {"input": store}, "index")
            code = ERRORS.get(case["expected"].get("error", ""))
            if code is None:
                check_result(case, found)
            else:
                assert found == code
    assert stored > len(cases) / 2


# ---------------------------------------------------------------------------------------
# What is read


def long_store(folder: Path) -> tuple[EventStore, pa.Table]:
    n = np.arange(4_000)
    columns: dict[str, Any] = {
        "ts": pa.array(n, pa.timestamp("s")),
        "host": pa.array([f"h{k}" for k in n % 5]),
        "load": np.where(n % 1_000 == 700, 99.0, 20.0 + n % 7),
    }
    table = pa.table(columns)
    store = EventStore(folder)
    store.append(table)
    store.index("load")
    return store, table


A_HIGH = "A AS load > 90"
FROM_FIRST = "replay of intervals\n  because every match has A (load > 90.0)"
READ = [
    ("", "A B C", A_HIGH, "replay of intervals"),
    ("", "B C A", A_HIGH, "replay of intervals"),
    ("", "B{1,3} A C?", A_HIGH + ", C AS load < PREV(load)", "replay of intervals"),
    ("", "(A | B) C", A_HIGH + ", B AS load > 95", "replay of intervals"),
    ("", "PERMUTE(A, B)", A_HIGH, "replay of intervals"),
    ("", "A B+ C", A_HIGH + ", B AS load < 90, C AS load < PREV(load)", FROM_FIRST),
    ("", "A B+", "A AS load > 900", "replay of intervals\n  because every match has A"),
    ("", "^ A B", A_HIGH, "full replay\n  because `^` and `$` are the ends"),
    ("", "A B", "A AS load > 90 AND PREV(load) IS NULL", "full replay\n  because a condition may"),
    ("PARTITION BY host", "A B", A_HIGH, FROM_FIRST),
    ("PARTITION BY host", "A B WITHIN_", A_HIGH, "replay of intervals"),
    ("PARTITION BY host", "A B WITHIN_", "A AS load > 90, B AS load < PREV(load)", "full replay"),
    ("", "A+ B+ WITHIN_", A_HIGH, "replay of intervals"),
    ("", "A{0,2}", A_HIGH, "full replay\n  because a match may have no row"),
]


@pytest.mark.parametrize(("partition", "pattern", "define", "told"), READ)
def test_what_a_clause_reads(
    tmp_path: Path, partition: str, pattern: str, define: str, told: str
) -> None:
    pattern, bounded, _ = pattern.partition(" WITHIN_")
    within = "WITHIN INTERVAL '9' SECOND" if bounded else ""
    text = f"""SELECT * FROM events MATCH_RECOGNIZE ({partition} ORDER BY ts
        MEASURES FIRST(ts) AS first, LAST(ts) AS last, COUNT(*) AS many
        PATTERN ({pattern}) {within} DEFINE {define})"""
    with small_parts(segment=1_500, group=64, block=16):
        store, table = long_store(tmp_path)
        expected = cepheid.sql(text, tables={"events": table})
        assert cepheid.sql(text, tables={"events": store}) == expected
        assert told in cepheid.sql(text, tables={"events": store}, analyze=True)


def test_stores_beside_tables(tmp_path: Path) -> None:
    store, table = long_store(tmp_path)
    clause = "MATCH_RECOGNIZE (ORDER BY ts MEASURES A.ts AS at PATTERN (A) DEFINE A AS load > 90)"
    tables = {"events": store, "other": table}
    for text in (
        f"SELECT COUNT(*) AS n FROM events {clause}",
        f"SELECT COUNT(*) AS n FROM other {clause}",
        f"SELECT COUNT(*) AS n FROM (SELECT * FROM events WHERE load > 95) {clause}",
        f"WITH e AS (SELECT * FROM events) SELECT COUNT(*) AS n FROM e {clause}",
    ):
        assert cepheid.sql(text, tables=tables).to_pylist() == [{"n": 4}]
        told = cepheid.sql(text, tables=tables, explain=True)
        assert ("over a store" in told) == ("FROM events M" in text)
    with pytest.raises(ValueError, match="strategy is one of auto, index, replay"):
        cepheid.sql(f"SELECT * FROM events {clause}", tables=tables, strategy="guess")


def test_times_of_several_types(tmp_path: Path) -> None:
    """WITHIN has another unit for each of them."""
    seconds = [0, 3, 4, 90, 200, 201, 300, 310]
    kinds = {
        "us": pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us")),
        "s": pa.array(seconds, pa.timestamp("s")),
        "ns": pa.array([s * 1_000_000_000 for s in seconds], pa.timestamp("ns")),
        "whole": pa.array(seconds),
        "date": pa.array(seconds, pa.date32()),
    }
    for name, times in kinds.items():
        columns: dict[str, Any] = {"t": times, "x": [1, 2, 3, 1, 1, 2, 1, 2]}
        table = pa.table(columns)
        with small_parts():
            store = EventStore(tmp_path / name, time="t")
            store.append(table)
            store.index("x")
            for within in ("5", "INTERVAL '5' SECOND", "INTERVAL '5' DAY"):
                text = f"""SELECT * FROM events MATCH_RECOGNIZE (ORDER BY t
                    MEASURES A.t AS a, C.t AS c PATTERN (A B* C) WITHIN {within}
                    DEFINE A AS x = 1, C AS x = 2)"""
                expected = cepheid.sql(text, tables={"events": table})
                found = cepheid.sql(text, tables={"events": store}, strategy="index")
                assert found == expected, (name, within)


@pytest.mark.parametrize("pattern", ["A B+ C", "^ B* A", "B+ A $", "A (B | C)+"])
def test_partitions_with_a_candidate_are_read(tmp_path: Path, pattern: str) -> None:
    """Sessions of 40 events, one after the other, of which few have a candidate."""
    n = np.arange(4_000)
    columns: dict[str, Any] = {
        "ts": pa.array(n, pa.timestamp("s")),
        "session": pa.array([f"s{k}" for k in n // 40]),
        "load": np.where(n % 1_000 == 700, 99.0, 20.0 + n % 7),
    }
    table = pa.table(columns)
    text = f"""SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY session ORDER BY ts
        MEASURES FIRST(ts) AS first, PREV(FIRST(load)) AS before, COUNT(*) AS many,
        MATCH_NUMBER() AS number PATTERN ({pattern})
        DEFINE A AS load > 90, B AS load > PREV(load) OR PREV(load) IS NULL)"""
    with small_parts(segment=1_500, group=64, block=16):
        store = EventStore(tmp_path)
        store.append(table)
        store.index("load")
        store.index("session")
        told = cepheid.sql(text, tables={"events": store}, explain=True)
        assert "because 4 partitions have A (load > 90.0), which every match has" in told
        found = cepheid.sql(text, tables={"events": store})
    assert found == cepheid.sql(text, tables={"events": table})
