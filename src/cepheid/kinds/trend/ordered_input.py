"""Check the order of batches, and hold back events that must wait."""

from __future__ import annotations

import pyarrow as pa

from cepheid.kinds.trend.windows.step import admit_events, waits
from cepheid.plans.plan import TrendPlan


class Gate:
    """Accepts sorted batches; events of the last time wait where ties matter."""

    def __init__(self, plan: TrendPlan) -> None:
        self._plan = plan
        self._held: pa.Table | None = None
        self._last: int | None = None

    def admit(self, batch: pa.Table) -> pa.Table | None:
        """Return the events that can be processed now."""
        ready, self._held, self._last = admit_events(
            batch, self._held, self._last, self._plan.time, whole_times=waits(self._plan)
        )
        return ready

    def rest(self) -> pa.Table | None:
        """Return the events that waited."""
        return self._held
