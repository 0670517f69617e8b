"""Windowed aggregates from the index are those of a replay, which are those of the definition."""

from __future__ import annotations

import math
import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.comparison import same_rows
from tests.store.small_store import small_parts

import cepheid
from cepheid.store.event_store import EventStore

DOUBLES = st.none() | st.sampled_from([0.5, -2.0, 1e9, 3.25, math.nan, math.inf])
WHOLES = st.none() | st.integers(-5, 5)
EVENTS = st.lists(st.tuples(st.integers(-20, 60), DOUBLES, WHOLES), min_size=1, max_size=14)
FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX")
WANTED = ["COUNT(*)", *(f"{f}({c})" for f in FUNCTIONS for c in ("x", "n"))]


def table_of(events: list[tuple[int, float | None, int | None]]) -> pa.Table:
    times, doubles, wholes = zip(*events, strict=True)
    columns: dict[str, Any] = {
        "ts": pa.array(times, pa.int64()),
        "x": pa.array(doubles, pa.float64()),
        "n": pa.array(wholes, pa.int64()),
    }
    return pa.table(columns)


def expected_rows(
    rows: list[dict[str, Any]], within: int, slide: int, *, counted: bool
) -> list[dict[str, Any]]:
    """Work the windows out one by one, from the definition."""
    places = list(range(len(rows))) if counted else [row["ts"] for row in rows]
    found = []
    begin = (min(places) - within) // slide + 1
    for number in range(max(begin, 0) if counted else begin, max(places) // slide + 1):
        start = number * slide
        mine = [r for r, p in zip(rows, places, strict=True) if start <= p < start + within]
        if mine:
            row = {"window_start": start, "window_end": start + within, "count": len(mine)}
            for function in FUNCTIONS:
                for name in ("x", "n"):
                    values = [r[name] for r in mine if r[name] is not None]
                    row[f"{function.lower()}_{name}"] = reduce_values(function, values)
            found.append(row)
    return found


def reduce_values(function: str, values: list[Any]) -> Any:
    def order(value: float) -> tuple[bool, float]:
        return math.isnan(value), value

    if function == "COUNT":
        return len(values)
    if not values:
        return None
    if function in ("SUM", "AVG"):
        total = sum(values)
        return total if function == "SUM" else total / len(values)
    return min(values, key=order) if function == "MIN" else max(values, key=order)


@settings(max_examples=min(settings().max_examples, 80))  # each writes a store
@given(
    appends=st.lists(EVENTS, min_size=1, max_size=3),
    within=st.integers(1, 30),
    slide=st.integers(1, 30),
    counted=st.booleans(),
    bounds=st.tuples(st.none() | st.integers(-25, 65), st.none() | st.integers(-25, 65)),
    compact=st.booleans(),
    floor=st.none() | st.integers(-25, 40),
)
def test_index_and_replay_give_the_windows_of_the_definition(
    appends: list[Any],
    within: int,
    slide: int,
    counted: bool,  # noqa: FBT001  # drawn
    bounds: tuple[int | None, int | None],
    compact: bool,  # noqa: FBT001  # drawn
    floor: int | None,
) -> None:
    lengths = (f"{within} events", f"{slide} events") if counted else (within, slide)
    with small_parts(), tempfile.TemporaryDirectory() as folder:
        store = EventStore(folder)
        for events in appends:
            store.append(table_of(events))
        if floor is not None:
            store.drop_before(floor)
        if compact:
            store.compact()
        rows = store.scan(*bounds).read_all().to_pylist()
        wanted = expected_rows(rows, within, slide, counted=counted) if rows else []
        for method in ("replay", "index", "auto"):
            found = store.aggregate(
                WANTED,
                within=lengths[0],
                slide=lengths[1],
                start=bounds[0],
                end=bounds[1],
                method=method,
            )
            assert same_rows(found.to_pylist(), wanted), (method, found.to_pylist(), wanted)


def test_windows_at_round_times_read_no_event(tmp_path: Any) -> None:
    store = EventStore(tmp_path)
    seconds = np.arange(0, 7_200, 0.01)
    times: Any = pa.array((seconds * 1e6).astype("int64"), pa.timestamp("us", "UTC"))
    store.append(pa.table([times, pa.array(seconds)], names=["ts", "x"]))
    told = store.explain_aggregate(["MAX(x)"], within="1 hour", slide="15 minutes")
    assert told == "index: 0 of 176 row groups lie across edges of slices"
    found = store.aggregate({"top": "MAX(x)"}, within="1 hour", slide="15 minutes")
    assert found.column_names == ["window_start", "window_end", "top"]
    assert found["window_start"].type == pa.timestamp("us", "UTC")
    replayed = store.aggregate(
        {"top": "MAX(x)"}, within="1 hour", slide="15 minutes", method="replay"
    )
    assert found == replayed
    assert "1 of 176" in store.explain_aggregate(["MAX(x)"], within="1 hour", end=5)


def test_times_are_aggregated_as_times(tmp_path: Any) -> None:
    store = EventStore(tmp_path)
    store.append(
        pa.table({"ts": pa.array([5, 7], pa.timestamp("s")), "d": pa.array([1, 2], "date32")})
    )
    found = store.aggregate(["MIN(ts)", "MAX(d)"], within="1 hour")
    assert [str(v) for v in found.to_pylist()[0].values()] == [
        "1970-01-01 00:00:00",
        "1970-01-01 01:00:00",
        "1970-01-01 00:00:05",
        "1970-01-03 00:00:00",
    ]


def test_mistakes_are_told(tmp_path: Any) -> None:
    store = EventStore(tmp_path)
    store.append(pa.table({"ts": [1, 2], "name": ["a", "b"], "big": [2**62, 2**62]}))
    for wanted, code in (
        (["SUM(name)"], "E506"),
        (["SUM(other)"], "E505"),
        (["SUM(ts)", "SUM(big)"], "E504"),
    ):
        with pytest.raises(cepheid.DataError) as caught:
            store.aggregate(wanted, within=10)
        assert caught.value.diagnostics[0].code == code
    with pytest.raises(cepheid.DataError) as caught:
        EventStore(tmp_path).aggregate(["COUNT(*)"], within=2**40, slide=1)
    assert caught.value.diagnostics[0].code == "E511"
    for within, slide in (("1 h", "5 events"), ("1 moon", None), (0, 1), ("0.5 events", None)):
        with pytest.raises(ValueError, match=r"length"):
            store.aggregate(["COUNT(*)"], within=within, slide=slide)
    with pytest.raises(ValueError, match="an aggregate is"):
        store.aggregate(["MEDIAN(ts)"], within=1)


def test_no_events_give_no_rows(tmp_path: Any) -> None:
    store = EventStore(tmp_path)
    store.append(pa.table({"ts": pa.array([], pa.int64())}))
    assert len(store.aggregate(["COUNT(*)"], within=5)) == 0
