"""The plan of a clause over a stream, and how to get the clause back from it."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from cepheid.errors import Diagnostic, Span
from cepheid.jobs.derived import TIME
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.live_rules import why_not_live
from cepheid.kinds.row_pattern.plan import MatchPlan, SearchBounds
from cepheid.kinds.row_pattern.query import choice, partition_of, select_around
from cepheid.kinds.row_pattern.select_tree import Item, Select
from cepheid.kinds.row_pattern.statement import Statement, read_statement
from cepheid.plans.plan import RowPatternPlan

SECOND_NS = 1_000_000_000


def plan_live(
    statement: Statement, clause: MatchPlan, schema: pa.Schema, zone: str
) -> RowPatternPlan:
    """Plan the one clause of a text, which was checked, over a stream of rows of a schema."""
    (site,) = statement.sites
    key = clause.order_by[0].column
    text = statement.text[site.span.start : site.span.end]
    return RowPatternPlan(
        # Without the text around the clause, which may change between two starts.
        text=f"SELECT * FROM {text}",
        time=key,
        type=None,
        tiebreak=(),
        # As everywhere in a clause, a whole number counts seconds.
        tick_ns=SECOND_NS if pa.types.is_integer(schema.field(key).type) else 1000,
        partition=partition_of(clause.partition_by),
        choice=choice(),
        columns=clause.read_columns,
        warnings=(),
        functions=clause.functions,
        table_columns=clause.columns,
        zone=zone,
        steps=clause.bounds.steps,
        states=clause.bounds.states,
    )


def bind_live(plan: RowPatternPlan) -> MatchPlan:
    """Bind the clause of a plan to the columns of its table again."""
    (site,) = read_statement(plan.text, plan.functions).sites
    bounds = SearchBounds(plan.steps, plan.states)
    found = bind_clause(site.clause, plan.table_columns, plan.text, bounds)
    return msgspec.structs.replace(found, time=TIME) if plan.timed else found


def select_of(plan: RowPatternPlan) -> Select:
    """Parse the SELECT around the clause of a plan, with the time of rows if it has one."""
    around = select_around(read_statement(plan.text, plan.functions))
    if not plan.timed or any(item.expression is None for item in around.items):
        return around
    time = Item(TIME, tree.Column(TIME, None, span=Span(0, 0)))
    return msgspec.structs.replace(around, items=(*around.items, time))


def text_of_clause(plan: RowPatternPlan) -> str:
    """Return the table and the clause, without the text around them."""
    (site,) = read_statement(plan.text, plan.functions).sites
    return plan.text[site.span.start : site.span.end]


def why_not_planned_live(
    plan: RowPatternPlan, schema: pa.Schema | None = None
) -> Diagnostic | None:
    """Return the first reason why a planned clause cannot read a stream (E405), if there is one."""
    (site,) = read_statement(plan.text, plan.functions).sites
    return why_not_live(site.clause, bind_live(plan), schema)
