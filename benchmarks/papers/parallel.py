"""Körber's thesis, section 5.7.5: figures 5.15 to 5.19, situations on many cores and machines.

Here two cores are busy with other work, so tasks run one after the other and their processor time
counts: the speed-up of k tasks is the time of one over that of the busiest of k, and of what must
follow it. It is a bound, as if every task had a core and data came at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache, partial

import numpy as np
from benchmarks import situation_cases as cases
from benchmarks import streaming_panes as panes
from benchmarks.papers.entry import Entry, Found, Panel, Point, Verdict, times
from benchmarks.papers.sweep import best
from benchmarks.situation_data import make_cars, make_flags

import cepheid
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.step import SituationState, step_situations
from cepheid.plans.plan import SituationPlan

TASKS = (1, 2, 4, 8, 16)
NODES = (1, 3, 5, 7)
QUERIES = {"pairs": "20 ms", "lasting": "100 ms", "long": "1 minute"}
CARS = """FROM cars PARTITION BY car DEFINE A AS accel > 8.0, B AS speed > 70.0, C AS accel < -8.0
    PATTERN A meets;overlaps B AND B meets;overlaps C AND A before C WITHIN 5 minutes
    RETURN AVG(B.speed) AS speed"""


def _partitioned(tasks: Sequence[int]) -> dict[int, float]:
    """Return the speed-up of so many tasks that share cars."""
    table = make_cars(600_000)
    cars = np.asarray(table["car"])
    query = cepheid.query(CARS)
    query.run(table.slice(0, 1000))
    busiest = {}
    for count in tasks:
        parts = [table.take(np.flatnonzero(cars % count == task)) for task in range(count)]
        busiest[count] = max(best(partial(query.run, part))[0] for part in parts)
    return {count: busiest[tasks[0]] / seconds for count, seconds in busiest.items()}


def partitioned() -> Found:
    """Divide cars between tasks (figure 5.15)."""
    points = tuple(Point("speed-up", count, gain) for count, gain in _partitioned(TASKS).items())
    return Found(points, "made: 600,000 events of 1,000 cars")


@cache
def _unpartitioned(tasks: tuple[int, ...]) -> dict[tuple[str, int], tuple[float, float]]:
    """Return the seconds of the busiest task and of what follows, by query and tasks."""
    batches = [panes.micro_batch(number) for number in range(1, 4)]
    found = {}
    for name in QUERIES:
        for count in tasks:
            busiest, last, _ = panes.run(panes.SITUATIONS[name], batches, count)
            found[name, count] = busiest, last
    return found


UNPARTITIONED = "made: micro-batches of 1.25 M events in 10 s, without keys"


def unpartitioned() -> Found:
    """Divide a stream without keys by time (figure 5.16)."""
    found = _unpartitioned(TASKS)
    points = [
        Point(f"window {window}", count, sum(found[name, 1]) / sum(found[name, count]))
        for name, window in QUERIES.items()
        for count in TASKS
    ]
    return Found(tuple(points), UNPARTITIONED)


def phases() -> Found:
    """Tell which part of the time the task takes that all others wait for (figure 5.17)."""
    found = _unpartitioned(TASKS)
    points = [
        Point(f"window {window}", count, found[name, count][1] / sum(found[name, count]))
        for name, window in QUERIES.items()
        for count in TASKS
        if count > 1
    ]
    return Found(tuple(points), UNPARTITIONED)


RATES = (1_000_000, 200_000, 50_000, 200_000, 1_000_000)
PHASE_S = 1.0


def batches() -> Found:
    """Let rates change, and take what has come while the last batch was worked off (figure 5.18).

    Time is processor time: a batch holds the events that arrive while its predecessor is computed.
    """
    table = make_flags(2_000_000)
    query = cepheid.query(cases.DISCONNECTED.format(500))
    job = SituationJob(SituationPlan.of(query.with_schema(table.schema).plan))
    state, _ = step_situations(job, SituationState.start(job), table.slice(0, 1000))
    now, offset, taken, points = 0.0, 1000, 0.001, []
    while now < PHASE_S * len(RATES):
        size = max(1, int(RATES[int(now / PHASE_S)] * taken))
        if offset + size > len(table):
            break
        began = time.process_time()
        state, _ = step_situations(job, state, table.slice(offset, size))
        taken = time.process_time() - began
        now, offset = now + taken, offset + size
        points.append((now, size))
    settled = [
        float(np.median([size for when, size in points if phase <= when / PHASE_S < phase + 1]))
        for phase in range(len(RATES))
        if any(phase <= when / PHASE_S < phase + 1 for when, _ in points)
    ]
    named = [
        Point("batch", f"{number + 1}: {RATES[number]:,} events/s", size)
        for number, size in enumerate(settled)
    ]
    return Found(tuple(named), "made: 2 M events of four conditions, windows of 500 s")


def cluster() -> Found:
    """Divide the work between machines (figure 5.19)."""
    points = [Point("by car", count, gain, "") for count, gain in _partitioned(NODES).items()]
    found = _unpartitioned(NODES)
    points += [
        Point("without keys", count, sum(found["lasting", 1]) / sum(found["lasting", count]))
        for count in NODES
    ]
    note = (
        "No cluster was used, and no Kafka: [on a cluster](cluster.md) tells what is tested there."
    )
    return Found(tuple(points), "those of figures 5.15 and 5.16", note)


# Comparisons ------------------------------------------------------------------------------------


def _partition(found: Found) -> Sequence[Verdict]:
    curve = found.curve("speed-up")
    return (
        Verdict(
            curve[4] > 3 and curve[8] > 6,
            f"4 tasks are bound to {times(curve[4])} the speed of one, 8 to {times(curve[8])} (the "
            "paper: nearly 4 and 7 with preloaded data), 16 to " + times(curve[16]),
        ),
    )


def _without(found: Found) -> Sequence[Verdict]:
    ends = {series: found.at(series, 8) for series in (f"window {w}" for w in QUERIES.values())}
    said = ", ".join(f"{times(gain)} with a {series}" for series, gain in ends.items())
    short, long = found.at("window 20 ms", 8), found.at("window 1 minute", 8)
    return (
        Verdict(
            max(ends.values()) > 4,
            f"8 tasks are bound to {said} (the paper: 4 to 8, more with large windows)",
        ),
        Verdict(
            long > short,
            f"a window of a minute scales to {times(long)}, one of 20 ms to {times(short)} (the "
            "paper: larger ones better); one task pairs the stretches here, which bounds both",
        ),
    )


def _phases(found: Found) -> Sequence[Verdict]:
    curve = found.curve("window 1 minute")
    return (
        Verdict(
            curve[16] > curve[2] + 0.05,
            f"the part that others wait for grows with the tasks, from {curve[2]:.0%} of 2 to "
            f"{curve[16]:.0%} of 16 in a window of a minute",
        ),
    )


def _batches(found: Found) -> Sequence[Verdict]:
    sizes = list(found.curve("batch").values())
    return (
        Verdict(
            sizes[0] > sizes[1] > sizes[2] and sizes[-1] > sizes[2],
            f"batches follow the rate by themselves, from {sizes[0]:,.0f} events to "
            f"{sizes[2]:,.0f} and back to {sizes[-1]:,.0f}; a goal of latency tunes them "
            "further ([live queries](streaming.md#a-latency-goal)); the number of threads stays",
        ),
    )


def _cluster(found: Found) -> Sequence[Verdict]:
    by_car, without = found.at("by car", 7), found.at("without keys", 7)
    return (
        Verdict(
            by_car > without,
            f"7 tasks are bound to {times(by_car)} the speed of one by car, and {times(without)} "
            "without keys: both scale, the partitioned one better, as in the paper",
        ),
    )


BOUND = Panel("", "speed-up", "tasks", "times", is_log=False)
ENTRIES = (
    Entry(
        "thesis-5.15",
        "Figure 5.15: cores, by key",
        "Aggressive drivers by car, 50 M events, 1 to 16 threads on 8 cores. From a file it scales "
        "to 4 threads, preloaded to 7; the size of batches does not matter.",
        "Cars are divided between tasks; the busiest task by processor time bounds the speed-up.",
        (BOUND,),
        partitioned,
        _partition,
    ),
    Entry(
        "thesis-5.16",
        "Figure 5.16: cores, without keys",
        "The disconnected pattern, windows of 500 to 100,000 s. Small windows saturate 4 to 6 "
        "threads, large ones use all; batches that are too small end it.",
        "Panes of time are divided between tasks, and one task pairs what they found; the busiest "
        "one and it bound the speed-up. On Spark two cores were 1.60 and 1.68 times as fast as one "
        "([by the clock](benchmarks.md#situations)).",
        (BOUND,),
        unpartitioned,
        _without,
    ),
    Entry(
        "thesis-5.17",
        "Figure 5.17: time of the phases",
        "With batches that are too small, waiting for the synchronisation takes most of the time; "
        "matching takes more with larger windows.",
        "The share of the task that pairs what the others found, the one all wait for.",
        (Panel("", "share of the time", "tasks", "%", is_log=False),),
        phases,
        _phases,
    ),
    Entry(
        "thesis-5.18",
        "Figure 5.18: tuning",
        "A component chooses the size of batches and the number of threads while the rate changes "
        "from the maximum to 1 M events/s and back; they follow at once, and the total time is "
        "that of fixed values.",
        "A batch takes what has arrived while the last one was worked off, as Spark's "
        "micro-batches do; rates change every second of CPU time. The median size in each phase:",
        (Panel("", "batch", "phase", "events"),),
        batches,
        _batches,
    ),
    Entry(
        "thesis-5.19",
        "Figure 5.19: a cluster",
        "1 to 7 machines with Kafka, 50 M events. Aggressive drivers scale with the machines, the "
        "disconnected pattern less, as only the derivation is parallel.",
        "Tasks for 1 to 7 machines, by processor time of the busiest.",
        (BOUND,),
        cluster,
        _cluster,
    ),
)
