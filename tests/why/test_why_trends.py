"""``why_not`` of patterns, with numbers that were worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import cepheid
from cepheid.errors import BindError
from cepheid.jobs.why import WhyNot
from cepheid.kinds.trend.why import why as why_of_trends

MINUTE = 60_000_000
#  session 1:  A(0)   B(10)  C(41)
#  session 2:  A(0)   B(5)
#  session 3:  A(1)
#  no session: A(2)
EVENTS = pa.table(
    {
        "ts": [m * MINUTE for m in (0, 0, 1, 2, 5, 10, 41)],
        "type": ["A", "A", "A", "A", "B", "B", "C"],
        "session": [1, 2, 3, None, 2, 1, 1],
        "x": [1, 2, 3, 4, 5, 6, 7],
    }
)
FUNNEL = "RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE [session]"


def why(text: str, events: object = EVENTS) -> WhyNot:
    return cepheid.query(text).why_not(events)


def steps(answer: WhyNot) -> list[tuple[str, float]]:
    return [(step.text, step.count) for step in answer.steps]


def relaxed(answer: WhyNot) -> dict[str, float | None]:
    return {one.text: one.count for one in answer.relaxations}


def test_a_window_that_is_too_short_is_named_with_the_nearest_event() -> None:
    answer = why(f"{FUNNEL} WITHIN 30 minutes")
    assert (answer.unit, answer.found, answer.events) == ("session", 0, 7)
    assert steps(answer) == [("A", 3), ("B", 2), ("C", 0)]
    assert str(answer).splitlines() == [
        "No session has a match.",
        "3 sessions had A, 2 then B, 0 then C.",
        "The nearest C comes 41 minutes after the first event; WITHIN is 30 minutes.",
        "Without WITHIN 30 minutes, 1 session would have a match.",
        "1 event for A has no session (NULL): it takes part in no match.",
    ]
    # Without [session] the first A is that of another session, at most 41 - 2 minutes before C.
    assert relaxed(answer) == {"without [session]": 0, "without WITHIN 30 minutes": 1}
    assert why(f"{FUNNEL} WITHIN 42 minutes").found == 1


def test_the_shortest_match_is_exact_where_the_first_part_repeats() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(A+, B, C) WHERE [session] WITHIN 40 minutes")
    assert answer.sentences[2].startswith("The nearest C comes 41 minutes after")


def test_edges_of_windows_that_cut_a_short_match_are_told() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(B, C) WITHIN 40 minutes SLIDE 40 minutes")
    assert answer.unit == "window"
    assert "may be cut by the edges" in answer.sentences[2]
    assert relaxed(answer)["without WITHIN 40 minutes"] == 2  # Both B are before C.


def test_a_type_in_another_case_is_offered() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(a, B) WHERE [session]")
    assert steps(answer) == [("a", 0), ("B", 0)]
    assert "No event has the type `a`." in answer.sentences
    assert "did you mean `A`?" in answer.notices[0]
    assert str(answer).endswith(f"notice: {answer.notices[0]}")
    assert answer.relaxations == ()


def test_times_of_another_unit_are_told() -> None:
    seconds = pa.table({"ts": [1_700_000_000, 1_700_000_060], "type": ["A", "B"]})
    answer = why("RETURN COUNT(*) PATTERN SEQ(B, A)", seconds)
    assert "look like seconds" in answer.notices[0]


def test_conditions_on_events_are_counted_one_by_one() -> None:
    answer = why(
        "RETURN COUNT(*) PATTERN SEQ(A, B b) WHERE A.x > 2 AND A.x <> 4 AND A.x < 2 AND b.x > 0"
    )
    assert [(c.text, c.events, c.satisfied, c.alone) for c in answer.conditions] == [
        ("A.x > 2", 4, 2, 1),
        ("A.x <> 4", 4, 3, 0),
        ("A.x < 2", 4, 1, 1),
        ("b.x > 0", 2, 2, 0),
    ]
    assert answer.stopped_at == "A"
    # Without `A.x > 2` the A of x = 1 is left, without `A.x < 2` that of x = 3.
    assert relaxed(answer) == {
        "without `A.x > 2`": 1,
        "without `A.x <> 4`": 0,
        "without `A.x < 2`": 1,
    }
    assert "Without `A.x > 2` there would be 1 match up to A." in str(answer)
    assert "`A.x > 2` alone stops 1" in str(answer)


def test_negation_has_a_step_of_its_own() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(A, NOT B, C) WHERE [session]")
    assert steps(answer) == [("A", 3), ("C", 1), ("without B between", 0)]
    assert relaxed(answer)["without NOT B"] == 1
    ends = why("RETURN COUNT(*) PATTERN SEQ(NOT A, B, NOT C) WHERE [session]")
    assert steps(ends) == [("B", 2), ("without A before", 0), ("without C after", 0)]


def test_an_edge_predicate_is_left_out_where_neighbours_are_not_there_yet() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE [session] AND B.x > NEXT(C).x")
    assert steps(answer) == [("A", 3), ("B", 2), ("C", 0)]
    assert relaxed(answer)["without `B.x > NEXT(C).x`"] == 1


def test_semantics_are_compared_with_skip_till_any_match() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(A, C) WHERE [session] SEMANTICS contiguous")
    assert relaxed(answer)["with SEMANTICS skip-till-any-match"] == 1


def test_optional_parts_have_no_step_of_their_own() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(A?, B, C*) WHERE [session]")
    assert steps(answer) == [("B", 2)]


def test_min_length_comes_last() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(A+, B) WHERE [session] MIN LENGTH 3")
    assert steps(answer) == [("A+", 3), ("B", 2), ("with MIN LENGTH 3", 0)]
    assert relaxed(answer)["without MIN LENGTH 3"] == 2


def test_alternatives_have_a_chain_each() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(A, B) OR SEQ(C, A)")
    assert [(s.branch, s.text, s.count) for s in answer.steps] == [
        (1, "A", 4), (1, "B", 8), (2, "C", 1), (2, "A", 0),
    ]  # fmt: skip
    assert answer.found == 8


def test_having_is_told_with_the_rows_before_it_and_the_values() -> None:
    answer = why("RETURN session, COUNT(*) PATTERN SEQ(A, B) GROUP-BY session HAVING COUNT(*) > 5")
    assert "Before HAVING there are 2 rows, 0 after it." in answer.sentences
    assert "COUNT(*) is 1; HAVING asks for COUNT(*) > 5." in answer.sentences


def test_matches_are_explained_as_aggregates_are() -> None:
    answer = why("PATTERN SEQ(A a, B, C c) WHERE [session] AND c.x < FIRST(a).x LIMIT 3")
    assert steps(answer) == [("A a", 3), ("B", 2), ("C c", 0)]
    assert relaxed(answer)["without `c.x < FIRST(a).x`"] == 1


def test_two_reasons_at_once_are_told_as_such() -> None:
    answer = why(f"{FUNNEL} AND C.x > 100 WITHIN 30 minutes")
    assert answer.found == 0
    assert any("No condition alone is the reason" in text for text in answer.sentences)
    assert "Without all conditions and WITHIN, there would be 1 session." in answer.sentences


def test_what_never_comes_is_told() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(C, A) WHERE [session] WITHIN 1 day")
    told = "Even without any condition and WITHIN, no events of one session come so far."
    assert told in answer.sentences


def test_a_huge_number_of_matches_is_counted_and_not_listed() -> None:
    many = pa.table({"ts": range(2000), "type": ["A"] * 2000, "x": range(2000)})
    answer = why("PATTERN SEQ(A a+, B)", many)
    assert answer.steps[0].count > 1e300  # 2^2000 - 1 trends.


def test_every_container_gives_the_same_answer(tmp_path: Path) -> None:
    text = f"{FUNNEL} WITHIN 30 minutes"
    expected = why(text)
    parquet.write_table(EVENTS, tmp_path / "events.parquet")
    store = cepheid.EventStore(tmp_path / "store")
    store.append(EVENTS)
    reader = pa.RecordBatchReader.from_batches(EVENTS.schema, EVENTS.to_batches())
    frame = EVENTS.to_pandas()
    frame["session"] = frame["session"].astype(pd.Int64Dtype())
    shuffled = EVENTS.take([6, 0, 1, 4, 3, 2, 5])
    for events in (str(tmp_path / "events.parquet"), store, reader, frame, shuffled):
        assert why(text, events).to_dict() == expected.to_dict(), type(events)


def test_the_answer_is_a_value_with_html() -> None:
    answer = why(f"{FUNNEL} WITHIN 30 minutes")
    assert repr(answer) == "WhyNot  No session has a match."
    page = answer._repr_html_()
    assert "<td>B</td><td align='right'>2</td>" in page
    assert "<script" not in page
    made = answer.to_dict()
    assert made["steps"][1] == {"text": "B", "count": 2, "branch": 0}


def test_mistakes_are_those_of_run() -> None:
    with pytest.raises(BindError):
        why("RETURN COUNT(*) PATTERN A WHERE A.nothing > 1")
    with pytest.raises(cepheid.CepheidError):
        cepheid.query("PATTERN A").why_not(5)


def many_sessions(sessions: int) -> pa.Table:
    """Build sessions of A, B and C, of which C comes 41 minutes after A."""
    times = [
        (number * MINUTE + minute * MINUTE, kind, f"s{number}")
        for number in range(sessions)
        for minute, kind in ((0, "A"), (10, "B"), (41, "C"))
    ]
    ts, kinds, keys = zip(*sorted(times), strict=True)
    return pa.table({"ts": ts, "type": kinds, "session": keys})


@pytest.mark.parametrize("place", ["table", "file", "store"])
def test_of_many_events_relaxed_queries_count_some_keys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    monkeypatch.setattr(why_of_trends, "RELAXED_EVENTS_MAX", 1000)
    monkeypatch.setattr(why_of_trends, "SAMPLE_EVENTS", 300)
    table = many_sessions(1000)
    events: object = table
    if place == "file":
        parquet.write_table(table, tmp_path / "e.parquet")
        events = str(tmp_path / "e.parquet")
    elif place == "store":
        store = cepheid.EventStore(tmp_path / "store")
        store.append(table)
        events = store
    answer = why(f"{FUNNEL} WITHIN 30 minutes", events)
    # Steps are those of all events.
    assert steps(answer) == [("A", 1000), ("B", 1000), ("C", 0)]
    lines = str(answer).splitlines()
    assert lines[2].startswith("What follows is counted in ")
    assert lines[2].endswith(" of 3,000 events, those of one in 10 values of session.")
    assert lines[3] == "The nearest C comes 41 minutes after the first event; WITHIN is 30 minutes."
    # A session comes with all of its events.
    sampled = int(lines[2].split()[5].replace(",", ""))
    assert sampled % 3 == 0
    assert 150 <= sampled <= 600
    assert relaxed(answer)["without WITHIN 30 minutes"] == sampled // 3


def test_of_many_events_without_keys_the_first_are_relaxed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why_of_trends, "RELAXED_EVENTS_MAX", 1000)
    monkeypatch.setattr(why_of_trends, "SAMPLE_EVENTS", 300)
    answer = why("RETURN COUNT(*) PATTERN SEQ(A, B, D) WITHIN 30 minutes", many_sessions(1000))
    assert "No event has the type `D`." in str(answer)
    events = many_sessions(1000)
    text = "RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE a.session = 'none' WITHIN 30 minutes"
    lines = str(why(text, events)).splitlines()
    assert "What follows is counted in the first 300 of 3,000 events." in lines


#  time  1  2  3  4  5  6
#  type  A  B  B  C  B  D
#  x     1  2  9  4  5  6
LOOP = pa.table(
    {
        "ts": [1, 2, 3, 4, 5, 6],
        "type": ["A", "B", "B", "C", "B", "D"],
        "x": [1, 2, 9, 4, 5, 6],
    }
)


def test_an_until_that_ends_a_loop_too_early_is_named() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(A, B b+ UNTIL (b.x > 1), D)", LOOP)
    assert (answer.found, answer.stopped_at) == (0, "B b+ UNTIL (b.x > 1)")
    assert relaxed(answer) == {"without UNTIL (b.x > 1)": 7}
    assert "Without UNTIL (b.x > 1) there would be 7 matches up to" in answer.sentences[2]


def test_what_may_not_lie_between_rounds_is_named() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(A, B{3} WITHOUT C, D)", LOOP)
    assert (answer.found, answer.stopped_at) == (0, "B{3} WITHOUT C")
    assert relaxed(answer) == {"without WITHOUT C": 1}


def test_links_are_let_free_one_by_one() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A, C, D) SEMANTICS skip-till-any-match"
    answer = why(f"{text}, A TO C contiguous, C TO D contiguous", LOOP)
    assert steps(answer) == [("A", 1), ("C", 0), ("D", 0)]
    # The prefix SEQ(A, C) has one of the links.
    assert relaxed(answer) == {"with A TO C skip-till-any-match": 1}
    free = why(f"{text}, C TO D contiguous", LOOP)
    assert relaxed(free) == {"with C TO D skip-till-any-match": 1}
    both = why(
        "RETURN COUNT(*) PATTERN SEQ(A, C) SEMANTICS contiguous, A TO C skip-till-next-match", LOOP
    )
    assert both.found == 1
    assert relaxed(both) == {
        "with A TO C skip-till-any-match": 1,
        "with SEMANTICS skip-till-any-match": 1,
    }


def test_what_a_choice_of_matches_leaves_is_told() -> None:
    answer = why("RETURN COUNT(*) PATTERN SEQ(B, C) AFTER MATCH SKIP PAST LAST", LOOP)
    # Of (2, 4) and (3, 4) the one that begins first is chosen.
    assert answer.found == 1
    assert answer.sentences[0] == "The pattern has 1 match."
    assert answer.sentences[2] == (
        "AFTER MATCH SKIP PAST LAST leaves 1 of 2 matches; what follows counts all."
    )
    assert relaxed(answer) == {"without AFTER MATCH SKIP PAST LAST": 2}
    none = why("RETURN COUNT(*) PATTERN SEQ(D, C) AFTER MATCH SKIP TO LAST C", LOOP)
    assert none.found == 0
    assert relaxed(none) == {}


def test_equal_times_are_told_where_nothing_else_is_the_reason() -> None:
    events = pa.table({"ts": [1, 1], "type": ["A", "B"]})
    answer = why("RETURN COUNT(*) PATTERN SEQ(A, B)", events)
    assert answer.sentences[-1] == (
        "With TIES arrival, by which events of one time follow each other, and no condition, "
        "there would be 1 match."
    )
