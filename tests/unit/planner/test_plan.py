"""What the planner decides: predicates, partitions, windows, outputs and the evaluator."""

from __future__ import annotations

import pytest
from tests.queries import PAPER_QUERIES, VALID_QUERIES

from cepheid.api import query
from cepheid.expressions.format import format_expression
from cepheid.jobs.explain import explain_mermaid
from cepheid.kinds.trend.planning.rewrite import rewrite_pattern
from cepheid.language.formatter import format_pattern
from cepheid.language.parser import parse
from cepheid.plans.plan import (
    Evaluator,
    Granularity,
    OutputKind,
    Plan,
    SelectPlan,
    TrendPlan,
    WindowKind,
)
from cepheid.plans.template import START


def plan(text: str, **options: object) -> Plan:
    return query(text, **options).plan  # type: ignore[arg-type]  # tests pass what query takes


@pytest.mark.parametrize(
    ("name", "evaluator", "granularity"),
    [
        ("greta-q1", Evaluator.INDEXED, Granularity.MIXED),
        ("greta-q2", Evaluator.INDEXED, Granularity.MIXED),
        ("greta-q3", Evaluator.INDEXED, Granularity.MIXED),
        ("cogra-q1", Evaluator.PREVIOUS, Granularity.PATTERN),
        ("cogra-q2", Evaluator.LINEAR, Granularity.PATTERN),
        ("cogra-q3", Evaluator.INDEXED, Granularity.MIXED),
        ("cogra-q4", Evaluator.LINEAR, Granularity.PATTERN),
        ("aseq-2", Evaluator.LINEAR, Granularity.TYPE),
        ("rcep-1", Evaluator.ENUMERATE, Granularity.EVENT),
    ],
)
def test_papers_queries_are_classified_as_in_the_papers(
    name: str, evaluator: Evaluator, granularity: Granularity
) -> None:
    choice = plan(PAPER_QUERIES[name]).choice
    assert (choice.evaluator, choice.granularity) == (evaluator, granularity)


@pytest.mark.parametrize(
    ("semantics", "where", "evaluator"),
    [
        ("any", "", Evaluator.LINEAR),
        ("next", "", Evaluator.LINEAR),
        ("contiguous", "", Evaluator.LINEAR),
        ("any", "WHERE A.x < NEXT(A).x", Evaluator.INDEXED),
        ("next", "WHERE A.x < NEXT(A).x", Evaluator.INDEXED),
        ("contiguous", "WHERE A.x < NEXT(A).x", Evaluator.PREVIOUS),
        ("any", "WHERE A.x * NEXT(A).x < 1", Evaluator.INDEXED),
        ("next", "WHERE A.x * NEXT(A).x < 1", Evaluator.INDEXED),
        ("any", "WHERE A.x * NEXT(A).x <> 1", Evaluator.PAIRWISE),
        ("next", "WHERE A.x * NEXT(A).x <> 1", Evaluator.PAIRWISE),
        ("contiguous", "WHERE A.x * NEXT(A).x < 1", Evaluator.PREVIOUS),
        ("any", "WHERE A.x < NEXT(A).x AND A.x * NEXT(A).x < 1", Evaluator.INDEXED),
        ("any", "WHERE A.x < NEXT(A).x AND A.x * NEXT(A).x <> 1", Evaluator.PAIRWISE),
        ("any", "WHERE A.x < 5", Evaluator.LINEAR),
    ],
)
def test_decision_table(semantics: str, where: str, evaluator: Evaluator) -> None:
    text = f"RETURN COUNT(*) PATTERN A+ SEMANTICS {semantics} {where} WITHIN 5 s"
    assert plan(text).choice.evaluator is evaluator


def test_leading_negation_of_greta_q3_sees_the_whole_segment() -> None:
    q3 = plan(PAPER_QUERIES["greta-q3"])
    assert q3.partition.attributes == ("segment",)
    (partial,) = q3.partition.partial
    assert (partial.attribute, partial.variables) == ("vehicle", ("P",))
    (guard,) = TrendPlan.of(q3).patterns[0].guards
    assert guard.place == "leading"
    assert [e.clear for e in TrendPlan.of(q3).patterns[0].edges if e.source == START] == [(0,)]


def test_predicates_are_sorted_by_kind() -> None:
    text = (
        "RETURN MATCHES PATTERN SEQ(A a, B b+) WHERE [k] AND a.x > 1 AND TRUE AND a.x < b.x "
        "AND (b.x < NEXT(b).x AND COUNT(b) > 2) AND LAST(b).x > a.x WITHIN 5 s"
    )
    result = plan(text)
    assert [p.variable for p in TrendPlan.of(result).local] == ["a", None]
    assert [(e.prev_variable, e.next_variable) for e in TrendPlan.of(result).edges] == [
        ("a", "b"),
        ("b", "b"),
    ]
    assert [format_expression(p.expression) for p in TrendPlan.of(result).globals] == [
        "COUNT(b) > 2",
        "LAST(b).x > a.x",
    ]


def test_order_of_writing_decides_only_if_both_orders_can_be() -> None:
    forward = plan("RETURN COUNT(*) PATTERN SEQ(A, B) WHERE B.x > A.x WITHIN 5 s")
    assert (TrendPlan.of(forward).edges[0].prev_variable, forward.warnings) == ("A", ())
    both = plan("RETURN COUNT(*) PATTERN (SEQ(A, B))+ WHERE B.x > A.x WITHIN 5 s")
    assert TrendPlan.of(both).edges[0].prev_variable == "B"
    assert [w.code for w in both.warnings] == ["W302"]


@pytest.mark.parametrize(
    ("clause", "kind", "numbers"),
    [
        ("", WindowKind.NONE, (0, 0, 0, 1)),
        ("WITHIN 10 s SLIDE 10 s", WindowKind.TUMBLING, (10, 10, 10, 1)),
        ("WITHIN 10 s SLIDE 4 s", WindowKind.SLIDING, (10, 4, 2, 3)),
        ("WITHIN 10 s", WindowKind.TRAILING, (10, 0, 0, 1)),
    ],
)
def test_windows(clause: str, kind: WindowKind, numbers: tuple[int, ...]) -> None:
    window = TrendPlan.of(plan(f"RETURN COUNT(*) PATTERN A {clause}")).window
    seconds = (window.within, window.slide, window.pane)
    assert window.kind is kind
    assert (*(length // 1_000_000 for length in seconds), window.overlap) == numbers


def test_count_windows() -> None:
    window = TrendPlan.of(plan("RETURN COUNT(*) PATTERN A WITHIN 10 EVENTS SLIDE 4 EVENTS")).window
    assert (window.kind, window.within, window.slide) == (WindowKind.COUNT, 10, 4)


def test_result_columns_have_the_documented_names() -> None:
    text = (
        "RETURN k, COUNT(*), COUNT(A), SUM(A.x), AVG(A.x), MIN(A.x) AS least, MAX(A.a.b), "
        "LOG2(COUNT(*)) PATTERN A+ GROUP-BY k HAVING SUM(A.y) > 1 AND least < 5 AND count > 1"
    )
    output = TrendPlan.of(plan(text)).output
    assert output.kind is OutputKind.AGGREGATES
    assert [c.name for c in output.columns] == [
        *("k", "count", "count_A", "sum_A_x", "avg_A_x", "least", "max_A_a.b", "log2_count")
    ]
    assert "sum_A_y" in [a.name for a in output.aggregates], "HAVING adds what it needs"


def test_attributes_of_repeated_variables_are_lists() -> None:
    columns = TrendPlan.of(plan("RETURN a.x, b.x PATTERN SEQ(A a, B b+) WITHIN 5 s")).output.columns
    assert [(c.name, c.repeated) for c in columns] == [("a_x", False), ("b_x", True)]


def test_only_the_needed_columns_are_read() -> None:
    text = "RETURN SUM(A.v) PATTERN A+ WHERE [k] AND A.x < NEXT(A).y WITHIN 5 s"
    assert plan(text, tiebreak=["seq"]).columns == ("k", "seq", "ts", "type", "v", "x", "y")


@pytest.mark.parametrize(
    ("pattern", "simpler"),
    [
        ("SEQ(A, SEQ(B, SEQ(C)))", "SEQ(A, B, C)"),
        ("SEQ(A, SEQ(NOT B, C))", "SEQ(A, SEQ(NOT B, C))"),
        ("(A OR B) OR (A OR C)", "A OR B OR C"),
        ("((A+)+)+", "A+"),
        ("((A?)+)?", "A*"),
        ("(A{1}){2,3}", "A{2,3}"),
        ("(A{2})+", "A{2}+"),
    ],
)
def test_rewriting(pattern: str, simpler: str) -> None:
    rewritten = rewrite_pattern(parse(f"PATTERN {pattern}").pattern)
    assert format_pattern(rewritten) == simpler


def test_plans_of_another_version_are_rejected() -> None:
    data = plan("PATTERN A WITHIN 5 s").to_json()
    with pytest.raises(ValueError, match="version 99"):
        Plan.from_json(data.replace(b'"version":2', b'"version":99'))
    with pytest.raises(ValueError, match="not a plan"):
        Plan.from_json(b"{}")
    with pytest.raises(ValueError, match=r"not a plan: .*trend"):
        SelectPlan.from_json(data)


@pytest.mark.parametrize("text", VALID_QUERIES)
def test_every_plan_can_be_drawn(text: str) -> None:
    drawn = explain_mermaid(plan(text))
    assert drawn.startswith("flowchart LR\n")
    assert drawn.count("subgraph ") == drawn.count("\n    end") + drawn.count("\n        end")


def test_explain_takes_a_schema_later() -> None:
    compiled = query("RETURN COUNT(*) PATTERN A+ WHERE NEXT(A).n - A.n = 1 WITHIN 5 s")
    assert "pairwise" in compiled.explain()
    assert "indexed" in compiled.explain(schema={"ts": "timestamp", "type": "string", "n": "int"})


def test_wrong_use_of_the_api_is_a_python_error() -> None:
    with pytest.raises(ValueError, match="format is one of"):
        query("PATTERN A").explain(format="xml")
    with pytest.raises(TypeError, match="list of column names"):
        query("PATTERN A", tiebreak="seq")
    with pytest.raises(TypeError, match="no columns can be read"):
        query("PATTERN A", schema=5)
