"""Surveys give the same rows over tables, files and stores, live, in workloads and pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import cepheid

SURVEYS = (
    "SAMPLE(3)",
    "TOP(2, SUM(A.x))",
    "LONGEST(2)",
    "BLAME()",
    "HISTOGRAM(LENGTH)",
    "PERCENTILE(SUM(A.x), 0.1, 0.5, 0.9)",
)
REST = "PATTERN SEQ(A+, B) WHERE [k] AND A.x > NEXT(A).x GROUP-BY g WITHIN 20 s SLIDE 10 s"


def events() -> pa.Table:
    chance = np.random.default_rng(3)
    count = 60
    return pa.table(
        {
            "ts": pa.array(np.arange(count) * 1_000_000, pa.timestamp("us")),
            "type": chance.choice(["A", "A", "B"], count).tolist(),
            "x": pa.array(chance.integers(0, 9, count)),
            "g": chance.choice(["p", "q"], count).tolist(),
            "k": chance.choice(["u", "v"], count).tolist(),
        }
    )


def rows_of(survey: str) -> list[dict[str, Any]]:
    rows = cepheid.query(f"RETURN {survey} {REST}").run(events()).to_pylist()
    assert len(rows) > 15
    return rows


@pytest.mark.parametrize("survey", SURVEYS)
def test_files_and_stores(survey: str, tmp_path: Path) -> None:
    query, expected = cepheid.query(f"RETURN {survey} {REST}"), rows_of(survey)
    parquet.write_table(events(), tmp_path / "events.parquet", row_group_size=10)
    assert query.run(str(tmp_path / "events.parquet")).to_pylist() == expected
    store = cepheid.EventStore(str(tmp_path / "store"))
    store.append(events())
    assert query.run(store).to_pylist() == expected


@pytest.mark.parametrize("survey", SURVEYS)
def test_live_and_restarted(survey: str) -> None:
    query, expected = cepheid.query(f"RETURN {survey} {REST}"), rows_of(survey)
    table, found = events(), []
    live = query.live(table.schema, watermark="0 s")
    for begin in range(0, len(table), 7):
        found += live.feed(table.slice(begin, 7)).to_pylist()
        live = query.live(table.schema, watermark="0 s", state=live.save())
    found += live.close().to_pylist()
    assert found == expected


@pytest.mark.parametrize("survey", SURVEYS)
def test_workloads(survey: str) -> None:
    texts = {
        "survey": f"RETURN {survey} {REST}",
        "count": "RETURN COUNT(*) PATTERN A+ WITHIN 20 s SLIDE 10 s",
    }
    table = cepheid.workload(texts).run(events())
    names = [name for name in table.column_names if name not in ("query", "count")]
    mine = [row for row in table.to_pylist() if row["query"] == "survey"]
    assert [{name: row[name] for name in names} for row in mine] == rows_of(survey)


def test_pipelines() -> None:
    text = f"CREATE STREAM Long AS RETURN LONGEST(2) {REST}; RETURN COUNT(*) PATTERN Long"
    counted = cepheid.query(text).run(events())["count"].to_pylist()
    assert counted == [len(rows_of("LONGEST(2)"))]


def test_a_stream_without_windows_is_refused() -> None:
    with pytest.raises(cepheid.UnsupportedError, match="E405"):
        cepheid.query("RETURN SAMPLE(3) PATTERN A+").live(events().schema, watermark="0 s")


def test_too_large_lists_of_the_best_are_refused() -> None:
    with cepheid.limits(state=1_000), pytest.raises(cepheid.DataError, match="E519"):
        cepheid.query("RETURN LONGEST(1000) PATTERN A+").run(events())


SPREADS = "VAR(LENGTH), STDDEV(SUM(A.x)), VAR_POP(DURATION), VAR(A.x)"


def test_variances_in_stores_and_live(tmp_path: Path) -> None:
    query, table = cepheid.query(f"RETURN {SPREADS} {REST}"), events()
    expected = query.run(table).to_pylist()
    assert len(expected) > 5
    store = cepheid.EventStore(str(tmp_path / "store"))
    store.append(table)
    assert query.run(store).to_pylist() == expected
    live, found = query.live(table.schema, watermark="0 s"), []
    for begin in range(0, len(table), 7):
        found += live.feed(table.slice(begin, 7)).to_pylist()
        live = query.live(table.schema, watermark="0 s", state=live.save())
    assert found + live.close().to_pylist() == expected
    together = cepheid.workload([f"RETURN {SPREADS} {REST}", f"RETURN COUNT(*) {REST}"]).run(table)
    mine = [row for row in together.to_pylist() if row["var_pop_duration"] is not None]
    assert [{name: row[name] for name in expected[0]} for row in mine] == expected
