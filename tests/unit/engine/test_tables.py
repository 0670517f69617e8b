"""Packed tables: what comes out is what went in, and it is shorter in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.jobs.tables import KINDS_MAX, pack_table, table_to_bytes, unpack_table

INTEGERS: dict[str, Any] = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint8": st.integers(0, 255),
}


@st.composite
def columns(draw: st.DrawFn) -> Any:
    """A column in one or two pieces; near values, far ones, sorted ones, missing ones."""
    name = draw(st.sampled_from([*INTEGERS, "float64", "string", "timestamp", "bool"]))
    values: Any
    kind: Any
    if name in INTEGERS:
        values = INTEGERS[name]
        if draw(st.booleans()):
            values = st.integers(0, 200)
        kind = getattr(pa, name)()
    elif name == "timestamp":
        values, kind = st.integers(-(2**62), 2**62), pa.timestamp("us", "UTC")
    elif name == "float64":
        values, kind = st.floats(allow_nan=False), pa.float64()
    elif name == "bool":
        values, kind = st.booleans(), pa.bool_()
    else:
        values, kind = st.text(max_size=3), pa.string()
    found: list[Any] = draw(st.lists(values, max_size=20))
    if draw(st.booleans()):
        found.sort()
    if draw(st.booleans()):
        found = [*found, None]
    cut = draw(st.integers(0, len(found)))
    parts = [found[:cut], found[cut:]]
    if name == "timestamp":
        arrays: list[Any] = [pa.array(part, pa.int64()).cast(kind) for part in parts]
    else:
        arrays = [pa.array(part, kind) for part in parts]
    return pa.chunked_array(arrays, kind)


@given(columns(), st.booleans())
def test_a_table_comes_back_as_it_was(column: Any, jumps: bool) -> None:  # noqa: FBT001  # drawn
    table = pa.table({"x": column})
    assert unpack_table(pack_table(table, jumps=jumps)).equals(table)


@pytest.mark.parametrize("far", [0, 2**31 - 1, 2**31, 2**32 - 1])
def test_jumps_up_and_down_come_back_and_are_compressed(far: int) -> None:
    near = np.arange(10_000)
    near[::10] = np.random.default_rng(1).permutation(1000)
    near[5], near[6] = -far, 0
    table = pa.table({"id": pa.array(near)})
    packed = pack_table(table, jumps=True)
    assert unpack_table(packed).equals(table)
    sizes = [len(pa.compress(data, "zstd", asbytes=True)) for data in (packed, pack_table(table))]
    assert sizes[0] < sizes[1] / 2 or far >= 2**31 - 9_000


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.duration("ms")])
def test_times_become_steps(kind: pa.DataType) -> None:
    times = pa.array(np.cumsum(np.full(10_000, 300)) + 1_700_000_000_000_000).cast(kind)
    table = pa.table({"ts": times})
    assert len(pack_table(table)) < len(table_to_bytes(table)) / 3
    assert unpack_table(pack_table(table)).equals(table)


def test_texts_of_few_kinds_become_numbers_and_those_of_many_stay() -> None:
    few = pa.table({"type": pa.array(["Accelerate", "Brake"] * 5_000)})
    assert len(pack_table(few)) < len(table_to_bytes(few)) / 8
    many = pa.table({"type": pa.array([f"{n}" for n in range(KINDS_MAX + 1)])})
    for table in (few, many):
        assert unpack_table(pack_table(table)).equals(table)


def test_what_the_schema_says_stays() -> None:
    schema = pa.schema([pa.field("x", pa.int32(), metadata={b"unit": b"m"})], metadata={b"a": b"b"})
    table = pa.table({"x": [1, 2, 3]}, schema=schema)
    assert unpack_table(pack_table(table)).schema.equals(schema, check_metadata=True)


def test_an_empty_table_stays_empty() -> None:
    table = pa.table({"x": pa.array([], pa.int64()), "ts": pa.array([], pa.timestamp("s"))})
    assert unpack_table(pack_table(table)).equals(table)
