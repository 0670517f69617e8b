"""HAVING, computed columns, sessions, distinct values, percentiles, orders and aggregated pairs."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.select.test_local import FEW, run

import cepheid
from cepheid.jobs.kind import kind_of
from cepheid.kinds.selection import bags as select_bags


def test_rows_that_compute_with_aggregates() -> None:
    text = "SELECT k AS key, SUM(x) / COUNT(*) AS mean, UPPER(k) AS u FROM s GROUP BY k HAVING {}"
    mine, other = {"key": "a", "mean": 2.5, "u": "A"}, {"key": None, "mean": 5.0, "u": None}
    assert run(text.format("MAX(x) > 4 OR key = 'a'"), FEW) == [mine, other]
    assert run(text.format("mean > 2.5"), FEW) == [other]
    assert run(text.format("k IS NOT NULL"), FEW) == [mine]
    assert run("SELECT COUNT(*) FROM s HAVING COUNT(*) > 9", FEW) == []
    found = run("SELECT k FROM s GROUP BY k HAVING window_end <= 0 WINDOW 4 us", FEW)
    assert [tuple(row.values()) for row in found] == [("a", -4, 0), (None, -4, 0)]


def test_sessions_of_each_group_whatever_the_order() -> None:
    text = "SELECT k, COUNT(*) AS n, MAX(x) FROM s GROUP BY k WINDOW SESSION 4 us"
    expected = [("a", -3, 4, 2, 4), (None, -2, 2, 1, 2), (None, 4, 8, 1, 8)]
    assert [tuple(row.values()) for row in run(text, FEW)] == expected
    batches = [FEW.slice(n, 1).to_batches()[0] for n in (2, 3, 0, 1)]
    reader = pa.RecordBatchReader.from_batches(FEW.schema, batches)
    found = cepheid.query(text).run(reader).to_pylist()
    assert [tuple(row.values()) for row in found] == expected


def test_a_session_is_an_event_at_its_end() -> None:
    text = """CREATE STREAM visits AS SELECT COUNT(*) AS n FROM s WINDOW SESSION 2 us;
        SELECT ts, n FROM visits"""
    assert [tuple(row.values()) for row in run(text, FEW)] == [(0, 2), (2, 1), (6, 1)]


def test_a_live_session_leaves_when_nothing_can_join_it() -> None:
    live = cepheid.query("SELECT SUM(x) FROM s WINDOW SESSION 3 us").live(
        FEW.schema, watermark="0 us"
    )
    assert [len(live.feed(FEW.slice(n, 1))) for n in range(4)] == [0, 0, 0, 1]
    assert live.close().to_pylist() == [{"window_start": 4, "window_end": 7, "sum_x": 8}]


def test_a_stage_with_having_feeds_a_query() -> None:
    text = """CREATE STREAM many AS SELECT SUM(x) * 2 AS twice FROM s HAVING COUNT(*) > 1 WINDOW {};
        SELECT twice FROM many"""
    assert run(text.format("4 us"), FEW) == [{"twice": 6}]
    assert run(text.format("2 EVENTS"), FEW) == [{"twice": 6}, {"twice": 24}]


def test_distinct_values_and_percentiles_by_hand() -> None:
    table = pa.table(
        {"ts": range(6), "x": [3, 1, 1, None, 10, 2], "u": ["a", "b", "a", None, "", "b"]}
    )
    text = "SELECT COUNT(DISTINCT u), COUNT(DISTINCT x), MEDIAN(x), PERCENTILE(x, 0.75) AS p FROM s"
    assert [tuple(row.values()) for row in run(text, table)] == [(3, 4, 2.0, 3.0)]
    found = run(f"{text} WINDOW 4 us SLIDE 2 us", table)
    values = [tuple(row.values())[2:] for row in found]
    assert values[:2] == [(2, 2, 2.0, 2.5), (2, 2, 1.0, 2.0)]
    assert values[2:] == [(3, 3, 2.0, 6.0), (2, 2, 6.0, 8.0)]
    assert run(f"{text} WHERE x > 99", table) == [
        {"count_distinct_u": 0, "count_distinct_x": 0, "median_x": None, "p": None}
    ]


def test_windows_are_looked_at_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT COUNT(DISTINCT x), MEDIAN(x) FROM s GROUP BY k WINDOW 8 us SLIDE 1 us"
    whole = run(text, FEW)
    monkeypatch.setattr(select_bags, "BLOCK_VALUES", 1)
    assert run(text, FEW) == whole


def test_the_values_of_windows_are_bounded() -> None:
    table = pa.table({"ts": range(100), "x": range(100)})
    with cepheid.limits(state=1_000), pytest.raises(cepheid.DataError, match="E519"):
        run("SELECT COUNT(DISTINCT x) FROM s", table)


def test_the_values_of_overlapping_windows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select_bags, "VALUES_MAX", 10)
    assert run("SELECT MEDIAN(x) FROM s WINDOW 4 us SLIDE 2 us", FEW)
    with pytest.raises(cepheid.DataError, match=r"E511.*more than the maximum"):
        run("SELECT MEDIAN(x) FROM s WINDOW 9 us SLIDE 1 us", FEW)


def test_sessions_of_a_workload_come_by_their_beginning() -> None:
    times = [0, 1, 2, 3, 10, 11, 30]
    table = pa.table({"ts": times, "k": ["a", "b", "a", "a", "b", "a", "b"]})
    text = "SELECT k, COUNT(*) AS n FROM s GROUP BY k WINDOW SESSION 9 us"
    found = cepheid.workload({"q": text}).run(table).drop_columns(["query"])
    assert found.to_pylist() == run(text, table)


@pytest.mark.parametrize("item", ["PERCENTILE(x, 2)", "PERCENTILE(x, x)", "PERCENTILE(x, TRUE)"])
def test_a_percentile_has_a_constant_fraction(item: str) -> None:
    with pytest.raises(cepheid.BindError, match="E331"):
        cepheid.query(f"SELECT {item} AS p FROM s")


def test_aggregates_that_are_not_shown_are_named_in_messages() -> None:
    with pytest.raises(cepheid.BindError, match=r"MAX\(k\)|`MAX` takes numbers"):
        run("SELECT COUNT(*) FROM s GROUP BY k HAVING MAX(k) > 1", FEW)
    with pytest.raises(cepheid.BindError, match=r"`COUNT\(DISTINCT k\)`.*cannot be compared"):
        run("SELECT COUNT(*) FROM s HAVING COUNT(DISTINCT k) = 'a'", FEW)


def test_rows_in_an_order() -> None:
    text = "SELECT k, x FROM s ORDER BY k DESC, x DESC LIMIT 3"
    assert [row["x"] for row in run(text, FEW)] == [4, 1, 8]
    found = run("SELECT k AS key FROM s GROUP BY k ORDER BY SUM(x) DESC LIMIT 1", FEW)
    assert found == [{"key": None}]
    assert run("SELECT x FROM s WHERE x > 1 LIMIT 0", FEW) == []


@pytest.mark.parametrize("clause", ["ORDER BY n", "LIMIT 3"])
def test_an_order_needs_the_whole_answer(clause: str) -> None:
    text = f"SELECT COUNT(*) AS n FROM s WINDOW 4 us {clause}"
    with pytest.raises(cepheid.UnsupportedError, match="E405"):
        cepheid.query(text).live(FEW.schema, watermark="0 us")
    with pytest.raises(cepheid.UnsupportedError, match="E414"):
        run(f"CREATE STREAM t AS {text}; SELECT n FROM t", FEW)
    with pytest.raises(cepheid.UnsupportedError, match="E414"):
        cepheid.workload([cepheid.query(text)]).run(FEW)


def test_aggregates_over_pairs() -> None:
    orders = pa.table(
        {"ts": pa.array([0, 60, 3_700], pa.timestamp("s", "UTC")), "zone": ["n", "s", "n"]}
    )
    sent = pa.table(
        {"ts": pa.array([30, 90, 3_800], pa.timestamp("s", "UTC")), "to": ["n", "n", "n"]}
    )
    text = """SELECT o.zone, COUNT(*) AS n, MAX(s.ts) - MIN(o.ts) AS took
        FROM orders o WITHIN 5 minutes JOIN sent s WITHIN 1 second ON o.zone = s.to
        GROUP BY o.zone HAVING n > 0 WINDOW 1 hour ORDER BY n DESC LIMIT 5"""
    found = cepheid.query(text).run({"orders": orders, "sent": sent})
    assert found.column_names == ["zone", "window_start", "window_end", "n", "took"]
    assert [(r["zone"], r["n"], r["took"].total_seconds()) for r in found.to_pylist()] == [
        ("n", 2, 90.0),
        ("n", 1, 100.0),
    ]
    assert found.schema.field("window_start").type == pa.timestamp("us", "UTC")
    query = cepheid.query(text)
    with pytest.raises(cepheid.UnsupportedError, match="E405"):
        kind_of(query.plan).check_live(query.plan)


def test_aggregated_pairs_feed_a_query() -> None:
    text = """CREATE STREAM near AS SELECT COUNT(*) AS n FROM s a WITHIN 3 us JOIN s b WITHIN 3 us
        ON a.x < b.x WINDOW 4 us; SELECT ts, n FROM near WHERE n > 0"""
    assert [tuple(row.values()) for row in run(text, FEW)] == [(0, 1), (4, 1)]
