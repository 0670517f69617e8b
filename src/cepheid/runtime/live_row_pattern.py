"""A live MATCH_RECOGNIZE clause: matches leave when no later row can change them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.engine.tables import pack_table, unpack_table
from cepheid.engine.versions import Format, Meant, meaning_of, read_own, write_state
from cepheid.planner.plan import (
    Choice,
    Evaluator,
    Granularity,
    Partition,
    RowPatternPlan,
)
from cepheid.row_pattern.bind import bind_clause
from cepheid.row_pattern.plan import MatchPlan, SearchBounds
from cepheid.row_pattern.reach import Reach, reach_of
from cepheid.row_pattern.recognize_open import Kept, recognize_open
from cepheid.row_pattern.statement import Statement, read_statement
from cepheid.runtime.bucket import Arrived
from cepheid.runtime.microbatch import Size
from cepheid.runtime.work import Work

FORMAT = Format("rows", 1, "a row pattern")
SECOND_NS = 1_000_000_000


class _Snapshot(Meant):
    """The rows that a state keeps, and a bit for each: whether it begins no match any more."""

    rows: bytes
    passed: bytes


class RowPatternState(NamedTuple):
    """Rows that later matches may need, and how many partitions have any, or undecided ones."""

    kept: Kept
    partitions: int = 0
    undecided: int = 0


class LiveRowPattern(NamedTuple):
    """The job of a row pattern over a stream."""

    plan: RowPatternPlan
    clause: MatchPlan
    reach: Reach
    work: Work
    kind: str = "a row pattern"

    @staticmethod
    def of(work: Work) -> LiveRowPattern:
        """Return the job of a clause, bound to the columns of its table again."""
        plan = RowPatternPlan.from_json(work.plan)
        (site,) = read_statement(plan.text).sites
        bounds = SearchBounds(plan.steps, plan.states)
        clause = bind_clause(site.clause, plan.table_columns, plan.text, bounds)
        return LiveRowPattern(plan, clause, reach_of(clause), work)

    def start(self) -> RowPatternState:
        """Return the state before the first row."""
        return RowPatternState(Kept(self.work.schema.empty_table(), np.zeros(0, np.bool_)))

    def read(self, data: bytes) -> RowPatternState:
        """Return the state that ``write`` wrote; E524 if it belongs to another query."""
        found = read_own(FORMAT, data, _Snapshot, meaning_of(self.plan))
        rows = unpack_table(found.rows)
        bits = np.frombuffer(found.passed, np.uint8)
        return RowPatternState(Kept(rows, np.unpackbits(bits, count=len(rows)).astype(np.bool_)))

    def write(self, state: RowPatternState) -> bytes:
        """Return a state as bytes."""
        rows, passed = state.kept
        bits = np.packbits(passed).tobytes()
        return write_state(FORMAT, _Snapshot(meaning_of(self.plan), pack_table(rows), bits))

    def take(
        self, state: RowPatternState, events: pa.Table, since: int | None, until: int
    ) -> tuple[RowPatternState, list[pa.Table]]:
        """Take rows before a watermark; return those of matches that are certain by it."""
        del since
        settled = recognize_open(self.clause, self.reach, state.kept.followed_by(events), until)
        after = RowPatternState(settled.kept, settled.partitions, settled.undecided)
        return after, [self.work.shown(rows) for rows in settled.found]

    def nothing(self) -> pa.Table:
        """Return a result without rows."""
        return self.work.result_schema.empty_table()

    def forget(self, state: RowPatternState, until: int) -> RowPatternState:
        """Keep everything: rows that no match needs are gone with the matches that took them."""
        del until
        return state

    def measure(self, state: RowPatternState, came: Arrived) -> Size:
        """Return how many partitions have rows, and in how many a match may have begun."""
        del came
        return Size(state.partitions, state.undecided)


def plan_live(statement: Statement, clause: MatchPlan, schema: pa.Schema) -> RowPatternPlan:
    """Return the plan of the clause of a text, which may be live, over rows of a schema."""
    (site,) = statement.sites
    key = clause.order_by[0].column
    text = statement.text[site.span.start : site.span.end]
    keys = ", ".join(clause.partition_by)
    choice = Choice(
        evaluator=Evaluator.ROW_PATTERN,
        granularity=Granularity.EVENT,
        reason="the text has a MATCH_RECOGNIZE clause",
        span=None,
        time="O(places of the pattern) for each row, where conditions see the row alone",
        state="the rows from the first undecided one on",
    )
    return RowPatternPlan(
        text=f"SELECT * FROM {text}",
        time=key,
        type=None,
        tiebreak=(),
        # As everywhere in a clause, a whole number counts seconds.
        tick_ns=SECOND_NS if pa.types.is_integer(schema.field(key).type) else 1000,
        # Rows without a key have a partition too, so no attribute is asked for.
        partition=Partition((), (), clause.partition_by, f"PARTITION BY {keys}" if keys else ""),
        choice=choice,
        columns=clause.read_columns,
        warnings=(),
        table_columns=clause.columns,
        steps=clause.bounds.steps,
        states=clause.bounds.states,
    )
