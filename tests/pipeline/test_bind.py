"""What a pipeline refuses and what its plan says, where streams meet."""

from __future__ import annotations

import pyarrow as pa
import pytest

import cepheid
from cepheid.errors import BindError
from cepheid.language.formatter import format_text

SCHEMA = {"ts": "timestamp", "type": "string", "speed": "double", "k": "string"}
NAMED = "CREATE STREAM Fast AS SELECT k, type AS speed FROM cars WHERE speed > 70;"


def test_a_column_of_two_types_matters_only_where_it_is_read() -> None:
    events = pa.table(
        {
            "ts": pa.array([1, 2, 3], pa.timestamp("us")),
            "type": ["Car", "Truck", "Car"],
            "speed": [80.0, 10.0, 20.0],
            "k": ["p", "p", "q"],
        }
    )
    pattern = "RETURN COUNT(*) PATTERN SEQ(Fast f, Car c)"
    # Fast is at 1; the Car at 3 follows it.
    assert cepheid.query(f"{NAMED} {pattern}").run(events)["count"].to_pylist() == [1]
    assert cepheid.query(f"{NAMED} {pattern} WHERE [k]", schema=SCHEMA).run(events).num_rows == 0
    for reading in (f"{pattern} WHERE c.speed > 3", "RETURN MATCHES PATTERN SEQ(Fast f, Car c)"):
        with pytest.raises(BindError, match="E355"):
            cepheid.query(f"{NAMED} {reading}").run(events)
        with pytest.raises(BindError, match="E355"):
            cepheid.query(f"{NAMED} {reading}", schema=SCHEMA)


def test_a_deadline_moves_the_time_of_derived_events() -> None:
    unpaid = "SEQ(Order o, NOT Payment p WITHIN 30 minutes)"
    text = f"""
        CREATE STREAM Unpaid AS RETURN MATCHES PATTERN {unpaid} WHERE [k];
        CREATE STREAM Hour AS RETURN k, COUNT(*) AS n PATTERN {unpaid} WHERE [k] GROUP-BY k
            WITHIN 1 hour SLIDE 1 hour;
        RETURN COUNT(*) PATTERN SEQ(Unpaid u, Hour h)"""
    told = cepheid.query(text).explain()
    assert "an event for every row, at 30 minutes after its last event" in told
    assert "an event for every row, at 30 minutes after `window_end`" in told
    assert "at 30 minutes after its last event" in cepheid.query(text).explain(format="mermaid")


ROWS = """CREATE STREAM Dip AS SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
    MEASURES {} AS low PATTERN ({}) {} DEFINE B AS speed < PREV(speed));
    RETURN k, COUNT(*), MIN(d.low) PATTERN Dip d+ GROUP-BY k WITHIN 1 hour SLIDE 1 hour"""
WITHIN = "WITHIN INTERVAL '10' SECOND"


@pytest.mark.parametrize(
    ("measure", "pattern", "within", "code", "sentence"),
    [
        ("B.speed", "A B", "", "E412", "without `WITHIN`, a match may wait for rows"),
        ("NEXT(B.speed)", "A B", WITHIN, "E415", "NEXT looks at a row behind"),
        ("B.speed", "^ A B", WITHIN, "E415", "`^` is the first row of a key"),
        ("MATCH_NUMBER()", "A B", WITHIN, "E415", "MATCH_NUMBER"),
        ("B.sped", "A B", WITHIN, "E603", "no column `sped`"),
    ],
)
def test_row_patterns_that_feed_no_stream(
    measure: str, pattern: str, within: str, code: str, sentence: str
) -> None:
    text = ROWS.format(measure, pattern, within)
    with pytest.raises(cepheid.CepheidError, match=code) as caught:
        cepheid.query(text, schema=SCHEMA)
    (told,) = caught.value.diagnostics
    assert sentence in str(told)
    assert told.span is not None
    shown = text[told.span.start : told.span.end]
    assert shown == ("Dip" if code.startswith("E4") else "B.sped")
    assert "CREATE STREAM Dip" in str(caught.value) or code == "E603"


def test_row_patterns_say_when_their_events_are() -> None:
    text = ROWS.format("LAST(B.speed)", "A B+", WITHIN)
    one = cepheid.query(text, schema=SCHEMA).explain()
    assert "at the last row of its match, up to WITHIN later than events" in one
    assert "every stage has the key k" in one
    every = text.replace("PATTERN (A", "ALL ROWS PER MATCH PATTERN (A")
    assert "at its row, up to WITHIN later than events" in cepheid.query(every).explain()
    drawn = cepheid.query(text).explain(format="mermaid")
    assert 's1 -->|"at the last row of its match' in drawn


def test_an_empty_match_is_at_the_row_where_it_begins() -> None:
    """A star may take no row: rows 2 and 3 begin a match of none.

    time   1    2    3    4
    x      5    0    0    7
           A              A
    """
    events = pa.table({"ts": [1, 2, 3, 4], "x": [5, 0, 0, 7]})
    rows = """CREATE STREAM R AS SELECT n FROM s MATCH_RECOGNIZE (ORDER BY ts
        MEASURES COUNT(*) AS n PATTERN (A*) WITHIN 9 DEFINE A AS x > 1);
        SELECT ts, n FROM R"""
    query = cepheid.query(rows, type=None)
    expected = [(1, 1), (2, 0), (3, 0), (4, 1)]
    assert [(row["ts"], row["n"]) for row in query.run(events).to_pylist()] == expected
    live = query.live(events.schema)
    found = [live.feed(events), live.close()]
    assert [(row["ts"], row["n"]) for part in found for row in part.to_pylist()] == expected


def test_what_reads_a_row_pattern_lags_behind_by_within() -> None:
    """A match that is certain early leaves in the order of time, among base events (§15.6)."""
    text = """CREATE STREAM Rise AS SELECT v FROM s MATCH_RECOGNIZE (ORDER BY ts
        MEASURES B.x AS v PATTERN (A B) WITHIN 10 DEFINE B AS x > A.x);
        RETURN r.v AS v, e.x AS x PATTERN SEQ(Rise r, E e) WITHIN 4 us"""
    types = pa.array(["E"] * 4)
    events = pa.table({"ts": [1, 2, 3, 20], "type": types, "x": [1, 5, 2, 1]})
    live = cepheid.query(text).live(events.schema)
    assert live.feed(events.slice(0, 3)).num_rows == 0
    # The watermark is 20, so events before 10 and a tick are there for the last query.
    expected = [{"v": 5, "x": 2}]
    found = live.feed(events.slice(3)).to_pylist()
    assert [{"v": row["v"], "x": row["x"]} for row in found] == expected
    assert cepheid.query(text).run(events).select(["v", "x"]).to_pylist() == expected


def test_a_comment_inside_a_row_pattern_stays_there() -> None:
    text = ROWS.format("LAST(B.speed)", "A /* fast */ B+", WITHIN)
    told = format_text(f"-- dips\n{text}")
    assert told.startswith("-- dips\nCREATE STREAM Dip AS\nSELECT * FROM s MATCH_RECOGNIZE")
    assert told.count("fast") == 1
    assert format_text(told) == told


def test_fields_of_structures_go_through_streams() -> None:
    rows = [
        {"ts": 1, "type": "p", "process": {"name": "a", "at": {"n": 1}}},
        {"ts": 2, "type": "p", "process": {"name": "b", "at": {"n": 2}}},
    ]
    text = """CREATE STREAM found AS SELECT *, process.at.n AS n FROM log WHERE process.name <> 'c';
        RETURN e.n AS n PATTERN found e WHERE e.process.at.n > 1 AND e.process.name = 'b'"""
    assert cepheid.query(text).run(pa.Table.from_pylist(rows)).to_pylist()[0]["n"] == 2
