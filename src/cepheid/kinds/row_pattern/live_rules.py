"""Which clauses can read a stream, and why the others cannot.

A live clause keeps a bounded number of rows for a key, or those of the length of WITHIN, and tells
a match when no later row can change it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from cepheid.errors import Diagnostic, Span
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.reach import longest_match, reach_of


def why_not_live(
    clause: tree.Clause, plan: MatchPlan, schema: pa.Schema | None
) -> Diagnostic | None:
    """Return the first reason why a clause cannot read a stream (E405), or None if it can.

    Without a schema, the type of the time is not looked at.
    """
    return next(_reasons(clause, plan, schema), None)


def _reasons(
    clause: tree.Clause, plan: MatchPlan, schema: pa.Schema | None
) -> Iterator[Diagnostic]:
    for name, expression in plan.derived:
        message = f"a clause over a stream takes columns as they are, and `{name}` is computed"
        yield _refused(message, expression.span, "compute it in a subquery that is its table")
        return
    if not plan.order_by:
        message = "a clause over a stream needs ORDER BY"
        yield _refused(message, clause.span, "add `ORDER BY ts`, where `ts` is the time of a row")
    elif plan.order_by[0].descending:
        message = "the first key of ORDER BY descends, but a stream needs ascending times"
        yield _refused(message, clause.order_by[0].span, "order by the time of rows, ascending")
    elif schema is not None:
        yield from _no_time(clause, plan.order_by[0].column, schema)
    if plan.rows == "all unmatched":
        message = "WITH UNMATCHED ROWS shows rows without a match, which are only known at the end"
        yield _refused(message, clause.span, "leave WITH UNMATCHED ROWS out")
    yield from _anchors(plan.pattern)
    for expression in (*plan.conditions.values(), *(m for _, m in plan.measures)):
        for span in _numbers(expression):
            message = "MATCH_NUMBER() counts for ever, so the state of a key could never be dropped"
            way_out = "leave it out; PARTITION BY and the time of the first row name a match"
            yield _refused(message, span, way_out)
    if plan.within is None:
        for span in _unbounded(plan.pattern):
            message = "a match may have any number of rows, and a stream cannot keep them all"
            yield _refused(
                message,
                span,
                "add `WITHIN INTERVAL '10' MINUTE` after PATTERN (...)",
                "or say how often at most: `{1,100}`",
            )


def _no_time(clause: tree.Clause, key: str, schema: pa.Schema) -> Iterator[Diagnostic]:
    kind = schema.field(key).type
    types = pa.types
    if not (types.is_integer(kind) or types.is_timestamp(kind) or types.is_date(kind)):
        message = f"the first key of ORDER BY, `{key}`, is of type {kind}, not a time"
        way_out = "order by a timestamp, a date, or whole seconds first"
        yield _refused(message, clause.order_by[0].span, way_out)


def _refused(message: str, span: Span, *helps: str) -> Diagnostic:
    return Diagnostic("E405", message, span, helps=helps)


def _anchors(pattern: tree.Pattern) -> Iterator[Diagnostic]:
    match pattern:
        case tree.Anchor(at_start=True, span=span):
            message = "`^` is the first row of a key, so the state of a key could never be dropped"
            yield _refused(message, span, "leave `^` out, and say in DEFINE what begins a match")
        case tree.Anchor(span=span):
            message = "`$` is the end of a partition, and a stream has none"
            yield _refused(message, span, "leave `$` out, or run the clause over a table")
        case _:
            for part in _inside(pattern):
                yield from _anchors(part)


def _unbounded(pattern: tree.Pattern) -> Iterator[Span]:
    """Yield the places of quantifiers without an upper bound."""
    if isinstance(pattern, tree.Quantified) and pattern.most is None:
        if longest_match(pattern.part) != 0:
            yield pattern.span
        return
    for part in _inside(pattern):
        yield from _unbounded(part)


def _inside(pattern: tree.Pattern) -> tuple[tree.Pattern, ...]:
    match pattern:
        case tree.Sequence(parts=parts) | tree.Alternation(parts=parts):
            return parts
        case tree.Permutation(parts=parts):
            return parts
        case tree.Exclusion(part=part) | tree.Quantified(part=part):
            return (part,)
    return ()


def _numbers(node: tree.Expression) -> Iterator[Span]:
    if isinstance(node, tree.MatchNumber):
        yield node.span
    for child in tree.children(node):
        yield from _numbers(child)


def describe_live(clause: tree.Clause, plan: MatchPlan, schema: pa.Schema) -> list[str]:
    """Tell in words what a clause keeps of a stream, or why it cannot read one."""
    found = why_not_live(clause, plan, schema)
    if found is not None:
        return [f"no: {found.message}", *(f"  {text}" for text in found.helps)]
    reach = reach_of(plan)
    key = f"of {', '.join(plan.partition_by)}" if plan.partition_by else "of all rows together"
    rows = "a match leaves when the watermark has passed the last row that could change it"
    if plan.within is not None:
        state = f"rows {key} that are less than WITHIN before the watermark"
    else:
        state = f"at most {reach.longest} rows {key} whose match is not decided"
    told = [f"yes: {rows}", f"keeps {state}"]
    if reach.ahead or reach.beyond:
        more = max(reach.ahead, reach.beyond)
        told.append(f"waits for {more} more row{'s' * (more > 1)}, which NEXT looks at")
    if reach.back:
        rows = f"{reach.back} rows" if reach.back > 1 else "a row"
        told.append(f"never forgets a key: PREV looks at {rows} before a match")
    elif plan.within is not None and not (reach.ahead or reach.beyond):
        told.append("forgets a key when the watermark is WITHIN later than its last row")
    return told
