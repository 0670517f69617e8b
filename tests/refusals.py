"""Count how many random queries are refused, and why, and how many the oracle contradicts.

``python -m tests.refusals --queries 4000`` draws queries that the semantics define, runs each over
the few events drawn with it, and prints a line for every code and reason. With ``--judge``, the
oracle evaluates every query that ran, and a query whose rows differ is printed.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from tests.engine.comparison import KINDS, NUMBER, plain_rows, readable, same_rows

import cepheid
from cepheid.errors import CepheidError
from cepheid.testing.oracle import evaluate
from cepheid.testing.oracle_matches import TooMuchEffortError
from cepheid.testing.query_strategies import Case, cases


@dataclass
class Verdicts:
    """What became of some queries: refusals by reason with an example each, and what differs."""

    queries: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    judged: int = 0
    with_rows: int = 0
    too_large: int = 0
    differing: list[str] = field(default_factory=list)


def draw_queries(queries: int, first_seed: int, *, judge: bool = False) -> Verdicts:
    """Draw queries, run them and count those that are refused, or that the oracle contradicts."""
    found = Verdicts()

    @seed(first_seed)
    @settings(
        max_examples=queries,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def draw(case: Case) -> None:
        found.queries += 1
        try:
            rows = rows_of(case)
        except CepheidError as error:
            reason = reason_of(error)
            found.counts[reason] += 1
            found.examples.setdefault(reason, case.query)
            return
        if judge:
            count_verdict(case, rows, found)

    draw()
    return found


def rows_of(case: Case) -> list[dict[str, object]]:
    """Run a query over its few events, which have numbers to tell them apart."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cepheid.query(case.query).run(_table_of(case)).to_pylist()


def reason_of(error: CepheidError) -> str:
    """Return the code and the reason of a refusal, with names and numbers left out."""
    diagnostic = error.diagnostics[0]
    return f"{diagnostic.code} {re.sub(r'`[^`]*`|[0-9]+', '…', diagnostic.message)}"


def count_verdict(case: Case, rows: list[dict[str, object]], found: Verdicts) -> None:
    """Compare the rows of a query with those of the oracle, where that takes it little effort."""
    try:
        expected = evaluate(cepheid.query(case.query).tree, case.events)
    except TooMuchEffortError:
        found.too_large += 1
        return
    found.judged += 1
    found.with_rows += bool(expected)
    lists = case.query.startswith("RETURN MATCHES")
    differ = (
        readable(rows) != readable(expected)
        if lists
        else not same_rows(plain_rows(rows), list(expected))
    )
    if differ:
        found.differing.append(f"{case}\n  found    {rows}\n  expected {expected}")


def _table_of(case: Case) -> pa.Table:
    """Build the table of a case with all columns of its schema, also if it has no events."""
    columns = {n: [event.get(n) for event in case.events] for n in ("ts", *case.schema)}
    table = pa.table({n: pa.array(values, KINDS[n]) for n, values in columns.items()})
    return table.append_column(NUMBER, pa.array(range(len(table)), pa.int64()))


def main() -> int:
    """Read the arguments, draw queries and print what was refused and what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judge", action="store_true", help="compare with the oracle")
    asked = parser.parse_args()
    found = draw_queries(asked.queries, asked.seed, judge=asked.judge)
    refused = found.counts.total()
    lines = [f"{refused} of {found.queries} queries are refused ({refused / found.queries:.2%})"]
    for reason, count in found.counts.most_common():
        lines += [f"{count:6} {reason}", f"       {' '.join(found.examples[reason].split())}"]
    if asked.judge:
        lines.append(
            f"the oracle judged {found.judged}, {found.with_rows} of which have rows: "
            f"{len(found.differing)} differ; {found.too_large} were too large for it"
        )
    sys.stdout.write("\n".join([*lines, *found.differing, ""]))
    return 1 if found.differing else 0


if __name__ == "__main__":
    sys.exit(main())
