"""A query that runs live as the only stage of a pipeline."""

from __future__ import annotations

from typing import NamedTuple

from cepheid.events.time_formats import TextTimes
from cepheid.kinds.pipeline.single import as_pipeline
from cepheid.plans.plan import Plan
from cepheid.runtimes.local import CompiledQueryLike


class Staged(NamedTuple):
    """A query whose plan is a pipeline, with the same rows."""

    query: CompiledQueryLike

    @property
    def plan(self) -> Plan:
        """Return the plan."""
        return as_pipeline(self.query.plan)

    @property
    def text(self) -> str:
        """Return the text as the user wrote it."""
        return self.query.plan.text

    @property
    def times(self) -> TextTimes:
        """Return the format of text times."""
        return self.query.times

    def with_schema(self, schema: object) -> Staged:
        """Plan the query for a schema."""
        return Staged(self.query.with_schema(schema))
