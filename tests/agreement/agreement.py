"""What agrees with what: outcomes of ways to run, compared with the oracle or with each other.

Two ways agree if both give the same rows, in any order, or both refuse with the same code. A double
may be off by what docs/semantics.md §5.4 allows, and where a count is a whole number there, it is
one on every way. Any other exception disagrees with everything.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
from tests.agreement.representations import plain_rows
from tests.agreement.values import Trial
from tests.row_pattern import reference

import cepheid
from cepheid.errors import CepheidError, QuerySyntaxError
from cepheid.kinds.row_pattern.parser import parse_clause_text
from cepheid.testing import oracle_matches
from cepheid.testing.oracle import evaluate
from cepheid.testing.oracle_select import evaluate_select

Row = dict[str, Any]
SPAN_MAX = 3000
"""The oracle looks into every window between the first event and the last."""
EFFORT_MAX = 50_000
"""So many pairs take brute force a tenth of a second."""
RELATIVE = 1e-12
_SPREAD_OF_TIME = re.compile(r"(VAR|STDDEV)\w*\(DURATION\)")


class Refusal(NamedTuple):
    """A way says why it gives no rows."""

    code: str
    message: str = ""


class Crash(NamedTuple):
    """A way raises what no user should see."""

    exception: str


Outcome = list[Row] | Refusal | Crash


class Disagreement(NamedTuple):
    """Two ways that differ over a trial."""

    trial: Trial
    way: str
    found: Outcome
    judge: str
    expected: Outcome

    def __str__(self) -> str:
        return (
            f"{self.way} disagrees with {self.judge}\n{self.trial!r}\n"
            f"found    {shown(self.found)}\nexpected {shown(self.expected)}"
        )


def shown(outcome: Outcome) -> str:
    """Return an outcome for people."""
    return "\n         ".join(map(str, outcome)) if isinstance(outcome, list) else str(outcome)


def outcome_of(run: Callable[[], pa.Table | list[Row]]) -> Outcome:
    """Run a way and return what becomes of it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = run()
    except CepheidError as error:
        return Refusal(error.diagnostics[0].code, error.diagnostics[0].message)
    except Exception as error:  # whatever it is, it is the finding
        return Crash(f"{type(error).__name__}: {str(error)[:1500]}")
    rows = plain_rows(found) if isinstance(found, pa.Table) else found
    return [{name: v for name, v in row.items() if name != "match_id"} for row in rows]


# ---------------------------------------------------------------------------------------
# The oracle


def define(trial: Trial) -> Outcome | None:
    """Return what the definitions say of a trial, or None where the oracle does not reach."""
    if trial.span > SPAN_MAX:
        return None
    if _SPREAD_OF_TIME.search(trial.text) and not trial.forms["ts"].startswith(("int", "uint")):
        return None  # The oracle has nanoseconds, whose squares are other numbers.
    streams = {name: plain_rows(table) for name, table in trial.tables.items()}
    try:
        if trial.kind == "row pattern":
            return _row_pattern(trial, streams["s"])
        if trial.kind in ("filter", "aggregation", "join"):
            numbers = {
                stream: [{name: _number(value) for name, value in row.items()} for row in rows]
                for stream, rows in streams.items()
            }
            return _in_64_bits(evaluate_select(trial.defined, numbers, time=trial.time))
        return _pattern(trial, streams["s"])
    except oracle_matches.TooMuchEffortError:
        return None  # A few in a hundred, which would take most of the time.
    except (TypeError, OverflowError, QuerySyntaxError):
        return None  # Decimals and doubles do not mix in Python, nor fit all times 64 bits.


def _pattern(trial: Trial, events: list[Row]) -> Outcome:
    events = sorted(events, key=lambda e: (e[trial.time], *(e[name] for name in trial.tiebreak)))
    tree = cepheid.query(trial.defined, **trial.options).tree
    numbers = [{name: _number(value) for name, value in e.items()} for e in events]
    with mock.patch.object(oracle_matches, "EFFORT_MAX", EFFORT_MAX):
        rows = evaluate(tree, numbers, time=trial.time, type=trial.type)
    for row in rows:
        if "events" in row:
            row["events"] = [
                {"variable": v, **({"match": n[0]} if n else {}), **events[i]}
                for v, i, *n in row["events"]  # type: ignore[attr-defined]  # a match
            ]
    return rows


def _number(value: Any) -> Any:
    """Return a decimal as the oracle knows numbers."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == int(value) else float(value)


def _row_pattern(trial: Trial, rows: list[Row]) -> Outcome:
    try:
        return reference.recognize(parse_clause_text(trial.defined), rows)
    except reference.SkipError as error:
        return Refusal(str(error))


def _in_64_bits(rows: list[Row]) -> Outcome:
    """Return rows, or that a whole number in them is none of 64 bits (§10.3)."""
    computed = ("sum", "twice", "z")
    cells = (v for row in rows for name, v in row.items() if name.startswith(computed))
    if any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in cells):
        return Refusal("E504")
    # The oracle's name for the one NaN of a group.
    return [{n: math.nan if v == "NaN" else v for n, v in row.items()} for row in rows]


# ---------------------------------------------------------------------------------------
# Comparing


class Comparison:
    """Compares outcomes of one trial."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.events = [row for table in trial.tables.values() for row in plain_rows(table)]
        self.group_by = [
            n for n in ("key", "zone", "code", "level", "day") if f"GROUP-BY {n}" in trial.text
        ]

    def agree(self, found: Outcome, expected: Outcome, *, lossy: bool = False) -> bool:
        """Return whether two outcomes are the same; a lossy way takes NULL for NaN."""
        if isinstance(found, Crash) or isinstance(expected, Crash):
            return False
        if isinstance(found, Refusal) or isinstance(expected, Refusal):
            return (
                isinstance(found, Refusal)
                and isinstance(expected, Refusal)
                and found.code == expected.code
            )
        left = list(expected)
        for row in found:
            place = next(
                (i for i, other in enumerate(left) if self._same(row, other, lossy=lossy)), None
            )
            if place is None:
                return False
            del left[place]
        return not left

    def _same(self, row: Row, other: Row, *, lossy: bool) -> bool:
        return row.keys() == other.keys() and all(
            self._same_value(row[name], other[name], name, other, lossy=lossy) for name in row
        )

    def _same_value(self, a: Any, b: Any, name: str, row: Row, *, lossy: bool) -> bool:
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(
                self._same_value(x, y, name, row, lossy=lossy) for x, y in zip(a, b, strict=True)
            )
        if isinstance(a, dict) and isinstance(b, dict):
            return self._same(a, b, lossy=lossy)
        if lossy:
            a, b = (None if isinstance(v, float) and math.isnan(v) else v for v in (a, b))
        if a is None or b is None or isinstance(a, str | bool) or isinstance(b, str | bool):
            return type(a) is type(b) and bool(a == b)
        if not lossy and not self._same_kind(a, b, name):
            return False
        if isinstance(a, float) and math.isnan(a):
            return isinstance(b, float) and math.isnan(b)
        if a == b:
            return True
        if not isinstance(a, float) and not isinstance(b, float) and not lossy:
            return False
        return self._close(float(a), float(b), name, row)

    def _same_kind(self, a: Any, b: Any, name: str) -> bool:
        """Return whether counts, and sums over trends, are both whole numbers or both doubles."""
        computed = ("count", "sum") if self.trial.kind in ("trends", "sweep") else ("count",)
        return not name.startswith(computed) or isinstance(a, float) == isinstance(b, float)

    def _close(self, a: float, b: float, name: str, row: Row) -> bool:
        if not math.isfinite(a) or not math.isfinite(b):
            return False
        if name.startswith(("min", "max")):
            return math.isclose(a, b, rel_tol=1e-15)
        many = 2.0 ** min(len(self.events), 9) if name.startswith(("sum", "r", "avg")) else 0.0
        bound = RELATIVE * self._magnitude(row) * many if many else 0.0
        return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=max(bound, 1e-15))

    def _magnitude(self, row: Row) -> float:
        """Return the largest finite number among the events that a row can speak of."""
        counted = "EVENT" in self.trial.text
        start, end = (None if counted else row.get(f"window_{edge}") for edge in ("start", "end"))
        largest = 0.0
        for event in self.events:
            if any(not _equal(event.get(n), row.get(n)) for n in self.group_by):
                continue
            if (
                start is not None
                and "EVENTS" not in self.trial.text
                and not start <= event[self.trial.time] <= end
            ):
                continue
            for name in ("price", "volume", "x", "y", "n"):
                value = event.get(name)
                if isinstance(value, int | float | Decimal) and math.isfinite(value):
                    largest = max(largest, abs(float(value)))
        return largest


def _equal(a: Any, b: Any) -> bool:
    return bool(a == b) or (a != a and b != b)


class Tally:
    """How many comparisons were drawn for each way, and how many disagreed."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {}

    def add(self, way: str, *, agrees: bool) -> None:
        """Count a comparison."""
        counts = self.counts.setdefault(way, [0, 0])
        counts[0] += 1
        counts[1] += not agrees


TALLY = Tally()
JUDGED = "queries that the oracle judged"
"""Counted beside the ways: the others are compared with a run over a table."""


def _is_spared(way: str, found: Outcome, expected: Outcome) -> bool:
    """Return whether an index left out the event that others refuse (E504), as §4.6 lets it."""
    refused = isinstance(expected, Refusal) and expected.code == "E504"
    return way == "store by index" and refused and isinstance(found, list)


def compare(trial: Trial, outcomes: Iterable[tuple[str, Outcome, bool]]) -> list[Disagreement]:
    """Return which outcomes (way, outcome, lossy) differ from the definition, or else the first."""
    comparison = Comparison(trial)
    outcomes = list(outcomes)
    expected, judge = define(trial), "the oracle"
    if expected is None or any(isinstance(o, Refusal) for _, o, _ in outcomes[:1]):
        judge, expected, _ = outcomes[0]
    found = []
    if trial.construct and judge == "the oracle":
        TALLY.add(f"{trial.construct}/{JUDGED}", agrees=True)
    for way, outcome, lossy in outcomes:
        if _is_spared(way, outcome, expected):
            continue
        agrees = comparison.agree(outcome, expected, lossy=lossy)
        TALLY.add(f"{trial.construct}/{way}" if trial.construct else way, agrees=agrees)
        if not agrees:
            found.append(Disagreement(trial, way, outcome, judge, expected))
    return found
