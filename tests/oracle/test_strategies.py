"""Tests that what the strategies draw is what they promise."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

import cepheid
from cepheid.language.parser import parse
from cepheid.testing.oracle import column_names, evaluate
from cepheid.testing.query_strategies import cases
from cepheid.testing.strategies import all_patterns, all_streams, patterns, schemas, streams

if TYPE_CHECKING:
    from cepheid.testing.query_strategies import Case


@given(cases())
def test_queries_pass_the_binder(case: Case) -> None:
    cepheid.query(case.query, schema=case.schema)


@given(cases(events_max=5))
def test_the_oracle_answers_every_query_in_the_promised_columns(case: Case) -> None:
    query = parse(case.query)
    names = column_names(query)
    assert all(list(row) == names for row in evaluate(query, case.events))


@given(st.data())
def test_streams_come_in_order_and_have_the_schema(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    events = data.draw(streams(schema))
    times = [int(str(event["ts"])) for event in events]
    assert times == sorted(times)
    assert all(set(event) == set(schema) for event in events)


@given(patterns())
def test_patterns_can_be_read(text: str) -> None:
    cepheid.query(f"PATTERN {text}")


def test_all_patterns_are_different_and_can_be_read() -> None:
    texts = list(all_patterns("AB", 2))
    # Types; a suffix or two parts; and so on: see the doctest for one type.
    assert len(texts) == 2 + 14 + 170
    assert len({parse(f"PATTERN {text}").pattern for text in texts}) == len(texts)
    for text in texts:
        cepheid.query(f"PATTERN {text}")


def test_all_streams_are_there() -> None:
    found = list(all_streams("AB", 3))
    # Each of n events has one of two types, and each but the first may tie with the one before.
    assert len(found) == 1 + 2 + 4 * 2 + 8 * 4
    assert len({repr(events) for events in found}) == len(found)
    for events in found:
        times = [int(str(event["ts"])) for event in events]
        assert all(a <= b for a, b in itertools.pairwise(times))
