"""What a pipeline refuses and what its plan says, where streams meet."""

from __future__ import annotations

import pyarrow as pa
import pytest

import cepheid
from cepheid.errors import BindError

SCHEMA = {"ts": "timestamp", "type": "string", "speed": "double", "k": "string"}
NAMED = "CREATE STREAM Fast AS SELECT k, type AS speed FROM cars WHERE speed > 70;"


def test_a_column_of_two_types_matters_only_where_it_is_read() -> None:
    events = pa.table(
        {
            "ts": pa.array([1, 2, 3], pa.timestamp("us")),
            "type": ["Car", "Truck", "Car"],
            "speed": [80.0, 10.0, 20.0],
            "k": ["p", "p", "q"],
        }
    )
    pattern = "RETURN COUNT(*) PATTERN SEQ(Fast f, Car c)"
    # Fast is at 1; the Car at 3 follows it.
    assert cepheid.query(f"{NAMED} {pattern}").run(events)["count"].to_pylist() == [1]
    assert cepheid.query(f"{NAMED} {pattern} WHERE [k]", schema=SCHEMA).run(events).num_rows == 0
    for reading in (f"{pattern} WHERE c.speed > 3", "RETURN MATCHES PATTERN SEQ(Fast f, Car c)"):
        with pytest.raises(BindError, match="E355"):
            cepheid.query(f"{NAMED} {reading}").run(events)
        with pytest.raises(BindError, match="E355"):
            cepheid.query(f"{NAMED} {reading}", schema=SCHEMA)


def test_a_deadline_moves_the_time_of_derived_events() -> None:
    unpaid = "SEQ(Order o, NOT Payment p WITHIN 30 minutes)"
    text = f"""
        CREATE STREAM Unpaid AS RETURN MATCHES PATTERN {unpaid} WHERE [k];
        CREATE STREAM Hour AS RETURN k, COUNT(*) AS n PATTERN {unpaid} WHERE [k] GROUP-BY k
            WITHIN 1 hour SLIDE 1 hour;
        RETURN COUNT(*) PATTERN SEQ(Unpaid u, Hour h)"""
    told = cepheid.query(text).explain()
    assert "an event for every row, at 30 minutes after its last event" in told
    assert "an event for every row, at 30 minutes after `window_end`" in told
    assert "at 30 minutes after its last event" in cepheid.query(text).explain(format="mermaid")
