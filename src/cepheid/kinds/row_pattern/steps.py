"""MATCH_RECOGNIZE as a step function: matches leave when no later row can change them (§11.3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import STEP_ROWS
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.tables import pack_table, unpack_table
from cepheid.kinds.row_pattern.live_plan import bind_live
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.reach import Reach, reach_of
from cepheid.kinds.row_pattern.recognize import result_schema
from cepheid.kinds.row_pattern.recognize_open import Kept, recognize_open
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
    """The step function of a row pattern over a stream."""

    plan: RowPatternPlan
    clause: MatchPlan
    reach: Reach
    schema: pa.Schema

    @staticmethod
    def of(plan: RowPatternPlan, schema: pa.Schema) -> RowPatternSteps:
        """Make the step function of a plan over rows of a schema."""
        clause = bind_live(plan)
        fields = [(field.name, _in_zone(field.type, plan.zone)) for field in schema]
        return RowPatternSteps(plan, clause, reach_of(clause), pa.schema(fields))

    @property
    def batch_rows(self) -> int:
        """Return the number of rows in one step."""
        return STEP_ROWS

    def start(self) -> RowPatternState:
        """Make the state before the first row."""
        return RowPatternState(Kept(self.schema.empty_table(), np.zeros(0, np.bool_)))

    def step(self, state: RowPatternState, events: pa.Table) -> tuple[RowPatternState, pa.Table]:
        """Keep rows; a later row of equal time may stand before them, so nothing is certain."""
        rows = events.select(self.schema.names).cast(self.schema)
        return state._replace(kept=state.kept.followed_by(rows)), self.nothing()

    def advance(self, state: RowPatternState, until: int) -> tuple[RowPatternState, pa.Table]:
        """Give the matches that no row from a time on can change."""
        return self._settle(state, until)

    def finish(self, state: RowPatternState) -> tuple[RowPatternState, pa.Table]:
        """Give all matches that are left: no row comes any more."""
        return self._settle(state, None)

    def _settle(
        self, state: RowPatternState, until: int | None
    ) -> tuple[RowPatternState, pa.Table]:
        settled = recognize_open(self.clause, self.reach, state.kept, until)
        after = RowPatternState(settled.kept, settled.partitions, settled.undecided)
        return after, pa.concat_tables([self.nothing(), *settled.found])

    def forget(self, state: RowPatternState, until: int) -> RowPatternState:
        """Keep everything: what no match needs was dropped when it was decided."""
        del until
        return state

    def nothing(self) -> pa.Table:
        """Give a result without rows."""
        return result_schema(self.clause, self.schema).empty_table()

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
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, zone)
    return kind
