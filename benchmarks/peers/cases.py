"""The questions that all systems answer: names, our queries, and the columns that must agree."""

from __future__ import annotations

from dataclasses import dataclass

WITHIN_MS, TRAILING_MS = 10_000, 1_000
FUNNEL_MS, DEADLINE_MS = 300_000, 60_000

_TUMBLING = "GROUP-BY key WITHIN 10 seconds SLIDE 10 seconds"
_BY_HOST = "PATTERN SEQ(A a, B b, C c) {} WHERE [host] WITHIN 1 second"


@dataclass(frozen=True, slots=True)
class Case:
    """A question; ``columns`` are those of the answer whose sums must agree."""

    name: str
    title: str
    query: str
    columns: tuple[str, ...]
    data: str = "trades"


CASES = (
    Case(
        "plus",
        "SEQ(A+, B), any-match, counted by key in windows of 10 s",
        f"RETURN key, COUNT(*) PATTERN SEQ(A+, B) WHERE [key] {_TUMBLING}",
        ("key", "count"),
    ),
    Case(
        "seq",
        "SEQ(A, B, C), any-match, counted by key in windows of 10 s",
        f"RETURN key, COUNT(*) PATTERN SEQ(A, B, C) WHERE [key] {_TUMBLING}",
        ("key", "count"),
    ),
    Case(
        "trailing",
        "SEQ(A, B, C), any-match, counted by host over the last second, whenever a match ends",
        "RETURN host, COUNT(*) PATTERN SEQ(A, B, C) WHERE [host] GROUP-BY host WITHIN 1 second",
        ("host", "window_end", "count"),
    ),
    Case(
        "within",
        "SEQ(A, B, C), any-match, every match of a host within a second listed",
        f"RETURN host, a.ts AS a, c.ts AS c {_BY_HOST.format('SEMANTICS skip-till-any-match')}",
        ("host", "a", "c"),
    ),
    Case(
        "next",
        "SEQ(A, B, C), next-match, every match of a host within a second listed",
        f"RETURN host, a.ts AS a, c.ts AS c {_BY_HOST.format('SEMANTICS skip-till-next-match')}",
        ("host", "a", "c"),
    ),
    Case(
        "runs",
        "falling runs of the price of a key, MATCH_RECOGNIZE",
        """
    SELECT key, begin, p0, p1 FROM events MATCH_RECOGNIZE (
        PARTITION BY key ORDER BY ts
        MEASURES S.ts AS begin, S.price AS p0, LAST(D.price) AS p1
        ONE ROW PER MATCH AFTER MATCH SKIP TO LAST D
        PATTERN (S D+ U) DEFINE D AS price < PREV(price), U AS price >= PREV(price)
    )""",
        ("key", "begin", "p0", "p1"),
    ),
    Case(
        "trends",
        "falling trends of any events, COUNT and AVG by key in windows of 10 s",
        "RETURN key, COUNT(*), AVG(S.price) PATTERN any S+ "
        f"WHERE [key] AND S.price > NEXT(S).price {_TUMBLING}",
        ("key", "count", "avg_S_price"),
    ),
    Case(
        "funnel",
        "funnel of view, cart, order within 5 minutes of a session",
        "RETURN FUNNEL(key) PATTERN SEQ(view v, cart c, order o) WITHIN 5 minutes",
        ("step", "keys"),
        "shop",
    ),
    Case(
        "absence",
        "orders without a payment of their session within a minute",
        "RETURN key, o.ts AS ts PATTERN SEQ(order o, NOT payment p WITHIN 1 minute) WHERE [key]",
        ("key", "ts"),
        "shop",
    ),
    Case(
        "select",
        "COUNT, AVG and MAX of the price by key in windows of 10 s",
        "SELECT key, COUNT(*), AVG(price), MAX(price) FROM trades GROUP BY key WINDOW 10 seconds",
        ("key", "count", "avg_price", "max_price"),
    ),
)

BY_NAME = {case.name: case for case in CASES}
