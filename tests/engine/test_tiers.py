"""Kernels give the same bits interpreted and compiled, and choose the tier by the work."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import supported, table_of

from cepheid.api import query
from cepheid.kernels import cache, columns, linear, ranks, tiers, watch
from cepheid.kernels.costs import LOAD_S, compile_seconds
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import Kernel, Tier, current_tier, forced
from cepheid.runtimes.local import run_table
from cepheid.testing.query_strategies import Case, cases

pytestmark = pytest.mark.timeout(900)  # Compiles every kernel that a query may need.


def bits(table: pa.Table) -> list[tuple[str, list[Any]]]:
    """Return a result in a form in which only equal bits are equal."""
    columns_: list[tuple[str, list[Any]]] = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_float64(column.type):
            values = [None if x is None else np.float64(x).tobytes() for x in column.to_pylist()]
            columns_.append((name, values))
        else:
            # A NaN inside of a list differs from itself, and its text does not.
            columns_.append((name, [repr(x) for x in column.to_pylist()]))
    return columns_


def in_tier(tier: Tier, case: Case, rows: int) -> object:
    plan = query(case.query, schema=case.schema).plan
    with forced(tier):
        return bits(run_table(plan, table_of(case.events), batch_rows=rows))


@settings(max_examples=60)
@given(cases(), st.integers(1, 8))
def test_random_queries_give_the_same_bits(case: Case, rows: int) -> None:
    assume(case.events and supported(query(case.query, schema=case.schema)))
    assert in_tier(Tier.INTERPRET, case, rows) == in_tier(Tier.COMPILE, case, rows)


NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)


@given(numbers=NUMBERS, largest=st.booleans())
def test_written_twins_of_columns_are_the_same(numbers: list[int], *, largest: bool) -> None:
    values = np.array(numbers, np.int64)
    times = np.sort(values) if largest else values
    for kernel in (columns.scan_times, columns.is_counting):
        assert kernel.interpret(times) == kernel.function(times)
    room = (np.zeros_like(values), np.zeros_like(values))
    columns.order_keys.interpret(values, largest, room[0])
    with np.errstate(all="ignore"):
        columns.order_keys.function(values, largest, room[1])
    assert room[0].tolist() == room[1].tolist()


@given(st.lists(st.sampled_from(["", "A", "B", "AB", "ABC", "Å", "A\0"]), max_size=20), st.data())
def test_texts_are_looked_up_among_a_few_names(texts: list[str], data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(["A", "AB", "", "Å", "C"]), unique=True))
    column = pa.array(["skipped", *texts]).slice(1)
    buffers: Any = column.buffers()
    ends = np.cumsum([0, *(len(name.encode()) for name in names)], dtype=np.int64)
    known = np.frombuffer("".join(names).encode() or b" ", np.uint8)
    table = np.arange(1, len(names) + 1, dtype=np.uint8)
    begins = np.frombuffer(buffers[1], np.int32, len(texts) + 1, 4)
    expected = [1 + names.index(text) if text in names else 0 for text in texts]
    for tier in (Tier.INTERPRET, Tier.COMPILE):
        out = np.full(len(texts), 9, np.uint8)
        with forced(tier):
            columns.look_up_texts(
                begins, np.frombuffer(buffers[2], np.uint8), ends, known, table, out
            )
        assert out.tolist() == expected


@given(NUMBERS)
def test_sorting_is_the_same(numbers: list[int]) -> None:
    keys = np.array(numbers, np.int64)
    orders = []
    for tier in (Tier.INTERPRET, Tier.COMPILE):
        packed = np.zeros(len(keys), np.uint64)
        with forced(tier):
            mask = ranks.sort_keys(keys, len(keys), packed, packed.copy())
        orders.append([int(word) & int(mask) for word in packed])
    assert orders[0] == orders[1] == sorted(range(len(numbers)), key=lambda n: numbers[n])


def test_whole_numbers_wrap_as_in_machine_code() -> None:
    values, table = np.array([2**63 - 1]), np.arange(3)
    for tier in (Tier.INTERPRET, Tier.COMPILE):
        out = np.zeros(1, np.int64)
        with forced(tier):
            columns.look_up_shifted(values, 2**63 - 2, table, out)
        assert out.tolist() == [1]


def test_small_work_is_interpreted_and_large_work_is_not() -> None:
    kernel = Kernel(linear.close_row.function, inline="", work=None)
    Kernel.registry[kernel.name] = linear.close_row
    assert current_tier() is Tier.AUTO
    few, many = np.zeros(10), np.zeros(100_000_000, np.int8)
    assert kernel.interprets((few,))
    assert not kernel.interprets((many,))
    assert kernel.interprets((np.zeros(int(LOAD_S / kernel.rate_s) + 1, np.int8),))
    with mock.patch.object(cache, "has", return_value=True):
        assert not kernel.interprets((np.zeros(int(1.0 / kernel.rate_s), np.int8),))
    kernel.interpreted_s = compile_seconds(kernel.name) + 1
    assert not kernel.interprets((few,))


def test_a_forced_interpreter_does_not_run_what_was_compiled() -> None:
    def is_compiled(numbers: Any) -> bool:
        return bool(numbers[0] > 0)

    kernel = Kernel(is_compiled, inline="", work=None)
    del Kernel.registry[kernel.name]
    kernel.interpreted(lambda _: "interpreted")
    numbers = np.ones(1)
    for tier, expected in ((Tier.COMPILE, True), (Tier.INTERPRET, "interpreted")):
        with forced(tier):
            assert kernel(numbers) == expected


def test_a_small_query_loads_neither_numba_nor_spark() -> None:
    code = (
        "import sys, cepheid, pyarrow as pa;"
        "q = cepheid.query('RETURN COUNT(*) PATTERN SEQ(A+, B)');"
        "print(q.run(pa.table({'ts': [1, 2], 'type': ['A', 'B']})).to_pylist());"
        "print([name for name in ('numba', 'llvmlite', 'pyspark') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[{'count': 1.0}]", "[]"]


@contextmanager
def giving_up(looks: int) -> Iterator[list[str]]:
    """Give up every watched call at its n-th look at the clock; it begins again, interpreted.

    Yields the names of kernels that were given up.
    """
    left, given_up = [0], list[str]()

    @contextmanager
    def watched(*_: object) -> Iterator[None]:
        left[0] = looks
        with mock.patch.object(watch._watch, "until", -1.0):
            yield

    def ring() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise watch.OverrunKernel

    def again(kernel: Kernel, *arguments: Any) -> Any:
        given_up.append(kernel.name)
        with forced(Tier.INTERPRET):
            return kernel.interpret(*arguments)

    rates = {kernel: (kernel.rate_s, kernel.interpreted_s) for kernel in Kernel.registry.values()}
    with (
        mock.patch.object(tiers, "watched", watched),
        mock.patch.object(watch, "_ring", ring),
        mock.patch.object(Kernel, "__call__", lambda kernel, *a: kernel.interpret(*a)),
        mock.patch.object(Kernel, "run_compiled", again),
    ):
        yield given_up
    for kernel, (rate_s, interpreted_s) in rates.items():
        kernel.rate_s, kernel.interpreted_s = rate_s, interpreted_s


@settings(max_examples=60)
@given(cases(), st.integers(1, 8), st.integers(1, 6))
def test_calls_that_are_given_up_leave_no_trace(case: Case, rows: int, looks: int) -> None:
    assume(case.events and supported(query(case.query, schema=case.schema)))
    expected = in_tier(Tier.INTERPRET, case, rows)
    with giving_up(looks):
        assert in_tier(Tier.AUTO, case, rows) == expected


GIVEN_UP = {
    "trailing.aggregate_trailing": (
        "RETURN COUNT(*), MAX(A.x) PATTERN SEQ(A+, B) SEMANTICS next WITHIN 10 s"
    ),
    "start_counters.count_starts": "RETURN COUNT(*), MAX(A.x) PATTERN SEQ(A+, B) WITHIN 10 s",
    "start_sums.sum_starts": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s",
    "graph.run_any": "RETURN COUNT(*) PATTERN A+ WHERE A.x * NEXT(A).x < A.x + 3",
    "next_match.run_next_segments": (
        "RETURN COUNT(*) PATTERN SEQ(A+, B) SEMANTICS next WHERE A.x < NEXT(A).x"
    ),
    "next_stack.run_stacks": "RETURN COUNT(*) PATTERN A+ SEMANTICS next WHERE A.x < NEXT(A).x",
    "enumerate.list_matches": (
        "RETURN MATCHES PATTERN SEQ(A p, B q) SEMANTICS next WHERE p.x <= q.x + 99 WITHIN 4 s"
    ),
    "earlier_rows.list_by_earlier_rows": (
        "RETURN MATCHES PATTERN SEQ(A p, B q, A r) WHERE p.x <= q.x + 99 WITHIN 40 s"
    ),
    "paths.walk_paths": "RETURN MATCHES PATTERN SEQ(A, B, A) WITHIN 4 s",
    "paths.read_paths": "RETURN MATCHES PATTERN SEQ(A, B, A) SEMANTICS next WITHIN 4 s",
    "walk.walk_events": "RETURN MATCHES PATTERN SEQ(A+, B) WITHIN 4 s",
    "temporal_join.join": "DEFINE D AS x > 0, F AS x < 1 PATTERN D before F WITHIN 10 s",
}


@pytest.mark.parametrize("name", GIVEN_UP)
def test_kernels_that_write_states_begin_again(name: str) -> None:
    numbers = [n * 7919 % 11 - 5 for n in range(60)]
    times, types = [n * 400_000 for n in range(60)], ["AB"[n % 3 // 2] for n in range(60)]
    table = pa.table({"ts": times, "type": types, "x": numbers})
    asked = query(GIVEN_UP[name])
    with forced(Tier.INTERPRET):
        expected = bits(asked.run(table))
    for looks in (1, 2, 7):
        with giving_up(looks) as given_up:
            assert bits(asked.run(table)) == expected
        assert name in given_up or looks == 7


def test_an_unforeseen_call_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(out: Any, rounds: int) -> int:
        n = 0
        while n < rounds:
            n = let_signals_in(n)
            out[0] += 1
        return n

    count.__globals__["let_signals_in"] = let_signals_in
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(tiers, "compile_seconds", lambda _: 0.1)
    kernel = Kernel(count, inline="", work=lambda *_: 1.0)
    del Kernel.registry[kernel.name]
    assert kernel.asks_time
    out, rounds, begun = np.full(1, 7), 100_000_000, time.perf_counter()
    assert kernel.interprets((out, rounds))
    assert kernel(out, rounds) == rounds
    assert out.tolist() == [7 + rounds]
    assert LOAD_S < kernel.interpreted_s < 5
    assert time.perf_counter() - begun < 30
    assert not kernel.interprets((out, rounds))


def test_large_arrays_are_copied_only_for_long_calls() -> None:
    small, large = np.zeros(10), np.zeros(1 << 20)
    fixed = np.zeros(1 << 20)
    fixed.flags.writeable = False
    assert watch.keep((large,), 1e-3) is None
    kept = watch.keep((3, (small, fixed)), 1e-3)
    assert kept is not None
    assert [array is small for array, _ in kept] == [True]
    assert watch.keep((large,), 1.0) is not None
