"""Format the plan of a pattern query as text or Mermaid: every choice, and its reason."""

from __future__ import annotations

from itertools import islice

from cepheid.errors import place_of
from cepheid.events.schema import ValueKind
from cepheid.events.temporal import format_duration
from cepheid.expressions.format import format_expression
from cepheid.jobs.explain_parts import Section, describe_columns, describe_partition
from cepheid.kinds.trend.planning.accumulators import parts_of
from cepheid.kinds.trend.planning.variants import reach_of
from cepheid.language import tree
from cepheid.plans.plan import (
    AggregateColumn,
    EdgePredicate,
    Evaluator,
    GlobalPredicate,
    OutputKind,
    PredicateKind,
    Separation,
    TrendPlan,
    WindowKind,
)
from cepheid.plans.survey import Survey, SurveyForm
from cepheid.plans.template import START, UNLIMITED, Edge, Final, Guard, Place, Template

STATES_SHOWN_MAX = 12
"""Larger templates are summarised by their size."""

_LOOKS = {
    Place.LEADING: "before it, from the window's start",
    Place.BETWEEN: "between",
    Place.TRAILING: "after it, up to the window's end",
}


_MEANINGS = {
    "O(log n)": ", n the kept events of a window",
    "O(log² n)": ", n the kept events of a window",
    "O(log n + candidates)": ", n the kept events of a window, candidates those that its index "
    "leaves",
    "O(b log n)": ", n the kept events of a window, b the values that matches have",
    "O(b n)": ", n the kept events of a window, b the values that matches have",
    "O(k log n)": ", n the kept events of a window, k the matches that are asked for",
    "O(n)": ", n the kept events of a window",
    "O(matches)": " that ends matches",
    "O(sets)": " that ends sets of matches",
}


def describe_trends(plan: TrendPlan) -> list[Section]:
    """Build the sections of the plan's text."""
    listed = plan.output.kind in (OutputKind.MATCHES, OutputKind.SURVEY)
    reads = ["all columns"] if listed else describe_columns(plan)
    return [
        *(("pattern", _describe_template(t, plan.tick_ns)) for t in plan.patterns),
        ("semantics", _describe_semantics(plan)),
        ("predicates", _describe_predicates(plan)),
        ("partition", describe_partition(plan) + _describe_partial(plan)),
        ("window", _describe_window(plan)),
        *([("deadlines", _describe_deadlines(plan))] if plan.has_deadlines else []),
        ("evaluator", _describe_choice(plan)),
        ("reads", reads),
    ]


def title_of_trends(plan: TrendPlan) -> str:
    """Describe the rows of the result."""
    if plan.output.survey is not None:
        shown = _describe_survey(plan.output.survey)
    elif plan.output.kind is OutputKind.MATCHES:
        shown = "the matches"
    elif plan.output.kind is OutputKind.ATTRIBUTES:
        shown = ", ".join(column.name for column in plan.output.columns) + " of every match"
    else:
        names = [column.name for column in plan.output.columns if column.aggregate]
        shown = ", ".join(names)
    by = f" by {', '.join(plan.partition.group_by)}" if plan.partition.group_by else ""
    having = ""
    if plan.output.having is not None:
        having = f" having {format_expression(plan.output.having)}"
    limit = f", at most {plan.output.limit}" if plan.output.limit else ""
    return shown + by + having + limit


def _describe_survey(survey: Survey) -> str:
    if survey.form is SurveyForm.BLAME:
        return "how many matches each event is in"
    if survey.form is SurveyForm.SAMPLE:
        return f"{survey.number:,} matches drawn at random, seed {survey.seed}"
    assert survey.value is not None, "matches are ranked by a value"
    if survey.form is SurveyForm.HISTOGRAM:
        return f"how many matches have each {survey.value.name}"
    if survey.form is SurveyForm.PERCENTILE:
        shown = " and ".join(f"{fraction:g}" for fraction in survey.fractions)
        return f"the {survey.value.name} that a share of {shown} of all matches does not exceed"
    return f"the {survey.number:,} matches with the largest {survey.value.name}"


_BINS = (
    "a bin for every value, which an event shifts by what it adds; with too many values, bins are "
    "wider, and the column error tells by how much"
)
_WALKS = {
    SurveyForm.SAMPLE: "counts of the matches that end with each event, then a walk backwards that "
    "takes events in proportion to them",
    SurveyForm.TOP: "the best matches that end with each event, from the best of those before it",
    SurveyForm.HISTOGRAM: _BINS,
    SurveyForm.PERCENTILE: _BINS,
    SurveyForm.BLAME: "the matches that lead to each event, times the ways to go on from it",
}


def _describe_template(template: Template, tick_ns: int) -> list[str]:
    lines = [template.text]
    many = len(template.states) > STATES_SHOWN_MAX
    if many:
        lines.append(f"{len(template.states)} states, {len(template.edges)} edges")
    else:
        names = state_names(template)
        states = ", ".join(names)
        starts = ", ".join(names[state] for state in template.starts)
        ends = ", ".join(names[final.state] for final in template.finals)
        lines.append(f"states {states}; start {starts}; end {ends or 'none'}")
        follow: dict[str, list[str]] = {}
        for edge in template.edges:
            if edge.source != START:
                targets = follow.setdefault(names[edge.source], [])
                targets += [names[edge.target]] if names[edge.target] not in targets else []
        if follow:
            lines.append("; ".join(f"{p} → {', '.join(q)}" for p, q in follow.items()))
    if template.determinised:
        lines.append("determinised over its variables, because one match has several derivations")
    if template.recursive:
        lines.append("matches can have any length")
    lines += [
        f"no {guard.text} {_looks(guard, tick_ns)}, for {steps}"
        for guard, steps in zip(template.guards, _guarded(template), strict=True)
        if guard.place is not Place.LOOP
    ]
    return lines


def _looks(guard: Guard, tick_ns: int) -> str:
    """Describe where a guard looks for its pattern."""
    if not guard.within:
        return _LOOKS[guard.place]
    length = _length(guard.within, tick_ns) if guard.within < UNLIMITED else ""
    if guard.next:
        within = f", if it is less than {length} away" if length else ""
        side = "before" if guard.place is Place.LEADING else "after"
        return f"as the event directly {side}{within}"
    return {
        Place.LEADING: f"in the {length} before",
        Place.BETWEEN: f"in the {length} after, and before the next event",
        Place.TRAILING: f"in the {length} after",
    }[guard.place]


def _guarded(template: Template) -> list[str]:
    """List for each guard the steps that it guards."""
    names = state_names(template)
    steps: list[dict[str, None]] = [{} for _ in template.guards]
    for edge in template.edges:
        before = names[edge.source] if edge.source != START else "start"
        for guard in (*edge.clear, *edge.hit):
            steps[guard][f"{before} → {names[edge.target]}"] = None
    for final in template.finals:
        for guard in (guard for way in final.alternatives for guard in way):
            steps[guard][f"{names[final.state]} → end"] = None
    return [
        ", ".join([*islice(watched, STATES_SHOWN_MAX), *["…"][: len(watched) > STATES_SHOWN_MAX]])
        for watched in steps
    ]


def state_names(template: Template) -> list[str]:
    """Name each state: its variable, numbered where several states share it."""
    variables = [state.variable for state in template.states]
    seen: dict[str, int] = {}
    names = []
    for variable in variables:
        seen[variable] = seen.get(variable, 0) + 1
        names.append(variable if variables.count(variable) == 1 else f"{variable}{seen[variable]}")
    # A numbered name could collide with a variable of that name.
    return names if len(set(names)) == len(names) else [f"{n}#{i}" for i, n in enumerate(names)]


def _describe_semantics(plan: TrendPlan) -> list[str]:
    words = [plan.semantics.value if plan.links is None else plan.links.default.value]
    words.append(
        "equal times never see each other" if plan.ties is tree.Ties.STRICT else _ties(plan)
    )
    if plan.min_length > 1:
        words.append(f"matches of {plan.min_length} events or more")
    if plan.numbers is tree.Numbers.EXACT:
        words.append("exact numbers")
    lines = [*_describe_links(plan), *_describe_skip(plan), *_describe_counts(plan)]
    return ["; ".join(words), *lines]


_SKIPS = {
    tree.SkipMode.PAST_LAST: "those that begin by its last event",
    tree.SkipMode.TO_NEXT: "the others that begin with its first event",
    tree.SkipMode.TO_FIRST: "those that begin before its first {0}",
    tree.SkipMode.TO_LAST: "those that begin before its last {0}",
    tree.SkipMode.TO_LATEST: "the earlier ones that end with its last event",
}


def _describe_skip(plan: TrendPlan) -> list[str]:
    """Describe which matches a chosen match drops (§14)."""
    if plan.skip is None:
        return []
    dropped = _SKIPS[plan.skip.mode].format(plan.skip.variable)
    where = place_of(plan.text, plan.skip.span)
    chosen = "matches are chosen in the order of their last events, and each drops"
    return [f"{chosen} {dropped}, because of {where}"]


def _describe_links(plan: TrendPlan) -> list[str]:
    """Describe the rules of single links, and what ends a loop."""
    if plan.links is None:
        return []
    rules = [f"{rule.prev} → {rule.next} {rule.semantics.value}" for rule in plan.links.rules]
    ends = [
        f"the loop {loop.text}, at {place_of(plan.text, loop.span)}: the first such event ends it"
        for loop in plan.links.loops
    ]
    return [*rules, *ends]


def _describe_counts(plan: TrendPlan) -> list[str]:
    """Describe how many matches there can be, and the types of counts that follow (§5.4)."""
    shown = {c.aggregate for c in plan.output.columns if not c.log2}
    mine = [c for c in plan.output.aggregates if c.attribute is None and c.name in shown]
    counts = [c for c in mine if not c.distinct]
    if not counts or plan.numbers is tree.Numbers.EXACT:
        return [plan.output.counts] if plan.semantics is tree.Semantics.ANY_MATCH else []
    whole = [c for c in counts if c.kind is ValueKind.INTEGER]
    double = [c for c in counts if c.kind is not ValueKind.INTEGER]
    if not whole:
        return [f"{plan.output.counts}, so {_are(double)} DOUBLE"]
    lines = [f"{plan.output.counts}, so {_are(whole)} BIGINT"]
    many = f"an event can begin more than 1,000 bindings, so {_are(double)} DOUBLE"
    return [*lines, many] if double else lines


def _are(counts: list[AggregateColumn]) -> str:
    names = " and ".join(f"COUNT({column.variable or '*'})" for column in counts)
    return f"{names} {'is' if len(counts) == 1 else 'are'}"


def _ties(plan: TrendPlan) -> str:
    return f"equal times in the order of {', '.join(plan.tiebreak) or 'arrival'}"


def _describe_predicates(plan: TrendPlan) -> list[str]:
    lines = []
    stops = {loop.stop for loop in plan.links.loops} if plan.links is not None else set()
    for local in (local for local in plan.local if local.variable not in stops):
        whom = f"every {local.variable}" if local.variable else "every event"
        where = place_of(plan.text, local.expression.span)
        lines.append(
            _predicate(PredicateKind.LOCAL, format_expression(local.expression), where, whom)
        )
    for edge in plan.edges:
        where = place_of(plan.text, edge.expression.span)
        whom = f"{edge.prev_variable} → {edge.next_variable}"
        lines.append(
            _predicate(PredicateKind.EDGE, format_expression(edge.expression), where, whom)
        )
        lines.append(f"{'':<7}{_describe_separation(edge)}")
    for spanning in plan.globals:
        where = place_of(plan.text, spanning.expression.span)
        text = format_expression(spanning.expression)
        lines.append(_predicate(PredicateKind.GLOBAL, text, where, _moment_of(spanning)))
    return lines or ["none but equivalence" if plan.partition.attributes else "none"]


def _moment_of(spanning: GlobalPredicate) -> str:
    """Describe when a condition on a whole match is checked."""
    if not spanning.events:
        return f"the finished match: {spanning.reason}"
    plain = tree.Anchor.EACH
    names = [
        e.variable if e.anchor is plain else f"{e.anchor.value}({e.variable})"
        for e in spanning.events
    ]
    moment = "as soon as it is known" if len(names) == 1 else "as soon as both are known"
    return f"{' and '.join(names)}, {moment}"


def _predicate(kind: PredicateKind, text: str, where: str, whom: str) -> str:
    return f"{kind.value:<6} {text} at {where}, for {whom}"


def _describe_separation(edge: EdgePredicate) -> str:
    separation = edge.separation
    if separation is None:
        but = "; but of finite doubles it accepts a range" if edge.monotone else ""
        return f"does not separate: {edge.reason}{but}"
    return f"separates as {format_separation(separation)}: {edge.reason}"


def format_separation(separation: Separation) -> str:
    """Format f(prev) op g(next) as text."""
    left, right = format_expression(separation.prev), format_expression(separation.next)
    return f"{left} {separation.operator} {right}"


def _describe_partial(plan: TrendPlan) -> list[str]:
    lines = []
    for partial in plan.partition.partial:
        whom = " and ".join(partial.variables)
        where = place_of(plan.text, partial.span)
        lines.append(f"{partial.attribute} only among events of {whom}, because of {where}")
        free = [name for name in _all_variables(plan) if name not in partial.variables]
        if free:
            lines.append(f"events of {' and '.join(free)} count for every {partial.attribute}")
    return lines


def _all_variables(plan: TrendPlan) -> list[str]:
    names: list[str] = []
    waiting = list(plan.patterns)
    while waiting:
        template = waiting.pop(0)
        names += template.variables()
        waiting += [guard.template for guard in template.guards]
    return list(dict.fromkeys(names))


def _describe_deadlines(plan: TrendPlan) -> list[str]:
    """Describe what deadlines keep and delay (§2.12)."""
    past, ahead = reach_of(plan)
    lines = ["every event is marked: does what NOT forbids occur within the deadline?"]
    if plan.sees_neighbours:
        lines = ["every event is marked: does what NOT forbids occur where it looks?"]
    if ahead >= UNLIMITED:
        lines.append("events wait for the end of the stream, and so do results")
    elif ahead:
        lines.append(
            f"events wait {_length(ahead, plan.tick_ns)} for their marks, and so do results"
        )
    kept = (
        "all events" if past >= UNLIMITED else f"events of the last {_length(past, plan.tick_ns)}"
    )
    return [*lines, f"{kept} are kept for marks"] if past else lines


def _length(ticks: int, tick_ns: int) -> str:
    if ticks * tick_ns % 1000:
        return f"{ticks * tick_ns} nanoseconds"
    return format_duration(ticks * tick_ns // 1000)


def _describe_window(plan: TrendPlan) -> list[str]:
    window = plan.window
    within, slide, pane = (
        format_duration(length * plan.tick_ns // 1000)
        for length in (window.within, window.slide, window.pane)
    )
    match window.kind:
        case WindowKind.NONE:
            text = "none"
        case WindowKind.TUMBLING:
            text = f"{within}, tumbling"
        case WindowKind.SLIDING:
            text = f"{within}, sliding by {slide}, panes of {pane}"
        case WindowKind.TRAILING:
            text = f"the last {within}"
        case _:
            text = f"{window.within} events, sliding by {window.slide}"
    lines = [text, window.reason]
    if window.emit_on_expiry:
        lines.append("also a result whenever a match leaves the window")
    if window.emit_early:
        lines.append("on a live stream also the results so far of open windows")
    return lines


def _describe_choice(plan: TrendPlan) -> list[str]:
    choice = plan.choice
    return [
        f"{choice.evaluator.value} ({choice.granularity.value}-grained)",
        f"because {choice.reason}",
        f"time {choice.time} per event{_MEANINGS.get(choice.time, '')}",
        f"state {choice.state}",
        *_describe_trailing(plan),
        *([] if plan.output.survey is None else [_WALKS[plan.output.survey.form]]),
    ]


def _describe_trailing(plan: TrendPlan) -> list[str]:
    """Tell how a window without SLIDE is aggregated, and why."""
    if plan.window.kind is not WindowKind.TRAILING or plan.choice.evaluator is not Evaluator.LINEAR:
        return []
    reasons = {
        "matches move": plan.semantics is not tree.Semantics.ANY_MATCH,
        "of NOT": any(template.guards for template in plan.patterns),
        "of AND": len(plan.patterns) > 1,
        "of NUMBERS exact": plan.numbers is tree.Numbers.EXACT,
    }
    found = [reason for reason, holds in reasons.items() if holds]
    if found:
        return [f"two stacks of matrices, because {found[0]}"]
    parts, extremes = parts_of(plan)
    follow_themselves = any(e.source == e.target for t in plan.patterns for e in t.edges)
    if len(parts) + len(extremes) == 1 and not follow_themselves:
        return [
            "sums over all starts that the window holds; counters or two stacks of matrices in",
            "steps with a window of more than about 2^60 matches, or where events of a key tie",
        ]
    return [
        "counters for every start that the window holds; two stacks of matrices in steps whose",
        "events cost less so: where thousands of starts are active, or events of a key tie",
    ]


def mermaid_of_trends(plan: TrendPlan) -> str:
    """Draw a plan's templates as a Mermaid flowchart, negated patterns in boxes."""
    lines = ["flowchart LR"]
    for idx, template in enumerate(plan.patterns):
        lines += _mermaid_template(template, f"p{idx}")
    note = f"{plan.choice.evaluator.value}, {plan.choice.granularity.value}-grained"
    lines.append(f'    note["{_quote(title_of_trends(plan))}<br/>{note}"]')
    return "\n".join(lines)


def _mermaid_template(template: Template, prefix: str) -> list[str]:
    finals: dict[int, Final] = {final.state: final for final in template.finals}
    lines = [f'    {prefix}start(("start"))']
    for idx, name in enumerate(state_names(template)):
        label = _quote(name)
        lines.append(
            f'    {prefix}s{idx}((("{label}")))'
            if idx in finals
            else f'    {prefix}s{idx}(("{label}"))'
        )
    for edge in template.edges:
        source = f"{prefix}start" if edge.source == START else f"{prefix}s{edge.source}"
        guards = guards_of(template, edge)
        label = f'|"{_quote(guards)}"|' if guards else ""
        lines.append(f"    {source} -->{label} {prefix}s{edge.target}")
    for idx, guard in enumerate(template.guards):
        if guard.place is Place.LOOP:
            continue
        inner = f"{prefix}g{idx}"
        lines.append(f'    subgraph {inner}["NOT {_quote(guard.text)}, {guard.place.value}"]')
        lines += [f"    {line}" for line in _mermaid_template(guard.template, inner)]
        lines.append("    end")
    return lines


def guards_of(template: Template, edge: Edge) -> str:
    """Name the negated patterns that an edge asks for."""
    words = [f"no {template.guards[guard].text}" for guard in edge.clear]
    return ", ".join(words + [f"{template.guards[guard].text} seen" for guard in edge.hit])


def _quote(text: str) -> str:
    """Escape characters that Mermaid would read as markup."""
    return (
        text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
    )
