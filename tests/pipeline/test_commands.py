"""The command line takes files with pipelines."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.interfaces.program import run

import cepheid
from cepheid.errors import CepheidError

TEXT = """-- how often sales rose
CREATE STREAM Minute AS
SELECT shop, SUM(price) AS sales FROM trades GROUP BY shop WINDOW 1 minute;
RETURN shop, COUNT(*)
PATTERN Minute m+
WHERE [shop] AND m.sales < NEXT(m).sales
GROUP-BY shop
WITHIN 1 hour SLIDE 1 hour
"""
MINUTE = 60_000_000


def test_files_are_checked_explained_and_run(tmp_path: Path) -> None:
    file = tmp_path / "rising.cq"
    file.write_text(TEXT)
    times = pa.array([n * MINUTE for n in range(4)], pa.timestamp("us", "UTC"))
    events = pa.table({"ts": times, "shop": ["x"] * 4, "price": [3, 5, 4, 9]})
    parquet.write_table(events, tmp_path / "trades.parquet")
    assert run("check", file).returncode == 0
    told = run("explain", file)
    assert "Minute" in told.stdout
    assert "flowchart" in run("explain", file, "--format", "mermaid").stdout
    done = run("run", file, "--input", tmp_path / "trades.parquet", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].endswith("11.0") or ",11" in done.stdout


@pytest.mark.parametrize("queries", [{}, [TEXT], {"a": 3}])
def test_a_pipeline_is_a_dict_of_texts(queries: object) -> None:
    with pytest.raises(CepheidError, match="E592"):
        cepheid.pipeline(queries)  # type: ignore[arg-type]  # what is refused


def test_texts_may_end_with_marks_and_comments() -> None:
    found = cepheid.pipeline({"A": "SELECT x FROM s; ", "B": "SELECT x FROM A -- all"})
    assert found.run(pa.table({"ts": [1], "x": [2]})).to_pylist() == [{"x": 2}]
