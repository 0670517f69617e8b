"""Random trials: a query, its events in some representation, and the options of the run.

The queries are those of the other random tests; here their times, units, names of columns, values
and representations are drawn as well.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from tests.agreement.representations import DAY_NS, KINDS, TICK_NS, array_of, plain_rows
from tests.row_pattern import test_reference as row_patterns
from tests.select import cases as select_cases
from tests.situations import cases as situation_cases

from cepheid.testing.query_strategies import conjunctions, names_of, queries
from cepheid.testing.strategies import (
    EXTREME_VALUES,
    TYPES,
    VALUES,
    choice,
    choices,
    schemas,
    streams,
)

UNITS_US = {"us": 1, "ms": 1000, "s": 10**6, "minutes": 6 * 10**7, "days": 86_400 * 10**6}
ORIGINS_S = {
    "1970": 0,
    "1969": -86_400,
    "2026": 1_773_100_800,
    "1883": -2_717_668_800,
    "1600": -11_676_096_000,
    "after 2262": 9_224_323_200,
    "9000": 221_845_392_000,
}
"""Beginnings of streams in seconds since 1970; 2026 is at a change of clocks in New York."""
FAR_TICKS = (2**62, 2**63 - 10**9, -(2**61) - 10**9, -(2**62), -(2**63) + 10**9)
YEAR_S = 31_556_952
ZONES = ("UTC", "America/New_York", "Asia/Kolkata")
TIME_TYPES: dict[str, Any] = {
    **{f"int64 {unit}": pa.int64() for unit in ("us", "s", "ms", "ns")},
    **{f"timestamp[{unit}]": pa.timestamp(unit) for unit in ("us", "s", "ms", "ns")},
    "timestamp[us, UTC]": pa.timestamp("us", "UTC"),
    "timestamp[ms, zone]": pa.timestamp("ms", "America/New_York"),
    "timestamp[ns, UTC]": pa.timestamp("ns", "UTC"),
    "date32": pa.date32(),
    "int32 s": pa.int32(),
    "uint64 us": pa.uint64(),
}
NUMBER = "number"
"""A column that tells events apart."""


@dataclass(frozen=True)
class Trial:
    """What every way runs: a query and its streams, in the order of time."""

    kind: str
    text: str
    tables: dict[str, pa.Table]
    forms: dict[str, str]
    """The representation of every column, by its name in the query strategies."""
    time: str = "ts"
    type: str = "type"
    tiebreak: tuple[str, ...] = ()
    time_unit: str = "us"
    cuts: tuple[int, ...] = (1,)
    """How many events the pieces have into which a way cuts the stream, again and again."""
    zone: str = "UTC"
    wild: bool = False
    defined: str = ""
    """The query for the oracle: times are what a column holds, and durations are such numbers."""
    step: int = 1
    """A unit of the query in ticks of the time column."""
    span: int = 0
    """How many steps of the query's unit lie between the first and the last event."""
    construct: str = ""
    """What every query of its kind has; comparisons are counted by it."""

    @property
    def table(self) -> pa.Table:
        """Return the only stream, or the first."""
        return next(iter(self.tables.values()))

    @property
    def options(self) -> dict[str, Any]:
        """Return the arguments of ``cepheid.query``."""
        return {
            "time": self.time,
            "type": self.type,
            "tiebreak": self.tiebreak,
            "time_unit": self.time_unit,
        }

    def __repr__(self) -> str:
        lines = [self.kind, self.text, f"{self.options} {self.forms} {self.cuts} {self.zone}"]
        for name, table in self.tables.items():
            lines += [name, *map(repr, plain_rows(table))]
        return "\n".join(lines)


@dataclass(frozen=True)
class Clock:
    """How steps of a stream become times of a column."""

    form: str
    step_ns: int
    origin_ns: int
    gaps: dict[int, int]
    """Nanoseconds that pass before the event of a number, beside its steps."""

    @property
    def kind(self) -> Any:
        """Return the type of the column."""
        return TIME_TYPES[self.form]

    @property
    def tick_ns(self) -> int:
        """Return what one of the column's numbers is."""
        if self.form == "date32":
            return DAY_NS
        unit = getattr(self.kind, "unit", None) or self.form.split()[-1]
        return TICK_NS[unit]

    def column(self, steps: list[int]) -> Any:
        """Return the times of events at these steps."""
        passed = 0
        ticks = []
        for number, step in enumerate(steps):
            passed += self.gaps.get(number, 0)
            tick = (self.origin_ns + passed + step * self.step_ns) // self.tick_ns
            ticks.append(min(max(tick, -(2**63)), 2**63 - 1))
        if self.form == "date32":
            return pa.array(ticks, pa.int32()).cast(self.kind)
        if self.form.startswith("timestamp"):
            return pa.array(ticks, pa.int64()).cast(self.kind)
        if self.form == "int32 s":
            ticks = [min(max(t, -(2**31)), 2**31 - 1) for t in ticks]
        if self.form.startswith("uint"):
            ticks = [max(t, 0) for t in ticks]
        return pa.array(ticks, self.kind)

    @property
    def oracle_ns(self) -> int:
        """Return what one of the oracle's numbers is: times of a type are nanoseconds there."""
        return self.tick_ns if self.form.startswith(("int", "uint")) else 1

    def number(self, step: int) -> int:
        """Return the time of a step as the oracle has it."""
        return (
            (self.origin_ns + step * self.step_ns) // self.tick_ns * self.tick_ns // self.oracle_ns
        )

    def literal(self, step: int) -> str:
        """Return what the query language calls the time of a step."""
        at = self.origin_ns + step * self.step_ns
        if self.form.startswith(("int", "uint")):
            return str(at // self.tick_ns)
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=at // 1000)
        return f"'{moment:%Y-%m-%d}'" if self.form == "date32" else f"'{moment.isoformat()}'"


@st.composite
def clocks(draw: st.DrawFn, length: int) -> tuple[str, Clock]:
    """Draw the unit of the query's durations, and a clock that fits it."""
    form = draw(choice(["int64 us", "timestamp[us]", *TIME_TYPES]))
    clock = Clock(form, 0, 0, {})
    unit = draw(choice([u for u, us in UNITS_US.items() if us * 1000 % clock.tick_ns == 0]))
    far = form.startswith("int64") and draw(st.integers(0, 15)) == 15
    if far:
        origin = draw(choice(FAR_TICKS)) * clock.tick_ns
    else:
        origin = draw(choice(list(ORIGINS_S.values()))) * 10**9
    if clock.tick_ns == 1 and not -(2**63) < origin < 2**63 - 10**18 and not far:
        origin = 0
    if form in ("int32 s", "uint64 us"):
        origin = abs(origin) % (2**30 * 10**9)
    places = st.lists(st.integers(0, max(length - 1, 0)), max_size=2)
    small = [clock.tick_ns, 7 * clock.tick_ns, YEAR_S * 10**9, 3 * YEAR_S * 10**9]
    gaps = {n: draw(choice(small)) for n in draw(places)} if draw(st.booleans()) else {}
    if clock.tick_ns == 1 and draw(st.booleans()):
        # Events in one microsecond are still one after the other.
        gaps = {n: draw(choice([0, 1, 400, 999])) for n in range(length)}
    return unit, Clock(form, UNITS_US[unit] * 1000, origin, {} if far else gaps)


_TIME = re.compile(r"(?<![\w`])ts\b(?!`)")
_DURATION = re.compile(r"(\d+) (?:seconds?|s|us)\b")
_TIME_VALUE = re.compile(r"\bts (>=|<=|>|<) (-?\d+)")


def worded(text: str, unit: str, clock: Clock, time: str) -> dict[str, Any]:
    """Return a query with durations in a unit, for people and for the oracle."""
    name = time if time.isidentifier() else f"`{time}`"
    people = _DURATION.sub(rf"\1 {unit}", text)
    people = _TIME_VALUE.sub(lambda m: f"ts {m[1]} {clock.literal(int(m[2]))}", people)
    scale = clock.step_ns // clock.oracle_ns
    oracle = _DURATION.sub(lambda m: f"{int(m[1]) * scale} us", text)
    oracle = _TIME_VALUE.sub(lambda m: f"ts {m[1]} {clock.number(int(m[2]))}", oracle)
    return {"text": _TIME.sub(name, people), "defined": _TIME.sub(name, oracle)}


@st.composite
def forms_of(draw: st.DrawFn, kinds: dict[str, str]) -> dict[str, str]:
    """Draw a representation for every column; most of them are plain."""
    found = {name: next(iter(KINDS[kind])) for name, kind in kinds.items()}
    for name in draw(choices(sorted(kinds), 0, 2)) if kinds else ():
        forms = list(KINDS[kinds[name]])
        plain = [form for form in forms if "<" not in form]
        found[name] = draw(choice([*plain, *plain, *forms]))
    return found


@st.composite
def pools(
    draw: st.DrawFn, bases: Mapping[str, tuple[Any, ...]], kinds: Mapping[str, str], *, wild: bool
) -> dict[str, tuple[Any, ...]]:
    """Draw the values of each name: the usual ones and, if asked, a few extreme ones.

    Few, because events of which each has its own value are part of no match.
    """
    found = dict(bases)
    for name, kind in kinds.items() if wild else ():
        if extreme := EXTREME_VALUES.get(kind):
            some = draw(choices(extreme, 0, 3))
            found[name] = (*bases[name], *some, *some)
    return found


MORE_VALUES: dict[str, tuple[Any, ...]] = {
    **VALUES,
    "day": (0, 0, 1, 20_522, -30_000, None),
}
MORE = {"code": "int", "level": "double", "day": "day"}


def table_of(
    events: list[dict[str, Any]],
    kinds: dict[str, str],
    forms: dict[str, str],
    clock: Clock,
    time: str,
) -> pa.Table:
    """Return events, whose times are steps, as a table."""
    columns: dict[str, Any] = {time: clock.column([e["ts"] for e in events])}
    for name, kind in kinds.items():
        columns[name] = array_of([e.get(name) for e in events], KINDS[kind][forms[name]])
    return pa.table(columns)


@st.composite
def repeated(draw: st.DrawFn, events: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return a stream once or, where windows of time bound the matches, again and again."""
    found = list(events)
    for _ in range(draw(st.integers(0, 2)) if events and "WITHIN" in text else 0):
        shift = found[-1]["ts"] - events[0]["ts"] + draw(st.integers(0, 4))
        found += [{**event, "ts": event["ts"] + shift} for event in events]
    return found


@st.composite
def settings_of(draw: st.DrawFn) -> dict[str, Any]:
    """Draw how a stream is cut, and the zone of a session."""
    return {
        "cuts": tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))),
        "zone": draw(choice(ZONES)),
    }


@st.composite
def variants(draw: st.DrawFn, text: str, schema: Mapping[str, str]) -> str:
    """Draw what a query lists or how it counts: attributes in place of matches, exact numbers."""
    chosen = draw(st.integers(0, 3))
    if not text.startswith("RETURN MATCHES"):
        exact = chosen == 3 and "AND" not in text and not _SUM_OF_DOUBLES.search(text)
        return f"{text}\nNUMBERS exact" if exact else text
    names = names_of(_PATTERN.findall(text)[0], schema)
    attributes = [name for name in schema if name not in ("ts", "type")]
    if chosen < 2 or not names.bound or " AND " in _PATTERN.findall(text)[0]:  # E304: sets.
        return text
    items = [f"{variable}.{attribute}" for variable in names.bound for attribute in attributes]
    listed = draw(choices(items, 1, 3, unique=True))
    return text.replace("RETURN MATCHES", f"RETURN {', '.join(listed)}", 1)


_SUM_OF_DOUBLES = re.compile(r"(SUM|AVG)\(\w+\.(price|level)\)|(VAR|STDDEV)")
"""What `NUMBERS exact` refuses (E321)."""
_PATTERN = re.compile(r"^PATTERN (.*)$", re.MULTILINE)


@st.composite
def pattern_trials(
    draw: st.DrawFn,
    *,
    events_max: int = 8,
    linked: bool = False,
    texts: Callable[[dict[str, str]], st.SearchStrategy[str]] | None = None,
) -> Trial:
    """Draw a query with a pattern: aggregates, or matches; ``linked`` with rules of links.

    ``texts`` draws other queries over a schema, for values that overflow nowhere: an index that
    skips events also skips what they would overflow.
    """
    wild = texts is None and draw(st.booleans())
    schema = dict(draw(schemas()))
    others = draw(choices(sorted(MORE), 0, 2, unique=True))
    schema |= {name: MORE[name] for name in others}
    values = draw(pools(MORE_VALUES, {kind: kind for kind in VALUES}, wild=wild))
    types = draw(choice([*[TYPES] * 6, (*TYPES, None), (None,), ("C", "D")]))
    alone = linked or texts is not None
    pairs = not alone and draw(choice([False, False, False, False, True]))
    most = min(events_max, 5) if pairs else events_max
    events: list[dict[str, Any]] = draw(
        streams(schema, events_max=most, types=types, values=values)
    )
    drawn = queries(schema, linked=linked) if texts is None else texts(schema)
    text = draw(conjunctions(schema) if pairs else drawn)
    text = draw(variants(text, schema))
    for event in events:
        event["ts"] //= 10**6
    events = draw(repeated(events, text))
    kinds = {name: kind for name, kind in schema.items() if name != "ts"}
    typed = any(e["type"] for e in events)
    if not typed and (len(events) > 0 or draw(st.booleans())):
        del kinds["type"]
    forms = draw(forms_of(kinds))
    tiebreak: tuple[str, ...] = ()
    if draw(st.integers(0, 4)) == 4:
        kinds, tiebreak = {**kinds, "rank": "int"}, ("rank",)
        forms["rank"] = draw(choice(["int64", "int64", "int16"]))
        for event in events:
            event["rank"] = draw(st.integers(0, 2))
    unit, clock = draw(clocks(len(events)))
    time = draw(choice(["ts", "ts", "at", "event time"]))
    kind_name = draw(choice(["type", "type", "what"]))
    table = table_of(events, kinds, forms, clock, time)
    table = table.append_column(NUMBER, pa.array(range(len(table)), pa.int64()))
    if kind_name != "type" and "type" in table.column_names:
        table = table.rename_columns([kind_name if n == "type" else n for n in table.column_names])
    return Trial(
        kind="trends" if "(" in text.partition("\n")[0] else "matches",
        **worded(text, unit, clock, time),
        tables={"s": table},
        forms={"ts": clock.form, **forms},
        time=time,
        type=kind_name if "type" in kinds else "",  # An empty name: events have no types.
        tiebreak=tiebreak,
        time_unit=time_unit_of(clock),
        step=max(clock.step_ns // clock.tick_ns, 1),
        span=span_of([e["ts"] for e in events], clock),
        wild=wild,
        **draw(settings_of()),
    )


def span_of(steps: list[int], clock: Clock) -> int:
    """Return the steps of the query's unit between the first and the last event."""
    return (max(steps, default=0) - min(steps, default=0)) + sum(
        clock.gaps.values()
    ) // clock.step_ns


def time_unit_of(clock: Clock) -> str:
    """Return the unit of times that are whole numbers."""
    return clock.form.split()[-1] if clock.form.startswith(("int", "uint")) else "us"


SITUATION_KINDS = {**dict.fromkeys("abcd", "bool"), "n": "int", "x": "double", "k": "string"}


SITUATION_QUERIES = st.deferred(
    lambda: st.one_of(situation_cases.queries(), situation_cases.queries(), listings())
)


@st.composite
def situation_trials(draw: st.DrawFn) -> Trial:
    """Draw a query about situations."""
    wild = draw(st.booleans())
    bases = {"numbers": situation_cases.NUMBERS, "keys": situation_cases.KEYS}
    values = draw(pools(bases, {"numbers": "double", "keys": "string"}, wild=wild))
    events: list[dict[str, Any]] = draw(situation_cases.streams(most=10, **values))
    text = draw(SITUATION_QUERIES)
    for event in events:
        event["ts"] //= 10**6
    events = draw(repeated(events, text))
    forms = draw(forms_of(SITUATION_KINDS))
    unit, clock = draw(clocks(len(events)))
    time = draw(choice(["ts", "ts", "at"]))
    table = table_of(events, SITUATION_KINDS, forms, clock, time)
    return Trial(
        kind="situations",
        **worded(text, unit, clock, time),
        tables={"s": table},
        forms={"ts": clock.form, **forms},
        time=time,
        time_unit=time_unit_of(clock),
        step=max(clock.step_ns // clock.tick_ns, 1),
        span=span_of([e["ts"] for e in events], clock),
        wild=wild,
        **draw(settings_of()),
    )


def listings() -> st.SearchStrategy[str]:
    """Draw queries that list situations (§9.9)."""
    partition = st.sampled_from(["", "PARTITION BY k"])
    lengths = ["", "AT LEAST 2 s", "AT MOST 3 s", "BETWEEN 1 s AND 2 s"]
    lengths += ["AT LEAST 2 EVENTS", "AT MOST 3 EVENTS AT LEAST 1 s"]
    bound = st.sampled_from(lengths)
    returns = st.sampled_from(["", "RETURN COUNT(A), LAST(A.x), AVG(B.x), MAX(A.ts)"])
    return st.builds(
        lambda p, b, r: f"FROM s {p} DEFINE A AS a OR x > 1 {b}, B AS b SITUATIONS A, B {r}",
        partition,
        bound,
        returns,
    )


SELECT_KINDS = {"k": "string", "g": "int", "x": "int", "y": "double", "d": "decimal"}


@st.composite
def select_trials(draw: st.DrawFn) -> Trial:
    """Draw a SELECT: a filter, an aggregation or a join."""
    wild = draw(st.booleans())
    values = draw(pools(select_cases.VALUES, SELECT_KINDS, wild=wild))
    kind = draw(choice(["filter", "aggregation", "aggregation", "join"]))
    names = ("s", "r") if kind == "join" else ("s",)
    strategies = {
        "filter": select_cases.filters,
        "aggregation": select_cases.aggregations,
        "join": select_cases.joins,
    }
    streams_ = {
        n: draw(select_cases.rows(8 if kind == "join" else 12, values=values)) for n in names
    }
    text: str = draw(strategies[kind]())
    forms = draw(forms_of(SELECT_KINDS))
    unit, clock = draw(clocks(max(map(len, streams_.values()))))
    if clock.form in ("int32 s", "uint64 us"):  # Steps are negative.
        clock = Clock(clock.form, clock.step_ns, abs(clock.origin_ns) + 10 * clock.step_ns, {})
    time = draw(choice(["ts", "ts", "at"]))
    tables = {
        n: table_of(events, SELECT_KINDS, forms, clock, time) for n, events in streams_.items()
    }
    return Trial(
        kind=kind,
        **worded(text, unit, clock, time),
        tables=tables,
        forms={"ts": clock.form, **forms},
        time=time,
        time_unit=time_unit_of(clock),
        step=max(clock.step_ns // clock.tick_ns, 1),
        span=span_of([e["ts"] for rows in streams_.values() for e in rows], clock),
        wild=wild,
        **draw(settings_of()),
    )


ROW_KINDS = {"g": "int", "x": "int", "y": "int"}


@st.composite
def row_pattern_trials(draw: st.DrawFn) -> Trial:
    """Draw a MATCH_RECOGNIZE over a table; all columns but the time are whole numbers."""
    clause = draw(row_patterns.clauses(row_patterns.conditions(seeing=True)))
    rows = draw(row_patterns.tables)
    forms = draw(forms_of(ROW_KINDS))
    columns: dict[str, Any] = {"t": pa.array([row["t"] for row in rows], pa.int64())}
    columns |= {
        name: array_of([row[name] for row in rows], KINDS["int"][forms[name]]) for name in ROW_KINDS
    }
    return Trial(
        kind="row pattern",
        text=f"SELECT * FROM s {clause}",
        defined=clause,
        tables={"s": pa.table(columns)},
        forms=forms,
        time="t",
        **draw(settings_of()),
    )


def trials() -> st.SearchStrategy[Trial]:
    """Draw trials of all kinds."""
    return st.one_of(
        pattern_trials(),
        pattern_trials(),
        situation_trials(),
        select_trials(),
        row_pattern_trials(),
    )
