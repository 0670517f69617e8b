"""The state of a bucket that follows changes: a base and steps, read by whichever worker comes."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen
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
from cepheid.jobs.changes.homes import Shelf, Turn, ask
from cepheid.jobs.changes.journal import Journal

CHANGES = Changes.of(BY_ID)
DELAY = 10
GONE = 2
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
    shelves = [Shelf(), Shelf()]
    monkeypatch.setattr(journal, "STEPS_BYTES", small)
    monkeypatch.setattr(journal, "STEPS_SHARE", 1 if small else 50)
    known = follower_of(MORE[name])
    data: bytes | None = None
    for number, part in enumerate(cut(changes, sizes)):
        batch, before = changes_of(part), known.counts
        expected = known.take(batch)
        known.advance(known.latest - DELAY)
        worker = workers[number % len(workers)]
        if worker == GONE:
            # Nobody has the follower any more, and the home does not answer.
            for shelf in shelves:
                shelf.close()
        monkeypatch.setattr(journal, "_shelf", shelves[worker % 2])
        mine = Journal(lambda: follower_of(MORE[name]), 2, data)
        told = mine.take(batch, lambda _: known.until)
        data = mine.to_bytes()
        assert rows_of(told.rows) == rows_of(expected)
        assert told.counts.plus(before) == known.counts
        assert told.events == len(known.ledger)
    for shelf in shelves:
        shelf.close()


def test_a_state_grows_by_what_changed() -> None:
    """A small batch leaves the base as it is, and many of them write it anew."""
    draw = np.random.default_rng(1)
    count = 60_000
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
    for begin in range(0, count, 3000):
        mine = Journal(lambda: follower_of(MORE["aggregates"]), 1, data)
        mine.take(table.slice(begin, 3000), lambda _: None)
        data = mine.to_bytes()
        bases.append(mine._index.digest)
        assert len(data) < 3 * max(mine._index.base, journal.STEPS_BYTES)
    assert 1 < len(set(bases)) < len(bases) // 2


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    """Give journals a shelf of their own."""
    own = Shelf()
    monkeypatch.setattr(journal, "_shelf", own)
    yield own
    own.close()


def journal_of(data: bytes | None, text: str = MORE["aggregates"], buckets: int = 1) -> Journal:
    """Read a state."""
    return Journal(lambda: follower_of(text), buckets, data)


def state_of(count: int) -> bytes:
    """Write a state with a base and two steps."""
    data = None
    for begin in range(3):
        mine = journal_of(data)
        ids = range(begin * count, (begin + 1) * count)
        changes = [{"op": "c", "id": n, "ts": n, "type": "A", "key": "p"} for n in ids]
        mine.take(changes_of(changes), lambda _: None)
        data = mine.to_bytes()
    assert data is not None, "there were batches"
    return data


def test_a_failed_task_leaves_no_follower_behind(shelf: Shelf) -> None:
    """What a task took that then failed is not taken twice."""
    data, delete = state_of(3), changes_of([{"op": "d", "id": 1}])
    assert journal_of(data).take(delete, lambda _: None).events == 8
    again = journal_of(data).take(delete, lambda _: None)
    assert (again.events, again.counts.odd) == (8, 0)
    assert shelf.home


def test_a_machine_without_sockets_has_no_homes(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(socket, "socket", forbidden)
    data = state_of(3)
    assert shelf.home == ""
    assert journal_of(data).take(changes_of([{"op": "d", "id": 1}]), lambda _: None).events == 8


def test_a_home_answers_for_the_state_that_it_has(shelf: Shelf) -> None:
    """It takes what follows this state, once, and says that it lacks any other."""
    mine = journal_of(state_of(3))
    turn = Turn(changes_of([{"op": "d", "id": 1}]), 0, "after", False)
    meaning, home, before = mine._meaning, mine._index.home, mine._digest
    assert home == shelf.home
    assert ask(home, meaning, "another state", turn) is None
    told = ask(home, meaning, before, turn)
    assert told is not None
    assert told.events == 8
    assert ask(home, meaning, before, turn) is None
    assert ask(home, meaning, "after", turn._replace(after="later")) is not None
    assert ask("0" * 32, meaning, before, turn) is None
    assert ask("no name", meaning, before, turn) is None


AWAY = """
import os, sys
from tests.changes.test_journal import state_of
with os.fdopen(1, "wb", closefd=True) as out:
    out.write(state_of(3))
sys.stdin.read()
"""


def test_a_home_in_another_process_answers_until_it_is_killed(shelf: Shelf) -> None:
    delete = changes_of([{"op": "d", "id": 1}])
    root = Path(__file__).parents[2]
    with Popen([sys.executable, "-c", AWAY], stdin=PIPE, stdout=PIPE, cwd=root) as away:
        assert away.stdout is not None, "it was asked for"
        data = away.stdout.read()
        mine = journal_of(data)
        assert mine.take(delete, lambda _: None).events == 8
        # It took them over there: nothing was read here.
        assert shelf.take((*mine._meaning, mine._digest)) is None
        after = mine.to_bytes()
        away.kill()
    again = journal_of(after)
    insert = changes_of([{"op": "c", "id": 1, "ts": 1, "type": "A", "key": "p"}])
    assert again.take(insert, lambda _: None).events == 9
    assert again._index.home == shelf.home
    # A task that is repeated begins with the state from before.
    assert journal_of(data).take(delete, lambda _: None).events == 8


@pytest.mark.parametrize("small", [0, 1 << 18])
def test_damage_is_noticed_by_whoever_reads(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(journal, "STEPS_BYTES", small)
    data = bytearray(state_of(3))
    nothing = changes_of([{"op": "d", "id": 99}])
    shelf.close()
    assert journal_of(bytes(data)).take(nothing, lambda _: None).events == 9
    for at in range(0, len(data), 7):
        shelf.close()
        data[at] ^= 1
        with pytest.raises(DataError, match=r"E524|E546"):
            journal_of(bytes(data)).take(nothing, lambda _: None)
        data[at] ^= 1
    with pytest.raises(DataError, match="E546"):
        journal_of(bytes(data[:-1]))


def test_other_buckets_and_queries_are_refused(shelf: Shelf) -> None:
    data = journal_of(None, buckets=2).to_bytes()
    with pytest.raises(DataError, match=r"spark\.cepheid\.buckets"):
        journal_of(data, buckets=3)
    with pytest.raises(DataError, match="another query"):
        journal_of(data, MORE["edges"], buckets=2)
    assert shelf.take(("nothing",)) is None
