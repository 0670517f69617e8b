"""Bind the rules of links and the conditions of UNTIL (§3.6, §3.7): tree in, ``Links`` out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from cepheid.errors import Note
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.language.formatter import format_link, format_pattern
from cepheid.patterns.scope import Scope, bind_where
from cepheid.plans.links import EndedLoop, LinkRule, Links
from cepheid.plans.plan import LocalPredicate, Partition
from cepheid.plans.template import Guard, Place, State, Template


class BoundLinks(NamedTuple):
    """The selection of events: one rule, or ``links``; and the templates with their stops.

    ``stops`` are the conditions that end loops, as conditions on variables that no match binds.
    """

    semantics: tree.Semantics
    links: Links | None
    patterns: tuple[Template, ...]
    stops: tuple[LocalPredicate, ...]


def bind_links(query: tree.Query, patterns: tuple[Template, ...], scope: Scope) -> BoundLinks:
    """Bind the exceptions of SEMANTICS and every UNTIL of a query."""
    clause = query.semantics
    default = clause.semantics if clause else tree.Semantics.ANY_MATCH
    rules = _bind_rules(clause, patterns, scope) if clause else ()
    loops, stops = _bind_loops(query.pattern, scope)
    links = Links(default, rules, loops)
    used = {links.rule(*pair) for pair in _pairs(patterns)} or {default}
    if len(used) == 1 and not loops:
        return BoundLinks(used.pop(), None, patterns, ())
    watching = tuple(_with_stops(template, loops) for template in patterns)
    return BoundLinks(tree.Semantics.BY_LINK, links, watching, stops)


def check_links(selection: BoundLinks, partition: Partition, findings: Findings) -> None:
    """Refuse rules of single links with partial equivalence, where events have many partitions."""
    if selection.links is None or not partition.partial:
        return
    entry = partition.partial[0]
    message = "links with different rules, or UNTIL, cannot be combined with "
    message += f"`{entry.attribute}` of only some variables"
    findings.add(
        "E409",
        message,
        entry.span,
        f"write `[{entry.attribute}]` if all events have it",
        "give all links one rule: `SEMANTICS skip-till-next-match`",
    )


def is_determined(query: tree.Query) -> bool:
    """Check that no link is `any`, so that at most one time can extend a match (§5.4)."""
    clause = query.semantics
    rules = [clause.semantics, *(rule.semantics for rule in clause.links)] if clause else []
    return bool(rules) and tree.Semantics.ANY_MATCH not in rules


def _pairs(patterns: tuple[Template, ...]) -> set[tuple[str, str]]:
    """Collect the variables that the patterns allow next to each other, NOT parts left out."""
    return {
        (state.variable, later)
        for template in patterns
        for state in template.states
        for later in state.allowed
    }


def _bind_rules(
    clause: tree.SemanticsClause, patterns: tuple[Template, ...], scope: Scope
) -> tuple[LinkRule, ...]:
    pairs = _pairs(patterns)
    found: dict[tuple[str, str], tree.LinkRule] = {}
    for rule in clause.links:
        known = [scope.variable(name) for name in (rule.prev, rule.next)]
        pair = rule.prev.text, rule.next.text
        if None in known:
            continue
        if patterns and pair not in pairs:
            _reject_pair(rule, pairs, scope.findings)
        elif pair in found:
            note = Note(f"`{format_link(found[pair])}` is here", found[pair].span)
            message = f"the link from `{pair[0]}` to `{pair[1]}` has two rules"
            scope.findings.add("E341", message, rule.span, "leave one of them out", notes=(note,))
        else:
            found[pair] = rule
            if rule.semantics is clause.semantics:
                message = f"`{rule.semantics.value}` is the rule of all links already"
                scope.findings.add("W307", message, rule.span, "leave this exception out")
    return tuple(LinkRule(*pair, rule.semantics) for pair, rule in found.items())


def _reject_pair(rule: tree.LinkRule, pairs: set[tuple[str, str]], findings: Findings) -> None:
    prev, later = rule.prev.text, rule.next.text
    helps = []
    if (later, prev) in pairs:
        helps.append(f"`{prev}` directly follows `{later}`: write `{later} TO {prev}`")
    else:
        after = sorted(name for u, name in pairs if u == prev)
        if after:
            helps.append(f"after `{prev}` can come {' and '.join(f'`{n}`' for n in after[:4])}")
    message = f"`{later}` never directly follows `{prev}` in a match"
    findings.add("E340", message, rule.span, *helps)


# ---------------------------------------------------------------------------------------
# UNTIL


def _bind_loops(
    pattern: tree.Pattern, scope: Scope
) -> tuple[tuple[EndedLoop, ...], tuple[LocalPredicate, ...]]:
    loops: list[EndedLoop] = []
    stops: list[LocalPredicate] = []
    events = [node for node in tree.walk(pattern) if isinstance(node, tree.EventPattern)]
    for loop, negated in _loops(pattern, negated=False):
        assert loop.until is not None, "only loops with UNTIL are asked for"
        if negated:
            message = "`UNTIL` stands inside `NOT`, which forbids every occurrence"
            scope.findings.add("E344", message, loop.span, "leave `UNTIL` out")
            continue
        inside = {id(node) for node in tree.walk(loop)}
        names = tuple(sorted(_bound(loop.pattern)))
        for event in events:
            if event.variable.text in names and id(event) not in inside:
                name = event.variable.text
                message = f"`{name}` stands in the loop that `UNTIL` ends, and outside of it"
                note = Note("this is the loop", loop.span)
                help_ = f"give it another variable here: `{event.event_type.text} {name}2`"
                scope.findings.add("E342", message, event.span, help_, notes=(note,))
        condition = _bind_condition(loop, names, scope)
        if condition is not None:
            stop = _unused_name(scope, len(loops))
            text = format_pattern(msgspec.structs.replace(loop, until=condition))
            loops.append(EndedLoop(names, stop, text, loop.until.span))
            stops.append(LocalPredicate(_renamed(condition, stop), stop))
    return tuple(loops), tuple(stops)


def _loops(node: tree.Node, *, negated: bool) -> Iterator[tuple[tree.Repeat, bool]]:
    """Yield the loops with UNTIL, and whether they stand inside NOT."""
    if isinstance(node, tree.Repeat) and node.until is not None:
        yield node, negated
    for child in tree.children_of(node):
        if not isinstance(child, tree.Expression):
            yield from _loops(child, negated=negated or isinstance(node, tree.Negation))


def _bound(node: tree.Node) -> set[str]:
    """Collect the variables that a match of a pattern binds."""
    if isinstance(node, tree.EventPattern):
        return {node.variable.text}
    if isinstance(node, tree.Negation | tree.Expression):
        return set()
    return set().union(*(_bound(child) for child in tree.children_of(node)))


def _bind_condition(
    loop: tree.Repeat, names: tuple[str, ...], scope: Scope
) -> tree.Expression | None:
    """Bind the condition of UNTIL, which speaks of one event."""
    condition = bind_where(loop.until, scope, "UNTIL")
    assert condition is not None, "the condition is there"
    attributes = [n for n in tree.walk(condition) if isinstance(n, tree.Attribute)]
    used = {a.variable.text for a in attributes}
    plain = all(a.anchor is tree.Anchor.EACH for a in attributes)
    strange = any(isinstance(n, tree.Aggregate | tree.Equivalence) for n in tree.walk(condition))
    if strange or not plain or len(used) > 1 or not used <= set(names):
        shown = f"{names[0]}.attribute" if names else "attribute"
        message = "the condition of `UNTIL` may only use the attributes of the event that ends the "
        message += "loop"
        help_ = f"a variable of the loop stands for that event: `{shown}`"
        scope.findings.add("E343", message, condition.span, help_)
        return None
    return condition


def _unused_name(scope: Scope, number: int) -> str:
    name = f"until{number + 1}"
    while name in scope.variables:
        name += "_"
    return name


def _renamed(condition: tree.Expression, name: str) -> tree.Expression:
    def rename(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Attribute):
            variable = msgspec.structs.replace(node.variable, text=name)
            return msgspec.structs.replace(node, variable=variable)
        return node

    return tree.transform(condition, rename)


def _with_stops(template: Template, loops: tuple[EndedLoop, ...]) -> Template:
    """Let a template watch for the events that end its loops, as guards that no edge asks for."""
    mine = [loop for loop in loops if set(loop.variables) & set(template.variables())]
    guards = tuple(
        Guard(
            Place.LOOP,
            Template(
                states=(State(loop.stop, tree.ANY_TYPE, ()),), edges=(), finals=(), guards=(),
                text=loop.text, span=loop.span, determinised=False, shortest=1,
            ),
            loop.text,
            loop.span,
        )
        for loop in mine
    )  # fmt: skip
    return msgspec.structs.replace(template, guards=(*template.guards, *guards))
