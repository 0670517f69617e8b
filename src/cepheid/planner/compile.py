"""Tree and source in, plan out: the steps of the planner, readable as a table of contents."""

from __future__ import annotations

from cepheid.errors import line_and_column
from cepheid.language import tree
from cepheid.language.formatter import format_expression
from cepheid.planner.adjacency import Adjacency
from cepheid.planner.bind import Scope, Source, bind_source, bind_where
from cepheid.planner.bind_pattern import bind_pattern
from cepheid.planner.determinise import build_template
from cepheid.planner.findings import Findings
from cepheid.planner.granularity import choose_evaluator
from cepheid.planner.output import OutputPlanner
from cepheid.planner.plan import (
    Evaluator,
    Output,
    OutputKind,
    PartialEquivalence,
    Partition,
    Plan,
    WindowKind,
    WindowPlan,
)
from cepheid.planner.positions import TooLargeError
from cepheid.planner.predicates import Predicates, classify_predicates
from cepheid.planner.rewrite import rewrite_pattern
from cepheid.planner.template import Template
from cepheid.planner.windows import plan_window


def compile_query(query: tree.Query, text: str, source: Source) -> Plan:
    """Return the plan of a query.

    Raises
    ------
    BindError
        With every mistake of the query, ten at most.
    UnsupportedError
        If the query is right but asks for something that does not exist yet.
    """
    findings = Findings()
    variables = bind_pattern(query.pattern, findings)
    min_length = _min_length(query, findings)
    # A pattern that means nothing has no template; everything else is checked all the same.
    patterns = _build_templates(query.pattern, min_length, findings) if not findings.errors else ()
    scope = Scope(source, variables, findings)
    typed = bind_source(scope, query.pattern.span)
    where = bind_where(query.where, scope)
    window = plan_window(query, text, findings)
    predicates = classify_predicates(where, Adjacency(patterns), scope.typing, findings)
    partition = _plan_partition(query, text, predicates, window, findings)
    output = OutputPlanner(query, scope, partition.attributes, _repeated(patterns)).plan()
    _check_globals(predicates, output, findings)
    findings.raise_errors(text)
    choice = choose_evaluator(query, text, patterns, predicates, window, output)
    _warn_unbounded(query, choice.evaluator, window, findings)
    return Plan(
        text=text,
        time=source.time,
        type=source.type if typed else None,
        tiebreak=source.tiebreak,
        semantics=query.semantics.semantics if query.semantics else tree.Semantics.ANY_MATCH,
        ties=query.ties.ties if query.ties else tree.Ties.STRICT,
        numbers=query.numbers.numbers if query.numbers else tree.Numbers.DEFAULT,
        min_length=min_length,
        patterns=patterns,
        local=predicates.local,
        edges=predicates.edges,
        globals=predicates.globals,
        partition=partition,
        window=window,
        output=output,
        choice=choice,
        columns=_columns(query, source, partition, output, predicates, typed=typed),
        warnings=findings.warnings,
    )


def _min_length(query: tree.Query, findings: Findings) -> int:
    if query.min_length is None:
        return 1
    assert isinstance(query.min_length.value, int), "the parser reads a whole number"
    if query.min_length.value == 0:
        message = "every match has at least one event"
        findings.add("E315", message, query.min_length.span, "leave `MIN LENGTH` out")
    return max(query.min_length.value, 1)


def _build_templates(
    pattern: tree.Pattern, min_length: int, findings: Findings
) -> tuple[Template, ...]:
    simpler = rewrite_pattern(pattern)
    parts = simpler.patterns if isinstance(simpler, tree.Conjunction) else (simpler,)
    try:
        return tuple(build_template(part, min_length=min_length) for part in parts)
    except TooLargeError as limit:
        findings.add(
            "E314",
            f"the pattern needs more than {limit.limit} {limit.what}",
            limit.span,
            "repeat less often, use `+` for long repetitions, or give parts that can match the "
            "same events different variables",
        )
        return ()


def _plan_partition(
    query: tree.Query, text: str, predicates: Predicates, window: WindowPlan, findings: Findings
) -> Partition:
    """Gather the equivalence predicates; GROUP-BY attributes are among them (§6.5)."""
    full: dict[str, str] = {}
    partial: dict[str, list[tree.EquivalenceItem]] = {}
    for item in predicates.equivalences:
        place = "{}:{}".format(*line_and_column(text, item.span.start))
        if item.variable is None:
            full.setdefault(item.attribute.text, f"[{item.attribute.text}] at {place}")
        else:
            partial.setdefault(item.attribute.text, []).append(item)
    for name in query.group_by:
        place = "{}:{}".format(*line_and_column(text, name.span.start))
        full.setdefault(name.text, f"GROUP-BY {name.text} at {place}")
    kept = tuple(
        PartialEquivalence(
            attribute,
            tuple(dict.fromkeys(i.variable.text for i in items if i.variable)),
            items[0].span.to(items[-1].span),
        )
        for attribute, items in partial.items()
        if attribute not in full
    )
    if kept and (window.kind is WindowKind.COUNT or isinstance(query.pattern, tree.Conjunction)):
        what = "a window counted in events" if window.kind is WindowKind.COUNT else "`AND`"
        message = f"an equivalence of some variables only does not go with {what}"
        findings.add("E308", message, kept[0].span, f"write `[{kept[0].attribute}]`")
    reason = ", ".join(full.values()) or "no equivalence predicate and no GROUP-BY"
    return Partition(tuple(full), kept, tuple(n.text for n in query.group_by), reason)


def _repeated(patterns: tuple[Template, ...]) -> frozenset[str]:
    """Return the variables that one match can bind more than once."""
    found = set()
    for template in patterns:
        reach: dict[int, set[int]] = {}
        for edge in template.edges:
            reach.setdefault(edge.source, set()).add(edge.target)
        for start, state in enumerate(template.states):
            seen: set[int] = set()
            waiting = list(reach.get(start, ()))
            while waiting:
                here = waiting.pop()
                if here not in seen:
                    seen.add(here)
                    waiting += reach.get(here, ())
            if any(template.states[other].variable == state.variable for other in seen):
                found.add(state.variable)
    return frozenset(found)


def _check_globals(predicates: Predicates, output: Output, findings: Findings) -> None:
    if output.kind is OutputKind.AGGREGATES:
        for predicate in predicates.globals:
            text = format_expression(predicate.expression)
            findings.add(
                "E401",
                f"`{text}` spans the whole match, and aggregates are computed without matches",
                predicate.expression.span,
                "list the matches and count them: `RETURN MATCHES`",
                "compare neighbours instead: `S.price > NEXT(S).price`",
            )


def _warn_unbounded(
    query: tree.Query, evaluator: Evaluator, window: WindowPlan, findings: Findings
) -> None:
    keeps_events = evaluator not in (Evaluator.LINEAR, Evaluator.PREVIOUS)
    if window.kind is WindowKind.NONE and keeps_events:
        findings.add(
            "W201",
            "without `WITHIN` all events are kept: on a stream the state grows for ever",
            query.pattern.span,
            "add a window: `WITHIN 10 minutes SLIDE 1 minute`",
        )


def _columns(
    query: tree.Query,
    source: Source,
    partition: Partition,
    output: Output,
    predicates: Predicates,
    *,
    typed: bool,
) -> tuple[str, ...]:
    """Return the columns that must be read; listing matches shows all of them."""
    names = {source.time, *source.tiebreak, *partition.attributes}
    names |= {source.type} if typed else set()
    names |= {p.attribute for p in partition.partial}
    names |= {c.attribute for c in output.aggregates if c.attribute}
    names |= {c.attribute for c in output.columns if c.attribute}
    kept = [p.expression for p in predicates.local]
    kept += [p.expression for p in predicates.edges]
    kept += [p.expression for p in predicates.globals]
    for node in (n for expression in kept for n in tree.walk(expression)):
        if isinstance(node, tree.Attribute | tree.Aggregate) and node.attribute is not None:
            names.add(node.attribute.text)
    if output.kind is OutputKind.MATCHES and source.schema is not None:
        names |= {name for name in source.schema.names if "." not in name}
    return tuple(sorted(names))
