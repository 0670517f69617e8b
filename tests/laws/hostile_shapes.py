"""Shapes of hostile queries: a generator of random numbers in, a kind and a text out.

Each shape asks for too much of one thing: nesting, numbers, names, windows, ways to match, texts.
"""

from __future__ import annotations

import random
from collections.abc import Callable

Rng = random.Random
Shape = Callable[[Rng], str]

COUNTS = (1, 2, 3, 7, 20, 40, 40, 60, 62, 62, 64, 255, 257, 3_000)
DEPTHS = (1, 5, 20, 40, 40, 45, 48, 90, 95, 98, 99, 100, 101, 400)
NUMBERS = ("0", "1", "2", "5", "63", "9223372036854775807", "1000000", "4611686018427387904")
ODD_NUMBERS = (
    "-1", "1e308", "1e309", "-1e-400", "0.1", "9" * 40, "9" * 4_000, "1." + "3" * 900, "1e-7",
    "NULL",
    "-9223372036854775808", "9223372036854775808", "TRUE", "1" + "0" * 308 + ".5", "000001",
    "0x1", "1_0",
)  # fmt: skip
HALF = "\ud800"
ODD = (
    "é", "\u202e", "\x00", "\u200d", "\u2028", "\ufeff", "\x1b[2J", "\t", "\x7f", "😀", "ﬀ", "İ",
    "ß", HALF, "a\u0301", "\U0010ffff", "`", "'", "''", '"', "\\", "\\n", "%", "_", "\\%",
    "--", "/*", ";",
)  # fmt: skip
LENGTHS = (
    "1 us", "2 us", "3 us", "7 us", "1000003 us", "1 ms", "1 s", "3 s", "1 min", "7 days",
    "11 days", "1000000 s",
    "365 days", "1000000 min", "36500 days", "18000000 days",
)  # fmt: skip
"""From short to long."""
ODD_LENGTHS = (
    "0 s", "9223372036854775807 us", "4611686018427387903 us", "106751991 days", "1e3 s", "0.5 s",
    "99999999999999999999 days", f"{2**63} EVENTS", "1 parsec", "1 s 1 s", "NULL s", "-1 s",
)  # fmt: skip
COUNTED = (1, 2, 3, 1_000, 2**31, 2**60, 2**62)
PATTERNS = (
    "A+", "SEQ(A+, B+, A*, B*)", "(A+ OR B+)+", "SEQ(A x+, A y+, A z+)", "((A+)+)+", "((A*)*)*",
    "(SEQ(A+, B?))+", "SEQ(A*, B*, C*, A*, B*, C*)", "SEQ(A, NOT B, A)", "SEQ(NOT C, A+, B)",
    "SEQ(A+, NOT SEQ(B+, NOT C, B), A)", "(SEQ(A, NOT C, B?))+", "SEQ(A+, B, NOT C)", "A+ AND B+",
    "(A OR B OR C OR D)+", "SEQ(A{1,9}, B{2,}, C{0,3})", "(SEQ(A+, B+)+ OR A+){1,3}", "SEQ(A?, B?)",
    "SEQ(A, B) AND SEQ(B, A)", "(A x OR A y OR A z)+", "(SEQ(A x?, A y?, A z?))+", "A{5}",
    "((A{3}){3}){3}",
)  # fmt: skip
PREDICATES = (
    "A.x < NEXT(A).x", "A.x <> NEXT(A).x", "[key]", "[x, y, s]", "A.s LIKE '%a%a%a%a%b'", "[A.key]",
    "SUM(A.x) > 3", "FIRST(A).x < LAST(A).x", "A.x = 1 / 0", "A.x % 0 = 1", "A.y > 1e308 * 10",
    "A.ts > 3", "A.x + 9223372036854775807 > 0", "NOT A.b", "A.x IS NULL",
    "POWER(A.x, 1e9) > 0", "ROUND(A.y, 400) = A.y", "ROUND(A.x, -9999999999) = 0", "A.d > 0.1",
    "SUBSTRING(A.s, -9223372036854775808, 9223372036854775807) = ''", "A.x = A.s",
    "A.d * A.d > A.x",
    "A.s IN ('a', 'b', NULL)", "A.ts - NEXT(A).ts < 1 us", "A.x BETWEEN NEXT(A).x AND 3",
    "A.x < 1 OR A.b",
    "A.ts + 9223372036854775807 us > A.ts", "ABS(A.x) > 0", "A.x * A.x * A.x > 0",
    "CONCAT(A.s, A.s) = ''",
)  # fmt: skip
CONDITIONS = (
    "x > 0", "b", "NOT b", "x = 1 / 0", "s LIKE '%a%a%a%a%a%b'", "y > 1e308", "x % 0 = 1", "TRUE",
    "s IN ('a', '')", "x + 9223372036854775807 > 0", "x IS NULL", "ROUND(y, 999999) = y",
    "FALSE", "NULL",
    "ts > 7", "d > 0.1", "COALESCE(x, 1) > 0", "POWER(x, x) > 1", "x BETWEEN 1 AND 0",
)  # fmt: skip
RELATIONS = (
    "before", "after", "meets", "met by", "overlaps", "overlapped by", "starts", "started by",
    "during", "contains", "finishes", "finished by", "equals", "intersects",
)  # fmt: skip
FUNCTIONS = ("ABS", "CEIL", "EXP", "FLOOR", "LN", "LOG2", "SIGN", "SQRT", "ROUND")
TEXT_FUNCTIONS = ("TRIM", "LOWER", "UPPER", "CONCAT")


def number(rng: Rng) -> str:
    """Return a number, now and then one that is none."""
    return rng.choice(ODD_NUMBERS if rng.random() < 0.2 else NUMBERS)


def length(rng: Rng) -> str:
    """Return a length of time, now and then one that is none."""
    return rng.choice(ODD_LENGTHS if rng.random() < 0.1 else LENGTHS)


def window(rng: Rng, word: str = "WITHIN") -> str:
    """Return a window, most often one that slides."""
    slides = rng.random() < 0.7
    if rng.random() < 0.1:
        return f" {word} {length(rng)}" + (f" SLIDE {length(rng)}" if slides else "")
    if rng.random() < 0.3:
        short, long = sorted(rng.choices(COUNTED, k=2))
        return f" {word} {long} EVENTS" + (f" SLIDE {short} EVENTS" if slides else "")
    first, second = sorted(rng.choices(range(len(LENGTHS)), k=2))
    return f" {word} {LENGTHS[second]}" + (f" SLIDE {LENGTHS[first]}" if slides else "")


def odd_text(rng: Rng, quotes: str = "'") -> str:
    """Return a text of odd characters in quotes, not all of which are closed."""
    quote = rng.choice(quotes)
    some = [one for one in ODD if (quote not in one and one != HALF) or rng.random() < 0.01]
    return quote + "".join(rng.choice(some) for _ in range(rng.choice([1, 3, 200]))) + quote


def nested(rng: Rng, inner: str, opens: str, closes: str) -> str:
    """Return something with as many levels of nesting as there may be, or a few more."""
    count = rng.choice(DEPTHS)
    return opens * count + inner + closes * count


def scalar(rng: Rng, column: str) -> str:
    """Return an expression that is deep, long, or of extreme numbers."""
    count = rng.choice(COUNTS)
    text = column.endswith("s")
    match rng.randrange(6):
        case 0:
            return nested(rng, column, "(", ")")
        case 1:
            return nested(rng, column, f"{rng.choice(TEXT_FUNCTIONS if text else FUNCTIONS)}(", ")")
        case 2:
            operands = [column] * min(count, 95 if rng.random() < 0.9 else count)
            return f"CONCAT({', '.join(operands)})" if text else rng.choice("+-*/%").join(operands)
        case 3:
            return odd_text(rng) if text else rng.choice(["- ", "+"]) * min(count, 90) + column
        case 4:
            if text:
                return f"SUBSTRING({column}, {number(rng)}, {number(rng)})"
            return f"{column} {rng.choice('+-*/%')} {number(rng)}"
        case _:
            several = ", ".join(column if text else f"{column} - {n}" for n in range(count + 1))
            return f"{rng.choice(['GREATEST', 'LEAST', 'COALESCE'])}({several})"


def like(column: str, number: int) -> str:
    """Return a constant that a column can be compared with."""
    return f"'{number}'" if column.endswith("s") and not column.endswith("ts") else str(number)


def condition(rng: Rng, column: str, plain: tuple[str, ...]) -> str:
    """Return a condition of many parts, or an odd one."""
    count = rng.choice(COUNTS)
    match rng.randrange(9):
        case 0:
            return f" {rng.choice(['AND', 'OR'])} ".join(
                f"{column} > {like(column, n)}" for n in range(count)
            )
        case 1:
            return f"{column} IN ({', '.join(like(column, n) for n in range(count))})"
        case 2:
            return f"{column[:-1]}s LIKE '{rng.choice(['%a', '_%', '%%', 'a%b%']) * count}'"
        case 3:
            return (
                f"{scalar(rng, column)} {rng.choice(['=', '<', '<>', '>='])} {scalar(rng, column)}"
            )
        case 4:
            return f"{column} = {number(rng)}"
        case 5:
            return f"{column[:-1]}s LIKE {odd_text(rng)}"
        case 6:
            return " AND ".join(rng.choices(plain, k=rng.choice([2, 5, 30])))
        case 7:
            return nested(rng, f"{column} > {like(column, 1)}", rng.choice(["(", "NOT ("]), ")")
        case _:
            return rng.choice(plain)


def pattern(rng: Rng) -> str:
    """Return a pattern that is large, ambiguous or deep."""
    count = rng.choice(COUNTS)
    match rng.randrange(11):
        case 0:
            return f"SEQ(A, {', '.join(f'A v{n}' for n in range(count))})"
        case 1:
            return "A OR " + " OR ".join(f"A v{n}{rng.choice(['', '+'])}" for n in range(count))
        case 2:
            return nested(
                rng, rng.choice(PATTERNS), rng.choice(["(", "SEQ(A, ", "SEQ(NOT B, "]), ")"
            )
        case 3:
            return nested(rng, "A", "(", rng.choice([")+", ")*", ")?", "){2}", "){0,2}", "){1,}"]))
        case 4:
            return f"A{{{number(rng)},{number(rng)}}}"
        case 5:
            return f"SEQ({', '.join(rng.choices(PATTERNS, k=rng.choice([2, 3, 6])))})"
        case 6:
            return f"SEQ(A, {', '.join(f'NOT B n{n}' for n in range(count))}, C)"
        case 7:
            return f"SEQ(A, A {odd_text(rng, '`')})"
        case 8:
            return f"SEQ(A, A {'n' * 10 ** rng.randrange(6)}+)"
        case _:
            return rng.choice(PATTERNS)


def clauses(rng: Rng) -> str:
    """Return what stands behind a pattern."""
    text = ""
    if rng.random() < 0.5:
        text += " WHERE " + condition(rng, rng.choice(["A.x", "A.x", "A.s", "A.y"]), PREDICATES)
    text += rng.choice(["", "", " SEMANTICS next", " SEMANTICS contiguous"])
    text += rng.choice(["", " TIES arrival", " MIN LENGTH 3", f" MIN LENGTH {number(rng)}"])
    return text + (window(rng) if rng.random() < 0.7 else "")


def trends(rng: Rng) -> str:
    """Return a query that aggregates matches."""
    items = rng.choice(
        ["COUNT(*)", "COUNT(*), SUM(A.x), MAX(A.y)", "AVG(A.x), LOG2(COUNT(*))", "COUNT(*)"]
    )
    if rng.random() < 0.1:
        items = ", ".join(f"SUM(A.x) AS c{n}" for n in range(rng.choice(COUNTS)))
    text = f"RETURN {items} PATTERN {pattern(rng)}{clauses(rng)}"
    text += rng.choice(
        ["", "", "", " GROUP-BY key", " NUMBERS exact", " EMIT ON EXPIRY", " EMIT EARLY"]
    )
    return text + rng.choice(["", "", f" HAVING COUNT(*) > {number(rng)}"])


def matches(rng: Rng) -> str:
    """Return a query that lists matches."""
    items = rng.choice(
        ["MATCHES", "MATCHES", "A.x, A.s", f"A.{odd_text(rng, '`')}", "A.ts AS t, A.y"]
    )
    text = f"RETURN {items} PATTERN {pattern(rng)}{clauses(rng)}"
    return text + rng.choice(["", f" LIMIT {number(rng)}", " LIMIT 5"])


def situations(rng: Rng) -> str:
    """Return a query about situations."""
    count = rng.choice([2, 2, 2, 3, 3, 4, 6, 20, 63, 64, 65, 300])
    names = [f"D{n}" for n in range(count)]
    bounds: tuple[str, ...] = (
        "",
        "",
        " AT LEAST 1 us",
        " AT MOST 4611686018427387903 us",
        " BETWEEN 0 s AND 36500 days",
        " AT LEAST 2 EVENTS",
        " BETWEEN 1 EVENTS AND 9223372036854775807 EVENTS",
    )
    bounds = rng.choice([bounds, bounds, tuple(f" AT LEAST {one}" for one in LENGTHS[:9])])
    defined = [f"{n} AS {condition(rng, 'x', CONDITIONS)}{rng.choice(bounds)}" for n in names[:6]]
    defined += [f"{n} AS x > {rng.randrange(9)}" for n in names[6:]]
    text = (
        rng.choice(["", "PARTITION BY key ", "PARTITION BY key, s "])
        + f"DEFINE {', '.join(defined)}"
    )
    if rng.random() < 0.2:
        text += f" SITUATIONS {', '.join(names)}"
    else:
        related = []
        for n in range(1, count):
            some = rng.sample(RELATIONS, rng.choice([1, 2, 13]))
            related.append(f"D{rng.randrange(n)} {';'.join(some)} D{n}")
        related += related[:1] * rng.choice([0, 0, 1, 500])
        text += f" PATTERN {' AND '.join(related)}"
        text += rng.choice(["", " WITHIN ", " DETECTED WITHIN "])
        text += length(rng) if text.endswith("WITHIN ") else ""
    returned = ", ".join(
        f"{rng.choice(['FIRST', 'SUM', 'MAX', 'AVG'])}({n}.x) AS v{n}" for n in names
    )
    return text + rng.choice(
        ["", "", f" RETURN {returned}", f" RETURN COUNT(D0), LAST(D0.{odd_text(rng, '`')})"]
    )


def select(rng: Rng) -> str:
    """Return a query that filters, aggregates or joins."""
    where = f" WHERE {condition(rng, rng.choice(['x', 's', 'y', 'd']), CONDITIONS)}"
    where = rng.choice(["", where])
    match rng.randrange(4):
        case 0:
            items = ", ".join(
                f"{scalar(rng, rng.choice(['x', 's', 'y']))} AS c{n}" for n in range(3)
            )
            return f"SELECT {items} FROM e{where}"
        case 1:
            on = rng.choice(
                ["a.key = b.key", "a.x < b.x", "TRUE", condition(rng, "a.x", ("a.x = b.x",))]
            )
            length_only = window(rng, "WINDOW").partition(" SLIDE")[0]
            return f"SELECT a.x, b.s FROM e a JOIN e b ON {on}{length_only}"
        case _:
            items = rng.choice(
                ["COUNT(*), SUM(x), MAX(y)", "AVG(x), MIN(ts)", "SUM(d), MIN(d)", "COUNT(s)"]
            )
            group = rng.choice(["", " GROUP BY key", " GROUP BY s, y", " GROUP BY x, key, b"])
            return f"SELECT {items} FROM e{where}{group}{window(rng, 'WINDOW')}"


def row_pattern(rng: Rng) -> str:
    """Return a pattern of MATCH_RECOGNIZE."""
    count = rng.choice(COUNTS)
    some = (
        "A+",
        "(A|B)*",
        "(A*)*",
        "((A+)+)+ B",
        "(A|A|A)+ C",
        "A*? B*? C*?",
        "^A*$",
        "() A?",
        "(A? B?){9}",
    )
    match rng.randrange(8):
        case 0:
            return " ".join(
                f"{'AB'[n % 2]}{n // 2 or ''}{rng.choice(['', '*', '+?'])}" for n in range(count)
            )
        case 1:
            return " | ".join(f"{'AB'[n % 2]}{n // 2 or ''}" for n in range(count))
        case 2:
            return nested(rng, "A", "(", rng.choice([")", ")+", ")*", ")?", "){2}", ")*?"]))
        case 3:
            return f"A PERMUTE({', '.join(f'V{n}' for n in range(rng.choice([2, 5, 7, 9, 40])))})"
        case 4:
            return f"A{{{number(rng)},{number(rng)}}}"
        case 5:
            return " ".join(rng.choices(some, k=rng.choice([2, 6])))
        case 6:
            return "A? " * count + "A " * count
        case _:
            return rng.choice(some)


def recognize(rng: Rng) -> str:
    """Return SQL with MATCH_RECOGNIZE."""
    seen = (
        "A.x < B.x", "SUM(A.x) < 10", "COUNT(*) < 5", "x > PREV(x)",
        "FIRST(A.x) <> LAST(x, 9223372036854775807)",
        "x < PREV(x, 9999999999)", "STRING_AGG(A.s, ',') <> 'a'", "AVG(B.y) > A.y", "TRUE",
        "s LIKE '%a%a%a%b'",
        "CARDINALITY(ARRAY_AGG(x)) < 9", "CLASSIFIER() = 'A'", "MAX_BY(A.s, A.x) = 'a'",
        "x / 0 IS NULL",
    )  # fmt: skip
    defined = [f"{v} AS {rng.choice([*seen, condition(rng, 'x', CONDITIONS)])}" for v in "AB"]
    grown = nested(rng, "A.s", "REPLACE(", ", 'a', 'aaaaaaaa')")
    measures = rng.choice(
        ["COUNT(*) AS n", "CLASSIFIER() AS c, A.x AS w", f"{scalar(rng, 'A.x')} AS v",
         f"{grown} AS g",
         f"{nested(rng, 'A.x', 'CASE WHEN TRUE THEN ', ' END')} AS c", "ARRAY_AGG(x) AS a",
         "CAST(A.s AS INT) AS i",
         ", ".join(f"SUM(A.x) AS c{n}" for n in range(rng.choice(COUNTS))),
         f"CAST({number(rng)} AS STRING) AS t"]
    )  # fmt: skip
    clause = rng.choice(["", "PARTITION BY key "]) + "ORDER BY ts " + f"MEASURES {measures} "
    clause += rng.choice(["", "ALL ROWS PER MATCH ", "ALL ROWS PER MATCH WITH UNMATCHED ROWS "])
    clause += rng.choice(["", "AFTER MATCH SKIP TO NEXT ROW ", "AFTER MATCH SKIP TO LAST A "])
    shape = row_pattern(rng)
    clause += f"PATTERN ({shape if 'B' in shape and 'A' in shape else shape + ' A? B?'}) "
    clause += rng.choice(["", "", "WITHIN INTERVAL '1' SECOND ", f"WITHIN {number(rng)} "])
    text = f"MATCH_RECOGNIZE ({clause}DEFINE {', '.join(defined)})"
    match rng.randrange(5):
        case 0:
            return f"SELECT * FROM e {text} WHERE {condition(rng, 'x', CONDITIONS)}"
        case 1:
            names = range(rng.choice([2, 20, 60, 90]))
            twice = ", ".join(f"t{n + 1} AS (SELECT g || g AS g FROM t{n})" for n in names)
            first = text.replace(measures, "A.s AS g")
            last = f"SELECT LENGTH(g) AS l FROM t{len(names)}"
            return f"WITH t0 AS (SELECT * FROM e {first}), {twice} {last}"
        case 2:
            return nested(rng, f"SELECT * FROM e {text}", "SELECT * FROM (", ")")
        case _:
            return f"SELECT * FROM e {text}"


KINDS: dict[str, Shape] = {
    "trends": trends,
    "matches": matches,
    "situations": situations,
    "select": select,
    "recognize": recognize,
}
