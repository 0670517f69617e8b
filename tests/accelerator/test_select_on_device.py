"""SELECT on a simulated GPU gives what the definition gives."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.select.cases import (
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
)

import cepheid
from cepheid.accelerator import device as found_device
from cepheid.accelerator import selecting
from cepheid.accelerator.conditions import Forming
from cepheid.accelerator.experience import FAR, TRIES, Experience
from cepheid.accelerator.schedule import Place
from cepheid.arrays.columns import Columns
from cepheid.errors import DataError
from cepheid.jobs.kind import kind_of
from cepheid.kinds.selection import device as device_select
from cepheid.kinds.selection import device_columns
from cepheid.kinds.selection import windows as select_windows
from cepheid.plans.plan import SelectPlan
from cepheid.runtimes import device as runtime
from cepheid.testing.oracle_select import evaluate_select

Events = list[dict[str, Any]]
pytestmark = pytest.mark.timeout(300)


def run(text: str, events: Events, others: Events | None = None) -> Events:
    """Run a query on the device that it fits."""
    query = cepheid.query(text)
    assume(not kind_of(query.plan).why_not_on_device(query.plan))
    streams: Any = table_of(events)
    if others is not None:
        streams = {"s": streams, "r": table_of(others)}
    found: Events = query.run(streams, device="gpu").to_pylist()
    return found


@settings(max_examples=2 * settings().max_examples)
@given(filters(), rows())
def test_filters_are_as_defined(text: str, events: Events) -> None:
    assert plain(run(text, events)) == plain(evaluate_select(text, {"s": events}))


@settings(max_examples=2 * settings().max_examples)
@given(aggregations(), rows(), st.sampled_from((0, 4)))
def test_aggregations_are_as_defined(text: str, events: Events, dense: int) -> None:
    with patch.object(select_windows, "DENSE_MAX", dense):
        assert plain(run(text, events)) == plain(evaluate_select(text, {"s": events}))


@settings(max_examples=2 * settings().max_examples)
@given(joins() | joined_aggregations(), rows(8), rows(8))
def test_joins_are_as_defined(text: str, events: Events, others: Events) -> None:
    expected = evaluate_select(text, {"s": events, "r": others})
    assert plain(run(text, events, others)) == plain(expected)


@settings(max_examples=min(settings().max_examples, 30))
@given(many_joins() | many_joins(aggregated=True), rows(6), rows(6))
def test_joins_of_more_streams_are_as_defined(text: str, events: Events, others: Events) -> None:
    expected = evaluate_select(text, {"s": events, "r": others})
    assert plain(run(text, events, others)) == plain(expected)


@settings(max_examples=min(settings().max_examples, 30))
@given(ordered(), rows(8), rows(8))
def test_orders_are_as_defined(drawn: tuple[str, str], events: Events, others: Events) -> None:
    text, kind = drawn
    expected = evaluate_select(text, {"s": events, "r": others})
    assert plain(run(text, events, others if kind == "join" else None)) == plain(expected)


@given(filters() | aggregations(), rows(8, wild=True))
def test_wild_values_are_right_or_refused(text: str, events: Events) -> None:
    agree(lambda: run(text, events), lambda: evaluate_select(text, {"s": events}))


NUMBERS = pa.table(
    {
        "ts": [1, 2, 3, 4, 5, 6],
        "x": [1, None, 3, 2**53 + 1, -4, 0],
        "y": [1.0, float("nan"), None, -0.0, float("inf"), 2.5],
        "k": ["a", "b", None, "a", "b", "a"],
    }
)
CONDITIONS = {
    "x > 1": True,
    "1 >= x": True,
    "y > -1 AND y < 2.5": True,
    "NOT y > 1": True,
    "y = y": True,
    "y <> 1.0 OR x IS NULL": True,
    "x IS NOT NULL AND x <> 3": True,
    "y BETWEEN 0.0 AND 3.0": True,
    "x NOT BETWEEN 0 AND 2": True,
    "y + 1.0 > 2.0": True,
    "y * 2.0 >= y": True,
    "y * 2.0 - 1.0 > 0.0": False,
    "x > 1.5": False,
    "y > x": False,
    "x + 1 > 2": False,
    "k = 'a'": False,
    "y / 2.0 > 0.5": False,
}


@pytest.mark.parametrize(("text", "compiled"), CONDITIONS.items())
def test_conditions_run_where_they_mean_the_same(text: str, *, compiled: bool) -> None:
    query = cepheid.query(f"SELECT ts FROM s WHERE {text}").with_schema(NUMBERS.schema)
    assert query.run(NUMBERS, device="gpu").equals(query.run(NUMBERS))
    columns = Columns(NUMBERS)
    forming = Forming(lambda a: (0, columns.vector(a.attribute.text)), (len(NUMBERS), 0))
    conjuncts = SelectPlan.of(query.plan).select.condition
    assert (not forming.conditions(conjuncts).rest) is compiled


def many(length: int = 700) -> pa.Table:
    rng = np.random.default_rng(7)
    columns: dict[str, Any] = {
        "ts": pa.array(np.sort(rng.integers(0, 500, length))),
        "k": pa.array(rng.choice(["a", "b", "c"], length)),
        "x": pa.array(rng.integers(-99, 99, length)),
        "y": pa.array(rng.integers(0, 99, length).astype(np.float64)),
    }
    return pa.table(columns)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ts, x FROM s WHERE x > 10 AND y < 50.0",
        "SELECT k, COUNT(*), SUM(x), MIN(y), MAX(y), AVG(y), MAX(x) FROM s "
        "WHERE y > 3.0 GROUP BY k WINDOW 50 us SLIDE 10 us",
        "SELECT COUNT(*), SUM(y) FROM s",
        "SELECT k, COUNT(*), SUM(x) FROM s GROUP BY k WINDOW 40 EVENTS SLIDE 15 EVENTS",
        "SELECT k, COUNT(DISTINCT x) AS many, SUM(x), MAX(y) FROM s WHERE y > 3.0 GROUP BY k "
        "WINDOW 50 us SLIDE 20 us",
        "SELECT k, MEDIAN(y) AS half, COUNT(*), MIN(x) FROM s WHERE x > 0 GROUP BY k "
        "WINDOW SESSION 5 us",
        "SELECT a.ts, b.ts AS later FROM s a JOIN s b ON a.k = b.k AND a.y < b.y WINDOW 9 us",
        "SELECT a.k, COUNT(*), SUM(b.x) FROM s a WITHIN 5 us JOIN s b WITHIN 5 us ON a.x < b.x "
        "GROUP BY a.k WINDOW 50 us",
    ],
)
def test_many_blocks_give_what_the_cpu_gives(text: str) -> None:
    query = cepheid.query(text)
    # Sums of small whole numbers are exact in every order.
    assert query.run(many(), device="gpu").equals(query.run(many()))


def kinds_of_columns(length: int = 300) -> pa.Table:
    """Return columns as the device reads them, in chunks with dictionaries of their own."""
    rng = np.random.default_rng(5)
    texts = [pa.array(rng.choice(own, length // 2)) for own in (["a", "b"], ["c", "b", "a"])]
    times = pa.array(np.sort(rng.integers(0, 400, length)), pa.timestamp("us", "UTC"))
    columns: dict[str, Any] = {
        "ts": pa.chunked_array([times.slice(0, 100), times.slice(100)]),
        "k": pa.chunked_array(texts),
        "d": pa.chunked_array([text.dictionary_encode() for text in texts]),
        "n": pa.array(rng.integers(-3, 3, length), pa.int8()),
        "x": pa.array(rng.integers(-99, 99, length)),
        "y": pa.array(rng.integers(0, 99, length).astype(np.float64)),
    }
    return pa.table(columns)


DIRECT = [
    "SELECT COUNT(*), SUM(x), MIN(y), MAX(x), AVG(y) FROM s",
    "SELECT k, COUNT(*), SUM(x) FROM s GROUP BY k WINDOW 50 us",
    "SELECT d, n, COUNT(k), SUM(y), MIN(x) FROM s WHERE x > 3 GROUP BY d, n WINDOW 50 us",
    "SELECT n, MAX(y) FROM s WHERE y <= 50.0 GROUP BY n WINDOW 50 us SLIDE 20 us",
    "SELECT k, COUNT(*) FROM s GROUP BY k WINDOW 10 us SLIDE 30 us",
    "SELECT x, COUNT(*) FROM s GROUP BY x WINDOW 70 us SLIDE 30 us",
    "SELECT ts, k, y FROM s WHERE x > 10 AND y < 50.0",
    "SELECT d, n FROM s WHERE x > 1000",
]


def noting(whole: Any, found: list[Any]) -> Any:
    """Return a function that notes its results."""

    def note(*arguments: Any) -> Any:
        found.append(whole(*arguments))
        return found[-1]

    return note


@pytest.mark.parametrize("text", DIRECT)
def test_columns_are_read_as_they_lie_in_arrow(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    for name in ("keep_there", "measure_there"):
        monkeypatch.setattr(device_select, name, noting(getattr(device_select, name), found))
    query, events = cepheid.query(text), kinds_of_columns()
    assert query.run(events, device="gpu").equals(query.run(events))
    assert found
    assert None not in found


def test_threads_take_the_columns_that_the_device_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_columns, "TAKEN_ROWS", 3)
    monkeypatch.setattr(pa, "cpu_count", lambda: 5)
    query, events = cepheid.query("SELECT ts, k, d, y FROM s WHERE x > 3"), kinds_of_columns()
    chunks = pa.concat_tables([events.slice(0, 7), events.slice(7)])
    expected = query.run(events)
    assert 15 < len(expected) < len(events)
    assert query.run(chunks, device="gpu").to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("text", DIRECT)
def test_the_host_reads_other_columns(text: str) -> None:
    query, events = cepheid.query(text), kinds_of_columns()
    holes = pa.array([None, *range(len(events) - 1)], pa.int64())
    some = events.set_column(events.column_names.index("x"), "x", holes)
    assert query.run(some, device="gpu").equals(query.run(some))
    far = events.set_column(0, "ts", pa.array(np.arange(len(events)) * 10**12))
    assert query.run(far, device="gpu").equals(query.run(far))


def test_sums_that_leave_64_bits_are_refused_on_both() -> None:
    big = pa.table({"ts": [1, 2, 3], "x": [2**62, 2**62, 2**62]})
    for device in ("cpu", "gpu"):
        with pytest.raises(DataError, match="E504"):
            cepheid.query("SELECT SUM(x) FROM s").run(big, device=device)
        found = cepheid.query("SELECT SUM(x) FROM s WINDOW 1 us").run(big, device=device)
        assert found["sum_x"].to_pylist() == [2**62] * 3


def test_pairs_have_a_limit() -> None:
    query = cepheid.query("SELECT a.ts, b.ts AS later FROM s a JOIN s b ON a.x < b.x WINDOW 1 h")
    with cepheid.limits(state=1 << 10), pytest.raises(DataError, match="E519"):
        query.run(many(120), device="gpu")


def test_joins_of_three_streams_pair_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "SELECT a.ts FROM s a JOIN s b ON a.k = b.k JOIN s c ON b.x < c.x AND a.x > c.x WINDOW 1 s"
    )
    query, events, used = cepheid.query(text), many(60), list[int]()
    count = selecting.count_pairs

    def counted(*args: Any) -> Any:
        used.append(1)
        return count(*args)

    monkeypatch.setattr(selecting, "count_pairs", counted)
    expected = query.run(events)
    assert len(expected)
    assert query.run(events, device="gpu").equals(expected)
    assert len(used) == 2
    assert runtime.least_rows(query.plan) == runtime.NEVER


def telling(name: str, whole: Any, used: list[str]) -> Any:
    """Return a function that notes its name first."""

    def tell(*arguments: Any) -> Any:
        used.append(name)
        return whole(*arguments)

    return tell


def test_auto_uses_a_gpu_for_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    monkeypatch.setattr(runtime, "find_device", lambda: (found_device.Found.GPU, "simulated"))
    for name in ("rows_on_device", "fold_columns", "count_pairs"):
        monkeypatch.setattr(selecting, name, telling(name, getattr(selecting, name), used))
    texts = [
        "SELECT ts FROM s WHERE x > 1",
        "SELECT COUNT(*) FROM s",
        "SELECT a.ts FROM s a JOIN s b ON a.x < b.x WINDOW 2 us",
    ]
    for text in texts:
        cepheid.query(text).run(many(50), device="auto")
    assert not used, "small tables stay on the CPU"
    monkeypatch.setattr(runtime, "SMALL_ROWS", 40)
    monkeypatch.setattr(runtime, "SMALL_JOIN", 40)
    for text in texts:
        query = cepheid.query(text)
        assert query.run(many(50), device="auto").equals(query.run(many(50)))
    assert used == ["rows_on_device", "fold_columns", "count_pairs"]
    used.clear()
    for text in ("SELECT ts FROM s WHERE k = 'a'", "SELECT SUM(x + 1) AS total FROM s"):
        query = cepheid.query(text)
        assert query.run(many(50), device="auto").equals(query.run(many(50)))
    assert not used, "columns that the host must read take less time on the CPU"


def test_auto_takes_the_processor_that_was_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    monkeypatch.setattr(runtime, "find_device", lambda: (found_device.Found.GPU, "simulated"))
    monkeypatch.setattr(selecting, "fold_columns", telling("gpu", selecting.fold_columns, used))
    monkeypatch.setattr(runtime, "SMALL_ROWS", 40)
    runs = Experience()
    monkeypatch.setattr(runtime, "_EXPERIENCE", runs)
    query, events = cepheid.query("SELECT COUNT(*), SUM(y) FROM s"), many(50)
    for _ in range(TRIES):
        query.run(events, device="auto")
    assert used == ["gpu"] * TRIES, "there are enough events"
    for _ in range(TRIES):
        query.run(events, device="auto")
    assert used == ["gpu"] * TRIES, "the other processor is tried, too"
    for faster, expected in ((Place.CPU, []), (Place.GPU, ["gpu"])):
        used.clear()
        runs._taken.clear()
        for place in (Place.CPU, Place.GPU) * TRIES:
            runs.note(query.plan.text, len(events), place, 1.0 if place is faster else 2.0)
        query.run(events, device="auto")
        assert used == expected


def test_auto_gives_queries_with_more_work_for_an_event_to_a_gpu_sooner() -> None:
    def least(text: str) -> int:
        return runtime.least_rows(cepheid.query(text).plan)

    count = least("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 s")
    assert least("RETURN MIN(A.x) PATTERN SEQ(A, B) WITHIN 1 s") < count
    assert least("RETURN COUNT(*) PATTERN SEQ(A, NOT C, B)") < count
    once = least("SELECT SUM(x) FROM s WINDOW 1 s")
    assert least("SELECT SUM(x) FROM s WINDOW 1 s SLIDE 100 ms") < once


def test_auto_tries_the_cpu_for_matches_of_any_number_of_events() -> None:
    runs = Experience()
    for _ in range(TRIES):
        runs.note("q", 1000, Place.GPU, 1.0)
    assert runs.choose("q", 1000, least=100) is Place.GPU, "far more events than usual"
    assert runs.choose("q", 1000, least=100, near=FAR) is Place.CPU
    for _ in range(TRIES):
        runs.note("few", 10, Place.CPU, 1.0)
    assert runs.choose("few", 10, least=100, near=FAR) is Place.CPU, "a GPU is not tried for few"
