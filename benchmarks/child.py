"""Measure one task in a process of its own: a task as JSON in, lines of JSON out.

The first line says that the input is ready and everything is compiled; the time limit starts there.
The second line is the measurement.
"""

from __future__ import annotations

import gc
import math
import os
import sys
import time
from pathlib import Path

import msgspec
from benchmarks.cases import Case, LimitReachedError
from benchmarks.measure import KB_PER_MB, forget_peak, peak_mb
from benchmarks.methods import prepare, warm_up
from benchmarks.tasks import CLOCK_VARIABLE, Measurement, Task, Timing

READY = "ready"


def main() -> None:
    """Measure the task that the first argument holds."""
    task = msgspec.json.decode(sys.argv[1], type=Task)
    # Every method gets one core: what is compared is the work, not the number of threads.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        measurement = _measure(task)
    except LimitReachedError:
        measurement = Measurement(task, "limit", peak_mb=peak_mb())
    except Exception as error:  # The parent shows it.
        reason = f"{type(error).__name__}: {error}"
        measurement = Measurement(task, "failed", peak_mb=peak_mb(), message=reason)
    _say(msgspec.json.encode(measurement).decode())


def _measure(task: Task) -> Measurement:
    warm_up(task)
    cases = prepare(task)
    gc.collect()
    forget_peak()
    before_mb = _resident_mb()
    _say(READY)
    timings = _time(task, cases)
    highest_mb = peak_mb()
    return Measurement(task, "ok", timings, highest_mb, max(highest_mb - before_mb, 0.0))


def _time(task: Task, cases: list[Case]) -> tuple[Timing, ...]:
    """Run the cases in turn, so that noise meets all of them, and keep the best time of each."""
    best = [float("inf")] * len(cases)
    checks = [0.0] * len(cases)
    # On a busy machine the processor's time says more: a process has one core at most.
    clock = time.process_time if os.environ.get(CLOCK_VARIABLE) == "cpu" else time.perf_counter
    began = time.perf_counter()
    for _ in range(task.rounds_max):
        for i, case in enumerate(cases):
            start = clock()
            checks[i] = case.run()
            best[i] = min(best[i], clock() - start)
        if time.perf_counter() - began > task.budget_s:
            break
    return tuple(
        Timing(case.name, len(case.stream), seconds, check if math.isfinite(check) else None)
        for case, seconds, check in zip(cases, best, checks, strict=True)
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / KB_PER_MB**2


if __name__ == "__main__":
    main()
