"""Choose the evaluator: the decision table, with the reason and the place that forced it.

| evaluator | when                              | per event     | the papers' granularity        |
|-----------|-----------------------------------|---------------|--------------------------------|
| linear    | no edge predicate                 | O(edges)      | type; pattern for NEXT, CONT   |
| indexed   | every edge predicate separates    | O(log n)      | mixed (O(n) there)             |
| previous  | CONT with edge predicates         | O(edges)      | pattern                        |
| pairwise  | other edge predicates             | O(n)          | event (the GRETA graph)        |
| enumerate | matches wanted, global predicates | the output    | none: SASE and RCEP build them |
"""

from __future__ import annotations

from cepheid.errors import Span, line_and_column
from cepheid.language import tree
from cepheid.language.formatter import format_expression
from cepheid.planner.plan import (
    Choice,
    EdgePredicate,
    Evaluator,
    Granularity,
    Output,
    OutputKind,
    WindowKind,
    WindowPlan,
)
from cepheid.planner.predicates import Predicates
from cepheid.planner.template import Template


def choose_evaluator(
    query: tree.Query,
    text: str,
    patterns: tuple[Template, ...],
    predicates: Predicates,
    window: WindowPlan,
    output: Output,
) -> Choice:
    """Return the evaluator with its granularity, cost and reason."""
    semantics = query.semantics.semantics if query.semantics else tree.Semantics.ANY_MATCH
    edges = predicates.edges
    reason, span, evaluator, granularity = _decide(query, text, semantics, predicates, output)
    sizes = _Sizes(patterns, output, edges)
    time, state = {
        Evaluator.LINEAR: (f"O({sizes.edges})", sizes.per_partition),
        Evaluator.PREVIOUS: (
            f"O({sizes.edges})",
            f"{sizes.per_partition}, and the last event",
        ),
        Evaluator.INDEXED: (
            "O(log n)",
            f"{sizes.per_event}; {sizes.per_partition} for the rest",
        ),
        Evaluator.PAIRWISE: (
            "O(n)",
            f"{sizes.per_event}; {sizes.per_partition} for the rest",
        ),
        Evaluator.ENUMERATE: (
            "O(matches)",
            "the events of a window; matches leave as they are built",
        ),
    }[evaluator]
    return Choice(
        evaluator, granularity, reason, span, time, state + _per_window(window, evaluator)
    )


def _decide(
    query: tree.Query,
    text: str,
    semantics: tree.Semantics,
    predicates: Predicates,
    output: Output,
) -> tuple[str, Span | None, Evaluator, Granularity]:
    """Walk down the decision table; the first row that fits decides."""
    edges = predicates.edges
    if output.kind is not OutputKind.AGGREGATES:
        span = query.returns.span if query.returns else None
        why = (
            f"{_place(text, span)} asks for the matches"
            if span
            else "without RETURN, matches are listed"
        )
        return f"{why}, so they must be built", span, Evaluator.ENUMERATE, Granularity.EVENT
    if predicates.globals:
        span = predicates.globals[0].expression.span
        why = f"the predicate at {_at(text, span)} needs the finished match"
        return why, span, Evaluator.ENUMERATE, Granularity.EVENT
    mode = query.semantics.span if query.semantics else None
    if semantics is tree.Semantics.CONTIGUOUS:
        span = edges[0].expression.span if edges else mode
        if not edges:
            why = (
                f"under {_place(text, mode)} an event extends the last one's matches or drops them"
            )
            return why, mode, Evaluator.LINEAR, Granularity.PATTERN
        why = f"under {_place(text, mode)} only the last event can be extended, so it alone is kept"
        return why, span, Evaluator.PREVIOUS, Granularity.PATTERN
    if not edges:
        if semantics is tree.Semantics.NEXT_MATCH:
            why = f"under {_place(text, mode)} the matches in one state move together"
            return why, mode, Evaluator.LINEAR, Granularity.PATTERN
        why = "without edge predicates all events of a state can be extended: one aggregate a state"
        return why, None, Evaluator.LINEAR, Granularity.TYPE
    whole = next((e for e in edges if e.separation is None), None)
    if whole is not None:
        span = whole.expression.span
        why = f"`{_short(whole)}` at {_at(text, span)} does not separate: {whole.reason}"
        return why, span, Evaluator.PAIRWISE, Granularity.EVENT
    span = edges[0].expression.span
    kept = " and ".join(f"`{v}`" for v in dict.fromkeys(e.prev_variable for e in edges))
    why = f"`{_short(edges[0])}` at {_at(text, span)} separates, so an index keeps {kept} events"
    return why, span, Evaluator.INDEXED, Granularity.MIXED


class _Sizes:
    """How much state an evaluator keeps, in words."""

    def __init__(
        self, patterns: tuple[Template, ...], output: Output, edges: tuple[EdgePredicate, ...]
    ) -> None:
        self.states = sum(_total_states(template) for template in patterns)
        self.edges = sum(_total_edges(template) for template in patterns)
        self.numbers = numbers_per_state(output)
        kept = " and ".join(f"`{v}`" for v in dict.fromkeys(e.prev_variable for e in edges))
        self.per_partition = (
            f"{_count(self.states, 'state')} x {_count(self.numbers, 'number')} per partition"
        )
        self.per_event = f"{_count(self.numbers, 'number')} per kept {kept} event"


def numbers_per_state(output: Output) -> int:
    """Return how many numbers one entry holds: the count, and what each aggregate adds."""
    parts: set[tuple[str, str | None, str | None]] = {("count", None, None)}
    for column in output.aggregates:
        function = column.function
        if function is tree.AggregateFunction.AVG:
            parts |= {("sum", column.variable, column.attribute)}
            parts |= {("values", column.variable, column.attribute)}
        else:
            parts |= {(function.value.lower(), column.variable, column.attribute)}
    return len(parts)


def _total_states(template: Template) -> int:
    return len(template.states) + sum(_total_states(g.template) for g in template.guards)


def _total_edges(template: Template) -> int:
    return len(template.edges) + sum(_total_edges(g.template) for g in template.guards)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _per_window(window: WindowPlan, evaluator: Evaluator) -> str:
    if evaluator is Evaluator.ENUMERATE or window.kind in (WindowKind.NONE, WindowKind.TUMBLING):
        return ""
    if window.kind is WindowKind.TRAILING:
        return ", for every start that the window still holds"
    return f", for each of {window.within // window.pane} panes"


def _short(predicate: EdgePredicate) -> str:
    return format_expression(predicate.expression)


def _at(text: str, span: Span) -> str:
    return "{}:{}".format(*line_and_column(text, span.start))


def _place(text: str, span: Span | None) -> str:
    """Return a clause as the user wrote it, with its place."""
    if span is None:
        return "this query"
    words = " ".join(text[span.start : span.end].split())
    return f"`{words if len(words) <= 40 else words[:39] + '…'}` at {_at(text, span)}"
