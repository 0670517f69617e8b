"""The golden files as cases for every way of running, and comparisons that forget the order."""

from __future__ import annotations

import datetime as dt
import functools
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from tests.engine.comparison import same_rows, table_of
from tests.golden.conftest import content_lines, split_sections

import cepheid
from cepheid.errors import UnsupportedError
from cepheid.planner.plan import OutputKind, Plan
from cepheid.runtime.local import run_table
from cepheid.runtime.ordering import ordered
from cepheid.testing.harness import stream

GOLDEN = Path(__file__).parents[1] / "golden"


class Case(NamedTuple):
    """A query, its events in order, and what the local engine answers."""

    name: str
    query: cepheid.CompiledQuery
    plan: Plan
    events: pa.Table
    rows: list[dict[str, Any]]


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
    query = cepheid.query(inputs["query"])
    events = table_of(stream(" ".join(content_lines(inputs["stream"]))))
    plan = query.with_schema(events.schema).plan
    if plan.output.kind is not OutputKind.AGGREGATES:
        return None  # Spark lists no matches yet, and says so.
    try:
        rows = run_table(plan, ordered(events, plan)).to_pylist()
    except UnsupportedError:
        return None
    return Case(name, query, plan, ordered(events, plan), rows)


def same(actual: pa.Table, expected: list[dict[str, Any]]) -> bool:
    """Return whether two results have the same rows, in any order; zones are left out."""
    mine, theirs = plain(actual.to_pylist()), plain(expected)
    return same_rows(sorted(mine, key=_place), sorted(theirs, key=_place))


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def _place(row: dict[str, Any]) -> list[str]:
    exact = [str(value) for value in row.values() if not isinstance(value, float)]
    return exact + [f"{value:.6g}" for value in row.values() if isinstance(value, float)]
