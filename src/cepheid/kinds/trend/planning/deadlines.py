"""Check deadlines (§2.12): what they may contain, and what they may stand beside."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cepheid.events.temporal import format_duration
from cepheid.jobs.ticks import in_ticks, tick_of
from cepheid.kinds.trend.planning.variants import variants_count
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.bind_pattern import VARIABLES_MAX
from cepheid.patterns.scope import Source
from cepheid.patterns.symbols import types_of
from cepheid.plans.plan import OutputKind, Partition, TrendPlan, WindowKind, WindowPlan
from cepheid.plans.template import Guard, Place, Template

_LENGTH = "write a length of time: `WITHIN 10 minutes`"


def check_lengths(query: tree.Query, source: Source, findings: Findings) -> None:
    """Report deadlines that are no length of time (E338), or no whole number of ticks (E329)."""
    tick_ns = tick_of(source, [source.schema])
    for node in tree.walk(query.pattern):
        if not isinstance(node, tree.Negation) or node.within is None:
            continue
        if isinstance(node.within, tree.EventCount):
            message = "the deadline of a `NOT` is a time, not a number of events"
            findings.add("E338", message, node.within.span, _LENGTH)
        elif node.within.microseconds == 0:
            message = "the deadline of a `NOT` cannot be zero"
            findings.add("E338", message, node.within.span, _LENGTH)
        else:
            in_ticks([node.within.microseconds], tick_ns, source, node.within.span, findings)


def check_deadlines(
    query: tree.Query, patterns: tuple[Template, ...], partition: Partition, findings: Findings
) -> None:
    """Report what a deadline cannot contain or stand beside: E336, E337, E408."""
    due = list(_deadlines(patterns))
    for guard in (guard for guard in due if guard.next):
        _check_next(guard, partition, findings)
    for guard in due:
        for inner in _without_window(guard.template):
            message = (
                f"inside a `NOT` with a deadline, `{_negated(inner)}` has no window to look at"
            )
            help_ = f"give it a deadline, too: `{_negated(inner)} WITHIN 10 minutes`"
            findings.add("E336", message, inner.span, help_)
        names = types_of((guard.template,))
        for entry in partition.partial:
            shared = [name for name in entry.variables if name in names]
            if shared:
                message = f"`{shared[0]}` is forbidden within a deadline, so it cannot have an "
                message += f"equivalence of only some variables, `{entry.attribute}`"
                help_ = f"write `[{entry.attribute}]` if all events have it"
                findings.add("E337", message, entry.span, help_)
    if due and query.emit_early is not None:
        message = "`EMIT EARLY` cannot be combined with the deadline of a `NOT`: nothing is known "
        message += "before it has passed"
        findings.add("E408", message, query.emit_early.span, "leave `EMIT EARLY` out")


def _check_next(guard: Guard, partition: Partition, findings: Findings) -> None:
    """Report a NOT NEXT of several events (E349), or beside partial equivalence (E409)."""
    if not guard.template.single or guard.template.guards:
        message = f"`NOT NEXT` speaks of the one event beside a match, not of `{guard.text}`"
        help_ = f"leave `NEXT` out: `{_negated(guard)}`"
        findings.add("E349", message, guard.span, help_, "write one event: `NOT NEXT B b`")
    for entry in partition.partial[:1]:
        message = "`NOT NEXT` cannot be combined with "
        message += f"`{entry.attribute}` of only some variables: an event may be in many partitions"
        help_ = f"write `[{entry.attribute}]` if all events have it"
        findings.add("E409", message, entry.span, help_)


def bounded(templates: tuple[Template, ...], window: WindowPlan) -> tuple[Template, ...]:
    """Give every NOT NEXT between two events the window as its limit: both lie in it (§2.14)."""
    if window.kind in (WindowKind.NONE, WindowKind.COUNT):
        return templates
    return tuple(_bounded(template, window.within) for template in templates)


def _bounded(template: Template, within: int) -> Template:
    def limit(guard: Guard) -> Guard:
        if guard.next and guard.place is Place.BETWEEN:
            return msgspec.structs.replace(guard, within=min(guard.within, within))
        if guard.within:
            # What a deadline forbids need not lie in the window.
            return guard
        return msgspec.structs.replace(guard, template=_bounded(guard.template, within))

    return msgspec.structs.replace(template, guards=tuple(map(limit, template.guards)))


def check_size(plan: TrendPlan, findings: Findings) -> None:
    """Report patterns whose variables have too many deadlines: each doubles them (E314)."""
    if plan.has_deadlines and variants_count(plan) > VARIABLES_MAX:
        span = next(iter(_deadlines(plan.patterns))).span
        message = f"the deadlines split the variables into more than {VARIABLES_MAX}"
        findings.add("E314", message, span, "use fewer deadlines beside the same variable")


def warn_trailing(query: tree.Query, plan: TrendPlan, findings: Findings) -> None:
    """Warn if a list has a NOT at its end that looks at no time at all (§6.3, W306)."""
    trailing = plan.window.kind is WindowKind.TRAILING
    if not trailing or plan.output.kind is OutputKind.AGGREGATES or query.window is None:
        return
    assert isinstance(query.window.within, tree.Duration), "count windows have SLIDE"
    for template in plan.patterns:
        last = {g for final in template.finals for way in final.alternatives for g in way}
        for guard in (template.guards[g] for g in sorted(last)):
            if guard.place is Place.TRAILING and not guard.within:
                length = format_duration(query.window.within.microseconds)
                message = f"`{_negated(guard)}` forbids nothing: without `SLIDE`, the window of a "
                message += "match ends with its last event"
                help_ = f"give the NOT a time of its own: `{_negated(guard)} WITHIN {length}`"
                findings.add("W306", message, guard.span, help_)


def _negated(guard: Guard) -> str:
    return f"NOT ({guard.text})" if " OR " in guard.text else f"NOT {guard.text}"


def _deadlines(templates: tuple[Template, ...]) -> Iterator[Guard]:
    for template in templates:
        for guard in template.guards:
            yield from [guard] if guard.within else []
            yield from _deadlines((guard.template,))


def _without_window(template: Template) -> Iterator[Guard]:
    """Yield the guards that look at the ends of a window."""
    for guard in template.guards:
        if guard.place in (Place.LEADING, Place.TRAILING) and not guard.within:
            yield guard
        yield from _without_window(guard.template)
