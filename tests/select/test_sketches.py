"""APPROX_COUNT_DISTINCT and APPROX_PERCENTILE: exact for few values, else within bounds."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.select.cases import plain, rows, table_of

import cepheid
from cepheid.kinds.selection import sketches as select_sketches
from cepheid.testing.oracle_select import evaluate_select

Events = list[dict[str, Any]]
ASKED = (
    "APPROX_COUNT_DISTINCT(k) AS a, APPROX_COUNT_DISTINCT(y) AS b, APPROX_COUNT_DISTINCT(d) AS c, "
    "APPROX_COUNT_DISTINCT(x) AS e, APPROX_PERCENTILE(x, 0.5) AS m, APPROX_PERCENTILE(y, 0.8) AS p"
)
WINDOWS = (
    "",
    "WINDOW 3 us",
    "WINDOW 9 us SLIDE 1 us",
    "WINDOW 5 us SLIDE 2 us",
    "WINDOW 5 EVENTS SLIDE 1 EVENTS",
    "WINDOW 4 EVENTS",
    "WINDOW SESSION 3 us",
)
COUNT = 60_000
RANK_ERROR = 2 * 0.0068
"""Twice the error that one of a hundred percentiles exceeds: none of a million does."""


def large_table() -> pa.Table:
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {
        "ts": np.arange(COUNT),
        "k": rng.integers(0, 2, COUNT),
        "u": rng.integers(0, 30_000, COUNT),
        "few": rng.integers(0, 1_000, COUNT),
        "x": rng.normal(size=COUNT),
    }
    names = pa.array([f"user {n}" for n in columns["u"]])
    return pa.table(columns | {"name": names, "time": pa.array(columns["u"], pa.timestamp("s"))})


LARGE = large_table()
ITEMS = (
    "SELECT {0}u) AS u, {0}name) AS name, {0}time) AS time, {0}u * 0.5) AS half, {0}few) AS few, "
    "COUNT(*) AS n, APPROX_PERCENTILE(x, 0.1) AS low, APPROX_PERCENTILE(x, 0.99) AS high, "
    "APPROX_PERCENTILE(few, 0.5) AS middle FROM s"
)
APPROXIMATE = ITEMS.format("APPROX_COUNT_DISTINCT(")


def check_counts(found: dict[str, Any], values: dict[str, Any]) -> None:
    """Compare the row of a window with the values of its events."""
    users = len(np.unique(values["u"]))
    for name in ("u", "name", "time", "half"):
        assert abs(found[name] - users) <= 0.0244 * users
    assert found["few"] == len(np.unique(values["few"]))
    assert found["n"] == len(values["u"])
    ordered = np.sort(values["x"])
    for name, fraction in (("low", 0.1), ("high", 0.99)):
        at = int(np.searchsorted(ordered, found[name]))
        assert ordered[at] == found[name], "a value of an event"
        assert abs((at + 1) / len(ordered) - fraction) <= RANK_ERROR
    # At most 1,024 different values: exact, however many events there are.
    middle = np.sort(values["few"])[max(-(-len(ordered) // 2), 1) - 1]
    assert found["middle"] == middle


def window_of(begin: int, end: int) -> dict[str, Any]:
    return {name: LARGE[name].to_numpy()[begin:end] for name in ("u", "few", "x")}


@settings(max_examples=40)
@given(rows(20), st.sampled_from(WINDOWS), st.sampled_from(("", "GROUP BY k")), st.integers(0, 3))
def test_few_values_are_exact_in_bags_and_in_sketches(
    events: Events, window: str, keys: str, most: int
) -> None:
    """The library's sketches are exact as well with so few values, however they were merged."""
    text = f"SELECT {ASKED} FROM s {keys} {window}"
    with patch.object(select_sketches, "EXACT_MAX", most):
        found = cepheid.query(text).run(table_of(events)).to_pylist()
    assert plain(found) == plain(evaluate_select(text, {"s": events}))


@settings(max_examples=30)
@given(rows(20), st.sampled_from(WINDOWS[1:]), st.integers(0, 3), st.data())
def test_live_states_take_sketches_along(
    events: Events, window: str, most: int, data: st.DataObject
) -> None:
    """After every micro-batch the query goes on from its written state."""
    text = f"SELECT {ASKED} FROM s {window}"
    table, query = table_of(events), cepheid.query(text)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    found: Events = []
    with patch.object(select_sketches, "EXACT_MAX", most):
        live = query.live(table.schema, watermark="0 us")
        for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
            found += live.feed(table.slice(begin, end - begin)).to_pylist()
            live = query.live(table.schema, watermark="0 us", state=live.save())
        found += live.close().to_pylist()
    expected = evaluate_select(text, {"s": events})
    if "EVENTS" in window:
        size = int(window.split()[1])
        expected = [row for row in expected if row["window_start"] + size <= len(events)]
        found = [row for row in found if row["window_start"] + size <= len(events)]
    assert plain(found) == plain(expected)


@pytest.mark.parametrize("slide", [30_000, 6_000])
def test_many_values_are_within_the_error(slide: int) -> None:
    text = f"{APPROXIMATE} WINDOW 30000 us SLIDE {slide} us"
    found = cepheid.query(text).run(LARGE).to_pylist()
    assert len(found) == COUNT // slide + 30_000 // slide - 1
    for row in found:
        begin, end = max(row["window_start"], 0), min(row["window_end"], COUNT)
        check_counts(row, window_of(begin, end))


def test_batches_and_groups_merge() -> None:
    reader = pa.RecordBatchReader.from_batches(LARGE.schema, LARGE.to_batches(max_chunksize=7_000))
    row = cepheid.query(APPROXIMATE).run(reader).to_pylist()[0]
    check_counts(row, window_of(0, COUNT))
    rows_ = cepheid.query(f"{APPROXIMATE} GROUP BY k").run(LARGE).to_pylist()
    keys = LARGE["k"].to_numpy()
    for row in rows_:
        values = {name: column[keys == row["k"]] for name, column in window_of(0, COUNT).items()}
        check_counts(row, values)


def test_workloads_and_pipelines_take_sketches() -> None:
    text = "SELECT APPROX_COUNT_DISTINCT(few) AS n, APPROX_PERCENTILE(few, 1) AS p FROM s"
    expected = cepheid.query(f"{text} WINDOW 20000 us").run(LARGE).to_pylist()
    found = cepheid.workload({"q": f"{text} WINDOW 20000 us"}).run(LARGE)
    assert found.drop_columns(["query"]).to_pylist() == expected
    stages = f"CREATE STREAM r AS {text} WINDOW 20000 us; SELECT n, p FROM r"
    rows_ = cepheid.query(stages).run(LARGE).to_pylist()
    assert rows_ == [{"n": row["n"], "p": row["p"]} for row in expected]


def test_the_largest_values_are_in_sketches_too() -> None:
    values = [*np.arange(2_000.0), np.inf, *[np.nan] * 3_000, *[-np.inf] * 300]
    table = pa.table({"ts": range(len(values)), "x": values})
    items = [f"APPROX_PERCENTILE(x, {p}) AS p{n}" for n, p in enumerate((0, 0.9, 1))]
    row = cepheid.query(f"SELECT {', '.join(items)} FROM s").run(table).to_pylist()[0]
    assert row["p0"] == -np.inf
    assert np.isnan([row["p1"], row["p2"]]).all()


def test_a_damaged_state_is_an_error() -> None:
    query = cepheid.query("SELECT APPROX_COUNT_DISTINCT(u) AS n FROM s WINDOW 1 hour")
    live = query.live(LARGE.schema, watermark="0 us")
    live.feed(LARGE)
    state = bytearray(live.save())
    state[len(state) // 2] ^= 1
    with pytest.raises(cepheid.DataError, match="E546"):
        query.live(LARGE.schema, watermark="0 us", state=bytes(state))


def test_bytes_that_are_no_sketch_are_an_error() -> None:
    bags = {"bag0": pa.array([[]], pa.large_list(pa.int64())), "often0": pa.array([[]])}
    for function in ("APPROX_COUNT_DISTINCT", "APPROX_PERCENTILE"):
        table = pa.table(bags | {f"sketch0 {function}": pa.array([b"no"], pa.large_binary())})
        with pytest.raises(cepheid.DataError, match="E546"):
            select_sketches.sketches_from_table(table, 0)


def test_values_that_come_often_are_repeated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select_sketches, "CHUNK_VALUES", 7)
    monkeypatch.setattr(select_sketches, "EXACT_MAX", 1)
    table = pa.table({"ts": range(300), "x": [1] * 150 + [2] * 100 + [3] * 50})
    items = [f"APPROX_PERCENTILE(x, {p}) AS p{n}" for n, p in enumerate((0.5, 0.51, 0.83, 0.84))]
    row = cepheid.query(f"SELECT {', '.join(items)} FROM s").run(table).to_pylist()[0]
    assert list(row.values()) == [1.0, 2.0, 2.0, 3.0]


def test_sketches_are_bounded() -> None:
    text = "SELECT APPROX_COUNT_DISTINCT(u) AS n FROM s GROUP BY k"
    with (
        patch.object(select_sketches, "SKETCH_BYTES", 1 << 40),
        pytest.raises(cepheid.DataError, match=r"E519.*sketches"),
    ):
        cepheid.query(text).run(LARGE)


def test_without_the_library_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(cepheid.DataError, match=r"E585(.|\n)*pip install 'cepheid\[sketches\]'"):
        cepheid.query("SELECT APPROX_PERCENTILE(x, 0.5) AS p FROM s").run(LARGE.slice(0, 1))


def test_the_names_of_columns() -> None:
    text = "SELECT APPROX_COUNT_DISTINCT(u), APPROX_PERCENTILE(x, 1) FROM s"
    names = cepheid.query(text).run(LARGE.slice(0, 9)).column_names
    assert names == ["approx_count_distinct_u", "approx_percentile_x"]


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("APPROX_PERCENTILE(x)", "E205"),
        ("APPROX_PERCENTILE(x, 2)", "E331"),
        ("APPROX_COUNT_DISTINCT(x, 0.05)", "E205"),
        ("PERCENTILE_APPROX(x, 0.5)", r"E203(.|\n)*APPROX_PERCENTILE\(x, 0.9\)"),
        ("APPROX_DISTINCT(x)", r"E203(.|\n)*APPROX_COUNT_DISTINCT\(x\)"),
    ],
)
def test_mistakes_have_answers(item: str, code: str) -> None:
    with pytest.raises(cepheid.CepheidError, match=code):
        cepheid.query(f"SELECT {item} AS a FROM s")
