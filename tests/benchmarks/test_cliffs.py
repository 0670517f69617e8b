"""Shapes that are cliffs elsewhere: the rows of the oracle over few events."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from benchmarks.cliffs import SHAPES, Shape, answer, events_of
from tests.engine.comparison import same_rows

from cepheid.api import query
from cepheid.testing.oracle import evaluate

TRENDS = {
    name: shape
    for name, shape in SHAPES.items()
    if shape.query.startswith(("RETURN COUNT", "RETURN k"))
}


@pytest.mark.filterwarnings("ignore:no event has the type")
@pytest.mark.parametrize("name", TRENDS)
def test_shapes_count_what_the_oracle_counts(name: str) -> None:
    shape: Shape = SHAPES[name]
    events = events_of(shape, 8)
    compiled = query(shape.query, schema=events.schema)
    rows = [_plain(row) for row in answer(shape, events).to_pylist()]
    assert same_rows(rows, evaluate(compiled.tree, _micros(events)))


def _micros(events: pa.Table) -> list[dict[str, Any]]:
    return [_plain(row) for row in events.to_pylist()]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose times are whole microseconds, as the oracle has them."""
    epoch, micro = dt.datetime(1970, 1, 1), dt.timedelta(microseconds=1)  # UTC
    return {
        name: (value - epoch) // micro if isinstance(value, dt.datetime) else value
        for name, value in row.items()
    }
