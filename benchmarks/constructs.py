"""Constructs beside the same queries without: ``python -m benchmarks.constructs [EVENTS]``.

CPU seconds of one process over events of 1,000 keys in memory, the best of five runs after one that
compiles; the plain query runs right before. A query has at least 0.3 of the speed of its plain one,
for which no event looks at another (§2.12, §2.13, §3.6, §3.7, §14). Rows that lose come first.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import cepheid

KEYS = 1_000
RUNS = 5
STEP_US = 1_000
BAR = 0.3
WINDOW = "WITHIN 1 minute SLIDE 1 minute"
SLIDING = "WITHIN 1 minute SLIDE 10 seconds"

COUNT = "RETURN COUNT(*) PATTERN {} WHERE [key] {}"
PAIR, LOOP = "SEQ(Order o, Payment p)", "SEQ(Order o+, Payment p, Shipping s)"
PAST, NEXT = "AFTER MATCH SKIP PAST LAST", "AFTER MATCH SKIP TO NEXT"
BY_LINK = "SEMANTICS next, o TO o any"


class Row(NamedTuple):
    """A query with a construct, and the same one without."""

    name: str
    text: str
    plain: str


def counts(pattern: str, rest: str) -> str:
    """Write a query that counts matches."""
    return COUNT.format(pattern, rest)


ROWS = [
    *(
        Row(f"deadline {place}", text.format(" WITHIN 1 second", WINDOW), text.format("", WINDOW))
        for place, text in {
            "trailing": "RETURN COUNT(*) PATTERN SEQ(Order o, NOT Payment p{}) WHERE [key] {}",
            "leading": "RETURN COUNT(*) PATTERN SEQ(NOT Payment p{}, Order o) WHERE [key] {}",
            "between": "RETURN COUNT(*) PATTERN SEQ(Order o, NOT Payment p{}, Shipping s) "
            "WHERE [key] {}",
            "trailing, listed": "RETURN o.ts PATTERN SEQ(Order o, NOT Payment p{}) WHERE [key] {}",
        }.items()
    ),
    *(
        Row(f"links {rules}", counts(LOOP, f"SEMANTICS {rules} {WINDOW}"), counts(LOOP, WINDOW))
        for rules in ("any, o TO o next", "next, o TO o any", "any, o TO p contiguous")
    ),
    Row(
        "UNTIL",
        counts("SEQ(Order o+ UNTIL (o.volume = 0), Payment p, Shipping s)", WINDOW),
        counts(LOOP, WINDOW),
    ),
    Row(
        "WITHOUT",
        counts("SEQ(Order o, Payment p+ WITHOUT Refund r, Shipping s)", WINDOW),
        counts("SEQ(Order o, Payment p+, Shipping s)", WINDOW),
    ),
    *(
        Row(f"{skip[12:]} of {name}{over}", counts(pattern, f"{w} {skip}"), counts(pattern, w))
        for skip in (PAST, NEXT)
        for name, pattern in (("pairs", PAIR), ("loops", LOOP))
        for over, w in ((", one window", ""), ("", WINDOW))
    ),
    Row("SKIP PAST LAST, sliding", counts(PAIR, f"{SLIDING} {PAST}"), counts(PAIR, SLIDING)),
    Row(
        "SKIP PAST LAST with NOT",
        counts("SEQ(Order o, NOT Refund r, Payment p)", f"{WINDOW} {PAST}"),
        counts("SEQ(Order o, NOT Refund r, Payment p)", WINDOW),
    ),
    Row(
        "SKIP PAST LAST by link",
        counts(LOOP, f"{BY_LINK} {WINDOW} {PAST}"),
        counts(LOOP, f"{BY_LINK} {WINDOW}"),
    ),
    Row(
        "SKIP PAST LAST, AVG (built)",
        f"RETURN AVG(o.volume) PATTERN {PAIR} WHERE [key] {WINDOW} {PAST}",
        f"RETURN AVG(o.volume) PATTERN {PAIR} WHERE [key] {WINDOW}",
    ),
]


def events_of(count: int) -> pa.Table:
    """Draw orders, payments, shippings and refunds of random keys, a millisecond apart."""
    drawn = np.random.default_rng(7)
    kinds = pa.array(["Order", "Payment", "Shipping", "Refund"])
    kind = pa.array(drawn.integers(0, 4, count, np.int8))
    return pa.table(
        {
            "ts": pa.array(np.arange(count) * STEP_US, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(kind, kinds),
            "key": pa.array(drawn.integers(0, KEYS, count)),
            "volume": pa.array(drawn.integers(0, 10, count)),
        }
    )


def seconds_of(text: str, events: pa.Table) -> float:
    """Measure the CPU seconds of a query, without the first run."""
    compiled = cepheid.query(text)
    found = []
    for _ in range(RUNS + 1):
        begin = time.process_time()
        compiled.run(events)
        found.append(time.process_time() - begin)
    return min(found[1:])


def main() -> None:
    """Print a line for each query, those below the bar first."""
    warnings.simplefilter("ignore")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    events = events_of(count)
    lines = []
    for row in ROWS:
        plain, own = seconds_of(row.plain, events), seconds_of(row.text, events)
        share = plain / own
        speed = f"{count / own / 1e6:.1f} | {count / plain / 1e6:.1f}"
        lost = " **loses**" if share < BAR else ""
        lines.append((share, f"| {row.name} | {speed} | {share:.2f}{lost} |"))
        print(lines[-1][1], file=sys.stderr, flush=True)
    print("| construct | M events/s | plain query | share of its speed |\n|---|---|---|---|")
    for _, line in sorted(lines):
        print(line)


if __name__ == "__main__":
    main()
