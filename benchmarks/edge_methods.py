"""The methods of the experiments on predicates between neighbours; see `benchmarks.methods`.

A check is the logarithm of the number of trends. It is infinite where GRETA's doubles end, and then
compared with nothing.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from benchmarks import edge_streams, ours
from benchmarks.baselines import greta_edges
from benchmarks.cases import Case

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from benchmarks.tasks import Task

EVENTS_MIN = 1_000
"""Fewer would compile less than a benchmark uses."""

WITHIN_US, SLIDE_US = 600_000_000, 10_000_000
FALLING = "A.price > NEXT(A).price"
SELECTIVITY_EVENTS = 100_000
LOOPS = {"loop": greta_edges.PLAIN, "vectorised": greta_edges.VECTORISED}
EVALUATORS = {"ours": None, "pairwise": "pairwise"}


def log2_total(table: pa.Table, name: str = "log2_count") -> float:
    """Return the logarithm of the sum over all rows of a column of logarithms."""
    column = table.column(name).to_numpy()
    column = column[np.isfinite(column)]
    if not column.size:
        return 0.0
    peak = column.max()
    return float(peak + np.log2(np.exp2(column - peak).sum()))


def _log2_sum(counts: np.ndarray) -> float:
    with np.errstate(over="ignore"):
        return float(np.log2(counts.sum()))


def _ours(text: str, table: pa.Table, evaluator: str | None = None) -> float:
    return log2_total(ours.run(text, table, evaluator))


def _any(condition: str, clause: str = "", item: str = "LOG2(COUNT(*))") -> str:
    return f"RETURN {item} PATTERN A+ WHERE {condition} {clause}"


# One window -------------------------------------------------------------------------------------


def _one(task: Task, event_count: int, condition: str, f: float, g: float) -> Case:
    """Return a method on one window; the loop tests f · prev > g · next."""
    stream = edge_streams.prices(max(event_count, EVENTS_MIN))
    if task.method in LOOPS:
        run: Callable[[], float] = partial(_loop, task.method, stream.prices * f, stream.prices * g)
    else:
        run = partial(_ours, _any(condition), stream.table(), EVALUATORS[task.method])
    return Case(task.method, stream, run)


def _loop(method: str, f: edge_streams.Floats, g: edge_streams.Floats) -> float:
    return math.log2(LOOPS[method](f, g))


def _falling(task: Task) -> list[Case]:
    return [_one(task, task.size, FALLING, 1, 1)]


def _growth(task: Task) -> list[Case]:
    sizes = (task.size // 10, task.size * 3 // 10, task.size)
    return [_one(task, size, FALLING, 1, 1) for size in sizes]


def _factor(percent: int) -> float:
    """Return x such that p · x < q holds for so many of all pairs of uniform prices."""
    share = percent / 100
    return 1 / (2 * share) if share < 0.5 else 2 * (1 - share)


def _selective(task: Task, percent: int, event_count: int) -> Case:
    x = _factor(percent)
    return _one(task, event_count, f"A.price * {x!r} < NEXT(A).price", -x, -1)


def _selectivity(task: Task) -> list[Case]:
    """Vary the share of pairs that satisfy the predicate (GRETA figure 16, COGRA figure 13)."""
    return [_selective(task, task.size, SELECTIVITY_EVENTS)]


def _bar_selectivity(task: Task) -> list[Case]:
    return [_selective(task, percent, task.size) for percent in (10, 30, 50, 70, 90)]


# Windows that slide -----------------------------------------------------------------------------


def _sliding(task: Task, windows: int = 2, events_min: int = 0) -> list[Case]:
    """Windows of `size` events, each event in 60 of them."""
    size = max(task.size, EVENTS_MIN)
    stream = edge_streams.prices(max(windows * size, events_min), step_us=WITHIN_US // size)
    if task.method in LOOPS:
        arrays = stream.times_us, stream.prices, stream.prices, WITHIN_US, SLIDE_US
        loop = LOOPS[task.method]
        return [
            Case(
                task.method,
                stream,
                lambda: _log2_sum(greta_edges.counts_windows(loop, *arrays)),
            )
        ]
    text = _any(FALLING, f"WITHIN {WITHIN_US} us SLIDE {SLIDE_US} us")
    return [Case(task.method, stream, partial(_ours, text, stream.table()))]


# Aggregates, semantics and other predicates ------------------------------------------------------

VARIETIES = {
    "COUNT(*)": _any(FALLING),
    "COUNT(*), 100 keys": _any(f"[key] AND {FALLING}"),
    "SUM(price)": _any(FALLING, item="LOG2(SUM(A.price)) AS log2_count"),
    "AVG(price)": _any(FALLING, item="AVG(A.price) AS log2_count"),
    "MIN(price)": _any(FALLING, item="MIN(A.price) AS log2_count"),
    "COUNT, SUM, AVG, MIN, MAX": _any(
        FALLING,
        item="LOG2(COUNT(*)), SUM(A.price), AVG(A.price), MIN(A.price), MAX(A.price)",
    ),
    "skip-till-next-match": _any(FALLING, "SEMANTICS skip-till-next-match"),
    "contiguous": _any(FALLING, "SEMANTICS contiguous"),
    "key = NEXT(key)": _any("A.key = NEXT(A).key"),
}


def _varieties(task: Task) -> list[Case]:
    stream = edge_streams.prices(max(task.size, EVENTS_MIN))
    table = stream.table()
    return [Case(name, stream, partial(_ours, text, table)) for name, text in VARIETIES.items()]


# GRETA's queries ----------------------------------------------------------------------------------

GRETA_QUERIES = {
    "q1": (
        "RETURN sector, COUNT(*), LOG2(COUNT(*)) PATTERN trade S+ "
        "WHERE [company, sector] AND {} GROUP-BY sector WITHIN 10 minutes SLIDE 10 seconds",
        "S.price",
        "NEXT(S).price",
    ),
    "q2": (
        "RETURN mapper, SUM(M.cpu), LOG2(COUNT(*)) PATTERN SEQ(Start S, Measurement M+, End E) "
        "WHERE [job, mapper] AND {} GROUP-BY mapper WITHIN 1 minute SLIDE 30 seconds",
        "M.load",
        "NEXT(M).load",
    ),
    "q3": (
        "RETURN segment, COUNT(*), AVG(P.speed), LOG2(COUNT(*)) "
        "PATTERN SEQ(NOT Accident A, Position P+) "
        "WHERE [P.vehicle, segment] AND {} GROUP-BY segment WITHIN 5 minutes SLIDE 1 minute",
        "P.speed",
        "NEXT(P).speed",
    ),
}
FACTORS = ("1", "1.05", "1.1", "1.15", "1.2")


def variations(key: str) -> dict[str, str]:
    """Return ten queries: the value falls, or rises, by at least a factor."""
    text, earlier, later = GRETA_QUERIES[key]
    falls = {f"falls, x {x}": f"{earlier} > {later} * {x}" for x in FACTORS}
    rises = {f"rises, x {x}": f"{earlier} * {x} < {later}" for x in FACTORS}
    # The query itself comes first: Q2 asks for rising load.
    conditions = rises | falls if key == "q2" else falls | rises
    return {name: text.format(condition) for name, condition in conditions.items()}


def _greta(task: Task, key: str) -> list[Case]:
    table = _greta_table(key, max(task.size, EVENTS_MIN))
    return [
        Case(name, table, partial(_ours, text, table)) for name, text in variations(key).items()
    ]


def _greta_table(key: str, event_count: int) -> pa.Table:
    if key == "q2":
        return edge_streams.cluster(event_count)
    folder = edge_streams.data_folder()
    if folder is None:
        raise FileNotFoundError(edge_streams.MISSING)
    table = edge_streams.trades(folder) if key == "q1" else edge_streams.road(folder)
    return table.slice(0, event_count)


PREPARATIONS: dict[str, Callable[[Task], list[Case]]] = {
    "falling": _falling,
    "falling-sliding": _sliding,
    "selectivity": _selectivity,
    "varieties": _varieties,
    "bar-growth": _growth,
    "bar-selectivity": _bar_selectivity,
    "bar-falling-sliding": partial(_sliding, windows=5, events_min=200_000),
    "q1": partial(_greta, key="q1"),
    "q2": partial(_greta, key="q2"),
    "q3": partial(_greta, key="q3"),
}
