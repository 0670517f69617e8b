"""Every method of every experiment: a task in, functions that are ready to be timed out.

A check is a number that all methods must agree on: the logarithm of the count, summed over the
windows, since counts leave the range of doubles at a thousand events.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from benchmarks import edge_methods, ours, streams
from benchmarks.baselines import aseq, cogra, greta, sase
from benchmarks.baselines.template import KLEENE, sequence
from benchmarks.cases import Case, LimitReachedError

if TYPE_CHECKING:
    import pyarrow as pa
    from benchmarks.tasks import Task

WINDOWS_PER_EVENT = 60
TEN_MINUTES_US = 600_000_000
TEN_SECONDS_US = 10_000_000
WARM_UP_SIZE = 8
ASEQ_EVENTS = 400_000
"""Events of the experiments on start-event marking; a window of 100,000 starts holds 300,000."""

NEXT = "SEMANTICS skip-till-next-match"
CONTIGUOUS = "SEMANTICS contiguous"


def prepare(task: Task) -> list[Case]:
    """Make the input of a task, and return what is to be timed."""
    return _PREPARATIONS[task.experiment](task)


def warm_up(task: Task) -> None:
    """Run the task on a few events, so that everything is compiled."""
    for case in prepare(msgspec.structs.replace(task, size=WARM_UP_SIZE)):
        case.run()


def _column_sum(table: pa.Table, name: str) -> float:
    column = table.column(name).to_numpy()
    return math.fsum(column[np.isfinite(column)])


def _ours(text: str, table: pa.Table, column: str) -> float:
    return _column_sum(ours.run(text, table), column)


# One window -------------------------------------------------------------------------------------


def _one_window(task: Task, clause: str = "") -> list[Case]:
    stream = streams.uniform(task.size)
    codes = stream.type_codes
    match task.method:
        case "ours":
            text = f"RETURN LOG2(COUNT(*)) PATTERN {KLEENE.pattern} {clause}"
            run = partial(_ours, text, stream.table(), "log2_count")
        case "cogra" if clause:
            run = partial(_pattern_grained, codes, contiguous=clause == CONTIGUOUS)
        case "cogra":
            run = partial(cogra.log2_count, codes, KLEENE)
        case "greta":
            run = partial(greta.log2_count, codes, KLEENE)
        case "aseq":
            run = partial(aseq.log2_count_flattened, codes, KLEENE)
        case _:
            semantics = {"": "any", NEXT: "next", CONTIGUOUS: "contiguous"}[clause]
            run = partial(_enumerate, codes, semantics, task.limit_s)
    return [Case(task.method, stream, run)]


def _pattern_grained(codes: cogra.Codes, *, contiguous: bool) -> float:
    count = cogra.count_pattern_grained(codes, KLEENE, contiguous=contiguous)
    return math.log2(count) if count else 0.0


def _enumerate(codes: cogra.Codes, semantics: str, limit_s: float) -> float:
    found = sase.count_trends(codes, KLEENE, semantics=semantics, limit_s=limit_s)
    if not found.is_complete:
        raise LimitReachedError
    return math.log2(found.trend_count) if found.trend_count else 0.0


# Windows that slide -----------------------------------------------------------------------------


def _sliding(task: Task) -> list[Case]:
    """Windows of `size` events, each event in 60 of them, over a stream of two windows."""
    stream = streams.uniform(2 * task.size)
    within_us = task.size * streams.STEP_US
    return [_window_case(task.method, stream, within_us, within_us // WINDOWS_PER_EVENT)]


def _window_case(method: str, stream: streams.Stream, within_us: int, slide_us: int) -> Case:
    arrays = stream.times_us, stream.type_codes, KLEENE, within_us, slide_us
    if method == "ours":
        clause = f"WITHIN {within_us} us SLIDE {slide_us} us"
        text = f"RETURN LOG2(COUNT(*)) PATTERN {KLEENE.pattern} {clause}"
        return Case(method, stream, partial(_ours, text, stream.table(), "log2_count"))
    log2_counts = cogra.log2_counts_windows if method == "cogra" else greta.log2_counts_windows
    return Case(method, stream, lambda: math.fsum(log2_counts(*arrays)[1]))


def _bar_sliding(task: Task) -> list[Case]:
    stream = streams.uniform(task.size)
    tumbling = _window_case(task.method, stream, TEN_MINUTES_US, TEN_MINUTES_US)
    sliding = _window_case(task.method, stream, TEN_MINUTES_US, TEN_SECONDS_US)
    return [tumbling, sliding]


# A-Seq: WITHIN without SLIDE --------------------------------------------------------------------


def _within(task: Task, types: str, type_count: int, within_us: int, event_count: int) -> Case:
    stream = streams.uniform(event_count, type_count=type_count)
    if task.method == "ours":
        text = f"RETURN COUNT(*) PATTERN {sequence(types).pattern} WITHIN {within_us} us"
        run: Callable[[], float] = partial(_ours, text, stream.table(), "count")
    else:
        run = partial(_start_event_marking, stream, types, within_us)
    return Case(task.method, stream, run)


def _start_event_marking(stream: streams.Stream, types: str, within_us: int) -> float:
    found = aseq.count_within(stream.times_us, stream.type_codes, types, within_us)
    return math.fsum(found.counts[found.is_match_end])


def _length(task: Task) -> list[Case]:
    """Vary the length of the sequence, in the last second (A-Seq figure 12)."""
    types = "ABCDE"[: task.size]
    return [_within(task, types, 6, 1_000_000, 120_000)]


def _starts(task: Task) -> list[Case]:
    """Vary the number of active starts (A-Seq figure 13)."""
    return [_within(task, "ABC", 3, 3 * task.size * streams.STEP_US, ASEQ_EVENTS)]


def _bar_starts(task: Task) -> list[Case]:
    windows_us = [3 * starts * streams.STEP_US for starts in (100, 100_000)]
    return [_within(task, "ABC", 3, within_us, task.size) for within_us in windows_us]


# Bars about Cepheid alone -----------------------------------------------------------------------


def _bar_keys(task: Task) -> list[Case]:
    text = f"RETURN LOG2(COUNT(*)) PATTERN {KLEENE.pattern} WHERE [key]"
    drawn = [streams.uniform(task.size, key_count=keys) for keys in (1, 10_000)]
    return [Case("ours", s, partial(_ours, text, s.table(), "log2_count")) for s in drawn]


def _bar_aggregates(task: Task) -> list[Case]:
    stream = streams.uniform(task.size, prices=True)
    table = stream.table()
    items = ("COUNT(*)", "SUM(A.price), MIN(A.price), MAX(A.price), AVG(A.price)")
    texts = [f"RETURN {item} PATTERN {KLEENE.pattern}" for item in items]
    columns = ("count", "min_A_price")
    return [
        Case("ours", stream, partial(_ours, text, table, column))
        for text, column in zip(texts, columns, strict=True)
    ]


_PREPARATIONS: dict[str, Callable[[Task], list[Case]]] = {
    "any": _one_window,
    "next": partial(_one_window, clause=NEXT),
    "contiguous": partial(_one_window, clause=CONTIGUOUS),
    "sliding": _sliding,
    "length": _length,
    "starts": _starts,
    "bar-sliding": _bar_sliding,
    "bar-starts": _bar_starts,
    "bar-keys": _bar_keys,
    "bar-aggregates": _bar_aggregates,
    **edge_methods.PREPARATIONS,
}
