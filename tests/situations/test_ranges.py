"""Tasks that read ranges of time, and a window before them, together find what is there."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from tests.situations.cases import Case, queries, streams
from tests.situations.test_situations import SCHEMA, table_of

import cepheid
from cepheid.jobs.kind import needs_of
from cepheid.jobs.work import Work
from cepheid.plans.plan import Plan
from cepheid.runtimes import scan
from cepheid.runtimes.local import run_table
from cepheid.runtimes.scan import cut, read_footers, units_of
from cepheid.runtimes.spark.tasks import run_slice
from cepheid.spark.schema import result_schema_of


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return a query of one partition with a window, and a stream."""
    text = draw(queries()).replace("PARTITION BY k", "").replace("WHERE n <> 3", "")
    if "WITHIN" not in text:
        before, returns, after = text.partition("RETURN")
        text = f"{before} WITHIN {draw(st.integers(1, 9))} s {returns}{after}"
    return Case(text, draw(streams(most=20)))


def in_ranges(plan: Plan, table: pa.Table, rows: int, count: int) -> list[dict[str, object]]:
    """Return the rows of all ranges of a file, one after the other."""
    before, after = needs_of(plan).reach
    work = Work.of(plan, table.schema, result_schema_of(plan, table.schema), 1)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "events.parquet")
        parquet.write_table(table, path, row_group_size=rows)
        groups = read_footers([path], "ts").groups
        assert groups is not None
        units = units_of(groups, apart=False)
        pieces = cut(units, count, before=before, after=after, event_before=True)
        batches = [b for n, piece in enumerate(pieces) for b in run_slice(work, piece, n)]
    return [row for batch in batches for row in batch.to_pylist()]


@settings(max_examples=min(settings().max_examples, 100))  # each writes a file
@given(cases(), st.integers(1, 4), st.integers(2, 8))
def test_ranges_of_time_have_the_rows_of_the_whole(case: Case, rows: int, count: int) -> None:
    table = table_of(case.events)
    if not len(table):
        return
    plan = cepheid.query(case.query).with_schema(SCHEMA).plan
    assert needs_of(plan).leads_in
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "SLICE_ROWS_MIN", 1)
        patch.setattr(scan, "SLICE_REACHES", 1e-6)
        found = in_ranges(plan, table, rows, count)
    assert found == run_table(plan, table).to_pylist()


@pytest.mark.parametrize(
    "text",
    [
        "PARTITION BY k DEFINE A AS a, B AS b PATTERN A meets B WITHIN 9 s",
        "WHERE n > 1 DEFINE A AS a, B AS b PATTERN A meets B WITHIN 9 s",
        "DEFINE A AS a, B AS b PATTERN A meets B",
        "DEFINE A AS a SITUATIONS A",
    ],
)
def test_other_queries_are_put_together_by_one_task(text: str) -> None:
    assert not needs_of(cepheid.query(text).with_schema(SCHEMA).plan).leads_in
