"""Tree in, canonical text out: the inverse of ``parse``.

One clause a line, in a fixed order, keywords in upper case, parentheses only where the grammar
needs them. ``parse(format_query(tree)) == tree`` for every tree that ``parse`` returns.
"""

from __future__ import annotations

from collections.abc import Sequence

from cepheid.events.temporal import format_duration
from cepheid.expressions.format import format_expression, format_name, format_path
from cepheid.language import tree
from cepheid.language.lexer import Comment, comments_of
from cepheid.language.parser import parse

# The same for patterns.
_PATTERN_AND, _PATTERN_OR, _PATTERN_NOT, _PATTERN_REPEAT, _PATTERN_ATOM = range(5)


def format_query(query: tree.Query) -> str:
    """Return the canonical text of a query.

    Examples
    --------
    >>> from cepheid.language.parser import parse
    >>> print(format_query(parse("pattern Stock S+ return count(*) within 90s")))
    RETURN COUNT(*)
    PATTERN Stock S+
    WITHIN 90 seconds
    """
    return "\n".join(line for _, line in _clauses(query))


def format_text(text: str) -> str:
    """Return a query text in canonical layout, every comment with its clause.

    A comment of one line that ends the line of a clause stays behind it; all others stand above
    the clause that they are in or before.

    Raises
    ------
    QuerySyntaxError
        If the text cannot be read.

    Examples
    --------
    >>> print(format_text("pattern A within 5 s -- short"))
    PATTERN A
    WITHIN 5 seconds -- short
    """
    query = parse(text)
    if isinstance(query, tree.RowPatternQuery):
        return query.text
    clauses = _clauses(query)
    clause_at = {end: idx for idx, (end, _) in enumerate(clauses)}
    above: list[list[str]] = [[] for _ in range(len(clauses) + 1)]
    behind: dict[int, str] = {}
    kept = [node.span for node in tree.walk(query) if isinstance(node, tree.RowPatternQuery)]
    for comment in comments_of(text):
        if any(span.start <= comment.span.start < span.end for span in kept):
            continue  # It is in the text of the query.
        lines = [f"-- {line.strip()}".rstrip() for line in comment.text.split("\n")]
        ended = clause_at.get(comment.previous_end)
        if ended is not None and _ends_line(text, comment):
            # Of several comments on one line, the last stays there.
            above[ended] += [behind.pop(ended)] if ended in behind else []
            if len(lines) == 1:
                behind[ended] = lines[0]
            else:
                above[ended] += lines
            continue
        # The clause that ends first after the comment; what stands before all clauses stays there.
        later = [(end, idx) for end, idx in clause_at.items() if end > comment.span.start]
        home = min(later)[1] if later else len(clauses)
        above[0 if comment.span.end <= query.span.start else home] += lines
    shown = [
        [*above[idx], f"{line} {behind[idx]}" if idx in behind else line]
        for idx, (_, line) in enumerate(clauses)
    ]
    return "\n".join(line for lines in [*shown, above[-1]] for line in lines)


def _ends_line(text: str, comment: Comment) -> bool:
    """Check whether a comment stands on the line of the word before it, and no word follows."""
    before = text[comment.previous_end : comment.span.start]
    after = text[comment.span.end : comment.next_start]
    return "\n" not in before and ("\n" in after or comment.next_start == len(text))


def _clauses(query: tree.Query) -> list[tuple[int, str]]:
    """Return the clauses in canonical order, each with the offset at which it ends in the query."""
    if isinstance(query, tree.SweepQuery):
        return _clauses(query.query)
    if isinstance(query, tree.RowPatternQuery):
        return [(query.span.end, query.text)]
    if isinstance(query, tree.PipelineQuery):
        return [clause for stage in query.stages for clause in _stage_clauses(stage)]
    if isinstance(query, tree.SituationQuery):
        return [(node.span.end, line) for node, line in _situation_clauses(query)]
    if isinstance(query, tree.SelectQuery):
        return [(node.span.end, line) for node, line in _select_clauses(query)]
    clauses: list[tuple[tree.Node, str]] = []
    if query.returns is not None:
        clauses.append((query.returns, f"RETURN {_format_return(query.returns)}"))
    clauses.append((query.pattern, f"PATTERN {format_pattern(query.pattern)}"))
    if query.semantics is not None:
        clauses.append((query.semantics, _format_semantics(query.semantics)))
    if query.where is not None:
        clauses.append((query.where, f"WHERE {format_expression(query.where)}"))
    if query.group_by:
        names = ", ".join(format_name(name.text) for name in query.group_by)
        clauses.append((query.group_by[-1], f"GROUP-BY {names}"))
    if query.having is not None:
        clauses.append((query.having, f"HAVING {format_expression(query.having)}"))
    if query.window is not None:
        clauses.append((query.window, _format_window(query.window)))
    if query.emit_on_expiry is not None:
        clauses.append((query.emit_on_expiry, "EMIT ON EXPIRY"))
    if query.emit_early is not None:
        clauses.append((query.emit_early, "EMIT EARLY"))
    if query.ties is not None:
        clauses.append((query.ties, f"TIES {query.ties.ties.value}"))
    if query.numbers is not None:
        clauses.append((query.numbers, f"NUMBERS {query.numbers.numbers.value}"))
    if query.min_length is not None:
        clauses.append((query.min_length, f"MIN LENGTH {query.min_length.value}"))
    if query.limit is not None:
        clauses.append((query.limit, f"LIMIT {query.limit.value}"))
    if query.skip is not None:
        target = f" {format_name(query.skip.variable.text)}" if query.skip.variable else ""
        clauses.append((query.skip, f"AFTER MATCH SKIP {query.skip.mode.value}{target}"))
    return [(node.span.end, line) for node, line in clauses]


def _stage_clauses(stage: tree.StageQuery) -> list[tuple[int, str]]:
    """Return the clauses of a stage; those of a stream begin with its name and end its text."""
    clauses = _clauses(stage.query)
    if stage.name is None:
        return clauses
    end, line = clauses[-1]
    head = f"CREATE STREAM {format_name(stage.name.text)} AS"
    return [(stage.name.span.end, head), *clauses[:-1], (end, f"{line};")]


def _situation_clauses(query: tree.SituationQuery) -> list[tuple[tree.Node, str]]:
    clauses: list[tuple[tree.Node, str]] = []
    if query.source is not None:
        clauses.append((query.source, f"FROM {format_name(query.source.text)}"))
    if query.partition_by:
        names = ", ".join(format_name(name.text) for name in query.partition_by)
        clauses.append((query.partition_by[-1], f"PARTITION BY {names}"))
    if query.where is not None:
        clauses.append((query.where, f"WHERE {format_expression(query.where)}"))
    defined = [format_definition(definition) for definition in query.definitions]
    clauses.append((query.definitions[-1], f"DEFINE {', '.join(defined)}"))
    if query.constraints:
        related = [format_constraint(constraint) for constraint in query.constraints]
        clauses.append((query.constraints[-1], f"PATTERN {' AND '.join(related)}"))
    if query.listed:
        names = ", ".join(format_name(name.text) for name in query.listed)
        clauses.append((query.listed[-1], f"SITUATIONS {names}"))
    if query.window is not None:
        clauses.append((query.window, _format_window(query.window)))
    if query.detected_within is not None:
        length = format_duration(query.detected_within.microseconds)
        clauses.append((query.detected_within, f"DETECTED WITHIN {length}"))
    if query.returns is not None:
        clauses.append((query.returns, f"RETURN {_format_return(query.returns)}"))
    return clauses


def _select_clauses(query: tree.SelectQuery) -> list[tuple[tree.Node, str]]:
    items = ", ".join(_format_item_of_select(item) for item in query.items)
    clauses: list[tuple[tree.Node, str]] = [(query.items[-1], f"SELECT {items}")]
    clauses.append((query.streams[0], f"FROM {_format_stream(query.streams[0])}"))
    if query.on is not None:
        conditions: tuple[tree.Expression, ...] = (query.on,)
        if len(query.streams) > 2 and isinstance(query.on, tree.Logical):
            conditions = query.on.operands
        for stream, condition in zip(query.streams[1:], conditions, strict=True):
            on = format_expression(condition)
            clauses.append((condition, f"JOIN {_format_stream(stream)} ON {on}"))
    if query.where is not None:
        clauses.append((query.where, f"WHERE {format_expression(query.where)}"))
    if query.group_by:
        names = ", ".join(format_path(name.text) for name in query.group_by)
        clauses.append((query.group_by[-1], f"GROUP BY {names}"))
    if query.having is not None:
        clauses.append((query.having, f"HAVING {format_expression(query.having)}"))
    if query.window is not None:
        clauses.append((query.window, _format_window(query.window, "WINDOW")))
    if query.order_by:
        order = ", ".join(map(_format_order, query.order_by))
        clauses.append((query.order_by[-1], f"ORDER BY {order}"))
    if query.limit is not None:
        clauses.append((query.limit, f"LIMIT {query.limit.value}"))
    return clauses


def _format_order(item: tree.OrderItem) -> str:
    direction = " DESC" if item.descending else ""
    # NULL comes first where values ascend, unless the query says otherwise.
    usual = item.nulls_first != item.descending
    nulls = "" if usual else f" NULLS {'FIRST' if item.nulls_first else 'LAST'}"
    return f"{format_expression(item.expression)}{direction}{nulls}"


def _format_item_of_select(item: tree.ReturnItem | tree.Star) -> str:
    if isinstance(item, tree.Star):
        return f"{format_name(item.stream.text)}.*" if item.stream else "*"
    return _format_return_item(item)


def _format_stream(stream: tree.Stream) -> str:
    names = [stream.name] if stream.name == stream.alias else [stream.name, stream.alias]
    kept = f" WITHIN {_format_extent(stream.within)}" if stream.within is not None else ""
    return " ".join(format_name(name.text) for name in names) + kept


def format_definition(definition: tree.Definition) -> str:
    """Return the text of a situation's definition."""
    conditions = []
    until = () if definition.until is None else (definition.until,)
    for condition in (definition.condition, *until):
        between = any(isinstance(node, tree.Between) for node in tree.walk(condition))
        # Without parentheses, BETWEEN with lengths of time would bound the situation.
        text = format_expression(condition)
        conditions.append(f"({text})" if between else text)
    lengths = _format_bounds(definition.at_least, definition.at_most)
    lengths += _format_bounds(definition.least_events, definition.most_events)
    return f"{format_name(definition.name.text)} AS {' UNTIL '.join(conditions)}{lengths}"


def _format_bounds(
    least: tree.Duration | tree.EventCount | None, most: tree.Duration | tree.EventCount | None
) -> str:
    if least is not None and most is not None:
        return f" BETWEEN {_format_extent(least)} AND {_format_extent(most)}"
    if least is not None:
        return f" AT LEAST {_format_extent(least)}"
    return f" AT MOST {_format_extent(most)}" if most is not None else ""


def format_constraint(constraint: tree.TemporalConstraint) -> str:
    """Return the text of a constraint: ``A meets;overlaps B``."""
    relations = ";".join(relation_words(constraint.relations))
    left, right = (format_name(name.text) for name in (constraint.left, constraint.right))
    return f"{left} {relations} {right}"


def relation_words(relations: Sequence[tree.Relation]) -> list[str]:
    """Name relations; those that `intersects` stands for, in their order, are that word (§9.3)."""
    for start in range(len(relations)):
        end = start + len(tree.INTERSECTS)
        if tuple(relations[start:end]) == tree.INTERSECTS:
            rest = relation_words(relations[end:])
            return [*(one.value for one in relations[:start]), "intersects", *rest]
    return [relation.value for relation in relations]


def _format_semantics(clause: tree.SemanticsClause) -> str:
    return ", ".join([f"SEMANTICS {clause.semantics.value}", *map(format_link, clause.links)])


def format_link(rule: tree.LinkRule) -> str:
    """Return the text of the rule of a link: ``A TO B contiguous``."""
    prev, later = (format_name(name.text) for name in (rule.prev, rule.next))
    return f"{prev} TO {later} {rule.semantics.value}"


def _format_return(returns: tree.Return) -> str:
    if not returns.items:
        return "MATCHES"
    return ", ".join(_format_return_item(item) for item in returns.items)


def _format_return_item(item: tree.ReturnItem) -> str:
    alias = f" AS {format_name(item.alias.text)}" if item.alias else ""
    return format_expression(item.expression) + alias


def _format_window(window: tree.Window, keyword: str = "WITHIN") -> str:
    within = window.sweep and format_expression(window.sweep)
    keyword = f"{keyword} SESSION" if window.session else keyword
    text = f"{keyword} {within or _format_extent(window.within)}"
    return f"{text} SLIDE {_format_extent(window.slide)}" if window.slide else text


def _format_extent(extent: tree.Duration | tree.EventCount) -> str:
    if isinstance(extent, tree.Duration):
        return format_duration(extent.microseconds)
    return f"{extent.count} EVENT{'' if extent.count == 1 else 'S'}"


def format_pattern(pattern: tree.Pattern, binding: int = _PATTERN_AND) -> str:
    """Return the text of a pattern, in parentheses if it binds less than ``binding``."""
    text, own = _pattern_and_binding(pattern)
    return text if own >= binding else f"({text})"


def _pattern_and_binding(pattern: tree.Pattern) -> tuple[str, int]:
    match pattern:
        case tree.EventPattern(event_type=event_type, variable=variable):
            names = (
                [event_type.text] if variable == event_type else [event_type.text, variable.text]
            )
            if event_type.text == tree.ANY_TYPE:
                return f"ANY {format_name(variable.text)}", _PATTERN_ATOM
            return " ".join(format_name(name) for name in names), _PATTERN_ATOM
        case tree.Sequence(parts=parts):
            return f"SEQ({', '.join(format_pattern(p) for p in parts)})", _PATTERN_ATOM
        case tree.Repeat(pattern=inner):
            loop = format_pattern(inner, _PATTERN_REPEAT) + format_repeat(pattern)
            if pattern.without is not None:
                loop += f" WITHOUT {format_pattern(pattern.without.pattern, _PATTERN_REPEAT)}"
            if pattern.greed is not None:
                return f"{loop} {pattern.greed.value}", _PATTERN_NOT
            if pattern.until is not None:
                return f"{loop} UNTIL ({format_expression(pattern.until)})", _PATTERN_NOT
            if pattern.without is not None:
                return loop, _PATTERN_NOT
            return loop, _PATTERN_REPEAT
        case tree.Negation(pattern=inner, within=within):
            deadline = f" WITHIN {_format_extent(within)}" if within is not None else ""
            no = "NOT NEXT" if pattern.next else "NOT"
            return f"{no} {format_pattern(inner, _PATTERN_NOT)}{deadline}", _PATTERN_NOT
        case tree.Disjunction(alternatives=parts):
            return " OR ".join(format_pattern(p, _PATTERN_NOT) for p in parts), _PATTERN_OR
        case tree.Conjunction(patterns=parts):
            return " AND ".join(format_pattern(p, _PATTERN_OR) for p in parts), _PATTERN_AND


def format_repeat(repeat: tree.Repeat) -> str:
    """Return the mark of a repetition: ``+``, ``*``, ``?`` or ``{n,m}``."""
    match (repeat.least, repeat.most):
        case (1, None):
            return "+"
        case (0, None):
            return "*"
        case (0, 1):
            return "?"
        case (least, None):
            return f"{{{least},}}"
        case (least, most):
            return f"{{{least}}}" if least == most else f"{{{least},{most}}}"
