"""Memory of large arrays is used again, and only when nobody sees it any more."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cepheid
from cepheid.arrays import pool
from cepheid.kinds.row_pattern import recognize
from cepheid.kinds.row_pattern.arrange import ArrangedRows

LENGTH = 100_000


@pytest.fixture(autouse=True)
def _own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_IDLE", pool._Idle())


def place_of(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_is_used_again_when_the_last_view_is_gone() -> None:
    first = pool.empty(LENGTH)
    place = place_of(first)
    first[:] = 7
    view, column = first[10:], pa.array(first[:20])
    del first
    assert place_of(pool.empty(LENGTH)) != place
    del view
    second = pool.empty(LENGTH)
    assert place_of(second) != place
    assert column.to_pylist() == [7] * 20
    del column
    third = pool.empty(LENGTH, np.float64)
    assert place_of(third) == place
    assert third.dtype == np.float64
    assert len(third) == LENGTH
    third[:] = 0.5
    assert place_of(second) != place_of(third)


def test_small_arrays_are_those_of_numpy() -> None:
    assert pool.empty(3).base is None
    assert len(pool.empty(0)) == 0


@pytest.mark.parametrize("size", [65_536, 65_537, 100_000, 8_000_000, (1 << 27) + 1])
def test_sizes_are_rounded_up_by_a_quarter_at_most(size: int) -> None:
    assert size <= pool._rounded(size) <= 1.25 * size


def test_no_more_waits_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "IDLE_MAX", 1 << 20)
    arrays = [pool.empty(size, np.uint8) for size in (1 << 19, 1 << 18, 1 << 18, 3 << 18)]
    kept = place_of(arrays[-1])
    while arrays:
        del arrays[0]
    assert pool._IDLE._bytes <= 1 << 20
    assert place_of(pool.empty(3 << 18, np.uint8)) == kept
    assert 1 << 19 not in pool._IDLE._of_size
    pool.empty(1 << 21, np.uint8)
    assert 1 << 21 not in pool._IDLE._of_size


def test_threads_never_get_the_same_memory() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(300):
            arrays = [pool.empty(LENGTH) for _ in range(3)]
            for array in arrays:
                array[::512] = number
            if any((array[::512] != number).any() for array in arrays):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_search_leaves_no_rows_to_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[Any]] = []

    class Watched(ArrangedRows):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            alive.append(weakref.ref(self))

    monkeypatch.setattr(recognize, "ArrangedRows", Watched)
    table = pa.table({"k": [1, 2] * 50, "t": list(range(100)), "x": [3, 1, 2, 5] * 25})
    text = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
        MEASURES LAST(B.x) AS low, AVG(B.x) AS mean PATTERN (A B+)
        DEFINE B AS x <= PREV(x) AND x < 2 * FIRST(x))"""
    gc.collect()
    gc.disable()
    try:
        cepheid.sql(text, tables={"t": table})
        assert alive
        assert not any(ref() is not None for ref in alive)
    finally:
        gc.enable()


FAULTS = """
import resource, threading
import numpy as np
from cepheid.arrays.pool import keep_freed_memory

def work():
    for _ in range(rounds):
        arrays = [np.ones(1 << 18) for _ in range(8)]
        arrays.clear()

print(keep_freed_memory() if {keeps} else None)
rounds = 5
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
rounds = 40
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(environment: dict[str, str], *, keeps: bool) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS.replace("{keeps}", str(keeps))],
        env=os.environ | environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    said, count = done.stdout.split()
    return said, int(count)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc has mallopt")
def test_arrays_in_between_get_no_new_pages_every_time() -> None:
    said, kept = faults({}, keeps=True)
    _, given_back = faults({}, keeps=False)
    assert said == "True"
    assert kept < given_back / 4
    assert faults({"MALLOC_TRIM_THRESHOLD_": "131072"}, keeps=True)[0] == "False"
