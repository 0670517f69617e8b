"""MATCH_RECOGNIZE as a step function: matches leave when no later row can change them (§11.3).

A clause that needs the first or the last row of its input is searched at the end of the input.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import STEP_ROWS
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.tables import pack_table, unpack_table
from cepheid.kinds.row_pattern.live_plan import bind_live, select_of, why_not_planned_live
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.query import VIEW
from cepheid.kinds.row_pattern.reach import Reach, reach_of
from cepheid.kinds.row_pattern.recognize import recognize, result_schema
from cepheid.kinds.row_pattern.recognize_open import Kept, recognize_open
from cepheid.kinds.row_pattern.select_tree import Select
from cepheid.kinds.row_pattern.simple_select import run_select
from cepheid.kinds.row_pattern.within import ticks_of
from cepheid.plans.plan import RowPatternPlan

FORMAT = Format("rows", 1, "a row pattern")


class _Snapshot(Meant):
    """The rows that a state keeps, and a bit for each: whether it begins no match any more."""

    rows: bytes
    passed: bytes


class RowPatternState(NamedTuple):
    """Rows that later matches may need, and how many partitions have any, or undecided ones."""

    kept: Kept
    partitions: int = 0
    undecided: int = 0


class RowPatternSteps(NamedTuple):
    """The step function of a row pattern; ``at_end`` if it is searched when no row comes any more.

    ``around`` is the SELECT around the clause.
    """

    plan: RowPatternPlan
    clause: MatchPlan
    reach: Reach
    schema: pa.Schema
    around: Select
    at_end: bool = False

    @staticmethod
    def of(plan: RowPatternPlan, schema: pa.Schema, *, at_end: bool = False) -> RowPatternSteps:
        """Make the step function of a plan over rows of a schema."""
        clause = bind_live(plan)
        around = select_of(plan)
        read = schema.names if plan.columns is None else plan.columns
        fields = [(f.name, _in_zone(f.type, plan.zone)) for f in schema if f.name in read]
        at_end = at_end or why_not_planned_live(plan, schema) is not None
        schema = pa.schema(fields)
        return RowPatternSteps(plan, clause, reach_of(clause), schema, around, at_end)

    @property
    def batch_rows(self) -> int:
        """Return the number of rows in one step."""
        return STEP_ROWS

    @property
    def lag(self) -> int:
        """Return the largest output delay of a row in ticks: the length of WITHIN."""
        kind = self.schema.field(self.plan.time).type
        return ticks_of(self.clause.within, kind) or 0

    def start(self) -> RowPatternState:
        """Make the state before the first row."""
        return RowPatternState(Kept(self.schema.empty_table(), np.zeros(0, np.bool_)))

    def step(self, state: RowPatternState, events: pa.Table) -> tuple[RowPatternState, pa.Table]:
        """Keep rows; a later row of equal time may stand before them, so nothing is certain."""
        rows = events.select(self.schema.names).cast(self.schema)
        return state._replace(kept=state.kept.followed_by(rows)), self.nothing()

    def advance(self, state: RowPatternState, until: int) -> tuple[RowPatternState, pa.Table]:
        """Give the matches that no row from a time on can change."""
        return (state, self.nothing()) if self.at_end else self._settle(state, until)

    def finish(self, state: RowPatternState) -> tuple[RowPatternState, pa.Table]:
        """Give all matches that are left: no row comes any more."""
        if not self.at_end:
            return self._settle(state, None)
        found = recognize(self.clause, state.kept.rows, threads=pa.cpu_count())
        return self.start(), self.shown(found)

    def _settle(
        self, state: RowPatternState, until: int | None
    ) -> tuple[RowPatternState, pa.Table]:
        settled = recognize_open(self.clause, self.reach, state.kept, until)
        after = RowPatternState(settled.kept, settled.partitions, settled.undecided)
        found = pa.concat_tables([self._no_match(), *settled.found])
        return after, self.shown(found)

    def shown(self, matches: pa.Table) -> pa.Table:
        """Give the rows of the SELECT around the clause."""
        return run_select(self.around, {VIEW: matches}, self.plan.text)

    def _no_match(self) -> pa.Table:
        return result_schema(self.clause, self.schema).empty_table()

    def forget(self, state: RowPatternState, until: int) -> RowPatternState:
        """Keep everything: what no match needs was dropped when it was decided."""
        del until
        return state

    def nothing(self) -> pa.Table:
        """Give a result without rows."""
        return self.shown(self._no_match())

    def read(self, data: bytes) -> RowPatternState:
        """Read a state; E524 if it belongs to another query."""
        found = read_own(FORMAT, data, _Snapshot, (meaning_of(self.plan),), text_of(self.plan))
        # The zone of a session may have changed, and moments are the same in every zone.
        rows = unpack_table(found.rows).cast(self.schema)
        bits = np.frombuffer(found.passed, np.uint8)
        return RowPatternState(Kept(rows, np.unpackbits(bits, count=len(rows)).astype(np.bool_)))

    def write(self, state: RowPatternState) -> bytes:
        """Write a state as bytes."""
        rows, passed = state.kept
        bits = np.packbits(passed).tobytes()
        return write_state(FORMAT, _Snapshot((meaning_of(self.plan),), pack_table(rows), bits))

    def size(self, state: RowPatternState) -> Size:
        """Count the partitions that have rows, and those in which a match may have begun."""
        return Size(state.partitions, state.undecided)


def _in_zone(kind: pa.DataType, zone: str) -> pa.DataType:
    if zone and pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, zone)
    return kind
