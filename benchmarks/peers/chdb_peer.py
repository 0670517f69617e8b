"""The cases in ClickHouse's SQL, by chdb: ``FILE`` stands for the Parquet file.

A case may have several texts; the fastest one counts. Nothing of Cepheid is imported.
"""

from __future__ import annotations

from typing import Any

VARIANTS: dict[str, tuple[str, ...]] = {}
DASHES: dict[str, str] = {}

_SETTINGS = " SETTINGS group_by_two_level_threshold = 0, group_by_two_level_threshold_bytes = 0"
_ORDERED = "arrayMap(p -> p.2, arraySort(p -> p.1, groupArray((ts, type))))"
_FRAME = (
    "PARTITION BY key, intDiv(ts, 10000) ORDER BY ts "
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
)
_PLUS = "(s, x) -> (if(x = 'A', 2 * s.1 + 1, s.1), if(x = 'B', s.2 + s.1, s.2))"
_SEQ = (
    "(s, x) -> (if(x = 'A', s.1 + 1, s.1), if(x = 'B', s.2 + s.1, s.2), "
    "if(x = 'C', s.3 + s.2, s.3))"
)
_ZERO = "toFloat64(0)"


def _fold(step: str, size: int) -> str:
    """Fold the ordered types of every key and window."""
    start = ", ".join([_ZERO] * size)
    return (
        f"SELECT key, r.{size} AS count FROM (SELECT key, arrayFold({step}, {_ORDERED}, ({start})) "
        f"AS r FROM FILE GROUP BY key, intDiv(ts, 10000)) WHERE count > 0" + _SETTINGS
    )


VARIANTS["plus"] = (
    _fold(_PLUS, 2),
    f"""SELECT key, sum(pow(2, a) - 1) AS count FROM
        (SELECT key, ts, type, countIf(type = 'A') OVER ({_FRAME}) AS a FROM FILE)
        WHERE type = 'B' AND a > 0 GROUP BY key, intDiv(ts, 10000)""",
)
VARIANTS["seq"] = (
    _fold(_SEQ, 3),
    f"""SELECT key, toFloat64(sum(b)) AS count FROM
        (SELECT key, ts, type, sum(if(type = 'B', a, 0)) OVER ({_FRAME}) AS b FROM
         (SELECT key, ts, type, countIf(type = 'A') OVER ({_FRAME}) AS a FROM FILE))
        WHERE type = 'C' AND b > 0 GROUP BY key, intDiv(ts, 10000)""",
)
VARIANTS["trailing"] = (
    f"""SELECT host, ts AS window_end, r.3 AS count FROM
        (SELECT host, ts, arrayFold({_SEQ}, types, ({_ZERO}, {_ZERO}, {_ZERO})) AS r FROM
            (SELECT host, ts, type, groupArray(type) OVER (PARTITION BY host ORDER BY ts
                RANGE BETWEEN 999 PRECEDING AND CURRENT ROW) AS types FROM FILE)
         WHERE type = 'C')
        WHERE count > 0""",
)
VARIANTS["within"] = (
    """WITH a AS (SELECT host, ts, arrayJoin([intDiv(ts, 1000), intDiv(ts, 1000) + 1]) AS second
                  FROM FILE WHERE type = 'A'),
            b AS (SELECT host, ts, intDiv(ts, 1000) AS second FROM FILE WHERE type = 'B'),
            ab AS (SELECT a.host AS host, a.ts AS a, b.ts AS b,
                       arrayJoin([intDiv(a, 1000), intDiv(a, 1000) + 1]) AS second
                   FROM a JOIN b ON a.host = b.host AND a.second = b.second
                   WHERE b.ts > a.ts AND b.ts < a.ts + 1000),
            c AS (SELECT host, ts, intDiv(ts, 1000) AS second FROM FILE WHERE type = 'C')
       SELECT c.host AS host, ab.a AS a, c.ts AS c FROM ab JOIN c
       ON c.host = ab.host AND c.second = ab.second
       WHERE c.ts > ab.b AND c.ts < ab.a + 1000""",
)
VARIANTS["next"] = (
    """SELECT host, a, c FROM
           (SELECT a.host AS host, a.ts AS a, b.ts AS b
            FROM (SELECT host, ts FROM FILE WHERE type = 'A') AS a
            ASOF JOIN (SELECT host, ts FROM FILE WHERE type = 'B') AS b
                ON a.host = b.host AND a.ts < b.ts) AS ab
       ASOF JOIN (SELECT host, ts AS c FROM FILE WHERE type = 'C') AS c
           ON ab.host = c.host AND ab.b < c.c
       WHERE c < a + 1000""",
)
_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
VARIANTS["runs"] = (
    f"""WITH l AS (
            SELECT key, ts, price, lagInFrame(toNullable(price)) OVER w AS before,
                leadInFrame(toNullable(price)) OVER w AS after FROM FILE
            WINDOW w AS (PARTITION BY key ORDER BY ts {_WHOLE})
        ), g AS (
            SELECT *, sum(if(ifNull(price < before, 0), 0, 1)) OVER (PARTITION BY key ORDER BY ts
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run FROM l
        ), r AS (
            SELECT key, count() AS len, min(ts) AS begin, argMin(price, ts) AS p0,
                argMax(price, ts) AS p1, max(isNull(after)) AS is_open FROM g GROUP BY key, run
        )
        SELECT key, begin, p0, p1 FROM r WHERE len > 1 AND is_open = 0""",
)
VARIANTS["trends"] = (
    """SELECT key, arraySum(r.2) AS count, arraySum(r.4) / arraySum(r.3) AS avg FROM
       (SELECT key, arrayFold((s, x) -> arrayPushBack(s, (x,
            1 + arraySum(y -> (y.1 > x) * y.2, s),
            1 + arraySum(y -> (y.1 > x) * (y.2 + y.3), s),
            x + arraySum(y -> (y.1 > x) * (y.2 * x + y.4), s))),
            arrayMap(p -> toFloat64(p.2),
                arraySort(p -> p.1, groupArray((ts, assumeNotNull(price))))),
            CAST([] AS Array(Tuple(Float64, Float64, Float64, Float64)))) AS r
        FROM FILE GROUP BY key, intDiv(ts, 10000))"""
    + _SETTINGS,
)
VARIANTS["funnel"] = (
    """SELECT arrayJoin([1, 2, 3]) AS step, [one, two, three][step] AS keys FROM
       (SELECT countIf(level >= 1) AS one, countIf(level >= 2) AS two, countIf(level >= 3) AS three
        FROM (SELECT windowFunnel(300000, 'strict_increase')(toUInt64(ts), type = 'view',
                  type = 'cart', type = 'order') AS level FROM FILE GROUP BY key))""",
)
VARIANTS["absence"] = (
    """SELECT o.key AS key, o.ts AS ts FROM (SELECT key, ts FROM FILE WHERE type = 'order') AS o
       ASOF LEFT JOIN (SELECT key, toNullable(ts) AS paid FROM FILE WHERE type = 'payment') AS p
           ON o.key = p.key AND o.ts < p.paid
       WHERE p.paid IS NULL OR p.paid >= o.ts + 60000""",
    """SELECT key, ts FROM (SELECT key, ts, type,
           min(if(type = 'payment', toNullable(ts), NULL)) OVER (PARTITION BY key ORDER BY ts
               ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS paid FROM FILE)
       WHERE type = 'order' AND (paid IS NULL OR paid >= ts + 60000)""",
)
VARIANTS["select"] = (
    """SELECT key, count() AS count, avg(price) AS avg, max(price) AS max FROM FILE
       GROUP BY key, intDiv(ts, 10000)""",
)


def answer(text: str, path: str) -> Any:
    """Return the rows of a query over a file."""
    import chdb  # type: ignore[import-not-found]  # of another environment

    return chdb.query(text.replace("FILE", f"file('{path}', Parquet)"), "ArrowTable")
