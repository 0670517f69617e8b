"""Bind a query about situations and build its plan; collect every mistake (§9)."""

from __future__ import annotations

import msgspec

from cepheid.errors import Note, Span, place_of, suggest_names
from cepheid.events.schema import ValueKind
from cepheid.events.temporal import format_duration
from cepheid.expressions.format import format_expression
from cepheid.jobs.ticks import in_ticks, tick_of
from cepheid.kinds.situation.bind_relative import kind_of_use, relative_to
from cepheid.kinds.situation.detection import find_triggers
from cepheid.kinds.situation.feasible import FINISHED_BY, FINISHES, Patience, is_possible
from cepheid.kinds.situation.join_order import INITIAL_SIZE, initial_selectivity, order_joins
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.language.formatter import format_constraint
from cepheid.patterns.bind_pattern import Variable
from cepheid.patterns.scope import Scope, Source, bind_source
from cepheid.plans.plan import Choice, Evaluator, Granularity, Partition, SituationPlan
from cepheid.plans.situations import (
    Relative,
    RelativeDefinition,
    SituationColumn,
    SituationConstraint,
    SituationDefinition,
    Situations,
    inverse_of,
    mask_of,
    relations_of,
)

TIME_COLUMN, END_COLUMN, NAME_COLUMN = "ts", "te", "situation"
"""The columns of every result: when a match became final; a situation's ends and its name."""

DEFINITIONS_MAX = 64


class SituationScope(Scope):
    """The names that conditions and RETURN may use: attributes of events, and situations."""

    def __init__(self, source: Source, names: dict[str, int], findings: Findings) -> None:
        super().__init__(source, {}, findings)
        self.names = names
        self.uses: dict[str, Relative] = {}
        """The PREV calls and aggregates of the current condition, by column name."""

    def kind_of(self, node: tree.Attribute | tree.Aggregate | tree.Word) -> ValueKind:
        """Look up the kind of an attribute in a condition; report unknown names."""
        if isinstance(node, tree.Attribute) and node.attribute.text in self.uses:
            return kind_of_use(self, self.uses[node.attribute.text], node.span)
        if isinstance(node, tree.Attribute):
            return self.attribute_kind(node.attribute)
        return ValueKind.UNKNOWN

    def variable(self, name: tree.Name, *, counted: bool = False) -> Variable | None:
        """Report a name that no situation has."""
        del counted
        if name.text not in self.names:
            message = f"no situation `{name.text}` is defined"
            help_ = suggest_names(name.text, self.names, owner="DEFINE")
            self.findings.add("E214", message, name.span, help_)
        return None


def compile_situations(query: tree.SituationQuery, text: str, source: Source) -> SituationPlan:
    """Build the plan of a query about situations.

    Raises
    ------
    BindError
        With every mistake of the query, ten at most.
    """
    findings = Findings()
    names: dict[str, int] = {}
    for definition in query.definitions:
        names.setdefault(definition.name.text, len(names))
    scope = SituationScope(source, names, findings)
    bind_source(scope, query.span)
    _check_names(query, findings)
    defined = [_define(definition, scope) for definition in query.definitions]
    definitions = tuple(definition for definition, _, _ in defined)
    where = _bind_condition(query.where, "WHERE", scope) if query.where is not None else None
    partition = _plan_partition(query, text, scope)
    within, early = _plan_window(query, scope)
    constraints = _relate(query, scope)
    columns = _plan_columns(query, scope)
    findings.raise_errors(text)
    _warn_mirrored(query, definitions, None if early else within, scope)
    _warn_unbounded(query, findings)
    waits = within is not None and not early
    situations = Situations(
        definitions=definitions,
        where=where,
        constraints=constraints,
        within=within,
        early=early,
        listed=tuple(names[name.text] for name in query.listed),
        columns=columns,
        relative=tuple(
            RelativeDefinition(n, uses, until)
            for n, (_, uses, until) in enumerate(defined)
            if uses or until is not None
        ),
        triggers=find_triggers(definitions, constraints, waits=waits),
        orders=order_joins(
            len(definitions),
            constraints,
            [INITIAL_SIZE] * len(definitions),
            [initial_selectivity(constraint.mask) for constraint in constraints],
        ),
    )
    return _plan_of(text, source, partition, situations, findings)


def _plan_of(
    text: str, source: Source, partition: Partition, situations: Situations, findings: Findings
) -> SituationPlan:
    choice = Choice(
        evaluator=Evaluator.SITUATIONS,
        granularity=Granularity.EVENT,
        reason="the query defines situations",
        span=None,
        time="O(log n) for each situation and each partial match",
        state="the situations of a window, and one that goes on for each definition and partition",
    )
    columns = _read_columns(source, partition, situations)
    return SituationPlan(
        text=text,
        time=source.time,
        type=None,
        tiebreak=source.tiebreak,
        tick_ns=tick_of(source, [source.schema]),
        partition=partition,
        choice=choice,
        columns=columns,
        warnings=findings.warnings,
        situations=situations,
    )


def _read_columns(source: Source, partition: Partition, situations: Situations) -> tuple[str, ...]:
    names = {source.time, *source.tiebreak, *partition.attributes}
    names |= {c.attribute for c in situations.columns if c.attribute is not None}
    conditions = [definition.condition for definition in situations.definitions]
    conditions += [situations.where] if situations.where is not None else []
    conditions += [one.until for one in situations.relative if one.until is not None]
    uses = {use.column: use.attribute for one in situations.relative for use in one.uses}
    for node in (n for condition in conditions for n in tree.walk(condition)):
        if isinstance(node, tree.Attribute):
            name = uses.get(node.attribute.text, node.attribute.text)
            names |= {name} if name is not None else set()
    return tuple(sorted(names))


# ---------------------------------------------------------------------------------------
# Definitions


def _check_names(query: tree.SituationQuery, findings: Findings) -> None:
    seen: dict[str, Span] = {}
    for definition in query.definitions:
        name = definition.name
        if name.text in seen:
            note = Note("the first one is here", seen[name.text])
            message = f"the situation `{name.text}` is defined twice"
            findings.add("E215", message, name.span, "give it another name", notes=(note,))
        seen.setdefault(name.text, name.span)
    if len(query.definitions) > DEFINITIONS_MAX:
        message = f"the query defines more than {DEFINITIONS_MAX} situations"
        findings.add("E314", message, query.definitions[DEFINITIONS_MAX].span, "split the query")


def _define(
    definition: tree.Definition, scope: SituationScope
) -> tuple[SituationDefinition, tuple[Relative, ...], tree.Expression | None]:
    """Bind a definition, with what it asks beyond single events, and what ends it (§9.10)."""
    least = definition.at_least.microseconds if definition.at_least else 0
    most = definition.at_most.microseconds if definition.at_most else None
    if most is not None and most < max(least, 1):
        assert definition.at_most is not None, "there is a bound"
        shortest = format_duration(least) if least else "some time"
        scope.findings.add(
            "E324",
            f"no situation lasts {shortest} and at most {format_duration(most)}",
            definition.at_most.span,
            "write the shorter length first: `BETWEEN 4 s AND 30 s`" if least else "leave it out",
        )
    fewest = definition.least_events.count if definition.least_events else 0
    largest = definition.most_events.count if definition.most_events else None
    if largest is not None and largest < max(fewest, 1):
        assert definition.most_events is not None, "there is a bound"
        low = f"at least {fewest} and " if fewest else ""
        scope.findings.add(
            "E324",
            f"no situation has {low}at most {largest} events",
            definition.most_events.span,
            "write the smaller number first: `BETWEEN 2 EVENTS AND 5 EVENTS`"
            if fewest
            else "leave it out",
        )
    scope.uses = {}
    own = definition.name.text
    condition = _bind_condition(relative_to(definition.condition, own, scope), "DEFINE", scope)
    until = None
    if definition.until is not None:
        until = _bind_condition(relative_to(definition.until, own, scope), "UNTIL", scope)
    uses, scope.uses = tuple(scope.uses.values()), {}
    shortest_ticks = _ticks(definition.at_least, scope) or 0
    longest_ticks = _ticks(definition.at_most, scope)
    found = SituationDefinition(
        own, condition, shortest_ticks, longest_ticks, least_events=fewest, most_events=largest
    )
    return found, uses, until


def _ticks(length: tree.Duration | None, scope: SituationScope) -> int | None:
    """Convert a length to ticks."""
    if length is None:
        return None
    source = scope.source
    tick_ns = tick_of(source, [source.schema])
    found = in_ticks([length.microseconds], tick_ns, source, length.span, scope.findings)
    return found[0] if found else length.microseconds


def _bind_condition(
    condition: tree.Expression, clause: str, scope: SituationScope
) -> tree.Expression:
    """Bind and check a condition: every name is an attribute of the event."""
    bound = tree.transform(condition, _attribute_of)
    for node in tree.walk(bound):
        anchored = isinstance(node, tree.Attribute) and node.anchor is not tree.Anchor.EACH
        if anchored or isinstance(node, tree.Aggregate | tree.Equivalence):
            assert isinstance(node, tree.Attribute | tree.Aggregate | tree.Equivalence)
            what, help_ = "tests single events", "compare the attributes of an event: `speed > 70`"
            if clause != "WHERE":
                what = "looks at the events of its own situation"
                help_ = "leave the name out: `AVG(speed) > 70` is of the situation so far"
            message = f"`{clause}` {what}, so it cannot use `{format_expression(node)}`"
            scope.findings.add("E325", message, node.span, help_)
            return bound
    scope.typing.check_condition(bound, clause)
    return bound


def _attribute_of(node: tree.Node) -> tree.Node:
    """Convert a word to an attribute; ``a.b`` without a situation is a field of a structure."""
    nobody = tree.Name(span=node.span, text="")
    if isinstance(node, tree.Word):
        name = tree.Name(span=node.span, text=node.text)
        return tree.Attribute(span=node.span, variable=nobody, attribute=name)
    if isinstance(node, tree.Attribute) and node.anchor is tree.Anchor.EACH and node.variable.text:
        name = tree.Name(span=node.span, text=f"{node.variable.text}.{node.attribute.text}")
        return tree.Attribute(span=node.span, variable=nobody, attribute=name)
    return node


# ---------------------------------------------------------------------------------------
# Constraints, partitions, windows


def _relate(query: tree.SituationQuery, scope: SituationScope) -> tuple[SituationConstraint, ...]:
    """Build one constraint for each pair of definitions; several constraints of a pair all hold."""
    findings, masks = scope.findings, dict[tuple[int, int], int]()
    for constraint in query.constraints:
        left, right = constraint.left, constraint.right
        scope.variable(left)
        scope.variable(right)
        if left.text == right.text:
            message = f"`{left.text}` is related to itself, but a match has only one of it"
            help_ = "define the second situation under another name"
            findings.add("E326", message, constraint.span, help_)
            continue
        if not {left.text, right.text} <= scope.names.keys():
            continue
        pair, mask = _oriented(constraint, scope.names)
        together = masks.get(pair, mask) & mask
        masks[pair] = together
        if not together:
            findings.add(
                "W304",
                f"`{format_constraint(constraint)}` contradicts an earlier constraint, so nothing "
                "is found",
                constraint.span,
                "write alternatives as one constraint: `A meets;overlaps B`",
            )
    if query.constraints and query.listed:
        message = "`SITUATIONS` lists situations, and `PATTERN` relates them"
        findings.add("E327", message, query.listed[0].span, "keep one of the two clauses")
    for name in query.listed:
        scope.variable(name)
    return tuple(SituationConstraint(*pair, mask) for pair, mask in sorted(masks.items()))


def _warn_mirrored(
    query: tree.SituationQuery,
    definitions: tuple[SituationDefinition, ...],
    within: int | None,
    scope: SituationScope,
) -> None:
    """Warn of a ``finishes`` that can never hold, but could with its sides swapped (§9.3)."""
    patience = Patience()
    for constraint in query.constraints:
        others = [one for one in query.constraints if one is not constraint]
        written = mask_of(constraint.relations)
        for relation, other in ((FINISHES, FINISHED_BY), (FINISHED_BY, FINISHES)):
            if not written >> relation & 1 or written >> other & 1:
                continue
            (word,), (better,) = relations_of(1 << relation), relations_of(1 << other)
            can_hold = [
                is_possible(definitions, _masks([*others, alone], scope.names), within, patience)
                for alone in (
                    msgspec.structs.replace(constraint, relations=(one,)) for one in (word, better)
                )
            ]
            if can_hold == [False, True]:
                left, right = constraint.left.text, constraint.right.text
                later, earlier = (left, right) if relation == FINISHES else (right, left)
                message = f"`{left} {word.value} {right}` says that {later} begins after {earlier}"
                scope.findings.add(
                    "W305",
                    f"{message}, which the rest of the query rules out",
                    constraint.span,
                    f"write `{left} {better.value} {right}` if {later} begins first",
                )


def _masks(
    constraints: list[tree.TemporalConstraint], names: dict[str, int]
) -> dict[tuple[int, int], int]:
    """Intersect the relations that constraints allow between two definitions."""
    masks: dict[tuple[int, int], int] = {}
    for constraint in constraints:
        pair, mask = _oriented(constraint, names)
        masks[pair] = masks.get(pair, mask) & mask
    return masks


def _oriented(
    constraint: tree.TemporalConstraint, names: dict[str, int]
) -> tuple[tuple[int, int], int]:
    """Sort the two definitions of a constraint, and orient its relations accordingly."""
    left, right = names[constraint.left.text], names[constraint.right.text]
    mask = mask_of(constraint.relations)
    return ((left, right), mask) if left < right else ((right, left), inverse_of(mask))


def _plan_partition(query: tree.SituationQuery, text: str, scope: SituationScope) -> Partition:
    seen: dict[str, str] = {}
    for name in query.partition_by:
        scope.check_equated(name)
        if name.text in seen:
            message = f"`{name.text}` occurs twice in `PARTITION BY`"
            scope.findings.add("E209", message, name.span, "write it once")
        seen[name.text] = f"PARTITION BY {name.text} at {place_of(text, name.span)}"
    reason = ", ".join(seen.values()) or "no PARTITION BY"
    names = tuple(seen)
    return Partition(names, (), names, reason)


def _plan_window(query: tree.SituationQuery, scope: SituationScope) -> tuple[int | None, bool]:
    """Compute the length of the window, and whether it ends when the match is final."""
    findings = scope.findings
    window, detected = query.window, query.detected_within
    whole = window.within if window is not None else None
    if window is not None and (window.slide is not None or isinstance(whole, tree.EventCount)):
        findings.add(
            "E327",
            "the window of situations is a length of time, without `SLIDE`",
            window.span,
            "write `WITHIN 5 minutes`",
        )
        return None, False
    if window is not None and detected is not None:
        message = "a match has one window: `WITHIN` or `DETECTED WITHIN`"
        findings.add("E327", message, detected.span, "keep one of the two clauses")
    if query.listed and (window is not None or detected is not None):
        node = window if window is not None else detected
        assert node is not None, "one of the two"
        message = "a query that lists situations has no window"
        findings.add("E327", message, node.span, "bound a situation: `A AS speed > 70 AT MOST 1 h`")
    chosen = whole if window is not None else detected
    if isinstance(chosen, tree.Duration) and chosen.microseconds == 0:
        message = "a window of length zero contains no situation"
        findings.add("E315", message, chosen.span, "write a longer one: `WITHIN 5 minutes`")
    if isinstance(chosen, tree.Duration):
        return _ticks(chosen, scope), window is None
    return None, True


def _warn_unbounded(query: tree.SituationQuery, findings: Findings) -> None:
    if query.constraints and query.window is None and query.detected_within is None:
        findings.add(
            "W201",
            "without `WITHIN` all situations are kept: on a stream the state grows for ever",
            query.constraints[0].span.to(query.constraints[-1].span),
            "add a window: `WITHIN 10 minutes`, or `DETECTED WITHIN 10 minutes`",
        )


# ---------------------------------------------------------------------------------------
# Result columns


def _plan_columns(query: tree.SituationQuery, scope: SituationScope) -> tuple[SituationColumn, ...]:
    fixed = [name.text for name in query.partition_by]
    fixed += [NAME_COLUMN, TIME_COLUMN, END_COLUMN] if query.listed else [TIME_COLUMN]
    for place, name in enumerate(fixed):
        if name in fixed[:place]:
            span = next(n.span for n in query.partition_by if n.text == name)
            message = f"two result columns are called `{name}`"
            scope.findings.add("E209", message, span, "rename the attribute of the events")
    items = query.returns.items if query.returns is not None else ()
    if not items and not query.listed:
        return tuple(
            SituationColumn(f"{name}_{end}", function, number)
            for name, number in scope.names.items()
            for end, function in ((TIME_COLUMN, "START"), (END_COLUMN, "END"))
        )
    columns: dict[str, SituationColumn] = {}
    for item in items:
        column = _plan_item(item, query, scope)
        if column is None:
            continue
        if column.name in columns or column.name in fixed:
            message = f"two result columns are called `{column.name}`"
            scope.findings.add("E209", message, item.span, "name one with AS")
        columns[column.name] = column
    return tuple(columns.values())


def _plan_item(
    item: tree.ReturnItem, query: tree.SituationQuery, scope: SituationScope
) -> SituationColumn | None:
    expression = item.expression
    partition = {name.text for name in query.partition_by}
    if isinstance(expression, tree.Word) and expression.text in partition and not item.alias:
        return None  # Every row begins with the attributes of its partition.
    match expression:
        case tree.Aggregate(function=function, variable=tree.Name() as name, attribute=attribute):
            word = function.value
            if function is tree.AggregateFunction.COUNT:
                scope.variable(name)
                if attribute is not None:
                    scope.attribute_kind(attribute)
            else:
                scope.aggregate_kind(expression)
        case tree.Attribute(
            variable=name,
            attribute=attribute,
            anchor=(tree.Anchor.FIRST | tree.Anchor.LAST) as anchor,
        ):
            word = anchor.value
            scope.variable(name)
            scope.attribute_kind(attribute)
        case _:
            _report_item(expression, scope)
            return None
    _check_listed(name, query, scope)
    parts = [word.lower(), name.text, *([attribute.text] if attribute else [])]
    label = item.alias.text if item.alias else "_".join(parts)
    number = scope.names.get(name.text, 0)
    return SituationColumn(label, word, number, attribute.text if attribute else None)


def _check_listed(name: tree.Name, query: tree.SituationQuery, scope: SituationScope) -> None:
    listed = [known.text for known in query.listed]
    if listed and name.text in scope.names and name.text not in listed:
        message = f"`{name.text}` is not among the listed situations"
        scope.findings.add("E327", message, name.span, f"add it: `SITUATIONS ..., {name.text}`")


def _report_item(expression: tree.Expression, scope: SituationScope) -> None:
    text = format_expression(expression)
    if isinstance(expression, tree.Attribute) and expression.variable.text in scope.names:
        message = f"`{text}` has a value for every event of the situation"
        helps = [f"write `FIRST({text})`, `LAST({text})` or `AVG({text})`"]
    elif isinstance(expression, tree.Aggregate):
        message = "`COUNT(*)` counts matches, and every match has a row of its own"
        helps = ["count the events of a situation: `COUNT(A)`"]
    else:
        message = f"`RETURN` cannot compute `{text}`"
        helps = ["return aggregates over the events of situations: `AVG(A.speed) AS speed`"]
    scope.findings.add("E317", message, expression.span, *helps)
