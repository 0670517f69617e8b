"""Random trials with one construct each: deadlines, links, UNTIL, WITHOUT, ANY, SKIP and others.

The other random trials draw all of these, too, but rarely. Here every trial has its construct, so
that a number of comparisons says something about it; other constructs may come along.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from tests.agreement.values import (
    Trial,
    clocks,
    forms_of,
    pattern_trials,
    repeated,
    settings_of,
    span_of,
    table_of,
    time_unit_of,
    worded,
)

from cepheid.testing.query_strategies import KEYS, OTHER_KEYS, SKIPS, can_skip, queries
from cepheid.testing.strategies import TYPES, Schema, patterns

Texts = Callable[[Schema], st.SearchStrategy[str]]

_DEADLINES = (
    "SEQ({p}, NOT ({n}) WITHIN {d} seconds)",
    "SEQ(NOT ({n}) WITHIN {d} seconds, {p})",
    "SEQ({p}, NOT ({n}) WITHIN {d} seconds, {q})",
    "(SEQ({p}, NOT ({n}) WITHIN {d} seconds, {q}))+",
    "SEQ({p}, NOT (SEQ({n}, {q})) WITHIN {d} seconds)",
    "(SEQ({p}, NOT ({n}) WITHIN {d} seconds) OR {q})",
)
_WITHOUT = (
    "({p})+ WITHOUT ({n})",
    "SEQ({q}, ({p})+ WITHOUT ({n}))",
    "SEQ(({p}){{1,3}} WITHOUT ({n}), {q})",
    "(SEQ({p}, {q})){{1,}} WITHOUT ({n})",
)
_NOT_NEXT = (
    "SEQ({p}, NOT NEXT {e}, {q})",
    "SEQ({p}, NOT NEXT {e} WITHIN {d} seconds)",
    "SEQ(NOT NEXT {e} WITHIN {d} seconds, {p})",
    "(SEQ({p}, NOT NEXT {e}, {q}))+",
)
_GREEDY = (
    "SEQ(A+ GREEDY, {e} x)",
    "SEQ({e} x, A+ RELUCTANT, {p})",
    "SEQ({e} x, B+ GREEDY, {p})",
    "(SEQ(B+ RELUCTANT, {e} x))+",
)
_ANY = ("SEQ(ANY z, {p})", "SEQ({p}, ANY z+, {q})", "SEQ({p}, ANY z)", "(ANY z OR {p}){{1,3}}")


def _filled(forms: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Fill the blanks of a form with small patterns, and its deadline."""
    part = patterns(negation=False, leaves_max=2)
    lengths = st.sampled_from([1, 2, 3, 5])
    event = st.sampled_from(TYPES)
    blanks = {"p": part, "q": part, "n": part, "d": lengths, "e": event}
    return st.builds(str.format, st.sampled_from(forms), **blanks)


@st.composite
def _counting_keys(draw: st.DrawFn, schema: Schema) -> str:
    """Draw a query that counts keys with a match."""
    assume(not {*KEYS, *OTHER_KEYS}.isdisjoint(schema))
    return draw(queries(schema, keyed=True))


@st.composite
def _choosing(draw: st.DrawFn, schema: Schema) -> str:
    """Draw a query that chooses matches."""
    text = draw(queries(schema, pattern=patterns(deadlines=True).filter(can_skip)))
    lines = [line for line in text.splitlines() if not line.startswith("AFTER")]
    return "\n".join([*lines, draw(st.sampled_from(SKIPS))])


_SWEPT = re.compile(r"(?<=[<>=] )[12]\b(?! second)")
"""Constants of random queries in whose places a SWEEP may stand."""
_VALUES_SWEPT = ("0, 1, 2", "2, 0", "0 TO 3 STEP 1", "2.5 TO 0.5 STEP -0.5", "1.5, -1, 2, 0", "1")


@st.composite
def _sweeping(draw: st.DrawFn, schema: Schema) -> str:
    """Draw a query in which one or two constants take several values."""
    text = draw(queries(schema))
    for name in draw(st.sampled_from([("",), ("one",), ("one", "two")])):
        places = list(_SWEPT.finditer(text))
        assume(places)
        place = draw(st.sampled_from(places))
        values = draw(st.sampled_from(_VALUES_SWEPT))
        text = f"{text[: place.start()]}SWEEP {name}({values}){text[place.end() :]}"
    return text


TEXTS: dict[str, Texts] = {
    "deadlines": lambda schema: queries(schema, pattern=_filled(_DEADLINES)),
    "links": lambda schema: queries(schema, linked=True).filter(lambda text: " TO " in text),
    "UNTIL": lambda schema: queries(schema, linked=True).filter(lambda text: "UNTIL" in text),
    "WITHOUT": lambda schema: queries(schema, pattern=_filled(_WITHOUT)),
    "ANY": lambda schema: queries(schema, pattern=_filled(_ANY)),
    "SKIP": _choosing,
    "NOT NEXT": lambda schema: queries(schema, pattern=_filled(_NOT_NEXT)),
    "GREEDY": lambda schema: queries(schema, pattern=_filled(_GREEDY)),
    "DISTINCT": _counting_keys,
    "SWEEP": _sweeping,
}
FUNNELS = "funnels"
CONSTRUCTS = (*TEXTS, FUNNELS)


@st.composite
def construct_trials(draw: st.DrawFn, construct: str) -> Trial:
    """Draw a trial that has a construct."""
    if construct == FUNNELS:
        trial = draw(funnel_trials())
    else:
        trial = draw(pattern_trials(texts=TEXTS[construct]))
    kind = "sweep" if construct == "SWEEP" else trial.kind
    return replace(trial, construct=construct, kind=kind)


# ---------------------------------------------------------------------------------------
# Funnels

_KINDS = {"type": "string", "u": "string", "g": "int", "x": "int"}
_VALUES: dict[str, tuple[Any, ...]] = {
    "type": ("A", "A", "B", "B", "C", "D"),
    "u": ("p", "p", "q", None),
    "g": (1, 1, 2, None),
    "x": (0, 1, 2, 3, None),
}


@st.composite
def _funnels(draw: st.DrawFn) -> str:
    pattern = draw(
        st.sampled_from(["A", "SEQ(A, B)", "SEQ(A, B, C)", "SEQ(A a, A b, B)", "SEQ(A, ANY z, B)"])
    )
    keys = draw(st.sampled_from(["u", "g", "u, g"]))
    modes = st.sets(st.sampled_from(["strict_order", "strict_deduplication"]))
    chosen = "".join(f", '{mode}'" for mode in sorted(draw(modes)))
    conditions = draw(st.lists(st.sampled_from(["[g]", "[u]"]), max_size=1))
    if draw(st.booleans()):
        conditions.append(f"{'a' if ' a,' in pattern else 'A'}.x > 1")
    windows = ["", "WITHIN 3 s", "WITHIN 4 s SLIDE 4 s", "WITHIN 5 s SLIDE 2 s"]
    lines = [
        f"RETURN FUNNEL({keys}{chosen})",
        f"PATTERN {pattern}",
        f"WHERE {' AND '.join(conditions)}" if conditions else "",
        draw(st.sampled_from(["", "GROUP-BY u", "GROUP-BY g"])),
        draw(st.sampled_from(windows)),
        draw(st.sampled_from(["", "TIES arrival"])),
    ]
    return "\n".join(line for line in lines if line)


@st.composite
def funnel_trials(draw: st.DrawFn) -> Trial:
    """Draw a funnel (§12)."""
    text = draw(_funnels())
    size = draw(st.sampled_from([*range(13), 12, 12]))
    steps = draw(st.lists(st.sampled_from([0, 0, 1, 1, 2]), min_size=size, max_size=size))
    time = draw(st.integers(-2, 3))
    events: list[dict[str, Any]] = []
    for step in steps:
        time += step
        values = {name: draw(st.sampled_from(pool)) for name, pool in _VALUES.items()}
        events.append({"ts": time, **values})
    events = draw(repeated(events, text))
    forms = draw(forms_of(_KINDS))
    unit, clock = draw(clocks(len(events)))
    return Trial(
        kind="funnel",
        **worded(text, unit, clock, "ts"),
        tables={"s": table_of(events, _KINDS, forms, clock, "ts")},
        forms={"ts": clock.form, **forms},
        time_unit=time_unit_of(clock),
        step=max(clock.step_ns // clock.tick_ns, 1),
        span=span_of([e["ts"] for e in events], clock),
        **draw(settings_of()),
    )
