"""Durations beside times that are whole numbers, in every unit: the rows of the same timestamps."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cepheid
from cepheid.plans.plan import TrendPlan

UNITS = {"ns": 1_000_000_000, "us": 1_000_000, "ms": 1_000, "s": 1}
QUERIES = [
    "RETURN COUNT(*) PATTERN A a+ WHERE NEXT(a).ts - a.ts < 2 seconds",
    "RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE b.ts <= a.ts + 3 seconds",
    "RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE b.ts - a.ts BETWEEN 1 second AND 3 seconds",
    "RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE 2 seconds < b.ts - a.ts",
    "SELECT type FROM s WHERE ts + 1 second > 4 seconds + ts - 3 seconds",
    "RETURN MATCHES PATTERN SEQ(A a+, B b) WHERE LAST(a).ts - FIRST(a).ts <= 2 seconds",
]


def _rows(query: str, seconds: list[int], types: str, unit: str | None) -> list[object]:
    kind = pa.timestamp("us") if unit is None else pa.int64()
    scale = UNITS["us" if unit is None else unit]
    table = pa.table(
        {
            "ts": pa.array([one * scale for one in seconds], pa.int64()).cast(kind),
            "type": list(types),
        }
    )
    found = cepheid.query(query, time_unit=unit or "us").run(table).to_pylist()
    return [len(row["events"]) if "events" in row else row for row in found]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.filterwarnings("ignore")
@given(drawn=st.lists(st.tuples(st.integers(0, 8), st.sampled_from("AB")), min_size=1, max_size=7))
def test_rows_are_those_of_timestamps(query: str, unit: str, drawn: list[tuple[int, str]]) -> None:
    seconds, types = [one for one, _ in sorted(drawn)], "".join(kind for _, kind in sorted(drawn))
    assert _rows(query, seconds, types, unit) == _rows(query, seconds, types, None)


def test_what_is_no_whole_number_of_units_is_told() -> None:
    text = "RETURN COUNT(*) PATTERN A a+ WHERE NEXT(a).ts - a.ts < 1500 milliseconds"
    kinds = {"ts": "bigint", "type": "string", "n": "bigint"}
    assert TrendPlan.of(cepheid.query(text, schema=kinds, time_unit="ms").plan).edges
    with pytest.raises(cepheid.BindError, match="E206"):
        cepheid.query(text, schema=kinds, time_unit="s")
    with pytest.raises(cepheid.BindError, match="E206"):
        cepheid.query("RETURN COUNT(*) PATTERN A a WHERE a.n < 2 seconds", schema=kinds)
