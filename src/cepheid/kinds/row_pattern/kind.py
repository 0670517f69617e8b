"""Row patterns over streams: a MATCH_RECOGNIZE clause, in a query or in `cepheid.sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepheid.errors import CepheidError, UnsupportedError
from cepheid.jobs.stepped import SteppedKind
from cepheid.language import tree
from cepheid.patterns.scope import Source
from cepheid.plans.meaning import Meaning, times_of
from cepheid.plans.needs import Needs, needs_by_key
from cepheid.plans.plan import RowPatternPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from cepheid.jobs.derived import Derivation, Splits
    from cepheid.jobs.device_jobs import DeviceJob
    from cepheid.jobs.local_jobs import LocalJob
    from cepheid.jobs.steps import Steps


class RowPatternKind(SteppedKind):
    """One clause over a stream. `cepheid.sql` takes several, over tables and stores."""

    plans = RowPatternPlan
    reads = tree.RowPatternQuery

    def compile(self, query: tree.RowPatternQuery, text: str, source: Source) -> RowPatternPlan:
        """Plan a text with one clause."""
        from cepheid.kinds.row_pattern.query import compile_row_pattern

        try:
            return compile_row_pattern(_alone(query, text), source)
        except CepheidError as error:
            # Of a pipeline, messages show the whole text.
            raise type(error)(error.diagnostics, text) from None

    def needs(self, plan: RowPatternPlan) -> Needs:
        """Describe the requirements of a clause for a runtime that splits it into tasks."""
        keys = plan.partition.group_by
        why = "rows of a partition are matched one after the other"
        return needs_by_key(
            keys, why if keys else "without PARTITION BY all rows are one partition"
        )

    def meaning(self, plan: RowPatternPlan) -> Meaning:
        """Collect the parts of a clause that shape its state; its text holds all of them."""
        from cepheid.kinds.row_pattern.live_plan import text_of_clause

        clause = f"SELECT * FROM {text_of_clause(plan)}"
        return {"the time or the order of rows": times_of(plan), "the clause": clause}

    def rows_meaning(self, plan: RowPatternPlan) -> str:
        """Return the text: of what is around the clause, there is no other form."""
        return plan.text

    def check_live(self, plan: RowPatternPlan) -> None:
        """Refuse a clause that needs the first or the last row of a stream (E405)."""
        from cepheid.kinds.row_pattern.live_plan import why_not_planned_live

        super().check_live(plan)
        # Without the columns of a table, nothing runs yet.
        found = why_not_planned_live(plan) if plan.table_columns else None
        if found is not None:
            raise UnsupportedError([found], plan.text)

    def derive(self, plan: RowPatternPlan) -> Derivation:
        """Plan a clause whose rows are events; E412 or E415 if it is not known when (§15.3)."""
        from cepheid.kinds.row_pattern.derive import derive_row_pattern

        return derive_row_pattern(plan)

    def splits(self, plan: RowPatternPlan) -> Splits:
        """List the attributes by which a stage of a pipeline can be split: PARTITION BY."""
        from cepheid.jobs.derived import Split, Splits
        from cepheid.kinds.row_pattern.query import columns_that_show

        keys = plan.partition.group_by
        return Splits(
            tuple(Split((key,), columns_that_show(plan.text, key, plan.functions)) for key in keys)
        )

    def steps(self, plan: RowPatternPlan, schema: pa.Schema) -> Steps[Any]:
        """Make the step function of a clause over rows of a schema."""
        from cepheid.kinds.row_pattern.steps import RowPatternSteps

        return RowPatternSteps.of(plan, schema)

    def why_not_on_device(self, plan: RowPatternPlan) -> str:
        """Give no reason: the columns of a table decide, and the job looks at them."""
        del plan
        return ""

    def device_job(self, plan: RowPatternPlan) -> DeviceJob:
        """Create the job that a GPU runs: the search of a clause over bounded input."""
        from cepheid.kinds.row_pattern.device import DeviceRowPattern

        return DeviceRowPattern(plan)

    def local_job(self, plan: RowPatternPlan) -> LocalJob:
        """Create the job of a clause over bounded input, which is searched once, at its end."""
        from cepheid.jobs.steps import LocalSteps
        from cepheid.kinds.row_pattern.steps import RowPatternSteps

        return LocalSteps(lambda schema: RowPatternSteps.of(plan, schema, at_end=True))


def _alone(query: tree.RowPatternQuery, text: str) -> str:
    """Return the text of a query in a pipeline; blanks before it keep its places."""
    begin, end = query.span.start, query.span.end
    if (begin, end) == (0, len(text)):
        return text
    return "".join("\n" if c == "\n" else " " for c in text[:begin]) + text[begin:end]
