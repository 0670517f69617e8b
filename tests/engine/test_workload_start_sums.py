"""Workloads over trailing windows by sums over all starts: the rows of each query alone."""

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
from tests.engine.test_linear import SCHEMA
from tests.engine.test_workload import TRAILING, check, related_queries

from cepheid.kernels import shared_start_sums
from cepheid.kernels.linear import NARROW, OK
from cepheid.kernels.panes import FULL
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.workload import shared_trailing
from cepheid.testing.strategies import choice, streams
from cepheid.workloads import workload

PARTS = ["A", "B", "C", "A x", "A OR B", "SEQ(B, C)", "(SEQ(A, B))+", "A+", "B?"]


@contextmanager
def only(*, sums: bool) -> Iterator[list[int]]:
    """Choose sums or two stacks; collect the status of every call of the kernel of sums."""
    kernel, found = shared_start_sums.sum_shared_starts, list[int]()

    def noted(*arguments: Any) -> Any:
        result = kernel(*arguments)
        found.append(result[0])
        return result

    with (
        mock.patch.object(shared_trailing, "are_cheaper", return_value=sums),
        mock.patch.object(shared_start_sums, "sum_shared_starts", noted),
    ):
        yield found


@st.composite
def counting_queries(draw: st.DrawFn) -> list[str]:
    """Draw queries that count, with common prefixes and other common parts."""
    where, group = draw(choice([("", ""), ("[key]", "GROUP-BY key")]))
    window = draw(choice([*TRAILING, "WITHIN 2 s TIES arrival"]))
    prefix = draw(st.lists(choice(PARTS), max_size=2))
    found = []
    for _ in range(draw(st.integers(2, 4))):
        local = draw(choice(["", "", "A.price > 1"]))
        end = draw(st.lists(choice(PARTS), min_size=1, max_size=2))
        pattern = ", ".join([*prefix, "A", *end])
        conditions = " AND ".join(part for part in (where, local) if part)
        condition = f"WHERE {conditions}" if conditions else ""
        found.append(f"RETURN COUNT(*) PATTERN SEQ({pattern}) {condition} {group} {window}")
    return found


@given(counting_queries(), streams(SCHEMA, events_max=9), st.integers(1, 10))
def test_sums_and_the_oracle_agree(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int
) -> None:
    with only(sums=True):
        check(texts, events, batch_rows)


@given(related_queries(TRAILING), streams(SCHEMA, events_max=9), st.integers(1, 10))
def test_whatever_cannot_have_sums_has_two_stacks(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int
) -> None:
    with only(sums=True):
        check(texts, events, batch_rows)


RULES = [
    f"RETURN COUNT(*) PATTERN SEQ({', '.join(pattern)}) WHERE [key] GROUP-BY key WITHIN {{}} us"
    for pattern in ("ABCD", "ABCE", "ABE", "FBCA", "DA")
]


def drawn(count: int, keys: int = 3) -> pa.Table:
    draw = np.random.default_rng(11)
    return pa.table(
        {
            "ts": list(range(0, 2 * count, 2)),
            "type": draw.choice(list("ABCDEFG"), count).tolist(),
            "key": draw.choice([f"k{n}" for n in range(keys)], count).tolist(),
        }
    )


@pytest.mark.parametrize("tier", [Tier.INTERPRET, Tier.COMPILE])
@pytest.mark.parametrize("window", [2, 40, 5_000])
def test_a_workload_is_counted_by_sums_in_every_tier(window: int, tier: Tier) -> None:
    table = drawn(1_500)
    rules = workload([text.format(window) for text in RULES])
    with forced(tier), only(sums=True) as found:
        rows = rules.run(table)
    assert set(found) == {OK}
    with forced(tier), only(sums=False) as found:
        assert rules.run(table).equals(rows)
    assert found == []
    assert (len(rows) > 100) == (window > 2)


def test_sums_that_are_too_large_go_on_with_two_stacks() -> None:
    table = drawn(1_500)
    rules = workload([text.format(2_000) for text in RULES])
    with only(sums=False):
        expected = rules.run(table)
    with only(sums=True) as found, mock.patch.object(shared_trailing, "SUM_MAX", 30_000):
        assert rules.run(table).equals(expected)
    assert set(found) == {NARROW}


def test_rows_that_do_not_fit_come_by_partitions() -> None:
    table = drawn(1_500, keys=20)
    rules = workload([text.format(500) for text in RULES])
    with only(sums=False):
        expected = rules.run(table)
    with only(sums=True) as found, mock.patch.object(shared_trailing, "ROOM_BYTES", 41 * 60):
        assert rules.run(table).equals(expected)
    assert found[-1] == OK
    assert found.count(FULL) > 3


@pytest.mark.parametrize("tier", [Tier.INTERPRET, Tier.COMPILE])
def test_products_of_all_events_may_wrap_around(tier: Tier) -> None:
    # Prefixes of all events have up to 300^9 matches, windows a few thousand.
    kinds = np.random.default_rng(4).permutation(list("ABCDEFGHIJ") * 300)
    table = pa.table({"ts": range(3_000), "type": kinds.tolist()})
    rules = workload(
        [f"RETURN COUNT(*) PATTERN SEQ({', '.join(pattern)}) WITHIN 80 us"
         for pattern in ("ABCDEFGHIJ", "ABCDEFGHI", "BCDEFGHIJ")]
    )  # fmt: skip
    with forced(tier), only(sums=True) as found:
        rows = rules.run(table)
    assert set(found) == {OK}
    with only(sums=False):
        assert rules.run(table).equals(rows)
    assert len(rows) > 10


def test_explain_tells_where_sums_are_possible() -> None:
    sums = "or sums over all starts, where they cost less: "
    assert f"{sums}12 numbers" in workload([text.format(40) for text in RULES]).explain()
    loops = [f"RETURN COUNT(*) PATTERN SEQ(A+, {last}) WITHIN 1 s" for last in "BC"]
    assert sums not in workload(loops).explain()
