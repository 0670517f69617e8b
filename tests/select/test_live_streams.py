"""Live joins of several streams in one process: whatever comes when, the rows of a batch run."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.select.cases import joined_aggregations, joins, many_joins, rows, table_of, unordered
from tests.select.test_counted_turn import COLUMNS, ORIGINS, cut, stretched
from tests.select.test_join_turn import mixed

import cepheid
from cepheid.errors import DataError, UnsupportedError
from cepheid.options import OptionError
from cepheid.plans.plan import SelectPlan
from cepheid.testing.oracle_select import evaluate_select

Events = list[dict[str, Any]]
NAMES = ("s", "r", "t")
TEXT = """SELECT a.x, b.x AS y, c.x AS z
FROM s a JOIN r b ON a.k = b.k JOIN t c ON c.k = b.k WINDOW 2 ms"""


def of_three(text: str) -> str:
    """Give the third stream of a join a name of its own, and windows that fit stretched times."""
    return text.replace("JOIN s c", "JOIN t c").replace(" us", " ms")


def streams_in(text: str) -> list[str]:
    return list(dict.fromkeys(SelectPlan.of(cepheid.query(text).plan).streams))


@given(
    many_joins()
    | many_joins(aggregated=True)
    | joined_aggregations()
    | joins()
    | joins(counted=True),
    st.lists(rows(7), min_size=3, max_size=3),
    st.data(),
    ORIGINS,
    st.sampled_from(["restarts", "goes on"]),
)
def test_any_batches_and_restarts_give_the_rows_of_a_batch_run(
    text: str, drawn: list[Events], data: st.DataObject, origin: int, how: str
) -> None:
    text = of_three(text)
    query, names = cepheid.query(text), streams_in(text)
    events = {name: stretched(one, origin) for name, one in zip(NAMES, drawn, strict=True)}
    events = {name: events[name] for name in names}
    schemas = dict.fromkeys(names, COLUMNS)
    if SelectPlan.of(query.plan).select.then is not None and "WINDOW" not in text:
        with pytest.raises(UnsupportedError, match="E405"):
            query.live(schemas)
        return
    # The streams are cut each on its own, so one may be far behind the others.
    parts = [cut(data, mixed(data, events[name])) for name in names]
    none: Events = []
    live, found = query.live(schemas, watermark="3 ms"), []
    for batch in zip_longest(*parts, fillvalue=none):
        given_ = {name: table_of(part) for name, part in zip(names, batch, strict=True) if part}
        found += live.feed(given_).to_pylist()
        assert live.late == 0
        if how == "restarts":
            live = query.live(schemas, watermark="3 ms", state=live.save())
    found += live.close().to_pylist()
    assert unordered(found) == unordered(evaluate_select(text, events))
    assert live.waiting == 0


def test_rows_wait_for_the_stream_that_is_furthest_behind() -> None:
    """Time in ms; all streams have the key a.

    ```
    s  1     5        5 is known to be there when every stream has passed it
    r     2     6
    t        3     9
    ```
    """
    live = cepheid.query(TEXT).live(dict.fromkeys(NAMES, COLUMNS))

    def feed(**times: int) -> list[tuple[Any, ...]]:
        one = {n: table_of([{"ts": t * 1000, "k": "a", "x": t}]) for n, t in times.items()}
        return [tuple(row.values()) for row in live.feed(one).to_pylist()]

    assert feed(s=1) == []
    assert feed(s=5, r=2) == []
    assert live.waiting == 3
    assert feed(t=2) == []  # The watermark is at 2 ms: later events of this time may come.
    assert feed(r=6) == []
    assert feed(t=9) == [(1, 2, 2)]
    assert feed(s=4) == []
    assert live.late == 1
    assert live.close().num_rows == 0


def test_three_streams_of_two_names_and_other_columns() -> None:
    text = """SELECT o.id, p.sum, s.day FROM orders o WITHIN 3 ms JOIN paid p WITHIN 1 ms
        ON o.id = p.id JOIN sent s WITHIN 1 ms ON s.id = o.id AND s.day > 0"""
    q = cepheid.query(text)
    orders = pa.table({"ts": [1000, 2000], "id": [1, 2]})
    paid = pa.table({"ts": [2000, 3000], "id": [1, 2], "sum": [9.5, 7.0]})
    sent = pa.table({"id": [1, 2], "ts": [2000, 3000], "day": [4, 0]})
    tables = {"orders": orders, "paid": paid, "sent": sent}
    live = q.live({name: table.schema for name, table in tables.items()})
    found = [*live.feed(tables).to_pylist(), *live.close().to_pylist()]
    assert found == q.run(tables).to_pylist() == [{"id": 1, "sum": 9.5, "day": 4}]


def test_a_stream_that_is_joined_with_itself_needs_no_name() -> None:
    q = cepheid.query("SELECT a.x, b.x AS y FROM s a JOIN s b ON a.x < b.x WINDOW 3 ms")
    events = [{"ts": 1000 * n, "x": n} for n in range(6)]
    live = q.live(COLUMNS)
    found = [row for one in events for row in live.feed(one).to_pylist()]
    live = q.live({"s": COLUMNS}, state=live.save())
    found += [*live.feed({"s": table_of([])}).to_pylist(), *live.close().to_pylist()]
    assert unordered(found) == unordered(q.run(table_of(events)).to_pylist())


@given(rows(20), st.integers(1, 6))
def test_a_stage_joins_three_streams(events: Events, count: int) -> None:
    """A pipeline reads one stream, and its joins meet in it what earlier stages derive."""
    parts = {"low": "x < 1", "middle": "x = 1", "high": "x > 1"}
    stages = [f"CREATE STREAM {n} AS SELECT ts, k, x FROM s WHERE {c};" for n, c in parts.items()]
    join = """SELECT a.x, b.k, c.x AS z FROM low a WITHIN 4 us JOIN middle b WITHIN 3 us
        ON a.k = b.k JOIN high c WITHIN 2 us ON c.ts >= b.ts"""
    q, table = cepheid.query(" ".join([*stages, join])), table_of(events)
    live, found = q.live(table.schema), []
    for begin in range(0, len(table), count):
        found += live.feed(table.slice(begin, count)).to_pylist()
        live = q.live(table.schema, state=live.save())
    found += live.close().to_pylist()
    streams = {
        n: evaluate_select(f"SELECT * FROM s WHERE {c}", {"s": events}) for n, c in parts.items()
    }
    assert unordered(found) == unordered(evaluate_select(join, streams))


def test_rows_have_the_form_of_the_events() -> None:
    live = cepheid.query("SELECT a.ts FROM s a JOIN r b ON a.ts = b.ts WINDOW 1 ms").live(
        {"s": pa.schema({"ts": pa.int64()}), "r": pa.schema({"ts": pa.int64()})}
    )
    frame = table_of([{"ts": 1000}]).select(["ts"]).to_pandas()
    assert type(live.feed({"s": frame, "r": frame})).__module__.startswith("pandas")
    assert live.feed({"s": {"ts": 5000}, "r": [{"ts": 5000}]}).num_rows == 1


def test_what_a_live_join_refuses() -> None:
    q = cepheid.query(TEXT)
    with pytest.raises(DataError, match="E561"):
        q.live(COLUMNS)
    with pytest.raises(DataError, match="E561"):
        q.live({"s": COLUMNS, "r": COLUMNS})
    live = q.live(dict.fromkeys(NAMES, COLUMNS))
    with pytest.raises(OptionError, match="reads no stream `u`"):
        live.feed({"u": table_of([])})
    with pytest.raises(OptionError, match="are a dict"):
        live.feed(table_of([]))
    other = cepheid.query(TEXT.replace("2 ms", "3 ms"))
    with pytest.raises(DataError, match="E524"):
        other.live(dict.fromkeys(NAMES, COLUMNS), state=live.save())
    nine = [f"JOIN s{n} a{n} ON a{n}.k = a.k" for n in range(8)]
    many = cepheid.query(f"SELECT a.x FROM s a {' '.join(nine)} WINDOW 1 ms")
    with pytest.raises(UnsupportedError, match=r"E405.*8 different streams"):
        many.live(dict.fromkeys(["s", *(f"s{n}" for n in range(8))], COLUMNS))
    with pytest.raises(UnsupportedError, match="E405"):
        cepheid.query(f"{TEXT} LIMIT 3").live(dict.fromkeys(NAMES, COLUMNS))
