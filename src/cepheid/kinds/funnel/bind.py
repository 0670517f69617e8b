"""Bind a funnel: syntax tree in, plan out; report every mistake (§12.1)."""

from __future__ import annotations

from cepheid.errors import place_of
from cepheid.jobs.ticks import in_ticks, tick_of
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.bind_pattern import bind_pattern
from cepheid.patterns.conjuncts import conjuncts_of
from cepheid.patterns.scope import Scope, Source, bind_source, bind_where
from cepheid.plans.funnel import Funnel, FunnelStep
from cepheid.plans.plan import Choice, Evaluator, FunnelPlan, Granularity, Partition

MODES = ("strict_order", "strict_deduplication", "strict_increase")
"""The modes that a funnel may name after its keys."""

EXAMPLE = "RETURN FUNNEL(session) PATTERN SEQ(view v, cart c, buy b) WITHIN 30 minutes"


def compile_funnel(query: tree.FunnelQuery, text: str, source: Source) -> FunnelPlan:
    """Plan a query that returns a funnel.

    Raises
    ------
    BindError
        With every mistake of the query, ten at most.
    """
    findings = Findings()
    scope = Scope(source, bind_pattern(query.pattern, findings), findings)
    typed = bind_source(scope, query.pattern.span)
    _check_clauses(query, findings)
    keys, modes = _read_return(query, scope)
    where = bind_where(query.where, scope)
    equivalences, conditions = _sort_conditions(where, findings)
    steps = _steps(query.pattern, conditions, findings)
    within, slide = _window(query, source, findings)
    partition = _partition(query, text, keys, equivalences, scope)
    findings.raise_errors(text)
    ties = query.ties.ties if query.ties else tree.Ties.STRICT
    place = f"WITHIN at {place_of(text, query.window.span)}" if query.window else ""
    names = {source.time, *source.tiebreak, *partition.attributes}
    names |= {source.type} if typed else set()
    for expression in (c for step in steps for c in step.conditions):
        nodes = (n for n in tree.walk(expression) if isinstance(n, tree.Attribute))
        names |= {node.attribute.text for node in nodes}
    return FunnelPlan(
        text=text,
        time=source.time,
        type=source.type if typed else None,
        tiebreak=source.tiebreak,
        tick_ns=tick_of(source, [source.schema]),
        partition=partition,
        choice=_choice(slide),
        columns=tuple(sorted(names)),
        warnings=findings.warnings,
        funnel=Funnel(
            keys=tuple(name.text for name in keys),
            steps=steps,
            within=within,
            slide=slide,
            ties=ties,
            strict_order="strict_order" in modes,
            deduplicated="strict_deduplication" in modes,
            window_reason=place or "without WITHIN a chain may take any time",
        ),
    )


def _choice(slide: int) -> Choice:
    state = "a chain for each step of a key" if not slide else "the events of open windows"
    reason = "of two chains at one step, the one that began later can do all that the other can"
    return Choice(Evaluator.FUNNEL, Granularity.PATTERN, reason, None, "O(steps) per event", state)


def _check_clauses(query: tree.FunnelQuery, findings: Findings) -> None:
    """Report clauses that a funnel does not have."""
    clauses = {
        "SEMANTICS": query.semantics,
        "HAVING": query.having,
        "EMIT ON EXPIRY": query.emit_on_expiry,
        "EMIT EARLY": query.emit_early,
        "NUMBERS": query.numbers,
        "MIN LENGTH": query.min_length,
        "LIMIT": query.limit,
        "AFTER MATCH SKIP": query.skip,
    }
    for name, clause in clauses.items():
        if clause is not None:
            message = f"a funnel has no `{name}`"
            findings.add("E335", message, clause.span, "leave it out", f"write `{EXAMPLE}`")


def _read_return(
    query: tree.FunnelQuery, scope: Scope
) -> tuple[tuple[tree.Name, ...], frozenset[str]]:
    """Read the keys and modes of ``FUNNEL(session, 'strict_order')``."""
    assert query.returns is not None, "the builder has seen FUNNEL"
    findings, keys, modes = scope.findings, [], set()
    for item in query.returns.items:
        call = item.expression
        if item.alias is not None or not isinstance(call, tree.Call) or call.function != "FUNNEL":
            message = "a funnel gives its own columns, so nothing stands beside `FUNNEL`"
            findings.add("E335", message, item.span, f"write `{EXAMPLE}`")
            continue
        for argument in call.arguments:
            match argument:
                case tree.Word(text=text, span=span):
                    keys.append(tree.Name(span=span, text=text))
                    scope.check_equated(keys[-1])
                case tree.Literal(value=str(mode)) if mode in MODES:
                    modes.add(mode)
                case _:
                    message = "`FUNNEL` takes the attributes that it counts, then modes"
                    known = ", ".join(f"'{mode}'" for mode in MODES)
                    findings.add("E335", message, argument.span, f"the modes are {known}")
        if not keys:
            message = "`FUNNEL` does not name what it counts"
            findings.add("E335", message, call.span, "name an attribute: `FUNNEL(session)`")
    if "strict_increase" in modes and query.ties and query.ties.ties is tree.Ties.ARRIVAL:
        message = "'strict_increase' contradicts `TIES arrival`"
        findings.add("E335", message, query.ties.span, "leave one of them out")
    return tuple(keys), frozenset(modes)


def _sort_conditions(
    where: tree.Expression | None, findings: Findings
) -> tuple[list[tree.EquivalenceItem], list[tuple[str | None, tree.Expression]]]:
    """Sort the conditions into equivalences and conditions on single events."""
    equivalences: list[tree.EquivalenceItem] = []
    conditions: list[tuple[str | None, tree.Expression]] = []
    for conjunct in conjuncts_of(where):
        nodes = list(tree.walk(conjunct))
        attributes = [n for n in nodes if isinstance(n, tree.Attribute)]
        variables = list(dict.fromkeys(a.variable.text for a in attributes))
        single = all(a.anchor is tree.Anchor.EACH for a in attributes) and len(variables) < 2
        if isinstance(conjunct, tree.Equivalence):
            equivalences += conjunct.items
        elif single and not any(isinstance(n, tree.Aggregate | tree.Equivalence) for n in nodes):
            conditions.append((variables[0] if variables else None, conjunct))
        else:
            message = "a condition of a funnel is about one event, or an equivalence"
            helps = "write `v.price > 10`, or `[session]` for what all events share"
            findings.add("E335", message, conjunct.span, helps)
    return equivalences, conditions


def _steps(
    pattern: tree.Pattern,
    conditions: list[tuple[str | None, tree.Expression]],
    findings: Findings,
) -> tuple[FunnelStep, ...]:
    """Read the steps; each is one event."""
    parts = pattern.parts if isinstance(pattern, tree.Sequence) else (pattern,)
    steps: dict[str, FunnelStep] = {}
    for part in parts:
        if not isinstance(part, tree.EventPattern) or part.variable.text in steps:
            message = "a step of a funnel is one event with a variable of its own"
            findings.add("E335", message, part.span, f"write `{EXAMPLE}`")
            continue
        name = part.variable.text
        own = tuple(condition for of, condition in conditions if of in (None, name))
        steps[name] = FunnelStep(name, part.event_type.text, own)
    return tuple(steps.values())


def _window(query: tree.FunnelQuery, source: Source, findings: Findings) -> tuple[int, int]:
    """Read WITHIN and SLIDE in ticks; 0 is none."""
    window = query.window
    if window is None:
        return 0, 0
    within, slide = window.within, window.slide
    if isinstance(within, tree.EventCount) or isinstance(slide, tree.EventCount):
        message = "`WITHIN` of a funnel is a time"
        findings.add("E335", message, window.span, "write a time: `WITHIN 30 minutes`")
        return 0, 0
    lengths = [within.microseconds, slide.microseconds if slide else within.microseconds]
    if 0 in lengths:
        message = "a window cannot have the length zero"
        findings.add("E315", message, window.span, "write a length of one or more")
    if lengths[1] > lengths[0]:
        helps = "use a `SLIDE` that is not longer than `WITHIN`"
        findings.add("E305", "`SLIDE` is longer than `WITHIN`", window.span, helps)
    ticks = in_ticks(lengths, tick_of(source, [source.schema]), source, window.span, findings)
    if ticks is None:
        return 0, 0
    return ticks[0], ticks[1] if slide else 0


def _partition(
    query: tree.FunnelQuery,
    text: str,
    keys: tuple[tree.Name, ...],
    equivalences: list[tree.EquivalenceItem],
    scope: Scope,
) -> Partition:
    """Collect the attributes that all events of a chain share (§12.1)."""
    full: dict[str, str] = {}
    for item in equivalences:
        if item.variable is not None:
            message = "all events of a funnel share an attribute of an equivalence"
            helps = f"write `[{item.attribute.text}]`"
            scope.findings.add("E335", message, item.span, helps)
        place = place_of(text, item.span)
        full.setdefault(item.attribute.text, f"[{item.attribute.text}] at {place}")
    for name in keys:
        full.setdefault(name.text, f"FUNNEL({name.text}) at {place_of(text, name.span)}")
    for name in query.group_by:
        scope.check_equated(name)
        full.setdefault(name.text, f"GROUP-BY {name.text} at {place_of(text, name.span)}")
    groups = tuple(name.text for name in query.group_by)
    return Partition(tuple(full), (), groups, ", ".join(full.values()))
