"""Choose the evaluator: the decision table, with the reason and the place that forced it.

| evaluator | when                              | per event     | the papers' granularity        |
|-----------|-----------------------------------|---------------|--------------------------------|
| linear    | no edge predicate                 | O(edges)      | type; pattern for NEXT, CONT   |
| indexed   | every edge predicate separates    | O(log n)      | mixed (O(n) there)             |
| previous  | CONT with edge predicates         | O(edges)      | pattern                        |
| pairwise  | other edge predicates             | O(n)          | event (the GRETA graph)        |
| enumerate | matches, or conditions on them    | the output    | none: SASE and RCEP build them |
"""

from __future__ import annotations

from collections import Counter, defaultdict

import msgspec

from cepheid.errors import Span, place_of
from cepheid.expressions.format import format_expression
from cepheid.kinds.trend.planning.predicates import Predicates
from cepheid.kinds.trend.planning.skip import why_built
from cepheid.language import tree
from cepheid.options import refuse
from cepheid.plans.plan import (
    Choice,
    EdgePredicate,
    Evaluator,
    Granularity,
    Output,
    OutputKind,
    Partition,
    TrendPlan,
    WindowKind,
    WindowPlan,
)
from cepheid.plans.survey import Survey, SurveyForm
from cepheid.plans.template import Template


def choose_evaluator(
    query: tree.Query,
    text: str,
    semantics: tree.Semantics,
    patterns: tuple[Template, ...],
    predicates: Predicates,
    partition: Partition,
    window: WindowPlan,
    output: Output,
) -> Choice:
    """Choose the evaluator with its granularity, cost and reason."""
    edges = predicates.edges
    numbers = numbers_per_state(output)
    built = why_built(query, semantics, patterns, predicates, partition, window, numbers)
    reason, span, evaluator, granularity = _decide(
        query, text, semantics, predicates, output, built
    )
    sizes = _Sizes(patterns, output, partition)
    time, state = {
        Evaluator.LINEAR: (f"O({sizes.edges})", sizes.per_partition),
        Evaluator.PREVIOUS: (
            f"O({sizes.edges})",
            "the events of open windows",
        ),
        Evaluator.INDEXED: (_index_time(edges, patterns), _FITTING),
        Evaluator.PAIRWISE: ("O(n)", _FITTING),
        Evaluator.ENUMERATE: (
            "O(matches)",
            "the events of a window; matches leave as they are built",
        ),
    }[evaluator]
    if output.survey is not None:
        time = _survey_time(output.survey, edges, patterns)
    if query.skip is not None and evaluator is Evaluator.ENUMERATE:
        time, state = _CHOOSING
    elif len(patterns) > 1 and output.kind is OutputKind.MATCHES:
        time, state = _COMBINING
    elif query.skip is None:
        state += _per_window(window, evaluator)
    return Choice(evaluator, granularity, reason, span, time, state)


_CHOOSING = ("O(events since the last chosen match)", "the events that a later match may have")
"""Time and state of AFTER MATCH SKIP; conditions on whole matches list all of them."""

_COMBINING = ("O(sets)", "the events of a window, and its matches while sets are built of them")
"""Time and state of lists of sets of matches (§2.10)."""

_RESETS = {
    tree.SkipMode.PAST_LAST: "after a chosen match all states begin anew",
    tree.SkipMode.TO_NEXT: "an event that begins a match is counted once, where its first one ends",
}

_FITTING = "the events of open windows that fit a variable"
"""The state of evaluators that look up single events: windows are evaluated when they close."""


_COSTS = {
    Evaluator.INDEXED: ("O(log n)", _FITTING),
    Evaluator.PAIRWISE: ("O(n)", _FITTING),
}
"""Time and state of what a plan without edge predicates may be moved to."""


def legal_evaluators(plan: TrendPlan) -> tuple[Evaluator, ...]:
    """List the evaluators that can answer a query; all of them give the same answer."""
    if plan.output.survey is not None:
        return (plan.choice.evaluator,)
    linked = plan.links is not None and bool(plan.edges)
    if plan.skip and plan.choice.evaluator is Evaluator.LINEAR:
        return (Evaluator.LINEAR, Evaluator.ENUMERATE)
    squares = plan.output.squares_matches
    if plan.output.kind is not OutputKind.AGGREGATES or plan.globals or plan.skip or linked:
        return (Evaluator.ENUMERATE,)
    found = []
    if not plan.edges and not plan.partition.partial and not squares:
        found.append(Evaluator.LINEAR)
    if plan.links:
        return (*found, Evaluator.ENUMERATE)
    if plan.semantics is tree.Semantics.CONTIGUOUS:
        found.append(Evaluator.PREVIOUS)
    elif all(edge.has_ranges for edge in plan.edges):
        found.append(Evaluator.INDEXED)
    return (*found, Evaluator.PAIRWISE)


def force_evaluator(
    plan: TrendPlan, evaluator: Evaluator, reason: str = "it was asked for"
) -> TrendPlan:
    """Replan a query for another evaluator.

    Raises
    ------
    ValueError
        If this evaluator cannot answer the query.
    """
    legal = legal_evaluators(plan)
    if evaluator not in legal:
        message = f"the evaluators for this query are {', '.join(legal)}, not {evaluator}"
        refuse("E591", message)
    time, state = _COSTS.get(evaluator, (plan.choice.time, plan.choice.state))
    choice = msgspec.structs.replace(
        plan.choice, evaluator=evaluator, reason=reason, time=time, state=state
    )
    return msgspec.structs.replace(plan, choice=choice)


def _decide(
    query: tree.Query,
    text: str,
    semantics: tree.Semantics,
    predicates: Predicates,
    output: Output,
    built: str,
) -> tuple[str, Span | None, Evaluator, Granularity]:
    """Walk down the decision table; the first row that applies decides.

    ``built`` is why AFTER MATCH SKIP builds the matches that it chooses, empty if it does not.
    """
    edges = predicates.edges
    if output.kind is OutputKind.SURVEY:
        span = query.returns.span if query.returns else None
        if output.survey is not None and output.survey.form.is_distribution:
            why = (
                f"{_place(text, span)} counts the matches that end with each event by their values"
            )
            ranges = all(edge.has_ranges for edge in edges)
            evaluator = Evaluator.INDEXED if ranges else Evaluator.PAIRWISE
            return why, span, evaluator, Granularity.EVENT
        why = f"{_place(text, span)} is answered by walks through the graph of events, without "
        return f"{why}building matches", span, Evaluator.INDEXED, Granularity.EVENT
    if output.kind is not OutputKind.AGGREGATES:
        span = query.returns.span if query.returns else None
        why = (
            f"{_place(text, span)} asks for the matches"
            if span
            else "without RETURN, matches are listed"
        )
        return f"{why}, so they must be built", span, Evaluator.ENUMERATE, Granularity.EVENT
    if query.skip is not None:
        where, span = _place(text, query.skip.span), query.skip.span
        if built:
            why = f"{where} chooses matches, and {built}, so the chosen ones are built"
            return why, span, Evaluator.ENUMERATE, Granularity.EVENT
        why = f"{where} only asks where matches end, so none is built: {_RESETS[query.skip.mode]}"
        return why, span, Evaluator.LINEAR, Granularity.PATTERN
    if predicates.globals:
        span = predicates.globals[0].expression.span
        why = f"{_place(text, span)} spans the whole match, so matches are built and aggregated"
        return why, span, Evaluator.ENUMERATE, Granularity.EVENT
    mode = query.semantics.span if query.semantics else None
    if semantics is tree.Semantics.BY_LINK:
        return _decide_by_link(text, mode, edges, output)
    if output.squares_matches and not edges:
        span = query.returns.span if query.returns else None
        why = f"{_place(text, span)} adds up squares of values of whole matches, event by event"
        if semantics is tree.Semantics.CONTIGUOUS:
            return why, span, Evaluator.PREVIOUS, Granularity.PATTERN
        return why, span, Evaluator.INDEXED, Granularity.EVENT
    if semantics is tree.Semantics.CONTIGUOUS:
        span = edges[0].expression.span if edges else mode
        if not edges:
            why = (
                f"under {_place(text, mode)} an event extends the last one's matches or drops them"
            )
            return why, mode, Evaluator.LINEAR, Granularity.PATTERN
        last = _last_events(query)
        why = f"under {_place(text, mode)} only {last} can be extended, so no others are kept"
        return why, span, Evaluator.PREVIOUS, Granularity.PATTERN
    if not edges:
        if semantics is tree.Semantics.NEXT_MATCH:
            why = f"under {_place(text, mode)} the matches in one state move together"
            return why, mode, Evaluator.LINEAR, Granularity.PATTERN
        why = "without edge predicates all events of a state can be extended: one aggregate a state"
        return why, None, Evaluator.LINEAR, Granularity.TYPE
    whole = next((e for e in edges if not e.has_ranges), None)
    if whole is not None:
        span = whole.expression.span
        why = f"`{_short(whole)}` at {place_of(text, span)} does not separate: {whole.reason}"
        return why, span, Evaluator.PAIRWISE, Granularity.EVENT
    span = edges[0].expression.span
    does = "separates" if edges[0].separation is not None else "accepts ranges"
    kept = " and ".join(f"`{v}`" for v in dict.fromkeys(e.prev_variable for e in edges))
    why = f"`{_short(edges[0])}` at {place_of(text, span)} {does}, so an index keeps {kept} events"
    return why, span, Evaluator.INDEXED, Granularity.MIXED


def _decide_by_link(
    text: str, mode: Span | None, edges: tuple[EdgePredicate, ...], output: Output
) -> tuple[str, Span | None, Evaluator, Granularity]:
    """Choose the evaluator where links have different rules (§3.6, §3.7)."""
    if output.squares_matches:
        why = f"`{output.spreads[0].name}` needs the values of matches that links decide, so "
        return f"{why}they are built", mode, Evaluator.ENUMERATE, Granularity.EVENT
    where = f"under {_place(text, mode)}" if mode else "with UNTIL"
    if edges:
        span = edges[0].expression.span
        why = (
            f"`{_short(edges[0])}` at {place_of(text, span)} decides which links an event closes, "
        )
        why += "so matches are built and aggregated"
        return why, span, Evaluator.ENUMERATE, Granularity.EVENT
    why = f"{where} the matches in one state with the same open links move together"
    return why, mode, Evaluator.LINEAR, Granularity.PATTERN


def _last_events(query: tree.Query) -> str:
    """Describe the events that can be followed under contiguous; with strict ties, a whole time."""
    arrival = query.ties is not None and query.ties.ties is tree.Ties.ARRIVAL
    return "the last event" if arrival else "the events of the last time"


def _index_time(edges: tuple[EdgePredicate, ...], patterns: tuple[Template, ...]) -> str:
    """Estimate the time of an index: by a tree, by joins of halves, or by tests of candidates."""
    pairs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for edge in edges:
        operator = edge.separation.operator if edge.separation else "range"
        if operator != "=":
            pairs[edge.prev_variable, edge.next_variable].append(operator)
    several = [operators for operators in pairs.values() if len(operators) > 1]
    if not several:
        return "O(log n)"
    one_sided = all(len(found) == 2 and set(found) - {"<>", "range"} for found in several)
    if one_sided and not any(template.guards for template in patterns):
        return "O(log² n)"
    return "O(log n + candidates)"


def _survey_time(
    survey: Survey, edges: tuple[EdgePredicate, ...], patterns: tuple[Template, ...]
) -> str:
    """Estimate the time of a walk: several conditions on one step are tested event by event."""
    if survey.form.is_distribution:
        whole = all(edge.has_ranges for edge in edges)
        return "O(b log n)" if whole else "O(b n)"
    pairs = Counter((edge.prev_variable, edge.next_variable) for edge in edges)
    guarded = bool(edges) and any(template.guards for template in patterns)
    if guarded or max(pairs.values(), default=0) > 1:
        return "O(n)"
    return "O(k log n)" if survey.form is SurveyForm.TOP else "O(log n)"


class _Sizes:
    """The size of the state of an evaluator, in words."""

    def __init__(
        self,
        patterns: tuple[Template, ...],
        output: Output,
        partition: Partition,
    ) -> None:
        self.states = sum(_total_states(template) for template in patterns)
        self.edges = sum(_total_edges(template) for template in patterns)
        self.numbers = numbers_per_state(output)
        owner = " and ".join(["partition", *(p.attribute for p in partition.partial)])
        self.per_partition = (
            f"{_count(self.states, 'state')} x {_count(self.numbers, 'number')} per {owner}"
        )


def numbers_per_state(output: Output) -> int:
    """Count the numbers of one entry: the count, and those of each aggregate."""
    parts: set[tuple[str, str | None, str | None]] = {("count", None, None)}
    for column in (c for c in output.aggregates if not c.distinct):
        names = [column.function.value.lower()]
        if column.function in (tree.AggregateFunction.SUM, tree.AggregateFunction.AVG):
            # A sum without a value that is not NULL is NULL (§5.2), so values are counted too.
            names = ["sum", "values"]
        parts |= {(name, column.variable, column.attribute) for name in names}
    for value in (spread.value for spread in output.spreads):
        parts |= {(f"{value.what}{power}", value.variable, value.attribute) for power in (1, 2)}
    return len(parts)


def _total_states(template: Template) -> int:
    return len(template.states) + sum(_total_states(g.template) for g in template.guards)


def _total_edges(template: Template) -> int:
    return len(template.edges) + sum(_total_edges(g.template) for g in template.guards)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _per_window(window: WindowPlan, evaluator: Evaluator) -> str:
    if evaluator is not Evaluator.LINEAR or window.kind in (WindowKind.NONE, WindowKind.TUMBLING):
        return ""
    if window.kind is WindowKind.TRAILING:
        return ", for every start that the window still holds"
    return f", for each of {window.within // window.pane} panes"


def _short(predicate: EdgePredicate) -> str:
    return format_expression(predicate.expression)


def _place(text: str, span: Span | None) -> str:
    """Quote a clause as the user wrote it, with its position."""
    if span is None:
        return "this query"
    words = " ".join(text[span.start : span.end].split())
    return f"`{words if len(words) <= 40 else words[:39] + '…'}` at {place_of(text, span)}"


def looks_back(plan: TrendPlan) -> bool:
    """Check whether events look up single earlier events, so that these are kept."""
    return plan.choice.evaluator is not Evaluator.LINEAR or bool(plan.partition.partial)
