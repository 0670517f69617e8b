"""Classify the predicates of WHERE: local, equivalence, edge (and separable) or global (§4)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cepheid.expressions.format import format_expression
from cepheid.expressions.value_types import Typing
from cepheid.kinds.trend.planning.adjacency import Adjacency
from cepheid.kinds.trend.planning.global_events import place_global
from cepheid.kinds.trend.planning.separate import separate_predicate
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.conjuncts import conjuncts_of
from cepheid.patterns.monotone import monotone_forms
from cepheid.plans.plan import EdgePredicate, GlobalPredicate, LocalPredicate

_SPANNING = frozenset({tree.Anchor.FIRST, tree.Anchor.LAST})
_NEIGHBOUR = frozenset({tree.Anchor.NEXT, tree.Anchor.PREV})


class Predicates(msgspec.Struct, frozen=True):
    """The conjuncts of WHERE by kind."""

    local: tuple[LocalPredicate, ...] = ()
    edges: tuple[EdgePredicate, ...] = ()
    globals: tuple[GlobalPredicate, ...] = ()
    equivalences: tuple[tree.EquivalenceItem, ...] = ()


def classify_predicates(
    where: tree.Expression | None, adjacency: Adjacency, typing: Typing, findings: Findings
) -> Predicates:
    """Classify the conjuncts of WHERE; report those that fit no kind."""
    local: list[LocalPredicate] = []
    edges: list[EdgePredicate] = []
    spanning: list[GlobalPredicate] = []
    equivalences: list[tree.EquivalenceItem] = []
    for conjunct in conjuncts_of(where):
        if isinstance(conjunct, tree.Equivalence):
            equivalences.extend(conjunct.items)
            continue
        _check_no_equivalence(conjunct, findings)
        attributes = [n for n in tree.walk(conjunct) if isinstance(n, tree.Attribute)]
        anchors = {attribute.anchor for attribute in attributes}
        if anchors & _SPANNING or any(isinstance(n, tree.Aggregate) for n in tree.walk(conjunct)):
            if anchors & _NEIGHBOUR:
                _reject_neighbours(conjunct, "stand with FIRST, LAST or an aggregate", findings)
            spanning.append(place_global(conjunct, typing))
            continue
        variables = list(dict.fromkeys(a.variable.text for a in attributes))
        if anchors & _NEIGHBOUR or len(variables) > 1:
            edge = _classify_edge(conjunct, attributes, adjacency, typing, findings)
            edges.extend([edge] if edge else [])
        else:
            local.append(LocalPredicate(conjunct, variables[0] if variables else None))
    return Predicates(tuple(local), tuple(edges), tuple(spanning), tuple(equivalences))


def _check_no_equivalence(conjunct: tree.Expression, findings: Findings) -> None:
    for node in tree.walk(conjunct):
        if isinstance(node, tree.Equivalence):
            findings.add(
                "E313",
                "an equivalence predicate is nested in another condition",
                node.span,
                "join it to the other conditions with AND: `WHERE [a] AND S.price > 10`",
            )


def _reject_neighbours(conjunct: tree.Expression, why: str, findings: Findings) -> None:
    findings.add(
        "E311",
        f"`NEXT` and `PREV` cannot {why}",
        conjunct.span,
        "compare one event with its neighbour: `S.price > NEXT(S).price`",
    )


def _classify_edge(
    conjunct: tree.Expression,
    attributes: list[tree.Attribute],
    adjacency: Adjacency,
    typing: Typing,
    findings: Findings,
) -> EdgePredicate | None:
    """Determine which variable comes first, and set the anchor of the later one to NEXT."""
    by_anchor: dict[tree.Anchor, list[str]] = {}
    for attribute in attributes:
        names = by_anchor.setdefault(attribute.anchor, [])
        names += [attribute.variable.text] if attribute.variable.text not in names else []
    each = by_anchor.get(tree.Anchor.EACH, [])
    neighbours = [a for a in (tree.Anchor.NEXT, tree.Anchor.PREV) if a in by_anchor]
    if len(neighbours) > 1:
        _reject_neighbours(conjunct, "stand in one condition", findings)
        return None
    if not neighbours:
        pair = _implicit_pair(conjunct, each, adjacency, findings)
    elif len(each) != 1 or len(by_anchor[neighbours[0]]) != 1:
        why = "stand alone" if not each else "be compared with several variables"
        _reject_neighbours(conjunct, why, findings)
        return None
    else:
        other = by_anchor[neighbours[0]][0]
        pair = (each[0], other) if neighbours[0] is tree.Anchor.NEXT else (other, each[0])
        if pair not in adjacency.pairs:
            _never_adjacent(conjunct, pair, adjacency, findings)
            return None
    if pair is None or not adjacency.known:
        return None
    _warn_if_partial(conjunct, pair, adjacency, findings)
    expression = _anchor_at(conjunct, pair, backwards=neighbours == [tree.Anchor.PREV])
    separation, reason = separate_predicate(expression, typing)
    is_monotone = separation is None and bool(monotone_forms(expression))
    return EdgePredicate(expression, *pair, separation, reason, is_monotone)


def _implicit_pair(
    conjunct: tree.Expression, variables: list[str], adjacency: Adjacency, findings: Findings
) -> tuple[str, str] | None:
    """Determine (prev, next) of ``A.x < B.y``: as written, if both orders are possible (§4.4)."""
    if len(variables) > 2:
        findings.add(
            "E312",
            f"this condition compares {len(variables)} variables",
            conjunct.span,
            "compare two neighbours, or FIRST and LAST of a variable in a query that lists matches",
        )
        return None
    first, second = variables
    forward, backward = (first, second), (second, first)
    if forward not in adjacency.pairs and backward not in adjacency.pairs:
        _never_adjacent(conjunct, forward, adjacency, findings)
        return None
    if forward in adjacency.pairs and backward in adjacency.pairs:
        findings.add(
            "W302",
            f"`{second}` can follow `{first}` and `{first}` can follow `{second}`; "
            f"this holds where `{second}` directly follows `{first}`",
            conjunct.span,
            f"write `NEXT({second})` or `PREV({first})` to say so",
        )
    return forward if forward in adjacency.pairs else backward


def _never_adjacent(
    conjunct: tree.Expression, pair: tuple[str, str], adjacency: Adjacency, findings: Findings
) -> None:
    prev, later = pair
    if not adjacency.known:
        return
    message = f"`{prev}` and `{later}` are never neighbours in a match"
    label = f"`{later}` never directly follows `{prev}` in the pattern"
    negated = [name for name in pair if name not in adjacency.positive]
    if negated and set(pair) & adjacency.positive:
        label = f"`{negated[0]}` is negated, so it is in no match"
        help_ = f"compare `{negated[0]}` with constants, or use an equivalence predicate `[...]`"
    elif prev == later:
        message = f"no `{prev}` directly follows another `{prev}` in a match"
        help_ = f"let it repeat: `{prev}+`, or compare it with another variable"
    elif (later, prev) in adjacency.pairs:
        message = f"`{later}` never directly follows `{prev}` in a match"
        label = f"`{prev}` follows `{later}`"
        text = format_expression(_anchor_at(conjunct, (later, prev), backwards=False))
        help_ = f"write `{text}`"
    elif adjacency.joined:
        help_ = (
            "compare neighbours of one match; the two patterns of `AND` have matches of their own"
        )
    else:
        text = format_expression(_anchor_far(conjunct, prev))
        help_ = (
            f"to compare events farther apart, list the matches: `RETURN MATCHES ... WHERE {text}`"
        )
    findings.add("E310", message, conjunct.span, _shared(conjunct), help_, label=label)


def _shared(conjunct: tree.Expression) -> str:
    """Offer `[session]` where one attribute of two variables is compared: all events share it."""
    match conjunct:
        case tree.Binary(operator="=", left=tree.Attribute() as a, right=tree.Attribute() as b):
            if a.attribute.text == b.attribute.text:
                return f"if all events of a match share it, write `[{a.attribute.text}]`"
    return ""


def _warn_if_partial(
    conjunct: tree.Expression, pair: tuple[str, str], adjacency: Adjacency, findings: Findings
) -> None:
    prev, later = pair
    both = (later, prev) in adjacency.pairs  # W302 was reported already.
    if prev == later or both or findings.has_enough("W301"):
        return
    if not adjacency.always(prev, later):
        findings.add(
            "W301",
            f"`{later}` follows `{prev}` directly in some matches only; "
            "this condition does not restrict the others",
            conjunct.span,
            f"to compare them in every match, list the matches and write `LAST({prev})`"
            if not adjacency.joined
            else "",
        )


def _anchor_at(
    expression: tree.Expression, pair: tuple[str, str], *, backwards: bool
) -> tree.Expression:
    """Set the anchor of the later event's attributes to NEXT and of all others to EACH."""

    def place(attribute: tree.Attribute) -> tree.Attribute:
        if backwards:
            later = attribute.anchor is tree.Anchor.EACH
        elif pair[0] == pair[1]:
            later = attribute.anchor is tree.Anchor.NEXT
        else:
            later = attribute.variable.text == pair[1]
        anchor = tree.Anchor.NEXT if later else tree.Anchor.EACH
        return msgspec.structs.replace(attribute, anchor=anchor)

    return _map_attributes(expression, place)


def _anchor_far(expression: tree.Expression, prev: str) -> tree.Expression:
    def place(attribute: tree.Attribute) -> tree.Attribute:
        far = attribute.variable.text == prev
        anchor = tree.Anchor.LAST if far else tree.Anchor.EACH
        return msgspec.structs.replace(attribute, anchor=anchor)

    return _map_attributes(expression, place)


def _map_attributes(
    expression: tree.Expression, change: Callable[[tree.Attribute], tree.Attribute]
) -> tree.Expression:
    return tree.transform(expression, lambda n: change(n) if isinstance(n, tree.Attribute) else n)
