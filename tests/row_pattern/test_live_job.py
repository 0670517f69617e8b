"""The job of a live clause, micro-batch by micro-batch: its bytes, late rows, and other states."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.row_pattern import reference
from tests.row_pattern.test_live import local, seeing, tables
from tests.row_pattern.test_reference import SCHEMA, clauses, same

import cepheid
from cepheid.jobs.bucket import Outcome
from cepheid.jobs.local_jobs import local_job
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.work import Work
from cepheid.kinds import table as kinds
from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.live_plan import plan_live
from cepheid.kinds.row_pattern.recognize import result_schema
from cepheid.kinds.row_pattern.statement import read_statement
from cepheid.plans.plan import Plan, RowPatternPlan

END = 1000
"""A time behind all rows, and behind the length of WITHIN after them."""
DELAY_S = 2
"""Whole numbers are seconds, and rows may be so late."""


def work_of(clause: str) -> Work:
    statement = read_statement(f"SELECT m0 FROM e {clause} AS m WHERE m0 > 1")
    plan = bind_clause(statement.sites[0].clause, SCHEMA.names, statement.text)
    schema = pa.schema([SCHEMA.field(name) for name in plan.read_columns])
    results = result_schema(plan, schema)
    live = plan_live(statement, plan, schema, "UTC")
    return Work.of(live, schema, results, 1, delay=DELAY_S * 1_000_000)


def run(work: Work, batches: list[list[dict[str, Any]]]) -> tuple[bytes, list[Outcome]]:
    """Take micro-batches of rows as they arrive, and at last a time behind all of them."""
    data: bytes | None = None
    told = []
    for rows in [*batches, []]:
        latest = max((row["t"] for row in rows), default=END)
        table = pa.Table.from_pylist(rows, schema=SCHEMA).select(work.schema.names)
        data, outcome = turn(live_job(work), work, data, [table], latest)
        told.append(outcome)
    assert data is not None
    return data, told


def on_time(batches: list[list[dict[str, Any]]]) -> tuple[list[dict[str, Any]], int]:
    """Return the rows that are not late, and how many are."""
    kept, late, until = [], 0, -END
    for rows in batches:
        kept += [row for row in rows if row["t"] >= until]
        late += sum(row["t"] < until for row in rows)
        until = max([until, *(row["t"] - DELAY_S for row in rows)])
    return kept, late


@given(clauses(local, live=True) | clauses(seeing, live=True), st.lists(tables, max_size=4))
def test_micro_batches_give_what_the_clause_gives(
    text: str, batches: list[list[dict[str, Any]]]
) -> None:
    clause = read_statement(f"SELECT * FROM e {text}").sites[0].clause
    kept, late = on_time(batches)
    try:
        expected = reference.recognize(clause, kept)
    except reference.SkipError:
        return
    _, told = run(work_of(text), batches)
    assert sum(outcome.late for outcome in told) == late
    found = [row for outcome in told for row in outcome.results.to_pylist()]
    for key in {1, 2} if "PARTITION" in text else {None}:
        mine = [row for row in found if key in (None, row.get("g"))]
        theirs = [row for row in expected if key in (None, row.get("g"))]
        message = f"{text}\n{batches}\nfound    {mine}\nexpected {theirs}"
        assert same(mine, theirs[: len(mine)]), message
        assert len(mine) == len(theirs) or told[-1].partitions, message


@given(clauses(local, live=True) | clauses(seeing, live=True), tables)
def test_the_step_function_gives_all_matches_at_the_end(
    text: str, rows: list[dict[str, Any]]
) -> None:
    clause = read_statement(f"SELECT * FROM e {text}").sites[0].clause
    try:
        expected = reference.recognize(clause, rows)
    except reference.SkipError:
        return
    work = work_of(text)
    table = pa.Table.from_pylist(rows, schema=SCHEMA).select(work.schema.names)
    found = local_job(work.planned()).answer_table(table, 3).to_pylist()
    assert same(found, expected), f"{text}\n{rows}\nfound    {found}\nexpected {expected}"


FALLS = """MATCH_RECOGNIZE (PARTITION BY g ORDER BY t MEASURES COUNT(*) AS m0
    PATTERN (A B+) WITHIN 5 DEFINE B AS x < PREV(x))"""
ROWS = [{"g": 1, "t": 0, "x": 3, "y": 0}, {"g": 1, "t": 1, "x": 2, "y": 0}]


def test_the_kind_is_in_the_table() -> None:
    assert RowPatternPlan in {kind.plans for kind in kinds.KINDS}


def test_the_plan_travels_without_the_text_around_the_clause() -> None:
    plan = Plan.from_json(work_of(FALLS).plan)
    assert isinstance(plan, RowPatternPlan)
    assert plan.what == "a row pattern"
    assert plan.text == f"SELECT * FROM e {FALLS}"
    assert (plan.time, plan.tick_ns, plan.columns) == ("t", 10**9, ("g", "t", "x"))


def test_counts_tell_of_keys_that_are_kept() -> None:
    work = work_of(FALLS)
    data, first = turn(live_job(work), work, None, [pa.Table.from_pylist(ROWS).drop("y")], 4)
    assert (first.events, first.partitions, first.open_windows, first.buffered) == (2, 1, 1, 0)
    assert len(first.results) == 0
    _, last = turn(live_job(work), work, data, [], 8)
    assert last.results.to_pylist() == [{"g": 1, "m0": 2}]
    assert (last.partitions, last.open_windows) == (0, 0)


def test_the_state_of_another_clause_is_refused() -> None:
    data, _ = run(work_of(FALLS), [ROWS])
    other = work_of(FALLS.replace("WITHIN 5", "WITHIN 6"))
    with pytest.raises(cepheid.DataError, match="another row pattern") as caught:
        turn(live_job(other), other, data, [], END)
    assert caught.value.diagnostics[0].code == "E524"


def test_a_damaged_state_is_refused() -> None:
    work = work_of(FALLS)
    job = live_job(work)
    data = bytearray(job.write(job.start()))
    data[-3] ^= 1
    with pytest.raises(cepheid.DataError) as caught:
        job.read(bytes(data))
    assert caught.value.diagnostics[0].code == "E546"
