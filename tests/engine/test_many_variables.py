"""As many variables as a pattern may have, in everything that runs one; one more is E314."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import cepheid
from cepheid.kinds.situation.bind import DEFINITIONS_MAX
from cepheid.patterns.bind_pattern import VARIABLES_MAX

TAILS = {
    "linear": "",
    "contiguous": "SEMANTICS contiguous",
    "next": "SEMANTICS next",
    "edge": "WHERE v0.x <= NEXT(v1).x",
    "next edge": "WHERE v0.x <= NEXT(v1).x SEMANTICS next",
    "previous": "WHERE v0.x <= NEXT(v1).x SEMANTICS contiguous",
    "pairwise": "WHERE v0.x * v1.x > 0",
    "global": "WHERE FIRST(v0).x <= LAST(v1).x",
    "local": "WHERE v0.x > 0",
    "sliding": "WITHIN 1000 us SLIDE 500 us",
    "trailing": "WITHIN 1000 us",
}


def events_of(count: int) -> pa.Table:
    types = [f"T{n}" for n in range(count)]
    return pa.table({"ts": range(count), "type": types, "x": [1] * count})


def pattern_of(count: int, *, last: str = "") -> str:
    return f"PATTERN SEQ({', '.join(f'T{n} v{n}' for n in range(count))}{last})"


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
@pytest.mark.parametrize("shown", ["RETURN COUNT(*)", "RETURN MATCHES"])
def test_patterns(shown: str, tail: str) -> None:
    events = events_of(VARIABLES_MAX)
    found: Any = cepheid.query(f"{shown} {pattern_of(VARIABLES_MAX)} {tail}").run(events)
    if shown == "RETURN MATCHES":
        assert [len(row) for row in found["events"].to_pylist()] == [VARIABLES_MAX]
    else:
        assert set(found["count"].to_pylist()) == {1}


def test_negated_variables_count_too() -> None:
    negated = ", NOT T62 n"
    text = f"RETURN COUNT(*) {pattern_of(VARIABLES_MAX - 1, last=negated)}"
    assert len(cepheid.query(text).run(events_of(VARIABLES_MAX))) == 0
    assert len(cepheid.query(text).run(events_of(VARIABLES_MAX - 1))) == 1


def test_workloads_and_live_rules() -> None:
    events = events_of(VARIABLES_MAX)
    rules = cepheid.workload([f"RETURN COUNT(*) {pattern_of(VARIABLES_MAX)}"] * 2)
    expected = [{"query": "q1", "count": 1.0}, {"query": "q2", "count": 1.0}]
    assert rules.run(events).to_pylist() == expected
    live = rules.live(events.schema)
    live.feed(events)
    assert live.close().to_pylist() == expected


@pytest.mark.spark
def test_on_spark(spark: SparkSession) -> None:
    frame = spark.createDataFrame(events_of(VARIABLES_MAX))
    for shown in ("RETURN COUNT(*)", "RETURN MATCHES"):
        text = f"{shown} {pattern_of(VARIABLES_MAX)} WHERE [x]"
        assert len(cepheid.query(text).run(frame).toArrow()) == 1


@pytest.mark.parametrize("last", ["T63 v63", "NOT T63 v63", "NOT (T63 v63 OR T64 v64)"])
def test_one_more_is_refused_before_any_event_comes(last: str) -> None:
    for text in (
        f"RETURN COUNT(*) {pattern_of(VARIABLES_MAX, last=f', {last}')}",
        f"RETURN MATCHES {pattern_of(VARIABLES_MAX, last=f', {last}')}",
    ):
        with pytest.raises(cepheid.BindError) as caught:
            cepheid.query(text)
        assert [d.code for d in caught.value.diagnostics] == ["E314"]
        with pytest.raises(cepheid.BindError, match="more than 63 variables"):
            cepheid.workload([text])


def test_as_many_situations_as_a_query_may_define() -> None:
    names = [f"S{n}" for n in range(DEFINITIONS_MAX)]
    defined = ", ".join(f"{name} AS x > {n}" for n, name in enumerate(names))
    q = cepheid.query(f"DEFINE {defined} SITUATIONS {', '.join(names)}")
    events = pa.table({"ts": range(4), "x": [0, 70, 60, 0]})
    found = q.run(events).to_pylist()
    assert {row["situation"] for row in found} == set(names)
    assert {row["situation"]: row["te"] for row in found}["S63"] == 2
