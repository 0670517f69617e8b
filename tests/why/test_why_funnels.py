"""``why_not`` of funnels, with numbers that were worked out by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import cepheid
from cepheid.jobs.why import WhyNot

MINUTE = 60_000_000
#  session 1:  view(0)  cart(10)  view(12)  buy(41)
#  session 2:  view(0)  cart(5)
#  session 3:  view(1)
#  no session: view(2)
EVENTS = pa.table(
    {
        "ts": [m * MINUTE for m in (0, 0, 1, 2, 5, 10, 12, 41)],
        "type": ["view", "view", "view", "view", "cart", "cart", "view", "buy"],
        "session": [1, 2, 3, None, 2, 1, 1, 1],
        "shop": ["a", "a", "a", "a", "a", "a", "a", "b"],
        "x": [1, 2, 3, 4, 5, 6, 7, 8],
    }
)
STEPS = "PATTERN SEQ(view v, cart c, buy b)"
FUNNEL = f"RETURN FUNNEL(session) {STEPS}"


def why(text: str, events: object = EVENTS) -> WhyNot:
    return cepheid.query(text).why_not(events)


def relaxed(answer: WhyNot) -> dict[str, float | None]:
    return {one.text: one.count for one in answer.relaxations}


def test_a_time_that_is_too_short_is_named_with_the_nearest_step() -> None:
    answer = why(f"{FUNNEL} WITHIN 30 minutes")
    assert (answer.unit, answer.found, answer.events) == ("session", 0, 8)
    assert [(step.text, step.count) for step in answer.steps] == [
        ("view v", 3), ("cart c", 2), ("buy b", 0),
    ]  # fmt: skip
    assert answer.stopped_at == "buy b"
    assert str(answer).splitlines() == [
        "No session comes to the last step, buy b.",
        "3 sessions had view v, 2 then cart c, 0 then buy b.",
        "The nearest buy b comes 41 minutes after the first step; WITHIN is 30 minutes.",
        "Without WITHIN 30 minutes, 1 session would come to buy b.",
        "1 event for view has no session (NULL): it takes part in no match.",
    ]
    assert relaxed(answer) == {"without WITHIN 30 minutes": 1, "with TIES arrival": 0}
    assert why(f"{FUNNEL} WITHIN 41 minutes").found == 1  # Exactly 41 minutes belong (§12.2).


def test_a_funnel_with_rows_tells_what_more_would_come_without() -> None:
    answer = why(f"{FUNNEL} WHERE v.x > 1")
    assert (answer.found, answer.stopped_at) == (0, "buy b")
    # The view of session 1 that is left comes after its cart.
    assert relaxed(answer)["without `v.x > 1`"] == 1
    assert "Of 5 events for v, 4 satisfy `v.x > 1`." in answer.sentences
    whole = why(FUNNEL)
    assert whole.sentences[0] == "1 of 3 sessions come to the last step, buy b."
    assert whole.stopped_at is None


@pytest.mark.parametrize("mode", ["strict_order", "strict_deduplication"])
def test_modes_are_left_out_one_at_a_time(mode: str) -> None:
    # A view between cart and buy is a step that comes again; a stranger is no step at all.
    events = EVENTS
    if mode == "strict_order":
        kinds = EVENTS["type"].to_pylist()
        kinds[6] = "other"
        events = EVENTS.set_column(1, "type", pa.array(kinds))
    answer = why(f"RETURN FUNNEL(session, '{mode}') {STEPS}", events)
    assert answer.found == 0
    assert relaxed(answer)[f"without '{mode}'"] == 1
    assert f"Without '{mode}', 1 session would come to buy b." in answer.sentences


def test_with_a_mode_longer_times_are_tried() -> None:
    answer = why(f"RETURN FUNNEL(session, 'strict_order') {STEPS} WITHIN 30 minutes")
    assert "With WITHIN 1 hour, 1 session would come to buy b." in answer.sentences


def test_an_attribute_that_all_share_is_left_out() -> None:
    answer = why(f"{FUNNEL} WHERE [shop]")
    assert relaxed(answer) == {"without [shop]": 1, "with TIES arrival": 0}


def test_equal_times_are_told() -> None:
    events = pa.table({"ts": [5, 5], "type": ["view", "cart"], "session": [1, 1]})
    answer = why("RETURN FUNNEL(session) PATTERN SEQ(view v, cart c)", events)
    assert answer.sentences[2] == "With TIES arrival, 1 session would come to cart c."


def test_a_wrong_key_is_told() -> None:
    events = EVENTS.set_column(2, "session", pa.array(range(8)))
    answer = why(f"{FUNNEL} WITHIN 1 hour", events)
    assert answer.sentences[2] == (
        "Only events of different session values come in this order up to cart c: is session the "
        "right key?"
    )
    backwards = why("RETURN FUNNEL(session) PATTERN SEQ(buy b, cart c)")
    assert backwards.sentences[2] == (
        "Even without any condition and key, no cart c follows the steps before it."
    )


def test_several_conditions_may_be_the_reason_together() -> None:
    answer = why(f"{FUNNEL} WHERE c.x > 6 AND c.x < 3")
    assert answer.sentences[2:4] == (
        "No condition alone is the reason: without any one of them there is none.",
        "Without all conditions and WITHIN, 2 sessions would come to cart c.",
    )


def test_a_type_in_another_case_is_offered() -> None:
    with pytest.warns(UserWarning, match="did you mean `cart`"):
        cepheid.query("RETURN FUNNEL(session) PATTERN SEQ(view v, Cart c)").run(EVENTS)
    answer = why("RETURN FUNNEL(session) PATTERN SEQ(view v, Cart c)")
    assert "No event has the type `Cart`." in answer.sentences
    assert "did you mean `cart`?" in answer.notices[0]
    assert answer.relaxations == ()


def test_groups_and_windows_are_added_up() -> None:
    answer = why("RETURN FUNNEL(session) PATTERN SEQ(view v, cart c) GROUP-BY shop")
    assert [step.count for step in answer.steps] == [3, 2]
    windows = why(
        "RETURN FUNNEL(session) PATTERN SEQ(view v, cart c) WITHIN 10 minutes SLIDE 5 minutes"
    )
    # Windows [-5, 5), [0, 10) have three sessions each with a view, [5, 15) and [10, 20) have one;
    # [0, 10) alone has a view and a cart of one session.
    assert [step.count for step in windows.steps] == [8, 1]
    assert "A session counts once in every window." in windows.sentences


def test_edges_of_windows_that_cut_a_chain_are_told() -> None:
    answer = why(
        "RETURN FUNNEL(session) PATTERN SEQ(cart c, buy b) WITHIN 40 minutes SLIDE 40 minutes"
    )
    assert "which is not more than WITHIN, but the edges of windows cut it" in answer.sentences[3]


def test_a_run_reports_the_steps() -> None:
    told = cepheid.query(FUNNEL).explain(events=EVENTS, analyze=True)
    assert "3 sessions had view v, 2 then cart c, 1 then buy b." in told
    assert "7 with a key" in told


@pytest.mark.spark
@pytest.mark.slow
def test_spark_counts_the_same(spark: Any) -> None:
    for text in (f"{FUNNEL} WITHIN 30 minutes", f"{FUNNEL} WHERE v.x > 1 GROUP-BY shop"):
        here = why(text)
        frame = spark.createDataFrame(EVENTS.to_pylist())
        there = cepheid.query(text).why_not(frame)
        assert there.sentences == here.sentences
        assert there.relaxations == here.relaxations
