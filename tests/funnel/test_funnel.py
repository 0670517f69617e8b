"""Funnels against the oracle: random streams, cuts and restarts."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import cepheid
from cepheid.errors import DataError
from cepheid.events import files
from cepheid.jobs import local_jobs
from cepheid.jobs.kind import kind_of
from cepheid.jobs.stepped import SteppedKind
from cepheid.language.parser import parse
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice

_FIELDS: dict[str, pa.DataType] = {
    "ts": pa.int64(),
    "type": pa.string(),
    "u": pa.string(),
    "s": pa.int64(),
    "x": pa.int64(),
}
SCHEMA = pa.schema(_FIELDS)


class Case(NamedTuple):
    text: str
    events: list[dict[str, Any]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    pattern = draw(choice(["A", "SEQ(A, B)", "SEQ(A, B, C)", "SEQ(A a, A b, B)"]))
    keys = draw(choice(["u", "s", "u, s"]))
    modes = "".join(
        f", '{mode}'"
        for mode in draw(st.sets(st.sampled_from(["strict_order", "strict_deduplication"])))
    )
    where = draw(choice(["", "WHERE [s]", "WHERE [u]"]))
    if draw(st.booleans()):
        first = "a" if " a," in pattern else "A"
        where += f" {'AND' if where else 'WHERE'} {first}.x > 1"
    window = draw(choice(["", "WITHIN 3 us", "WITHIN 4 us SLIDE 4 us", "WITHIN 5 us SLIDE 2 us"]))
    group = draw(choice(["", "GROUP-BY u", "GROUP-BY s"]))
    ties = draw(choice(["", "TIES arrival"]))
    text = f"RETURN FUNNEL({keys}{modes}) PATTERN {pattern} {where} {group} {window} {ties}"
    event = st.fixed_dictionaries(
        {
            "ts": st.integers(-4, 12) | st.integers(0, 2),
            "type": st.sampled_from("ABCD"),
            "u": st.sampled_from(["p", "q", None]),
            "s": st.sampled_from([1, 2, None]) | st.just(1),
            "x": st.integers(0, 3) | st.none(),
        }
    )
    events = draw(st.lists(event, max_size=14))
    return Case(text, sorted(events, key=lambda e: e["ts"]))


def table_of(events: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(events, SCHEMA)


@pytest.mark.filterwarnings("ignore:no event has the type")  # random events may lack one
@given(cases())
def test_a_funnel_is_what_the_oracle_says(case: Case) -> None:
    rows = cepheid.query(case.text).run(table_of(case.events)).to_pylist()
    assert rows == evaluate(parse(case.text), case.events)


@given(cases(), st.integers(1, 4))
def test_a_restart_after_every_step_changes_nothing(case: Case, size: int) -> None:
    table = table_of(case.events)
    plan = cepheid.query(case.text).with_schema(SCHEMA).plan
    kind = kind_of(plan)
    assert isinstance(kind, SteppedKind)
    job = kind.steps(plan, SCHEMA)
    state, found = job.start(), [job.nothing()]
    for offset in range(0, len(table), size):
        state, rows = job.step(state, table.slice(offset, size))
        found.append(rows)
        state = job.read(job.write(state))
    found.append(job.finish(state)[1])
    assert pa.concat_tables(found).to_pylist() == evaluate(parse(case.text), case.events)


def test_times_are_durations_where_the_source_has_timestamps() -> None:
    events = pa.table(
        {
            "ts": pa.array([0, 60_000_000, 90_000_000], pa.timestamp("us", "UTC")),
            "type": ["view", "cart", "buy"],
            "session": ["a", "a", "a"],
        }
    )
    query = cepheid.query("RETURN FUNNEL(session) PATTERN SEQ(view v, cart c, buy b)")
    rows = query.run(events)
    assert rows.schema.field("median_time").type == pa.duration("us")
    assert [str(row["median_time"]) for row in rows.to_pylist()[1:]] == ["0:01:00", "0:00:30"]


def test_no_events_have_a_table_of_zeros() -> None:
    rows = cepheid.query("RETURN FUNNEL(s) PATTERN SEQ(A, B)").run(table_of([])).to_pylist()
    assert [(row["step"], row["keys"], row["share_of_first"]) for row in rows] == [
        (1, 0, None),
        (2, 0, None),
    ]


def test_too_many_keys_are_refused_before_memory_is() -> None:
    events = pa.table({"ts": range(5000), "type": ["A"] * 5000, "s": range(5000)})
    query = cepheid.query("RETURN FUNNEL(s) PATTERN SEQ(A, B, C)")
    with cepheid.limits(state=100_000), pytest.raises(DataError, match="E519"):
        query.run(events)


def test_texts_of_files_are_read_as_dictionaries(tmp_path: Path) -> None:
    """The rows and their types are those of a table, also where a group is shown."""
    events = [
        {"ts": n, "type": "ABC"[n % 3], "u": f"u{n % 7}", "s": n % 2, "x": n} for n in range(200)
    ]
    table = table_of(events)
    parquet.write_table(table, tmp_path / "events.parquet", row_group_size=30)
    parquet.write_table(table.take(list(range(199, -1, -1))), tmp_path / "unordered.parquet")
    for group in ("", "GROUP-BY u"):
        text = f"RETURN FUNNEL(u) PATTERN SEQ(A, B, C) {group} WITHIN 9 us"
        expected = cepheid.query(text).run(table)
        assert cepheid.query(text).run(tmp_path / "events.parquet").equals(expected)
        with patch.object(local_jobs, "SITUATION_ROWS", 20), patch.object(files, "BATCH_ROWS", 20):
            assert cepheid.query(text).run(tmp_path / "events.parquet").equals(expected)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert cepheid.query(text).run(tmp_path / "unordered.parquet").equals(expected)


def test_the_first_of_equal_times_is_the_first_to_arrive() -> None:
    """§12.3: among events of one time, the order of §1 tells which chain is the first."""
    text = "RETURN FUNNEL(u) PATTERN SEQ(A a, A b) WITHIN 9 us TIES arrival"
    events = [{"ts": ts, "type": "A", "u": "p"} for ts in (4, 5, 5, 6)]
    rows = cepheid.query(text).run(events).to_pylist()
    assert [row["median_time"] for row in rows] == [None, 1]
    defined = evaluate(cepheid.query(text).tree, events, time="ts", type="type")
    assert [row["median_time"] for row in defined] == [None, 1]
