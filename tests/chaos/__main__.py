"""The long chaos: a thousand kills in rounds; ``make chaos`` goes on where it was stopped.

Each round is a line of ``tests/chaos/rounds.jsonl``, which is kept with the source so that rounds
add up over commits, and ``docs/chaos.md`` is the table of all.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import msgspec
from tests.chaos.kinds import KINDS
from tests.chaos.rounds import Result, Round
from tests.chaos.routes import ROUTES, Route
from tests.servers import start_broker, start_postgres

ROOT = Path(__file__).parents[2]
DONE = ROOT / "tests/chaos/rounds.jsonl"
LOGS = ROOT / "build/chaos"
TABLE = ROOT / "docs/chaos.md"
MEMORY = Path("/dev/shm")
DRIVERS, WORKERS = 100, 900
RECORDS = 1200
SEED = 1000
KILLS = (16, 9)
"""Drivers that are killed in a round, at most, and workers that are killed in a driver's life."""
HALVES = (("aggregates", "panes", "matches", "select", "funnel"),
          ("edges", "situations", "counted", "rows", "workload"))  # fmt: skip

ABOUT = """# Chaos

`make chaos` runs live queries while their drivers, JVMs and workers are killed by SIGKILL. One
record of a hundred is bad, one of ten is out of order, one of a hundred is late, and the clock
jumps; once in a round the broker or PostgreSQL restarts, or the disk is full. In the end a query
must have written the rows of a batch run over the good records that are not late, each once, and
each late event and each bad record once; every micro-batch that told its numbers must have added
up. `tests/chaos/` has the details.
"""
NOTES = """
A driver gives up if a server is away for longer than it waits, if the disk is full, or if a busy
machine does not start a Python process within Spark's ten seconds; the next one goes on. Rows, late
and bad are sums over the queries.
"""
assert {name for half in HALVES for name in half} == set(KINDS)


def run_round(number: int) -> Result:
    """Run the round of a number: its route and kinds take turns."""
    route, kinds = ROUTES[number % len(ROUTES)], HALVES[number // len(ROUTES) % 2]
    place = MEMORY if MEMORY.is_dir() else None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory("-chaos", dir=place)))
        folder.chmod(0o755)  # PostgreSQL is another user.
        broker = postgres = None
        if "Kafka" in route:
            (folder / "broker").mkdir()
            broker = start_broker(folder / "broker")
            stack.callback(broker.stop, kill=True)
        if "PostgreSQL" in route:
            postgres = start_postgres(folder / "postgres")
            stack.callback(postgres.stop)
        places = Route(f"chaos-{number}", route, folder / "round", broker, postgres)
        result = Round(SEED + number, places, kinds, RECORDS, KILLS).run()
        if result.wrong:
            LOGS.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / "round" / "log", LOGS / f"log-{number}.txt")
    return result


def read() -> list[Result]:
    """Read the rounds that were run before."""
    lines = DONE.read_bytes().splitlines() if DONE.exists() else []
    return [msgspec.json.decode(line, type=Result) for line in lines]


def main() -> int:
    """Run rounds until enough was killed, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, help="how many rounds to run now")
    parser.add_argument("--jobs", type=int, default=1, help="how many rounds run side by side")
    wanted = parser.parse_args()
    done, one_by_one = read(), threading.Lock()
    begun = {result.seed - SEED for result in done}
    numbers = iter(range(wanted.rounds))

    def run_rounds() -> None:
        while True:
            with one_by_one:
                if enough(done) or next(numbers, None) is None:
                    return
                number = next(number for number in count() if number not in begun)
                begun.add(number)
            result = run_round(number)
            with one_by_one:
                done.append(result)
                with DONE.open("ab") as file:
                    file.write(msgspec.json.encode(result) + b"\n")
                TABLE.write_text(table(done))
                sys.stdout.write(f"{_line(result)}\n")
                sys.stdout.writelines(f"    {text}\n" for text in result.wrong)
                sys.stdout.flush()

    with ThreadPoolExecutor(wanted.jobs) as pool:
        for running in [pool.submit(run_rounds) for _ in range(wanted.jobs)]:
            running.result()
    return 1 if any(result.wrong for result in done) else 0


def enough(done: Iterable[Result]) -> bool:
    """Check whether enough drivers and workers were killed."""
    kept = list(done)
    return _sum(kept, "drivers") >= DRIVERS and _sum(kept, "workers") >= WORKERS


def _sum(done: Iterable[Result], name: str) -> int:
    return sum(getattr(result, name) for result in done)


def table(done: list[Result]) -> str:
    """Format the page of all rounds."""
    wrong = sum(bool(result.wrong) for result in done)
    verdict = "in all of them the answer was right" if not wrong else f"{wrong} of them went wrong"
    killed = f"{_sum(done, 'drivers'):,} drivers and JVMs, {_sum(done, 'workers'):,} workers"
    names = (
        "seed, route, queries, records, drivers, workers, fault, gave up, rows, late, bad, minutes"
    )
    head = f"| {names.replace(', ', ' | ')} |\n{'|---' * len(names.split(', '))}|\n"
    lines = [f"{_line(result)}\n" for result in sorted(done, key=lambda one: one.seed)]
    total = f"Killed: {killed}, in {len(done)} rounds; {verdict}.\n\n"
    return f"{ABOUT}\n{total}{head}{''.join(lines)}{NOTES}"


def _line(one: Result) -> str:
    route = one.route if not one.wrong else f"**wrong:** {one.route}"
    cells = [
        one.seed, route, ", ".join(one.kinds), f"{one.records:,}", one.drivers, one.workers,
        ", ".join(one.faults), one.given_up, f"{one.rows:,}", one.late, one.bad,
        f"{one.seconds / 60:.1f}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    sys.exit(main())
