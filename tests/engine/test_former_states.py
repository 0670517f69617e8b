"""States of rules that an earlier version ran alone go on alone, with the same rows."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pytest
from tests.engine.comparison import table_of

from cepheid.api import query
from cepheid.kinds.workload.live_rules import RunningRules
from cepheid.kinds.workload.live_snapshot import rules_from_bytes, rules_to_bytes
from cepheid.kinds.workload.sharing import SharedPlan, Shares, share
from cepheid.plans.plan import TrendPlan
from cepheid.testing.harness import stream


class Former(NamedTuple):
    """What versions before did not share, and queries of that kind over a stream."""

    without: Shares
    patterns: tuple[str, ...]
    clauses: str
    events: str


FALLING = "a1(price=5) b2 a3(price=4) a4(price=6) c5 a6(price=3) a7(price=2) b8 a9(price=1)"
CASES = [
    Former(
        Shares.TRAILING,
        ("SEQ(A, B, C)", "SEQ(A, B)", "SEQ(C, A, B)"),
        "WITHIN 6 s",
        "a1 b2 c3 a4 b5 c6 a7 b8",
    ),
    Former(
        Shares.NEGATED_CONTIGUOUS,
        ("SEQ(NOT C, A, B)", "SEQ(A, B)", "SEQ(A, B, NOT C)"),
        "SEMANTICS contiguous WITHIN 6 s SLIDE 3 s",
        "a1 b2 c3 a4 b5 c6 a7 b8",
    ),
    Former(
        Shares.NEGATED_SEQUENCES,
        ("SEQ(A, NOT SEQ(C, D), B)", "SEQ(A+, B)", "SEQ(A, B, NOT SEQ(C, D))"),
        "WITHIN 6 s SLIDE 3 s",
        "a1 c2 b3 a4 d5 b6 a7 c8 a9 b10",
    ),
    Former(
        Shares.EXPIRIES_OF_COUNTS,
        ("SEQ(A, B, C)", "SEQ(A, B)", "SEQ(A, B, NOT C)"),
        "WITHIN 6 s EMIT ON EXPIRY",
        "a1 b2 c3 a4 b5 c6 a7 b8",
    ),
    Former(
        Shares.EDGES,
        ("A+", "SEQ(B, A+)", "SEQ(A+, B)"),
        "WHERE A.price > NEXT(A).price WITHIN 6 s SLIDE 3 s",
        FALLING,
    ),
    Former(
        Shares.NEGATED_EDGES,
        ("SEQ(NOT C, A+)", "SEQ(B, NOT C, A+)", "SEQ(A+, NOT C, B)"),
        "WHERE A.price > NEXT(A).price WITHIN 6 s SLIDE 3 s",
        FALLING,
    ),
    Former(
        Shares.EXPIRIES,
        ("A+", "SEQ(B, A+)", "SEQ(A+, B)"),
        "WHERE A.price > NEXT(A).price WITHIN 6 s EMIT ON EXPIRY",
        FALLING,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.without.name)
def test_a_state_of_rules_that_ran_alone_goes_on(case: Former) -> None:
    table = table_of(stream(case.events))
    texts = [f"RETURN COUNT(*) PATTERN {pattern} {case.clauses}" for pattern in case.patterns]
    if case.without in (Shares.EDGES, Shares.NEGATED_EDGES, Shares.EXPIRIES):
        # Twins have one state.
        texts.append(texts[0].replace("COUNT(*)", "COUNT(*) AS n"))
    plans = [TrendPlan.of(query(text).with_schema(table.schema).plan) for text in texts]
    names = [f"q{n}" for n in range(len(texts))]
    alone = _rows(share(names, plans, without={case.without}), table, groups=0)
    assert alone == _rows(share(names, plans), table, groups=1)
    assert all(alone.values())


def _rows(shared: SharedPlan, table: pa.Table, groups: int) -> dict[str, list[dict[str, object]]]:
    """Run rules with a restart after half of the events; return the rows of every rule."""
    assert len(shared.groups) + len(shared.looking) == groups
    rules = RunningRules(table.schema)
    rules.add(shared)
    parts = [rules.feed(table.slice(0, len(table) // 2))]
    other = rules_from_bytes(rules_to_bytes(rules), table.schema)
    again = other.generations[0].job.shared
    assert len(again.groups) + len(again.looking) == groups
    parts += [other.feed(table.slice(len(table) // 2)), other.finish()]
    return {name: [row for part in parts for row in part[name].to_pylist()] for name in parts[0]}
