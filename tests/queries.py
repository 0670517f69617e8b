"""Queries that many tests share: those of the papers as printed, and one for each construct."""

from __future__ import annotations

PAPER_QUERIES = {
    "greta-q1": """RETURN sector, COUNT(∗)PATTERN Stock S+

WHERE [company,sector] AND S.price > NEXT(S).price
GROUP-BY sector WITHIN 10 minutes SLIDE 10 seconds""",
    "greta-q2": """RETURN mapper, SUM(M.cpu)

PATTERN SEQ(Start S, Measurement M+, End E)

WHERE [job,mapper] AND M.load < NEXT(M).load

GROUP-BY mapper WITHIN 1 minute SLIDE 30 seconds""",
    "greta-q3": """RETURN segment, COUNT(∗), AVG(P.speed)
PATTERN SEQ(NOT Accident A, Position P+)
WHERE [P.vehicle,segment] AND P.speed > NEXT(P ).speed
GROUP-BY segment WITHIN 5 minutes SLIDE 1 minute""",
    "cogra-q1": "RETURN mapper, SUM(L.cpu) PATTERN SEQ(Start S, Load L+, End E) "
    "SEMANTICS contiguous WHERE [job,mapper] AND L.cpu < NEXT(L).cpu GROUP-BY job,mapper "
    "WITHIN 1 minute SLIDE 30 seconds",
    "cogra-q2": "RETURN district, COUNT(*), AVG(T.speed) PATTERN SEQ(Pickup P, Trip T+, Dropoff D) "
    "SEMANTICS skip-till-next-match WHERE [driver, rider, district] GROUP-BY district "
    "WITHIN 30 minutes SLIDE 1 minute",
    "cogra-q3": "RETURN sector, COUNT(*) PATTERN Stock S+ SEMANTICS skip-till-any-match WHERE "
    "[company, sector] AND S.price > NEXT(S).price GROUP-BY sector "
    "WITHIN 10 minutes SLIDE 10 seconds",
    "cogra-q4": """RETURN patient, COUNT(*)
PATTERN SEQ(Activity S, Activity A+, Activity F)
SEMANTICS contiguous
WHERE [patient] AND S.rate < 60 AND F.rate > 100 AND
A.type = passive GROUP-BY patient
WITHIN 10 minutes SLIDE 30 seconds""",
    "aseq-1": "RETURN COUNT(*) PATTERN SEQ(TypeUsername, TypePassword, ClickSubmit) "
    "WHERE TypePassword.value != TypeUsername.Password GROUP BY IP WITHIN 10s",
    "aseq-2": "RETURN COUNT(*) PATTERN SEQ(Kindle, KindleCase, Stylus) WHERE [userId] WITHIN 1hour",
    "aseq-negation": "RETURN COUNT(*) PATTERN SEQ(VK, BK, !REC, VC, BC) WITHIN 1 hour",
    "rcep-1": """PATTERN SEQ (a, b+, c)WHERE [companyID]

AND a.price < b.price AND
b.price < NEXT(b.price) AND c.price < FIRST(b.price)

WITHIN 30 minutes SLIDE 2 minutes""",
}
"""As printed, but for layout; A-Seq's in our syntax."""

VALID_QUERIES = [
    "PATTERN A",
    "pattern a",
    "RETURN MATCHES PATTERN SEQ(A, B) LIMIT 10",
    "RETURN A.x, B.y AS y PATTERN SEQ(A, B)",
    "RETURN k, A.x PATTERN A WHERE [k]",
    "RETURN COUNT(*), COUNT(A) AS n, LOG2(COUNT(*)), LOG2(SUM(A.x)) PATTERN A+",
    "RETURN MIN(A.x), MAX(A.x), AVG(A.x), SUM(A.x) PATTERN A+ GROUP BY k, m",
    "RETURN COUNT(*) PATTERN (A OR B)* AND C?",
    "RETURN COUNT(*) PATTERN SEQ(A{2}, B{2,}, C{2,5}, D*, E?, NOT F)",
    "RETURN COUNT(*) PATTERN SEQ(NOT SEQ(A, NOT B, C), (SEQ(D+, E))+)",
    "RETURN COUNT(*) PATTERN (SEQ(A x, A y+) OR SEQ(A x+, A y))+",
    "RETURN COUNT(*) PATTERN A+ WHERE NOT (A.x > 5 OR A.y IS NULL) AND A.z IS NOT NULL",
    "RETURN COUNT(*) PATTERN A+ WHERE A.x IN (1, 'it''s') AND A.y NOT IN (passive, \"x\"\"y\")",
    "RETURN COUNT(*) PATTERN A+ WHERE A.x BETWEEN 1 AND 2 AND A.y NOT BETWEEN -1 AND +1",
    r"RETURN COUNT(*) PATTERN A+ WHERE A.s LIKE 'a%\_' AND A.s NOT LIKE 'b_'",
    "RETURN COUNT(*) PATTERN A+ WHERE -A.x * (3 + A.y) % 7 - -2 >= A.z / 2e3 - (1 - 2)",
    "RETURN COUNT(*) PATTERN A+ WHERE ABS(A.x) > COALESCE(A.y, 0) AND TRUE <> FALSE AND A.z = NULL",
    "RETURN COUNT(*) PATTERN A+ WHERE NEXT(A).ts - A.ts <= 1.5 hours AND PREV(A).x < A.x",
    "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE A.x = NEXT(B).y AND A.address.city = B.address.city",
    "RETURN COUNT(*) PATTERN A+ WHERE (A.x > 1 AND A.y > 2) AND (A.z = (A.x > 1))",
    "RETURN MATCHES PATTERN SEQ(A a, B b+) WHERE AVG(b.x) > FIRST(b).x + LAST(b).x",
    "RETURN COUNT(*) PATTERN A+ WHERE [k, A.v] HAVING COUNT(*) > 5 AND count < 100 WITHIN 5 min",
    "RETURN COUNT(*) PATTERN A+ WITHIN 100 EVENTS SLIDE 1 EVENT",
    "RETURN COUNT(*) PATTERN A+ WITHIN 10 us SLIDE 5 µs TIES arrival NUMBERS exact MIN LENGTH 3",
    "RETURN COUNT(*) PATTERN A+ WITHIN 10 days EMIT ON EXPIRY SEMANTICS next",
    "RETURN COUNT(*) PATTERN A+ WITHIN 10 days SLIDE 1 day EMIT EARLY",
    "min length 2 within 90 ms slide 30 milliseconds return count(*) pattern A+ semantics CONT",
    "RETURN COUNT(*) -- how many\nPATTERN A /* all\nof them */ WHERE A.x > 1 -- done",
    "RETURN COUNT(*) PATTERN `order` `where`+ WHERE `where`.`order id` > 5 GROUP-BY `a``b`",
    "RETURN count, COUNT(*) AS matches PATTERN Within events WHERE [count] AND events.first > 1 "
    "GROUP-BY count",
    "RETURN COUNT(*) PATTERN Seq seq+ WHERE seq.next ≥ 5 ∧ seq.min ≠ 3",
]

SITUATION_QUERIES = [
    "DEFINE A AS x > 1 BETWEEN 3 EVENTS AND 9 s AT MOST 4 EVENTS, B AS y AT LEAST 1 EVENT "
    "PATTERN A during B",
    """FROM CarSensors PARTITION BY car_id
    DEFINE A AS accel > 8 AT LEAST 5s, B AS speed > 70 BETWEEN 4s AND 30s,
        C AS accel < -9 AT LEAST 3s
    PATTERN A meets;overlaps;starts;during B AND B contains;finishes;overlaps;meets C AND A before C
    WITHIN 5 minutes
    RETURN first(B.car_id) AS id, avg(B.speed) AS avg_speed;""",
    "DEFINE A AS a, B AS NOT a AT MOST 2 min PATTERN A met by;overlapped by;started by B",
    "DEFINE A AS x BETWEEN 1 AND 2 BETWEEN 1 s AND 2 s, B AS y PATTERN A equals;finished-by B",
    "DEFINE A AS (gap BETWEEN 1 s AND 2 s) SITUATIONS A RETURN COUNT(A), COUNT(A.gap), LAST(A.gap)",
    "DETECTED WITHIN 5 s WHERE k = 1 DEFINE `at` AS x.y > 3, B AS y LIKE 'a' PATTERN `at` after B",
    "RETURN MATCHES PATTERN A contains B WITHIN 1 h DEFINE A AS p IS NULL OR q, B AS x IN (1, 2)",
]
"""Queries about situations."""

SELECT_QUERIES = [
    "SELECT *, price * 2 AS twice FROM ticks WHERE price > 1 AND company LIKE 'p%';",
    "SELECT COUNT(*), AVG(price), SUM(price * volume) AS turnover, COUNT(t.price) FROM ticks AS t "
    "WHERE NOT volume BETWEEN 1 AND 2 GROUP BY company, `where` WINDOW 1 hour SLIDE 15 min",
    "select max(price) AS top from ticks window 1000 events slide 1 event",
    "SELECT o.id, s.*, s.ts - o.ts AS took FROM orders o JOIN shipments s ON o.id = s.order_id AND "
    "s.ts >= o.ts WHERE o.price IN (1, 2) WINDOW 2 days",
]
"""Queries without a pattern."""
