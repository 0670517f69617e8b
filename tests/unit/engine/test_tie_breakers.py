"""Tie-breakers of every form of text, over tables and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import cepheid

EVENTS = pa.table(
    {
        "ts": [1, 1, 2, 2, 3, 3],
        "type": ["B", "A", "B", "A", "A", "B"],
        "k": ["x", "x", "y", "y", "x", "x"],
    }
)
COUNT = "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] TIES arrival"
FUNNEL = "RETURN FUNNEL(k) PATTERN SEQ(A, B) WITHIN 10 us TIES arrival"
LIST = "RETURN MATCHES PATTERN SEQ(A, B) WHERE [k] WITHIN 10 us TIES arrival"


@pytest.mark.parametrize("text", [COUNT, FUNNEL, LIST])
@pytest.mark.parametrize("names", [["type"], ["k", "type"]])
def test_texts_and_dictionaries_break_ties_alike(
    text: str, names: list[str], tmp_path: Path
) -> None:
    query = cepheid.query(text, tiebreak=names)
    expected = query.run(EVENTS).to_pylist()
    coded: dict[str, Any] = {"ts": EVENTS["ts"]}
    coded |= {name: EVENTS[name].dictionary_encode() for name in ("type", "k")}
    assert query.run(pa.table(coded)).to_pylist() == expected
    parquet.write_table(EVENTS, tmp_path / "events.parquet")
    assert query.run(str(tmp_path / "events.parquet")).to_pylist() == expected


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_types_of_files_are_shown_as_they_came(kind: pa.DataType, tmp_path: Path) -> None:
    place = EVENTS.column_names.index("type")
    table = EVENTS.set_column(place, "type", EVENTS["type"].cast(kind))
    parquet.write_table(table, tmp_path / "events.parquet")
    query = cepheid.query(LIST)
    assert query.run(str(tmp_path / "events.parquet")).equals(query.run(table))
