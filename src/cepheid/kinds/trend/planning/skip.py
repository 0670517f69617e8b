"""Plan AFTER MATCH SKIP: check that matches can be chosen over the whole stream (§14)."""

from __future__ import annotations

from collections.abc import Iterable

from cepheid.kinds.trend.planning.predicates import Predicates
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.scope import Scope
from cepheid.plans.plan import Partition, SkipPlan, WindowKind, WindowPlan
from cepheid.plans.template import START, Guard, Place, Template

OVERLAP_MAX = 62
"""Windows that may hold an event if chosen matches are only counted: bits of a number."""

SETS_STATES_MAX = 6
"""States of a pattern whose sets are counted for TO NEXT: there are 64 of them at most."""


def plan_skip(
    query: tree.Query, patterns: tuple[Template, ...], scope: Scope, findings: Findings
) -> SkipPlan | None:
    """Plan which matches a chosen one drops; report a clause that cannot work."""
    skip = query.skip
    if skip is None:
        return None
    if isinstance(query.pattern, tree.Conjunction):
        message = "`AND` makes sets of matches, so none of them can be skipped"
        help_ = "choose the matches of each pattern in a separate query"
        findings.add("E410", message, skip.span, help_)
    for guard in _guards(patterns):
        if guard.place in (Place.LEADING, Place.TRAILING) and not guard.within:
            message = "a NOT that looks to an end of the window cannot be combined with "
            message += "`AFTER MATCH SKIP`, which chooses over the whole stream"
            helps = ["put the NOT between two events"]
            if guard.place is Place.TRAILING:
                helps.append("or give it a deadline of its own: `NOT … WITHIN 10 minutes`")
            findings.add("E410", message, guard.span, *helps)
    if skip.variable is not None:
        scope.positive(skip.variable)
        _check_target(skip, skip.variable, patterns, findings)
    nodes = [node for node in tree.walk(query.pattern) if isinstance(node, tree.EventPattern)]
    written = dict.fromkeys(n.variable.text for n in sorted(nodes, key=lambda n: n.span.start))
    variable = skip.variable.text if skip.variable else None
    return SkipPlan(skip.mode, variable, tuple(written), skip.span)


def _guards(patterns: Iterable[Template]) -> Iterable[Guard]:
    """Yield the negated patterns, and those inside them."""
    for template in patterns:
        for guard in template.guards:
            yield guard
            yield from _guards([guard.template])


def _check_target(
    skip: tree.SkipClause, variable: tree.Name, patterns: tuple[Template, ...], findings: Findings
) -> None:
    """Report a variable whose event begins every match: the query would begin where it began."""
    for template in patterns:
        begins = {template.states[state].variable for state in template.starts}
        later = {template.states[e.target].variable for e in template.edges if e.source != START}
        once = skip.mode is tree.SkipMode.TO_FIRST or variable.text not in later
        if begins == {variable.text} and once:
            message = f"every match begins with `{variable.text}`, so the skip would go nowhere"
            findings.add("E345", message, skip.span, "write `TO NEXT`, or name a later variable")


def why_built(
    query: tree.Query,
    semantics: tree.Semantics,
    patterns: tuple[Template, ...],
    predicates: Predicates,
    partition: Partition,
    window: WindowPlan,
    numbers: int,
) -> str:
    """Explain why chosen matches are built; empty if counting their ends suffices (§14).

    ``numbers`` is the number of aggregates of a match, of which the first is the count.
    """
    if query.skip is None:
        return ""
    overlapping = window.kind is WindowKind.SLIDING
    next_ = query.skip.mode is tree.SkipMode.TO_NEXT
    guarded = any(t.guards for t in patterns) or semantics is tree.Semantics.BY_LINK
    latest = query.skip.mode is tree.SkipMode.TO_LATEST
    reasons = {
        "the latest of those that end together is asked for": latest,
        f"`{query.skip.mode.value}` goes to an event of them": query.skip.variable is not None,
        "aggregates of their events are asked for": numbers > 1,
        "a condition compares their events": bool(predicates.edges or predicates.globals),
        "some variables only have an equivalence": bool(partition.partial),
        "a window without SLIDE asks for their first events": window.kind is WindowKind.TRAILING,
        "windows of events ask for their first events": window.kind is WindowKind.COUNT,
        f"an event is in more than {OVERLAP_MAX} windows": overlapping
        and window.overlap > OVERLAP_MAX,
        "overlapping windows ask for their first events": overlapping and next_,
        "NOT, links and loops tell apart events that begin them": next_ and guarded,
        f"the pattern has more than {SETS_STATES_MAX} states": next_
        and any(len(template.states) > SETS_STATES_MAX for template in patterns),
    }
    return next((why for why, holds in reasons.items() if holds), "")
