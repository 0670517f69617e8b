"""Shapes of queries that are exponential or quadratic in other engines: how their time grows here.

python -m benchmarks.cliffs [NAME ...]

Every shape runs over 10,000, 100,000 and 1,000,000 events, each in a process of its own that is
stopped after 20 seconds. Printed is the CPU time, and by how much ten times the events take longer:
10 is linear, 100 is quadratic. What is refused shows its code. The worst rows come first.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import time
import warnings
from queue import Empty
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import cepheid

SIZES = (10_000, 100_000, 1_000_000)
LIMIT_S = 20.0
COUNT = "RETURN COUNT(*) PATTERN "
FALLS = "A a+ WHERE a.x > NEXT(a).x"


class Shape(NamedTuple):
    """A query, the types of its events, and what is special about them."""

    query: str
    types: tuple[str, ...] = ("A", "B", "C")
    keys: int = 1
    ties: bool = False


def _optional(names: list[str]) -> str:
    return f"{COUNT}SEQ({', '.join(f'{name}?' for name in names)}, B)"


def _rows(pattern: str, **defined: str) -> str:
    meant = ", ".join(f"{name} AS {what}" for name, what in defined.items())
    return (
        "SELECT COUNT(*) AS n FROM events MATCH_RECOGNIZE ("
        f"ORDER BY ts MEASURES COUNT(*) AS c PATTERN ({pattern}) DEFINE {meant})"
    )


ONE = ("A",)
TYPES = (*(f"T{n}" for n in range(20)), "B")
SHAPES = {
    "SEQ((SEQ(A+, B+))+, C)": Shape(f"{COUNT}SEQ((SEQ(A+, B+))+, C)"),
    "(((A+)+)+)+": Shape(f"{COUNT}SEQ((((A+)+)+)+, B)"),
    "SEQ(A a+, A b+, A c+, B)": Shape(f"{COUNT}SEQ(A a+, A b+, A c+, B)"),
    "SEQ(A?, ... 20 times, B)": Shape(_optional([f"A a{n}" for n in range(20)])),
    "20 optional types": Shape(
        _optional([f"T{n}" for n in range(20)]), TYPES
    ),
    "SEQ((A OR B)*, C), conditions": Shape(
        f"{COUNT}SEQ((A OR B)*, C) WHERE A.x > 100 AND B.x > 200"
    ),
    "A{5,50}": Shape(f"{COUNT}SEQ(A{{5,50}}, B)"),
    "NOT beside loops": Shape(
        f"{COUNT}SEQ(A+, NOT N, B+, NOT M, C)", ("A", "B", "C", "N", "M")
    ),
    "nested NOT in a loop": Shape(
        f"{COUNT}(SEQ(A+, NOT SEQ(C, NOT E, D), B))+", ("A", "B", "C", "D", "E")
    ),
    "all events at one time": Shape(f"{COUNT}SEQ(A+, B)", ties=True),
    "one time, TIES arrival": Shape(f"{COUNT}SEQ(A+, B) TIES arrival", ties=True),
    "falling, one window": Shape(COUNT + FALLS),
    "falling with AVG": Shape(f"RETURN COUNT(*), AVG(a.x) PATTERN {FALLS}"),
    "falling, next-match": Shape(f"{COUNT}{FALLS} SEMANTICS next"),
    "a band around the neighbour": Shape(
        f"{COUNT}A a+ WHERE NEXT(a).x BETWEEN a.x - 3 AND a.x + 3"
    ),
    "two attributes of neighbours": Shape(
        f"{COUNT}A a+ WHERE a.x > NEXT(a).x AND a.k < NEXT(a).k", keys=1_000
    ),
    "a difference of doubles": Shape(f"{COUNT}A a+ WHERE ABS(a.x - NEXT(a).x) < 3"),
    "a product of doubles": Shape(f"{COUNT}A a+ WHERE a.x * NEXT(a).x > 5000"),
    "a million panes": Shape(f"{COUNT}SEQ(A+, B) WITHIN 100000 seconds SLIDE 1 second"),
    "falling, 1,000 windows at once": Shape(
        f"{COUNT}{FALLS} WITHIN 1000 seconds SLIDE 1 second"
    ),
    "trailing window of 100,000 events": Shape(f"{COUNT}SEQ(A, B, C) WITHIN 100000 seconds"),
    "trailing with Kleene": Shape(f"{COUNT}SEQ(A+, B) WITHIN 100000 seconds"),
    "a key for every event": Shape(
        "RETURN k, COUNT(*) PATTERN SEQ(A+, B) GROUP-BY k", keys=1_000_000
    ),
    "all matches listed": Shape("RETURN MATCHES PATTERN SEQ(A a+, B b)"),
    "the first 10 listed": Shape("RETURN MATCHES PATTERN SEQ(A a+, B b) LIMIT 10"),
    "without overlap, a long window": Shape(
        "RETURN COUNT(*) PATTERN SEQ(A a+, B b) AFTER MATCH SKIP PAST LAST WITHIN 30 days"
    ),
    "a condition on whole matches": Shape(f"{COUNT}SEQ(A a+, B b) WHERE SUM(a.x) > 100"),
    "a sample of 10": Shape("RETURN SAMPLE(10) PATTERN SEQ(A a+, B b)"),
    "rows: (A+)+ B, no B": Shape(_rows("(A+)+ B", A="type = 'A'", B="type = 'Z'"), ONE),
    "rows: A+ B+ of equal rows, no C": Shape(
        _rows("A+ B+ C", A="x >= 0", B="x >= 0", C="type = 'Z'"), ONE
    ),
    "rows: A? ... 20 times B, no B": Shape(
        _rows(" ".join(["A?"] * 20) + " B", A="type = 'A'", B="type = 'Z'"), ONE
    ),
    "rows: (A | B)* C, no C": Shape(
        _rows("(A | B)* C", A="x >= 0", B="x >= PREV(x)", C="type = 'Z'"), ONE
    ),
    "rows: A+ B with a running SUM, no B": Shape(
        _rows("A+ B", A="SUM(A.x) >= 0", B="type = 'Z'"), ONE
    ),
}  # fmt: skip


def events_of(shape: Shape, count: int) -> pa.Table:
    """Make events, a second apart or all at once."""
    random = np.random.default_rng(1)
    seconds = np.zeros(count, np.int64) if shape.ties else np.arange(count)
    kinds = pa.array(random.integers(0, len(shape.types), count), pa.int32())
    return pa.table(
        {
            "ts": pa.array(seconds * 1_000_000, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(kinds, pa.array(list(shape.types))).cast(
                pa.string()
            ),
            "k": pa.array(random.integers(0, shape.keys, count)),
            "x": pa.array(random.integers(0, 1_000, count).astype(np.float64)),
        }
    )


def answer(shape: Shape, events: pa.Table) -> Any:
    """Run a shape over events."""
    if "MATCH_RECOGNIZE" in shape.query:
        return cepheid.sql(shape.query, tables={"events": events})
    return cepheid.query(shape.query).run(events)


def _measure(name: str, count: int, told: Any) -> None:
    warnings.simplefilter("ignore")
    shape = SHAPES[name]
    with contextlib.suppress(cepheid.CepheidError):
        answer(shape, events_of(shape, 200))  # What is compiled once is not measured.
    events = events_of(shape, count)
    began = time.process_time()
    try:
        answer(shape, events)
    except cepheid.CepheidError as error:
        told.put(error.diagnostics[0].code)
        return
    told.put(time.process_time() - began)


def run_shape(name: str) -> list[float | str]:
    """Return the CPU seconds for each size; a code where it is refused, "> 20" where stopped."""
    found: list[float | str] = []
    context = multiprocessing.get_context("spawn")
    for count in SIZES:
        told = context.Queue()
        child = context.Process(target=_measure, args=(name, count, told))
        child.start()
        try:
            found.append(told.get(timeout=2 * LIMIT_S))  # Others may share the machine.
        except Empty:
            found.append(f"> {LIMIT_S:.0f}")
        child.kill()
        child.join()
        if isinstance(found[-1], str) or found[-1] > LIMIT_S / 4:
            break
    return found


def growth(found: list[float | str]) -> float:
    """Return by how much the last tenfold of events took longer."""
    numbers = [one for one in found if isinstance(one, float)]
    if isinstance(found[-1], str) and found[-1].startswith(">"):
        return 1_000.0
    return numbers[-1] / max(numbers[-2], 0.01) if len(numbers) > 1 else 0.0


def main() -> None:
    """Run all shapes, or those that are named, and print them."""
    names = [name for name in SHAPES if not sys.argv[1:] or name in sys.argv[1:]]
    rows = []
    for name in names:
        found = run_shape(name)
        rows.append((growth(found), name, found))
        print(f"  {name}", file=sys.stderr)
    print("| shape | 10,000 | 100,000 | 1,000,000 | ten times the events |\n|---|---|---|---|---|")
    for times, name, found in sorted(rows, reverse=True):
        shown = [one if isinstance(one, str) else f"{one:.2f}" for one in found]
        shown += [""] * (len(SIZES) - len(shown))
        print(f"| {name} | {' | '.join(shown)} | {f'{times:.0f} ×' if times else ''} |")


if __name__ == "__main__":
    main()
