"""Lists, structures and maps order and group no rows; a diagnostic says so."""

from __future__ import annotations

import pyarrow as pa
import pytest

import cepheid
from cepheid.errors import BindError

MAPS = pa.map_(pa.int64(), pa.int64())
TABLE = pa.table(
    {
        "ts": [1, 2, 3],
        "l": [[1], [2], [1]],
        "st": pa.array([{"a": 1}, {"a": 2}, {"a": 1}]),
        "m": pa.array([[(1, 2)], [], None], MAPS),
    }
)
ALL = "FROM t MATCH_RECOGNIZE (ORDER BY ts ALL ROWS PER MATCH PATTERN (A))"


@pytest.mark.parametrize("column", ["l", "st", "m"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY {} MEASURES ts AS n PATTERN (A))",
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY {} ORDER BY ts PATTERN (A))",
        f"SELECT {{0}}, COUNT(*) AS n {ALL} GROUP BY {{0}}",
        f"SELECT * {ALL} ORDER BY {{}}",
    ],
)
def test_nested_values_are_no_keys(text: str, column: str) -> None:
    with pytest.raises(BindError, match=rf"E609.*`{column}`, which is of type"):
        cepheid.sql(text.format(column), tables={"t": TABLE})
