"""Golden files on Spark itself: real micro-batches, out of order, give the rows of a batch run.

All golden files go through the same turns without Spark (``test_stream_state.py``); these few, one
for each kind of window, evaluator and semantics, also go through its shuffle and its state store.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.amount import some
from tests.runtime.cases import golden_cases, same
from tests.runtime.test_stream import cut, read_stream, write_files
from tests.runtime.test_stream_state import disorder, expected_of, shuffled, windowed

from cepheid.api import CompiledQuery
from cepheid.plans.plan import TrendPlan, WindowKind

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASES = 8
DELAY = 3_000_000
DAY = 86_400_000_000


def chosen() -> dict[str, tuple[CompiledQuery, pa.Table]]:
    """Return a golden file for each kind of window, evaluator and semantics."""
    found: dict[tuple[str, ...], tuple[str, CompiledQuery, pa.Table]] = {}
    for case in golden_cases():
        compiled = windowed(case)
        if compiled is None or not case.rows:
            continue
        plan = compiled.with_schema(case.events.schema).plan
        # Windows counted in events would count the event that ends the test, too.
        if isinstance(plan, TrendPlan) and plan.window.kind is not WindowKind.COUNT:
            kind = (
                plan.window.kind.value,
                plan.choice.evaluator.value,
                plan.semantics.value,
            )
            found.setdefault(kind, (case.name, compiled, case.events))
    return {name: (compiled, events) for name, compiled, events in list(found.values())[:CASES]}


def last_event(events: pa.Table) -> pa.Table:
    """Return an event that fits no query, after all windows of the others."""
    row = events.slice(len(events) - 1).to_pylist()[0]
    row |= {"ts": row["ts"] + 60 * DAY, "type": "Last"}
    return pa.Table.from_pylist([row], schema=events.schema)


@pytest.mark.slow
def test_golden_files_in_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    cases = chosen()
    assert len(cases) >= 6
    cases = {name: cases[name] for name in some([*cases], 2)}
    rows: dict[str, list[pa.Table]] = {name: [] for name in cases}
    running = []

    def keep(name: str) -> Any:
        def take(batch: DataFrame, _number: int) -> None:
            rows[name].append(batch.toArrow())

        return take

    for name, (compiled, events) in cases.items():
        plan = compiled.with_schema(events.schema).plan
        mixed = shuffled(events, disorder(plan, DELAY), len(name))
        folder = write_files(tmp_path / name, [*cut(mixed, 2), last_event(events)])
        result = compiled.stream(read_stream(spark, folder, 1), watermark="3 seconds")
        writer = result.writeStream.foreachBatch(keep(name)).trigger(availableNow=True)
        place = str(tmp_path / f"{name}-checkpoint")
        running.append(writer.option("checkpointLocation", place).start())
    for live in running:
        live.awaitTermination()
    for name, (compiled, events) in cases.items():
        expected = expected_of(compiled.with_schema(events.schema).plan, events)
        assert expected
        assert same(pa.concat_tables(rows[name]), expected), name
