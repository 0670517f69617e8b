"""The golden files as cases for every way of running, and comparisons that forget the order."""

from __future__ import annotations

import datetime as dt
import functools
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from tests.engine.comparison import same_rows, table_of
from tests.golden.conftest import content_lines, split_sections, type_column

import cepheid
from cepheid.errors import BindError, UnsupportedError
from cepheid.jobs.ordering import ordered
from cepheid.language.formatter import format_query
from cepheid.plans.plan import Plan, TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.harness import stream

GOLDEN = Path(__file__).parents[1] / "golden"


class Case(NamedTuple):
    """A query, its events in order, and what the local engine answers."""

    name: str
    query: cepheid.CompiledQuery
    plan: Plan
    events: pa.Table
    rows: list[dict[str, Any]]
    unlimited: list[dict[str, Any]]

    def is_answered_by(self, result: pa.Table) -> bool:
        """Return whether a result has the rows; with LIMIT, as many of those without it."""
        if "match_id" in result.column_names:
            ids = result.column("match_id").to_pylist()
            if len(set(ids)) < len(ids):
                return False
        if self.plan.limit is None:
            return same(result, self.rows)
        rows, known = plain(result.to_pylist()), plain(self.unlimited)
        return len(rows) == len(self.rows) and all(known.count(row) == 1 for row in rows)


@functools.cache
def golden_cases() -> tuple[Case, ...]:
    """Return all queries of the golden files that the engine runs."""
    cases = []
    for path in sorted(GOLDEN.rglob("*.golden")):
        _, sections = split_sections(path.read_text(encoding="utf-8"))
        inputs: dict[str, str] = {}
        for number, section in enumerate(sections):
            inputs[section.name] = section.body
            if section.name == "expect" and "stream" in inputs:
                case = _case(f"{path.parent.name}-{path.stem}-{number}", inputs)
                cases += [case] if case is not None else []
    return tuple(cases)


def _case(name: str, inputs: dict[str, str]) -> Case | None:
    query = cepheid.query(inputs["query"], type=type_column(inputs["stream"]))
    events = table_of(stream(" ".join(content_lines(inputs["stream"]))))
    plan = query.with_schema(events.schema).plan
    try:
        rows = run_table(plan, ordered(events, plan)).to_pylist()
    except UnsupportedError:
        return None
    unlimited = rows
    if plan.limit is not None:
        output = msgspec.structs.replace(TrendPlan.of(plan).output, limit=None)
        more = msgspec.structs.replace(plan, output=output)
        unlimited = run_table(more, ordered(events, plan)).to_pylist()
    return Case(name, query, plan, ordered(events, plan), rows, unlimited)


def aggregate_cases() -> list[Case]:
    """Return the cases whose results are aggregates."""
    return [case for case in golden_cases() if not case.plan.lists_matches]


def listing_cases() -> list[Case]:
    """Return the cases whose results are matches."""
    return [case for case in golden_cases() if case.plan.lists_matches]


@functools.cache
def listed_cases() -> tuple[Case, ...]:
    """Return the cases whose results are aggregates, made to list their matches."""
    cases = []
    for case in aggregate_cases():
        parsed = case.query.tree
        changed = msgspec.structs.replace(
            parsed, returns=None, having=None, emit_on_expiry=None, numbers=None
        )
        try:
            query = cepheid.query(format_query(changed), type=case.query.source.type or None)
        except BindError:  # AND counts pairs, which are not listed.
            continue
        plan = query.with_schema(case.events.schema).plan
        rows = run_table(plan, case.events).to_pylist()
        cases.append(Case(case.name, query, plan, case.events, rows, rows))
    return tuple(cases)


def same(actual: pa.Table, expected: list[dict[str, Any]]) -> bool:
    """Return whether two results have the same rows, in any order; zones are left out."""
    mine, theirs = plain(actual.to_pylist()), plain(expected)
    return same_rows(sorted(mine, key=_place), sorted(theirs, key=_place))


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without what may differ: the numbers of matches, and zones."""
    return [
        {name: _plain(value) for name, value in row.items() if name != "match_id"} for row in rows
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def _place(row: dict[str, Any]) -> list[str]:
    exact = [str(value) for value in row.values() if not isinstance(value, float)]
    return exact + [f"{value:.6g}" for value in row.values() if isinstance(value, float)]
