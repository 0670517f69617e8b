"""Row patterns over streams: a MATCH_RECOGNIZE clause of `cepheid.sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepheid.jobs.stepped import SteppedKind
from cepheid.plans.meaning import Meaning, times_of
from cepheid.plans.needs import Needs, needs_by_key
from cepheid.plans.plan import RowPatternPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from cepheid.jobs.steps import Steps


class RowPatternKind(SteppedKind):
    """Clauses over streams. SQL texts over tables and stores have several, and run otherwise."""

    plans = RowPatternPlan

    def needs(self, plan: RowPatternPlan) -> Needs:
        """Describe the requirements of a clause for a runtime that splits it into tasks."""
        keys = plan.partition.group_by
        why = "rows of a partition are matched one after the other"
        return needs_by_key(
            keys, why if keys else "without PARTITION BY all rows are one partition"
        )

    def meaning(self, plan: RowPatternPlan) -> Meaning:
        """Collect the parts of a clause that shape its state; its text holds all of them."""
        return {"the time or the order of rows": times_of(plan), "the clause": plan.text}

    def steps(self, plan: RowPatternPlan, schema: pa.Schema) -> Steps[Any]:
        """Make the step function of a clause over rows of a schema."""
        from cepheid.kinds.row_pattern.steps import RowPatternSteps

        return RowPatternSteps.of(plan, schema)
