"""SELECT in process against the definition, and by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from tests.select.cases import (
    REPRESENTATIONS,
    VALUES,
    aggregations,
    agree,
    filters,
    joined_aggregations,
    joins,
    many_joins,
    ordered,
    plain,
    rows,
    table_of,
    unordered,
)

import cepheid
from cepheid.arrays import pairing
from cepheid.errors import UnsupportedError
from cepheid.kinds.selection import aggregation, plain_folds
from cepheid.kinds.selection import windows as select_windows
from cepheid.kinds.selection.local import LocalSelect
from cepheid.plans.plan import SelectPlan
from cepheid.testing.oracle_select import evaluate_select

Events = list[dict[str, Any]]


def run(text: str, events: Any, others: Events | None = None) -> Events:
    streams: Any = events if isinstance(events, pa.Table) else table_of(events)
    if others is not None:
        streams = {"s": streams, "r": table_of(others)}
    found: Events = cepheid.query(text).run(streams).to_pylist()
    return found


@given(filters(), rows())
def test_filters_are_as_defined(text: str, events: Events) -> None:
    assert plain(run(text, events)) == plain(evaluate_select(text, {"s": events}))


@given(aggregations(), rows())
def test_aggregations_are_as_defined(text: str, events: Events) -> None:
    assert plain(run(text, events)) == plain(evaluate_select(text, {"s": events}))


@settings(max_examples=60)
@given(aggregations(), rows(), st.sampled_from((0, 100)))
def test_both_ways_to_add_up_agree(text: str, events: Events, dense: int) -> None:
    with patch.object(select_windows, "DENSE_MAX", dense):
        assert plain(run(text, events)) == plain(evaluate_select(text, {"s": events}))


KNOWN = {name: tuple(v for v in values if v is not None) for name, values in VALUES.items()}


@settings(max_examples=100)
@given(
    aggregations(counted=False),
    st.one_of(rows(values=KNOWN), rows(), rows(values=KNOWN, wild=True)),
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.sampled_from(sorted(REPRESENTATIONS)),
    st.sampled_from((0, 0, 1)),
)
def test_events_that_are_folded_as_they_come(
    text: str, events: Events, sizes: list[int], how: str, late: int
) -> None:
    """Batches of any sizes, of which the first may come last, give what is defined."""
    table = table_of(events)
    for place, name in ((1, "k"), (2, "g")):
        table = table.set_column(place, name, REPRESENTATIONS[how](table.column(name)))
    ends = [min(sum(sizes[: n + 1]), len(table)) for n in range(len(sizes))]
    parts = [table.slice(a, b - a) for a, b in pairwise([0, *ends, len(table)])]
    parts = [*parts[late:], *parts[:late]]
    job = LocalSelect(SelectPlan.of(cepheid.query(text).with_schema(table.schema).plan))
    with patch.object(plain_folds, "ROWS_MIN", 0):
        agree(
            lambda: job.answer(parts, table.schema).to_pylist(),
            lambda: evaluate_select(text, {"s": events}),
        )


def test_rows_of_a_window_go_on_in_the_next_table(monkeypatch: pytest.MonkeyPatch) -> None:
    # windows   |0      |10     |20
    # tables     1 2 3 | 4 11 | 12 25 (the last one alone)
    monkeypatch.setattr(plain_folds, "ROWS_MIN", 0)
    text = "SELECT k, COUNT(*), SUM(x), MAX(y) FROM s GROUP BY k WINDOW 10 us"
    cells = [(1, "q"), (2, "p"), (3, "q"), (4, "p"), (11, "p"), (12, "r"), (25, "q")]
    events = [{"ts": ts, "k": k, "x": ts, "y": float(-ts)} for ts, k in cells]
    table = pa.Table.from_pylist(events)
    parts = [table.slice(0, 3), table.slice(3, 2), table.slice(5)]
    plan = SelectPlan.of(cepheid.query(text).with_schema(table.schema).plan)
    with patch.object(aggregation, "measure", side_effect=AssertionError("all of them are plain")):
        found = LocalSelect(plan).answer(parts, table.schema)
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("p", 0, 10, 2, 6, -2.0),
        ("q", 0, 10, 2, 4, -1.0),
        ("p", 10, 20, 1, 11, -11.0),
        ("r", 10, 20, 1, 12, -12.0),
        ("q", 20, 30, 1, 25, -25.0),
    ]


@given(joins(), rows(8), rows(8))
def test_joins_are_as_defined(text: str, events: Events, others: Events) -> None:
    expected = evaluate_select(text, {"s": events, "r": others})
    assert plain(run(text, events, others)) == plain(expected)


@given(joined_aggregations(), rows(8), rows(8))
def test_aggregates_of_pairs_are_as_defined(text: str, events: Events, others: Events) -> None:
    expected = evaluate_select(text, {"s": events, "r": others})
    assert plain(run(text, events, others)) == plain(expected)


@given(many_joins() | many_joins(aggregated=True), rows(6), rows(6))
def test_joins_of_more_streams_are_as_defined(text: str, events: Events, others: Events) -> None:
    expected = evaluate_select(text, {"s": events, "r": others})
    assert plain(run(text, events, others)) == plain(expected)


@given(
    many_joins(one=True) | many_joins(one=True, aggregated=True) | joined_aggregations(),
    rows(10),
    st.integers(1, 4),
)
def test_joins_of_a_live_stream_with_itself(text: str, events: Events, count: int) -> None:
    text = text.replace("JOIN r ", "JOIN s ")
    query, table = cepheid.query(text), table_of(events)
    aggregated = SelectPlan.of(query.plan).select.then is not None
    if aggregated and "WINDOW" not in text:
        with pytest.raises(UnsupportedError, match="E405"):
            query.live(table.schema)
        return
    live = query.live(table.schema)
    found = []
    for begin in range(0, len(table), count):
        found += live.feed(table.slice(begin, count)).to_pylist()
        live = query.live(table.schema, state=live.save())
    found += live.close().to_pylist()
    assert unordered(found) == unordered(query.run(table).to_pylist())


@given(ordered(), rows(8), rows(8))
def test_orders_are_as_defined(drawn: tuple[str, str], events: Events, others: Events) -> None:
    text, kind = drawn
    expected = evaluate_select(text, {"s": events, "r": others})
    assert plain(run(text, events, others if kind == "join" else None)) == plain(expected)


@settings(max_examples=60)
@given(aggregations(counted=False, windowed=True), rows())
def test_batches_and_order_do_not_matter_to_windows_of_time(text: str, events: Events) -> None:
    table = table_of(events[::-1])
    batches = [batch for n in range(len(table)) for batch in table.slice(n, 1).to_batches()]
    reader = pa.RecordBatchReader.from_batches(table.schema, batches)
    expected = evaluate_select(text, {"s": events})
    assert plain(cepheid.query(text).run(reader).to_pylist()) == plain(expected)


@given(filters() | aggregations(), rows(8, wild=True))
def test_wild_values_are_right_or_refused(text: str, events: Events) -> None:
    agree(lambda: run(text, events), lambda: evaluate_select(text, {"s": events}))


@given(joins(), rows(6, wild=True), rows(6, wild=True))
def test_wild_values_of_joins_are_right_or_refused(
    text: str, events: Events, others: Events
) -> None:
    streams = {"s": events, "r": others}
    agree(lambda: run(text, events, others), lambda: evaluate_select(text, streams))


@settings(max_examples=60)
@given(filters() | aggregations(), rows(), st.sampled_from(sorted(REPRESENTATIONS)))
def test_how_keys_come_does_not_matter(text: str, events: Events, how: str) -> None:
    table = table_of(events)
    for place, name in ((1, "k"), (2, "g")):
        table = table.set_column(place, name, REPRESENTATIONS[how](table.column(name)))
    found = cepheid.query(text).run(table).to_pylist()
    assert plain(found) == plain(evaluate_select(text, {"s": events}))


# ---------------------------------------------------------------------------------------
# By hand

#  x     1  2     4        8
#  ts -3 -2 -1  0  1  2  3  4
FEW = pa.table({"ts": [-3, -2, 0, 4], "x": [1, 2, 4, 8], "k": ["a", None, "a", None]})


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("2 us", [(-4, -2, 1), (-2, 0, 2), (0, 2, 4), (4, 6, 8)]),
        ("3 us SLIDE 2 us", [(-4, -1, 3), (-2, 1, 6), (0, 3, 4), (2, 5, 8), (4, 7, 8)]),
        ("1 us SLIDE 4 us", [(0, 1, 4), (4, 5, 8)]),
        ("1 day", [(-86_400_000_000, 0, 3), (0, 86_400_000_000, 12)]),
        ("3 EVENTS", [(0, 3, 7), (3, 6, 8)]),
        ("2 EVENTS SLIDE 1 EVENT", [(0, 2, 3), (1, 3, 6), (2, 4, 12), (3, 5, 8)]),
        ("1 EVENT SLIDE 3 EVENTS", [(0, 1, 1), (3, 4, 8)]),
        ("9 EVENTS", [(0, 9, 15)]),
        ("SESSION 2 us", [(-3, 0, 3), (0, 2, 4), (4, 6, 8)]),
        ("SESSION 3 us", [(-3, 3, 7), (4, 7, 8)]),
        ("SESSION 5 us", [(-3, 9, 15)]),
    ],
)
def test_windows(window: str, expected: list[tuple[int, int, int]]) -> None:
    found = run(f"SELECT SUM(x) FROM s WINDOW {window}", FEW)
    assert [tuple(row.values()) for row in found] == expected


def test_null_is_a_group_and_comes_last() -> None:
    found = run("SELECT k AS key, COUNT(*) FROM s GROUP BY k WINDOW 8 us SLIDE 4 us", FEW)
    shown = [(row["key"], row["window_start"], row["count"]) for row in found]
    expected = [("a", -8, 1), (None, -8, 1), ("a", -4, 2), (None, -4, 1), ("a", 0, 1)]
    assert shown == [*expected, (None, 0, 1), (None, 4, 1)]


def test_aggregates_of_nothing_are_a_row_only_without_a_window_and_groups() -> None:
    assert run("SELECT SUM(x), COUNT(*) FROM s WHERE x > 99", FEW) == [{"sum_x": None, "count": 0}]
    assert run("SELECT SUM(x) FROM s WHERE x > 99 GROUP BY k", FEW) == []
    assert run("SELECT SUM(x) FROM s WHERE x > 99 WINDOW 5 s", FEW) == []
    assert run("SELECT SUM(x) FROM s WINDOW 5 EVENTS", FEW.slice(0, 0)) == []


def test_types_of_columns_stay() -> None:
    table = pa.table(
        {
            "ts": pa.array([0, 90], pa.timestamp("s", "UTC")),
            "d": pa.array([1, 2], pa.int16()),
            "t": pa.array(["a", "b"]).dictionary_encode(),
        }
    )
    kept = cepheid.query("SELECT ts, d, t, d * 1.5 AS e, t LIKE 'a%' AS f FROM s").run(table)
    assert kept.select(["ts", "d", "t"]).equals(table)
    assert kept["e"].to_pylist() == [1.5, 3.0]
    assert kept["f"].to_pylist() == [True, False]
    windows: Any = cepheid.query("SELECT MIN(ts), MAX(d) FROM s WINDOW 1 minute").run(table)
    assert windows.schema.types[:3] == [pa.timestamp("us", "UTC")] * 3
    assert [t.minute for t in windows["window_start"].to_pylist()] == [0, 1]


def test_pairs_less_than_the_window_apart() -> None:
    left = pa.table({"ts": [0, 10], "x": ["a", "b"]})
    right = pa.table({"ts": [5, 6, 14, 15], "y": [1, 2, 3, 4]})
    q = cepheid.query("SELECT x, y FROM l JOIN r ON TRUE WINDOW 5 us")
    found = q.run({"l": left, "r": right}).to_pylist()
    assert [(row["x"], row["y"]) for row in found] == [("b", 2), ("b", 3)]


def test_pairs_with_the_last_events_of_the_other_stream() -> None:
    # l a  .  b  .     At one time the first stream comes first.
    # r .  1  2  3
    left = pa.table({"ts": [0, 2], "x": ["a", "b"]})
    right = pa.table({"ts": [1, 2, 3], "y": [1, 2, 3]})
    q = cepheid.query("SELECT x, y FROM l JOIN r ON y <> 7 WINDOW 1 EVENT")
    found = q.run({"l": left, "r": right}).to_pylist()
    assert [(r["x"], r["y"]) for r in found] == [("a", 1), ("b", 1), ("b", 2), ("b", 3)]


def test_each_stream_has_a_window_of_its_own() -> None:
    left = pa.table({"ts": [0, 10], "x": ["a", "b"]})
    right = pa.table({"ts": [4, 5, 9, 14], "y": [1, 2, 3, 4]})
    text = "SELECT x, y FROM l WITHIN {} JOIN r WITHIN {} ON TRUE"
    for windows, expected in {
        ("5 us", "2 us"): ["a1", "b3", "b4"],
        ("1 us", "7 us"): ["b1", "b2", "b3"],
        ("1 EVENT", "2 EVENTS"): ["a1", "a2", "a3", "b2", "b3", "b4"],
    }.items():
        found = cepheid.query(text.format(*windows)).run({"l": left, "r": right}).to_pylist()
        assert [f"{row['x']}{row['y']}" for row in found] == expected, windows


def test_a_stream_joins_with_itself() -> None:
    q = cepheid.query("SELECT a.x, b.x AS y FROM s a JOIN s b ON a.x < b.x WINDOW 3 us")
    assert [tuple(row.values()) for row in q.run(FEW).to_pylist()] == [(1, 2), (2, 4)]


def test_many_pairs_are_asked_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    q = cepheid.query("SELECT a.ts, b.ts AS t FROM s a JOIN s b ON a.x + b.x > 3 WINDOW 9 us")
    whole = q.run(FEW).to_pylist()
    monkeypatch.setattr(pairing, "BLOCK_PAIRS", 1)
    assert q.run(FEW).to_pylist() == whole


def test_a_reader_joins_with_itself() -> None:
    reader = pa.RecordBatchReader.from_batches(FEW.schema, FEW.to_batches())
    q = cepheid.query("SELECT a.x, b.x AS y FROM s a JOIN s b ON a.x < b.x WINDOW 3 us")
    assert len(q.run(reader)) == 2


def test_keys_of_all_kinds() -> None:
    columns: dict[str, Any] = {
        "a": pa.array(["u", "v", "u", None]).dictionary_encode(),
        "b": pa.array([True, None, True, False]),
        "c": pa.array([1.5, float("nan"), 1.5, float("nan")], pa.float32()),
        "d": pa.array([1, 2, 1, 2], pa.date32()),
        "e": pa.nulls(4),
        "f": pa.chunked_array([pa.array(["x"]).dictionary_encode(), pa.array(["y", "x", "y"])
             .dictionary_encode()]),
    }  # fmt: skip
    counts = {"a": [2, 1, 1], "b": [1, 2, 1], "c": [2, 2], "d": [2, 2], "e": [4], "f": [2, 2]}
    table = pa.table({"ts": [1, 2, 3, 4], **columns})
    for name, expected in counts.items():
        found = cepheid.query(f"SELECT COUNT(*) FROM s GROUP BY {name}").run(table)
        assert found["count"].to_pylist() == expected, name


def test_what_a_select_is_not() -> None:
    q = cepheid.query("SELECT x FROM s")
    with pytest.raises(ValueError, match="no matches"):
        q.matches(FEW)
    with pytest.raises(ValueError, match="one evaluator"):
        q.with_evaluator("linear")
    text = "SELECT a.x FROM s a JOIN r b ON a.x = b.x WINDOW 5 s"
    with pytest.raises(cepheid.UnsupportedError, match="E404"):
        cepheid.workload([cepheid.query(text)])
    with pytest.raises(TypeError, match="two streams"):
        cepheid.query(text, schema=FEW.schema)


def test_plans_say_what_runs_where() -> None:
    text = "SELECT MAX(x) FROM s t WHERE x > 1 GROUP BY k WINDOW 10 minutes SLIDE 5 minutes"
    assert cepheid.query(text).explain(engine="spark") == EXPLAINED
    plans = {
        "SELECT COUNT(*) FROM s WINDOW 5 s SLIDE 7 s": "events between windows are filtered first",
        "SELECT COUNT(*) FROM s WINDOW 5 EVENTS": "one task numbers all events",
        "SELECT COUNT(*) FROM s": "Spark's groupBy",
        "SELECT a.x FROM s a JOIN r b ON a.k = b.l WINDOW 5 s": "Spark's join on k = l and",
        "SELECT a.x FROM s a JOIN r b ON a.x < b.x WINDOW 5 s": "Spark's join on stretches",
        "SELECT a.x FROM s a JOIN r b ON a.x < b.x WINDOW 5 EVENTS": "a join of these numbers",
    }
    live = {
        "SELECT COUNT(*) FROM s": "no: without a window",
        "SELECT COUNT(*) FROM s WINDOW 5 EVENTS": "one bucket: all events have one order",
        "SELECT COUNT(*) FROM s GROUP BY k, x WINDOW 5 EVENTS": "buckets by k, x: each group",
        "SELECT a.x FROM s a JOIN r b ON a.x < b.x WINDOW 1 EVENT": "keeps the last 1 event of",
    }
    for text_, expected in live.items():
        assert expected in cepheid.query(text_).explain(engine="spark")
    for text_, expected in plans.items():
        assert expected in cepheid.query(text_).explain(engine="spark")


EXPLAINED = """\
plan  max_x by k
├─ operator    windowed aggregation
├─ streams     s, called t
├─ where       t.x > 1
├─ window      10 minutes, one every 5 minutes: an event is in up to 2
├─ in process  stretches that no edge of a window cuts are added up once, windows from them
├─ on a store  row groups are read whose least and largest values leave something; \
WHERE asks every event
├─ on Spark    Spark's window and groupBy
├─ live        an operator of Cepheid; it keeps partial aggregates of open windows
│                buckets by k
└─ reads       t: k, ts, x"""


def test_unordered_events_are_sorted_where_order_matters() -> None:
    turned = FEW.take([3, 1, 0, 2])
    text = "SELECT SUM(x) FROM s WINDOW 3 EVENTS"
    with pytest.warns(UserWarning, match="they were sorted"):
        assert run(text, turned) == run(text, FEW)


def test_files_and_pandas(tmp_path: Path) -> None:
    parquet.write_table(FEW.slice(0, 2), tmp_path / "a.parquet")
    parquet.write_table(FEW.slice(2), tmp_path / "b.parquet")
    for text in ("SELECT * FROM s WHERE x > 1", "SELECT SUM(x) FROM s WINDOW 3 EVENTS"):
        assert cepheid.query(text).run(tmp_path).to_pylist() == run(text, FEW)
    frame = cepheid.query("SELECT k, x FROM s WHERE x > 2").run(FEW.to_pandas())
    assert frame["x"].tolist() == [4, 8]


def test_times_in_seconds() -> None:
    q = cepheid.query("SELECT COUNT(*) FROM s WINDOW 2 seconds", time_unit="s")
    assert q.run(FEW).column("window_start").to_pylist() == [-4, -2, 0, 4]
    with pytest.raises(cepheid.BindError, match="E329"):
        cepheid.query("SELECT COUNT(*) FROM s WINDOW 2 ms", time_unit="s").run(FEW)


def test_parts_of_structures_are_columns() -> None:
    table = pa.table({"ts": [1, 2], "at": [{"city": "x"}, {"city": "y"}]})
    found = cepheid.query("SELECT s.at.city AS c FROM s WHERE at.city = 'y'").run(table)
    assert found.to_pylist() == [{"c": "y"}]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT prise FROM s", "E201"),
        ("SELECT b.x FROM s", "E201"),
        ("SELECT k, COUNT(*) FROM s WINDOW 5 us", "E210"),
        ("SELECT x, x FROM s", "E209"),
        ("SELECT SUM(k) FROM s WINDOW 5 us", "E206"),
        ("SELECT x FROM s WHERE k > 3", "E206"),
        ("SELECT x FROM s WHERE x + 1", "E207"),
        ("SELECT SUM(x, x) FROM s WINDOW 5 us", "E205"),
        ("SELECT MEDIAN(x, 1) FROM s WINDOW 5 us", "E205"),
        ("SELECT COUNT(DISTINCT k, x) FROM s WINDOW 5 us", "E205"),
        ("SELECT MEDIAN(k) FROM s WINDOW 5 us", "E206"),
        ("SELECT COUNT(*) FROM s WINDOW 0 us", "E315"),
        ("SELECT COUNT(*) FROM s WINDOW 5 us SLIDE 1 EVENT", "E306"),
        ("SELECT a.x FROM s a JOIN s b ON k = 'a' WINDOW 5 us", "E208"),
        ("SELECT a.x FROM s a JOIN s b ON c.k = 'a' WINDOW 5 us", "E202"),
        ("SELECT c.* FROM s a JOIN s b ON a.k = 'a' WINDOW 5 us", "E202"),
        ("SELECT a.x FROM s a JOIN s b ON a.x = b.x JOIN s c ON k = 'a' WINDOW 5 us", "E208"),
        ("SELECT 1 AS one FROM s LEFT JOIN s b ON 1 = 1 WINDOW 5 us", "E331"),
    ],
)
def test_mistakes(text: str, code: str) -> None:
    with pytest.raises(cepheid.CepheidError) as caught:
        cepheid.query(text).run(FEW)
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_an_ambiguous_name_is_offered_with_each_stream_that_has_it() -> None:
    text = "SELECT k FROM a JOIN b ON a.x = b.x JOIN c ON a.x = c.x WINDOW 5 us"
    with pytest.raises(cepheid.BindError, match=r"write `a\.k`, `b\.k` or `c\.k`"):
        cepheid.query(text).run(dict.fromkeys("abc", FEW))
    with pytest.raises(cepheid.BindError, match=r"write `a\.k` or `c\.k`"):
        cepheid.query(text).run({"a": FEW, "b": FEW.drop_columns(["k"]), "c": FEW})


def test_one_input_for_three_streams() -> None:
    text = "SELECT a.k FROM a JOIN b ON a.x = b.x JOIN c ON a.x = c.x WINDOW 5 us"
    with pytest.raises(cepheid.DataError, match="reads `a`, `b` and `c`") as caught:
        cepheid.query(text).run(FEW)
    assert "give all: `{'a': ..., 'b': ..., 'c': ...}`" in str(caught.value)


def test_a_stream_may_be_called_left() -> None:
    want = run("SELECT a.x FROM s a JOIN s b ON a.x = b.x WINDOW 5 us", FEW)
    for streams in ("s left JOIN s right", "s AS left JOIN s AS right"):
        text = f"SELECT left.x FROM {streams} ON left.x = right.x WINDOW 5 us"
        assert run(text, FEW) == want != []


def test_a_stream_without_a_time_has_no_windows() -> None:
    table = FEW.drop_columns(["ts"])
    assert run("SELECT x FROM s WHERE x > 4", table) == [{"x": 8}]
    assert run("SELECT SUM(x) FROM s", table) == [{"sum_x": 15}]
    with pytest.raises(cepheid.BindError, match="E212"):
        run("SELECT SUM(x) FROM s WINDOW 5 s", table)


@pytest.mark.parametrize("streams", [FEW, {"s": FEW, "q": FEW}])
def test_a_join_needs_both_streams(streams: Any) -> None:
    with pytest.raises(cepheid.DataError, match="E561"):
        cepheid.query("SELECT s.x FROM s JOIN r ON s.x = r.x WINDOW 5 us").run(streams)


def test_a_sum_that_leaves_64_bits_is_an_error() -> None:
    table = pa.table({"ts": [1, 2], "x": [2**62, 2**62]})
    with pytest.raises(cepheid.DataError, match="E504"):
        run("SELECT SUM(x) FROM s WINDOW 5 s", table)
    assert run("SELECT MAX(x), COUNT(x) FROM s", table) == [{"max_x": 2**62, "count_x": 2}]


def test_a_sum_is_right_whatever_is_added_first() -> None:
    values = [2**63 - 1, 2**63 - 1, -(2**63), -(2**62), 1]
    tables = [pa.table({"ts": [n], "g": [n % 2], "x": [x]}) for n, x in enumerate(values)]
    whole = pa.concat_tables(tables)
    text = "SELECT SUM(x) AS s, AVG(x) AS m FROM s"
    assert run(text, whole) == [{"s": sum(values), "m": sum(values) / 5}]
    for window in ("9 us", "9 EVENTS"):
        found = run(f"{text} GROUP BY g WINDOW {window}", whole.slice(1))
        assert [row["s"] for row in found] == [values[2] + values[4], values[1] + values[3]]
    large = [2**62, 2**61, -(2**63), 2**62, 2**61]
    sums = [sum(large[max(n - 2, 0) : n + 1]) for n in range(7)]
    table = pa.table({"ts": range(5), "x": large})
    assert [row["s"] for row in run(f"{text} WINDOW 3 us SLIDE 1 us", table)] == sums
    with pytest.raises(cepheid.DataError, match=r"E504.*a sum of `x` overflowed 64 bits"):
        run(f"{text} WINDOW 2 us", whole)


def test_too_many_windows_are_an_error() -> None:
    table = pa.table({"ts": [0, 1], "x": [1, 1]})
    with pytest.raises(cepheid.DataError, match="E511"):
        run("SELECT SUM(x) FROM s WINDOW 100 seconds SLIDE 1 us", table)
