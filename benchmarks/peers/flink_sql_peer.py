"""The cases in Flink's SQL, which ``FlinkSql.java`` runs over the CSV file as the table ``events``.

Flink aggregates its rows to the check itself: to fetch them would cost more than to find them.
"""

from __future__ import annotations

from benchmarks.peers.cases import BY_NAME

STREAMING = "STREAMING "
_FRAME = "PARTITION BY key, ts / 10000 ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_A = f"SUM(CASE WHEN type = 'A' THEN 1 ELSE 0 END) OVER ({_FRAME})"
_AB = f"SUM(CASE WHEN type = 'B' THEN a ELSE 0 END) OVER ({_FRAME})"
_FOLLOWING = "OVER (PARTITION BY {} ORDER BY ts ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)"
_HOST, _KEY = _FOLLOWING.format("host"), _FOLLOWING.format("key")

TEXTS: dict[str, tuple[str, ...]] = {
    "plus": (
        f"""SELECT key, SUM(POWER(2, a) - 1) FROM
            (SELECT key, ts / 10000 AS win, type, {_A} AS a FROM events)
            WHERE type = 'B' AND a > 0 GROUP BY key, win""",
    ),
    "seq": (
        f"""SELECT key, SUM(b) FROM
            (SELECT key, ts / 10000 AS win, type, {_AB} AS b FROM
                (SELECT key, ts, type, {_A} AS a FROM events))
            WHERE type = 'C' AND b > 0 GROUP BY key, win""",
    ),
    "within": (
        """SELECT c.host, ab.a, c.ts FROM
               (SELECT x.host, x.a, x.b, u.bucket FROM
                   (SELECT a.host, a.ts AS a, b.ts AS b FROM
                       (SELECT e.host, e.ts, u.bucket FROM events AS e
                        CROSS JOIN UNNEST(ARRAY[ts / 1000, ts / 1000 + 1]) AS u (bucket)
                        WHERE e.type = 'A') AS a
                    JOIN (SELECT host, ts, ts / 1000 AS bucket FROM events WHERE type = 'B') AS b
                    ON a.host = b.host AND a.bucket = b.bucket
                       AND b.ts > a.ts AND b.ts < a.ts + 1000) AS x
                CROSS JOIN UNNEST(ARRAY[a / 1000, a / 1000 + 1]) AS u (bucket)) AS ab
           JOIN (SELECT host, ts, ts / 1000 AS bucket FROM events WHERE type = 'C') AS c
           ON c.host = ab.host AND c.bucket = ab.bucket AND c.ts > ab.b AND c.ts < ab.a + 1000""",
        STREAMING
        + """SELECT a.host, a.ts, c.ts FROM
               (SELECT * FROM events WHERE type = 'A') AS a
           JOIN (SELECT * FROM events WHERE type = 'B') AS b ON a.host = b.host
               AND b.et > a.et AND b.et < a.et + INTERVAL '1' SECOND
           JOIN (SELECT * FROM events WHERE type = 'C') AS c ON a.host = c.host
               AND c.et > a.et AND c.et < a.et + INTERVAL '1' SECOND AND c.ts > b.ts""",
    ),
    "next": (
        """SELECT host, a, c FROM events MATCH_RECOGNIZE (
               PARTITION BY host ORDER BY et
               MEASURES A.ts AS a, C.ts AS c
               ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
               PATTERN (A X*? B Y*? C) WITHIN INTERVAL '1' SECOND
               DEFINE A AS A.type = 'A', X AS X.type <> 'B', B AS B.type = 'B',
                      Y AS Y.type <> 'C', C AS C.type = 'C')""",
        f"""SELECT host, ts, c FROM (SELECT host, ts, type,
                   MIN(CASE WHEN type = 'B' THEN c END) {_HOST} AS c FROM
               (SELECT host, ts, type, MIN(CASE WHEN type = 'C' THEN ts END) {_HOST} AS c
                FROM events))
            WHERE type = 'A' AND c < ts + 1000""",
    ),
    "runs": (
        """SELECT key, b, p0, p1 FROM events MATCH_RECOGNIZE (
               PARTITION BY key ORDER BY et
               MEASURES S.ts AS b, S.price AS p0, LAST(D.price) AS p1
               ONE ROW PER MATCH AFTER MATCH SKIP TO LAST D
               PATTERN (S D+ U)
               DEFINE D AS (LAST(D.price, 1) IS NULL AND D.price < S.price)
                           OR D.price < LAST(D.price, 1),
                      U AS U.price >= LAST(D.price))""",
    ),
    "funnel": (
        f"""SELECT step, keys FROM
            (SELECT COUNT(*) AS k1, SUM(CASE WHEN level >= 2 THEN 1 ELSE 0 END) AS k2,
                SUM(CASE WHEN level >= 3 THEN 1 ELSE 0 END) AS k3 FROM
                (SELECT key, MAX(CASE WHEN o <= ts + 300000 THEN 3
                                      WHEN c <= ts + 300000 THEN 2 ELSE 1 END) AS level FROM
                    (SELECT key, ts, type, MIN(CASE WHEN type = 'cart' THEN ts END) {_KEY} AS c,
                         MIN(CASE WHEN type = 'cart' THEN o END) {_KEY} AS o FROM
                        (SELECT key, ts, type, MIN(CASE WHEN type = 'order' THEN ts END) {_KEY} AS o
                         FROM events))
                 WHERE type = 'view' GROUP BY key))
            CROSS JOIN UNNEST(ARRAY[ROW(1, k1), ROW(2, k2), ROW(3, k3)]) AS t (step, keys)""",
    ),
    "absence": (
        """SELECT key, ts FROM events AS o WHERE type = 'order' AND NOT EXISTS (
               SELECT 1 FROM events AS p WHERE p.type = 'payment' AND p.key = o.key
               AND p.ts > o.ts AND p.ts < o.ts + 60000)""",
    ),
    "select": (
        """SELECT key, COUNT(*), AVG(CAST(price AS DOUBLE)), MAX(price)
           FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(et), INTERVAL '10' SECOND))
           GROUP BY key, window_start, window_end""",
    ),
}
DASHES = {
    "trailing": "no fold over a frame of rows without an aggregate function written in Java",
    "trends": "no recursion, and MATCH_RECOGNIZE is contiguous",
}


def _checked(case: str, text: str) -> str:
    mode = STREAMING if text.startswith(STREAMING) else ""
    names = [f"c{number}" for number, _ in enumerate(BY_NAME[case].columns)]
    sums = ", ".join(f"SUM(CAST({name} AS DOUBLE))" for name in names)
    rows = f"({text.removeprefix(STREAMING)}) AS t ({', '.join(names)})"
    return f"{mode}SELECT COUNT(*), {sums} FROM {rows}"


VARIANTS = {case: tuple(_checked(case, text) for text in texts) for case, texts in TEXTS.items()}
