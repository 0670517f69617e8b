"""``why_not`` of pipelines: the first stage without rows, and why it has none."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.amount import some

import cepheid
from cepheid.jobs.why import WhyNot

#  time   0    10   20   30   40   50
#  A      x=1       x=8       x=9
#  B           x=5       x=2       x=3
EVENTS = pa.table(
    {
        "ts": [0, 10, 20, 30, 40, 50],
        "type": ["A", "B"] * 3,
        "k": ["u", "u", "u", "w", "w", "w"],
        "x": [1, 5, 8, 2, 9, 3],
    }
)
HIGH = "CREATE STREAM High AS SELECT k, x FROM events WHERE x > 4;"
#  High: B(10, 5, u)  A(20, 8, u)  A(40, 9, w)


def why(text: str, events: object = EVENTS) -> WhyNot:
    return cepheid.query(text).why_not(events)


def test_the_first_query_without_rows_is_explained() -> None:
    answer = why(f"""
        {HIGH}
        CREATE STREAM Pair AS RETURN MATCHES PATTERN SEQ(High a, High b) WHERE a.x > NEXT(b).x
            WITHIN 100 us;
        RETURN COUNT(*) PATTERN SEQ(Pair p, A)""")
    assert [(step.text, step.count) for step in answer.steps] == [
        ("High", 3), ("Pair", 0), ("the result", 0),
    ]  # fmt: skip
    assert (answer.found, answer.unit, answer.stopped_at) == (0, "row", "Pair")
    assert answer.sentences[:4] == (
        "The pipeline has no row.",
        "High has 3 rows, Pair 0, the result 0.",
        "The first query without rows is that of Pair:",
        "No window has a match.",
    )
    # Of the three events with x of 5, 8 and 9, each later one is higher: three pairs, two ends.
    assert {one.text: one.count for one in answer.relaxations}["without `a.x > NEXT(b).x`"] == 2


def test_a_stage_over_base_events_is_explained_as_it_stands() -> None:
    answer = why("""
        CREATE STREAM Low AS SELECT k, x FROM events WHERE x < 0;
        SELECT k, COUNT(*) AS n FROM Low GROUP BY k WINDOW 10 us""")
    assert answer.stopped_at == "Low"
    assert "events has 6 events, 0 satisfy `x < 0`." in answer.sentences
    assert [(one.text, one.count) for one in answer.relaxations] == [("without `x < 0`", 6)]


def test_base_events_and_rows_are_one_stream_for_a_pattern() -> None:
    answer = why(
        f"{HIGH} RETURN k, COUNT(*) PATTERN SEQ(High h, B) WHERE [k] AND h.x = 8 GROUP-BY k"
    )
    assert answer.stopped_at == "the result"
    assert answer.sentences[1:5] == (
        "High has 3 rows, the result 0.",
        "The first query without rows is that of the result:",
        "No k has a match.",
        "1 k had High h, 0 then B.",
    )
    # B(50, w) follows High(40, w); of u no B follows the first High at 10.
    assert {one.text: one.count for one in answer.relaxations} == {
        "without [k]": 2,  # B(30) and B(50) after High(20): without a key, matches are counted.
        "without `h.x = 8`": 1,
    }


def test_an_empty_stream_that_is_forbidden_is_no_reason() -> None:
    answer = why("""
        CREATE STREAM Never AS SELECT k FROM events WHERE x > 100;
        RETURN COUNT(*) PATTERN SEQ(A a, NOT Never, B b) WHERE a.x > 100""")
    assert answer.stopped_at == "the result"
    assert any("0 satisfy `a.x > 100`" in sentence for sentence in answer.sentences)


def test_a_join_is_explained_by_its_sides() -> None:
    answer = why(f"""
        {HIGH}
        SELECT h.k AS k FROM High h JOIN events e ON h.k = e.k AND e.x > 100 WINDOW 10 us""")
    assert "h has 3 events." in answer.sentences
    assert "e has 6 events, 0 satisfy `e.x > 100`." in answer.sentences


def test_a_pipeline_with_rows_speaks_of_its_last_query() -> None:
    answer = why(f"{HIGH} RETURN COUNT(*) PATTERN SEQ(High a, High b)")
    assert (answer.found, answer.stopped_at) == (1, None)
    assert answer.sentences[:4] == (
        "The pipeline has 1 row.",
        "High has 3 rows, the result 1.",
        "Of the last query:",
        "The pattern has 3 matches.",
    )


def test_types_of_base_events_that_no_event_has_are_told() -> None:
    text = f"{HIGH} RETURN COUNT(*) PATTERN SEQ(High h, b)"
    with pytest.warns(UserWarning, match="no event has the type `b`: did you mean `B`"):
        cepheid.query(text).run(EVENTS)
    assert "did you mean `B`?" in str(why(text))
    # A derived stream without events is no mistake of spelling.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cepheid.query(
            "CREATE STREAM None_ AS SELECT x FROM events WHERE x > 99;"
            "RETURN COUNT(*) PATTERN SEQ(A, None_)"
        ).run(EVENTS)


def test_files_are_read_like_tables(tmp_path: Path) -> None:
    parquet.write_table(EVENTS, tmp_path / "e.parquet")
    text = f"{HIGH} RETURN COUNT(*) PATTERN SEQ(High h, B) WHERE h.x > NEXT(B).x * 3"
    assert why(text, tmp_path / "e.parquet").sentences == why(text).sentences


def test_a_run_reports_the_rows_of_each_stage() -> None:
    told = cepheid.query(f"{HIGH} SELECT k FROM High WHERE x > 8").explain(
        events=EVENTS, analyze=True
    )
    assert "High has 3 rows, the result 1." in told


@pytest.mark.spark
@pytest.mark.slow
def test_spark_counts_the_same(spark: Any) -> None:
    frame = spark.createDataFrame(EVENTS.to_pylist())
    stages = (
        "RETURN k, COUNT(*) PATTERN SEQ(High h, B) WHERE [k] AND h.x = 8 GROUP-BY k",
        "SELECT h.k AS k FROM High h JOIN events e ON h.k = e.k AND e.x > 100 WINDOW 10 us",
    )
    for last in some(stages, 2):
        here, there = why(f"{HIGH} {last}"), cepheid.query(f"{HIGH} {last}").why_not(frame)
        assert there.sentences == here.sentences
        assert there.relaxations == here.relaxations
