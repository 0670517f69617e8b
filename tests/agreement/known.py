"""Disagreements that are known and not mended yet; an entry goes when its mending lands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tests.agreement.representations import TICK_NS, plain_rows
from tests.agreement.values import YEAR_S, Trial

GAP_MAX = 100_000
"""Windows that a test can wait for."""
YEAR_NS = YEAR_S * 10**9


class Known(NamedTuple):
    """Trials that are left out, and why; of some ways only if those are named."""

    why: str
    holds: Callable[[Trial], bool]
    ways: tuple[str, ...] = ()


def _times(trial: Trial) -> list[int]:
    """Return the times of events in ticks of whole numbers, or in nanoseconds."""
    rows = [row for table in trial.tables.values() for row in plain_rows(table)]
    return [row[trial.time] for row in rows]


def _years(trial: Trial) -> list[float]:
    ticks = trial.forms.get("ts", "").startswith(("int", "uint"))
    scale = TICK_NS[trial.time_unit] if ticks else 1
    return [1970 + time * scale / YEAR_NS for time in _times(trial)]


def _is_far(trial: Trial) -> bool:
    return trial.forms.get("ts", "").startswith("int") and any(
        not -(2**61) <= time < 2**62 for time in _times(trial)
    )


def _has_form(*parts: str) -> Callable[[Trial], bool]:
    return lambda trial: any(part in form for form in trial.forms.values() for part in parts)


def _is_huge(trial: Trial) -> bool:
    rows = [row for table in trial.tables.values() for row in plain_rows(table)]
    return any(isinstance(v, float) and abs(v) > 1e290 for row in rows for v in row.values())


_DICTIONARY = re.compile(r"dictionary<(?!(int8, )?(large_)?string)")

KNOWN: list[Known] = [
    Known(
        "windows of events with partitions lose rows",
        lambda t: t.kind in ("trends", "matches") and "EVENT" in t.text and "[" in t.text,
    ),
    Known(
        "AVG and LOG2(SUM) of huge values leave the doubles",
        lambda t: ("AVG" in t.text or "LOG2" in t.text) and _is_huge(t),
    ),
    Known("decimals compare as doubles", _has_form("decimal(38")),
    Known(
        "times of nanoseconds lose their last digits",
        lambda t: _has_form("ns")(t) and any(v % 1000 for v in _times(t)),
    ),
    Known("very early and very late times overflow", _is_far),
    Known(
        "situations take all whole numbers for microseconds",
        lambda t: t.kind == "situations" and t.time_unit != "us",
    ),
    Known("some encodings of columns crash", _has_form("runs<", "string_view")),
    Known(
        "dictionaries of other values than texts crash",
        lambda t: any(_DICTIONARY.match(form) for form in t.forms.values()),
    ),
    Known(
        "a query that can never match crashes in a workload",
        lambda t: "MIN LENGTH" in t.text and "type" not in t.forms,
        ("workload", "live rules", "Spark workload"),
    ),
    Known(
        "every empty window of a gap is walked through",
        lambda t: t.kind in ("trends", "matches") and "SLIDE" in t.text and t.span > GAP_MAX,
    ),
    Known(
        "files are not put in the order of tie-breakers",
        lambda t: bool(t.tiebreak),
        ("files", "Spark files"),
    ),
    Known(
        "live queries of Spark close nothing before 1970, and fail after 2262",
        lambda t: any(not 1970 <= year < 2262 for year in _years(t)),
        ("Spark stream",),
    ),
    Known(
        "a sum of whole numbers that leaves 64 bits is no error on Spark",
        lambda t: t.kind == "aggregation" and t.wild,
        ("Spark DataFrame", "Spark files", "Spark stream"),
    ),
    Known(
        "situations on Spark have the times of another zone",
        lambda t: t.kind == "situations" and t.zone != "UTC",
        ("Spark DataFrame", "Spark files", "Spark stream"),
    ),
]


def is_known(trial: Trial) -> bool:
    """Return whether a trial would show what is known already on every way."""
    return any(known.holds(trial) for known in KNOWN if not known.ways)


def is_known_of(trial: Trial, way: str) -> bool:
    """Return whether a trial would show what is known already of a way."""
    return any(known.holds(trial) for known in KNOWN if way in known.ways)
