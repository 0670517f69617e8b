"""Columns that several queries read: what follows from them is computed once, and is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cepheid
from cepheid.arrays import sharing
from cepheid.arrays.columns import Columns, KeyTable
from cepheid.arrays.sharing import once, sharing_columns
from cepheid.language import tree

EVENTS = pa.table({
    "ts": [1, 2, 3, 4],
    "key": pa.array(["x", "y", None, "x"]),
    "x": [1.0, 2.0, None, float("nan")],
}).append_column("type", pa.chunked_array([["A", None], ["B", "A"]]))  # fmt: skip


def condition(text: str) -> tree.Expression:
    plan: Any = cepheid.query(f"SELECT x FROM s WHERE {text}").with_schema(EVENTS.schema).plan
    (found,) = plan.select.condition
    assert isinstance(found, tree.Expression)
    return found


@pytest.mark.parametrize(
    "text", ["type = 'A'", "type <> 'A'", "x > 1.5", "type = 'A' OR x > 1.5", "key < type", "1 = 1"]
)
@pytest.mark.parametrize(
    "part",
    [
        lambda table: table,
        lambda table: table.slice(1, 2),
        lambda table: table.slice(0, 0),
        lambda table: table.combine_chunks(),
    ],
)
def test_masks_are_the_same(text: str, part: Callable[[pa.Table], pa.Table]) -> None:
    where, table = condition(text), part(EVENTS)
    alone = Columns(table).mask(where)
    with sharing_columns():
        first, again = (Columns(table.select(table.column_names)).mask(where) for _ in range(2))
        other = Columns(part(EVENTS.take([3, 2, 1, 0]))).mask(where)
    assert first is again
    assert first.tolist() == alone.tolist()
    turned = Columns(part(EVENTS.take([3, 2, 1, 0]))).mask(where)
    assert other.tolist() == turned.tolist()


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_keys_are_numbered_alike(kind: pa.DataType) -> None:
    table = EVENTS.set_column(1, "key", EVENTS["key"].cast(kind))
    parts = [table, table.take([3, 1, 2, 0]), table.slice(1)]
    alone = [KeyTable(["key"]).number(Columns(part)).tolist() for part in parts]
    with sharing_columns():
        for part, expected in zip(parts, alone, strict=True):
            first, again = (KeyTable(["key"]).number(Columns(part.select(["key"]))) for _ in "12")
            assert first.tolist() == again.tolist() == expected


def test_little_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "ROWS_MAX", 5)
    columns = [EVENTS["ts"]]
    with sharing_columns():
        values = [once(n, columns, lambda: np.zeros(1)) for n in ("a", "a", "b", "b")]
    assert values[0] is values[1]
    assert values[2] is not values[3]
