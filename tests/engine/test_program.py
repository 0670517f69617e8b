"""A program prints as what it does, and grows by what the data shows."""

from __future__ import annotations

from cepheid.api import query
from cepheid.kinds.trend.program.job import lower
from cepheid.plans.plan import TrendPlan


def test_dump_of_the_papers_running_example() -> None:
    (program,) = lower(TrendPlan.of(query("RETURN COUNT(*) PATTERN (SEQ(A+, B))+").plan)).programs
    assert program.dump().splitlines() == [
        "program SEQ(A+, B)+ (skip-till-any-match)",
        "  configurations 0:A, 1:B; 1 start",
        "  0: nothing  no effect",
        "  1: A        v[0] += v[0] + v[1] + 1",
        "  2: B        v[1] += v[0]",
    ]


def test_negation_moves_matches_out_of_reach() -> None:
    (program,) = lower(
        TrendPlan.of(query("RETURN COUNT(*) PATTERN SEQ(A, NOT C, B)").plan)
    ).programs
    (line,) = [line for line in program.dump().splitlines() if ": C " in line]
    assert line.endswith("v[0] -> -1"), "a C drops the matches that wait for a B"


def test_classes_are_added_as_they_appear() -> None:
    (program,) = lower(TrendPlan.of(query("RETURN COUNT(*) PATTERN A+").plan)).programs
    before = len(program.history)
    program.number_codes([(frozenset({"A"}), frozenset({"A"}))])
    assert len(program.history) == before + 1
