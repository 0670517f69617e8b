"""Calls over a window in, bound ones out: measures, and functions over the rows of a match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cepheid.errors import Diagnostic, suggest_names
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.bind_expressions import AGGREGATES, Binder

Bound = tuple[tuple[str, tree.Expression], ...]
"""Names of columns and what they hold."""

RANKINGS = ("ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE")
_VALUES = ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")


def bind_calls(
    calls: Sequence[tree.Measure],
    measures: Mapping[str, tree.Expression],
    binder: Binder,
    findings: list[Diagnostic],
) -> tuple[Bound, Bound]:
    """Return the measures that are called, and the functions."""
    called: list[tuple[str, tree.Expression]] = []
    functions: list[tuple[str, tree.Expression]] = []
    known = {name.lower(): bound for name, bound in measures.items()}
    for call in calls:
        node = call.expression
        if isinstance(node, tree.Column):
            if node.name.lower() in known:
                called.append((call.name, known[node.name.lower()]))
                continue
            message = f"the window has no measure `{node.name}`"
            helps = (suggest_names(node.name, list(measures), owner="it"),) if measures else ()
            findings.append(Diagnostic("E603", message, node.span, helps=helps))
        elif isinstance(node, tree.Call):
            functions.append((call.name, _function(node, binder, findings)))
        else:
            message = "this cannot be called over a window with PATTERN"
            helps = ("call a measure, an aggregate, FIRST_VALUE or ROW_NUMBER",)
            findings.append(Diagnostic("E605", message, node.span, helps=helps))
    return tuple(called), tuple(functions)


def _function(call: tree.Call, binder: Binder, findings: list[Diagnostic]) -> tree.Expression:
    if call.function in AGGREGATES:
        return binder.measure(msgspec.structs.replace(call, semantics="FINAL"))
    nothing = tree.Literal(None, span=call.span)
    if call.function in RANKINGS or call.function in _VALUES:
        wrong = _misuse(call)
        if wrong:
            findings.append(Diagnostic("E608", wrong, call.span))
            return nothing
        number = _whole(call.arguments[-1]) if call.function in ("NTILE", "NTH_VALUE") else 1
        if call.function in RANKINGS:
            return tree.Ranking(call.function, number or 1, span=call.span)
        at = tree.Navigation(
            from_first=call.function != "LAST_VALUE", offset=(number or 1) - 1, final=True
        )
        return tree.Cell(at, binder.over_row(call.arguments[0]), span=call.span)
    if call.function in ("LAG", "LEAD"):
        message = f"{call.function} looks at rows outside of its frame, and a match is one"
        helps = ("use PREV and NEXT in a measure", "or call it over a window without PATTERN")
        findings.append(Diagnostic("E605", message, call.span, helps=helps))
        return nothing
    known = [*AGGREGATES, *RANKINGS, *_VALUES]
    near = suggest_names(call.function, known)
    help_ = near if near.startswith("did") else "docs/sql.md lists the functions"
    message = f"`{call.function}` is no function over a window"
    findings.append(Diagnostic("E608", message, call.span, helps=(help_,)))
    return nothing


def _misuse(call: tree.Call) -> str:
    """Tell what is wrong with the arguments of a function that is no aggregate."""
    counts = {"NTH_VALUE": 2, "NTILE": 1, "FIRST_VALUE": 1, "LAST_VALUE": 1}
    wanted, count = counts.get(call.function, 0), len(call.arguments)
    if call.star or call.distinct or call.condition is not None or call.semantics is not None:
        return f"`{call.function}` is no aggregate"
    if count != wanted:
        return f"`{call.function}` takes {wanted} arguments, not {count}"
    if call.function in ("NTILE", "NTH_VALUE") and _whole(call.arguments[-1]) is None:
        return f"`{call.function}` takes a whole number from 1 on"
    return ""


def _whole(node: tree.Expression) -> int | None:
    fits = isinstance(node, tree.Literal) and type(node.value) is int and node.value > 0
    return node.value if fits else None  # type: ignore[union-attr,return-value]  # checked
