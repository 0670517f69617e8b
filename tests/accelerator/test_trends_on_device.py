"""Trends with a comparison of neighbours on a simulated GPU."""

from __future__ import annotations

import warnings
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.amount import EVERYTHING, share
from tests.engine.comparison import same_rows, table_of

from cepheid.api import query
from cepheid.arrays.columns import KeyTable
from cepheid.errors import UnsupportedError
from cepheid.kinds.trend.device import trend_columns, trends
from cepheid.kinds.trend.program.job import lower
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes import device as runtime
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, streams

SCHEMA = {"ts": "timestamp", "type": "string", "price": "double", "volume": "int", "key": "string"}
pytestmark = pytest.mark.timeout(300)


def sized(events: list[dict[str, object]]) -> pa.Table:
    """Return events as a table that has all columns."""
    return table_of([{**dict.fromkeys(SCHEMA), **event} for event in events])


@pytest.mark.filterwarnings("ignore:no event has the type")
@settings(max_examples=min(settings().max_examples, 30))
@given(st.data())
def test_random_queries_give_what_the_oracle_gives(data: st.DataObject) -> None:
    operator = data.draw(choice(["<", "<=", ">", ">=", "=", "<>"]))
    name = data.draw(choice(["price", "volume"]))
    keyed = data.draw(st.booleans())
    more = data.draw(
        choice(
            [
                "",
                ", SUM(S.volume)",
                ", AVG(S.price), COUNT(S)",
                ", MIN(S.price)",
                ", MAX(S.price), MIN(S.volume), SUM(S.price)",
                ", MAX(S.volume), AVG(S.volume)",
            ]
        )
    )
    others = [
        "S.volume <= NEXT(S).volume",
        "S.volume <> NEXT(S).volume AND S.price = NEXT(S).price",
    ]
    another = data.draw(choice(["", *others, "S.price - 1 < NEXT(S).volume"]))
    conditions = [f"S.{name} {operator} NEXT(S).{name}", another, "[key]" if keyed else ""]
    text = " ".join(
        [
            f"RETURN {'key, ' if keyed else ''}COUNT(*){more} PATTERN A S+",
            f"WHERE {' AND '.join(filter(None, conditions))}{' GROUP-BY key' if keyed else ''}",
            data.draw(choice(["", "WITHIN 2 s SLIDE 2 s", "WITHIN 4 s SLIDE 1 s"])),
            data.draw(choice(["", "TIES arrival"])),
        ]
    )
    compiled = query(text, schema=SCHEMA)
    events = data.draw(streams(SCHEMA, events_max=10))
    assume(events)
    table = sized(events)
    with patch.object(trends, "SIMULATED_TILE", 2):
        actual = compiled.run(table, device="gpu").to_pylist()
    expected = evaluate(compiled.tree, events)
    assert same_rows(actual, expected), f"{text}: {actual} instead of {expected}"


def falls(length: int, steps: int = 1000) -> pa.Table:
    """Return events whose prices mostly fall."""
    rng = np.random.default_rng(1)
    price = -np.arange(length) + rng.integers(0, 3, length)
    return pa.table(
        {
            "ts": pa.array(np.arange(length) * steps),
            "type": pa.array(["A"] * length),
            "price": pa.array(price.astype(np.float64)),
        }
    )


@pytest.mark.parametrize("window", ["", "WITHIN 30 ms SLIDE 30 ms", "WITHIN 30 ms SLIDE 20 ms"])
def test_many_tiles_give_what_the_cpu_gives(window: str) -> None:
    compiled = query(
        f"RETURN COUNT(*), SUM(S.price) PATTERN A S+ WHERE S.price > NEXT(S).price {window}"
    )
    events = falls(45)
    found = compiled.run(events, device="gpu").to_pylist()
    assert same_rows(found, compiled.run(events).to_pylist())


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("ties", ["strict", "arrival"])
def test_sorted_runs_give_what_the_cpu_gives(operator: str, ties: str) -> None:
    rng = np.random.default_rng(3)
    for length in (1, 7, 8, 9, 40, 67) if EVERYTHING else (1, 8, 9, 40):
        events = pa.table(
            {
                "ts": pa.array(np.sort(rng.integers(0, 30, length))),
                "type": pa.array(["A"] * length),
                "price": pa.array(rng.integers(0, 20, length).astype(np.float64)),
            }
        )
        text = (
            f"RETURN COUNT(*), SUM(S.price) PATTERN A S+ WHERE S.price {operator} NEXT(S).price "
            f"TIES {ties}"
        )
        expected = query(text).run(events).to_pylist()
        found = query(text).run(events, device="gpu").to_pylist()
        assert same_rows(found, expected), f"{length} events: {found} instead of {expected}"


DIRECT = [
    "RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price",
    "RETURN COUNT(*), SUM(S.volume), AVG(S.price) PATTERN A S+ WHERE S.volume <= NEXT(S).volume "
    "WITHIN 20 us SLIDE 10 us",
    "RETURN MIN(S.price), MAX(S.other), MAX(S.price) PATTERN A S+ WHERE S.volume < NEXT(S).volume "
    "WITHIN 20 us SLIDE 10 us",
    "RETURN COUNT(*), COUNT(S) PATTERN A S+ WHERE S.volume <> NEXT(S).volume "
    "WITHIN 20 us SLIDE 20 us",
    "RETURN COUNT(*) PATTERN A S+ WHERE S.volume < NEXT(S).other WITHIN 9 us SLIDE 9 us",
]


@share(3)
@pytest.mark.parametrize("text", DIRECT)
@pytest.mark.parametrize("types", [["A"], ["A", "B"], ["B"]])
def test_columns_are_read_as_they_lie_in_arrow(text: str, types: list[str]) -> None:
    rng = np.random.default_rng(4)
    columns: dict[str, Any] = {
        "ts": pa.array(np.arange(60)),
        "type": pa.chunked_array([pa.array(rng.choice(types, 30)) for _ in range(2)]),
        "price": pa.array(rng.random(60)),
        "volume": pa.array(rng.integers(0, 9, 60)),
        "other": pa.array(rng.integers(0, 9, 60)),
    }
    events = pa.table(columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        job = lower(TrendPlan.of(query(text).with_schema(events.schema).plan))
        assert (trend_columns.read_columns(job, events) is not None) is ("A" in types)
        found = query(text).run(events, device="gpu").to_pylist()
        assert same_rows(found, query(text).run(events).to_pylist())
        # The host sorts, and looks for ties and NULL.
        late = events.take(rng.permutation(60))
        assert trend_columns.read_columns(job, late) is None
        assert same_rows(query(text).run(late, device="gpu").to_pylist(), found)
    tied = events.set_column(0, "ts", pa.array(np.arange(60) // 2))
    assert trend_columns.read_columns(job, tied) is None
    holes = pa.array([None, *range(59)], pa.int64())
    some = events.set_column(3, "volume", holes).set_column(2, "price", holes.cast(pa.float64()))
    assert trend_columns.read_columns(job, some) is None


def test_a_key_that_stands_for_no_value_is_read_by_the_host() -> None:
    events = pa.table(
        {"ts": [1, 2], "type": ["A", "A"], "price": [2.0, 1.0], "volume": [2**63 - 1, 2**63 - 1]}
    )
    compiled = query(
        "RETURN MAX(S.price), MIN(S.volume) PATTERN A S+ WHERE S.price > NEXT(S).price"
    )
    job = lower(TrendPlan.of(compiled.with_schema(events.schema).plan))
    assert trend_columns.read_columns(job, events) is None


SEVERAL = [
    ("S.price > NEXT(S).price AND S.volume < NEXT(S).volume", 2),
    ("S.price >= NEXT(S).price AND S.volume <> NEXT(S).volume AND S.key = NEXT(S).key", 3),
    ("S.price * 2 > NEXT(S).price AND S.volume + 3 < NEXT(S).volume + NEXT(S).price", 2),
]


@pytest.mark.parametrize(("where", "count"), SEVERAL)
@pytest.mark.parametrize("nulls", [False, True])
def test_all_of_several_comparisons_hold(where: str, count: int, nulls: bool) -> None:  # noqa: FBT001  # a case
    rng = np.random.default_rng(7)
    columns: dict[str, Any] = {"ts": np.sort(rng.integers(0, 90, 50)), "type": ["A"] * 50}
    for name in ("price", "volume", "key"):
        values = rng.integers(0, 6, 50).astype(np.float64)
        columns[name] = pa.array(values, mask=rng.random(50) < 0.2 if nulls else None)
    events = pa.table(columns)
    text = f"RETURN COUNT(*), MIN(S.price), SUM(S.volume) PATTERN A S+ WHERE {where}"
    for compiled in (query(text), query(f"{text} WITHIN 30 us SLIDE 10 us")):
        job = lower(TrendPlan.of(compiled.with_schema(events.schema).plan))
        read = trends.read_trends(job, KeyTable(()), events)
        assert read is not None
        assert len(read.compared) == count * (1 + nulls)
        found = trends.run_trends(job, events, forced=True)
        assert found is not None
        assert same_rows(found.to_pylist(), compiled.run(events).to_pylist())


def test_auto_leaves_several_comparisons_to_the_cpu() -> None:
    for where, _ in SEVERAL:
        plan = query(f"RETURN COUNT(*) PATTERN A S+ WHERE {where}").plan
        assert runtime.least_rows(plan) == runtime.NEVER


def test_counts_beyond_doubles() -> None:
    compiled = query("RETURN LOG2(COUNT(*)) PATTERN A S+ WHERE S.price >= NEXT(S).price")
    events = pa.table({"ts": [*range(40)], "type": ["A"] * 40, "price": [0.0] * 40})
    job = lower(TrendPlan.of(compiled.with_schema(events.schema).plan))
    read = trends.read_trends(job, KeyTable(()), events)
    assert read is not None
    # Large weights: sums beyond doubles come from few events.
    heavy = read._replace(weights=np.full((1, 40), 2.0**1000))
    numbers, _ = trends.count_trends(heavy, 2, threads=4)
    assert numbers[0, 0] == 2.0**40 - 1
    assert np.log2(numbers[0, 1].real) + numbers[0, 1].imag == pytest.approx(
        1000 + 39 + np.log2(40)
    )


def test_segments_run_in_slices_that_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, events = (
        query("RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price WITHIN 10 ms SLIDE 5 ms"),
        falls(30),
    )
    expected = compiled.run(events).to_pylist()
    monkeypatch.setattr(trends, "ROOM_ROWS", 12)
    assert same_rows(compiled.run(events, device="gpu").to_pylist(), expected)


def test_windows_far_apart() -> None:
    compiled = query(
        "RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price WITHIN 3 us SLIDE 2 us"
    )
    events = falls(12)
    times = [0, 1, 2, 10**4, 10**4 + 1, *range(10**5, 10**5 + 7)]
    events = events.set_column(0, "ts", pa.array(times))
    expected = compiled.run(events).to_pylist()
    assert same_rows(compiled.run(events, device="gpu").to_pylist(), expected)


def test_the_cpu_does_what_no_device_does_sooner() -> None:
    compiled = query("RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price")
    events = falls(60)
    job = lower(TrendPlan.of(compiled.with_schema(events.schema).plan))
    assert trends.run_trends(job, events, forced=False) is None
    holes = events.set_column(2, "price", pa.array([None, *range(59)], pa.float64()))
    assert trends.run_trends(job, holes, forced=True) is not None
    assert compiled.run(holes, device="gpu").equals(compiled.run(holes))
    nulls = trends.read_trends(job, KeyTable(()), holes)
    assert nulls is not None
    assert not nulls.is_worth_it(), "nobody has measured several comparisons"
    assert compiled.run(events.to_reader(), device="gpu").equals(compiled.run(events))
    read = trends.read_trends(job, KeyTable(()), events)
    assert read is not None
    begin = np.arange(10_000) * 1_000
    many = read._replace(segments=trends.Segments(begin, begin + 1_000, begin))
    assert many.is_worth_it()
    one = np.zeros(1, np.int64)
    long = read._replace(segments=trends.Segments(one, one + 10_000_000, one))
    assert not long.is_worth_it()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RETURN COUNT(*) PATTERN SEQ(A S+, B) WHERE S.price > NEXT(S).price", "Kleene plus"),
        ("RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price NUMBERS exact", "default"),
        ("RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price WITHIN 1 s", "SLIDE"),
    ],
)
def test_other_queries_are_refused(text: str, why: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        query(text).run(falls(5), device="gpu")
    assert caught.value.diagnostics[0].code == "E552"
    assert why in caught.value.diagnostics[0].message
