"""How long an editor waits: CPU time of each answer of the language service, and of a keystroke.

    python -m benchmarks.language_service

Every query of the documentation and the tests is typed letter by letter in steps, and each answer
is asked for at every step. A picture of many events is timed beside.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from tests.laws.mutations import corpus

from cepheid import language_service as service
from cepheid.pictures.dots import Lanes, count_dots

COLUMNS = {"ts": "timestamp", "type": "string", "price": "double", "company": "string"}
VALUES: dict[str, list[object]] = {"type": ["Stock", "Halt"], "company": ["acme", "zeta"]}
STEP = 7
"""Letters between two questions."""
EVENTS = 5_000_000


def timed(ask: Callable[[], object]) -> float:
    """Return the CPU time of a call in milliseconds, the best of two."""
    best = float("inf")
    for _ in range(2):
        begun = time.process_time()
        ask()
        best = min(best, (time.process_time() - begun) * 1000)
    return best


def main() -> None:
    texts = corpus()
    typed = [text[:end] for text in texts for end in (*range(1, len(text), STEP), len(text))]
    for text in texts:  # Libraries and tables are loaded once.
        service.diagnostics(text, COLUMNS)
    asks: dict[str, Callable[[str], object]] = {
        "diagnostics": lambda text: service.diagnostics(text, COLUMNS),
        "complete": lambda text: service.complete(text, len(text), COLUMNS, VALUES),
        "hover": lambda text: service.hover(text, len(text), COLUMNS),
        "symbols": service.symbols,
        "format_text": service.format_text,
    }
    print(f"{len(texts)} queries, {len(typed):,} beginnings of them; milliseconds of CPU time")
    print(f"{'':12} {'median':>8} {'99 %':>8} {'most':>8}")
    for name, ask in asks.items():
        times = np.array([timed(lambda ask=ask, text=text: ask(text)) for text in typed])  # type: ignore[misc]
        shown = (np.median(times), np.percentile(times, 99), times.max())
        print(f"{name:12} " + " ".join(f"{one:8.2f}" for one in shown))
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "ts": pa.array(np.arange(EVENTS) * 1000, pa.timestamp("us")),
            "type": pa.array(["A", "B", "C"]).take(pa.array(rng.integers(0, 3, EVENTS))),
            "k": pa.array([f"key {n}" for n in range(100)]).take(
                pa.array(rng.integers(0, 100, EVENTS))
            ),
        }
    )
    lanes = Lanes(("k",), "ts", "type")
    spent = timed(lambda: count_dots(table, lanes, ()))
    print(f"dots of a timeline of {EVENTS:,} events: {spent / 1000:.2f} s")


if __name__ == "__main__":
    main()
