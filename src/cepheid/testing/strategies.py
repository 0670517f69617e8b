"""Random and exhaustive streams and patterns, for tests that compare with the oracle.

The strategies are for Hypothesis; `all_patterns` and `all_streams` are exhaustive, and
`query_strategies` builds whole queries. Everything is small and full of collisions: few types, few
values, many ties, NULL, NaN and both zeros.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar, cast

from hypothesis import strategies as st

from cepheid.testing.harness import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

Schema = dict[str, str]
"""The attributes of a stream and their types."""

Event = dict[str, object]

TYPES = ("A", "A", "B", "C")
"""The types of events; a duplicate is drawn twice as often."""

VARIABLES = {"A": ("x",), "B": ("y",)}
"""The variables of each type beside the one that has the type's name."""

VALUES: Mapping[str, tuple[object, ...]] = {
    "double": (1.0, 1.0, 2.0, 2.0, 2.0, 3.5, 0.0, -0.0, 1e300, float("inf"), float("nan"), None),
    "int": (1, 1, 2, 2, 2, 3, 0, -1, None),
    "string": ("p", "p", "p", "p", "q", "q", None),
    "bool": (True, True, False, None),
}
ATTRIBUTES = {"price": "double", "volume": "int", "key": "string", "zone": "string", "flag": "bool"}

EXTREME_VALUES: Mapping[str, tuple[object, ...]] = {
    "double": (
        *(float("inf"), -float("inf"), 1e300, -1e300, 2.0**53, 2.0**53 + 2),
        *(0.1, 5e-324, -1.5, 1e18),
    ),
    "int": (2**63 - 1, -(2**63), 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**31, 127, 255),
    "string": ("", "it's", 'a"b', "ü", "日本", "a\\b", "%", "_", "p ", "\n", "P", "p\u0301", "👍"),
    "bool": (),
}
"""Extreme values of a column, and texts that are easily misread."""


# ---------------------------------------------------------------------------------------
# Choices

T = TypeVar("T")

CHOICES_MAX = 10_000
_choices: dict[Hashable, st.SearchStrategy[object]] = {}


def choice(options: Sequence[T]) -> st.SearchStrategy[T]:
    """Return the strategy that draws one of some options.

    Hypothesis takes longer to make and validate a strategy than to draw from it, so strategies
    that depend on what was drawn before are made once for equal options. Texts of options are
    compared, because 0.0 and -0.0, or 1 and True, are equal.
    """
    return _remembered(repr(options), lambda: st.sampled_from(options))


def choices(
    options: Sequence[T], min_size: int, max_size: int, *, unique: bool = False
) -> st.SearchStrategy[list[T]]:
    """Return the strategy that draws a list of options, made once like `choice`."""
    key = (repr(options), min_size, max_size, unique)
    return _remembered(
        key,
        lambda: st.lists(choice(options), min_size=min_size, max_size=max_size, unique=unique),
    )


def _remembered(key: Hashable, make: Callable[[], st.SearchStrategy[T]]) -> st.SearchStrategy[T]:
    if key not in _choices:
        if len(_choices) >= CHOICES_MAX:
            _choices.clear()
        _choices[key] = make()
    return cast("st.SearchStrategy[T]", _choices[key])


# ---------------------------------------------------------------------------------------
# Streams


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Draw the attributes of a stream; time and type are always there."""
    chosen = draw(choices(sorted(ATTRIBUTES), 1, 4, unique=True))
    return {"ts": "timestamp", "type": "string"} | {name: ATTRIBUTES[name] for name in chosen}


@st.composite
def streams(
    draw: st.DrawFn,
    schema: Mapping[str, str],
    *,
    events_max: int = 8,
    types: Sequence[str | None] = TYPES,
    values: Mapping[str, Sequence[object]] = VALUES,
) -> list[Event]:
    """Draw a stream sorted by time; about every second event ties with the one before."""
    # A list of random length would be short most of the time, and short streams match nothing.
    size = draw(choice([*range(events_max + 1), events_max, events_max]))
    steps = draw(choices([0, 0, 1, 1, 2], size, size))
    times = itertools.accumulate(steps, initial=draw(choice(range(-2, 4))))
    pools = {"type": choice(types)} | {
        name: choice(values[kind])
        for name, kind in schema.items()
        if kind in values and name != "type"
    }
    return [
        {"ts": time * SECOND_US} | {name: draw(pool) for name, pool in pools.items()}
        for time in itertools.islice(times, 1, None)
    ]


def all_streams(types: Sequence[str], events_max: int) -> Iterator[list[Event]]:
    """Yield all streams up to a number of events, with all combinations of ties.

    Examples
    --------
    >>> [[(e["type"], e["ts"]) for e in events] for events in all_streams("A", 2)]
    [[], [('A', 0)], [('A', 0), ('A', 0)], [('A', 0), ('A', 1000000)]]
    """
    for count in range(events_max + 1):
        for steps in itertools.product((0, SECOND_US), repeat=max(count - 1, 0)):
            times = list(itertools.accumulate(steps, initial=0))[:count]
            for kinds in itertools.product(types, repeat=count):
                yield [{"ts": time, "type": kind} for time, kind in zip(times, kinds, strict=True)]


# ---------------------------------------------------------------------------------------
# Patterns


def _events(types: Sequence[str]) -> st.SearchStrategy[str]:
    """Draw ``A``, ``A x`` or ``ANY z``."""
    names = [(kind, name) for kind in types for name in (kind, *VARIABLES.get(kind, ()))]
    texts = [kind if kind == name else f"{kind} {name}" for kind, name in names]
    return st.sampled_from([*texts, "ANY z"])


def _repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    suffixes = st.sampled_from(["+", "+", "*", "?", "{2}", "{1,}", "{1,2}", "{0,2}"])
    return st.builds(lambda pattern, suffix: f"({pattern}){suffix}", inner, suffixes)


def _sequences(
    inner: st.SearchStrategy[str], types: Sequence[str], *, negation: bool, deadlines: bool
) -> st.SearchStrategy[str]:
    """Draw SEQ; where NOT is allowed, it may stand at any place beside one positive part."""
    if not negation:
        return st.lists(inner, min_size=1, max_size=3).map(_sequence)
    lengths = st.sampled_from((0, 0, 1, 2, 3, 5) if deadlines else (0,))
    negated = st.builds(_negation, inner, lengths)
    if deadlines:
        negated = st.one_of(negated, negated, st.builds(_not_next, _events(types), lengths))
    parts = st.one_of(inner, inner, negated)
    around = st.lists(parts, max_size=2)
    return st.builds(lambda a, b, c: _sequence([*a, b, *c]), around, inner, around)


def _negation(pattern: str, seconds: int) -> str:
    """Write NOT with a deadline, unless a NOT inside would have no window to look at (§2.12)."""
    inside = pattern.count("NOT (") > pattern.count(") WITHIN")
    deadline = f" WITHIN {seconds} seconds" if seconds and not inside else ""
    return f"NOT ({pattern}){deadline}"


def _not_next(event: str, seconds: int) -> str:
    """Write NOT NEXT, with a deadline or without (§2.14)."""
    return f"NOT NEXT {event}" + (f" WITHIN {seconds} seconds" if seconds else "")


def _sequence(parts: Sequence[str]) -> str:
    return f"SEQ({', '.join(parts)})"


def patterns(
    *,
    types: Sequence[str] = TYPES,
    negation: bool = True,
    deadlines: bool = False,
    leaves_max: int = 5,
) -> st.SearchStrategy[str]:
    """Draw the text of a pattern of any shape, without AND; if asked, with deadlines, NOT NEXT."""
    key = ("patterns", tuple(types), negation, deadlines, leaves_max)
    return _remembered(
        key,
        lambda: st.recursive(
            _events(types),
            lambda inner: st.one_of(
                _sequences(inner, types, negation=negation, deadlines=deadlines),
                _repeated(inner),
                st.lists(inner, min_size=2, max_size=2).map(" OR ".join).map(lambda p: f"({p})"),
            ),
            max_leaves=leaves_max,
        ),
    )


def all_patterns(
    types: Sequence[str], operators_max: int, *, negation: bool = True
) -> Iterator[str]:
    """Yield all patterns up to a number of operators; NOT with its SEQ counts as two.

    Examples
    --------
    >>> list(all_patterns("A", 1))
    ['A', '(A)+', '(A)*', '(A)?', 'SEQ(A, A)', '(A OR A)']
    """
    sizes: list[list[str]] = [list(types)]
    for size in range(1, operators_max + 1):
        made = [f"({p}){suffix}" for suffix in "+*?" for p in sizes[size - 1]]
        for p, q in _splits(sizes, size - 1, 2):
            made += [f"SEQ({p}, {q})", f"({p} OR {q})"]
        if negation and size >= 2:
            for p, q in _splits(sizes, size - 2, 2):
                made += [f"SEQ(NOT {p}, {q})", f"SEQ({p}, NOT {q})"]
            made += [f"SEQ({p}, NOT {n}, {q})" for p, n, q in _splits(sizes, size - 2, 3)]
        sizes.append(made)
    return itertools.chain.from_iterable(sizes)


def _splits(sizes: list[list[str]], total: int, parts: int) -> Iterator[tuple[str, ...]]:
    """Yield all tuples of patterns whose numbers of operators add up."""
    for counts in itertools.product(range(total + 1), repeat=parts):
        if sum(counts) == total:
            yield from itertools.product(*(sizes[count] for count in counts))
