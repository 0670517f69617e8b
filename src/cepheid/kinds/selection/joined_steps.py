"""Aggregates over the pairs of a join as a step function: the join's step, then the windows' step.

A pair is at the time of its later event, which is the one that has just come, so the pairs of a
step are never before a window that has ended.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from cepheid.jobs.microbatch import Size
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.kinds.selection.pairs import following
from cepheid.kinds.selection.steps import JoinSteps, WindowSteps
from cepheid.kinds.selection.windows import Stretches
from cepheid.plans.plan import SelectPlan

FORMAT = Format("joined", 1, "a JOIN")


class _Both(Meant):
    """The states of the join and of the windows."""

    join: bytes
    windows: bytes


class JoinedState(NamedTuple):
    """The events that wait, and the open windows."""

    join: list[pa.Table]
    windows: Stretches | None


class JoinedSteps(NamedTuple):
    """A join whose pairs are aggregated."""

    join: JoinSteps
    windows: WindowSteps

    @staticmethod
    def of(plan: SelectPlan, schema: pa.Schema) -> JoinedSteps:
        """Create the steps over events of both streams."""
        join, then = JoinSteps.of(plan, schema), following(plan)
        return JoinedSteps(join, WindowSteps(then, join.nothing().schema, then.select))

    @property
    def plan(self) -> SelectPlan:
        """Return the plan."""
        return self.join.plan

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return self.join.batch_rows

    def start(self) -> JoinedState:
        """Create the state before the first event."""
        return JoinedState(self.join.start(), self.windows.start())

    def step(self, state: JoinedState, events: pa.Table) -> tuple[JoinedState, pa.Table]:
        """Pair events, and add the pairs to windows."""
        return self._aggregated(state, *self.join.step(state.join, events))

    def met(self, state: JoinedState, fresh: list[pa.Table]) -> tuple[JoinedState, pa.Table]:
        """Pair the new events of each stream, and add the pairs to windows."""
        return self._aggregated(state, *self.join.met(state.join, fresh))

    def _aggregated(
        self, state: JoinedState, join: list[pa.Table], pairs: pa.Table
    ) -> tuple[JoinedState, pa.Table]:
        windows, rows = self.windows.step(state.windows, pairs)
        return JoinedState(join, windows), rows

    def advance(self, state: JoinedState, until: int) -> tuple[JoinedState, pa.Table]:
        """Close the windows that end by a time."""
        windows, rows = self.windows.advance(state.windows, until)
        return JoinedState(self.join.forget(state.join, until), windows), rows

    def finish(self, state: JoinedState) -> tuple[JoinedState, pa.Table]:
        """Close all windows."""
        windows, rows = self.windows.finish(state.windows)
        return JoinedState(state.join, windows), rows

    def forget(self, state: JoinedState, until: int) -> JoinedState:
        """Forget events that no later one is near enough to."""
        return state._replace(join=self.join.forget(state.join, until))

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self.windows.nothing()

    def read(self, data: bytes) -> JoinedState:
        """Deserialize a state; E524 if it belongs to another query."""
        saved = read_own(FORMAT, data, _Both, (meaning_of(self.plan),), text_of(self.plan))
        return JoinedState(self.join.read(saved.join), self.windows.read(saved.windows))

    def write(self, state: JoinedState) -> bytes:
        """Serialize a state."""
        both: Any = self.join.write(state.join), self.windows.write(state.windows)
        return write_state(FORMAT, _Both((meaning_of(self.plan),), *both))

    def size(self, state: JoinedState) -> Size:
        """Count the groups and the open windows."""
        return self.windows.size(state.windows)
