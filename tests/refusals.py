"""Count how many random queries are refused, and why.

``python -m tests.refusals --queries 4000`` draws queries that the semantics define, runs each over
the few events drawn with it, and prints a line for every code and reason.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter
from typing import NamedTuple

import pyarrow as pa
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from tests.engine.comparison import KINDS

import cepheid
from cepheid.errors import CepheidError
from cepheid.testing.query_strategies import Case, cases


class Refusals(NamedTuple):
    """The refusals of some queries by code and reason, with an example of each."""

    queries: int
    counts: Counter[str]
    examples: dict[str, str]


def count_refusals(queries: int, first_seed: int) -> Refusals:
    """Draw queries, run them and count those that are refused."""
    found = Refusals(queries, Counter(), {})

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
        reason = refusal_of(case)
        if reason is not None:
            found.counts[reason] += 1
            found.examples.setdefault(reason, case.query)

    draw()
    return found


def refusal_of(case: Case) -> str | None:
    """Run a query and say why it is refused, if it is, with names and numbers left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cepheid.query(case.query).run(_table_of(case))
        except CepheidError as error:
            diagnostic = error.diagnostics[0]
            return f"{diagnostic.code} {re.sub(r'`[^`]*`|[0-9]+', '…', diagnostic.message)}"
    return None


def _table_of(case: Case) -> pa.Table:
    """Build the table of a case with all columns of its schema, also if it has no events."""
    kinds = {"ts": pa.timestamp("us"), **{n: KINDS[n] for n in case.schema if n != "ts"}}
    columns = {n: [event.get(n) for event in case.events] for n in kinds}
    return pa.table({n: pa.array(values, kinds[n]) for n, values in columns.items()})


def main() -> None:
    """Read the arguments, draw queries and print what was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    found = count_refusals(asked.queries, asked.seed)
    refused = found.counts.total()
    lines = [f"{refused} of {found.queries} queries are refused ({refused / found.queries:.2%})"]
    for reason, count in found.counts.most_common():
        lines += [f"{count:6} {reason}", f"       {' '.join(found.examples[reason].split())}"]
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
