"""Which changes of a live query go on with its state, and what is said about the others.

A query that goes on gives the rows that it would have given from the start, for windows that close
after the change.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.engine.comparison import table_of

import cepheid
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.work import Work
from cepheid.kinds.trend.live_by_panes import LiveByPanes, rows_of_panes
from cepheid.spark.schema import result_schema_of
from cepheid.testing.harness import stream

EVENTS = table_of(
    stream(
        "a1(key='p', price=1, size=5) b2(key='q', price=2, size=1) a3(key='p', price=4, size=2) "
        "b4(key='p', price=3, size=7) a5(key='q', price=1, size=4) b6(key='q', price=9, size=2) "
        "a7(key='p', price=6, size=1) b8(key='p', price=2, size=3) b11(key='q', price=2, size=3)"
    )
)
FAR = 2**50
CUT = 4
"""So many events come before the change."""

BASE = (
    "RETURN key, COUNT(*), SUM(A.price), MAX(B.size) PATTERN SEQ(A+, B) WHERE A.price > 0 "
    "GROUP-BY key WITHIN 8 s SLIDE 2 s"
)
GOES_ON = {
    "HAVING": BASE + " HAVING COUNT(*) > 1",
    "another HAVING of held values": BASE + " HAVING SUM(A.price) > 3 AND MAX(B.size) < 9",
    "the order of RETURN": BASE.replace("COUNT(*), SUM(A.price)", "SUM(A.price), COUNT(*)"),
    "an average of what is summed": BASE.replace("SUM(A.price)", "AVG(A.price)"),
    "fewer values": BASE.replace(", MAX(B.size)", ""),
    "values whose column is read no more": BASE.replace(", SUM(A.price), MAX(B.size)", ""),
    "layout and comments": BASE.replace(" WHERE", "\n  -- prices\n  WHERE"),
}
REFUSED = {
    "PATTERN": (BASE.replace("SEQ(A+, B)", "SEQ(A, B)"), "PATTERN differs"),
    "WHERE": (BASE.replace("A.price > 0", "A.price > 1"), "WHERE differs"),
    "GROUP-BY": (
        BASE.replace("RETURN key, ", "RETURN ").replace("GROUP-BY key ", ""),
        "GROUP-BY or an equivalence differs",
    ),
    "SLIDE": (BASE.replace("SLIDE 2 s", "SLIDE 4 s"), "WITHIN, SLIDE or EMIT differs"),
    "a new value": (
        BASE.replace("COUNT(*)", "COUNT(*), MIN(A.price)"),
        "the query needs `MIN(A.price)`, which the state does not hold",
    ),
    "a new column": (
        BASE.replace("COUNT(*)", "COUNT(*), SUM(A.size)"),
        "the query needs `SUM(A.size)`, which the state does not hold",
    ),
    "matches": (
        "RETURN MATCHES PATTERN SEQ(A+, B) WHERE A.price > 0 AND [key] WITHIN 8 s SLIDE 2 s",
        "differs",
    ),
    "NUMBERS": (BASE.replace("SUM(A.price), ", "") + " NUMBERS exact", "NUMBERS differs"),
}


def work_of(text: str, events: pa.Table = EVENTS, delay: int = 1_000_000) -> Work:
    plan = cepheid.query(text).with_schema(events.schema).plan
    names = plan.columns if plan.columns is not None else events.schema.names
    schema = pa.schema([events.schema.field(name) for name in names])
    return Work.of(plan, schema, result_schema_of(plan, schema), 1, delay=delay)


def go(work: Work, data: bytes | None, events: pa.Table, latest: int) -> tuple[bytes, pa.Table]:
    arrived = [events.select(work.schema.names)] if len(events) else []
    saved, outcome = turn(live_job(work), work, data, arrived, latest)
    return saved, outcome.results


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


def changed(old: str, new: str, now: pa.Table = EVENTS) -> tuple[list[Any], list[Any]]:
    """Return the rows after a change, and those of the new query from the start."""
    first, later = EVENTS.slice(0, CUT), now.slice(CUT)
    data, _ = go(work_of(old), None, first, 4_000_000)
    fresh = work_of(new, now)
    data, found = go(fresh, data, later, FAR)
    before, _ = go(fresh, None, now.slice(0, CUT), 4_000_000)
    _, expected = go(fresh, before, later, FAR)
    assert data
    return rows(found), rows(expected)


@pytest.mark.parametrize("change", GOES_ON)
def test_a_change_that_goes_on(change: str) -> None:
    found, expected = changed(BASE, GOES_ON[change])
    assert found == expected
    assert len(found) > 2


@pytest.mark.parametrize("change", REFUSED)
def test_a_change_that_is_refused_says_which_part_differs(change: str) -> None:
    text, sentence = REFUSED[change]
    data, _ = go(work_of(BASE), None, EVENTS.slice(0, CUT), 4_000_000)
    with pytest.raises(cepheid.DataError) as caught:
        go(work_of(text), data, EVENTS.slice(CUT), FAR)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E524"
    assert diagnostic.message.endswith(sentence)


def test_a_value_that_was_left_out_does_not_come_back() -> None:
    data, _ = go(work_of(BASE), None, EVENTS.slice(0, CUT), 4_000_000)
    less = work_of(GOES_ON["values whose column is read no more"])
    data, _ = go(less, data, EVENTS.slice(CUT, 2), 6_000_000)
    data, _ = go(less, data, EVENTS.slice(0, 0), 6_000_000)
    with pytest.raises(cepheid.DataError, match="the column `size`, which the state does not"):
        go(work_of(BASE), data, EVENTS.slice(CUT + 2), FAR)


def test_a_value_whose_column_is_still_read_does_come_back() -> None:
    data, _ = go(work_of(BASE), None, EVENTS.slice(0, CUT), 4_000_000)
    less = work_of(BASE.replace(", SUM(A.price)", ""))
    data, _ = go(less, data, EVENTS.slice(CUT, 2), 6_000_000)
    _, found = go(work_of(BASE), data, EVENTS.slice(CUT + 2), FAR)
    same = work_of(BASE)
    data, _ = go(same, None, EVENTS.slice(0, CUT), 4_000_000)
    data, _ = go(same, data, EVENTS.slice(CUT, 2), 6_000_000)
    _, expected = go(same, data, EVENTS.slice(CUT + 2), FAR)
    assert rows(found) == rows(expected)


MATCHES = "RETURN MATCHES PATTERN SEQ(A, B) WHERE [key] WITHIN 8 s SLIDE 8 s"


def test_whole_events_get_an_added_column() -> None:
    more = EVENTS.append_column("venue", pa.array(["x"] * len(EVENTS)))
    data, _ = go(work_of(MATCHES), None, EVENTS.slice(0, CUT), 3_000_000)
    data, found = go(work_of(MATCHES, more), data, more.slice(CUT), 20_000_000)
    events = [event for row in found.to_pylist() for event in row["events"]]
    assert {event["venue"] for event in events} == {None, "x"}
    with pytest.raises(cepheid.DataError, match="no column `venue` any more"):
        go(work_of(MATCHES), data, EVENTS.slice(0, 0), FAR)


PANES = "RETURN COUNT(*), SUM(A.price) PATTERN SEQ(A+, B) WITHIN 8 s SLIDE 2 s"


@pytest.mark.parametrize(
    "new",
    [
        PANES + " HAVING COUNT(*) > 1",
        PANES.replace(", SUM(A.price)", ""),
        PANES.replace("SUM", "AVG"),
    ],
)
def test_panes_go_on(new: str) -> None:
    def run(work: Work, data: bytes | None, events: pa.Table, latest: int) -> Any:
        arrived = [events.select(work.schema.names)] if len(events) else []
        saved, outcome = turn(LiveByPanes.of(work), work, data, arrived, latest)
        closed = outcome.results
        return saved, rows_of_panes(work, [closed]) if len(closed) else None

    first, later = EVENTS.slice(0, CUT), EVENTS.slice(CUT)
    data, _ = run(work_of(PANES), None, first, 4_000_000)
    _, found = run(work_of(new), data, later, FAR)
    before, _ = run(work_of(new), None, first, 4_000_000)
    _, expected = run(work_of(new), before, later, FAR)
    assert rows(found) == rows(expected)
    assert len(found)


SITUATIONS = "PARTITION BY key DEFINE X AS price > 1 SITUATIONS X"
COUNTED = "SELECT key, SUM(price) AS total FROM s GROUP BY key WINDOW 3 EVENTS"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (COUNTED, COUNTED.replace("total", "sum"), ""),
        (COUNTED, COUNTED.replace("SUM", "MAX"), "another SELECT: an aggregate differs"),
        (COUNTED, COUNTED.replace("3 EVENTS", "4 EVENTS"), "another SELECT: WINDOW differs"),
        (COUNTED, COUNTED.replace("FROM s", "FROM s WHERE price > 1"), "WHERE or ON differs"),
        (SITUATIONS, SITUATIONS.replace("PARTITION BY key", "  PARTITION BY key"), ""),
        (SITUATIONS, SITUATIONS.replace("> 1", "> 2"), "about situations: DEFINE differs"),
    ],
)
def test_other_kinds(old: str, new: str, sentence: str) -> None:
    data, _ = go(work_of(old), None, EVENTS.slice(0, CUT), 4_000_000)
    if sentence:
        with pytest.raises(cepheid.DataError) as caught:
            go(work_of(new), data, EVENTS.slice(CUT), FAR)
        assert caught.value.diagnostics[0].message.endswith(sentence)
    else:
        found, expected = changed(old, new)
        assert found == expected
        assert found


FEEDS = (
    "CREATE STREAM Sums AS SELECT key, SUM(price) AS total FROM s GROUP BY key WINDOW 2 s; "
    "RETURN key, COUNT(*), SUM(m.total) PATTERN Sums m+ GROUP-BY key WITHIN 8 s SLIDE 2 s"
)
TRENDS = (
    "CREATE STREAM Pairs AS RETURN key, COUNT(*) AS n PATTERN SEQ(A, B) GROUP-BY key "
    "WITHIN 4 s SLIDE 2 s; SELECT key, n FROM Pairs WHERE n > 0"
)
ROWS = "CREATE STREAM Rows AS SELECT key, price + 1 AS p FROM s; SELECT key, p FROM Rows"
STAGES: list[tuple[str, str, str]] = [
    # What feeds a stage is in its state, whatever the state of the stage before it holds.
    (
        FEEDS,
        FEEDS.replace("BY key WINDOW", "BY key HAVING SUM(price) > 2 WINDOW"),
        "HAVING of `Sums`",
    ),
    (FEEDS, FEEDS.replace("SUM(price) AS", "SUM(price) + 1 AS"), "HAVING of `Sums`"),
    (TRENDS, TRENDS.replace("SLIDE 2 s;", "SLIDE 2 s HAVING COUNT(*) > 1;"), "HAVING of `Pairs`"),
    (ROWS, ROWS.replace("+ 1", "+ 2"), "HAVING of `Rows`"),
    (ROWS, ROWS.replace("FROM s", "FROM s WHERE price > 1"), "WHERE or ON of `Rows`"),
    (FEEDS, FEEDS.replace("WITHIN 8 s", "WITHIN 6 s"), "WITHIN, SLIDE or EMIT"),
    (FEEDS, FEEDS.replace("SUM(m.total)", "MIN(m.total)"), "needs `MIN(m.total)`, which"),
    # The last query changes as one that stands alone.
    (FEEDS, FEEDS + " HAVING COUNT(*) > 1", ""),
    (FEEDS, FEEDS.replace("SUM(m.total)", "AVG(m.total)"), ""),
    (FEEDS, FEEDS.replace("COUNT(*), SUM(m.total)", "SUM(m.total) AS all"), ""),
    (FEEDS, FEEDS.replace("GROUP BY key", "-- every shop\n  GROUP BY key"), ""),
    (TRENDS, TRENDS.replace("PATTERN", "\n PATTERN"), ""),
    (ROWS, ROWS.replace("; SELECT key, p", "; SELECT key, p * 2 AS q"), ""),
]


@pytest.mark.parametrize(("old", "new", "sentence"), STAGES)
def test_stages_of_pipelines(old: str, new: str, sentence: str) -> None:
    data, _ = go(work_of(old), None, EVENTS.slice(0, CUT), 4_000_000)
    if sentence:
        with pytest.raises(cepheid.DataError) as caught:
            go(work_of(new), data, EVENTS.slice(CUT), FAR)
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.code == "E524"
        assert sentence in diagnostic.message
    else:
        found, expected = changed(old, new)
        assert found == expected
        assert found


def test_a_live_pipeline_in_process_notices_a_changed_stage() -> None:
    live = cepheid.query(FEEDS).live(EVENTS.schema)
    live.feed(EVENTS.slice(0, CUT))
    state = live.save()
    cepheid.query(FEEDS + " HAVING COUNT(*) > 1").live(EVENTS.schema, state=state)
    changed_ = FEEDS.replace("GROUP BY key", "GROUP BY key HAVING SUM(price) > 2")
    with pytest.raises(cepheid.DataError, match="HAVING of `Sums` differs"):
        cepheid.query(changed_).live(EVENTS.schema, state=state)
