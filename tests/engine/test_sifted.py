"""Files whose irrelevant events are left out as they are read, beside tables that have them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import cepheid
from cepheid.runtimes import files, sifted
from cepheid.runtimes.files import run_files

QUERIES = (
    "RETURN k, a.ts AS ts PATTERN SEQ(A a, NOT B b WITHIN 3 us) WHERE [k]",
    "RETURN k, COUNT(*) PATTERN SEQ(A, NOT B WITHIN 2 us) WHERE [k] GROUP-BY k "
    "WITHIN 4 us SLIDE 2 us",
    "RETURN a.ts AS a, b.ts AS b PATTERN SEQ(A a, NOT C, B b) WITHIN 5 us",
    "RETURN MATCHES PATTERN SEQ(A a, B+ b) WHERE [k] AND a.x < b.x WITHIN 4 us",
    "RETURN MATCHES PATTERN SEQ(A a, B b) WHERE a.x > 1 LIMIT 3",
    "RETURN MATCHES PATTERN SEQ(A a, B b) SEMANTICS contiguous WITHIN 4 us",
    "RETURN a.ts AS a PATTERN SEQ(A a, NOT NEXT B b WITHIN 3 us) WHERE [k]",
)

EVENTS = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.sampled_from(("A", "B", "C", "D", "D", "E")),
        st.sampled_from((1, 2, None)),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=20,
)


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    kinds: dict[str, pa.DataType] = {"type": pa.string()}
    names = {"ts": pa.int64(), **kinds, "k": pa.int64(), "x": pa.int64()}
    events = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(events, pa.schema(names))


def outcome(text: str, events: Any) -> tuple[Any, list[str]]:
    """Return the rows, or the error, and the warnings of a run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = cepheid.query(text).run(events).to_pylist()
        except cepheid.CepheidError as error:
            return str(error), []
    return found, sorted(str(one.message) for one in caught)


@settings(max_examples=150)
@given(st.sampled_from(QUERIES), EVENTS, st.sampled_from((0, 0, 1)), st.integers(1, 3))
def test_what_is_left_out_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory,
    text: str,
    rows: list[tuple[Any, ...]],
    unordered: int,
    size: int,
) -> None:
    """Rows and warnings are those of a table, of events in order and not."""
    table = table_of(rows if unordered else sorted(rows, key=lambda row: row[0]))
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    # With statistics, row groups without a relevant event would not even be read.
    parquet.write_table(table, path, write_statistics=False)
    with patch.object(files, "PIECE_ROWS", size), patch.object(sifted, "SHARE_MAX", 1.0):
        found = outcome(text, str(path))
    assert found == outcome(text, table)


def test_fewer_events_go_on_and_all_are_counted(tmp_path: Path) -> None:
    kinds = ["A", "D", "D", "B", "D", "D", "D", "A"]
    table = table_of([(ts, kind, 1, 0) for ts, kind in enumerate(kinds)])
    path = tmp_path / "events.parquet"
    parquet.write_table(table, path)
    query = cepheid.query(QUERIES[0])
    counted: list[int] = []
    taken: list[int] = []

    def noting(*given: Any) -> Any:
        for read in real(*given):
            taken.append(len(read.table))
            yield read

    real = sifted.sifted
    with patch.object(files, "PIECE_ROWS", 4), patch("cepheid.runtimes.files.sifted", noting):
        found = run_files(query, [path], counted.append)
    assert found.to_pylist() == [{"k": 1, "ts": 0}, {"k": 1, "ts": 7}]
    assert taken == [2, 1]
    assert counted == [4, 8]


def test_events_of_which_most_matter_are_not_sifted() -> None:
    tables = [table_of([(ts, "A", 1, 0)] * 4) for ts in range(3)]
    calls = []

    def keeps(columns: Any) -> Any:
        calls.append(columns)
        return columns.arrow("ts").to_numpy() >= 0

    found = list(sifted.sifted(tables, "ts", keeps))
    assert [read.table for read in found] == tables
    assert len(calls) == 1
