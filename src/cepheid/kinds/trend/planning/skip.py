"""Plan AFTER MATCH SKIP: check that matches can be chosen over the whole stream (§14)."""

from __future__ import annotations

from collections.abc import Iterable

from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.scope import Scope
from cepheid.plans.plan import SkipPlan
from cepheid.plans.template import START, Guard, Place, Template


def plan_skip(
    query: tree.Query, patterns: tuple[Template, ...], scope: Scope, findings: Findings
) -> SkipPlan | None:
    """Plan which matches a chosen one drops; report a clause that cannot work."""
    skip = query.skip
    if skip is None:
        return None
    if isinstance(query.pattern, tree.Conjunction):
        message = "`AND` counts pairs of matches, so none of them can be skipped"
        help_ = "choose the matches of each pattern in a separate query"
        findings.add("E410", message, skip.span, help_)
    for guard in _guards(patterns):
        if guard.place in (Place.LEADING, Place.TRAILING) and not guard.within:
            message = "a NOT that looks to an end of the window cannot be combined with "
            message += "`AFTER MATCH SKIP`, which chooses over the whole stream"
            findings.add("E410", message, guard.span, "put the NOT between two events")
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
