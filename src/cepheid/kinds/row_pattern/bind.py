"""A clause and the columns of its input in, a plan out: names are resolved and rules checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cepheid.errors import BindError, Diagnostic, Note, Span, suggest_names
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.bind_expressions import Binder
from cepheid.kinds.row_pattern.bind_windows import Bound, bind_calls
from cepheid.kinds.row_pattern.plan import MatchPlan, OrderKey, SearchBounds


def bind_clause(
    clause: tree.Clause,
    columns: Sequence[str],
    text: str,
    search_bounds: SearchBounds = SearchBounds(),  # noqa: B008  # It never changes.
) -> MatchPlan:
    """Return the plan of a clause over an input with these columns.

    Raises
    ------
    BindError
        E603 to E606 and E608, all mistakes at once.
    """
    findings: list[Diagnostic] = []
    primary = list(dict.fromkeys(v.name for v in _variables(clause.pattern)))
    unions = _bind_subsets(clause, primary, findings)
    known = {name: frozenset([name]) for name in primary} | unions
    binder = Binder(tuple(columns), known, findings, clause.tables)
    partition_by = tuple(binder.key(c) for c in clause.partition_by)
    order_by = tuple(
        OrderKey(binder.key(key.column), key.descending, key.nulls_first, key.stated)
        for key in clause.order_by
    )
    measures = tuple(binder.measures(clause.measures))
    conditions = {}
    for definition in clause.definitions:
        if definition.name not in primary:
            findings.append(_unknown(definition.name, definition.span, primary))
            continue
        conditions[definition.name] = binder.condition(definition.condition)
    functions: Bound = ()
    _check_window(clause, [*conditions.values(), *(m for _, m in measures)], findings)
    if clause.frame is not None:
        callers = Binder(tuple(columns), {}, findings, clause.tables)
        callers.derived = binder.derived
        measures, functions = bind_calls(clause.calls, dict(measures), callers, findings)
    _check_names(clause, columns, partition_by, findings)
    _check_clauses(clause, known, findings)
    _check_shown(clause, {*columns} & {*partition_by}, findings)
    if findings:
        ordered = sorted(findings, key=lambda d: d.span or Span(0, 0))
        raise BindError(ordered[:10], text)
    targets = known[clause.skip.variable] if clause.skip.variable is not None else frozenset()
    return MatchPlan(
        text=text,
        columns=tuple(columns),
        partition_by=partition_by,
        order_by=order_by,
        measures=measures,
        rows=clause.rows,
        skip=clause.skip,
        skip_targets=targets,
        pattern=clause.pattern,
        variables=tuple(primary),
        conditions=conditions,
        within=clause.within,
        bounds=search_bounds,
        frame=clause.frame,
        calls=functions,
        derived=tuple(binder.derived.items()),
    )


def _variables(pattern: tree.Pattern) -> Iterator[tree.Variable]:
    match pattern:
        case tree.Variable():
            yield pattern
        case tree.Sequence(parts=parts) | tree.Alternation(parts=parts):
            for part in parts:
                yield from _variables(part)
        case tree.Permutation(parts=parts):
            for part in parts:
                yield from _variables(part)
        case tree.Exclusion(part=part) | tree.Quantified(part=part):
            yield from _variables(part)


def _unknown(name: str, span: Span, known: Iterable[str]) -> Diagnostic:
    message = f"PATTERN has no variable `{name}`"
    return Diagnostic("E604", message, span, helps=(suggest_names(name, known, owner="it"),))


def _bind_subsets(
    clause: tree.Clause, primary: Sequence[str], findings: list[Diagnostic]
) -> dict[str, frozenset[str]]:
    unions: dict[str, frozenset[str]] = {}
    for subset in clause.subsets:
        if subset.name in primary or subset.name in unions:
            message = f"`{subset.name}` is the name of two variables"
            findings.append(Diagnostic("E606", message, subset.span))
        findings += [
            _unknown(v.name, v.span, primary) for v in subset.variables if v.name not in primary
        ]
        unions[subset.name] = frozenset(v.name for v in subset.variables)
    return unions


def _check_names(
    clause: tree.Clause,
    columns: Sequence[str],
    partition_by: Sequence[str],
    findings: list[Diagnostic],
) -> None:
    """Report variables that are defined twice, and columns of the result with equal names."""
    seen: dict[str, Span] = {}
    for definition in clause.definitions:
        if definition.name in seen:
            message = f"`{definition.name}` is defined twice"
            notes = (Note("first here", seen[definition.name]),)
            findings.append(Diagnostic("E606", message, definition.span, notes=notes))
        seen[definition.name] = definition.span
    if clause.rows != "one":
        for name in sorted({name for name in columns if columns.count(name) > 1}):
            message = f"the result would have {columns.count(name)} columns `{name}` of the input"
            helps = ("rename one with AS in the query that the clause reads",)
            findings.append(Diagnostic("E606", message, clause.span, helps=helps))
    shown = {"one": partition_by, "window": ()}.get(clause.rows, columns)
    taken = {name.lower() for name in shown}
    for measure in clause.measures:
        if measure.name.lower() in taken:
            message = f"the result has two columns `{measure.name}`"
            helps = ("give the measure another name after AS",)
            findings.append(Diagnostic("E606", message, measure.span, helps=helps))
        taken.add(measure.name.lower())


def _check_clauses(
    clause: tree.Clause, known: dict[str, frozenset[str]], findings: list[Diagnostic]
) -> None:
    """Report clauses that do not go together."""
    target = clause.skip.variable
    if target is not None and target not in known:
        findings.append(_unknown(target, clause.skip.span, known))
    if clause.rows == "all unmatched":
        findings += [
            Diagnostic("E606", "WITH UNMATCHED ROWS cannot be combined with an exclusion", n.span)
            for n in _nodes(clause.pattern, tree.Exclusion)
        ]
    if clause.within is not None and (not clause.order_by or clause.order_by[0].descending):
        message = "WITHIN needs an ORDER BY whose first key ascends"
        findings.append(Diagnostic("E606", message, clause.within.span))


def _check_shown(clause: tree.Clause, keys: set[str], findings: list[Diagnostic]) -> None:
    """Report a clause whose result has no column; a computed key is none."""
    if clause.rows == "one" and not clause.measures and not keys:
        message = "the result would have no column"
        helps = ("add MEASURES or PARTITION BY, or write ALL ROWS PER MATCH",)
        findings.append(Diagnostic("E606", message, clause.span, helps=helps))


def _check_window(
    clause: tree.Clause, expressions: Sequence[tree.Expression], findings: list[Diagnostic]
) -> None:
    """Report what a window cannot have."""
    if clause.frame is None:
        return
    found = [(node.span, "anchors") for node in _nodes(clause.pattern, tree.Anchor)]
    if clause.within is not None:
        found.append((clause.within.span, "WITHIN"))
    for expression in expressions:
        numbers = (n for n in tree.walk(expression) if isinstance(n, tree.MatchNumber))
        found += [(node.span, "MATCH_NUMBER()") for node in numbers]
    for span, what in found:
        message = f"a window cannot have {what}"
        helps = ("a match of a window sees the rows of its frame, and no others",)
        findings.append(Diagnostic("E606", message, span, helps=helps))


def _nodes(pattern: tree.Pattern, kind: type[tree.Node]) -> Iterator[tree.Pattern]:
    """Yield the parts of a pattern that are of one kind, the outermost ones."""
    if isinstance(pattern, kind):
        yield pattern
        return
    match pattern:
        case tree.Sequence(parts=parts) | tree.Alternation(parts=parts):
            for part in parts:
                yield from _nodes(part, kind)
        case tree.Permutation(parts=parts):
            for part in parts:
                yield from _nodes(part, kind)
        case tree.Quantified(part=part) | tree.Exclusion(part=part):
            yield from _nodes(part, kind)
