"""Draw random queries over a schema that the binder accepts, for Hypothesis.

Predicates are drawn after the pattern, so that they name its variables, and edge predicates only
compare variables that can be neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from cepheid.language import tree
from cepheid.language.parser import parse
from cepheid.testing.oracle_patterns import neighbours_of
from cepheid.testing.strategies import Event, Schema, patterns, schemas, streams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        sorted(pair for pair in neighbours_of(root) if pair[0]),
        [name for name in NUMBERS if name in schema],
        [name for name in KEYS if name in schema],
        ["flag"] if "flag" in schema else [],
        [name for name in OTHER_KEYS if name in schema],
    )


def _variables(node: tree.Node) -> set[str]:
    return {n.variable.text for n in tree.walk(node) if isinstance(n, tree.EventPattern)}


def _with_deadline(node: tree.Node) -> list[tree.Node]:
    return [n for n in tree.walk(node) if isinstance(n, tree.Negation) and n.within is not None]


def _bound_variables(node: tree.Node) -> set[str]:
    if isinstance(node, tree.EventPattern):
        return {node.variable.text}
    inside = () if isinstance(node, tree.Negation) else tree.children_of(node)
    return set().union(*(_bound_variables(child) for child in inside))


# ---------------------------------------------------------------------------------------
# Predicates


def local_predicates(names: Names) -> st.SearchStrategy[str]:
    """Draw a predicate over one variable, also a negated one."""
    variable = st.sampled_from(names.every)
    choices = []
    if names.numbers:
        forms = [f"{{v}}.{{a}} {operator} {n}" for operator in COMPARISONS for n in (1, 2)]
        forms += ["{v}.{a} IN (1, 2)", "{v}.{a} BETWEEN 1 AND 2", "{v}.{a} IS NOT NULL"]
        forms += ["{v}.{a} % 2 = 1", "NOT {v}.{a} * 2 > 3", "ABS({v}.{a}) >= 1"]
        choices.append(_filled(forms, v=variable, a=st.sampled_from(names.numbers)))
    if names.keys:
        forms = ["{v}.{a} = 'p'", "{v}.{a} <> 'q'", "{v}.{a} IS NULL", "{v}.{a} LIKE '_'"]
        choices.append(_filled(forms, v=variable, a=st.sampled_from(names.keys)))
    if names.flags:
        choices.append(_filled(["{v}.{a}", "NOT {v}.{a}"], v=variable, a=st.just("flag")))
    return st.one_of(choices) if choices else st.nothing()


def edge_predicates(names: Names) -> st.SearchStrategy[str]:
    """Draw a predicate over two neighbours."""
    attributes = names.numbers or names.keys
    if not names.pairs or not attributes:
        return st.nothing()
    offsets = ("", " + 1") if names.numbers else ("",)
    forms = ["{u}.{a} {op} NEXT({v}).{b}{plus}", "PREV({u}).{a}{plus} {op} {v}.{b}"]
    if names.numbers:
        # These do not separate, or only for whole numbers.
        forms += ["NEXT({v}).{b} - {u}.{a} {op} 1", "{u}.{a} * NEXT({v}).{b} {op} 2"]
        forms += ["({u}.{a} {op} NEXT({v}).{b} OR {u}.{a} = 2)"]

    def fill(pair: tuple[str, str], form: str, op: str, ab: tuple[str, str], plus: str) -> str:
        plain = form.replace("NEXT({v})", "{v}") if pair[0] != pair[1] and plus else form
        return plain.format(u=pair[0], v=pair[1], op=op, a=ab[0], b=ab[1], plus=plus)

    attribute = st.sampled_from(attributes)
    return st.builds(
        fill,
        st.sampled_from(names.pairs),
        st.sampled_from(forms),
        st.sampled_from(COMPARISONS),
        st.tuples(attribute, attribute),
        st.sampled_from(offsets),
    )


def global_predicates(names: Names) -> st.SearchStrategy[str]:
    """Draw a predicate over a finished match."""
    variable = st.sampled_from(names.bound)
    forms = ["COUNT({v}) > 1", "COUNT({u}) <> COUNT({v})"]
    if names.numbers:
        forms += ["{u}.{a} <= LAST({v}).{a}", "FIRST({u}).{a} < 2", "AVG({v}.{a}) >= 1"]
        forms += ["MAX({u}.{a}) > MIN({v}.{a})", "SUM({v}.{a}) > 2"]
    attribute = st.sampled_from(names.numbers or [""])
    return _filled(forms, u=variable, v=variable, a=attribute)


def equivalences(names: Names, *, partial: bool) -> st.SearchStrategy[str]:
    """Draw ``[key]`` or, if requested, ``[A.key, zone]``."""
    keys = names.keys + names.values
    if not keys:
        return st.nothing()
    whole = st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True)
    if not partial:
        return whole.map(lambda keys: f"[{', '.join(keys)}]")
    some = [f"{variable}.{key}" for variable in names.free for key in keys]
    items = st.lists(st.sampled_from(some + keys), min_size=1, max_size=3, unique=True)
    return items.map(lambda entries: f"[{', '.join(entries)}]")


def _filled(forms: Sequence[str], **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Draw a form and fill its blanks."""
    return st.builds(str.format, st.sampled_from(forms), **parts)


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


def aggregates(names: Names) -> st.SearchStrategy[str]:
    """Draw one aggregate of a variable that a match can bind."""
    forms = ["COUNT(*)", "COUNT({v})", "LOG2(COUNT(*))"]
    if names.numbers:
        forms += [f"{f}({{v}}.{{a}})" for f in ("SUM", "AVG", "MIN", "MAX")]
        forms += [f"LOG2({f}({{v}}.{{a}}))" for f in ("MIN", "MAX")]
    attribute = st.sampled_from(names.numbers or [""])
    return _filled(forms, v=st.sampled_from(names.bound), a=attribute)


@st.composite
def queries(
    draw: st.DrawFn,
    schema: Mapping[str, str],
    *,
    negation: bool = True,
    deadlines: bool = True,
    windows: bool = True,
    leaves_max: int = 5,
) -> str:
    """Draw the text of a query without AND over the attributes of a schema."""
    asked = patterns(negation=negation, deadlines=deadlines, leaves_max=leaves_max)
    pattern = draw(asked)
    names = names_of(pattern, schema)
    lists = draw(st.booleans())
    window = draw(st.sampled_from(WINDOWS)) if windows else ""
    items = draw(st.lists(aggregates(names), min_size=1, max_size=3, unique=True))
    clauses = [
        "RETURN MATCHES" if lists else f"RETURN {', '.join(items)}",
        f"PATTERN {pattern}",
        "SEMANTICS " + draw(st.sampled_from(["any", "next", "contiguous"])),
        draw(_where(names, lists=lists, partial=window not in EVENT_WINDOWS)),
    ]
    if draw(st.booleans()) and names.keys + names.values:
        clauses.append(f"GROUP-BY {draw(st.sampled_from(names.keys + names.values))}")
    if not lists and draw(st.booleans()):
        clauses.append(f"HAVING COUNT(*) {draw(st.sampled_from(COMPARISONS))} 2")
    clauses.append(window)
    if window in TRAILING_WINDOWS and not lists and draw(st.booleans()):
        clauses.append("EMIT ON EXPIRY")
    clauses.append("TIES " + draw(st.sampled_from(["strict", "arrival"])))
    clauses.append(draw(st.sampled_from(["", "", "MIN LENGTH 2"])))
    return "\n".join(clause for clause in clauses if clause)


@st.composite
def _where(draw: st.DrawFn, names: Names, *, lists: bool, partial: bool) -> str:
    kinds = [edge_predicates(names), local_predicates(names), edge_predicates(names)]
    kinds += [equivalences(names, partial=False), equivalences(names, partial=partial)]
    kinds += [global_predicates(names)] * 2 if lists else []
    size = draw(st.sampled_from([1, 2, 0, 1, 3]))
    conjuncts = draw(st.lists(st.one_of(kinds), min_size=size, max_size=size))
    return f"WHERE {' AND '.join(conjuncts)}" if conjuncts else ""


@st.composite
def conjunctions(draw: st.DrawFn, schema: Mapping[str, str]) -> str:
    """Draw the text of a query with AND (§2.10)."""
    small = patterns(types=("A", "B"), deadlines=True, leaves_max=3)
    pattern = f"{draw(small)} AND {draw(small)}"
    names = names_of(pattern, schema)
    where = draw(_where(names, lists=False, partial=False))
    group = f"GROUP-BY {names.keys[0]}" if draw(st.booleans()) and names.keys else ""
    window = draw(st.sampled_from(["", *TIME_WINDOWS, *TRAILING_WINDOWS]))
    semantics = "SEMANTICS " + draw(st.sampled_from(["any", "next", "contiguous"]))
    clauses = ["RETURN COUNT(*)", f"PATTERN {pattern}", semantics, where, group, window]
    return "\n".join(clause for clause in clauses if clause)


@st.composite
def cases(draw: st.DrawFn, *, events_max: int = 7) -> Case:
    """Draw a schema, a query over it and a stream that has it."""
    schema = draw(schemas())
    # Hypothesis tends to draw what comes last as small as it can, and short streams test little.
    pairs = draw(st.sampled_from([False, False, False, True]))
    events = draw(streams(schema, events_max=min(events_max, 5) if pairs else events_max))
    query = draw(conjunctions(schema) if pairs else queries(schema))
    return Case(query, schema, events)
