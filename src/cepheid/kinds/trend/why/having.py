"""Explain what HAVING leaves of a result: rows before it, and the range of what it compares."""

from __future__ import annotations

import msgspec

from cepheid.errors import CepheidError
from cepheid.expressions.format import format_expression
from cepheid.jobs.why import Counted, Counting, Question, amount
from cepheid.language import tree


def explain_having(question: Question, counting: Counting) -> list[str]:
    """Tell how many rows there are before HAVING, and which values its aggregates have."""
    query = question.tree
    if query.having is None or query.returns is None:
        return []
    nodes = [node for node in tree.walk(query.having) if isinstance(node, tree.Aggregate)]
    aggregates = list(dict.fromkeys(nodes))
    span = query.span
    added = tuple(
        tree.ReturnItem(
            span=span, expression=one, alias=tree.Name(span=span, text=f"cepheid_having_{n}")
        )
        for n, one in enumerate(aggregates)
    )
    returns = msgspec.structs.replace(query.returns, items=(*query.returns.items, *added))
    relaxed = msgspec.structs.replace(query, returns=returns, having=None, limit=None)
    kept = msgspec.structs.replace(query, returns=returns, limit=None)
    try:
        before, after = question.relaxed(relaxed), question.relaxed(kept)
    except CepheidError:
        return []
    found = counting.tally({"before": Counted(before), "after": Counted(after)})
    if found["before"] is None or found["after"] is None:
        return []
    told = [
        f"Before HAVING there are {amount(found['before'].rows, 'row')}, "
        f"{found['after'].rows:,} after it."
    ]
    names = [f"cepheid_having_{n}" for n in range(len(aggregates))]
    ranges = counting.ranges(before, names) if names else None
    for name, aggregate in zip(names, aggregates, strict=True):
        if ranges is not None and ranges[name].least is not None:
            least, largest = (_value(value) for value in ranges[name])
            text = format_expression(aggregate)
            both = f"is {least}" if least == largest else f"is between {least} and {largest}"
            told.append(f"{text} {both}; HAVING asks for {format_expression(query.having)}.")
    return told


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
