"""Draw random queries over a schema that the binder accepts, for Hypothesis.

Predicates are drawn after the pattern, so that they name its variables, and edge predicates only
compare variables that can be neighbours.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from hypothesis import strategies as st

from cepheid.language import tree
from cepheid.language.formatter import format_pattern
from cepheid.language.parser import parse
from cepheid.testing.oracle_patterns import greedy_loops, neighbours_of, nullable
from cepheid.testing.strategies import (
    Event,
    Schema,
    choice,
    choices,
    patterns,
    schemas,
    streams,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBERS = ("price", "volume")
KEYS = ("key", "zone")
OTHER_KEYS = ("code", "level", "day")
"""Partition attributes that are not text; a schema has them only on request."""
COMPARISONS = ("<", "<=", ">", ">=", "=", "<>")


class Case(NamedTuple):
    """A query with a stream to run it over."""

    query: str
    schema: Schema
    events: list[Event]


class Names(NamedTuple):
    """The names that a query may use: variables, pairs of neighbours, and attributes by kind."""

    bound: list[str]
    every: list[str]
    free: list[str]
    """The variables that may have a partial equivalence: not those with a deadline (§2.12)."""
    pairs: list[tuple[str, str]]
    numbers: list[str]
    keys: list[str]
    flags: list[str]
    values: list[str]
    """Attributes of other types, of which only equality is asked."""


def names_of(pattern: str, schema: Mapping[str, str]) -> Names:
    """Collect the variables of a pattern and the attributes of a schema."""
    root = parse(f"PATTERN {pattern}").pattern
    return Names(
        sorted(_bound_variables(root)),
        sorted(_variables(root)),
        sorted(_variables(root).difference(*map(_variables, _with_deadline(root)))),
        sorted(pair for pair in neighbours_of(root) if pair[0] and pair[1] not in _asked(root)),
        [name for name in NUMBERS if name in schema],
        [name for name in KEYS if name in schema],
        ["flag"] if "flag" in schema else [],
        [name for name in OTHER_KEYS if name in schema],
    )


def _variables(node: tree.Node) -> set[str]:
    return {n.variable.text for n in tree.walk(node) if isinstance(n, tree.EventPattern)}


def _asked(root: tree.Pattern) -> set[str]:
    """Collect the variables around loops with greed, which no edge predicate may decide (§2.15)."""
    return {
        name for loop, later in greedy_loops(root) for name in (*later, *_bound_variables(loop))
    }


def _with_deadline(node: tree.Node) -> list[tree.Node]:
    return [n for n in tree.walk(node) if isinstance(n, tree.Negation) and n.within is not None]


def _bound_variables(node: tree.Node) -> set[str]:
    if isinstance(node, tree.EventPattern):
        return {node.variable.text}
    inside = () if isinstance(node, tree.Negation) else tree.children_of(node)
    return set().union(*(_bound_variables(child) for child in inside))


# ---------------------------------------------------------------------------------------
# Predicates


def draw_local(draw: st.DrawFn, names: Names) -> str:
    """Draw a predicate over one variable, also a negated one."""
    kinds = [kind for kind in ("numbers", "keys", "flags") if getattr(names, kind)]
    kind = draw(choice(kinds))
    forms = LOCAL_FORMS[kind]
    attribute = draw(choice(getattr(names, kind)))
    return draw(choice(forms)).format(v=draw(choice(names.every)), a=attribute)


LOCAL_FORMS = {
    "numbers": (
        *(f"{{v}}.{{a}} {operator} {n}" for operator in COMPARISONS for n in (1, 2)),
        *("{v}.{a} IN (1, 2)", "{v}.{a} BETWEEN 1 AND 2", "{v}.{a} IS NOT NULL"),
        *("{v}.{a} % 2 = 1", "NOT {v}.{a} * 2 > 3", "ABS({v}.{a}) >= 1"),
        *("CASE WHEN {v}.{a} > 1 THEN {v}.{a} ELSE 2 END = 2", "TRY_CAST({v}.{a} AS INT) = 1"),
        "CASE {v}.{a} WHEN 1 THEN TRUE WHEN 2 THEN {v}.{a} IS NULL END",
    ),
    "keys": (
        "TRY_CAST({v}.{a} AS INT) IS NULL",
        "{v}.{a} = 'p'",
        "{v}.{a} <> 'q'",
        "{v}.{a} IS NULL",
        "{v}.{a} LIKE '_'",
    ),
    "flags": ("{v}.{a}", "NOT {v}.{a}"),
}


def draw_edge(draw: st.DrawFn, names: Names) -> str:
    """Draw a predicate over two neighbours."""
    attributes = names.numbers or names.keys
    forms = ["{u}.{a} {op} NEXT({v}).{b}{plus}", "PREV({u}).{a}{plus} {op} {v}.{b}"]
    if names.numbers:
        # These do not separate, or only for whole numbers.
        forms += ["NEXT({v}).{b} - {u}.{a} {op} 1", "{u}.{a} * NEXT({v}).{b} {op} 2"]
        forms += ["({u}.{a} {op} NEXT({v}).{b} OR {u}.{a} = 2)"]
    u, v = draw(choice(names.pairs))
    form = draw(choice(forms))
    plus = draw(choice(("", " + 1"))) if names.numbers else ""
    if u != v and plus:
        form = form.replace("NEXT({v})", "{v}")
    a, b = (draw(choice(attributes)) for _ in range(2))
    return form.format(u=u, v=v, op=draw(choice(COMPARISONS)), a=a, b=b, plus=plus)


def draw_global(draw: st.DrawFn, names: Names) -> str:
    """Draw a predicate over a finished match."""
    forms = ["COUNT({v}) > 1", "COUNT({u}) <> COUNT({v})"]
    if names.numbers:
        forms += ["{u}.{a} <= LAST({v}).{a}", "FIRST({u}).{a} < 2", "AVG({v}.{a}) >= 1"]
        forms += ["MAX({u}.{a}) > MIN({v}.{a})", "SUM({v}.{a}) > 2"]
    u, v = (draw(choice(names.bound)) for _ in range(2))
    return draw(choice(forms)).format(u=u, v=v, a=draw(choice(names.numbers or ("",))))


def draw_equivalence(draw: st.DrawFn, names: Names, *, partial: bool) -> str:
    """Draw ``[key]`` or, if requested, ``[A.key, zone]``."""
    keys = names.keys + names.values
    if not partial:
        return f"[{', '.join(draw(choices(keys, 1, 2, unique=True)))}]"
    some = [f"{variable}.{key}" for variable in names.free for key in keys]
    return f"[{', '.join(draw(choices(some + keys, 1, 3, unique=True)))}]"


# ---------------------------------------------------------------------------------------
# Selection

RULES = st.sampled_from(["any", "next", "contiguous"])

LINKED_PATTERNS = st.sampled_from(
    [
        "SEQ(A, B+, C)",
        "SEQ(A x, A+, B)",
        "SEQ(A, A x*, ANY z)",
        "SEQ(A, (SEQ(B, C?))+, A x)",
        "A+",
        "SEQ(A+, B y?)",
        "(SEQ(A, B+))+",
        "(A OR B){1,3}",
        "SEQ(A?, (B y OR C)+, B)",
        "SEQ(A, NOT C, B+, NOT A x, B y)",
        "SEQ(NOT C, A+, B, NOT (SEQ(A x, B y)))",
        "SEQ(A, ANY z{2,}, B)",
        "SEQ(ANY z+, A, B)",
        "SEQ(A, B, C)",
        "SEQ(A, B+ WITHOUT A x, C)",
        "(SEQ(A, B?)){1,} WITHOUT (SEQ(B y, C))",
        "SEQ(A, B+ GREEDY, C)",
        "SEQ(A, B* RELUCTANT, ANY z)",
    ]
)
"""Patterns with several links and loops."""


@st.composite
def link_rules(draw: st.DrawFn, pattern: str) -> str:
    """Draw a rule for all links, and others for some of them (§3.6)."""
    root = parse(f"PATTERN {pattern}").pattern
    pairs = sorted(pair for pair in neighbours_of(root, negated=False) if pair[0])
    chosen = draw(choices(pairs, 0, 3, unique=True)) if pairs else []
    return ", ".join([draw(RULES), *(f"{u} TO {v} {draw(RULES)}" for u, v in chosen)])


@st.composite
def with_until(draw: st.DrawFn, pattern: str, names: Names) -> str:
    """Give a pattern's loops conditions that end them, where they may have one (§3.7)."""
    root = parse(f"PATTERN {pattern}").pattern
    counts = Counter(n.variable.text for n in tree.walk(root) if isinstance(n, tree.EventPattern))

    def ended(node: tree.Pattern) -> tree.Pattern:
        if not isinstance(node, tree.Repeat) or node.greed is not None:
            return node
        inside = Counter(
            n.variable.text for n in tree.walk(node) if isinstance(n, tree.EventPattern)
        )
        bound = sorted(_bound_variables(node))
        alone = all(counts[name] == inside[name] for name in bound)
        if not alone or not bound or not draw(st.booleans()):
            return node
        text = draw_local(draw, names._replace(every=bound[:1]))
        return msgspec.structs.replace(node, until=parse(f"PATTERN A WHERE {text}").where)

    def outside_not(node: tree.Pattern) -> tree.Pattern:
        match node:
            case tree.Sequence(parts=parts):
                node = msgspec.structs.replace(node, parts=tuple(map(outside_not, parts)))
            case tree.Disjunction(alternatives=parts):
                node = msgspec.structs.replace(node, alternatives=tuple(map(outside_not, parts)))
            case tree.Repeat(pattern=inner):
                node = msgspec.structs.replace(node, pattern=outside_not(inner))
        return ended(node)

    return format_pattern(outside_not(root))


# ---------------------------------------------------------------------------------------
# Clauses and queries

TIME_WINDOWS = (
    "WITHIN 2 seconds SLIDE 2 seconds",
    "WITHIN 3 seconds SLIDE 1 second",
    "WITHIN 4 seconds SLIDE 3 seconds",
)
TRAILING_WINDOWS = ("WITHIN 1 second", "WITHIN 3 seconds")
EVENT_WINDOWS = (
    "WITHIN 2 EVENTS SLIDE 2 EVENTS",
    "WITHIN 3 EVENTS SLIDE 3 EVENTS",
    "WITHIN 4 EVENTS SLIDE 1 EVENT",
)
WINDOWS = ("", *TIME_WINDOWS, *TRAILING_WINDOWS, *EVENT_WINDOWS, "", "")


SKIPS = (
    "AFTER MATCH SKIP PAST LAST",
    "AFTER MATCH SKIP TO NEXT",
    "AFTER MATCH SKIP TO LATEST",
)
"""Those that every match allows; TO FIRST and TO LAST need a later event of a variable."""


def can_skip(pattern: str) -> bool:
    """Check that no NOT looks to an end of the window, whatever is optional (§14.5)."""
    nodes = tree.walk(parse(f"PATTERN {pattern}").pattern)
    negated = [
        node
        for node in nodes
        if isinstance(node, tree.Sequence)
        and any(isinstance(part, tree.Negation) for part in node.parts)
    ]
    return not any(nullable(node.parts[0]) or nullable(node.parts[-1]) for node in negated)


def draw_aggregate(draw: st.DrawFn, names: Names, *, spread: bool = True) -> str:
    """Draw one aggregate of a variable that a match can bind; variances where they are defined."""
    forms = ["COUNT(*)", "COUNT({v})", "LOG2(COUNT(*))"]
    if spread:
        forms += ["VAR(LENGTH)", "STDDEV_POP(COUNT({v}))", "VAR_POP(DURATION)"]
    if names.numbers:
        forms += [f"{f}({{v}}.{{a}})" for f in ("SUM", "AVG", "MIN", "MAX")]
        forms += [f"LOG2({f}({{v}}.{{a}}))" for f in ("MIN", "MAX")]
    attribute = draw(choice(names.numbers or ("",)))
    return draw(choice(forms)).format(v=draw(choice(names.bound)), a=attribute)


@st.composite
def key_counts(draw: st.DrawFn, where: str, group: str) -> str:
    """Draw the count of the keys that a query has (§5.6); empty if it has none."""
    condition = parse(f"PATTERN A {where}").where
    nodes = tree.walk(condition) if condition is not None else ()
    items = [i for n in nodes if isinstance(n, tree.Equivalence) for i in n.items]
    names = [i.attribute.text for i in items if i.variable is None and i.attribute.text != group]
    if group and (not names or draw(st.booleans())):
        names.append(group)
    return f"COUNT(DISTINCT {', '.join(dict.fromkeys(names))})" if names else ""


@st.composite
def queries(
    draw: st.DrawFn,
    schema: Mapping[str, str],
    *,
    negation: bool = True,
    deadlines: bool = True,
    windows: bool = True,
    leaves_max: int = 5,
    linked: bool = False,
    keyed: bool = False,
    pattern: st.SearchStrategy[str] | None = None,
) -> str:
    """Draw the text of a query without AND over the attributes of a schema.

    With ``linked``, links have different rules, or loops end. With ``keyed``, keys with a match are
    counted. ``pattern`` draws other patterns.
    """
    if pattern is None:
        free = patterns(negation=negation, deadlines=deadlines, leaves_max=leaves_max)
        pattern = LINKED_PATTERNS if linked else free
    drawn = draw(pattern)
    return draw(_queries_of(drawn, schema, windows=windows, linked=linked, keyed=keyed))


@st.composite
def _queries_of(
    draw: st.DrawFn,
    pattern: str,
    schema: Mapping[str, str],
    *,
    windows: bool,
    linked: bool,
    keyed: bool,
) -> str:
    """Draw the text of a query with a pattern."""
    names = names_of(pattern, schema)
    by_link = linked or draw(choice([False, False, True]))
    if by_link:
        pattern = draw(with_until(pattern, names))
    semantics = draw(link_rules(pattern) if by_link else RULES)
    lists = not keyed and draw(st.booleans())
    window = draw(choice(WINDOWS)) if windows else ""
    count = draw(choice((1, 2, 3)))
    items = list(dict.fromkeys(draw_aggregate(draw, names) for _ in range(count)))
    odd = any(word in pattern for word in ("NOT NEXT", "GREEDY", "RELUCTANT"))
    partial = window not in EVENT_WINDOWS and not by_link and not odd
    where = draw_where(draw, names, lists=lists, partial=partial)
    keys = names.keys + names.values
    group = draw(choice(keys)) if draw(st.booleans()) and keys else ""
    counted = ["COUNT(*)"]
    if keyed and not (group or "[" in where):
        group = keys[0]
    keys_counted = draw(key_counts(where, group)) if keyed or draw(st.booleans()) else ""
    if keys_counted:
        items = [*items, keys_counted]
        counted.append(keys_counted)
    clauses = [
        "RETURN MATCHES" if lists else f"RETURN {', '.join(items)}",
        f"PATTERN {pattern}",
        f"SEMANTICS {semantics}",
        where,
        f"GROUP-BY {group}" if group else "",
    ]
    if not lists and draw(st.booleans()):
        number = draw(choice(counted))
        clauses.append(f"HAVING {number} {draw(choice(COMPARISONS))} 2")
    clauses.append(window)
    if window in TRAILING_WINDOWS and not lists and draw(st.booleans()):
        clauses.append("EMIT ON EXPIRY")
    clauses.append("TIES " + draw(choice(["strict", "arrival"])))
    clauses.append(draw(choice(["", "", "MIN LENGTH 2"])))
    if can_skip(pattern):
        clauses.append(draw(choice(["", "", "", *SKIPS])))
    return "\n".join(clause for clause in clauses if clause)


def draw_where(draw: st.DrawFn, names: Names, *, lists: bool, partial: bool) -> str:
    """Draw the conditions of a query, up to three."""
    kinds = ["edge"] * 2 if names.pairs and (names.numbers or names.keys) else []
    kinds += ["local"] if names.numbers or names.keys or names.flags else []
    kinds += ["whole", "partial"] if names.keys or names.values else []
    kinds += ["global"] * 2 if lists else []
    conjuncts = []
    for _ in range(draw(choice([1, 2, 0, 1, 3])) if kinds else 0):
        match draw(choice(kinds)):
            case "edge":
                conjuncts.append(draw_edge(draw, names))
            case "local":
                conjuncts.append(draw_local(draw, names))
            case "global":
                conjuncts.append(draw_global(draw, names))
            case kind:
                only = kind == "partial" and partial
                conjuncts.append(draw_equivalence(draw, names, partial=only))
    return f"WHERE {' AND '.join(conjuncts)}" if conjuncts else ""


@st.composite
def conjunctions(draw: st.DrawFn, schema: Mapping[str, str], *, listed: bool | None = None) -> str:
    """Draw the text of a query with AND (§2.10), whose sets are listed or aggregated."""
    several = draw(choice([2, 2, 3]))
    small = patterns(types=("A", "B"), deadlines=True, leaves_max=3 if several == 2 else 2)
    pattern = " AND ".join(draw(small) for _ in range(several))
    names = names_of(pattern, schema)
    linked = draw(st.booleans())
    odd = linked or "NOT NEXT" in pattern
    where = draw_where(draw, names, lists=True, partial=not odd)
    group = f"GROUP-BY {names.keys[0]}" if draw(st.booleans()) and names.keys else ""
    window = draw(choice(["", *TIME_WINDOWS, *TRAILING_WINDOWS]))
    semantics = "SEMANTICS " + draw(link_rules(pattern) if linked else RULES)
    count = draw(choice([1, 2]))
    items = dict.fromkeys(draw_aggregate(draw, names, spread=False) for _ in range(count))
    returned = f"RETURN {', '.join(items)}"
    if listed or (listed is None and draw(choice([False, False, True]))):
        returned = "RETURN MATCHES"
    clauses = [returned, f"PATTERN {pattern}", semantics, where, group, window]
    return "\n".join(clause for clause in clauses if clause)


@st.composite
def cases(draw: st.DrawFn, *, events_max: int = 7, linked: bool = False) -> Case:
    """Draw a schema, a query over it and a stream that has it."""
    schema = draw(schemas())
    if linked:
        events = draw(streams(schema, events_max=events_max))
        return Case(draw(queries(schema, linked=True)), schema, events)
    # Hypothesis tends to draw what comes last as small as it can, and short streams test little.
    pairs = draw(choice([False, False, False, True]))
    events = draw(streams(schema, events_max=min(events_max, 5) if pairs else events_max))
    query = draw(conjunctions(schema) if pairs else queries(schema))
    return Case(query, schema, events)
