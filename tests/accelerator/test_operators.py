"""The operators on a simulated GPU and on a CPU give what a plain loop gives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from benchmarks.thesis_operators import operators as op
from benchmarks.thesis_operators.filtering import filter_from_host, pinned
from benchmarks.thesis_operators.sequences import ANY, CONTIGUOUS, NEXT, Step, match
from numpy.typing import NDArray
from tests.amount import share

pytestmark = pytest.mark.timeout(300)
GPU = op.Work("gpu", threads=8)
CPU = op.Work()
WORKS = pytest.mark.parametrize("work", [CPU, GPU], ids=["cpu", "gpu"])


def events(length: int, seed: int = 0) -> NDArray[np.float64]:
    """Return a column of small whole numbers."""
    return np.random.default_rng(seed).integers(0, 4, (1, length)).astype(np.float64)


def is_odd(columns: Any, i: Any) -> Any:
    return columns[0, i] % 2 == 1


def is_next(left: Any, i: Any, right: Any, j: Any) -> Any:
    return right[0, j] == left[0, i] + 1


def is_one(columns: Any, i: Any) -> Any:
    return columns[0, i] == 1


@WORKS
@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 700])
def test_filter_keeps_the_order(work: op.Work, length: int) -> None:
    columns = events(length)
    assert np.array_equal(
        op.filter_events(columns, is_odd, work), np.flatnonzero(columns[0] % 2 == 1)
    )


@share(2)
@WORKS
@pytest.mark.parametrize("function", ["sum", "min", "max"])
@pytest.mark.parametrize("incremental", [False, True])
def test_windows_of_events_and_of_time(
    work: op.Work, function: str, incremental: bool,  # noqa: FBT001
) -> None:  # fmt: skip
    values = np.random.default_rng(3).normal(size=2_500)
    times = np.cumsum(np.random.default_rng(4).integers(0, 3, 2_500))
    for windows in (op.count_windows(2_500, 1_500, 1_000), op.time_windows(times, 1_400, 700)):
        expected = [getattr(np, function)(values[a:b]) for a, b in zip(*windows, strict=True)]
        found = op.aggregate(values, windows, function, work, incremental=incremental)
        assert np.allclose(found, expected)


@WORKS
def test_join_gives_pairs_in_order(work: op.Work) -> None:
    left, right = events(40, 1), events(60, 2)
    left_times, right_times = np.arange(40) * 3, np.arange(60) * 2
    for bounds in (
        op.window_before(left_times, right_times, 20),
        op.last_events(left_times, right_times, 5),
        op.last_events(left_times, right_times, 0),
    ):
        probe, partner = op.join(left, right, bounds, is_next, work)
        expected = [
            (i, j)
            for i in range(40)
            for j in range(bounds.low[i], bounds.high[i])
            if right[0, j] == left[0, i] + 1
        ]
        assert list(zip(probe.tolist(), partner.tolist(), strict=True)) == expected


def brute(values: NDArray[np.float64], length: int, semantics: str, within: int) -> set[Any]:
    """Return the rising runs 1, 2, ... of a length, one event after another."""
    found = set()
    for rows in itertools.combinations(range(len(values)), length):
        if values[rows[0]] != 1 or rows[-1] - rows[0] >= within:
            continue
        if any(values[b] != values[a] + 1 for a, b in itertools.pairwise(rows)):
            continue
        gaps = [values[a + 1 : b] for a, b in itertools.pairwise(rows)]
        if semantics == CONTIGUOUS and any(map(len, gaps)):
            continue
        if semantics == NEXT and any(
            (gap == values[a] + 1).any() for a, gap in zip(rows, gaps, strict=False)
        ):
            continue
        found.add(rows)
    return found


@share(2)
@WORKS
@pytest.mark.parametrize("semantics", [ANY, NEXT, CONTIGUOUS])
def test_sequences_step_by_step(work: op.Work, semantics: str) -> None:
    columns = events(30, 5)
    for steps in ([Step(is_one), Step(is_next)], [Step(is_one), Step(is_next, plus=True)]):
        found = match(columns, np.arange(30), steps, semantics=semantics, within=12, work=work)
        lengths = (2, 3) if steps[-1].plus else (2,)
        expected = set().union(*(brute(columns[0], n, semantics, 12) for n in lengths))
        assert {tuple(row) for rows in found for row in rows.tolist()} == expected


def test_limits_of_sequences() -> None:
    columns = np.ones((1, 20))
    with pytest.raises(ValueError, match="more than 10"):
        match(columns, np.arange(20), [Step(is_one)], limit=10, work=GPU)
    steps = [Step(is_one), Step(is_next, plus=True), Step(is_next)]
    with pytest.raises(ValueError, match="last step"):
        match(columns, np.arange(20), steps, semantics=NEXT)


def test_filters_of_pinned_memory_keep_the_order_over_batches() -> None:
    columns = pinned((2, 150), np.float64)
    columns[:] = np.random.default_rng(3).random((2, 150))
    rows = pinned((150,), np.int64)
    for batch, slots in ((40, 2), (1 << 20, 3)):
        found = filter_from_host(columns, either, rows, batch=batch, slots=slots)
        assert np.array_equal(found, np.flatnonzero(columns.max(0) > 0.8))
    assert not len(filter_from_host(columns[:, :0], either, rows))
    columns[:] = 0
    assert not len(filter_from_host(columns, either, rows))


def either(columns: Any, i: Any) -> Any:
    return columns[0, i] > 0.8 or columns[1, i] > 0.8
