"""Draw changelogs, and compare rows with those of a run over the current table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Change = dict[str, Any]

FIELDS: list[tuple[str, pa.DataType]] = [
    ("op", pa.string()),
    ("id", pa.int64()),
    ("ts", pa.int64()),
    ("type", pa.string()),
    ("key", pa.string()),
    ("zone", pa.string()),
    ("x", pa.int64()),
    ("price", pa.float64()),
]
SCHEMA = pa.schema(FIELDS)
EVENTS = pa.schema(FIELDS[1:])

BY_ID = {"op": "op", "id": ["id"]}
OPS_BY_ID = ("c", "insert", "u", "update", "d", "delete", "update_preimage", "update_postimage")
OPS = ("insert", "insert", "delete", "update_preimage", "update_postimage")


@st.composite
def changelogs(
    draw: st.DrawFn, *, by_id: bool, most: int = 14, times: int = 30, ids: int = 6
) -> list[Change]:
    """Draw a changelog of few ids, keys and times, with changes that do not fit."""
    ops = OPS_BY_ID if by_id else OPS
    events = st.fixed_dictionaries(
        {
            "op": st.sampled_from(ops),
            "id": st.integers(1, ids if by_id else 2),
            "ts": st.integers(0, times if by_id else 4),
            "type": st.sampled_from(["A", "A", "B", "C"]),
            "key": st.sampled_from(["p", "p", "q", None]) if by_id else st.just("p"),
            "zone": st.sampled_from(["z", "w"]) if by_id else st.just("z"),
            "x": st.sampled_from([1, 2, 3, None]) if by_id else st.just(1),
            "price": st.sampled_from([1.0, 2.0, 3.5, 0.0]) if by_id else st.just(math.nan),
        }
    )
    return draw(st.lists(events, min_size=1, max_size=most))


def table_of(changes: Iterable[Change]) -> pa.Table:
    """Return a changelog as a table."""
    return pa.Table.from_pylist(list(changes), schema=SCHEMA)


def events_of(events: Iterable[Change]) -> pa.Table:
    """Return events as a table."""
    return pa.Table.from_pylist(list(events), schema=EVENTS)


def plain(rows: Iterable[Change]) -> list[str]:
    """Return rows in a form that compares, without the numbers of matches and of rows."""
    left_out = ("op", "row_id", "match_id")
    shown = ({n: _rounded(v) for n, v in row.items() if n not in left_out} for row in rows)
    return sorted(repr(sorted(row.items())) for row in shown)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in sorted(value.items())}
    return value


def cut(changes: Sequence[Change], sizes: Sequence[int]) -> list[list[Change]]:
    """Cut a changelog into batches of some sizes, again and again."""
    batches, begin, turn = [], 0, 0
    while begin < len(changes):
        size = sizes[turn % len(sizes)]
        batches.append(list(changes[begin : begin + size]))
        begin, turn = begin + size, turn + 1
    return batches
