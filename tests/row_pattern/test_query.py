"""A text with one clause as a query: the rows of ``cepheid.sql``, alone and in workloads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.comparison import plain
from tests.row_pattern.test_reference import SCHEMA, clauses, conditions, tables

import cepheid
from cepheid.errors import CepheidError, UnsupportedError
from cepheid.kinds.workload.live_rules import RunningRules
from cepheid.kinds.workload.live_snapshot import rules_from_bytes, rules_to_bytes
from cepheid.language import tree
from cepheid.language.formatter import format_query, format_text
from cepheid.language.parser import parse

CLAUSE = "MATCH_RECOGNIZE (ORDER BY ts MEASURES A.x AS low PATTERN (A B) DEFINE B AS x > A.x)"
EVENTS = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "B", "A", "B"], "x": [5, 8, 6, 1]})
AROUND = [
    "SELECT * FROM e {}",
    "select m.* from e {} as m;",
    "SELECT m0 AS again, m0, 'm' AS m FROM e {} m WHERE m.m0 IS NOT NULL",
    "SELECT m0 FROM e {} WHERE m0 IS NULL",
]
Rows = list[dict[str, Any]]

texts = st.builds(
    lambda around, clause: around.format(clause),
    st.sampled_from(AROUND),
    clauses(conditions(seeing=False)) | clauses(conditions(seeing=True)),
)


def in_order(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["t"]), schema=SCHEMA)


def workload(text: str) -> cepheid.Workload:
    """Return a workload of a row pattern, twice, between queries of other kinds."""
    rules = {
        "before": "SELECT t AS at, x FROM e WHERE x > 1",
        "one": text,
        "trend": "RETURN COUNT(*) PATTERN e E+ WITHIN 3 s SLIDE 3 s",
        "twin": text,
    }
    return cepheid.workload(rules, time="t", type=None, time_unit="s")


def found_by(way: Any) -> Any:
    """Return the rows that a call gives, or the code of its error."""
    try:
        return way()
    except CepheidError as error:
        return error.diagnostics[0].code


@given(texts, tables)
def test_alone(text: str, rows: Rows) -> None:
    table = in_order(rows)
    expected = found_by(lambda: cepheid.sql(text, tables={"e": table}))
    query = cepheid.query(text, time="t", type=None, time_unit="s")
    found = found_by(lambda: query.run(table))
    assert found == expected if isinstance(expected, str) else found.equals(expected), text


@given(texts, tables, st.integers(1, 4))
def test_in_workloads(text: str, rows: Rows, size: int) -> None:
    table = in_order(rows)
    expected = found_by(lambda: cepheid.sql(text, tables={"e": table}))
    if isinstance(expected, str):
        return  # A search of a part of the rows may meet another fault first.
    together = workload(text).run(table.to_reader(size), separate=True)
    for name in ("one", "twin"):
        assert together[name].schema == expected.schema, text
        assert plain(together[name]) == plain(expected), text


@given(texts, tables, st.integers(1, 4))
def test_in_slices_and_restarts(text: str, rows: Rows, size: int) -> None:
    table = in_order(rows)
    expected = found_by(lambda: cepheid.sql(text, tables={"e": table}))
    if isinstance(expected, str):
        return
    running = RunningRules(SCHEMA)
    running.add(workload(text).shared(SCHEMA))
    found = []
    for place in range(0, len(table), size):
        found.append(running.feed(table.slice(place, size))["one"])
        running = rules_from_bytes(rules_to_bytes(running), SCHEMA)
    found.append(running.finish()["one"])
    assert plain(pa.concat_tables(found)) == plain(expected), text


def test_texts_are_kept_as_they_are() -> None:
    text = f"-- all\nSELECT * -- of them\nFROM s {CLAUSE}\n"
    query = parse(text)
    assert isinstance(query, tree.RowPatternQuery)
    assert format_query(query) == format_text(text) == text.strip()
    assert cepheid.query(text).text == text


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("SELECT COUNT(*) FROM s {}", "E404", "COUNT"),
        ("SELECT low FROM s {} ORDER BY low", "E404", "ORDER"),
        ("SELECT low FROM s {} LIMIT 1", "E404", "LIMIT"),
        ("SELECT DISTINCT low FROM s {}", "E404", "DISTINCT"),
        ("SELECT * FROM s {} JOIN t ON low = x", "E404", "JOIN"),
        ("SELECT * FROM (SELECT * FROM s {}) WHERE low > 1", "E404", ""),
        ("SELECT * FROM (SELECT * FROM s) {}", "E404", "(SELECT * FROM s)"),
        ("SELECT * FROM db.s {}", "E404", "db.s"),
        ("SELECT * FROM s {} UNION SELECT * FROM s {}", "E404", CLAUSE),
        ("SELECT lov FROM s {}", "E603", "lov"),
        ("SELECT * FROM s {} WHERE lov > 1", "E603", "lov"),
    ],
)
def test_more_than_a_query_is_refused(text: str, code: str, place: str) -> None:
    whole = text.replace("{}", CLAUSE)
    with pytest.raises(CepheidError) as caught:
        cepheid.query(whole, schema=EVENTS.schema)
    told = caught.value.diagnostics[0]
    assert told.code == code
    assert told.span is not None
    assert whole[told.span.start : told.span.end] == (place or whole)
    assert told.helps


@pytest.mark.parametrize(
    ("order", "within", "message"),
    [
        ("ORDER BY x", "", "orders rows by the time of events first, which is `ts`"),
        ("", "", "orders rows by the time of events first"),
        ("ORDER BY ts", "WITHIN INTERVAL '3' SECOND", "takes whole numbers as seconds"),
    ],
)
def test_clauses_keep_to_the_time_of_events(order: str, within: str, message: str) -> None:
    text = f"SELECT * FROM s MATCH_RECOGNIZE ({order} MEASURES 1 AS n PATTERN (A B) {within})"
    with pytest.raises(UnsupportedError, match=message) as caught:
        cepheid.query(text, schema=EVENTS.schema)
    assert caught.value.diagnostics[0].code == "E404"


def test_live_queries_need_a_bound() -> None:
    text = "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+))"
    with pytest.raises(UnsupportedError, match="E405"):
        cepheid.query(text).live(EVENTS.schema)
    running = cepheid.query(f"SELECT * FROM s {CLAUSE}").live(EVENTS.schema)
    found = [running.feed(EVENTS.slice(n, 1)).to_pylist() for n in range(4)]
    assert found == [[], [], [{"low": 5}], []]
    assert running.close().to_pylist() == []


def test_stores_are_read(tmp_path: Any) -> None:
    store = cepheid.EventStore(tmp_path / "store", time="ts")
    store.append(EVENTS)
    text = f"SELECT * FROM s {CLAUSE}"
    assert cepheid.query(text).run(store).to_pylist() == [{"low": 5}]
    rules = cepheid.workload({"row": text, "high": "SELECT x FROM s WHERE x > 7"})
    assert rules.run(store, separate=True)["row"].to_pylist() == [{"low": 5}]


def test_the_last_query_of_a_pipeline() -> None:
    """It needs no WITHIN, since nothing reads its rows."""
    text = f"CREATE STREAM S AS SELECT * FROM s WHERE x > 5; SELECT * FROM S {CLAUSE}"
    # Of 8 and 6, none rises; 6 is followed by 1, which is left out.
    assert cepheid.query(text).run(EVENTS).to_pylist() == []
    more = text.replace("x > 5", "x < 7")
    assert cepheid.query(more).run(EVENTS).to_pylist() == [{"low": 5}]


def test_a_stage_is_no_more_than_a_query() -> None:
    with pytest.raises(CepheidError, match="E404"):
        cepheid.query(f"CREATE STREAM S AS SELECT COUNT(*) FROM s {CLAUSE}; SELECT * FROM S")


def test_all_rows_show_structures_whole() -> None:
    table = EVENTS.append_column("s", pa.array([{"a": n, "b": {"c": n}} for n in range(4)]))
    text = f"SELECT * FROM s {CLAUSE.replace('PATTERN', 'ALL ROWS PER MATCH PATTERN')}"
    expected = cepheid.sql(text, tables={"s": table})
    assert len(expected) == 2
    assert cepheid.query(text).run(table).equals(expected)
    assert cepheid.workload([text]).run(table, separate=True)["q1"].equals(expected)
