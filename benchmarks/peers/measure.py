"""Run the cases in processes of their own: cases and systems in, measurements out.

All systems read the same events, and every answer must agree with that of Cepheid.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.cases import Case
from benchmarks.peers.data import file_of
from benchmarks.peers.systems import OURS, ROOT, JavaSystem, System

CPU_LIMITS = 3
"""A process may take so many times the CPU seconds of the limit, with loading and compiling."""
WALL_LIMITS = 12
"""On a busy machine it takes longer by the clock."""
TOLERANCE = 1e-9
LATE = "no time was left"
STAT = Path("/proc/stat")
KERNELS = "compile"
"""As after `cepheid warm`: what a query needs is compiled before it runs."""


@dataclass(frozen=True, slots=True)
class Found:
    """The best run of a system on the largest file that it could read; or why there is none."""

    system: str
    case: str
    events: int = 0
    wall_s: float = math.nan
    cpu_s: float = math.nan
    checks: tuple[tuple[int, tuple[float, ...]], ...] = ()
    reason: str = ""

    @property
    def is_measured(self) -> bool:
        """Return whether there is a run."""
        return self.events > 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What all runs have in common; systems of Java get ``slow_share`` times fewer events."""

    folder: Path
    events: int
    limit_s: float
    rounds: int
    slow_share: int = 1


def event_counts(events: int) -> tuple[int, ...]:
    """Return the sizes of the files."""
    return events // 100, events // 10, events


def measure(plan: Plan, system: System, case: Case, left_s: float = math.inf) -> Found:
    """Run a case with a system, in the seconds by the clock that are left."""
    if case.name in system.dashes:
        return Found(system.name, case.name, reason=system.dashes[case.name])
    if left_s <= 0:
        return Found(system.name, case.name, reason=LATE)
    smallest = plan.events // system.first_share
    largest = plan.events // (plan.slow_share if isinstance(system, JavaSystem) else 1)
    counts = [count for count in event_counts(plan.events) if smallest <= count <= largest]
    stems = [file_of(plan.folder, case.data, count) for count in counts]
    command = system.command(case.name, plan.limit_s, plan.rounds, stems)
    environment = os.environ | {"CEPHEID_KERNELS": KERNELS}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, preexec_fn=_limited(plan.limit_s),
    )  # fmt: skip
    try:
        said, problem = process.communicate(timeout=min(WALL_LIMITS * plan.limit_s, left_s))
    except subprocess.TimeoutExpired:
        process.kill()
        said, problem = process.communicate()
    # The last line is cut off where a process was ended while it wrote.
    lines: list[dict[str, Any]] = []
    for line in said.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            if line.startswith("{"):
                lines.append(json.loads(line))
    if not lines:
        return Found(system.name, case.name, reason=_why(process.returncode, problem, plan.limit_s))
    why = _why(process.returncode, problem, plan.limit_s) if process.returncode else ""
    return _best(system, case, lines, why)


def _limited(limit_s: float) -> Callable[[], None]:
    seconds = math.ceil(CPU_LIMITS * limit_s)
    return lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def _why(status: int, problem: str, limit_s: float) -> str:
    if status < 0:
        return f"stopped after {CPU_LIMITS * limit_s:.0f} CPU seconds"
    return f"fails: {problem.strip().splitlines()[-1][:200] if problem.strip() else status}"


def _best(system: System, case: Case, lines: Sequence[dict[str, Any]], why: str) -> Found:
    sizes = [int(Path(line["file"]).stem.rpartition("-")[2]) for line in lines]
    largest = [line for line, size in zip(lines, sizes, strict=True) if size == max(sizes)]
    checks = {(size, tuple(line["check"])) for line, size in zip(lines, sizes, strict=True)}
    return Found(
        system.name,
        case.name,
        max(sizes),
        min(line["wall"] for line in largest),
        min(line["cpu"] for line in largest),
        tuple(sorted(checks)),
        why,
    )


@contextlib.contextmanager
def other_work(shares: list[float]) -> Iterator[None]:
    """Add the cores that processes took which were not started here, while something runs."""
    busy, mine, clock = _busy_s(), _children_s(), time.monotonic()
    yield
    others = (_busy_s() - busy) - (_children_s() - mine)
    shares.append(max(others, 0.0) / (time.monotonic() - clock))


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _busy_s() -> float:
    """Return the CPU seconds of all processes since the machine started, as Linux counts them."""
    user, nice, system, _, _, *interrupts = map(
        int, STAT.read_text("ascii").split("\n")[0].split()[1:]
    )
    return (user + nice + system + sum(interrupts[:3])) / os.sysconf("SC_CLK_TCK")


def disagreements(found: Iterable[Found]) -> list[str]:
    """Return a line for each answer that differs from that of Cepheid."""
    every = list(found)
    ours = {
        (one.case, size): check
        for one in every if one.system == OURS.name for size, check in one.checks
    }  # fmt: skip
    return [
        f"{one.case}, {one.system}, {size:,} events: {list(check)}, "
        f"not {list(ours[one.case, size])}"
        for one in every
        for size, check in one.checks
        if (one.case, size) in ours and not agree(check, ours[one.case, size])
    ]


def agree(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether two checks are equal, but for the last digits of sums."""
    return len(one) == len(other) and all(
        math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(one, other, strict=True)
    )
