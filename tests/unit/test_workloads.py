"""Workloads as people use them: names, tables, plans, rules, and what goes wrong."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import cepheid
from cepheid.workloads import workload

pytestmark = pytest.mark.timeout(600)  # kernels compile on first use

EVENTS = pa.table(
    {
        "ts": pa.array([1, 2, 3, 4, 5, 6], pa.int64()),
        "type": ["A", "A", "B", "C", "A", "B"],
        "key": ["p", "p", "p", "p", "q", "q"],
        "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    }
)
AB = "RETURN COUNT(*) PATTERN SEQ(A, B)"
AC = "RETURN COUNT(*) PATTERN SEQ(A, C)"
GROUPED = "RETURN key, COUNT(*) PATTERN A GROUP-BY key"


def test_rows_come_query_by_query_with_null_for_other_queries_columns() -> None:
    result = workload({"ab": AB, "by": GROUPED, "ac": AC}).run(EVENTS)
    assert result.column_names == ["query", "count", "key"]
    assert result.to_pylist() == [
        {"query": "ab", "count": 5.0, "key": None},
        {"query": "by", "count": 2.0, "key": "p"},
        {"query": "by", "count": 1.0, "key": "q"},
        {"query": "ac", "count": 2.0, "key": None},
    ]


def test_a_list_of_queries_gets_names() -> None:
    both = workload([cepheid.query(AB), AC])
    assert both.names == ("q1", "q2")
    assert len(both) == 2
    assert set(both.run(EVENTS, separate=True)) == {"q1", "q2"}


def test_every_kind_of_events_gives_the_same_rows(tmp_path: Path) -> None:
    both = workload({"ab": AB, "ac": AC})
    expected = both.run(EVENTS)
    parquet.write_table(EVENTS, tmp_path / "events.parquet")
    assert both.run(tmp_path).equals(expected)
    assert both.run(EVENTS.to_reader(2)).equals(expected)
    assert both.run(EVENTS.combine_chunks().to_batches()[0]).equals(expected)
    frame = both.run(EVENTS.to_pandas())
    assert isinstance(frame, pd.DataFrame)
    assert pa.Table.from_pandas(frame, preserve_index=False)["count"].equals(expected["count"])


def test_unordered_events_are_sorted_with_a_notice(tmp_path: Path) -> None:
    both = workload({"ab": AB, "ac": AC})
    backwards = EVENTS.take(list(range(len(EVENTS)))[::-1])
    with pytest.warns(UserWarning, match="they were sorted"):
        assert both.run(backwards).equals(both.run(EVENTS))
    parquet.write_table(backwards, tmp_path / "events.parquet")
    with pytest.warns(UserWarning, match="they were sorted"):
        assert both.run(str(tmp_path)).equals(both.run(EVENTS))


def test_queries_of_all_kinds_go_together() -> None:
    texts = {
        "ab": AB,
        "ac": AC,
        "edge": "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x",
        "list": "RETURN MATCHES PATTERN SEQ(A, B) WITHIN 3 s SLIDE 3 s",
        "few": "RETURN MATCHES PATTERN SEQ(A, B) LIMIT 1",
        "pairs": "RETURN COUNT(*) PATTERN A AND B",
        "whole": "RETURN COUNT(*) AS n PATTERN SEQ(A, B) NUMBERS exact",
        "last": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 s",
        "events": "RETURN COUNT(*) PATTERN A WITHIN 2 EVENTS SLIDE 1 EVENT",
    }
    every = workload(texts)
    found = every.run(EVENTS, separate=True)
    for name, compiled in zip(every.names, every.queries, strict=True):
        assert found[name].equals(compiled.run(EVENTS)), name


def test_without_merging_the_rows_are_the_same() -> None:
    plain = workload({"ab": AB, "ac": AC}, merge=False)
    assert not plain.shared().groups
    assert plain.run(EVENTS).equals(workload({"ab": AB, "ac": AC}).run(EVENTS))


def test_no_events_give_no_rows_but_the_columns() -> None:
    result = workload({"ab": AB, "by": GROUPED, "ac": AC}).run(EVENTS.slice(0, 0))
    assert (len(result), result.column_names) == (0, ["query", "count", "key"])


# ---------------------------------------------------------------------------------------
# Plans


def test_explain_draws_common_prefixes_and_parts() -> None:
    window = "WITHIN 4 s SLIDE 2 s"
    text = workload(
        {
            "one": f"RETURN COUNT(*) PATTERN SEQ(A, B, C) {window}",
            "two": f"RETURN COUNT(*) PATTERN SEQ(A, B, D) WHERE D.x > 1 {window}",
            "three": f"RETURN COUNT(*) PATTERN SEQ(E, A, NOT N, B) {window}",
            "four": f"RETURN COUNT(*) PATTERN SEQ(E x, A y, B z) {window}",
            "edge": "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x",
        }
    ).explain()
    assert "A, 2 queries" in text
    assert "D[x > 1] → two" in text
    assert "common part of 3: A → B" in text
    assert "alone: edge" in text
    assert "events look at events before them" in text


def test_variables_of_other_names_and_the_same_meaning_are_one() -> None:
    shared = workload(
        [
            "RETURN COUNT(*) PATTERN SEQ(A x, B+) WHERE x.x > 1",
            "RETURN COUNT(*) PATTERN SEQ(A first, B more+) WHERE first.x > 1",
            "RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE A.x > 2",
        ]
    ).shared()
    (group,) = shared.groups
    assert len(group.system.nodes) == 1 + 2 + 2
    assert group.system.outputs[0] == group.system.outputs[1] != group.system.outputs[2]


def test_many_predicates_of_one_type_make_several_groups() -> None:
    rules = [f"RETURN COUNT(*) PATTERN SEQ(A, B) WHERE A.x > {n}" for n in range(24)]
    many = workload(rules)
    assert [len(group.members) for group in many.shared().groups] == [10, 10, 4]
    counts = many.run(EVENTS)["count"].to_pylist()
    assert counts == [row for q in many.queries for row in q.run(EVENTS)["count"].to_pylist()]


# ---------------------------------------------------------------------------------------
# What goes wrong


def test_mistakes_name_the_query() -> None:
    with pytest.raises(cepheid.QuerySyntaxError) as syntax:
        workload({"good": AB, "wrong": "RETURN"})
    assert "--> wrong:" in str(syntax.value)
    with pytest.raises(cepheid.BindError) as bind:
        workload({"good": AB, "wrong": "RETURN COUNT(*) PATTERN A WHERE A.y > 1"}).run(EVENTS)
    assert "--> wrong:" in str(bind.value)


def test_columns_of_different_types_do_not_fit_one_table() -> None:
    both = workload({"ab": AB, "exact": f"{AB} NUMBERS exact"})
    with pytest.raises(cepheid.DataError) as caught:
        both.run(EVENTS)
    assert caught.value.diagnostics[0].code == "E531"
    assert set(both.run(EVENTS, separate=True)) == {"ab", "exact"}
    with pytest.raises(cepheid.DataError, match="the name of the query"):
        workload({"own": "RETURN COUNT(*) AS query PATTERN A"}).run(EVENTS)


def test_whole_numbers_beside_doubles_become_doubles() -> None:
    both = workload({"whole": "RETURN COUNT(*) PATTERN A", "double": AB})
    for queries in (both, workload({"double": AB, "whole": "RETURN COUNT(*) PATTERN A"})):
        rows = queries.run(EVENTS)
        assert rows.schema.field("count").type == pa.float64()
    own = both.run(EVENTS, separate=True)
    assert [own[name].schema.field("count").type for name in own] == [pa.int64(), pa.float64()]
    united = {row["query"]: row["count"] for row in both.run(EVENTS).to_pylist()}
    assert united == {name: table["count"][0].as_py() for name, table in own.items()}
    whole = workload({"a": "RETURN COUNT(*) PATTERN A", "b": "RETURN COUNT(*) PATTERN B"})
    assert whole.run(EVENTS).schema.field("count").type == pa.int64()


def test_no_whole_number_is_rounded_to_fit_one_table() -> None:
    events = pa.table({"ts": [1, 2], "type": ["A", "B"], "x": [2**53 + 1, 1]})
    both = workload({"a": "RETURN MAX(A.x) AS n PATTERN A", "b": "RETURN SUM(B.x) AS n PATTERN B"})
    with pytest.raises(cepheid.DataError, match="would round") as caught:
        both.run(events)
    assert caught.value.diagnostics[0].code == "E531"
    assert both.run(events, separate=True)["a"].to_pylist() == [{"n": 2**53 + 1}]


@pytest.mark.parametrize(
    ("queries", "error"),
    [
        (AB, TypeError),
        ({"n": 1}, TypeError),
        ({1: AB}, TypeError),
        ({}, ValueError),
        ([cepheid.query(AB), cepheid.query(AC, time="t")], ValueError),
    ],
)
def test_wrong_use_is_rejected(queries: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        workload(queries)  # type: ignore[arg-type]  # wrong on purpose


# ---------------------------------------------------------------------------------------
# Rules


def test_rules_come_and_go_on_a_stream() -> None:
    live = workload({"ab": AB, "ac": AC}).live(EVENTS)
    live.feed(EVENTS.slice(0, 2))
    with pytest.raises(ValueError, match="already"):
        live.add(workload({"ab": AC}))
    live.add(workload({"late": AB}))
    live.remove("ac")
    with pytest.raises(KeyError):
        live.remove("ac")
    assert live.names == ["ab", "late"]
    live.feed(EVENTS.slice(2))
    assert live.close().to_pylist() == [
        {"query": "ab", "count": 5.0},
        {"query": "late", "count": 1.0},
    ]


def test_situations_run_beside_trends() -> None:
    texts = {"fast": "DEFINE A AS speed > 70 SITUATIONS A", "any": "RETURN COUNT(*) PATTERN A"}
    shared = workload(texts).shared()
    assert shared.names == ("any",)
    assert list(shared.beside) == ["fast"]
