"""``q.live``: the rows of a stream in one process are those of a run over all of its events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.architecture.test_matrix import EVENTS, QUERIES
from tests.runtime.cases import same

import cepheid
from cepheid.errors import CepheidError
from cepheid.runtimes import live_query

SECOND = 1_000_000
LIVE = [
    "aggregates of trends",
    "matches",
    "funnel, windows",
    "situations",
    "SELECT, rows",
    "SELECT, windows of time",
    "SELECT, windows of events",
    "pipeline",
    "pipeline, two keys",
]
TREND = cepheid.query(QUERIES["aggregates of trends"])


def mixed(seconds: int) -> pa.Table:
    """Return the events out of order by less than so many seconds."""
    noise = np.random.default_rng(7).random(len(EVENTS)) * seconds * SECOND
    times = np.asarray(EVENTS["ts"].cast(pa.int64()))
    return EVENTS.take(np.argsort(times + noise, kind="stable"))


@pytest.mark.parametrize("name", LIVE)
def test_rows_are_those_of_a_run_with_a_restart_after_every_batch(name: str) -> None:
    q = cepheid.query(QUERIES[name])
    live, events, rows = q.live(EVENTS, watermark="4 seconds"), mixed(4), []
    for begin in range(0, len(events), 7):
        rows += live.feed(events.slice(begin, 7)).to_pylist()
        assert not live.late
        live = q.live(EVENTS.schema, watermark="4 seconds", state=live.save())
    early = len(rows)
    rows += live.close().to_pylist()
    expected = q.run(EVENTS).to_pylist()
    assert expected
    assert same(pa.Table.from_pylist(rows), expected)
    assert early > len(rows) // 2, "rows leave while the stream goes on"


def test_the_end_closes_windows_of_events_that_are_not_full() -> None:
    q = cepheid.query("RETURN COUNT(*) PATTERN A WITHIN 4 EVENTS SLIDE 2 EVENTS")
    events = pa.table({"ts": [1, 2, 3, 4, 5], "type": ["A"] * 5})
    live = q.live(events.schema)
    rows = [*live.feed(events).to_pylist(), *live.close().to_pylist()]
    assert [row["count"] for row in rows] == [4, 3, 1]
    assert rows == q.run(events).to_pylist()
    assert not len(live.close()), "a stream ends once"


@pytest.mark.parametrize("name", LIVE)
def test_rows_leave_as_early_as_if_each_event_were_processed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, events = cepheid.query(QUERIES[name]), mixed(4)

    def fed() -> list[tuple[Any, int, int]]:
        live, found = q.live(EVENTS, watermark="2 seconds"), []
        for place in range(len(events)):
            rows = live.feed(events.slice(place, 1)).to_pylist()
            found.append((rows, live.late, live.waiting))
        return [*found, (live.close().to_pylist(), live.late, live.waiting)]

    gathered = fed()
    monkeypatch.setattr(live_query, "GATHERED_ROWS", 1)
    assert gathered == fed()


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")])
@pytest.mark.parametrize("name", LIVE)
def test_dicts_are_events_like_any_other(
    name: str, kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = EVENTS.set_column(0, "ts", EVENTS["ts"].cast(kind))
    q = cepheid.query(QUERIES[name])
    monkeypatch.setattr(live_query, "SINGLE_ROWS", 5)
    one_by_one, tables = (q.live(events, watermark="2 seconds") for _ in range(2))
    order = np.argsort(np.random.default_rng(3).random(len(events)) * 9 + np.arange(len(events)))
    for place in order:
        event = events.slice(place, 1)
        given = event if place % 6 == 5 else event.to_pylist()[0]  # They may be mixed.
        assert one_by_one.feed(given) == tables.feed(event)
        assert (one_by_one.late, one_by_one.waiting) == (tables.late, tables.waiting)
        if place % 11 == 0:
            one_by_one = q.live(events, watermark="2 seconds", state=one_by_one.save())
            tables.late = 0
    assert one_by_one.close() == tables.close()


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"ts": 2**62, "type": "A"}, "E517"),
        ({"ts": 2**64, "type": "A"}, "E50"),
        ({"ts": None, "type": "A"}, "E506"),
        ({"ts": 1.5, "type": "A"}, "E501"),
        ({"ts": 5, "type": "\ud800"}, "E501"),
        ({"ts": 5, "type": "A", "x": 2**63}, "E501"),
    ],
)
def test_a_dict_is_refused_when_it_comes(event: dict[str, Any], code: str) -> None:
    fields: dict[str, pa.DataType] = {"ts": pa.int64(), "type": pa.string(), "x": pa.int64()}
    schema = pa.schema(fields)
    live = cepheid.query("RETURN COUNT(*) PATTERN A WITHIN 2 us SLIDE 2 us").live(schema)
    live.feed({"ts": 1, "type": "A", "x": None})
    with pytest.raises(CepheidError, match=code):
        live.feed(event)
    live.feed({"type": "A", "ts": 1})
    assert live.feed({"ts": 7, "type": "A", "x": True}).to_pylist()[0]["count"] == 2


def test_late_events_are_dropped_and_counted() -> None:
    live = TREND.live(EVENTS)
    live.feed(EVENTS)
    assert not len(live.feed(EVENTS.slice(0, 9)))
    assert live.late == 9
    assert not len(live.feed([]))
    with pytest.raises(CepheidError, match="E506"):
        live.feed({"ts": None, "type": "A", "k": "p", "x": 1})
    # The latest time may have more events.
    assert live.waiting == 1
    live.feed(EVENTS.slice(len(EVENTS) - 1))
    assert (live.late, live.waiting) == (9, 2)


def test_events_are_converted_to_the_schema_or_refused() -> None:
    fields: dict[str, pa.DataType] = {"ts": pa.int64(), "type": pa.string(), "x": pa.float64()}
    schema = pa.schema(fields)
    live = cepheid.query("RETURN COUNT(*) PATTERN A WHERE A.x > 0.5 WITHIN 2 us").live(schema)
    live.feed({"ts": 1, "type": "A", "x": 1})
    rows = live.feed([{"ts": 2, "type": "A"}, {"ts": 3, "type": "A", "more": "y"}]).to_pylist()
    with pytest.raises(CepheidError, match="E501"):
        live.feed({"ts": 4, "type": "A", "x": "much"})
    with pytest.raises(CepheidError, match=r"E505.*`x`"):
        live.feed(pa.table({"ts": [4], "type": ["A"]}))
    assert [row["count"] for row in [*rows, *live.close().to_pylist()]] == [1]


def test_a_damaged_state_is_refused() -> None:
    live = TREND.live(EVENTS)
    live.feed(EVENTS)
    state = bytearray(live.save())
    state[len(state) // 2] ^= 1
    with pytest.raises(CepheidError, match="E546"):
        TREND.live(EVENTS, state=bytes(state))


def test_a_changed_having_goes_on() -> None:
    live = TREND.live(EVENTS)
    live.feed(EVENTS.slice(0, 30))
    fewer = cepheid.query(f"{TREND.text} HAVING COUNT(*) > 5").live(EVENTS, state=live.save())
    rows = [*live.feed(EVENTS.slice(30)).to_pylist(), *live.close().to_pylist()]
    found = [*fewer.feed(EVENTS.slice(30)).to_pylist(), *fewer.close().to_pylist()]
    assert found == [row for row in rows if row["count"] > 5] != rows


def test_containers_are_those_of_the_events() -> None:
    frame = EVENTS.to_pandas()
    assert type(TREND.live(EVENTS).feed(frame)).__module__.startswith("pandas")


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (QUERIES["aggregates without a window"], {}, "E405"),
        (QUERIES["SELECT, no window"], {}, "E405"),
        (f"{QUERIES['aggregates of trends']} EMIT EARLY", {}, "E404"),
        (QUERIES["matches"], {"watermark": "soon"}, "E590"),
        (QUERIES["matches"], {"watermark": "3 moons"}, "E590"),
        (QUERIES["matches"], {"schema": [1]}, "E592"),
        (QUERIES["matches"], {"state": b"no state"}, "E524"),
        (QUERIES["matches"], {"state": TREND.live(EVENTS).save()}, "E524"),
        (
            TREND.text.replace("SEQ(A+, B)", "SEQ(A, B)"),
            {"state": TREND.live(EVENTS).save()},
            "E524",
        ),
    ],
)
def test_what_is_refused(text: str, options: dict[str, Any], code: str) -> None:
    asked = {"schema": EVENTS.schema, **options}
    with pytest.raises(CepheidError) as caught:
        cepheid.query(text).live(asked.pop("schema"), **asked)
    assert caught.value.diagnostics[0].code == code
