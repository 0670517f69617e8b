"""Compile a syntax tree and a source to a plan: the steps of the planner, in order."""

from __future__ import annotations

import msgspec

from cepheid.errors import place_of
from cepheid.events.schema import EventSchema, ValueKind
from cepheid.jobs.ticks import tick_of
from cepheid.kinds.trend.planning.adjacency import Adjacency
from cepheid.kinds.trend.planning.counts import Counts, bound_counts
from cepheid.kinds.trend.planning.deadlines import (
    bounded,
    check_deadlines,
    check_lengths,
    check_size,
    warn_trailing,
)
from cepheid.kinds.trend.planning.determinise import build_template
from cepheid.kinds.trend.planning.granularity import choose_evaluator
from cepheid.kinds.trend.planning.greed import (
    check_conditions,
    check_greed,
    predicates_of_greed,
)
from cepheid.kinds.trend.planning.links import bind_links, check_links, is_determined
from cepheid.kinds.trend.planning.needs import bounds_span
from cepheid.kinds.trend.planning.output import OutputPlanner
from cepheid.kinds.trend.planning.positions import TooLargeError
from cepheid.kinds.trend.planning.predicates import Predicates, classify_predicates
from cepheid.kinds.trend.planning.rewrite import rewrite_pattern
from cepheid.kinds.trend.planning.skip import plan_skip
from cepheid.kinds.trend.planning.surveys import check_survey
from cepheid.kinds.trend.planning.windows import plan_window
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.bind_pattern import bind_pattern, joined_patterns
from cepheid.patterns.scope import Scope, Source, bind_source, bind_where
from cepheid.plans.plan import (
    Evaluator,
    Output,
    OutputKind,
    PartialEquivalence,
    Partition,
    TrendPlan,
    WindowKind,
    WindowPlan,
)
from cepheid.plans.template import Template


def compile_trends(query: tree.Query, text: str, source: Source) -> TrendPlan:
    """Plan a query with a pattern of events.

    Raises
    ------
    BindError
        With every mistake of the query, ten at most.
    UnsupportedError
        If the query is right but asks for something that does not exist yet.
    """
    findings = Findings()
    variables = bind_pattern(query.pattern, findings)
    greedy = check_greed(query, findings)
    # An invalid pattern has no template; everything else is checked all the same.
    sound = not findings.errors
    min_length = _min_length(query, findings)
    tick_ns = tick_of(source, [source.schema])
    patterns = _build_templates(query, min_length, tick_ns, findings) if sound else ()
    scope = Scope(source, variables, findings)
    typed = bind_source(scope, query.pattern.span)
    where = bind_where(query.where, scope)
    window = plan_window(query, text, findings, source)
    selection = bind_links(query, patterns, scope)
    patterns = bounded(selection.patterns, window)
    adjacency = Adjacency(patterns)
    predicates = classify_predicates(where, adjacency, scope.typing, findings)
    type_column = source.type if typed else None
    left = predicates_of_greed(query.pattern, predicates.local, type_column) if greedy else ()
    local = (*predicates.local, *left, *selection.stops)
    predicates = msgspec.structs.replace(predicates, local=local)
    partition = _plan_partition(query, text, predicates, window, findings)
    if greedy:
        check_conditions(query, predicates.edges, partition, findings)
    check_lengths(query, source, findings)
    check_deadlines(query, patterns, partition, findings)
    counts = _bound_counts(query, patterns, partition, typed=typed)
    output = OutputPlanner(query, scope, partition.attributes, adjacency, counts).plan()
    check_links(selection, partition, findings)
    skip = plan_skip(query, patterns, scope, findings)
    check_survey(query, selection.semantics, predicates, partition, window, findings)
    findings.raise_errors(text)
    choice = choose_evaluator(
        query, text, selection.semantics, patterns, predicates, partition, window, output
    )
    _warn_unbounded(query, patterns, choice.evaluator, window, findings)
    plan = TrendPlan(
        text=text,
        time=source.time,
        type=source.type if typed else None,
        tiebreak=source.tiebreak,
        tick_ns=tick_ns,
        semantics=selection.semantics,
        links=selection.links,
        ties=_ties(query),
        numbers=query.numbers.numbers if query.numbers else tree.Numbers.DEFAULT,
        min_length=min_length,
        patterns=patterns,
        local=predicates.local,
        edges=predicates.edges,
        globals=predicates.globals,
        partition=partition,
        window=window,
        output=output,
        skip=skip,
        choice=choice,
        columns=_columns(source, partition, output, predicates, typed=typed),
        warnings=(),
    )
    check_size(plan, findings)
    warn_trailing(query, plan, findings)
    findings.raise_errors(text)
    return msgspec.structs.replace(plan, warnings=findings.warnings)


def _ties(query: tree.Query) -> tree.Ties:
    return query.ties.ties if query.ties else tree.Ties.STRICT


def _bound_counts(
    query: tree.Query, patterns: tuple[Template, ...], partition: Partition, *, typed: bool
) -> Counts:
    """Bound the matches of an event, by templates in which no length is counted (§5.4)."""
    if query.skip is not None and len(patterns) == 1:
        return Counts(1, "an event begins at most one chosen match", patterns[0])
    if query.min_length is not None:
        patterns = tuple(build_template(part) for part in _parts(query)) if patterns else ()
    return bound_counts(
        patterns, is_determined(query), _ties(query), partition.partial, typed=typed
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
    query: tree.Query, min_length: int, tick_ns: int, findings: Findings
) -> tuple[Template, ...]:
    parts = _parts(query)
    try:
        templates = tuple(
            build_template(part, min_length=min_length, tick_ns=tick_ns) for part in parts
        )
    except TooLargeError as limit:
        _report_size(query, parts, limit, findings)
        return ()
    if query.min_length is not None and any(not template.finals for template in templates):
        findings.add(
            "W303",
            f"no match of the pattern has {min_length} events, so nothing is found",
            query.min_length.span,
            "ask for fewer events, or let a part repeat: `S+`",
        )
    return templates


def _parts(query: tree.Query) -> tuple[tree.Pattern, ...]:
    """List the simplified patterns that AND joins, or the only one."""
    return joined_patterns(rewrite_pattern(query.pattern))


def _report_size(
    query: tree.Query, parts: tuple[tree.Pattern, ...], limit: TooLargeError, findings: Findings
) -> None:
    """Report the cause if the pattern is too large: MIN LENGTH, if it fits without."""
    if query.min_length is not None:
        try:
            for part in parts:
                build_template(part)
        except TooLargeError:
            pass
        else:
            message = f"`MIN LENGTH` needs more than {limit.limit:,} {limit.what}"
            help_ = "ask for fewer events: every length up to it needs states of its own"
            findings.add("E314", message, query.min_length.span, help_)
            return
    message = f"the pattern needs more than {limit.limit:,} {limit.what}"
    findings.add("E314", message, limit.span, limit.help)


def _plan_partition(
    query: tree.Query, text: str, predicates: Predicates, window: WindowPlan, findings: Findings
) -> Partition:
    """Collect the equivalence predicates; GROUP-BY attributes are among them (§6.5)."""
    full: dict[str, str] = {}
    partial: dict[str, list[tree.EquivalenceItem]] = {}
    for item in predicates.equivalences:
        if item.variable is None:
            place = place_of(text, item.span)
            full.setdefault(item.attribute.text, f"[{item.attribute.text}] at {place}")
        else:
            partial.setdefault(item.attribute.text, []).append(item)
    for name in query.group_by:
        full.setdefault(name.text, f"GROUP-BY {name.text} at {place_of(text, name.span)}")
    kept = tuple(
        PartialEquivalence(
            attribute,
            tuple(dict.fromkeys(i.variable.text for i in items if i.variable)),
            items[0].span.to(items[-1].span),
        )
        for attribute, items in partial.items()
        if attribute not in full
    )
    if kept and window.kind is WindowKind.COUNT:
        message = "an equivalence of only some variables cannot be combined with "
        message += "a window counted in events"
        findings.add("E308", message, kept[0].span, f"write `[{kept[0].attribute}]`")
    reason = ", ".join(full.values()) or "no equivalence predicate and no GROUP-BY"
    return Partition(tuple(full), kept, tuple(n.text for n in query.group_by), reason)


def _warn_unbounded(
    query: tree.Query,
    patterns: tuple[Template, ...],
    evaluator: Evaluator,
    window: WindowPlan,
    findings: Findings,
) -> None:
    keeps_events = evaluator not in (Evaluator.LINEAR, Evaluator.PREVIOUS)
    keeps_events &= not bounds_span(patterns)
    if window.kind is WindowKind.NONE and keeps_events:
        findings.add(
            "W201",
            "without `WITHIN` all events are kept: on a stream the state grows for ever",
            query.pattern.span,
            "add a window: `WITHIN 10 minutes SLIDE 1 minute`",
        )


def _columns(
    source: Source,
    partition: Partition,
    output: Output,
    predicates: Predicates,
    *,
    typed: bool,
) -> tuple[str, ...] | None:
    """Collect the columns that must be read; None (all) if matches are listed without a schema."""
    if output.kind in (OutputKind.MATCHES, OutputKind.SURVEY):
        return tuple(sorted(_top_level(source.schema))) if source.schema is not None else None
    names = {source.time, *source.tiebreak, *partition.attributes}
    names |= {source.type} if typed else set()
    names |= {p.attribute for p in partition.partial}
    names |= {c.attribute for c in output.aggregates if c.attribute}
    names |= {s.value.attribute for s in output.spreads if s.value.attribute}
    names |= {c.attribute for c in output.columns if c.attribute}
    kept = [c.expression for c in output.columns if c.expression is not None]
    kept += [p.expression for p in predicates.local]
    kept += [p.expression for p in predicates.edges]
    kept += [p.expression for p in predicates.globals]
    for node in (n for expression in kept for n in tree.walk(expression)):
        if isinstance(node, tree.Attribute | tree.Aggregate) and node.attribute is not None:
            names.add(node.attribute.text)
        elif isinstance(node, tree.Word) and node.text in partition.attributes:
            names.add(node.text)
    return tuple(sorted(names))


def _top_level(schema: EventSchema) -> list[str]:
    """List the columns that are not part of another one; their own names may have dots."""
    structures = {column.name for column in schema.columns if column.kind is ValueKind.OTHER}

    def is_part(name: str) -> bool:
        parts = name.split(".")
        return any(".".join(parts[:length]) in structures for length in range(1, len(parts)))

    return [name for name in schema.names if not is_part(name)]
