"""What RETURN computes of every match equals what the oracle computes (§7.3)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import supported, table_of

from cepheid.api import query
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import bindings_max, evaluate
from cepheid.testing.query_strategies import Case, cases, names_of
from cepheid.testing.strategies import choice


@st.composite
def computing(draw: st.DrawFn) -> Case:
    """Draw a query that returns values of its matches."""
    case = draw(cases(events_max=6))
    lines = case.query.splitlines()
    pattern = next(line for line in lines if line.startswith("PATTERN"))[8:]
    names = names_of(pattern, case.schema)
    numbers = [name for name in names.numbers if name in case.schema]
    assume("RETURN MATCHES" in case.query and " AND " not in pattern and numbers)
    root = query(f"PATTERN {pattern}").tree.pattern
    single = [v for v in names.bound if bindings_max(root, v) <= 1]
    values = [f"{end}({v}).{a}" for end in ("FIRST", "LAST") for v in names.bound for a in numbers]
    values += [f"{v}.{a}" for v in single for a in numbers]
    value = st.sampled_from(values)
    forms = ["{u} + 1", "{u} - {v}", "{u} < {v}", "COALESCE({u}, {v})", "ABS({u}) * 2", "{u} / {v}"]
    drawn = draw(st.lists(st.tuples(st.sampled_from(forms), value, value), min_size=1, max_size=3))
    items = [f"{form.format(u=u, v=v)} AS r{n}" for n, (form, u, v) in enumerate(drawn)]
    items.append(draw(choice([item for item in values if item.startswith(("F", "L"))])))
    rest = [line for line in lines if not line.startswith("RETURN")]
    return case._replace(query="\n".join([f"RETURN {', '.join(items)}", *rest]))


def as_texts(rows: list[dict[str, Any]]) -> Counter[str]:
    """Return rows in no order; whole numbers equal doubles, and NaN equals itself."""
    return Counter(
        repr([float(v) if isinstance(v, int | float) else v for v in row.values()]) for row in rows
    )


# Most drawn queries have aggregates, and are left out.
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(computing(), st.integers(1, 8))
def test_random_expressions_equal_the_oracle(case: Case, rows: int) -> None:
    compiled = query(case.query, schema=case.schema)
    assume(supported(compiled) and case.events)
    expected = as_texts(evaluate(compiled.tree, case.events))
    for batch_rows in (rows, 1 << 20):
        found = run_table(compiled.plan, table_of(case.events), batch_rows=batch_rows)
        assert as_texts(found.to_pylist()) == expected


def test_texts_are_computed() -> None:
    table = pa.table({"ts": [1, 2], "type": ["A", "B"], "s": ["x", "y"]})
    asked = query("RETURN UPPER(B.s) AS u, COALESCE(A.s, B.s) AS c PATTERN SEQ(A, B)")
    for events in (table, pa.concat_tables([table.slice(0, 1), table.slice(1)])):
        assert asked.run(events).to_pylist() == [{"u": "Y", "c": "x"}]
