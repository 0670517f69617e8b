"""The state of a bucket that follows changes: a base and steps, read by whichever worker comes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.changes.changelogs import BY_ID, EVENTS, SCHEMA, Change, changelogs, cut
from tests.changes.changelogs import table_of as changes_of
from tests.changes.test_follow import MORE, SIZES

import cepheid
from cepheid.errors import DataError
from cepheid.jobs.changes import journal
from cepheid.jobs.changes.asked import Changes
from cepheid.jobs.changes.follow import Follower
from cepheid.jobs.changes.journal import Journal

CHANGES = Changes.of(BY_ID)
DELAY = 10
NAMES = ("aggregates", "groups", "edges", "skip", "sessions", "exact")


def follower_of(text: str) -> Follower:
    """Start a query that follows changes."""
    assert CHANGES is not None, "it was given"
    return Follower(cepheid.query(text).with_schema(EVENTS).plan, EVENTS, CHANGES)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows in an order of their own."""
    return sorted(table.to_pylist(), key=repr)


@pytest.mark.parametrize("name", NAMES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=changelogs(by_id=True),
    sizes=SIZES,
    workers=st.lists(st.integers(0, 2), min_size=1, max_size=12),
    small=st.sampled_from([0, 1 << 18]),
)
def test_any_worker_goes_on(
    name: str,
    changes: list[Change],
    sizes: list[int],
    workers: list[int],
    small: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Worker 2 keeps nothing, as one that was just started.
    kept: Sequence[OrderedDict[Any, Follower]] = [OrderedDict(), OrderedDict(), OrderedDict()]
    monkeypatch.setattr(journal, "STEPS_BYTES", small)
    monkeypatch.setattr(journal, "STEPS_SHARE", 1 if small else 50)
    known = follower_of(MORE[name])
    data: bytes | None = None
    for number, part in enumerate(cut(changes, sizes)):
        batch, before = changes_of(part), known.counts
        expected = known.take(batch)
        known.advance(known.latest - DELAY)
        kept[2].clear()
        monkeypatch.setattr(journal, "_kept", kept[workers[number % len(workers)]])
        mine = Journal(lambda: follower_of(MORE[name]), 2, data)
        told = mine.take(batch, lambda _: known.until)
        data = mine.to_bytes()
        assert rows_of(told) == rows_of(expected)
        assert mine.follower.counts.plus(before) == known.counts
        assert len(mine.follower.ledger) == len(known.ledger)


def test_a_state_grows_by_what_changed() -> None:
    """A small batch leaves the base as it is, and many of them write it anew."""
    draw = np.random.default_rng(1)
    count = 20_000
    columns: dict[str, Any] = {
        "op": ["c"] * count,
        "id": np.arange(count),
        "ts": np.arange(count),
        "type": draw.choice(["A", "B"], count),
        "key": draw.choice(["p", "q"], count),
        "zone": ["z"] * count,
        "x": draw.integers(0, 9, count),
        "price": draw.random(count),
    }
    table = pa.table(columns, schema=SCHEMA)
    data, bases = None, []
    for begin in range(0, count, 1000):
        mine = Journal(lambda: follower_of(MORE["aggregates"]), 1, data)
        mine.take(table.slice(begin, 1000), lambda _: None)
        data = mine.to_bytes()
        bases.append(mine._base)
        assert len(data) < 3 * max(len(mine._base), journal.STEPS_BYTES)
    assert 1 < len(set(bases)) < len(bases) // 2


def test_a_failed_task_leaves_no_follower_behind() -> None:
    """What a task took that then failed is not taken twice."""
    text = MORE["aggregates"]
    changes = [{"op": "c", "id": n, "ts": n, "type": "A", "key": "p"} for n in range(3)]
    first = Journal(lambda: follower_of(text), 1, None)
    first.take(changes_of(changes), lambda _: None)
    data = first.to_bytes()
    failed = Journal(lambda: follower_of(text), 1, data)
    failed.take(changes_of([{"op": "d", "id": 1}]), lambda _: None)
    again = Journal(lambda: follower_of(text), 1, data)
    assert again.follower is not failed.follower
    assert len(again.follower.ledger) == len(changes)


def test_other_buckets_and_queries_are_refused() -> None:
    data = Journal(lambda: follower_of(MORE["aggregates"]), 2, None).to_bytes()
    with pytest.raises(DataError, match=r"spark\.cepheid\.buckets"):
        Journal(lambda: follower_of(MORE["aggregates"]), 3, data)
    with pytest.raises(DataError, match="another query"):
        Journal(lambda: follower_of(MORE["edges"]), 2, data)
