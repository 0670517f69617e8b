"""Lists of sets of matches (§2.10) against the oracle: in steps, in ranges of time, and live."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from tests.engine.comparison import NUMBER, numbered, plain_rows, readable, supported
from tests.runtime.test_stream_state import Live, parts, shuffled

import cepheid
from cepheid.api import CompiledQuery
from cepheid.errors import BindError, DataError, UnsupportedError
from cepheid.kinds.trend.listing import enumerate as enumerate_
from cepheid.kinds.trend.listing import match_sets
from cepheid.runtimes.local import run_table
from cepheid.testing import evaluate
from cepheid.testing.query_strategies import Case, conjunctions
from cepheid.testing.strategies import schemas, streams

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

FEW = settings(max_examples=min(settings().max_examples, 100))  # each runs several times
SECOND = 1_000_000


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a query that lists sets, and a stream."""
    schema = draw(schemas())
    events = draw(streams(schema, events_max=6))
    return Case(draw(conjunctions(schema, listed=True)), schema, events)


def compiled(case: Case) -> tuple[CompiledQuery, pa.Table]:
    assume(case.events)
    table = numbered(case.events)
    try:
        query = cepheid.query(case.query, schema={**case.schema, NUMBER: "bigint"})
    except BindError as error:
        if error.diagnostics[0].code != "E314":
            raise
        reject()  # Many deadlines beside one variable are too many.
    assume(supported(query))
    return query, table


@FEW
@given(cases(), st.integers(1, 3))
def test_random_queries_list_the_sets_of_the_oracle(case: Case, rows: int) -> None:
    query, table = compiled(case)
    expected = readable(evaluate(query.tree, case.events))
    for size in (rows, 100):
        assert readable(run_table(query.plan, table, batch_rows=size).to_pylist()) == expected


@FEW
@given(cases(), st.integers(1, 4))
def test_sets_do_not_depend_on_how_many_are_built_at_a_time(case: Case, room: int) -> None:
    """Portions of matches, blocks of leaders and shares of sets are as small as can be."""
    query, table = compiled(case)
    expected = plain_rows(run_table(query.plan, table).to_pylist())
    with (
        patch.object(enumerate_, "MATCHES_ROOM", room),
        patch.object(match_sets, "MATCHES_ROOM", room),
        patch.object(match_sets, "BINDINGS_ROOM", room),
    ):
        assert plain_rows(run_table(query.plan, table).to_pylist()) == expected


def unordered(rows: list[dict[str, Any]]) -> Counter[str]:
    """Return rows whose matches have no order: events of one time may arrive in another one."""
    found = []
    for row in rows:
        matches: dict[int, list[tuple[str, int]]] = {}
        for event in row["events"]:
            matches.setdefault(event["match"], []).append((event["variable"], event[NUMBER]))
        found.append(row | {"events": sorted(matches.values())})
    return readable(found)


@FEW
@given(cases(), st.integers(0, 1000))
def test_live_streams_list_the_sets_of_a_run(case: Case, seed: int) -> None:
    query, table = compiled(case)
    delay = (0, SECOND, 4 * SECOND)[seed % 3]
    try:
        live = Live(query, table.schema, delay=delay)
    except UnsupportedError:
        return
    mixed = shuffled(table, 0 if live.plan.orders_ties else delay, seed)
    for part in parts(mixed, 1 + seed % 4):
        live.feed(part)
    live.finish()
    assert unordered(live.rows) == unordered(run_table(live.plan, table).to_pylist())


def stream(count: int) -> pa.Table:
    return pa.table({"ts": range(count), "type": ["A", "B"] * (count // 2)})


def test_rows_come_in_the_order_of_last_events_and_limit_stops() -> None:
    text = "RETURN MATCHES PATTERN A AND SEQ(A, B) AND B WITHIN 6 us SLIDE 2 us"
    rows: list[dict[str, Any]] = cepheid.query(text).run(stream(12)).to_pylist()
    assert len(rows) > 10
    assert [row["match_id"] for row in rows] == list(range(1, len(rows) + 1))
    ends = [row["events"][-1]["ts"] for row in rows]
    assert ends == sorted(ends)
    assert ends == [max(e["ts"] for e in row["events"]) for row in rows]
    assert cepheid.query(f"{text} LIMIT 7").run(stream(12)).to_pylist() == rows[:7]


def test_limit_stops_before_all_matches_are_built() -> None:
    """There are 2^50 matches of ``A+``; only those of the first events are built."""
    table = cepheid.query("RETURN MATCHES PATTERN A+ AND B LIMIT 3").run(stream(100))
    assert [[e["ts"] for e in row["events"]] for row in table.to_pylist()] == [
        [0, 1], [1, 2], [1, 0, 2],
    ]  # fmt: skip


@pytest.mark.parametrize("limit", [{"rows": 1000}, {"state": 100_000}])
@pytest.mark.filterwarnings("ignore:no event has the type:UserWarning")
def test_more_matches_than_the_limit_are_refused(limit: dict[str, int]) -> None:
    """No C ends a set, so nothing leaves while matches of ``A+`` pile up."""
    query = cepheid.query("RETURN MATCHES PATTERN A+ AND C")
    with cepheid.limits(**limit), pytest.raises(DataError) as caught:
        query.run(stream(60))
    assert caught.value.diagnostics[0].code == "E512"


def test_matches_of_windows_that_have_passed_are_forgotten() -> None:
    query = cepheid.query("RETURN COUNT(*) PATTERN A AND B WITHIN 4 us SLIDE 4 us")
    count = sum(row["count"] for row in query.run(stream(4000)).to_pylist())
    listed = cepheid.query("RETURN MATCHES PATTERN A AND B WITHIN 4 us SLIDE 4 us")
    with cepheid.limits(state=64 * 200), patch.object(enumerate_, "MATCHES_ROOM", 50):
        assert sum(map(len, listed.matches(stream(4000)))) == count


def test_sets_of_patterns_that_find_nothing_cost_little() -> None:
    """Four patterns of which two have no match: the ways to choose the others are not tried."""
    query = cepheid.query("RETURN MATCHES PATTERN A AND B AND C AND D")
    with pytest.warns(UserWarning, match="W206"):
        assert len(query.run(stream(20_000))) == 0


@pytest.mark.parametrize("rest", ["", "WITHIN 9 us", "WITHIN 9 us SLIDE 3 us"])
def test_matches_of_other_vehicles_are_in_the_sets_of_a_window(rest: str) -> None:
    """A partition of §4.3 has its own first row; the window of a set has an earlier one."""
    text = f"RETURN MATCHES PATTERN A a AND SEQ(A a, B) WHERE [a.v] {rest}"
    events = [
        {"ts": n, "type": kind, "v": v}
        for n, (kind, v) in enumerate([("A", 1), ("A", 2), ("B", 3)])
    ]
    rows = cepheid.query(text).run(pa.Table.from_pylist(events)).to_pylist()
    found = sorted([(e["ts"], e["match"]) for e in row["events"]] for row in rows)
    ends = [[(0, 2), (2, 2)], [(1, 2), (2, 2)]]
    assert found == [[(first, 1), *end] for first in (0, 1) for end in ends]


def test_a_live_query_of_sets_needs_a_window() -> None:
    """A set of two single events has no largest distance between them."""
    query = cepheid.query("RETURN MATCHES PATTERN A AND B")
    with pytest.raises(UnsupportedError) as caught:
        Live(query, stream(2).schema, delay=0)
    assert caught.value.diagnostics[0].code == "E405"


PAIRS = "RETURN MATCHES PATTERN SEQ(A, B) AND A WITHIN 6 us SLIDE 2 us"


def test_a_live_query_in_process_lists_the_sets_of_a_run() -> None:
    query, table = cepheid.query(PAIRS), stream(20)
    expected = query.run(table).to_pylist()
    assert len(expected) > 20
    live = query.live(table.schema)
    rows = [
        row for begin in range(0, 20, 3) for row in live.feed(table.slice(begin, 3)).to_pylist()
    ]
    rows += live.close().to_pylist()
    assert rows == expected


def test_a_pipeline_reads_sets_at_the_time_of_their_last_events() -> None:
    counted = "SELECT COUNT(*) AS sets FROM pairs WINDOW 4 us"
    rows = cepheid.query(f"CREATE STREAM pairs AS {PAIRS}; {counted}").run(stream(20)).to_pylist()
    ends = Counter(
        max(event["ts"] for event in row["events"]) // 4 * 4
        for row in cepheid.query(PAIRS).run(stream(20)).to_pylist()
    )
    assert {row["window_start"]: row["sets"] for row in rows} == ends


def test_a_workload_and_a_sweep_list_sets_beside_other_queries() -> None:
    expected = cepheid.query(PAIRS).run(stream(20)).to_pylist()
    counted = "RETURN COUNT(*) PATTERN A AND B WITHIN 6 us SLIDE 2 us"
    together = cepheid.workload({"pairs": PAIRS, "count": counted}).run(stream(20)).to_pylist()
    mine = [row for row in together if row["query"] == "pairs"]
    assert [row["events"] for row in mine] == [row["events"] for row in expected]
    swept = PAIRS.replace("WITHIN", "WHERE B.ts < SWEEP(7, 100) WITHIN")
    rows = cepheid.query(swept).run(stream(20)).to_pylist()
    assert sum(100 in row.values() for row in rows) == len(expected)
    assert 0 < sum(7 in row.values() for row in rows) < len(expected)


def test_a_column_of_the_events_may_be_called_match() -> None:
    table = stream(4).append_column("match", pa.array(list("wxyz")))
    events = cepheid.query(PAIRS).run(table).to_pylist()[0]["events"]
    assert [(e["match"], e["event_match"]) for e in events] == [(1, "w"), (2, "w"), (2, "x")]
