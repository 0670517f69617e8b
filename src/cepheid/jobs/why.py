"""Why a query finds no or few rows: what was counted, and sentences about it.

A kind of query relaxes a query (``Kind.why_not``), and a runtime counts what the relaxed queries
find (``Counting``), wherever the events are. Nothing here lists matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple, Protocol

import msgspec

from cepheid.jobs.relaxed import RelaxedQuery
from cepheid.language import tree
from cepheid.language.tree import Query


class Step(msgspec.Struct, frozen=True):
    """A part of the pattern, and the number that had it and all parts before it."""

    text: str
    count: float
    branch: int = 0
    """The number of the alternative of an OR or AND at the top of a pattern."""


class Condition(msgspec.Struct, frozen=True):
    """A condition on single events: how many events satisfy it.

    ``alone`` events satisfy all other conditions of their variable, and not this one.
    """

    variable: str
    text: str
    events: int
    satisfied: int
    alone: int


class Relaxation(msgspec.Struct, frozen=True):
    """The rows of a query without one of its conditions; None if they were not counted."""

    text: str
    count: float | None
    unit: str


class WhyNot(msgspec.Struct, frozen=True):
    """Why a query finds no or few rows; ``str()`` says it in sentences.

    ``unit`` is what steps count: the values of a key such as ``session``, matches, windows or rows.
    ``found`` is how many of them the query itself has, before HAVING and LIMIT. ``relaxations``
    speak of the step that nothing passed, ``stopped_at``, or of the whole query if that is None.
    """

    unit: str
    found: float
    events: int
    steps: tuple[Step, ...]
    conditions: tuple[Condition, ...]
    relaxations: tuple[Relaxation, ...]
    notices: tuple[str, ...]
    sentences: tuple[str, ...]
    stopped_at: str | None = None

    def __str__(self) -> str:
        return "\n".join((*self.sentences, *(f"notice: {notice}" for notice in self.notices)))

    def __repr__(self) -> str:
        return f"WhyNot  {self.sentences[0]}"

    def to_dict(self) -> dict[str, Any]:
        """Convert to dicts, lists, texts and numbers, for JSON."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made

    def _repr_html_(self) -> str:
        """Show the sentences in a notebook, and each step as a bar; without scripts."""
        most = max((step.count for step in self.steps), default=0)
        bars = "".join(
            f"<tr><td>{escape(step.text)}</td><td align='right'>{number(step.count)}</td><td>"
            f"<div style='background:currentColor;opacity:0.4;height:0.8em;"
            f"width:{_width(step.count, most)}px'></div></td></tr>"
            for step in self.steps
        )
        table = f"<table><tr><th></th><th>{escape(self.unit)}</th><th></th></tr>{bars}</table>"
        return f"<div>{table if bars else ''}<pre>{escape(str(self))}</pre></div>"


def _width(count: float, most: float) -> int:
    return round(300 * min(count / most, 1)) if 0 < most < float("inf") else 0


# ---------------------------------------------------------------------------------------
# Counting


class Tally(NamedTuple):
    """The size of a result: its rows, the distinct values of its keys, the sum of its counts."""

    rows: int
    keys: int
    total: float


class Counted(NamedTuple):
    """A query to count: the columns that are keys, and the column that is summed up."""

    query: RelaxedQuery
    keys: tuple[str, ...] = ()
    total: str | None = None


class Range(NamedTuple):
    """The least and the largest value of a column; None if there is none."""

    least: Any
    largest: Any


class Feed(NamedTuple):
    """The events that a stage of a pipeline reads: rows of queries, and base events before them.

    A join has ``names`` of its streams, ``base_name`` that of base events, and takes each apart.
    """

    rows: Mapping[str, RelaxedQuery]
    base: bool
    names: tuple[str, ...]
    base_name: str
    columns: tuple[str, ...] | None
    time: str
    type: str


class Counting(Protocol):
    """Counts events in a runtime: in this process, in files, in stores or on Spark.

    A query that needs more than a run may gather is not counted: its result is None.
    """

    def tally(self, queries: Mapping[str, Counted]) -> dict[str, Tally | None]:
        """Measure the results of queries, in one pass if they can share one."""

    def ranges(self, query: RelaxedQuery, columns: Sequence[str]) -> dict[str, Range] | None:
        """Find the least and the largest values of columns of a result."""

    def sums(self, query: RelaxedQuery, by: str, column: str) -> dict[Any, float] | None:
        """Add up a column of a result for each value of another one."""

    def least_gap(self, query: RelaxedQuery, first: str, last: str) -> int | None:
        """Find the least difference of two times of a result, in microseconds."""

    def common(self, left: RelaxedQuery, right: RelaxedQuery) -> int | None:
        """Count the rows that two results have in common, by their columns in order."""

    def why_fed(self, query: RelaxedQuery, feed: Feed) -> WhyNot | None:
        """Explain a query over the rows of other queries; None if these take too much."""

    def notices(self) -> list[str]:
        """Tell what is odd about the events that were counted: W206 to W208."""

    def sampled(self, keys: Sequence[str], events: int, rows: int) -> Sample | None:
        """Take about so many rows of all events: those of some keys, else the first ones.

        None if there is no need to, because others do the work.
        """


class Sample(NamedTuple):
    """A part of the events, and the words for it."""

    counting: Counting
    text: str


class Question(NamedTuple):
    """A query as its kind relaxes it."""

    tree: Query
    text: str
    source: Any
    plan: Any

    def relaxed(self, query: Query) -> RelaxedQuery:
        """Plan a tree that was made from the tree of this query."""
        return RelaxedQuery.of(query, self.text, self.source)


# ---------------------------------------------------------------------------------------
# Events that satisfy conditions, counted by one SELECT

STREAM = "events"


def count_events(
    question: Question,
    counting: Counting,
    conditions: Mapping[str, Iterable[tree.Expression]],
    stream_name: str = STREAM,
) -> dict[str, int] | None:
    """Count the events that satisfy all of some conditions, for each name; None if it fails.

    In a condition every attribute is one of the event, whatever its variable is.
    """
    span = question.tree.span
    alias = tree.Name(span=span, text=stream_name)

    def of_event(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Attribute):
            return msgspec.structs.replace(node, variable=alias, anchor=tree.Anchor.EACH)
        return node

    items = []
    for name, parts in conditions.items():
        all_of = tuple(tree.transform(part, of_event) for part in parts)
        one = tree.Literal(span=span, value=1)
        value: tree.Expression = one
        if all_of:
            whole = all_of[0]
            if len(all_of) > 1:
                whole = tree.Logical(span=span, operator="AND", operands=all_of)
            value = tree.Call(span=span, function="IF", arguments=(whole, one))
        counted = tree.Call(span=span, function="COUNT", arguments=(value,))
        label = tree.Name(span=span, text=name)
        items.append(tree.ReturnItem(span=span, expression=counted, alias=label))
    stream = tree.Stream(span=span, name=alias, alias=alias)
    select = tree.SelectQuery(span=span, items=tuple(items), streams=(stream,))
    found = counting.ranges(question.relaxed(select), tuple(conditions))
    if found is None:
        return None
    return {name: int(value.largest or 0) for name, value in found.items()}


def attribute_of(question: Question, name: str) -> tree.Attribute:
    """Build an attribute of an event."""
    span = question.tree.span
    nobody, named = (tree.Name(span=span, text=text) for text in ("", name))
    return tree.Attribute(span=span, variable=nobody, attribute=named)


def is_null(question: Question, name: str, *, negated: bool = False) -> tree.Expression:
    """Build the condition that an attribute is NULL, or that it is not."""
    operand = attribute_of(question, name)
    return tree.IsNull(span=question.tree.span, operand=operand, negated=negated)


def any_of(question: Question, conditions: Sequence[tree.Expression]) -> tree.Expression:
    """Build the condition that one of several holds."""
    if len(conditions) == 1:
        return conditions[0]
    return tree.Logical(span=question.tree.span, operator="OR", operands=tuple(conditions))


# ---------------------------------------------------------------------------------------
# Words


def number(count: float) -> str:
    """Format a count: whole, with commas; a huge one with its exponent.

    Examples
    --------
    >>> number(1101.0), number(1.5e300)
    ('1,101', '1.50e+300')
    """
    return f"{count:,.0f}" if abs(count) < 1e15 else f"{count:.2e}"


def amount(count: float, unit: str) -> str:
    """Format a count and its unit, ``unit`` in the singular.

    Examples
    --------
    >>> amount(1, "session"), amount(0, "match"), amount(2, "value of user_id")
    ('1 session', '0 matches', '2 values of user_id')
    """
    if count == 1:
        return f"1 {unit}"
    first, space, rest = unit.partition(" ")
    return f"{number(count)} {plural(first)}{space}{rest}"


def capital(text: str) -> str:
    """Begin a text with a capital."""
    return text[:1].upper() + text[1:]


def plural(noun: str) -> str:
    """Return the plural of a noun."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


_LENGTHS = ((86_400_000_000, "day"), (3_600_000_000, "hour"), (60_000_000, "minute"),
            (1_000_000, "second"), (1_000, "millisecond"), (1, "microsecond"))  # fmt: skip


def length_of_time(microseconds: int) -> str:
    """Format a length of time with at most three digits that matter.

    Examples
    --------
    >>> length_of_time(31 * 60_000_000), length_of_time(5_445_000_000), length_of_time(999)
    ('31 minutes', '90.8 minutes', '999 microseconds')
    """
    for size, name in _LENGTHS:
        if microseconds >= 2 * size or size == 1:
            value = microseconds / size
            shown = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
            return f"{shown} {name}{'' if shown == '1' else 's'}"
    return f"{microseconds} microseconds"
