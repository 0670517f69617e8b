"""How long it takes from a fresh interpreter to an explained query, and to read large queries.

Bar: import, parse and explain in under 150 ms.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from cepheid.api import query

QUERY = (
    "RETURN sector, COUNT(*), AVG(S.price) PATTERN Stock S+ "
    "WHERE [company, sector] AND S.price > NEXT(S).price "
    "GROUP-BY sector WITHIN 10 minutes SLIDE 10 seconds"
)
RUNS_COUNT = 15
BAR_MS = 150


def measure() -> Iterator[tuple[str, str]]:
    """Yield what was measured and the figure, in words."""
    empty = _fresh_ms("pass")
    full = _fresh_ms(f"import cepheid; cepheid.query({QUERY!r}).explain()")
    verdict = "met" if full < BAR_MS else "MISSED"
    yield "fresh interpreter alone", f"{empty:.0f} ms"
    bar = f"bar {BAR_MS} ms: {verdict}"
    yield "import, parse, explain in a fresh interpreter", f"{full:.0f} ms ({bar})"
    yield "parse and plan one query, warm", f"{_warm_ms(QUERY):.2f} ms"
    chain = "RETURN COUNT(*) PATTERN A+ WHERE " + " AND ".join(["A.x > 1"] * 1000)
    yield f"parse and plan {len(chain):,} characters, warm", f"{_warm_ms(chain):.0f} ms"
    deep = "RETURN COUNT(*) PATTERN (A x OR B y){60} MIN LENGTH 60"
    yield "parse and plan a pattern of 120 positions, warm", f"{_warm_ms(deep):.0f} ms"


def _fresh_ms(code: str) -> float:
    # An installed package is compiled; so is this one after the first run, which does not count.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    times = []
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    for _ in range(RUNS_COUNT):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def _warm_ms(text: str) -> float:
    times = []
    for _ in range(RUNS_COUNT):
        start = time.perf_counter()
        query(text)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)
