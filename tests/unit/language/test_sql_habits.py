"""What other SQL has in a SELECT is answered with what to write here, at its place."""

from __future__ import annotations

import pytest

import cepheid
from cepheid.errors import CepheidError

ANSWERS = {
    "SELECT x FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR))": "WINDOW 1 hour",
    "SELECT COUNT(*) FROM s GROUP BY k, HOP(ts, INTERVAL '1' HOUR)": "WINDOW 1 hour",
    "SELECT COUNT(*) FROM s GROUP BY window(ts, '1 hour')": "WINDOW 1 hour",
    "SELECT COUNT(*) FROM s GROUP BY SESSION(ts, INTERVAL '1' HOUR)": "WINDOW SESSION 30 minutes",
    "SELECT COUNT(*) FROM s GROUP BY CUBE(a, b)": "as a workload",
    "SELECT x FROM s WHERE b IS TRUE": "x = TRUE",
    "SELECT x FROM s WHERE b IS NOT TRUE": "x = FALSE OR x IS NULL",
    "SELECT DISTINCT * FROM s": "SELECT DISTINCT a, b",
    "SELECT DISTINCT ON (x) y FROM s": "SELECT DISTINCT a, b",
    "SELECT DISTINCT UPPER(x) AS u FROM s": "CREATE STREAM keyed AS",
    "SELECT DISTINCT x FROM s GROUP BY x": "leave `DISTINCT` out",
    "SELECT x % 2 AS odd, COUNT(*) AS n FROM s GROUP BY x % 2": "CREATE STREAM keyed AS",
    "SELECT COUNT(*) FILTER (x > 1) AS n FROM s": "FILTER (WHERE condition)",
    "SELECT COUNT(DISTINCT x) FILTER (WHERE x > 1) AS n FROM s": "SUM(x) FILTER",
    "SELECT x FROM s WHERE (x OR y) IS DISTINCT FROM z": "write the comparison out",
    'SELECT x AS "y z" FROM s': "backquotes",
    "SELECT x `y z` FROM s": "write `AS`",
    "SELECT x[1] AS y FROM s": "out of the list",
    "SELECT x FROM s WHERE x > (SELECT AVG(x) FROM s)": "run the inner query first",
    "SELECT x FROM s WHERE EXISTS (SELECT 1 FROM r)": "run the inner query first",
    "SELECT x FROM s WHERE x NOT IN (SELECT x FROM r)": "a pattern asks for what is missing",
    "SELECT x FROM s WHERE NOT EXISTS (SELECT 1 FROM r)": "a pattern asks for what is missing",
    "SELECT * EXCLUDE (x) FROM s": "list the columns",
    "SELECT POSITION('a' IN x) AS y FROM s": "LIKE '%part%'",
    "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x) AS y FROM s": "PERCENTILE(x, 0.9)",
    "SELECT quantile(0.9)(x) AS y FROM s": "PERCENTILE(x, 0.9)",
    "SELECT ARRAY_AGG(x ORDER BY ts) AS y FROM s": "a measure of MATCH_RECOGNIZE",
    "SELECT FROM s": "SELECT * FROM events",
    "SELECT x FROM": "FROM events",
    "SELECT x s WHERE x > 1": "write `FROM s`",
    "SELECT ALL x FROM s": "leave `ALL` out",
    "SELECT a.x FROM s a ASOF JOIN r b ON a.k = b.k": "all pairs so near",
    "SELECT a.x FROM s a NATURAL JOIN r b": "write the columns",
    "SELECT COUNT(*) FROM s GROUP BY k EMIT CHANGES": "leave `EMIT` out",
    "SELECT x FROM s FETCH FIRST 2 ROWS ONLY": "LIMIT 3",
    "SELECT x FROM s AS y(z)": "SELECT x AS y FROM events",
    "SELECT x // 2 AS h FROM s": "FLOOR(x / 2)",
    "SELECT LISTAGG(x, ',') AS y FROM s": "a measure of row patterns",
    "SELECT MAX_BY(x, ts) AS y FROM s": "a measure of row patterns",
    "SELECT QUARTER(ts) AS y FROM s": 'cepheid.function("QUARTER"',
    "SELECT uniq(x) AS y FROM s": "COUNT(DISTINCT x)",
    "CREATE VIEW v AS SELECT x FROM s": "CREATE STREAM name AS",
    "INSERT INTO v SELECT x FROM s": "begin with `SELECT`",
}


@pytest.mark.parametrize("text", ANSWERS)
def test_habits_of_other_sql_get_an_answer(text: str) -> None:
    with pytest.raises(CepheidError) as caught:
        cepheid.query(text)
    found = caught.value.diagnostics[0]
    assert found.span is not None
    assert any(ANSWERS[text] in help_ for help_ in found.helps), found.helps


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x FROM s WHERE b = FALSE OR b IS NULL",
        "SELECT x FROM s WHERE x <> 1 OR x IS NULL",
        "SELECT FLOOR(x / 2) AS h FROM s LIMIT 3",
        "SELECT x AS `y z` FROM s WHERE t LIKE '%part%'",
        "SELECT PERCENTILE(x, 0.9) AS p, COUNT(DISTINCT x) AS d FROM s WINDOW SESSION 30 minutes",
        "SELECT MAX(CASE WHEN x > 1 THEN 1 ELSE 0 END) AS b FROM s WINDOW 1 hour SLIDE 15 minutes",
        "SELECT ts + 1 day AS later FROM s",
    ],
)
def test_what_the_answers_say_is_accepted(text: str) -> None:
    assert cepheid.query(text).plan.text == text
