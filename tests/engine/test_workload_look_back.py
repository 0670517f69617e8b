"""Queries with common edge predicates run together, and give what each gives alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.comparison import same_rows
from tests.engine.test_linear import SCHEMA, runnable
from tests.engine.test_workload import TRAILING, WINDOWS, check, rows_of

from cepheid.api import query
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.workload import look_back_run
from cepheid.kinds.workload.look_back_system import choose_passes
from cepheid.kinds.workload.sharing import SharedPlan, share
from cepheid.plans.plan import TrendPlan
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, streams
from cepheid.workloads import workload

pytestmark = pytest.mark.timeout(1800)  # kernels compile on first use

PATTERNS = [
    "A+", "SEQ(B, A+)", "SEQ(A+, C)", "SEQ(B, A+, C)", "SEQ(C, A+)", "SEQ(B OR C, A+)",
    "(SEQ(A+, B))+", "SEQ(A x, A+)", "SEQ(A+, A z, C)", "SEQ(A+, B, A y+)",
    "SEQ(B, NOT C, A+)", "SEQ(A+, NOT C, B)", "SEQ(NOT C, A+)", "SEQ(A+, NOT C)",
    "SEQ(NOT C, A+, NOT (B OR D))", "SEQ(B, NOT A n, A+)", "SEQ(NOT C c, B, NOT C d, A+, B e)",
    "(SEQ(A+, NOT C, B))+", "SEQ(A+, NOT B)", "A+ WITHOUT C", "SEQ(B, NOT SEQ(C, D), A+)",
]  # fmt: skip
AGGREGATES = [
    "", ", SUM(A.price)", ", COUNT(A), AVG(A.volume)", ", MIN(A.price)",
    ", MAX(A.volume), COUNT(A)",
]  # fmt: skip
GROUPS = [("", ""), ("[key] AND ", "GROUP-BY key"), ("[zone, key] AND ", "GROUP-BY zone")]


def planned(texts: list[str]) -> SharedPlan:
    """Plan queries as a workload."""
    plans = [TrendPlan.of(query(text, schema=SCHEMA).plan) for text in texts]
    return share([f"q{n}" for n in range(len(texts))], plans)


@st.composite
def queries_with_a_common_predicate(
    draw: st.DrawFn, windows: Sequence[str] = WINDOWS, groups: Sequence[tuple[str, str]] = GROUPS
) -> list[str]:
    """Draw queries that have A → A with one edge predicate in common."""
    operator = draw(choice([">", "<", ">=", "<=", "=", "<>"]))
    attribute = draw(choice(["price", "volume"]))
    where, group = draw(choice(groups))
    aggregates = draw(choice(AGGREGATES))
    window = draw(choice(windows))
    ties = draw(choice(["", "", "TIES arrival"]))
    found = []
    for pattern in draw(st.lists(st.sampled_from(PATTERNS), min_size=2, max_size=4)):
        local = draw(choice(["", "", " AND A.volume <> 2", " AND B.price > 1"]))
        trailing = window and "SLIDE" not in window
        emit = draw(choice(["", "EMIT ON EXPIRY"])) if trailing else ""
        local = local if local != " AND B.price > 1" or "B" in pattern else ""
        clauses = [
            f"RETURN COUNT(*){aggregates} PATTERN {pattern}",
            f"WHERE {where}A.{attribute} {operator} NEXT(A).{attribute}{local}",
            *(group, f"{window} {emit}".strip(), ties),
        ]
        found.append(runnable(clauses))
    return found


@given(queries_with_a_common_predicate(), streams(SCHEMA, events_max=9), st.integers(1, 10))
def test_queries_with_a_common_edge_predicate_equal_the_oracle(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int
) -> None:
    check(texts, events, batch_rows)


SEVERAL = [*GROUPS, ("[key] AND ", ""), ("[zone, key] AND ", "GROUP-BY key")]


@given(
    queries_with_a_common_predicate(TRAILING, SEVERAL),
    streams(SCHEMA, events_max=9),
    st.integers(1, 10),
    st.integers(0, 2),
)
def test_rows_at_times_at_which_events_leave_equal_the_oracle(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int, restarts: int
) -> None:
    check(texts, events, batch_rows, restarts)


def prices(count: int) -> pa.Table:
    """Return events of four types and two keys, with whole prices."""
    random = np.random.default_rng(count)
    types = [["A", "A", "B", "C", "D"][n] for n in random.integers(0, 5, count)]
    return pa.table(
        {
            "ts": pa.array(np.sort(random.integers(0, count, count)) * 1_000_000),
            "type": types,
            "key": ["kl"[n] for n in random.integers(0, 2, count)],
            "price": pa.array(random.integers(0, 50, count).astype(np.float64)),
        }
    )


def falling(
    pattern: str, window: str, aggregates: str = "COUNT(*)", group: str = "GROUP-BY key"
) -> str:
    """Write a query for falling prices."""
    where = f"WHERE [key] AND A.price > NEXT(A).price {group}"
    return f"RETURN {aggregates} PATTERN {pattern} {where} {window}"


ENTRIES = ["A+", "SEQ(B, A+)", "SEQ(C, A+)", "SEQ(D, A+)", "SEQ(B, C, A+)"]
EXITS = ["A+", "SEQ(A+, B)", "SEQ(A+, C)", "SEQ(A+, D)", "SEQ(A+, B, C)"]
BOTH = ["SEQ(B, A+, B)", "SEQ(C, A+, C)", "SEQ(D, A+, D)", "SEQ(B, D, A+, B, C)"]
LONG = ["", "WITHIN 40 s SLIDE 40 s", "WITHIN 40 s SLIDE 3 s", "WITHIN 20 s"]
EXPIRING = ["WITHIN 20 s EMIT ON EXPIRY"]
PLACES = [
    *((window, "GROUP-BY key") for window in LONG + EXPIRING),
    # Both partitions are one group.
    *((window, "") for window in LONG[3:] + EXPIRING),
]


@pytest.mark.parametrize(("window", "group"), PLACES)
@pytest.mark.parametrize("aggregates", ["COUNT(*)", "SUM(A.price), COUNT(A)", "MAX(A.price)"])
@pytest.mark.parametrize("patterns", [ENTRIES, EXITS, BOTH, [*ENTRIES, *EXITS]])
def test_together_gives_the_same_bits_as_alone(
    window: str,
    group: str,
    aggregates: str,
    patterns: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(look_back_run, "_one_by_one", None)  # Nothing may need it.
    texts = [falling(pattern, window, aggregates, group) for pattern in patterns]
    events = prices(60 if not window else 150)
    together = workload(texts)
    (found_together,) = together.shared(events.schema).looking
    assert len(found_together.members) == len(texts)
    found = together.run(events, separate=True)
    for name, alone in zip(together.names, together.queries, strict=True):
        assert found[name].equals(alone.run(events)), alone.text


def test_queries_share_the_direction_in_which_they_are_alike() -> None:
    def passes(patterns: list[str]) -> list[tuple[bool, int, int]]:
        (group,) = planned([falling(p, "WITHIN 4 s SLIDE 4 s") for p in patterns]).looking
        found = choose_passes(group.cells)
        return [(p.backwards, len(p.members), len(p.system.looked_up)) for p in found]

    assert passes(EXITS) == [(False, 5, 1)]
    assert passes(ENTRIES) == [(True, 5, 1)]
    assert passes(BOTH) == [(False, 4, 4)]
    # Some begin alike and others end alike.
    many = [f"SEQ({first}, {second}, A+)" for first in "BCD" for second in "BCD"]
    more = [f"SEQ(A+, {first}, {second})" for first in "BCD" for second in "BCD"]
    assert passes([*many, *more]) == [(False, 9, 1), (True, 9, 1)]


REASONS = {
    "RETURN COUNT(*) PATTERN A+ WITHOUT C WHERE A.price > NEXT(A).price": (
        "NOT between neighbours that have a condition"
    ),
    "RETURN COUNT(*) PATTERN SEQ(B, NOT SEQ(C, D), A+) WHERE A.price > NEXT(A).price": (
        "negated patterns of several events"
    ),
    "RETURN COUNT(*) PATTERN SEQ(A+, NOT C) WHERE A.price > NEXT(A).price WITHIN 4 s": (
        "NOT at the end, in windows without SLIDE"
    ),
    "RETURN COUNT(*) PATTERN SEQ(NOT C, A+) WHERE A.price > NEXT(A).price WITHIN 4 s "
    "EMIT ON EXPIRY": "NOT at the beginning, and rows when matches leave",
    "RETURN COUNT(*) PATTERN A+ SEMANTICS next WHERE A.price > NEXT(A).price": "next-match",
    "RETURN COUNT(*) PATTERN A+ WHERE A.price > NEXT(A).price NUMBERS exact": "exact numbers",
    "RETURN COUNT(*) PATTERN A+ WHERE A.price > NEXT(A).price AND A.volume < NEXT(A).volume": (
        "several conditions on the same neighbours"
    ),
    "RETURN COUNT(*) PATTERN A+ WHERE A.price > NEXT(A).price WITHIN 4 EVENTS SLIDE 1 EVENT": (
        "windows counted in events"
    ),
    "RETURN SUM(A.price) PATTERN A+ WHERE A.price > NEXT(A).price": "no other query",
    "RETURN COUNT(*) PATTERN A+ WHERE A.price < NEXT(A).price": "no other query",
}


@pytest.mark.parametrize("text", REASONS)
def test_a_query_that_runs_alone_says_why(text: str) -> None:
    common = "RETURN COUNT(*) PATTERN {} WHERE A.price > NEXT(A).price"
    shared = planned([common.format("A+"), common.format("SEQ(B, A+)"), text])
    (group,) = shared.looking
    assert group.members == (0, 1)
    assert REASONS[text] in shared.alone[2]


def test_the_plan_tells_of_windows_that_are_evaluated_when_events_leave() -> None:
    for window, group, told in [
        ("WITHIN 20 s", "GROUP-BY key", False),
        ("WITHIN 20 s EMIT ON EXPIRY", "GROUP-BY key", True),
        ("WITHIN 20 s", "", True),
        ("WITHIN 20 s SLIDE 5 s", "", False),
    ]:
        texts = [falling(pattern, window, group=group) for pattern in ENTRIES]
        assert ("when events leave" in workload(texts).explain()) == told


def test_numbers_beyond_doubles_run_alone() -> None:
    # 2,000 events that may all follow each other have 2^2000 trends.
    count = 2_000
    events = pa.table(
        {
            "ts": range(count),
            "type": ["B", *["A"] * (count - 1)],
            "key": ["k"] * count,
            "price": [float(-n) for n in range(count)],
        }
    )
    texts = [falling(p, "", "LOG2(COUNT(*)) AS n") for p in ("A+", "SEQ(B, A+)")]
    found = workload(texts).run(events).to_pylist()
    assert [row["n"] for row in found] == [pytest.approx(count - 1)] * 2


def test_the_first_rule_may_go() -> None:
    events = prices(80)
    window = "WITHIN 20 s SLIDE 5 s"
    extra = "RETURN COUNT(*) PATTERN SEQ(B, A+) WHERE [key] AND A.price > NEXT(A).price "
    extra += f"AND B.volume > 1 GROUP-BY key {window}"
    volumes = pa.array(range(len(events)), pa.int64())
    events = events.append_column("volume", volumes)
    rules = {
        "first": extra,
        "second": falling("SEQ(C, A+)", window),
        "third": falling("A+", window),
    }
    live = workload(rules).live(events.schema)
    found: dict[str, list[dict[str, object]]] = {}
    rows_of(live, events.slice(0, 40), found)
    # Its column goes with it.
    live.remove("first")
    rows_of(live, events.slice(40), found)
    for row in live.close().to_pylist():
        found.setdefault(row.pop("query"), []).append(row)
    for name in ("second", "third"):
        tree = query(rules[name], schema=SCHEMA).tree
        expected = evaluate(tree, [*events.to_pylist()])
        actual = [{column: row[column] for column in expected[0]} for row in found[name]]
        assert same_rows(actual, expected), name


@pytest.mark.parametrize("window", LONG[1:] + EXPIRING)
def test_both_tiers_give_the_same_bits(window: str) -> None:
    aggregates = "SUM(A.price) AS s, MIN(A.price) AS least, MAX(A.price) AS most"
    texts = [falling(pattern, window, aggregates) for pattern in (*ENTRIES, *EXITS, *BOTH)]
    events = prices(150)
    found = []
    for tier in (Tier.INTERPRET, Tier.COMPILE):
        with forced(tier):
            found.append(workload(texts).run(events))
    assert len(found[0])
    assert found[0].equals(found[1])


def test_no_events_give_no_rows() -> None:
    texts = [falling(pattern, "WITHIN 20 s SLIDE 5 s") for pattern in ENTRIES]
    assert workload(texts).run(prices(10).slice(0, 0)).num_rows == 0
