"""Rows are grouped by key and window as by a dictionary, however that is done."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cepheid.patterns import segments as module
from cepheid.patterns.segments import Segments, gather_segments, tumbling_segments

ROWS = st.lists(st.tuples(st.integers(-1, 4), st.integers(-9, 30)), min_size=1, max_size=40)


def grouped(keys: list[int], windows: list[int]) -> dict[tuple[int, int], list[int]]:
    """Group rows by definition, in the order of keys and windows."""
    found: dict[tuple[int, int], list[int]] = {}
    for row, name in enumerate(zip(keys, windows, strict=True)):
        found.setdefault(name, []).append(row)
    return dict(sorted(found.items()))


def listed(found: Segments) -> dict[tuple[int, int], list[int]]:
    parts = np.split(found.rows, found.ptr[1:-1])
    names = zip(found.key.tolist(), found.window.tolist(), strict=True)
    return {name: part.tolist() for name, part in zip(names, parts, strict=True)}


IN_ORDER = ROWS.map(lambda rows: sorted(rows, key=lambda row: row[1]))


@given(ROWS | IN_ORDER, st.integers(1, 12), st.sampled_from([0, 1 << 10]))
def test_tumbling_windows(rows: list[tuple[int, int]], width: int, divided: int) -> None:
    keys, times = ([row[n] for row in rows] for n in (0, 1))
    with mock.patch.object(module, "DIVIDED_ROWS", divided):
        found = tumbling_segments(np.array(keys), np.array(times), np.arange(len(rows)), width)
    assert listed(found) == grouped(keys, [time // width * width for time in times])
    assert found.bits.tolist() == found.rows.tolist()


@given(ROWS)
def test_windows_in_any_order(rows: list[tuple[int, int]]) -> None:
    keys, windows = ([row[n] for row in rows] for n in (0, 1))
    every = np.arange(len(rows))
    found = gather_segments(np.array(keys), np.array(windows), every, every)
    assert listed(found) == grouped(keys, windows)
