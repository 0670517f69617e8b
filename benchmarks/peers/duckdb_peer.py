"""The cases in DuckDB's SQL: ``FILE`` stands for the Parquet file. Nothing of Cepheid is imported.

A case may have several texts; the fastest one counts.
"""

from __future__ import annotations

from typing import Any

VARIANTS: dict[str, tuple[str, ...]] = {}
DASHES: dict[str, str] = {}

_FRAME = "PARTITION BY key, ts // 10000 ORDER BY ts ROWS UNBOUNDED PRECEDING"
_A = f"sum(CASE WHEN type = 'A' THEN 1 ELSE 0 END) OVER ({_FRAME})"
_AB = f"sum(CASE WHEN type = 'B' THEN a ELSE 0 END) OVER ({_FRAME})"
_PLUS = (
    "lambda s, x: {'a': CASE WHEN x = 'A' THEN 2 * s.a + 1 ELSE s.a END, "
    "'c': CASE WHEN x = 'B' THEN s.c + s.a ELSE s.c END}, {'a': 0::DOUBLE, 'c': 0::DOUBLE}"
)
_SEQ = (
    "lambda s, x: {'a': CASE WHEN x = 'A' THEN s.a + 1 ELSE s.a END, "
    "'b': CASE WHEN x = 'B' THEN s.b + s.a ELSE s.b END, "
    "'c': CASE WHEN x = 'C' THEN s.c + s.b ELSE s.c END}, "
    "{'a': 0::DOUBLE, 'b': 0::DOUBLE, 'c': 0::DOUBLE}"
)


def _fold(step: str) -> str:
    """Fold the ordered types of every key and window."""
    return (
        f"SELECT key, r.c AS count FROM (SELECT key, list_reduce(list(type ORDER BY ts), {step}) "
        "AS r FROM 'FILE' GROUP BY key, ts // 10000) WHERE r.c > 0"
    )


VARIANTS["plus"] = (
    _fold(_PLUS),
    "SELECT key, sum(pow(2, a) - 1) AS count FROM "
    f"(SELECT key, type, ts, {_A} AS a FROM 'FILE') WHERE type = 'B' AND a > 0 "
    "GROUP BY key, ts // 10000",
)
VARIANTS["seq"] = (
    _fold(_SEQ),
    f"SELECT key, sum(b) AS count FROM (SELECT key, ts, type, {_AB} AS b FROM "
    f"(SELECT key, ts, type, {_A} AS a FROM 'FILE')) WHERE type = 'C' AND b > 0 "
    "GROUP BY key, ts // 10000",
)

_PAIRS = """
    WITH a AS (SELECT host, ts, unnest([ts // 1000, ts // 1000 + 1]) AS second FROM 'FILE'
               WHERE type = 'A'),
         b AS (SELECT host, ts, ts // 1000 AS second FROM 'FILE' WHERE type = 'B'),
         ab AS (SELECT a.host, a.ts AS a, b.ts AS b FROM a JOIN b ON a.host = b.host
                AND a.second = b.second AND b.ts > a.ts AND b.ts < a.ts + 1000),
         ab2 AS (SELECT *, unnest([a // 1000, a // 1000 + 1]) AS second FROM ab),
         c AS (SELECT host, ts, ts // 1000 AS second FROM 'FILE' WHERE type = 'C'),
         m AS (SELECT c.host, ab2.a, c.ts AS c FROM ab2 JOIN c ON c.host = ab2.host
               AND c.second = ab2.second AND c.ts > ab2.b AND c.ts < ab2.a + 1000)
"""
"""All matches within a second: joins by buckets of a second."""

VARIANTS["within"] = (f"{_PAIRS} SELECT host, a, c FROM m",)
VARIANTS["trailing"] = (
    f"""SELECT host, ts AS window_end, r.c AS count FROM
        (SELECT host, ts, list_reduce(types, {_SEQ}) AS r FROM
            (SELECT host, ts, type, list(type) OVER
                (PARTITION BY host ORDER BY ts RANGE BETWEEN 999 PRECEDING AND CURRENT ROW) AS types
             FROM 'FILE') WHERE type = 'C')
        WHERE r.c > 0""",
)
VARIANTS["next"] = (
    """SELECT a.host, a.ts AS a, c.ts AS c
       FROM (SELECT host, ts FROM 'FILE' WHERE type = 'A') a
       ASOF JOIN (SELECT host, ts FROM 'FILE' WHERE type = 'B') b
           ON a.host = b.host AND a.ts < b.ts
       ASOF JOIN (SELECT host, ts FROM 'FILE' WHERE type = 'C') c
           ON b.host = c.host AND b.ts < c.ts
       WHERE c.ts < a.ts + 1000""",
    """WITH c AS (SELECT host, ts, type, min(CASE WHEN type = 'C' THEN ts END) OVER w AS c
                  FROM 'FILE'
                  WINDOW w AS (PARTITION BY host ORDER BY ts
                               ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)),
            b AS (SELECT host, ts, type, min(CASE WHEN type = 'B' THEN c END) OVER w AS c FROM c
                  WINDOW w AS (PARTITION BY host ORDER BY ts
                               ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING))
       SELECT host, ts AS a, c FROM b WHERE type = 'A' AND c < ts + 1000""",
)
VARIANTS["runs"] = (
    """WITH l AS (
           SELECT key, ts, price, lag(price) OVER w AS before, lead(price) OVER w AS after
           FROM 'FILE' WINDOW w AS (PARTITION BY key ORDER BY ts)
       ), g AS (
           SELECT *, sum(CASE WHEN NOT coalesce(price < before, false) THEN 1 ELSE 0 END)
               OVER (PARTITION BY key ORDER BY ts ROWS UNBOUNDED PRECEDING) AS run FROM l
       ), r AS (
           SELECT key, count(*) AS len, min(ts) AS begin, arg_min(price, ts) AS p0,
               arg_max(price, ts) AS p1,
               max(CASE WHEN after IS NULL THEN 1 ELSE 0 END) AS is_open FROM g GROUP BY key, run
       )
       SELECT key, begin, p0, p1 FROM r WHERE len > 1 AND is_open = 0""",
    """WITH l AS (
           SELECT key, ts, price, coalesce(price < lag(price) OVER w, false) AS falls,
               price > lead(price) OVER w AS goes_on
           FROM 'FILE' WINDOW w AS (PARTITION BY key ORDER BY ts)
       ), ends AS (
           SELECT *, lag(ts) OVER w AS begin, lag(price) OVER w AS p0
           FROM (SELECT * FROM l WHERE falls <> coalesce(goes_on, false))
           WINDOW w AS (PARTITION BY key ORDER BY ts)
       )
       SELECT key, begin, p0, price AS p1 FROM ends
       WHERE falls AND goes_on IS NOT NULL""",
)
_EARLIER = "list_filter(s, lambda y: y.p > x)"
VARIANTS["trends"] = (
    f"""SELECT key, list_sum(list_transform(r, lambda z: z.c)) AS count,
            list_sum(list_transform(r, lambda z: z.s)) / list_sum(list_transform(r, lambda z: z.n))
                AS avg
        FROM (SELECT key, list_reduce(list(price ORDER BY ts), lambda s, x: list_append(s, {{
            'p': x,
            'c': 1 + coalesce(list_sum(list_transform({_EARLIER}, lambda y: y.c)), 0),
            'n': 1 + coalesce(list_sum(list_transform({_EARLIER}, lambda y: y.c + y.n)), 0),
            's': x + coalesce(list_sum(list_transform({_EARLIER}, lambda y: y.c * x + y.s)), 0)}}),
            []::STRUCT(p BIGINT, c DOUBLE, n DOUBLE, s DOUBLE)[]) AS r
            FROM 'FILE' GROUP BY key, ts // 10000)""",
    """WITH RECURSIVE e AS (SELECT key, ts, price, ts // 10000 AS win FROM 'FILE'),
       t(key, win, last, price, n, s) AS (
           SELECT key, win, ts, price, 1, price FROM e
           UNION ALL
           SELECT t.key, t.win, e.ts, e.price, t.n + 1, t.s + e.price FROM t JOIN e
           ON e.key = t.key AND e.win = t.win AND e.ts > t.last AND e.price < t.price)
       SELECT key, count(*)::DOUBLE AS count, sum(s) / sum(n) AS avg FROM t GROUP BY key, win""",
)
VARIANTS["funnel"] = (
    """WITH v AS (SELECT key, ts FROM 'FILE' WHERE type = 'view'),
            c AS (SELECT key, ts FROM 'FILE' WHERE type = 'cart'),
            o AS (SELECT key, ts FROM 'FILE' WHERE type = 'order'),
            m AS (SELECT v.key, v.ts AS v, c.ts AS c, o.ts AS o FROM v
                  ASOF LEFT JOIN c ON v.key = c.key AND v.ts < c.ts
                  ASOF LEFT JOIN o ON c.key = o.key AND c.ts < o.ts),
            l AS (SELECT key, max(CASE WHEN o <= v + 300000 THEN 3
                                       WHEN c <= v + 300000 THEN 2 ELSE 1 END) AS level
                  FROM m GROUP BY key)
       SELECT step, count(*) FILTER (level >= step) AS keys
       FROM l, (SELECT unnest([1, 2, 3]) AS step) GROUP BY step""",
    """WITH o AS (SELECT key, ts, type, min(CASE WHEN type = 'order' THEN ts END) OVER w AS o
                  FROM 'FILE'
                  WINDOW w AS (PARTITION BY key ORDER BY ts
                               ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)),
            c AS (SELECT key, ts, type, min(CASE WHEN type = 'cart' THEN ts END) OVER w AS c,
                      min(CASE WHEN type = 'cart' THEN o END) OVER w AS o FROM o
                  WINDOW w AS (PARTITION BY key ORDER BY ts
                               ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)),
            l AS (SELECT key, max(CASE WHEN o <= ts + 300000 THEN 3
                                       WHEN c <= ts + 300000 THEN 2 ELSE 1 END) AS level
                  FROM c WHERE type = 'view' GROUP BY key)
       SELECT step, count(*) FILTER (level >= step) AS keys
       FROM l, (SELECT unnest([1, 2, 3]) AS step) GROUP BY step""",
)
VARIANTS["absence"] = (
    """SELECT key, ts FROM 'FILE' o WHERE type = 'order' AND NOT EXISTS (
           SELECT 1 FROM 'FILE' p WHERE p.type = 'payment' AND p.key = o.key
           AND p.ts > o.ts AND p.ts < o.ts + 60000)""",
    """SELECT o.key, o.ts FROM (SELECT key, ts FROM 'FILE' WHERE type = 'order') o
       ASOF LEFT JOIN (SELECT key, ts FROM 'FILE' WHERE type = 'payment') p
           ON o.key = p.key AND o.ts < p.ts
       WHERE p.ts IS NULL OR p.ts >= o.ts + 60000""",
)
VARIANTS["select"] = (
    """SELECT key, count(*) AS count, avg(price) AS avg, max(price) AS max FROM 'FILE'
       GROUP BY key, ts // 10000""",
)


def answer(text: str, path: str) -> Any:
    """Return the rows of a query over a file."""
    import duckdb

    found: Any = duckdb.sql(text.replace("FILE", path))
    return found.to_arrow_table()
