"""A stream cut anywhere, summarised and multiplied gives what one pass over it gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amount import share
from tests.runtime.cases import same
from tests.runtime.test_spark import events_of

from cepheid.api import query
from cepheid.jobs.kind import needs_of
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.program.partials import rows_from_table, rows_to_table
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows import summaries
from cepheid.plans.plan import Plan, TrendPlan
from cepheid.runtimes.local import run_table

QUERIES = [
    "RETURN key, COUNT(*), AVG(A.x), MIN(B.x) PATTERN (SEQ(A+, B))+ GROUP-BY key",
    "RETURN COUNT(*) PATTERN SEQ(A, B?, C) SEMANTICS skip-till-next-match WHERE [key]",
    "RETURN COUNT(*) PATTERN SEQ(A, B+) SEMANTICS contiguous WHERE [key] AND A.x > 0.3",
    "RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A, NOT C, B) TIES arrival",
    "RETURN sector, COUNT(*) PATTERN SEQ(A, B) AND SEQ(B, C) WHERE [key] GROUP-BY sector",
    "RETURN COUNT(*), COUNT(A) PATTERN SEQ(A+, B) WHERE [sector] NUMBERS exact",
    "RETURN LOG2(COUNT(*)) PATTERN A+",
]
WINDOWS = ["", "WITHIN 200 us SLIDE 200 us", "WITHIN 300 us SLIDE 100 us"]


def composed(plan: Plan, events: pa.Table, cuts: list[int]) -> pa.Table:
    """Summarise the pieces of a stream, each as a task does, and multiply."""
    times = events["ts"].cast(pa.int64()).to_numpy()
    # Events of one time are not torn apart; Spark's ranges share none.
    places = sorted({int(np.searchsorted(times, times[c % len(times)])) for c in cuts})
    composer = summaries.Composer(lower(TrendPlan.of(plan)))
    for begin, end in zip([0, *places], [*places, len(events)], strict=True):
        job = lower(TrendPlan.of(plan))
        summariser = summaries.Summariser(job)
        for offset in range(begin, end, 7):
            summariser.feed(events.slice(offset, min(7, end - offset)))
        keys, found = summariser.close()
        every = np.ones(len(keys), np.bool_)
        data = summaries.stretch_to_bytes(job, keys, found, events.schema, every)
        if data:
            composer.add(*summaries.stretch_from_bytes(data))
    job = lower(TrendPlan.of(plan))
    rows = rows_to_table(job, composer.finish(), composer.keys, events.schema)
    return build_table(job, *rows_from_table(job, rows), events.schema)


@share(4)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("text", QUERIES)
@settings(max_examples=12)
@given(
    cuts=st.lists(st.integers(0, 1000), max_size=4),
    seed=st.integers(0, 100),
    count=st.integers(1, 60),
    long_panes=st.booleans(),
)
def test_cut_anywhere(
    text: str,
    window: str,
    cuts: list[int],
    seed: int,
    count: int,
    long_panes: bool,  # noqa: FBT001
) -> None:
    events = events_of(count, keys=3, seed=seed)
    plan = query(f"{text} {window}").with_schema(events.schema).plan
    assert not needs_of(plan).not_composed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summaries, "PANE_EVENTS_MIN", 0 if long_panes else 4096)
        result = composed(plan, events, cuts)
    assert same(result, run_table(plan, events).to_pylist())


def test_times_before_the_epoch_and_numbers_beyond_doubles() -> None:
    events = pa.table({"ts": pa.array(range(-1500, 1500)), "type": ["A"] * 3000})
    for window in ("", "WITHIN 2 ms SLIDE 1 ms"):
        plan = query(f"RETURN LOG2(COUNT(*)) PATTERN A+ {window}").with_schema(events.schema).plan
        assert same(composed(plan, events, [700, 1499]), run_table(plan, events).to_pylist())


@pytest.mark.parametrize(
    "pattern", ["SEQ(A+, B)", "SEQ(B, A+)", "(SEQ(A+, B))+", "SEQ(A, NOT C, B)"]
)
@pytest.mark.parametrize("semantics", ["any", "skip-till-next-match"])
def test_lanes_of_very_different_sizes(pattern: str, semantics: str) -> None:
    events = pa.table(
        {"ts": range(2400), "type": list("AAABAAAACA") * 240, "x": [n % 9 for n in range(2400)]}
    )
    text = f"RETURN LOG2(COUNT(*)), AVG(A.x), MIN(A.x), MAX(B.x) PATTERN {pattern}"
    plan = query(f"{text} SEMANTICS {semantics}").with_schema(events.schema).plan
    expected = run_table(plan, events).to_pylist()
    for cuts in ([], [900], [3, 800, 801, 2000]):
        assert same(composed(plan, events, cuts), expected)
