"""Result columns, aggregates and the columns that must be read."""

from __future__ import annotations

import pytest

from cepheid.api import query
from cepheid.errors import BindError
from cepheid.jobs.explain import explain_plan
from cepheid.kinds.trend.planning.granularity import numbers_per_state
from cepheid.plans.plan import Plan, TrendPlan


def plan(text: str, **options: object) -> Plan:
    return query(text, **options).plan  # type: ignore[arg-type]  # tests pass what query takes


def test_aggregates_whose_names_join_alike_stay_apart() -> None:
    text = "RETURN SUM(A.b_c) AS x, SUM(A_b.c) AS y PATTERN SEQ(A, A_b) HAVING SUM(A_b.c) > 1"
    output = TrendPlan.of(plan(text)).output
    what = {column.name: (column.variable, column.attribute) for column in output.aggregates}
    named = {column.name: what[column.aggregate or ""] for column in output.columns}
    assert named == {"x": ("A", "b_c"), "y": ("A_b", "c")}
    assert len(output.aggregates) == 2


def test_result_columns_whose_names_join_alike_need_as() -> None:
    with pytest.raises(BindError, match="E209"):
        query("RETURN SUM(A.b_c), SUM(A_b.c) PATTERN SEQ(A, A_b)")


def test_having_may_use_the_name_of_a_group() -> None:
    text = "RETURN sector AS s, COUNT(*) PATTERN A GROUP-BY sector HAVING s = 'x'"
    assert TrendPlan.of(plan(text)).output.having is not None
    schema = {"ts": "timestamp", "type": "string", "sector": "int"}
    with pytest.raises(BindError, match="E206"):
        query(text, schema=schema)


def test_matches_read_every_column() -> None:
    schema = {"ts": "timestamp", "geo.lat": "double", "s": "struct<a:int>", "s.a": "int"}
    assert plan("PATTERN A WITHIN 5 s", schema=schema).columns == ("geo.lat", "s", "ts")
    unknown = plan("PATTERN A WITHIN 5 s")
    assert unknown.columns is None
    assert "reads       all columns" in explain_plan(unknown)
    assert Plan.from_json(unknown.to_json()) == unknown


def test_window_names_are_free_without_a_window() -> None:
    columns = TrendPlan.of(plan("RETURN COUNT(*) AS window_end PATTERN A")).output.columns
    assert [column.name for column in columns] == ["window_end"]


@pytest.mark.parametrize(
    ("returns", "numbers"),
    [("COUNT(*)", 1), ("SUM(A.x)", 3), ("AVG(A.x)", 3), ("SUM(A.x), AVG(A.x), MIN(A.x)", 4)],
)
def test_sums_count_their_values_too(returns: str, numbers: int) -> None:
    assert numbers_per_state(TrendPlan.of(plan(f"RETURN {returns} PATTERN A")).output) == numbers


def test_explain_says_when_it_lists_some_steps_only() -> None:
    parts = ", ".join(f"A{number}?" for number in range(20))
    text = explain_plan(plan(f"RETURN COUNT(*) PATTERN SEQ(Z, NOT N, {parts}) WITHIN 5 s"))
    (line,) = [line for line in text.splitlines() if "no N between" in line]
    assert line.endswith(", …")
    assert line.count("→") == 12
