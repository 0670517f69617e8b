"""``run`` takes Arrow and pandas, sorts what it may, and says clearly what is wrong with events."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from cepheid.api import query
from cepheid.errors import BindError, DataError, UnsupportedError
from cepheid.events.files import find_files
from cepheid.runtimes.files import run_files

EVENTS = pa.table(
    {
        "ts": pa.array([1, 2, 3, 4], pa.timestamp("us")),
        "type": ["A", "A", "B", "A"],
        "x": [1.0, None, 3.0, 4.0],
        "place": [{"city": "p"}, {"city": "p"}, {"city": "p"}, {"city": "q"}],
    }
)
QUERY = query("RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B)")
ROWS = [{"count": 3.0, "sum_A_x": 2.0}]


def test_arrow_gives_arrow_and_pandas_gives_pandas() -> None:
    assert QUERY.run(EVENTS).to_pylist() == ROWS
    assert QUERY.run(EVENTS.to_batches()[0]).to_pylist() == ROWS
    assert QUERY.run(EVENTS.to_reader(max_chunksize=1)).to_pylist() == ROWS
    frame = QUERY.run(EVENTS.to_pandas())
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("records") == ROWS
    with pytest.raises(TypeError, match="pyarrow Table"):
        QUERY.run({1, 2, 3})


def test_a_table_out_of_order_is_sorted_with_a_notice() -> None:
    mixed = EVENTS.take([2, 0, 3, 1])
    with pytest.warns(UserWarning, match=r"not in the order of `ts` \(row 1\)"):
        assert QUERY.run(mixed).to_pylist() == ROWS


def test_a_reader_out_of_order_is_an_error() -> None:
    with pytest.raises(DataError, match=r"error\[E509\].*row 1 is earlier"):
        QUERY.run(EVENTS.take([2, 0, 3, 1]).to_reader())


def test_dotted_names_reach_into_structures() -> None:
    result = query("RETURN COUNT(*) PATTERN A+ GROUP-BY `place.city`").run(EVENTS).to_pylist()
    assert result == [{"place.city": "p", "count": 3.0}, {"place.city": "q", "count": 1.0}]


def test_tie_breakers_order_events_of_one_time() -> None:
    events = pa.table({"ts": [1, 1], "type": ["B", "A"], "seq": [2, 1]})
    text = "RETURN COUNT(*) PATTERN SEQ(A, B) TIES arrival"
    assert query(text).run(events).num_rows == 0
    assert query(text, tiebreak=["seq"]).run(events).to_pylist() == [{"count": 1.0}]


def test_missing_columns_are_named() -> None:
    with pytest.raises(BindError, match="has no attribute `y`"):
        query("RETURN SUM(A.y) PATTERN A").run(EVENTS)
    with pytest.raises(BindError, match="no time column `when`"):
        query("RETURN COUNT(*) PATTERN A", time="when").run(EVENTS)


def test_times_that_are_null_are_an_error() -> None:
    events = pa.table({"ts": pa.array([1, None], pa.timestamp("us")), "type": ["A", "A"]})
    with pytest.raises(DataError, match=r"error\[E506\].*NULL in row 1"):
        query("RETURN COUNT(*) PATTERN A").run(events)


@pytest.mark.filterwarnings("ignore:no event has the type")
def test_windows_that_would_need_too_much_memory_are_refused() -> None:
    events = pa.table(
        {"ts": np.arange(1000).tolist(), "type": ["A"] * 1000, "k": list(range(1000))}
    )
    text = "RETURN COUNT(*) PATTERN SEQ(A+, B) WHERE [k] WITHIN 1 day SLIDE 1 second"
    # A table shows which windows hold the same events; a reader is read step by step.
    assert query(text).run(events).num_rows == 0
    reader = pa.RecordBatchReader.from_batches(events.schema, events.to_batches())
    with pytest.raises(DataError, match=r"error\[E511\]: 86,400 panes per window and 999 keys"):
        query(text).run(reader)


def test_no_events_give_no_rows() -> None:
    assert QUERY.run(EVENTS.slice(0, 0)).num_rows == 0


def test_queries_that_cannot_run_say_so() -> None:
    names = [f"a{n}" for n in range(40)]
    listed = ", ".join(f"{name}.x" for name in names)
    text = f"RETURN COUNT(*) PATTERN SEQ({', '.join(f'A {n}' for n in names)}) WHERE [{listed}]"
    with pytest.raises(UnsupportedError, match=r"error\[E404\].*so many variables"):
        query(text).run(EVENTS)


def test_files_are_read_in_order_and_sorted_if_they_must_be(tmp_path: Path) -> None:
    parquet.write_table(EVENTS.slice(2), tmp_path / "2.parquet")
    parquet.write_table(EVENTS.slice(0, 2), tmp_path / "1.parquet")
    counts: list[int] = []
    files = find_files(str(tmp_path / "*.parquet"))
    assert run_files(QUERY, files, counts.append).to_pylist() == ROWS
    assert counts[-1] == 4
    with pytest.warns(UserWarning, match="they were sorted"):
        assert run_files(QUERY, files[::-1], counts.append).to_pylist() == ROWS
    with pytest.raises(DataError, match=r"error\[E501\]"):
        find_files(str(tmp_path / "*.csv"))


@pytest.mark.slow
def test_real_trades_and_cars_equal_an_independent_computation() -> None:
    """Under strict ties a trend of A+ takes at most one event of a time: a product over times."""
    folder = Path(os.environ["CEPHEID_DATA"])  # the folder that holds stock_trades.parquet
    for name, kind, key, minutes in (
        ("stock_trades", "trade", "symbol", 10),
        ("linear_road", "position", "vehicle", 5),
    ):
        table = parquet.read_table(folder / f"{name}.parquet", columns=["ts", "type", key])
        window = f"WITHIN {minutes} min SLIDE {minutes} min"
        text = f"RETURN LOG2(COUNT(*)) PATTERN {kind} T+ GROUP-BY {key} {window}"
        rows: Any = query(text).run(table)
        times = table["ts"].cast(pa.int64()).to_numpy()
        width = minutes * 60_000_000
        found: dict[tuple[int, object], Counter[int]] = defaultdict(Counter)
        for time, value, event in zip(
            times.tolist(), table[key].to_pylist(), table["type"].to_pylist(), strict=True
        ):
            if event == kind:
                found[time // width * width, value][time] += 1
        assert rows.num_rows == len(found)
        starts = rows["window_start"].cast(pa.int64()).to_pylist()
        for start, value, actual in zip(
            starts, rows[key].to_pylist(), rows["log2_count"].to_pylist(), strict=True
        ):
            exact = sum(log2(1 + count) for count in found[start, value].values())
            trends = 2.0**exact - 1 if exact < 1000 else None
            expected = log2(round(trends)) if trends and exact < 50 else exact
            assert np.isclose(actual, expected, rtol=1e-9, atol=1e-9)
