"""Counts straight from columns: the same bits as step by step, and what the oracle gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.comparison import same_rows
from tests.engine.test_tiers import bits

from cepheid.api import query
from cepheid.errors import DataError
from cepheid.jobs import side_by_side
from cepheid.kernels import tumbling
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.trend import local
from cepheid.kinds.trend.windows import plain_windows
from cepheid.runtimes.local import run_batches, run_table
from cepheid.testing.oracle import evaluate

pytestmark = pytest.mark.timeout(600)  # kernels compile on first use

SCHEMA = {"ts": "int", "type": "string", "price": "int", "key": "string"}
PATTERNS = ("SEQ(A+, B)", "SEQ(A, B, C)", "A+", "(SEQ(A+, B))+", "SEQ(ANY x, B)", "A OR B")
KINDS = (pa.string(), pa.int64(), pa.int32(), pa.int8(), pa.uint64(), pa.timestamp("us"))
TEXT = (
    "RETURN key, COUNT(*) PATTERN {} WHERE [key]{} GROUP-BY key WITHIN {width} us SLIDE {width} us"
)


@contextmanager
def quick(places: int = 1 << 14) -> Iterator[None]:
    """Count the smallest batches straight from columns."""
    patch = mock.patch.multiple(
        plain_windows, ROWS_MIN=0, PLACES_MIN=places, SHARE=0, PLACES_MAX=places
    )
    with patch:
        yield


@contextmanager
def step_by_step() -> Iterator[None]:
    """Count no batch straight from columns."""
    with mock.patch.object(local, "plain_windows", return_value=None):
        yield


@contextmanager
def handed_over() -> Iterator[list[object]]:
    """Collect the states with which counting went on step by step."""
    found: list[object] = []
    inner = plain_windows.PlainWindows.hand_over

    def noted(self: plain_windows.PlainWindows) -> Any:
        found.append(inner(self))
        return found[-1]

    with mock.patch.object(plain_windows.PlainWindows, "hand_over", noted):
        yield found


@st.composite
def events(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw events in the order of time, some of one time, some without a key or a type."""
    steps = draw(st.sampled_from([[1], [1, 2, 9], [0, 1, 3], [0, 0, 1]]))
    all_keys: list[list[int | None]] = [[1], [1, 2, 3], [-3, 1, 90], [None, 1, 2]]
    all_kinds: list[list[str | None]] = [["A", "B", "C"], ["A", "B", None, "D"]]
    keys, kinds = draw(st.sampled_from(all_keys)), draw(st.sampled_from(all_kinds))
    length = draw(st.integers(1, 14))
    time, found = draw(st.integers(-12, 12)), list[dict[str, Any]]()
    for _ in range(length):
        time += draw(st.sampled_from(steps))
        kind, key = draw(st.sampled_from(kinds)), draw(st.sampled_from(keys))
        found.append({"ts": time, "type": kind, "key": key, "price": draw(st.integers(0, 3))})
    return found


def table_of(
    rows: list[dict[str, Any]], kind: pa.DataType, *, coded: bool, shift: int = 0
) -> pa.Table:
    """Return events as a table with keys of a type; those of 64 bits may be shifted."""
    keys: list[Any] = [row["key"] for row in rows]
    if pa.types.is_unsigned_integer(kind):
        keys = [None if key is None else key + 3 for key in keys]
    if pa.types.is_integer(kind) and kind.bit_width == 64:
        keys = [None if key is None else key + shift for key in keys]
    values: Any = pa.array(list(map(_text, keys))) if kind == pa.string() else pa.array(keys, kind)
    types: Any = pa.array([row["type"] for row in rows], pa.string())
    return pa.table(
        {
            "ts": [row["ts"] for row in rows],
            "type": types.dictionary_encode() if coded else types,
            "price": [row["price"] for row in rows],
            "key": values.dictionary_encode() if coded and kind == pa.string() else values,
        }
    )


def _text(key: int | None) -> str | None:
    return None if key is None else str(key)


@given(
    rows=events(),
    pattern=st.sampled_from(PATTERNS),
    more=st.sampled_from(["", " AND A.price > 0"]),
    clauses=st.sampled_from(["", " TIES arrival", " HAVING COUNT(*) > 1"]),
    width=st.sampled_from([1, 3, 10]),
    kind=st.sampled_from(KINDS),
    cut=st.integers(1, 9),
    places=st.sampled_from([1, 50, 1 << 14]),
    coded=st.booleans(),
    largest=st.booleans(),
)
def test_random_queries_give_the_same_bits(
    rows: list[dict[str, Any]], pattern: str, more: str, clauses: str, width: int,
    kind: pa.DataType, cut: int, places: int, *, coded: bool, largest: bool,
) -> None:  # fmt: skip
    if more and "A" not in pattern.replace("ANY", ""):
        more = ""
    text = TEXT.format(pattern, more, width=width) + clauses
    most = max((row["key"] for row in rows if row["key"] is not None), default=0)
    # The largest key is the largest whole number of 64 bits.
    shift = 2**63 - 1 - most if largest else 0
    table = table_of(rows, kind, coded=coded, shift=shift)
    plan = query(text).with_schema(table.schema).plan
    with step_by_step():
        expected = bits(run_table(plan, table, batch_rows=cut))
    with quick(places):
        assert bits(run_table(plan, table, batch_rows=cut)) == expected
        chunks = pa.concat_tables([table.slice(n, 2) for n in range(0, len(table), 2)])
        assert bits(run_table(plan, chunks, batch_rows=cut)) == expected
        ranges = mock.patch.multiple(side_by_side, RANGE_ROWS=2, thread_count=lambda: 3)
        with ranges:
            assert bits(run_table(plan, table, batch_rows=cut)) == expected


def test_keys_may_be_the_largest_whole_numbers() -> None:
    largest = 2**63 - 1
    table = stream("ABAB", [largest, largest, largest - 1, largest - 1])
    plan = query(TEXT.format("SEQ(A+, B)", "", width=10)).with_schema(table.schema).plan
    with quick():
        found = run_table(plan, table).to_pylist()
    assert [(row["key"], row["count"]) for row in found] == [(largest - 1, 1.0), (largest, 1.0)]


@given(rows=events(), pattern=st.sampled_from(PATTERNS), cut=st.integers(1, 9))
def test_random_queries_give_what_the_oracle_gives(
    rows: list[dict[str, Any]], pattern: str, cut: int
) -> None:
    compiled = query(TEXT.format(pattern, "", width=10), schema=SCHEMA)
    given_events: list[Mapping[str, object]] = [row | {"key": _text(row["key"])} for row in rows]
    with quick():
        found = run_table(compiled.plan, table_of(rows, pa.string(), coded=True), batch_rows=cut)
    assert same_rows(found.to_pylist(), evaluate(compiled.tree, given_events))


def stream(types: str, keys: list[int], step: int = 1) -> pa.Table:
    """Return events of the types of letters, one after the other."""
    times: Any = np.arange(len(types)) * step
    key: Any = np.resize(np.array(keys), len(types))
    return pa.table({"ts": times, "type": list(types), "key": key})


LARGE = [
    ("SEQ(A+, B)", "A" * 3000 + "B" + "AB" * 40),  # units become zero
    ("SEQ(A, B+)", "A" + "B" * 1200 + "AB" * 40),  # one double cannot span both counts
    ("SEQ(A+, B+, C)", "A" * 1100 + "B" * 1100 + "C" + "ABC" * 20),
]


@pytest.mark.parametrize(("pattern", "types"), LARGE)
@pytest.mark.parametrize("tier", [Tier.INTERPRET, Tier.COMPILE])
@pytest.mark.parametrize("rows", [7, 700, 10_000])
def test_large_counts_have_the_same_bits(pattern: str, types: str, tier: Tier, rows: int) -> None:
    table = stream("ABABC" + types, [1])
    for width in (len(types), 10_000):
        text = TEXT.format(pattern, "", width=width).replace("COUNT(*)", "COUNT(*), LOG2(COUNT(*))")
        plan = query(text).with_schema(table.schema).plan
        with forced(tier):
            with step_by_step():
                expected = bits(run_table(plan, table, batch_rows=rows))
            with quick():
                assert bits(run_table(plan, table, batch_rows=rows)) == expected


def test_counts_that_fit_need_no_steps_and_those_that_do_not_go_on_by_steps() -> None:
    for number, (pattern, types) in enumerate([("SEQ(A+, B)", "AAB" * 50), *LARGE]):
        table = stream(types, [1, 1])
        plan = query(TEXT.format(pattern, "", width=10_000)).with_schema(table.schema).plan
        with quick(), handed_over() as found:
            run_table(plan, table)
        assert bool(found) == (number >= 2)


def test_events_of_one_time_and_key_go_on_by_steps() -> None:
    for times, steps in (([1, 2, 2, 3], 0), ([1, 2, 2, 2], 1)):
        table = pa.table({"ts": times, "type": list("AABB"), "key": [1, 1, 2, 1]})
        plan = query(TEXT.format("SEQ(A+, B)", "", width=10)).with_schema(table.schema).plan
        for cut in (1, 2, 3, 4):
            with quick(), handed_over() as found:
                answer = run_table(plan, table, batch_rows=cut)
            assert len(found) == steps
            with step_by_step():
                assert bits(run_table(plan, table)) == bits(answer)


@pytest.mark.parametrize("sparse", [0, 1000])
def test_windows_of_few_keys_visit_those(sparse: int) -> None:
    random = np.random.default_rng(3)
    types, keys = "".join(random.choice(list("ABC"), 4000)), list(random.integers(0, 500, 4000))
    table = stream(types, keys)
    for width in (20, 600):
        plan = query(TEXT.format("SEQ(A+, B)", "", width=width)).with_schema(table.schema).plan
        with step_by_step():
            expected = bits(run_table(plan, table, batch_rows=900))
        with (
            quick(),
            forced(Tier.INTERPRET),
            mock.patch.dict(tumbling.count_tumbling.function.__globals__, {"SPARSE": sparse}),
        ):
            assert bits(run_table(plan, table, batch_rows=900)) == expected


def test_keys_may_leave_the_range_and_change_their_type() -> None:
    parts = [stream("AABB", [5]), stream("AABB", [-2]), stream("AABB", [1 << 40])]
    parts = [
        part.set_column(0, "ts", pa.array(np.arange(4) + 4 * n)) for n, part in enumerate(parts)
    ]
    plan = query(TEXT.format("SEQ(A+, B)", "", width=7)).with_schema(parts[0].schema).plan
    with step_by_step():
        expected = bits(run_batches(plan, parts, parts[0].schema))
    with quick(), handed_over() as found:
        assert bits(run_batches(plan, parts, parts[0].schema)) == expected
    assert len(found) == 1


@pytest.mark.parametrize("cut", [1, 2, 3, 10])
def test_disorder_is_told_as_by_steps(cut: int) -> None:
    table = pa.table({"ts": [1, 2, 3, 2, 5], "type": list("AABBB"), "key": [1] * 5})
    plan = query(TEXT.format("SEQ(A+, B)", "", width=7)).with_schema(table.schema).plan
    told = []
    for how in (step_by_step(), quick()):
        batches = [table.slice(n, cut) for n in range(0, 5, cut)]
        with how, pytest.raises(DataError, match="E509") as caught:
            run_batches(plan, batches, table.schema)
        told.append(str(caught.value))
    assert told[0] == told[1]
