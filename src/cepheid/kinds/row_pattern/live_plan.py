"""The plan of a clause over a stream, and how to get the clause back from it."""

from __future__ import annotations

import pyarrow as pa

from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.plan import MatchPlan, SearchBounds
from cepheid.kinds.row_pattern.statement import Statement, read_statement
from cepheid.plans.plan import Choice, Evaluator, Granularity, Partition, RowPatternPlan

SECOND_NS = 1_000_000_000


def plan_live(
    statement: Statement, clause: MatchPlan, schema: pa.Schema, zone: str
) -> RowPatternPlan:
    """Plan the one clause of a text, which was checked, over a stream of rows of a schema."""
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
        # Without the text around the clause, which may change between two starts.
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
        zone=zone,
        steps=clause.bounds.steps,
        states=clause.bounds.states,
    )


def bind_live(plan: RowPatternPlan) -> MatchPlan:
    """Bind the clause of a plan to the columns of its table again."""
    (site,) = read_statement(plan.text).sites
    bounds = SearchBounds(plan.steps, plan.states)
    return bind_clause(site.clause, plan.table_columns, plan.text, bounds)
