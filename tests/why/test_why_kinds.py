"""``why_not`` of situations and SELECT, and ``cepheid why`` of row patterns."""

from __future__ import annotations

import pyarrow as pa

import cepheid
from cepheid.jobs.why import WhyNot
from cepheid.runtimes.sql import why_local_sql

#  time    0   10   20   30   40   50   60   70
#  fast         [---------)    [---------)
#  wild              [---------)
DRIVE = pa.table(
    {
        "ts": range(0, 80, 10),
        "speed": [50, 80, 90, 40, 99, 90, 50, 60],
        "jerk": [1, 1, 9, 9, 1, 1, 1, 1],
        "car": ["a"] * 7 + [None],
    }
)
DEFINED = "FROM s DEFINE F AS speed > 70 AT LEAST 15 us, W AS jerk > 5"


def why(text: str, events: object = DRIVE) -> WhyNot:
    return cepheid.query(text).why_not(events)


def counts(answer: WhyNot) -> dict[str, float | None]:
    return {one.text: one.count for one in answer.relaxations}


def test_situations_are_counted_by_name_and_length() -> None:
    answer = why(f"{DEFINED} PATTERN W before F WITHIN 30 us")
    assert answer.found == 0  # W meets F.
    assert answer.sentences[1] == (
        "Situations that have ended: 2 F, 2 of at least 15 microseconds; 1 W."
    )
    assert [(c.satisfied, c.events) for c in answer.conditions] == [(4, 8), (2, 8)]
    assert why(f"{DEFINED} PATTERN W meets F WITHIN 30 us").found == 0
    assert (
        counts(why(f"{DEFINED} PATTERN W meets F WITHIN 30 us"))["without WITHIN 30 microseconds"]
        == 1
    )  # From 20 to 60.


def test_relations_are_counted_one_by_one() -> None:
    three = "FROM s PARTITION BY car DEFINE F AS speed > 70, W AS jerk > 5, C AS speed < 60"
    answer = why(f"{three} PATTERN F overlaps W AND W before C")
    # F [10,30) overlaps W [20,40); C is [0,10), [30,40) and the one that goes on from 60.
    assert counts(answer) == {"without F overlaps W": 1, "without W before C": 1}
    assert "F overlaps W: 1 pair; W before C: 1 pair, 1 match with all before it." in str(answer)
    assert "1 event without car (NULL) count for nothing." in answer.sentences


def test_what_null_ends_is_told() -> None:
    # A thermometer and a valve, each of which sends events of its own.
    plant = pa.table(
        {"ts": range(4), "temp": [95, None, 96, 50], "valve": [None, "shut", None, None]}
    )
    define = "DEFINE Hot AS temp > 90{}, Shut AS valve = 'shut'"
    answer = why(f"{define.format('')} PATTERN Hot intersects Shut", plant)
    assert answer.found == 0
    assert answer.sentences[-2:] == (
        "`temp > 90` is NULL at 1 of them, and ends there: `Hot AS temp > 90 UNTIL …` would go on.",
        "`valve = 'shut'` is NULL at 3 of them, and ends there: "
        "`Shut AS valve = 'shut' UNTIL …` would go on.",
    )
    answer = why(f"{define.format(' UNTIL temp <= 90')} PATTERN Hot intersects Shut", plant)
    assert (answer.found, "`temp > 90` is NULL" in str(answer)) == (1, False)


def test_bounds_of_listed_situations_are_told() -> None:
    answer = why("FROM s DEFINE F AS speed > 70 AT LEAST 1 s SITUATIONS F")
    assert (answer.found, answer.unit) == (0, "situation")
    assert counts(answer) == {"without the bounds of F": 2}


def test_conditions_of_a_filter_are_counted_one_by_one() -> None:
    answer = why("SELECT * FROM s WHERE speed > 95 AND jerk > 5")
    assert answer.sentences[:2] == (
        "There is no row.",
        "s has 8 events, 1 satisfy `speed > 95`, 2 satisfy `jerk > 5`, 0 all of it; `speed > 95` "
        "alone stops 2.",
    )
    assert counts(answer) == {"without `speed > 95`": 2, "without `jerk > 5`": 1}


def test_windows_of_a_select_are_rows() -> None:
    answer = why("SELECT car, COUNT(*) FROM s WHERE speed > 95 GROUP BY car WINDOW 10 us")
    assert answer.found == 1
    assert counts(answer) == {"without `speed > 95`": 8}


def test_the_sides_of_a_join_and_their_common_keys_are_told() -> None:
    orders = pa.table({"ts": [0, 100], "k": ["x", "y"]})
    payments = pa.table({"ts": [50, 500], "k": ["x", "z"], "sum": [1, 2]})
    q = cepheid.query("SELECT o.k AS k FROM o JOIN p ON o.k = p.k AND p.sum > 1 WINDOW 10 us")
    answer = q.why_not({"o": orders, "p": payments})
    assert answer.sentences[:4] == (
        "There is no pair.",
        "o has 2 events.",
        "p has 2 events, 1 satisfy `p.sum > 1`.",
        "o.k has 2 values, p.k 2; 1 are in both.",
    )
    free = cepheid.query("SELECT o.k AS k FROM o JOIN p ON o.k = p.k WINDOW 10 us")
    assert counts(free.why_not({"o": orders, "p": payments}))["without WINDOW"] == 1


def test_a_stream_that_is_joined_with_itself_is_explained() -> None:
    answer = why("SELECT a.ts AS t FROM s a JOIN s b ON a.speed = b.jerk WINDOW 15 us")
    assert answer.sentences[0] == "There is no pair."
    assert "a.speed has 6 values, b.jerk 2; 0 are in both." in answer.sentences


def test_row_patterns_are_counted_part_by_part() -> None:
    text = """
        SELECT * FROM t MATCH_RECOGNIZE (
            ORDER BY ts MEASURES A.ts AS a PATTERN (A B+ C)
            DEFINE A AS speed > 70, B AS speed > PREV(speed), C AS speed > A.speed + 100)"""
    answer = why_local_sql(text, {"t": DRIVE})
    # 80 90, then 99 is no rise after 40; 40 99 begins with no A.
    assert [(s.text, s.count) for s in answer.steps] == [("A", 4), ("B+", 1), ("C", 0)]
    assert [(c.variable, c.satisfied) for c in answer.conditions] == [("A", 4), ("B", 4), ("C", 8)]
    assert counts(answer)["without `C AS speed > A.speed + 100`"] == 1
