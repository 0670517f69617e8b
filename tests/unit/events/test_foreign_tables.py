"""Tables of other libraries as events: relations of DuckDB, tables of Ibis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cepheid
from cepheid.errors import DataError

EVENTS = pa.table(
    {
        "ts": [1, 2, 3, 4, 7],
        "type": ["A", "B", "A", "A", "B"],
        "x": [5.0, None, 6.0, 4.0, None],
    }
)
TRENDS = "RETURN COUNT(*), AVG(A.x) PATTERN (SEQ(A+, B))+"


def relation() -> Any:
    connection = pytest.importorskip("duckdb").connect()
    connection.register("events", EVENTS)
    return connection.sql("SELECT * FROM events")


def ibis_table() -> Any:
    pytest.importorskip("duckdb")
    return pytest.importorskip("ibis").memtable(EVENTS)


@pytest.fixture(params=[relation, ibis_table], ids=["duckdb", "ibis"])
def events(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_a_foreign_table_is_events_of_every_kind_of_query(events: Any, tmp_path: Path) -> None:
    for text in (
        TRENDS,
        "RETURN MATCHES PATTERN SEQ(A, B)",
        "SELECT type, COUNT(*) FROM events GROUP BY type",
        "RETURN FUNNEL(type) PATTERN SEQ(A, B) WITHIN 10 seconds",
    ):
        query = cepheid.query(text)
        # Twice, as a stream that is read once would be empty.
        for _ in range(2):
            assert query.run(events).equals(query.run(EVENTS)), text
    query = cepheid.query(TRENDS)
    assert str(query.why_not(events)) == str(query.why_not(EVENTS))
    assert cepheid.workload({"one": TRENDS}).run(events)["count"].to_pylist() == [11.0]
    store = cepheid.EventStore(tmp_path / "store")
    store.append(events)
    assert query.run(store).equals(query.run(EVENTS))


def test_types_of_duckdb_are_read() -> None:
    connection = pytest.importorskip("duckdb").connect()
    rows = connection.sql("""
        SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_seconds(range) AS ts,
            'A'::ENUM('A', 'B') AS type, 1.5::DECIMAL(10, 2) AS x, uuid() AS u, 1::HUGEINT AS h
        FROM range(50)""")
    found = cepheid.query("RETURN COUNT(*), SUM(A.x) PATTERN A").run(rows)
    assert found.to_pylist() == [{"count": 50, "sum_A_x": 75.0}]


def test_an_error_of_the_library_is_told_as_one() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            message = "the connection is closed\nmore"
            raise RuntimeError(message)

    with pytest.raises(DataError, match=r"of a Broken cannot be read: the connection is closed$"):
        cepheid.query(TRENDS).run(Broken())
