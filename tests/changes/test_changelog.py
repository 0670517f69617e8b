"""Changelogs: how they are read, what they do to a table, what is refused (§18.1 to §18.5)."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.changes.changelogs import BY_ID, Change, changelogs, cut, events_of, plain, table_of

import cepheid
from cepheid.errors import CepheidError, DataError
from cepheid.events.temporal import LONG_AGO
from cepheid.jobs.changes.asked import Changes
from cepheid.jobs.changes.hashing import hash_rows, texts_of
from cepheid.jobs.changes.ledger import Counts, Ledger
from cepheid.language.parser import parse
from cepheid.testing import evaluate
from cepheid.testing.oracle_changes import Table, current_table

pytestmark = pytest.mark.filterwarnings("ignore:no event has")  # random events may lack a type

COUNT = "RETURN key, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key"
QUERIES = {
    "aggregates": f"{COUNT} WITHIN 10 us SLIDE 5 us",
    "matches": "RETURN A.ts, B.ts AS b PATTERN SEQ(A, B) WHERE [key] WITHIN 10 us",
    "select": "SELECT key, COUNT(*) AS n, SUM(x) AS s FROM Events GROUP BY key WINDOW 10 us",
    "rows": "SELECT ts, key FROM Events WHERE x > 1",
    "situations": (
        "PARTITION BY key DEFINE H AS x > 1, L AS price < 2 PATTERN H before;meets L WITHIN 20 us"
    ),
    "funnel": "RETURN FUNNEL(key) PATTERN SEQ(A a, B b) WITHIN 10 us",
}


def settle_all(ledger: Ledger, batches: list[list[Change]], delay: int | None) -> Any:
    """Apply batches to a ledger and to the oracle, and compare them after each one."""
    changes = ledger.changes
    oracle = Table(changes.op, changes.id)
    events: dict[int, Change] = {}
    until, latest, counts = LONG_AGO, LONG_AGO, Counts()
    for batch in batches:
        table = table_of(batch)
        found = ledger.settle(table, until)
        for place in found.left.tolist():
            del events[place]
        for row, place in zip(found.rows.tolist(), found.places.tolist(), strict=True):
            events[place] = {n: v for n, v in batch[row].items() if n != "op"}
        counts = counts.plus(found.counts)
        for change in batch:
            oracle.apply(change, until)
        oracle.settle(until)
        now = sorted(events.items(), key=lambda one: (one[1]["ts"], one[0]))
        assert plain(e for _, e in now) == plain(oracle.sorted())
        order = [repr(event) for _, event in now if event["ts"] >= until]
        assert order == [repr(e) for e in oracle.open()]
        assert counts == (oracle.bad, oracle.odd, oracle.late)
        if delay is not None:
            latest = max(latest, found.latest)
            until = max(until, latest - delay)
        if len(events) % 2:
            again = Ledger(changes, ledger.time, strict=False)
            again.read(ledger.to_bytes())
            ledger = again


@given(changelogs(by_id=True), st.lists(st.integers(1, 6), min_size=1), st.none() | st.just(10))
def test_a_ledger_by_id_has_the_events_of_the_oracle(
    changes: list[Change], sizes: list[int], delay: int | None
) -> None:
    ledger = Ledger(Changes("op", ("id",)), "ts", strict=False)
    settle_all(ledger, cut(changes, sizes), delay)


@given(changelogs(by_id=False), st.lists(st.integers(1, 6), min_size=1), st.none() | st.just(2))
def test_a_ledger_of_equal_events_has_the_events_of_the_oracle(
    changes: list[Change], sizes: list[int], delay: int | None
) -> None:
    ledger = Ledger(Changes("op"), "ts", strict=False)
    settle_all(ledger, cut(changes, sizes), delay)


@pytest.mark.parametrize("name", sorted(QUERIES))
@given(changes=changelogs(by_id=True))
def test_a_run_is_that_over_the_current_table(name: str, changes: list[Change]) -> None:
    query = cepheid.query(QUERIES[name])
    now = current_table(changes, id=["id"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Most of these changelogs do not fit their tables.
        found = query.run(table_of(changes), changes=BY_ID)
    assert plain(found.to_pylist()) == plain(query.run(events_of(now)).to_pylist())
    if name == "aggregates":
        assert found.num_rows == len(evaluate(parse(QUERIES[name]), now))


def test_events_without_an_id_are_known_by_all_columns() -> None:
    rows = [
        {"_change_type": "insert", "ts": 1, "type": "A", "_commit_version": 1},
        {"_change_type": "insert", "ts": 2, "type": "B", "_commit_version": 1},
        {"_change_type": "update_preimage", "ts": 2, "type": "B", "_commit_version": 2},
        {"_change_type": "update_postimage", "ts": 3, "type": "B", "_commit_version": 2},
    ]
    query = cepheid.query("RETURN A.ts, B.ts AS b PATTERN SEQ(A, B)")
    found = query.run(rows, changes="_change_type").to_pylist()
    assert [(row["A_ts"] if "A_ts" in row else row["ts"], row["b"]) for row in found] == [(1, 3)]


def test_changes_come_in_the_order_that_columns_give() -> None:
    rows = [
        {"op": "d", "id": 1, "lsn": 3, "ts": None, "type": None},
        {"op": "u", "id": 2, "lsn": 4, "ts": 5, "type": "A"},
        {"op": "c", "id": 2, "lsn": 2, "ts": 1, "type": "A"},
        {"op": "c", "id": 1, "lsn": 1, "ts": 1, "type": "A"},
    ]
    asked = {"op": "op", "id": ["id"], "order": ["lsn"]}
    found = cepheid.query("RETURN A.ts PATTERN A").run(rows, changes=asked)
    assert found.column(0).to_pylist() == [5]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"op": "upsert", "id": 1, "ts": 1, "type": "A"}, "none of"),
        ({"op": None, "id": 1, "ts": 1, "type": "A"}, "none of"),
        ({"op": "c", "id": None, "ts": 1, "type": "A"}, "id is NULL"),
    ],
)
def test_a_bad_change_is_refused(change: Change, why: str) -> None:
    query = cepheid.query("RETURN COUNT(*) PATTERN A")
    with pytest.raises(DataError, match=why) as caught:
        query.run([{"op": "c", "id": 7, "ts": 0, "type": "A"}, change], changes=BY_ID)
    assert caught.value.diagnostics[0].code == "E583"
    assert "row 1" in caught.value.diagnostics[0].message


def test_an_update_needs_an_id() -> None:
    query = cepheid.query("RETURN COUNT(*) PATTERN A")
    with pytest.raises(DataError, match=r"E583.*does not say what it replaces"):
        query.run([{"op": "u", "ts": 1, "type": "A"}], changes="op")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (7, "E592"),
        ({"op": "op", "key": ["id"]}, "E590"),
        ({"id": ["id"]}, "E592"),
        ({"op": "op", "id": "id"}, "E592"),
        ({"op": "kind"}, "E505"),
        ({"op": "op", "id": ["trade"]}, "E505"),
    ],
)
def test_options_that_do_not_fit_are_refused(changes: Any, code: str) -> None:
    query = cepheid.query("RETURN COUNT(*) PATTERN A")
    with pytest.raises(CepheidError) as caught:
        query.run([{"op": "c", "id": 1, "ts": 1, "type": "A"}], changes=changes)
    assert caught.value.diagnostics[0].code == code


def test_odd_changes_are_told() -> None:
    query = cepheid.query("RETURN COUNT(*) PATTERN A")
    rows: list[Change] = [
        {"op": "d", "id": 1, "ts": None, "type": None},
        {"op": "c", "id": 2, "ts": 1, "type": "A"},
    ]
    with pytest.warns(UserWarning, match="1 of 2 changes do not fit"):
        assert query.run(rows, changes=BY_ID).column(0).to_pylist() == [1]


def test_a_join_has_two_tables() -> None:
    query = cepheid.query("SELECT a.ts FROM A AS a JOIN B AS b ON a.x = b.x WINDOW 5 us")
    with pytest.raises(CepheidError, match="E433"):
        query.run({"A": [{"op": "c"}], "B": [{"op": "c"}]}, changes="op")


def test_files_hold_changelogs(tmp_path: Path) -> None:
    rows: list[Change] = [{"op": "c", "id": n, "ts": n, "type": "A"} for n in (1, 2, 3)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "1.parquet")
    rows = [{"op": "d", "id": 2, "ts": None, "type": None}]
    schema = pq.read_schema(tmp_path / "1.parquet")
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "2.parquet")
    query = cepheid.query("RETURN COUNT(*) PATTERN A+")
    assert query.run(tmp_path, changes=BY_ID).to_pylist() == [{"count": 3.0}]


def test_equal_rows_have_equal_hashes() -> None:
    struct = pa.array(
        [{"a": 1, "b": [1.0, None]}, {"a": 1, "b": [1.0]}, {"a": 1, "b": [1.0, None]}]
    )
    texts = pa.chunked_array([["ab", ""], ["ab"]])
    doubles = pa.array([0.0, math.nan, -0.0])
    one, two = hash_rows([struct, texts, doubles], 3)
    assert one[0] == one[2] != one[1]
    assert two[0] == two[2] != two[1]
    sliced = hash_rows([struct.slice(2), texts.slice(2), doubles.slice(2)], 1)
    assert sliced[0][0] == one[0]
    shown = texts_of((one, two)).to_pylist()
    assert shown[0] == f"{int(one[0]):016x}{int(two[0]):016x}"


def test_few_hashes_meet() -> None:
    numbers = np.arange(100_000)
    lane, _ = hash_rows([pa.array(numbers % 300), pa.array((numbers // 300).astype(str))], 100_000)
    assert len(np.unique(lane)) == len(numbers)


def test_a_ledger_without_events_is_saved() -> None:
    row: Change = {"ts": 1, "type": "A", "key": "p", "zone": "z", "x": 1, "price": 1.0, "id": 1}
    ledger = Ledger(Changes("op"), "ts", strict=False)
    ledger.settle(table_of([{"op": "insert", **row}]), LONG_AGO)
    ledger.settle(table_of([{"op": "delete", **row}]), LONG_AGO)
    again = Ledger(Changes("op"), "ts", strict=False)
    again.read(ledger.to_bytes())
    assert (len(again), again.next) == (0, 1)
    assert again.settle(table_of([{"op": "insert", **row}]), LONG_AGO).places.tolist() == [1]
