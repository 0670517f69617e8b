"""Plan a query with SWEEP: find its parameters, and how the values of each are answered (§16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import msgspec

from cepheid.jobs.kind import compile_query
from cepheid.kinds.sweep.having import having_over_columns
from cepheid.kinds.sweep.one_pass import find_threshold
from cepheid.kinds.sweep.values import COMBINATIONS_MAX, Values, values_of, with_values
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.scope import Source
from cepheid.plans.plan import FunnelPlan, Plan, TrendPlan
from cepheid.plans.sweep import Parameter, SweepPlan, Threshold, ValuesKind, Way

QUERIES_MAX = 1_000
"""Combinations of values that have a query each."""

ONE_PASS_MAX = 2
"""Parameters that are answered in one pass: their values are the sides of a grid."""


class Found(NamedTuple):
    """A SWEEP, and the condition that it stands in; none for the length of the window."""

    sweep: tree.Sweep
    condition: tree.Expression | None
    after: bool = False


def compile_sweep(query: tree.SweepQuery, text: str, source: Source) -> SweepPlan:
    """Plan a query with SWEEP.

    Raises
    ------
    BindError
        E370, E371, and all mistakes of the query with the first of its values.
    UnsupportedError
        E430 if a SWEEP cannot stand where it does, E431 if there are too many values.
    """
    findings = Findings()
    found = _find(query.query, findings)
    findings.raise_errors(text)
    parameters = _parameters(found, findings)
    findings.raise_errors(text)
    inner = query.query
    first = dict.fromkeys(range(len(parameters)), 0)
    plan = _compiled(with_values(inner, parameters, first), text, source)
    _check_columns(found, parameters, plan, findings)
    findings.raise_errors(text)
    parameters, thresholds = _ways(found, parameters, plan, source)
    each = [n for n, one in enumerate(parameters) if one.way is Way.EACH]
    _check_queries(found, parameters, each, findings)
    findings.raise_errors(text)
    plans = []
    for values in product(*(range(len(parameters[n].values)) for n in each)):
        combination = first | dict(zip(each, values, strict=True))
        plans.append(_compiled(with_values(inner, parameters, combination), text, source))
    having: tree.Expression | None = None
    hidden: tuple[str, ...] = ()
    has_having = isinstance(plan, TrendPlan) and plan.output.having is not None
    if has_having and (thresholds or any(one.way is Way.AFTER for one in parameters)):
        having, hidden, plans = having_over_columns(plans)
    return SweepPlan(
        text=text,
        time=plan.time,
        type=plan.type,
        tiebreak=plan.tiebreak,
        tick_ns=plan.tick_ns,
        partition=plan.partition,
        choice=plan.choice,
        columns=plan.columns,
        warnings=plan.warnings,
        parameters=parameters,
        plans=tuple(plans),
        thresholds=thresholds,
        having=having,
        hidden=hidden,
    )


def _compiled(query: tree.Query, text: str, source: Source) -> TrendPlan | FunnelPlan:
    plan = compile_query(query, text, source)
    assert isinstance(plan, TrendPlan | FunnelPlan), "other queries have no SWEEP"
    return plan


def _find(query: tree.Query, findings: Findings) -> list[Found]:
    """Find every SWEEP in the order of the text; report those that cannot stand there (E430)."""
    found: list[Found] = []
    if type(query) in (tree.Query, tree.FunnelQuery):
        loops = [n for n in tree.walk(query.pattern) if isinstance(n, tree.Repeat)]
        for condition in [query.where, *(loop.until for loop in loops)]:
            found += _in_condition(condition, after=False)
        found += _in_condition(query.having, after=True)
        if query.window is not None and query.window.sweep is not None:
            found.append(Found(query.window.sweep, None))
    places = {one.sweep.span.start for one in found}
    for node in tree.walk(query):
        if isinstance(node, tree.Sweep) and node.span.start not in places:
            message = "`SWEEP` cannot stand here"
            helps = "write it in WHERE, UNTIL, HAVING or WITHIN of a query with a PATTERN of events"
            findings.add("E430", message, node.span, helps)
    return sorted(found, key=lambda one: one.sweep.span.start)


def _in_condition(whole: tree.Expression | None, *, after: bool) -> Iterator[Found]:
    if whole is None:
        return
    if isinstance(whole, tree.Logical) and whole.operator == "AND":
        for part in whole.operands:
            yield from _in_condition(part, after=after)
        return
    for node in tree.walk(whole):
        if isinstance(node, tree.Sweep):
            yield Found(node, whole, after)


def _parameters(found: Sequence[Found], findings: Findings) -> tuple[Parameter, ...]:
    """Name the parameters and list their values; report what occurs twice (E370, E371)."""
    parameters: list[Parameter] = []
    combinations = 1
    for one in found:
        sweep = one.sweep
        names = [parameter.name for parameter in parameters]
        if sweep.name is not None and sweep.name.text in names:
            message = f"two parameters have the name `{sweep.name.text}`"
            findings.add("E370", message, sweep.name.span, "give one of them another name")
        name = sweep.name.text if sweep.name else _derived_name(one, names)
        values = values_of(sweep)
        combinations *= values.total
        _check_twice(sweep, values, findings)
        parameters.append(
            Parameter(
                name, values.kind, values.numbers, Way.EACH, "", sweep.span.start, values.digits
            )
        )
    if combinations > COMBINATIONS_MAX:
        message = (
            f"the sweep has {combinations:,} combinations of values, more than {COMBINATIONS_MAX:,}"
        )
        findings.add("E431", message, found[-1].sweep.span, "take longer steps")
    return tuple(parameters)


def _check_twice(sweep: tree.Sweep, values: Values, findings: Findings) -> None:
    if len(set(values.numbers)) < len(values.numbers):
        seen: set[object] = set()
        twice = next(v for v in values.numbers if v in seen or seen.add(v))  # type: ignore[func-returns-value]  # adds and is false
        findings.add("E371", f"the value {twice!r} occurs twice", sweep.span, "write it once")


def _derived_name(one: Found, names: Sequence[str]) -> str:
    """Derive the name of a parameter from its condition (§16.3)."""
    derived = "sweep_within"
    if one.condition is not None:
        named = next((text for node in tree.walk(one.condition) if (text := _named(node))), "")
        derived = f"sweep_{named}" if named else "sweep"
    number, name = 1, derived
    while name in names:
        number += 1
        name = f"{derived}_{number}"
    return name


def _named(node: tree.Node) -> str:
    match node:
        case tree.Attribute(attribute=attribute):
            return attribute.text.replace(".", "_")
        case tree.Aggregate(function=function, attribute=attribute):
            return attribute.text.replace(".", "_") if attribute else function.value.lower()
        case tree.Word(text=text):
            return text
    return ""


def _check_columns(
    found: Sequence[Found], parameters: Sequence[Parameter], plan: Plan, findings: Findings
) -> None:
    """Report a parameter that has the name of a column of the query (E370)."""
    names = {*plan.partition.group_by, "window_start", "window_end", "match_id", "events"}
    if isinstance(plan, TrendPlan):
        names |= {column.name for column in plan.output.columns}
    else:
        shares = ("share_of_first", "share_of_previous")
        names |= {"step", "variable", "keys", *shares, "median_time", "p90_time"}
    for one, parameter in zip(found, parameters, strict=True):
        if parameter.name in names:
            message = f"the result has a column `{parameter.name}` already"
            help_ = "give the parameter another name: `SWEEP limit (...)`"
            findings.add("E370", message, one.sweep.span, help_)


def _ways(
    found: Sequence[Found], parameters: Sequence[Parameter], plan: Plan, source: Source
) -> tuple[tuple[Parameter, ...], tuple[Threshold, ...]]:
    """Decide how the values of each parameter are answered."""
    decided: list[Parameter] = []
    thresholds: list[Threshold] = []
    for number, (one, parameter) in enumerate(zip(found, parameters, strict=True)):
        way = Way.EACH
        if one.after and parameter.kind is not ValuesKind.TEXT:
            way, reason = Way.AFTER, "HAVING filters the rows of one run"
        elif len(thresholds) == ONE_PASS_MAX:
            reason = f"{ONE_PASS_MAX} other parameters are answered in one pass"
        else:
            threshold, reason = find_threshold(plan, number, parameter, source)
            if threshold is not None:
                way = Way.ONE_PASS
                thresholds.append(threshold)
        decided.append(msgspec.structs.replace(parameter, way=way, reason=reason))
    return tuple(decided), tuple(thresholds)


def _check_queries(
    found: Sequence[Found],
    parameters: Sequence[Parameter],
    each: Sequence[int],
    findings: Findings,
) -> None:
    """Report values that are too many for a query each (E431)."""
    queries = prod(len(parameters[n].values) for n in each)
    if queries > QUERIES_MAX:
        widest = max(each, key=lambda n: len(parameters[n].values))
        message = (
            f"the sweep needs {queries:,} queries, more than {QUERIES_MAX:,}: "
            f"{parameters[widest].reason}"
        )
        findings.add("E431", message, found[widest].sweep.span, "take longer steps")
