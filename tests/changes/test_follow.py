"""Live queries over tables that change: after every batch, the rows of a run (§18.6, §18.7)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.amount import share
from tests.changes.changelogs import BY_ID, SCHEMA, Change, changelogs, cut, events_of, plain
from tests.changes.changelogs import table_of as changes_of
from tests.changes.test_changelog import QUERIES
from tests.engine.comparison import KINDS, NUMBER, same_rows, supported

import cepheid
from cepheid.api import CompiledQuery
from cepheid.errors import CepheidError
from cepheid.jobs.changes.recompute import Recomputes
from cepheid.kinds.trend.repair import repair
from cepheid.kinds.trend.repair.level import Items, Level
from cepheid.kinds.trend.repair.repair import Repairs
from cepheid.language.parser import parse
from cepheid.runtimes.live_changes import LiveChanges
from cepheid.testing import evaluate
from cepheid.testing.oracle_changes import Table, apply_rows
from cepheid.testing.oracle_matches import TooMuchEffortError
from cepheid.testing.query_strategies import Case, cases

pytestmark = pytest.mark.filterwarnings("ignore:no event has")  # random events may lack a type

ADDS = ("c", "insert", "u", "update", "update_postimage")
SIZES = st.lists(st.integers(1, 8), min_size=1, max_size=4)
MORE = {
    **QUERIES,
    "no window": "RETURN COUNT(*), SUM(A.x), MIN(A.price), AVG(A.x) PATTERN SEQ(A+, B)",
    "groups": "RETURN zone, COUNT(*) PATTERN SEQ(A+, B) WHERE [key, zone] GROUP-BY zone "
    "WITHIN 12 us SLIDE 4 us",
    "having": "RETURN key, COUNT(*) PATTERN A+ GROUP-BY key HAVING COUNT(*) > 2 "
    "WITHIN 8 us SLIDE 8 us",
    "exact": "RETURN COUNT(*), SUM(A.x) PATTERN A+ NUMBERS exact WITHIN 8 us SLIDE 4 us",
    "pairs": "RETURN COUNT(*) PATTERN A+ AND SEQ(A, B) WITHIN 9 us SLIDE 3 us",
    "listed pairs": "RETURN MATCHES PATTERN A AND SEQ(A, B) WITHIN 9 us SLIDE 3 us",
    "keys": "RETURN COUNT(DISTINCT key) PATTERN SEQ(A, B) WHERE [key] WITHIN 10 us SLIDE 10 us",
    "next": "RETURN key, COUNT(*) PATTERN SEQ(A+, B) SEMANTICS next GROUP-BY key "
    "WITHIN 10 us SLIDE 5 us",
    "trailing": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 6 us",
    "expiry": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 6 us EMIT ON EXPIRY",
    "edges": "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 8 us SLIDE 8 us",
    "deadline": "RETURN A.ts PATTERN SEQ(A, NOT B WITHIN 4 us) WHERE [key] WITHIN 10 us",
    "named like a key": "RETURN A.x AS key PATTERN SEQ(A, B) WHERE [key]",
    "named like a time": "SELECT x AS ts FROM Events WHERE x > 0",
    "named like events": "RETURN A.x AS events PATTERN SEQ(A, B) WHERE [key]",
    "key of an optional event": "RETURN A.x, B.key PATTERN SEQ(A, B?) WHERE [key]",
    "skip": "RETURN A.ts PATTERN SEQ(A, B) AFTER MATCH SKIP PAST LAST WITHIN 10 us",
    "counted": "RETURN COUNT(*) PATTERN A+ WITHIN 3 EVENTS SLIDE 2 EVENTS",
    "whole matches": "RETURN MATCHES PATTERN SEQ(A, B+) WHERE [key] WITHIN 6 us SLIDE 3 us",
    "blame": "RETURN BLAME() PATTERN SEQ(A+, B) WITHIN 8 us SLIDE 8 us",
    "one row": "SELECT COUNT(*) AS n, SUM(x) AS s FROM Events",
    "select counted": "SELECT key, COUNT(*) AS n FROM Events GROUP BY key WINDOW 3 EVENTS",
    "sessions": "SELECT key, COUNT(*) AS n FROM Events GROUP BY key WINDOW SESSION 4 us",
    "select having": "SELECT key, SUM(x) / COUNT(*) AS mean FROM Events GROUP BY key "
    "HAVING COUNT(*) > 1 WINDOW 10 us SLIDE 5 us",
    "select distinct": "SELECT COUNT(DISTINCT key) AS n, MEDIAN(x) AS m FROM Events WINDOW 10 us",
    "sweep": "RETURN COUNT(*) PATTERN A+ WHERE A.x > SWEEP(0, 1) WITHIN 8 us SLIDE 8 us",
    "pipeline": "CREATE STREAM N AS SELECT key, COUNT(*) AS n FROM Events GROUP BY key "
    "WINDOW 5 us; RETURN key, COUNT(*) PATTERN N n+ WHERE [key] AND n.n > 1 GROUP-BY key "
    "WITHIN 20 us SLIDE 20 us",
    "states": "PARTITION BY key DEFINE H AS x > 1 SITUATIONS H",
    "funnel windows": "RETURN FUNNEL(key) PATTERN SEQ(A a, B b) WITHIN 10 us SLIDE 5 us",
}
REPAIRED = {*("aggregates", "no window", "groups", "having", "exact", "pairs", "keys", "next")}


def live_of(query: CompiledQuery, **options: Any) -> LiveChanges:
    """Start a live query by id."""
    live: LiveChanges = query.live(SCHEMA, changes=BY_ID, **options)
    return live


def quiet_rows(query: CompiledQuery, events: pa.Table) -> list[dict[str, Any]]:
    """Run a query over events."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows: list[dict[str, Any]] = query.run(events).to_pylist()
    return rows


@share(2)
@pytest.mark.parametrize("name", sorted(MORE))
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=changelogs(by_id=True, most=24) | changelogs(by_id=True, most=24, times=5, ids=16),
    sizes=SIZES,
)
def test_every_batch_equals_a_run_over_the_current_table(
    name: str, changes: list[Change], sizes: list[int]
) -> None:
    query = cepheid.query(MORE[name])
    live, table = live_of(query), Table("op", ["id"])
    now: dict[object, Change] = {}
    for number, batch in enumerate(cut(changes, sizes)):
        now = apply_rows(now, live.feed(changes_of(batch)).to_pylist())
        for change in batch:
            table.apply(change)
        found = quiet_rows(query, events_of(table.sorted()))
        assert plain(now.values()) == plain(found), f"after batch {number}"
        if number % 3 == 1:
            live = live_of(query, state=live.save())
    assert (live.bad, live.late) == (0, 0)


@share(4)
@pytest.mark.parametrize("name", sorted({*MORE} - {"sweep", "blame"}))
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(changes=changelogs(by_id=True, most=24, times=200), sizes=SIZES)
def test_final_events_stay_and_late_changes_do_not_count(
    name: str, changes: list[Change], sizes: list[int]
) -> None:
    query = cepheid.query(MORE[name])
    live, table = live_of(query, watermark="20 us"), Table("op", ["id"])
    now: dict[object, Change] = {}
    until = latest = -(10**9)
    for number, batch in enumerate(cut(changes, sizes)):
        now = apply_rows(now, live.feed(changes_of(batch)).to_pylist())
        before = table.late
        for change in batch:
            table.apply(change, until)
        assert table.late >= before
        assert plain(now.values()) == plain(quiet_rows(query, events_of(table.sorted())))
        came = [change["ts"] for change in batch if change["op"] in ADDS]
        latest = max([latest, *came])
        until = max(until, latest - 20)
        if number % 3 == 1:
            live = live_of(query, watermark="20 us", state=live.save())


@st.composite
def histories(draw: st.DrawFn) -> tuple[Case, list[Change]]:
    """Draw a query, and a changelog whose events are those of a stream, right or wrong."""
    case = draw(cases(events_max=6))
    count = len(case.events)
    assume(count > 0)
    ids = st.integers(0, count - 1)
    steps = draw(st.lists(st.tuples(st.sampled_from("cud"), ids, ids), max_size=8))
    ends = [("u", number, number) for number in draw(st.permutations(range(count)))]
    return case, [
        {"op": op, NUMBER: number, **case.events[like]} for op, number, like in [*steps, *ends]
    ]


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(history=histories(), sizes=SIZES)
def test_random_queries_agree_with_the_oracle(
    history: tuple[Case, list[Change]], sizes: list[int]
) -> None:
    case, changes = history
    kinds: dict[str, Any] = {"op": pa.string(), NUMBER: pa.int64()}
    schema = pa.schema(kinds | {name: KINDS[name] for name in case.schema})
    events = pa.schema([field for field in schema if field.name != "op"])
    query = cepheid.query(case.query)
    assume(supported(query.with_schema(events)))
    # Rows of open windows are told anyway, and a row of LIMIT is any (§18.8).
    assume("EMIT EARLY" not in case.query and "LIMIT" not in case.query)
    live = query.live(schema, changes={"op": "op", "id": [NUMBER]})
    table = Table("op", [NUMBER])
    now: dict[object, Change] = {}
    for batch in cut(changes, sizes):
        now = apply_rows(now, live.feed(pa.Table.from_pylist(batch, schema=schema)).to_pylist())
        for change in batch:
            table.apply(change)
        current = table.sorted()
        found = quiet_rows(query, pa.Table.from_pylist(current, schema=events))
        assert same_rows(*(_sorted(rows) for rows in ([*now.values()], found)))
        try:
            known = evaluate(parse(case.query), [_without(e, NUMBER) for e in current])
        except TooMuchEffortError:
            continue
        assert len(known) == len(now)
        if not query.plan.lists_matches:
            assert same_rows(_sorted([*now.values()]), _sorted(known))


def _without(event: dict[str, Any], name: str) -> dict[str, Any]:
    return {own: value for own, value in event.items() if own != name}


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = [_without(row, "match_id") for row in rows]
    return sorted(shown, key=lambda row: repr(sorted((n, _rough(v)) for n, v in row.items())))


def _rough(value: Any) -> str:
    return f"{value + 0.0:.4g}" if isinstance(value, int | float) else repr(value)


def test_who_repairs_and_who_computes_anew() -> None:
    for name, text in MORE.items():
        engine = live_of(cepheid.query(text))._follower.engine
        assert isinstance(engine, Repairs if name in REPAIRED else Recomputes), name


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.booleans()), max_size=9),
        max_size=8,
    ),
    st.integers(1, 4),
)
def test_blocks_hold_their_items_in_order(
    batches: list[list[tuple[int, int, bool]]], size: int
) -> None:
    level, number, there = Level(size), 0, dict[int, tuple[int, int]]()
    nodes = 0
    for batch in batches:
        leave = [item for item in there if any(there[item] == (c, t) for c, t, out in batch if out)]
        come = sorted((c, t) for c, t, out in batch if not out)
        numbers = list(range(number, number + len(come)))
        number += len(come)
        gone = [(*there.pop(item), item) for item in leave]
        there |= dict(zip(numbers, come, strict=True))
        added = [(*one, item) for one, item in zip(come, numbers, strict=True)]
        recut = level.change(_items(gone), _items(added))
        level.put_nodes(recut, np.arange(nodes, nodes + len(recut.starts)))
        nodes += len(recut.starts)
        found = list(zip(*(column.tolist() for column in level.everything()), strict=True))
        known = sorted((*place, item) for item, place in there.items())
        assert sorted(found) == known
        assert [one[:2] for one in found] == [one[:2] for one in known]
        assert (level.node >= 0).all()
        times = [
            set(level.time[b : b + n].tolist())
            for b, n in zip(level.begin, level.length, strict=True)
        ]
        for cell in range(3):
            parts = [t for t, c in zip(times, level.cell, strict=True) if c == cell]
            assert sum(map(len, parts)) == len(set().union(*parts))


def _items(rows: Sequence[tuple[int, ...]]) -> Items:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return Items(*(np.array(column, np.int64) for column in columns))


@pytest.mark.parametrize("name", ["no window", "having"])
def test_deep_trees_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "LEAF_EVENTS", 2)
    monkeypatch.setattr(repair, "FAN", 2)
    draw = np.random.default_rng(7)
    query = cepheid.query(MORE[name])
    live, table = live_of(query), Table("op", ["id"])
    now: dict[object, Change] = {}
    for turn in range(12):
        batch: list[Change] = [
            {
                "op": str(draw.choice(["c", "u", "u", "d"])), "id": int(draw.integers(0, 90)),
                "ts": int(draw.integers(-40, 40)), "type": str(draw.choice(["A", "B", "C", "C"])),
                "key": "p", "zone": "z", "x": int(draw.integers(0, 3)), "price": 1.5,
            }
            for _ in range(30)
        ]  # fmt: skip
        now = apply_rows(now, live.feed(changes_of(batch)).to_pylist())
        for change in batch:
            table.apply(change)
        assert plain(now.values()) == plain(quiet_rows(query, events_of(table.sorted()))), turn
    engine = live._follower.engine
    assert isinstance(engine, Repairs)
    assert len(engine.levels) > 1


def test_rows_tell_what_changed() -> None:
    query = cepheid.query("RETURN key, COUNT(*) PATTERN A+ GROUP-BY key WITHIN 10 us SLIDE 10 us")
    live = live_of(query)
    first = live.feed({"op": "c", "id": 1, "ts": 1, "type": "A", "key": "p"})
    (row,) = pa.Table.from_pylist(first.to_pylist()).to_pylist()
    assert (row["op"], row["count"], row["window_start"]) == ("insert", 1.0, 0)
    again = live.feed([{"op": "c", "id": 2, "ts": 4, "type": "A", "key": "p"}]).to_pylist()
    assert again == [row | {"op": "update", "count": 3.0}]
    moved = live.feed([{"op": "u", "id": i, "ts": 12, "type": "A", "key": "p"} for i in (1, 2)])
    gone, new = moved.to_pylist()
    assert gone == row | {"op": "delete", "count": 3.0}
    assert (new["op"], new["count"], new["window_start"]) == ("insert", 2.0, 10)
    assert live.feed([]).num_rows == 0
    # What comes and goes within a batch is not told.
    change = {"id": 3, "ts": 13, "type": "A", "key": "p"}
    assert live.feed([{"op": "c", **change}, {"op": "d", **change}]).num_rows == 0


def test_bad_odd_and_late_changes_are_counted() -> None:
    live = live_of(cepheid.query(MORE["having"]), watermark="5 us")
    live.feed([{"op": "c", "id": 1, "ts": 100, "type": "A", "key": "p"}])
    rows: list[Change] = [
        {"op": "x", "id": 2, "ts": 100, "type": "A"},
        {"op": "c", "id": None, "ts": 100, "type": "A"},
        {"op": "c", "id": 3, "ts": None, "type": "A"},
        {"op": "d", "id": 9},
        {"op": "c", "id": 1, "ts": 101, "type": "A", "key": "p"},
        {"op": "c", "id": 4, "ts": 94, "type": "A", "key": "p"},
    ]
    live.feed(rows)
    assert (live.bad, live.odd, live.late) == (3, 2, 1)


@pytest.mark.parametrize(
    "text",
    [
        "RETURN A.ts PATTERN A WITHIN 5 us LIMIT 3",
        "RETURN COUNT(*) PATTERN A WITHIN 5 us SLIDE 5 us EMIT EARLY",
        "RETURN COUNT(*) AS op PATTERN A WITHIN 5 us SLIDE 5 us",
        "SELECT x AS row_id FROM Events",
        "SELECT x FROM Events ORDER BY x LIMIT 2",
    ],
)
def test_rows_that_cannot_follow_changes_are_refused(text: str) -> None:
    with pytest.raises(CepheidError, match="E433"):
        live_of(cepheid.query(text))


def test_a_state_belongs_to_its_query() -> None:
    state = live_of(cepheid.query(MORE["having"])).save()
    with pytest.raises(CepheidError, match="E524"):
        live_of(cepheid.query(MORE["no window"]), state=state)
    with pytest.raises(CepheidError, match="E546"):
        live_of(cepheid.query(MORE["having"]), state=state[:-1] + bytes([state[-1] ^ 1]))


def test_many_keys_are_forgotten() -> None:
    query = cepheid.query("RETURN key, COUNT(*) PATTERN A+ GROUP-BY key WITHIN 10 us SLIDE 10 us")
    live = live_of(query, watermark="20 us")
    sizes = []
    for turn in range(40):
        rows = [
            {"op": "c", "id": turn * 50 + n, "ts": turn * 10, "type": "A", "key": f"{turn}-{n}"}
            for n in range(50)
        ]
        assert live.feed(changes_of(rows)).num_rows == 50
        sizes.append(len(live.save()))
    assert max(sizes[20:]) < 2 * max(sizes[5:10])


def test_explain_tells_what_a_change_costs() -> None:
    told = cepheid.query(MORE["aggregates"]).explain(changes=True)
    assert "a tree of matrices for every key and pane" in told
    assert "is known by key, window_start, window_end" in told
    told = cepheid.query(MORE["edges"]).explain(changes=True)
    assert "because the indexed evaluator keeps events" in told
    told = cepheid.query(MORE["situations"]).explain(changes=True)
    assert "before and after, over all events, with its key" in told
    told = cepheid.query(MORE["named like a key"]).explain(changes=True)
    assert "over all events, of every key, which rows do not show" in told
    assert "all of its values" in told


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT key, x FROM Events WHERE x > 0", "one filter"),
        ("RETURN A.ts, B.x PATTERN SEQ(A, B) WHERE [zone] WITHIN 10 us", "two keys"),
        ("RETURN B.x PATTERN SEQ(A, B) WITHIN 10 us", "windows"),
    ],
)
def test_equal_rows_of_different_parts_have_ids_of_their_own(text: str, columns: str) -> None:
    query = cepheid.query(text)
    live = query.live(SCHEMA, changes=BY_ID)
    times = [1, 2, 1, 2] if columns == "two keys" else [1, 2, 101, 102]
    changes = [
        {"op": "c", "id": n, "ts": t, "type": "AB"[n % 2], "key": "p", "zone": "zw"[n // 2], "x": 1}
        for n, t in enumerate(times)
    ]
    now: dict[object, Change] = {}
    for change in [*changes, {"op": "d", "id": 1}]:
        now = apply_rows(now, live.feed([change]).to_pylist())
    left = [change for change in changes if change["id"] != 1]
    assert plain(now.values()) == plain(query.run(events_of(left)).to_pylist())
