"""Short queries that would take long or need much: each is planned or rejected at once."""

from __future__ import annotations

import pytest

from cepheid.api import query
from cepheid.errors import DIAGNOSTICS_MAX, BindError
from cepheid.kinds.trend.planning.rewrite import rewrite_pattern
from cepheid.language.parser import parse
from cepheid.plans.plan import Plan, TrendPlan


def plan(text: str) -> Plan:
    return query(text).plan


def rejected(text: str) -> str:
    with pytest.raises(BindError) as caught:
        query(text)
    (diagnostic,) = caught.value.diagnostics
    return f"{diagnostic.code}: {diagnostic.message}"


def numbered(form: str, count: int, joint: str = ", ") -> str:
    return joint.join(form.replace("#", str(number)) for number in range(count))


def test_many_alternatives_are_flattened() -> None:
    pattern = parse(f"PATTERN {numbered('A#', 8000, ' OR ')} OR A0 OR A1").pattern
    assert len(getattr(rewrite_pattern(pattern), "alternatives", ())) == 8000


def test_ten_warnings_are_kept_of_many() -> None:
    warnings = plan(f"PATTERN A WHERE A.x IN ({numbered('word#', 5000)})").warnings
    assert len(warnings) == DIAGNOSTICS_MAX


def test_many_optional_parts_between_negations() -> None:
    template = TrendPlan.of(
        plan(f"RETURN COUNT(*) PATTERN SEQ({numbered('A#?, NOT N#', 30)}, Z)")
    ).patterns[0]
    # Each NOT leads, when nothing stood before it, or stands between.
    assert (len(template.states), len(template.guards)) == (31, 60)


def test_the_number_of_negations_has_a_limit() -> None:
    parts = ", ".join(numbered(f"NOT SEQ(N#, N{other})", 20) for other in range(20))
    message = rejected(f"RETURN COUNT(*) PATTERN SEQ(A, {parts}, B)")
    assert message == "E314: the pattern needs more than 256 negations"


def test_negations_that_decide_nothing_have_no_limit_of_their_own() -> None:
    template = TrendPlan.of(
        plan(f"RETURN COUNT(*) PATTERN SEQ(A, {numbered('NOT N#', 20)}, B)")
    ).patterns[0]
    assert [(edge.clear, edge.hit) for edge in template.edges] == [((), ()), (tuple(range(20)), ())]


def test_negations_that_all_derivations_ask_for_decide_nothing() -> None:
    text = f"RETURN COUNT(*) PATTERN SEQ(A, {numbered('NOT N#', 9)}, B OR SEQ(NOT M, B))"
    # Only M tells the two ways to B apart.
    assert {len(edge.hit) for edge in TrendPlan.of(plan(text)).patterns[0].edges} == {0, 1}


def test_the_number_of_edges_has_a_limit() -> None:
    parts = numbered("NOT N#, (A OR B)?", 8)
    message = rejected(f"RETURN COUNT(*) PATTERN SEQ((A OR B)*, {parts}, A)")
    assert message == "E314: the pattern needs more than 20,000 edges"


def test_negated_patterns_count_for_the_limit() -> None:
    hard = numbered("NOT SEQ((A x OR B y)*, A x, (A x OR B y){8}, C#)", 20)
    message = rejected(f"RETURN COUNT(*) PATTERN SEQ(X, {hard}, Y)")
    assert message == "E314: the pattern needs more than 2,048 states"


def test_loops_around_loops_with_negation_are_built() -> None:
    pattern = "A?"
    for number in range(20):
        pattern = f"(SEQ({pattern}, NOT N{number}, B{number}?))+"
    assert TrendPlan.of(plan(f"RETURN COUNT(*) PATTERN {pattern}")).patterns[0].recursive


def test_min_length_is_blamed_if_the_pattern_fits_without() -> None:
    text = "RETURN COUNT(*) PATTERN S+ MIN LENGTH 3000"
    with pytest.raises(BindError, match="E314") as caught:
        query(text)
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert text[span.start : span.end].endswith("3000")


def test_repeated_variables_of_many_states() -> None:
    columns = TrendPlan.of(
        plan("RETURN A.x, B.x PATTERN SEQ(A+, B) MIN LENGTH 1000 WITHIN 5 s")
    ).output.columns
    assert [column.repeated for column in columns] == [True, False]


def test_a_variable_in_two_places_is_repeated() -> None:
    text = "RETURN A.x, B.x, C.x PATTERN SEQ(A, B, A, C?) OR SEQ(C, B) WITHIN 5 s"
    columns = TrendPlan.of(plan(text)).output.columns
    assert [column.repeated for column in columns] == [True, False, False]


def test_many_conditions_on_partial_neighbours() -> None:
    pattern = numbered("A#?", 60)
    where = numbered("A0.x < A#.x", 60, " AND ").removeprefix("A0.x < A0.x AND ")
    more = where.replace("A0.", "A1.").replace("A1.x < A1.x AND ", "")
    text = f"RETURN COUNT(*) PATTERN SEQ({pattern}) WHERE {where} AND {more} WITHIN 5 s"
    assert {warning.code for warning in plan(text).warnings} == {"W301"}


@pytest.mark.parametrize(
    ("clause", "fits"),
    [
        ("WITHIN 1000000 EVENTS SLIDE 1 EVENT", True),
        ("WITHIN 1000001 EVENTS SLIDE 1 EVENT", False),
        ("WITHIN 30 days SLIDE 1 ms", False),
        ("WITHIN 30 days SLIDE 2592 ms", True),
        ("WITHIN 30 days SLIDE 30 days", True),
        ("WITHIN 30 days", True),
    ],
)
def test_panes_have_a_limit(clause: str, fits: bool) -> None:  # noqa: FBT001  # it is the answer
    text = f"RETURN COUNT(*) PATTERN A {clause}"
    assert plan(text) if fits else rejected(text).startswith("E323")
