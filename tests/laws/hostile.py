"""Hostile queries, numbered: each runs in a process of its own limits, and its outcome is told.

``python -m tests.laws.hostile FIRST LAST STEP`` writes a line before and after every query.
"""

from __future__ import annotations

import random
import resource
import sys
import time
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from tests.alarm import alarm
from tests.laws.hostile_shapes import KINDS

import cepheid

LIMIT_S = 10
"""Of processor time: a machine may have more to do."""
MEMORY = 2 << 30

SECOND = 1_000_000
DAY = 86_400 * SECOND


class Case(NamedTuple):
    """A query, and the name of its events."""

    kind: str
    text: str
    events: str


class Told(msgspec.Struct):
    """A query that begins, or its outcome: "result", a code, or what else was raised."""

    number: int
    outcome: str = ""
    seconds: float = 0.0
    text: str = ""
    events: str = ""


def tables() -> dict[str, pa.Table]:
    """Return events of several kinds, by name."""
    rng = random.Random(5)

    def table(times: list[int], keys: list[str | None]) -> pa.Table:
        count = len(times)

        def some(*values: Any) -> list[Any]:
            return [rng.choice(values) for _ in range(count)]

        return pa.table(
            {
                "ts": pa.array(times, pa.int64()),
                "type": pa.array(some("A", "A", "B", "C", "D"), pa.string()),
                "key": pa.array(keys, pa.string()),
                "x": pa.array(some(None, -2, 0, 1, 2, 3, 7, 2**63 - 1, -(2**63)), pa.int64()),
                "y": pa.array(some(None, 0.0, -0.0, 1.5, 1e308, float("nan"), float("inf"))),
                "s": pa.array(
                    some(None, "", "a", "aaaaaaaaaaaa", "é\u202e\x00", "😀"), pa.string()
                ),
                "b": pa.array(some(None, True, False), pa.bool_()),
                "d": pa.array(
                    some(None, *map(Decimal, ("0.10", "-7.25", "9.99"))), pa.decimal128(18, 2)
                ),
            }
        )

    def keys(count: int) -> list[str | None]:
        return [rng.choice(["p", "q", None]) for _ in range(count)]

    far = (1 << 62) - 1
    return {
        "empty": table([], []),
        "few": table([2 * n // 2 * SECOND for n in range(20)], keys(20)),
        "many": table([n * SECOND // 7 for n in range(300)], keys(300)),
        "ties": table([SECOND] * 60, keys(60)),
        "keys": table(list(range(200)), [f"k{n}" for n in range(200)]),
        "years": table([n * 100 * DAY for n in range(-20, 40)], keys(60)),
        "ends": table([-far, -far + 1, -1, 0, 1, 50 * DAY, far - 1, far], keys(8)),
    }


FIXED = [
    *(
        Case("trends", f"RETURN {items} PATTERN {pattern} WITHIN 1000000 s SLIDE {slide}", "few")
        for items, pattern in (
            ("key, COUNT(*)", "SEQ(A, B) GROUP-BY key"), ("COUNT(*)", "SEQ(A, B) AND C"),
            ("COUNT(*)", "A+"), ("COUNT(*)", "SEQ(NOT C, A, B)"), ("COUNT(*)", "SEQ(A, B, NOT C)"),
            ("COUNT(*), AVG(B.x)", "SEQ(A, B+) WHERE A.x < NEXT(B).x"),
            ("COUNT(*)", "A+ SEMANTICS next"),
            ("COUNT(*)", "A+ SEMANTICS contiguous"), ("COUNT(*)", "A+ NUMBERS exact"),
            ("COUNT(*)", "SEQ(A, B) WHERE SUM(A.x) < LAST(B).x"),
            ("COUNT(*)", "SEQ(A, B) WHERE [B.key]"),
            ("key, COUNT(*), AVG(A.y)", "SEQ(A, B+, C) SEMANTICS next GROUP-BY key"),
        )
        for slide in ("1 s", "3 s")
    ),
    *(
        Case("matches", f"RETURN MATCHES PATTERN {pattern} WITHIN 1000000 s SLIDE {slide}", "few")
        for pattern in (
            "SEQ(A, B)", "SEQ(NOT C, A, B)", "SEQ(A, B, NOT C)", "A+ WHERE SUM(A.x) > 1",
        )
        for slide in ("1 s", "3 s")
    ),
    *(
        Case("select", f"SELECT {items} FROM e{group} WINDOW 1000000 s SLIDE {slide}", "few")
        for items, group in (
            ("COUNT(*), SUM(x)", " GROUP BY key"), ("COUNT(*), MAX(y)", ""),
            ("SUM(y)", " GROUP BY x"),
        )
        for slide in ("1 s", "3 s")
    ),
]  # fmt: skip
"""Shapes that have been slow."""


def case(number: int) -> Case:
    """Return a hostile query by its number."""
    if number < len(FIXED):
        return FIXED[number]
    rng = random.Random(number)
    kind = list(KINDS)[number % len(KINDS)]
    events = rng.choice(["empty", "few", "few", "many", "many", "ties", "keys", "years", "ends"])
    return Case(kind, KINDS[kind](rng), events)


class SlowError(BaseException):
    """The limit has passed."""


def run(found: Case, events: pa.Table) -> None:
    """Parse, check, explain and run a query."""
    if found.kind == "recognize":
        cepheid.sql(found.text, tables={"e": events}, explain=True)
        cepheid.sql(found.text, tables={"e": events})
        return
    q = cepheid.query(found.text)
    str(q.explain())
    q.explain(format="json")
    q.format()
    q.run(events)


@contextmanager
def limited() -> Iterator[None]:
    """Run under the limits that hold where nothing is said, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def judge(found: Case, events: pa.Table) -> str:
    """Run a query; return "result", its code, or what else was raised."""
    try:
        with alarm(LIMIT_S, SlowError, processor=True), limited():
            run(found, events)
    except cepheid.CepheidError as error:
        str(error)
        return error.diagnostics[0].code
    except SlowError:
        return "slow"
    except MemoryError:
        return "memory"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "result"


def run_tables(*_: object) -> None:
    """Stand in for Spark, which runs what is more than a SELECT over tables."""
    raise cepheid.CepheidError([cepheid.Diagnostic("E613", "this is for Spark")])


def main() -> None:
    """Run the queries of a range of numbers."""
    spark = types.ModuleType("cepheid.runtimes.spark.row_pattern")
    spark.__dict__["run_tables"] = run_tables
    sys.modules[spark.__name__] = spark
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    events = tables()
    first, last, step = map(int, sys.argv[1:])
    for number in range(first, last, step):
        found = case(number)
        tell(Told(number))
        begun = time.process_time()
        outcome = judge(found, events[found.events])
        seconds = time.process_time() - begun
        tell(Told(number, outcome, seconds, ascii(found.text)[:2_000], found.events))


def tell(told: Told) -> None:
    """Write a line for who started this process."""
    sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
